/*
 * What happens to one packet of one link: lost, sent at once, or held for how
 * long. Pure given the generator; private to the delay line.
 */
#ifndef SHAPER_DELAY_FATE_H
#define SHAPER_DELAY_FATE_H

#include "shaper/shaper.h"

struct fate {
	int64_t latency_ns, jitter_ns;
	const int16_t *table;
	int n_table;
	double loss;
	struct shape_impair impair;
	struct bace_rng rng;
	double last_jitter, last_loss, last_reorder;	/* uniform numbers that correlation drags along */
	int state;			/* of the loss model */
	uint32_t since_reorder;
};

/* Keeps the random state of `f` when only parameters change. The table, of n
 * entries, is borrowed; see jitter_of_link. */
void fate_configure(struct fate *f, const struct shape_link *l, const int16_t *table, int n_table, bool fresh);
/* -ENOTSUP, err says what the delay line cannot do. */
int fate_check(const struct shape_link *l, struct bace_err *e);

bool fate_lost(struct fate *f);
/* Delay of this packet; 0: it overtakes (reorder). */
int64_t fate_delay_ns(struct fate *f);

#endif
