#include "shaper/player.h"

#include <stdlib.h>
#include <string.h>

static void track_free(struct track *t)
{
	shape_trace_free(&t->trace);
}

void player_free(struct player *p)
{
	for (size_t i = 0; i < p->n; i++)
		track_free(&p->v[i]);
	free(p->v);
	*p = (struct player){ 0 };
}

void player_stop(struct player *p, uint16_t region)
{
	for (size_t i = 0; i < p->n; i++) {
		if (p->v[i].region != region)
			continue;
		track_free(&p->v[i]);
		p->v[i] = p->v[--p->n];
		return;
	}
}

static int64_t due(const struct track *t)
{
	return t->next < t->trace.n ? t->round_ns + t->trace.v[t->next].at_ns : INT64_MAX;
}

static void merge(struct shape_change *to, const struct shape_change *from)
{
	if (from->set & SHAPE_SET_RATE)
		to->rate_bps = from->rate_bps;
	if (from->set & SHAPE_SET_LATENCY)
		to->latency_ns = from->latency_ns;
	if (from->set & SHAPE_SET_LOSS)
		to->loss = from->loss;
	to->set |= from->set;
}

static void advance(struct track *t)
{
	if (++t->next < t->trace.n || !t->loop)
		return;
	t->next = 0;
	t->round_ns += t->trace.period_ns;
}

int player_start(struct player *p, uint16_t region, struct shape_trace *t, bool loop, int64_t start_ns,
		 int64_t now_ns)
{
	struct track track = { .region = region, .loop = loop && t->period_ns > 0, .trace = *t, .round_ns = start_ns };

	player_stop(p, region);
	if (BACE_PUSH(p->v, p->n, p->cap, track))
		return -1;
	*t = (struct shape_trace){ 0 };
	/* Joining late, whole rounds that are past need not be gone through. */
	if (track.loop && now_ns - start_ns > 2 * track.trace.period_ns)
		p->v[p->n - 1].round_ns += ((now_ns - start_ns) / track.trace.period_ns - 1) * track.trace.period_ns;
	return 0;
}

int64_t player_next_ns(const struct player *p)
{
	int64_t first = INT64_MAX;

	for (size_t i = 0; i < p->n; i++)
		if (due(&p->v[i]) < first)
			first = due(&p->v[i]);
	return first;
}

int player_take(struct player *p, int64_t now_ns, struct shape_change *out, int cap, int64_t *due_ns)
{
	int n = 0;

	*due_ns = INT64_MAX;
	for (size_t i = 0; i < p->n && n < cap; i++) {
		struct track *t = &p->v[i];

		if (due(t) > now_ns)
			continue;
		if (due(t) < *due_ns)
			*due_ns = due(t);
		out[n] = (struct shape_change){ .region = t->region };
		for (; due(t) <= now_ns; advance(t))
			merge(&out[n], &t->trace.v[t->next].to);
		n++;
	}
	return n;
}

void player_note(struct player *p, int n, int64_t late_ns)
{
	p->changes += (uint64_t)n;
	lateness_add(&p->late, late_ns);
}
