#include <errno.h>
#include <math.h>

#include "common/json.h"
#include "harness/cmd/robust.h"

static json_t *view_json(const struct robust_view *v)
{
	return json_pack("{s:o, s:o, s:o, s:s, s:s, s:b}", "delay_s", json_number(v->delay_s), "noise",
			 json_number(v->noise), "bias", json_number(v->bias), "distribution",
			 v->gaussian ? "gaussian" : "uniform", "form",
			 v->multiplicative ? "multiplicative" : "additive", "correlated", v->correlated);
}

static json_t *gain_json(const struct robust_gain *g)
{
	return json_pack("{s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s}", "n", g->n, "mean",
			 json_number(g->mean), "lo", json_number(g->lo), "hi", json_number(g->hi), "of_sums",
			 json_number(g->of_sums), "median_jct", json_number(g->median_jct), "change", json_number(g->change),
			 "change_lo", json_number(g->change_lo), "change_hi", json_number(g->change_hi), "retention",
			 json_number(g->retention), "verdict", robust_verdict_name[g->verdict]);
}

static json_t *even_json(const struct robust_break_even *b)
{
	static const char *const kind[] = { [BREAK_AT] = "at", [BREAK_NEVER] = "beyond", [BREAK_ALREADY] = "below at once",
		[BREAK_UNDEFINED] = "undefined" };

	return json_pack("{s:s, s:o, s:o, s:o, s:o}", "kind", kind[b->kind], "at", json_number(b->at), "lo",
			 json_number(b->lo), "hi", json_number(b->hi), "end", json_number(b->end));
}

static json_t *pair_json(const struct robust_judgement *j, int w, int p)
{
	const struct robust *r = j->r;
	json_t *cells = json_array();

	for (int v = 0; v < r->n_views; v++) {
		const struct robust_cell *c = robust_cell_at(j, w, v, p);

		if (robust_has(r, w, v))
			json_array_append_new(cells, json_pack("{s:i, s:s, s:o, s:o}", "view", v, "verdict",
				robust_verdict_name[c->verdict], "jct", gain_json(&c->gain[ROBUST_JCT]), "cost",
				gain_json(&c->gain[ROBUST_COST])));
	}
	return json_pack("{s:s, s:s, s:{s:o, s:o}, s:{s:o, s:o}, s:o}", "policy",
			 r->exp->policies[r->pairs[p].subject].label, "baseline",
			 r->exp->policies[r->pairs[p].baseline].label, "jct_break_even", "noise",
			 even_json(robust_even_at(j, w, p, ROBUST_JCT, AXIS_NOISE)), "delay_s",
			 even_json(robust_even_at(j, w, p, ROBUST_JCT, AXIS_DELAY)), "cost_break_even", "noise",
			 even_json(robust_even_at(j, w, p, ROBUST_COST, AXIS_NOISE)), "delay_s",
			 even_json(robust_even_at(j, w, p, ROBUST_COST, AXIS_DELAY)), "cells", cells);
}

int robust_print_json(const struct robust_judgement *j, FILE *to, struct bace_err *err)
{
	const struct robust *r = j->r;
	json_t *views = json_array(), *worlds = json_array(), *all;
	int rc = 0;

	for (int v = 0; v < r->n_views; v++)
		json_array_append_new(views, view_json(&r->views[v]));
	for (int w = 0; w < r->n_worlds; w++) {
		json_t *pairs = json_array();

		for (int p = 0; p < r->n_pairs; p++)
			json_array_append_new(pairs, pair_json(j, w, p));
		json_array_append_new(worlds, json_pack("{s:s, s:s, s:s, s:o}", "regime",
			robust_regime_name[r->worlds[w].regime], "links", robust_links_name[r->worlds[w].links],
			"prices", robust_prices_name[r->worlds[w].prices], "baselines", pairs));
	}
	all = json_pack("{s:s, s:i, s:I, s:s, s:b, s:f, s:f, s:I, s:i, s:o, s:o}", "experiment", r->exp->name,
			"seeds", r->o.n_seeds, "first_seed", (json_int_t)r->exp->seed, "oracle",
			r->o.event_sim ? "event-sim" : "closed-form", "drawn", r->o.drawn, "jct_threshold",
			r->o.jct_threshold, "cost_threshold", r->o.cost_threshold, "simulations",
			(json_int_t)r->n_simulated, "redraws", r->redraws, "views", views, "worlds", worlds);
	if (!all)
		return bace_fail(err, ENOMEM, "JSON: out of memory");
	if (json_dumpf(all, to, JSON_COMPACT | JSON_REAL_PRECISION(12)) || fputc('\n', to) == EOF)
		rc = bace_fail_errno(err, errno ? errno : EIO, "write");
	json_decref(all);
	return rc;
}
