/*
 * Which changes of which traces are due. Pure; private to the shaper.
 */
#ifndef SHAPER_PLAYER_H
#define SHAPER_PLAYER_H

#include "shaper/delay/lateness.h"
#include "shaper/shaper.h"

struct track {
	uint16_t region;
	bool loop;
	struct shape_trace trace;	/* owned */
	int64_t round_ns;		/* start of this round; the player's clock */
	size_t next;			/* point */
};

struct player {
	size_t n, cap;
	struct track *v;
	uint64_t changes;
	struct lateness late;
};

void player_free(struct player *p);
/* Takes the trace over. What plays on that region ends. */
int player_start(struct player *p, uint16_t region, struct shape_trace *t, bool loop, int64_t start_ns,
		 int64_t now_ns);
void player_stop(struct player *p, uint16_t region);
/* When something is due next; INT64_MAX: never. */
int64_t player_next_ns(const struct player *p);
/* Takes what is due: one change for each link, several late ones made into one;
 * at most `cap`. *due_ns: when the earliest of them should have been. */
int player_take(struct player *p, int64_t now_ns, struct shape_change *out, int cap, int64_t *due_ns);
void player_note(struct player *p, int n, int64_t late_ns);

#endif
