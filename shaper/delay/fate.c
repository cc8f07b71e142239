#include "shaper/delay/fate.h"

#include <errno.h>

#include "shaper/jitter.h"

enum { GOOD, BAD };
/* The 4-state model's states: 1 and 2 deliver, 3 and 4 lose. */
enum { TX_IN_GAP, TX_IN_BURST, LOST_IN_BURST, LOST_IN_GAP };

int fate_check(const struct shape_link *l, struct bace_err *e)
{
	const struct shape_impair *x = &l->impair;
	const char *what = x->duplicate > 0 ? "duplicate packets" : x->corrupt > 0 ? "corrupt packets"
			   : x->ecn ? "mark with ECN" : NULL;

	if (what)
		return bace_fail(e, ENOTSUP, "link `%s': the NFQUEUE delay line cannot %s: it passes or drops packets and never rewrites them; netem can", l->name, what);
	return 0;
}

void fate_configure(struct fate *f, const struct shape_link *l, const int16_t *table, int n_table, bool fresh)
{
	bool reseed = fresh || f->impair.seed != l->impair.seed;

	f->latency_ns = l->latency_ns;
	f->jitter_ns = l->jitter_ns;
	f->table = table;
	f->n_table = n_table;
	f->loss = l->loss;
	f->impair = l->impair;
	if (!reseed)
		return;
	bace_rng_init(&f->rng, l->impair.seed ? l->impair.seed : (uint64_t)bace_mono_ns(), l->region);
	f->last_jitter = bace_rng_uniform(&f->rng);
	f->last_loss = bace_rng_uniform(&f->rng);
	f->last_reorder = bace_rng_uniform(&f->rng);
	f->state = 0;
	f->since_reorder = 0;
}

/* netem's correlated numbers: rho of the last one, the rest new. */
static double correlated(struct bace_rng *r, double rho, double *last)
{
	double v = bace_rng_uniform(r);

	return *last = rho > 0 ? v * (1 - rho) + *last * rho : v;
}

static bool lost_gilbert_elliott(struct fate *f)
{
	const double *p = f->impair.loss_p;	/* p, r, 1-h, 1-k */
	double step = bace_rng_uniform(&f->rng), drop = bace_rng_uniform(&f->rng);

	if (f->state == GOOD) {
		if (step < p[0])
			f->state = BAD;
		return drop < p[3];
	}
	if (step < p[1])
		f->state = GOOD;
	return drop < p[2];
}

static bool lost_4state(struct fate *f)
{
	const double *p = f->impair.loss_p;	/* p13, p31, p32, p14, p23 */
	double v = bace_rng_uniform(&f->rng);

	switch (f->state) {
	case TX_IN_GAP:
		f->state = v < p[3] ? LOST_IN_GAP : v < p[0] + p[3] ? LOST_IN_BURST : TX_IN_GAP;
		break;
	case TX_IN_BURST:
		f->state = v < p[4] ? LOST_IN_BURST : TX_IN_BURST;
		break;
	case LOST_IN_BURST:
		f->state = v < p[2] ? TX_IN_BURST : v < p[2] + p[1] ? TX_IN_GAP : LOST_IN_BURST;
		break;
	default:
		f->state = TX_IN_GAP;
	}
	return f->state == LOST_IN_BURST || f->state == LOST_IN_GAP;
}

bool fate_lost(struct fate *f)
{
	if (f->impair.loss_model == LOSS_GILBERT_ELLIOTT)
		return lost_gilbert_elliott(f);
	if (f->impair.loss_model == LOSS_4STATE)
		return lost_4state(f);
	return f->loss > 0 && correlated(&f->rng, f->impair.loss_corr, &f->last_loss) < f->loss;
}

static bool overtakes(struct fate *f)
{
	uint32_t gap = f->impair.reorder_gap ? f->impair.reorder_gap : 1;

	if (f->impair.reorder <= 0)
		return false;
	if (++f->since_reorder < gap ||
	    correlated(&f->rng, f->impair.reorder_corr, &f->last_reorder) >= f->impair.reorder)
		return false;
	f->since_reorder = 0;
	return true;
}

int64_t fate_delay_ns(struct fate *f)
{
	int64_t delay = f->latency_ns;

	if (overtakes(f))
		return 0;
	if (f->n_table) {
		double u = correlated(&f->rng, f->impair.jitter_corr, &f->last_jitter);
		int i = (int)(u * f->n_table);

		delay += f->jitter_ns * f->table[i] / JITTER_SCALE;
	}
	return delay > 0 ? delay : 0;
}
