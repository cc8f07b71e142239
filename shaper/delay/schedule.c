#include "shaper/delay/schedule.h"

#include <errno.h>
#include <stdlib.h>

#define RING_MIN 64

int delay_schedule_init(struct delay_schedule *s, int n_links)
{
	*s = (struct delay_schedule){ .n_links = n_links };
	s->links = calloc((size_t)n_links + 1, sizeof(*s->links));
	s->heap = calloc((size_t)n_links + 1, sizeof(*s->heap));
	if (!s->links || !s->heap) {
		delay_schedule_free(s);
		return -ENOMEM;
	}
	for (int i = 0; i < n_links; i++)
		s->links[i].heap_at = -1;
	return 0;
}

void delay_schedule_free(struct delay_schedule *s)
{
	for (int i = 0; s->links && i < s->n_links; i++)
		free(s->links[i].ring);
	free(s->links);
	free(s->heap);
	*s = (struct delay_schedule){ 0 };
}

static int64_t head_due(const struct delay_schedule *s, int heap_at)
{
	const struct held_fifo *f = &s->links[s->heap[heap_at]];

	return f->ring[f->head].due_ns;
}

static void heap_set(struct delay_schedule *s, int at, int link)
{
	s->heap[at] = link;
	s->links[link].heap_at = at;
}

static void sift_up(struct delay_schedule *s, int at)
{
	while (at > 0) {
		int parent = (at - 1) / 2, link = s->heap[at];

		if (head_due(s, parent) <= head_due(s, at))
			return;
		heap_set(s, at, s->heap[parent]);
		heap_set(s, parent, link);
		at = parent;
	}
}

static void sift_down(struct delay_schedule *s, int at)
{
	for (;;) {
		int child = 2 * at + 1, link = s->heap[at];

		if (child >= s->n_heap)
			return;
		if (child + 1 < s->n_heap && head_due(s, child + 1) < head_due(s, child))
			child++;
		if (head_due(s, at) <= head_due(s, child))
			return;
		heap_set(s, at, s->heap[child]);
		heap_set(s, child, link);
		at = child;
	}
}

static int ring_grow(struct held_fifo *f)
{
	size_t cap = f->cap ? 2 * f->cap : RING_MIN;
	struct held_packet *ring = malloc(cap * sizeof(*ring));

	if (!ring)
		return -ENOMEM;
	for (size_t i = 0; i < f->n; i++)
		ring[i] = f->ring[(f->head + i) & (f->cap - 1)];
	free(f->ring);
	f->ring = ring;
	f->cap = cap;
	f->head = 0;
	return 0;
}

int delay_schedule_push(struct delay_schedule *s, int link, int64_t due_ns, uint32_t id)
{
	struct held_fifo *f = &s->links[link];

	if (f->n == f->cap && ring_grow(f))
		return -ENOMEM;
	if (due_ns < f->last_due_ns)
		due_ns = f->last_due_ns;
	f->last_due_ns = due_ns;
	f->ring[(f->head + f->n++) & (f->cap - 1)] = (struct held_packet){ .due_ns = due_ns, .id = id };
	s->n_held++;
	if (f->n == 1) {
		heap_set(s, s->n_heap++, link);
		sift_up(s, f->heap_at);
	}
	return 0;
}

int64_t delay_schedule_next_ns(const struct delay_schedule *s)
{
	return s->n_heap ? head_due(s, 0) : INT64_MAX;
}

bool delay_schedule_pop(struct delay_schedule *s, int64_t until_ns, struct held_packet *out)
{
	struct held_fifo *f;

	if (!s->n_heap || head_due(s, 0) > until_ns)
		return false;
	f = &s->links[s->heap[0]];
	*out = f->ring[f->head];
	f->head = (f->head + 1) & (f->cap - 1);
	s->n_held--;
	if (!--f->n) {
		f->heap_at = -1;
		if (--s->n_heap)
			heap_set(s, 0, s->heap[s->n_heap]);
	}
	if (s->n_heap)
		sift_down(s, 0);
	return true;
}

int delay_schedule_move(struct delay_schedule *from, int link, struct delay_schedule *to, int to_link)
{
	struct held_fifo *f = &from->links[link];

	for (size_t i = 0; i < f->n; i++) {
		const struct held_packet *p = &f->ring[(f->head + i) & (f->cap - 1)];
		int rc = delay_schedule_push(to, to_link, p->due_ns, p->id);

		if (rc)
			return rc;
	}
	to->links[to_link].last_due_ns = f->last_due_ns;
	return 0;
}
