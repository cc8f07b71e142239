/*
 * Which held packet leaves next: one FIFO per link, so that order within a
 * link survives jitter and changes of latency, and a heap over their heads.
 * Pure; private to the delay line.
 */
#ifndef SHAPER_DELAY_SCHEDULE_H
#define SHAPER_DELAY_SCHEDULE_H

#include "common/common.h"

struct held_packet {
	int64_t due_ns;
	uint32_t id;
};

struct held_fifo {
	struct held_packet *ring;	/* capacity is a power of two */
	size_t cap, head, n;
	int64_t last_due_ns;
	int heap_at;			/* -1: empty */
};

struct delay_schedule {
	int n_links;
	struct held_fifo *links;
	int *heap;
	int n_heap;
	size_t n_held;
};

int delay_schedule_init(struct delay_schedule *s, int n_links);
void delay_schedule_free(struct delay_schedule *s);
/* Raises due_ns to the link's last one where it would overtake. */
int delay_schedule_push(struct delay_schedule *s, int link, int64_t due_ns, uint32_t id);
/* When the next packet is due; INT64_MAX: none is held. */
int64_t delay_schedule_next_ns(const struct delay_schedule *s);
/* Takes the next packet if it is due by `until_ns`. */
bool delay_schedule_pop(struct delay_schedule *s, int64_t until_ns, struct held_packet *out);
/* Moves what a link holds to another schedule's link, which is empty. */
int delay_schedule_move(struct delay_schedule *from, int link, struct delay_schedule *to, int to_link);

#endif
