/*
 * harness/robust: do a policy's gains survive a view that is late, noisy and
 * biased (design section 10)? Worlds (what is true) times views (what policies
 * are told of it) times seeds times policies, simulated on many threads; and
 * what follows: gains with intervals, retention, verdicts, break-evens.
 *
 * All policies and all views of a seed see the same jobs, arrivals, links and
 * prices, and all policies of a view the same noise: every difference is paired.
 */
#ifndef BACE_ROBUST_H
#define BACE_ROBUST_H

#include "profiles/profiles.h"

/* ---- what is true ---- */
enum robust_regime {
	REGIME_GIVEN,		/* the experiment's GPUs and links */
	REGIME_BINDING,		/* faster GPUs, slower links: bandwidth binds */
	ROBUST_REGIMES
};
enum robust_prices { PRICES_FLAT, PRICES_HOURLY, ROBUST_PRICES };
/* A link that changes has, at every instant, one of few factors on its rate;
 * all links are drawn anew at once. */
enum robust_links {
	LINKS_STATIC,
	LINKS_SLOW,		/* at exponential gaps of hold_s */
	LINKS_ADVERSE,		/* just before every arrival, within the least delay: the view of
				   a job that arrives is never of the links that it will have */
	LINKS_FAST,		/* every 10 ms, under jobs that are cut to seconds */
	ROBUST_LINKS
};
extern const char *const robust_regime_name[ROBUST_REGIMES];
extern const char *const robust_prices_name[ROBUST_PRICES];
extern const char *const robust_links_name[ROBUST_LINKS];

struct robust_world {
	enum robust_regime regime;
	enum robust_prices prices;
	enum robust_links links;
};

/* ---- what is told ---- */
struct robust_view {
	double delay_s;
	double noise;			/* fraction, of bandwidth and prices; 0: none */
	double bias;			/* fraction, of bandwidth and prices */
	bool gaussian, multiplicative, correlated;
	bool in_fast;			/* simulated under fast links too */
};

/* "uniform additive independent", ...; buf of 48. */
const char *robust_kind(const struct robust_view *v, char *buf);

#define ROBUST_MAX_AXIS 24

struct robust_options {
	int n_seeds, n_threads;		/* 0 threads: as many as the process may run on */
	bool event_sim;			/* the truth's step times; else the closed form */
	bool drawn;			/* GPUs, bandwidths, prices and data sets drawn from the published ranges */
	double load;			/* Poisson arrivals at this load; 0: the experiment's arrivals */
	double hold_s;			/* of slow links */
	double binding_flops;		/* flops_eff of every GPU */
	double binding_bandwidth;	/* factor */
	double period_s;		/* noise is redrawn; 0: with every change of truth */
	double correlation;		/* of correlated noise between links */
	bool regimes[ROBUST_REGIMES], prices[ROBUST_PRICES], links[ROBUST_LINKS];
	bool crossed;			/* every kind of noise with every delay, else at delays[0] and 10 ms */
	int n_delays, n_noises, n_biases;
	double delays_s[ROBUST_MAX_AXIS], noises[ROBUST_MAX_AXIS], biases[ROBUST_MAX_AXIS];
	const char *hourly;		/* price profile for PRICES_HOURLY, where the experiment's are flat */
	double jct_threshold, cost_threshold;
	void (*on_progress)(void *arg, int done, int total);	/* may be NULL */
	void *arg;
};

/* The grid of the project: delays 0 to 1 h, noise 0 to 30 %, every kind, 100 seeds. */
void robust_defaults(struct robust_options *o);

/* ---- the run ---- */
struct robust_score {			/* NAN: some job was never placed */
	double jct_s, median_jct_s;	/* sum and median over the jobs */
	double cost_usd;
};

/* A policy and what it is compared with: the same start rule. */
struct robust_pair {
	int subject, baseline;		/* indices of experiment.policies */
};

