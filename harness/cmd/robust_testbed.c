/* Chosen views on the testbed: policies are told the same late and noisy view,
 * and what they decide is measured. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
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
	bool began;			/* there is a run of it in the store */
	json_t *rows;			/* NULL: a table */
	FILE *to;
};

/* What a view is called. */
struct named_view {
	char text[64];			/* "exact" */
	const struct view_spec *spec;	/* NULL: exact */
	uint64_t seed;
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
		t->began |= id[0] != '\0';
	}
	/* A job that never ended is a dash in the table; a question without an answer is in the store. */
	return rc && rc != -ENOTEMPTY && rc != -ENOMSG ? rc : read_totals(t, id, e);
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

/* Gain of a policy over a baseline: by event simulation, measured, and the change of
 * what was measured against the exact view (NULL: this is it). */
struct testbed_gain {
	double jct[3], cost[3];
};

static struct testbed_gain gain_of(const struct testbed_run *t, const struct robust_pair *p, const struct totals *exact)
{
	const struct totals *a = &t->totals[p->subject], *b = &t->totals[p->baseline];
	struct testbed_gain g = { 0 };

	for (int o = 0; o < 2; o++) {
		g.jct[o] = gain(a->jct_s[o], b->jct_s[o]);
		g.cost[o] = gain(a->cost_usd[o], b->cost_usd[o]);
	}
	if (exact) {
		g.jct[2] = g.jct[1] - gain(exact[p->subject].jct_s[1], exact[p->baseline].jct_s[1]);
		g.cost[2] = g.cost[1] - gain(exact[p->subject].cost_usd[1], exact[p->baseline].cost_usd[1]);
	}
	return g;
}

static json_t *gain_json(const double v[3])
{
	return json_pack("{s:o, s:o, s:o}", "event_sim", json_number(v[0]), "measured", json_number(v[1]), "change",
			 json_number(v[2]));
}

static json_t *row_json(const struct testbed_run *t, const struct named_view *v, const struct robust_pair *p,
			const struct testbed_gain *g)
{
	return json_pack("{s:s, s:o, s:o, s:I, s:s, s:s, s:o, s:o}", "view", v->text, "delay_s",
			 json_number(v->spec ? v->spec->delay_s : 0), "noise",
			 json_number(v->spec ? v->spec->bandwidth_noise : 0), "seed", (json_int_t)v->seed, "policy",
			 t->exp->policies[p->subject].label, "baseline", t->exp->policies[p->baseline].label, "jct",
			 gain_json(g->jct), "cost", gain_json(g->cost));
}

/* A row a baseline. */
static void show_gains(const struct testbed_run *t, const struct named_view *v, const struct totals *exact)
{
	for (int i = 0; i < t->n_pairs; i++) {
		struct testbed_gain g = gain_of(t, &t->pairs[i], exact);

		if (t->rows) {
			json_array_append_new(t->rows, row_json(t, v, &t->pairs[i], &g));
			continue;
		}
		fprintf(t->to, "%-28s %-16s", i ? "" : v->text, t->exp->policies[t->pairs[i].baseline].label);
		for (int o = 0; o < 3; o++)
			print_number(t->to, g.jct[o]);
		for (int o = 0; o < 3; o++)
			print_number(t->to, g.cost[o]);
		fputc('\n', t->to);
	}
}

static void print_head(const struct testbed_run *t)
{
	fprintf(t->to, "%s: gain of %s over each baseline in %%, by event simulation and measured; change of the measured\n"
		"gain against the exact view, in points\n\n%-28s %-16s %9s %9s %9s %9s %9s %9s\n%-28s %-16s %9s %9s %9s %9s %9s %9s\n",
		t->exp->name, t->exp->policies[0].label, "view", "against", "JCT", "JCT", "JCT", "cost", "cost", "cost",
		"", "", "event-sim", "measured", "change", "event-sim", "measured", "change");
}

static int show_views(struct testbed_run *t, const struct totals *exact, struct bace_err *e)
{
	const struct robust_testbed *o = t->o;
	int rc = 0;

	for (int k = 0; k < o->n_views * o->n_seeds && !rc; k++) {
		struct named_view v = { .spec = &o->views[k / o->n_seeds], .seed = t->exp->seed + (uint64_t)(k % o->n_seeds) };
		char delay[BACE_FMT_MAX];

		snprintf(v.text, sizeof(v.text), "%s late, %.0f %%, seed %llu", bace_fmt_time(delay, v.spec->delay_s),
			 100 * v.spec->bandwidth_noise, (unsigned long long)v.seed);
		rc = run_view(t, v.spec, v.seed, e);
		if (!rc)
			show_gains(t, &v, exact);
	}
	return rc;
}

static int print_rows(const struct testbed_run *t, struct bace_err *e)
{
	json_t *all = json_pack("{s:s, s:O}", "experiment", t->exp->name, "gains", t->rows);
	int rc = all && !json_dumpf(all, t->to, JSON_INDENT(1)) && fputc('\n', t->to) == '\n' ? 0 :
		 bace_fail(e, EIO, "write the gains");

	json_decref(all);
	return rc;
}

static int on_testbed(struct testbed_run *t, struct totals *exact, struct totals *now, struct bace_err *e)
{
	bool reports = t->run.reports;
	int rc;

	/* A moment that an earlier view led to is not measured again. */
	t->run.reuse = true;
	/* The exact view is the truth, whatever agents say of it. */
	t->run.reports = false;
	t->totals = exact;
	rc = run_view(t, &(struct view_spec){ 0 }, t->exp->seed, e);
	if (rc)
		return rc;
	if (!t->rows)
		print_head(t);
	show_gains(t, &(struct named_view){ .text = "exact", .seed = t->exp->seed }, NULL);
	t->totals = now;
	t->run.reports = reports;
	rc = show_views(t, exact, e);
	return rc || !t->rows ? rc : print_rows(t, e);
}

int robust_on_testbed(const struct experiment *exp, const struct robust_testbed *o, const struct run_options *run,
		      bool json, FILE *to, bool *began, struct bace_err *e)
{
	struct testbed_run t = { .exp = exp, .o = o, .run = *run, .to = to };
	CLEANUP_FREE struct totals *exact = calloc((size_t)exp->n_policies, sizeof(*exact));
	CLEANUP_FREE struct totals *now = calloc((size_t)exp->n_policies, sizeof(*now));
	int rc;

	if (!exact || !now)
		return bace_fail(e, ENOMEM, "%d policies: out of memory", exp->n_policies);
	if (!exp->oracle_measured)
		return bace_fail(e, EINVAL, "%s: needs `measured' among its oracles", exp->name);
	rc = robust_pairs(exp, &t.pairs, &t.n_pairs, e);
	if (rc)
		return rc;
	t.rows = json ? json_array() : NULL;
	rc = json && !t.rows ? bace_fail(e, ENOMEM, "out of memory") : on_testbed(&t, exact, now, e);
	*began = t.began;
	json_decref(t.rows);
	free(t.pairs);
	return rc;
}
