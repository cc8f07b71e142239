/* Chosen views on the testbed: policies are told the same late and noisy view,
 * and what they decide is measured. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cmd/robust.h"

#define TRIES 4

/* What one policy came to in one run. */
struct totals {
	double jct_s[2], cost_usd[2];	/* by event simulation, by measurement */
};

struct testbed_run {
	const struct experiment *exp;
	const struct robust_testbed *o;
	struct run_options run;
	struct totals *totals;		/* [policy] */
	struct robust_pair *pairs;
	int n_pairs;
};

static int read_totals(struct testbed_run *t, const char *id, struct bace_err *e)
{
	static const char *const oracles[] = { "event-sim", "measured" };
	struct store *s;
	int rc = store_open_readonly(t->run.store_path, &s, e);

	if (rc)
		return rc;
	for (int p = 0; p < t->exp->n_policies && !rc; p++)
		for (int o = 0; o < 2 && !rc; o++)
			rc = store_policy_totals(s, id, t->exp->policies[p].label, oracles[o],
						 &t->totals[p].jct_s[o], &t->totals[p].cost_usd[o], e);
	store_close(s);
	return rc;
}

/* A machine that was too busy for a cell has more tries: what it did measure is
 * not measured again. */
static int run_view(struct testbed_run *t, const struct view_spec *view, uint64_t seed, struct bace_err *e)
{
	struct experiment exp = *t->exp;
	char id[32] = "";
	int rc = -EBADMSG;

	exp.view = *view;
	exp.seed = seed;
	exp.oracle_event_sim = true;
	for (int i = 0; i < TRIES && rc == -EBADMSG; i++) {
		if (i && t->run.on_progress)
			t->run.on_progress(t->run.arg, "again: what was valid is not measured again");
		*e = (struct bace_err){ 0 };
		rc = run_experiment(&exp, &t->run, id, e);
	}
	/* A job that never ended is a dash in the table. */
	return rc && rc != -ENOTEMPTY ? rc : read_totals(t, id, e);
}

static double gain(double subject, double baseline)
{
	return 1 - subject / baseline;
}

static void print_number(FILE *to, double v)
{
	if (isnan(v))
		fprintf(to, " %9s", "-");
	else
		fprintf(to, " %+9.1f", 100 * v);
}

/* A line a baseline; exact may be NULL. */
static void print_gains(const struct testbed_run *t, const char *name, const struct totals *exact, FILE *to)
{
	for (int i = 0; i < t->n_pairs; i++) {
		int s = t->pairs[i].subject, p = t->pairs[i].baseline;
		const struct totals *a = &t->totals[s], *b = &t->totals[p];

		fprintf(to, "%-28s %-16s", i ? "" : name, t->exp->policies[p].label);
		for (int o = 0; o < 2; o++)
			print_number(to, gain(a->jct_s[o], b->jct_s[o]));
		print_number(to, exact ? gain(a->jct_s[1], b->jct_s[1]) - gain(exact[s].jct_s[1], exact[p].jct_s[1]) : 0);
		for (int o = 0; o < 2; o++)
			print_number(to, gain(a->cost_usd[o], b->cost_usd[o]));
		print_number(to, exact ? gain(a->cost_usd[1], b->cost_usd[1]) -
				       gain(exact[s].cost_usd[1], exact[p].cost_usd[1]) : 0);
		fputc('\n', to);
	}
}

static void print_head(const struct testbed_run *t, FILE *to)
{
	fprintf(to, "%s: gain of %s over each baseline in %%, by event simulation and measured; change of the measured\n"
		"gain against the exact view, in points\n\n%-28s %-16s %9s %9s %9s %9s %9s %9s\n%-28s %-16s %9s %9s %9s %9s %9s %9s\n",
		t->exp->name, t->exp->policies[0].label, "view", "against", "JCT", "JCT", "JCT", "cost", "cost", "cost",
		"", "", "event-sim", "measured", "change", "event-sim", "measured", "change");
}

int robust_on_testbed(const struct experiment *exp, const struct robust_testbed *o, const struct run_options *run,
		      FILE *to, struct bace_err *e)
{
	struct testbed_run t = { .exp = exp, .o = o, .run = *run };
	CLEANUP_FREE struct totals *exact = calloc((size_t)exp->n_policies, sizeof(*exact));
	CLEANUP_FREE struct totals *now = calloc((size_t)exp->n_policies, sizeof(*now));
	CLEANUP_FREE struct robust_pair *pairs = NULL;
	int rc;

	if (!exact || !now)
		return bace_fail(e, ENOMEM, "%d policies: out of memory", exp->n_policies);
	if (!exp->oracle_measured)
		return bace_fail(e, EINVAL, "%s: needs `measured' among its oracles", exp->name);
	rc = robust_pairs(exp, &pairs, &t.n_pairs, e);
	if (rc)
		return rc;
	t.pairs = pairs;
	/* A moment that an earlier view led to is not measured again. */
	t.run.reuse = true;
	/* The exact view is the truth, whatever agents say of it. */
	t.run.reports = false;
	t.totals = exact;
	rc = run_view(&t, &(struct view_spec){ 0 }, exp->seed, e);
	if (rc)
		return rc;
	print_head(&t, to);
	print_gains(&t, "exact", NULL, to);
	t.totals = now;
	t.run.reports = run->reports;
	for (int v = 0; v < o->n_views && !rc; v++) {
		for (int i = 0; i < o->n_seeds && !rc; i++) {
			char name[64], delay[BACE_FMT_MAX];

			snprintf(name, sizeof(name), "%s late, %.0f %%, seed %llu",
				 bace_fmt_time(delay, o->views[v].delay_s), 100 * o->views[v].bandwidth_noise,
				 (unsigned long long)(exp->seed + (uint64_t)i));
			rc = run_view(&t, &o->views[v], exp->seed + (uint64_t)i, e);
			if (!rc)
				print_gains(&t, name, exact, to);
		}
	}
	return rc;
}
