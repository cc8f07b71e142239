#include <errno.h>
#include <math.h>
#include <sys/utsname.h>

#include "config.h"
#include "harness/cmd/claims_summary.h"
#include "results/results.h"

static int add_figure(struct store *s, const char *run, const struct claims_figure *f, const char *verdict,
		      const char *arm, const struct spread *v, struct bace_err *e)
{
	const struct { const char *metric; double value, lo, hi; } rows[] = {
		{ "mean_percent", v->mean, v->lo, v->hi },
		{ "q05_percent", v->q05, NAN, NAN },
		{ "median_percent", v->q50, NAN, NAN },
		{ "q95_percent", v->q95, NAN, NAN },
		{ "of_sums_percent", v->of_sums, NAN, NAN },
		{ "median_jct_percent", v->median_jct, NAN, NAN },
		{ "direction_percent", v->direction, NAN, NAN },
		{ "in_range_percent", v->within, NAN, NAN },
	};
	int rc = 0;

	for (size_t i = 0; !rc && i < ARRAY_LEN(rows); i++)
		rc = store_add_comparison(s, run, &(struct comparison_row){ .kind = "claims", .subject = f->detail,
			.against = arm, .metric = rows[i].metric, .x = NAN, .y = NAN, .value = 100 * rows[i].value,
			.lo = 100 * rows[i].lo, .hi = 100 * rows[i].hi, .n = v->n, .published = f->text,
			.verdict = verdict }, e);
	return rc;
}

static int add_all(struct store *s, const char *run, const struct summary *sum, struct bace_err *e)
{
	int rc = store_begin(s, e);

	for (int g = 0; g < sum->n_groups && !rc; g++) {
		const struct group *x = &sum->groups[g];

		for (int i = x->first; i < x->first + x->n && !rc; i++)
			for (int arm = 0; arm < CLAIMS_ARMS && !rc; arm++)
				rc = add_figure(s, run, &claims_figures[i], verdict_text[x->verdict], claims_arm_name[arm],
						&sum->figures[i].arm[arm], e);
	}
	if (!rc)
		return store_commit(s, e);
	store_rollback(s);
	return rc;
}

int claims_keep(struct store *s, const char *command, const struct experiment *base, const struct summary *sum,
		char id[32], struct bace_err *err)
{
	struct utsname u;
	int rc;

	uname(&u);
	rc = store_run_begin(s, &(struct run_info){ .command = command, .experiment = base->name,
		.config_text = base->text, .config_hash = base->text_hash, .seed = sum->claims->seed,
		.version = BACE_VERSION, .kernel = u.release, .git_revision = bace_git_revision(),
		.schedule = schedule_name(base->schedule), .scale_bytes = 1, .scale_time = 1 }, id, err);
	if (rc)
		return rc;
	rc = add_all(s, id, sum, err);
	if (!rc)
		return store_run_end(s, id, "done", err);
	store_run_end(s, id, "failed", &(struct bace_err){ 0 });
	return rc;
}
