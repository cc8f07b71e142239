#include <errno.h>
#include <math.h>
#include <sys/utsname.h>

#include "config.h"
#include "harness/cmd/robust.h"
#include "results/results.h"

/* Noise of the published kind with every delay; others, and biases, with none. */
static bool kept(const struct robust_view *v)
{
	return v->delay_s == 0 || (!v->gaussian && !v->multiplicative && !v->correlated);
}

/* The published kind is plain "jct_gain": the report plots it. */
static void metric_name(const struct robust_view *v, enum robust_metric m, char *name, size_t cap)
{
	const char *gain = m == ROBUST_JCT ? "jct_gain" : "cost_gain";
	char kind[48];

	if (v->bias != 0)
		snprintf(name, cap, "%s, bias", gain);
	else if (v->gaussian || v->multiplicative || v->correlated)
		snprintf(name, cap, "%s, %s", gain, robust_kind(v, kind));
	else
		snprintf(name, cap, "%s", gain);
}

static int add_cell(struct store *s, const char *run, const struct robust_judgement *j, int w, int view, int p,
		    struct bace_err *e)
{
	const struct robust *r = j->r;
	const struct robust_view *v = &r->views[view];
	const struct robust_world *x = &r->worlds[w];
	char against[160], metric[80];
	int rc = 0;

	snprintf(against, sizeof(against), "%s; %s, links %s, prices %s",
		 r->exp->policies[r->pairs[p].baseline].label, robust_regime_name[x->regime],
		 robust_links_name[x->links], robust_prices_name[x->prices]);
	for (int m = 0; m < ROBUST_METRICS && !rc; m++) {
		const struct robust_gain *g = &robust_cell_at(j, w, view, p)->gain[m];

		metric_name(v, (enum robust_metric)m, metric, sizeof(metric));
		rc = store_add_comparison(s, run, &(struct comparison_row){ .kind = "robust",
			.subject = r->exp->policies[r->pairs[p].subject].label, .against = against,
			.metric = metric, .x = v->bias != 0 ? v->bias : v->noise, .y = v->delay_s,
			.value = g->mean, .lo = g->lo, .hi = g->hi, .n = g->n,
			.verdict = robust_verdict_name[g->verdict] }, e);
	}
	return rc;
}

static int add_all(struct store *s, const char *run, const struct robust_judgement *j, struct bace_err *e)
{
	const struct robust *r = j->r;
	int rc = store_begin(s, e);

	for (int v = 0; v < r->n_views && !rc; v++)
		for (int w = 0; w < r->n_worlds && !rc; w++)
			for (int p = 0; p < r->n_pairs && !rc; p++)
				if (kept(&r->views[v]) && robust_has(r, w, v))
					rc = add_cell(s, run, j, w, v, p, e);
	if (!rc)
		return store_commit(s, e);
	store_rollback(s);
	return rc;
}

int robust_keep(struct store *s, const char *command, const struct robust_judgement *j, char id[32],
		struct bace_err *e)
{
	const struct experiment *exp = j->r->exp;
	struct utsname u;
	int rc;

	uname(&u);
	rc = store_run_begin(s, &(struct run_info){ .command = command, .experiment = exp->name,
		.config_text = exp->text, .config_hash = exp->text_hash, .seed = exp->seed,
		.version = BACE_VERSION, .kernel = u.release, .schedule = schedule_name(exp->schedule),
		.git_revision = bace_git_revision(), .scale_bytes = 1, .scale_time = 1 }, id, e);
	if (rc)
		return rc;
	rc = add_all(s, id, j, e);
	if (!rc)
		return store_run_end(s, id, "done", e);
	store_run_end(s, id, "failed", &(struct bace_err){ 0 });
	return rc;
}