struct robust {
	const struct experiment *exp;	/* borrowed */
	struct robust_options o;
	int n_worlds, n_views, n_policies;
	struct robust_world *worlds;
	struct robust_view *views;	/* [0]: exact and at once */
	int n_pairs;
	struct robust_pair *pairs;
	struct robust_score *scores;	/* [world][view][policy][seed] */
	int64_t n_simulated;
	int redraws;			/* drawn: scenarios in which a job fitted nowhere */
};

static inline const struct robust_score *robust_at(const struct robust *r, int world, int view, int policy)
{
	return &r->scores[(((size_t)world * (size_t)r->n_views + (size_t)view) * (size_t)r->n_policies +
			   (size_t)policy) * (size_t)r->o.n_seeds];
}
bool robust_has(const struct robust *r, int world, int view);

/* Subjects are the first policy of each start rule named like the experiment's
 * first, baselines all others with the same start. *out is free()d, also after
 * -EINVAL: no such pair. */
int robust_pairs(const struct experiment *exp, struct robust_pair **out, int *n, struct bace_err *err);

/* -EINVAL: no pair, prices or axis. */
int robust_run(const struct experiment *exp, const struct robust_options *o, struct robust *out,
	       struct bace_diags *diags, struct bace_err *err);
void robust_free(struct robust *r);

/* ---- what follows ---- */
enum robust_metric { ROBUST_JCT, ROBUST_COST, ROBUST_METRICS };
enum robust_verdict { ROBUST_HOLDS, ROBUST_UNDECIDED, ROBUST_FAILS };
extern const char *const robust_verdict_name[];

struct robust_gain {			/* 1 - subject / baseline, fractions */
	int n;				/* seeds in which both placed every job */
	double mean, lo, hi;		/* mean over seeds, 95 % bootstrap; NAN: of fewer than two */
	double of_sums;			/* of the means */
	double median_jct;		/* ROBUST_JCT: of the median JCT, mean over seeds */
	double change, change_lo, change_hi;	/* against the exact view, paired over seeds */
	double retention;		/* mean / mean under the exact view; NAN: that is not surely above 0 */
	enum robust_verdict verdict;	/* of this metric alone */
};

struct robust_cell {
	struct robust_gain gain[ROBUST_METRICS];
	enum robust_verdict verdict;	/* HOLDS: both do; FAILS: either does */
};

/* Where the gain crosses the threshold along an axis of views. */
enum robust_axis { AXIS_NOISE, AXIS_DELAY, ROBUST_AXES };
struct robust_break_even {
	/* ALREADY: below at the exact view. UNDEFINED: no gain to speak of there. */
	enum { BREAK_AT, BREAK_NEVER, BREAK_ALREADY, BREAK_UNDEFINED } kind;
	double at, lo, hi;		/* fraction or s; lo, hi: INFINITY where beyond the axis */
	double end;			/* last point of the axis */
};

struct robust_judgement {
	const struct robust *r;
	struct robust_cell *cells;	/* [world][view][pair]; n = 0 where not simulated */
	struct robust_break_even *even;	/* [world][pair][metric][axis] */
};

static inline const struct robust_cell *robust_cell_at(const struct robust_judgement *j, int world, int view,
						       int pair)
{
	return &j->cells[((size_t)world * (size_t)j->r->n_views + (size_t)view) * (size_t)j->r->n_pairs +
			 (size_t)pair];
}
static inline const struct robust_break_even *
robust_even_at(const struct robust_judgement *j, int world, int pair, enum robust_metric m, enum robust_axis a)
{
	return &j->even[(((size_t)world * (size_t)j->r->n_pairs + (size_t)pair) * ROBUST_METRICS + m) *
			ROBUST_AXES + a];
}

int robust_judge(const struct robust *r, struct robust_judgement *out, struct bace_err *err);
void robust_judgement_free(struct robust_judgement *j);

/* The verdict of an interval against a threshold. */
enum robust_verdict robust_verdict_of(double lo, double hi, double threshold);

#endif
