/* The results of somebody's own simulator beside a measured run. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "results/compare.h"

#define FILE_MAX (16u << 20)
#define MAX_FIELDS 16

enum field { F_POLICY, F_JOB, F_STEP, F_JCT, F_ENERGY, F_COST, N_FIELDS };
static const char *const field_name[N_FIELDS] = { "policy", "job", "step_s", "jct_s", "energy_j", "cost_usd" };

struct own {
	/* placement "": not given; what is longer is cut as a placement_ref's is */
	char policy[64], job[64], placement[160];
	double v[N_FIELDS];				/* NAN: not given */
	double event_sim_s, measured_s;			/* NAN: not measured */
	double job_measured[COMPARED_METRICS];
	int line;
};

struct owns {
	struct own *v;
	size_t n, cap;
};

/* ---- the CSV: a header, then rows; names have neither commas nor quotes ---- */

static int split(char *line, char **out)
{
	int n = 0;

	for (char *p = line; p && n < MAX_FIELDS; n++)
		out[n] = strsep(&p, ",");
	return n;
}

static int bad(const char *path, int line, const char *what, const char *value, struct bace_err *e)
{
	return value ? bace_fail(e, EINVAL, "%s:%d: %s `%s'", path, line, what, value) :
		       bace_fail(e, EINVAL, "%s:%d: %s", path, line, what);
}

static int read_header(const char *path, char *line, int *at, int *n, struct bace_err *e)
{
	char *f[MAX_FIELDS];

	for (int k = 0; k < N_FIELDS; k++)
		at[k] = -1;
	*n = split(line, f);
	for (int i = 0; i < *n; i++) {
		int k = 0;

		while (k < N_FIELDS && strcmp(field_name[k], f[i]))
			k++;
		if (k == N_FIELDS || at[k] >= 0)
			return bad(path, 1, "columns are policy, job, step_s, jct_s, energy_j, cost_usd, each once; not", f[i], e);
		at[k] = i;
	}
	if (at[F_POLICY] < 0 || at[F_JOB] < 0 || at[F_STEP] < 0)
		return bad(path, 1, "the header must name policy, job and step_s", NULL, e);
	return 0;
}

static int read_row(const char *path, int line, char *text, const int *at, int n, struct owns *out, struct bace_err *e)
{
	struct own o = { .line = line, .event_sim_s = NAN, .measured_s = NAN };
	char *f[MAX_FIELDS], *end;

	if (split(text, f) != n)
		return bad(path, line, "not as many fields as the header has", NULL, e);
	for (int k = 0; k < N_FIELDS; k++) {
		const char *value = at[k] < 0 ? "" : f[at[k]];

		o.v[k] = NAN;
		if (k == F_POLICY || k == F_JOB) {
			snprintf(k == F_POLICY ? o.policy : o.job, sizeof(o.job), "%s", value);
			if (!*value)
				return bad(path, line, "must not be empty:", field_name[k], e);
			continue;
		}
		if (!*value)
			continue;
		o.v[k] = strtod(value, &end);
		if (*end || !isfinite(o.v[k]) || (k <= F_JCT && o.v[k] <= 0))
			return bad(path, line, k <= F_JCT ? "must be a number above 0:" : "must be a number:", value, e);
	}
	for (int k = 0; k < COMPARED_METRICS; k++)
		o.job_measured[k] = NAN;
	return BACE_PUSH(out->v, out->n, out->cap, o) ? bace_fail(e, ENOMEM, "%s: out of memory", path) : 0;
}

static int read_csv(const char *path, struct owns *out, struct bace_err *e)
{
	CLEANUP_FREE char *text = NULL;
	int at[N_FIELDS], n = 0, line = 0;
	int rc = bace_read_file(path, FILE_MAX, &text, NULL, e);

	/* Spreadsheets begin theirs with a byte-order mark. */
	for (char *p = text && !strncmp(text, "\xef\xbb\xbf", 3) ? text + 3 : text, *row; !rc && p && (row = strsep(&p, "\n"));) {
		row[strcspn(row, "\r")] = '\0';
		line++;
		if (line == 1)
			rc = read_header(path, row, at, &n, e);
		else if (*row)
			rc = read_row(path, line, row, at, n, out, e);
	}
	return rc ? rc : out->n ? 0 : bad(path, line, "no row under the header", NULL, e);
}

/* ---- the placements: [ { policy, job, placement: [ [region, GPUs], ... ] } ] ---- */

static bool format(const json_t *path, struct bace_buf *out)
{
	const json_t *part;
	size_t i;

	json_array_foreach(path, i, part) {
		const char *region = json_string_value(json_array_get(part, 0));
		const json_t *gpus = json_array_get(part, 1);

		if (!region || !json_is_integer(gpus) ||
		    bace_buf_addf(out, "%s%s:%lld", i ? " > " : "", region, (long long)json_integer_value(gpus)))
			return false;
	}
	return json_array_size(path) > 0;
}

/* One entry, to all rows of its policy and job. */
static int take_placement(const char *path, size_t i, const json_t *entry, struct owns *out, struct bace_err *e)
{
	const char *policy = json_string_value(json_object_get(entry, "policy"));
	const char *job = json_string_value(json_object_get(entry, "job"));
	struct bace_buf text = { 0 };
	size_t n = 0;
	int rc = 0;

	if (!policy || !job || !format(json_object_get(entry, "placement"), &text))
		rc = bace_fail(e, EINVAL, "%s: entry %zu: must be { policy, job, placement: [ [region, GPUs], ... ] }",
			       path, i);
	for (size_t k = 0; !rc && k < out->n; k++)
		if (!strcmp(out->v[k].policy, policy) && !strcmp(out->v[k].job, job)) {
			snprintf(out->v[k].placement, sizeof(out->v[k].placement), "%s", text.p);
			n++;
		}
	if (!rc && !n)
		rc = bace_fail(e, EINVAL, "%s: entry %zu: --sim's file has no row of policy `%s' and job `%s'", path, i,
			       policy, job);
	bace_buf_free(&text);
	return rc;
}

static int read_placements(const char *path, struct owns *out, struct bace_err *e)
{
	json_error_t where;
	json_t *root = json_load_file(path, 0, &where), *entry;
	size_t i;
	int rc = 0;

	if (!root)
		return bace_fail(e, EINVAL, "%s:%d: %s", path, where.line, where.text);
	if (!json_is_array(root))
		rc = bace_fail(e, EINVAL, "%s: must be an array of { policy, job, placement }", path);
	json_array_foreach(root, i, entry) {
		rc = take_placement(path, i + 1, entry, out, e);
		if (rc)
			break;
	}
	json_decref(root);
	return rc;
}

/* ---- what was measured ---- */

static int match(struct store *s, const char *run, struct owns *o, struct bace_err *e)
{
	const struct run_filter all = { 0 };
	struct placement_ref *p = NULL;
	struct job_compared *jobs = NULL;
	size_t n = 0, n_jobs = 0;
	int rc = measured_placements(s, run, &all, &p, &n, e);

	if (!rc)
		rc = compared_jobs(s, run, &all, &jobs, &n_jobs, e);
	for (size_t i = 0; !rc && i < o->n; i++) {
		struct own *x = &o->v[i];

		for (size_t k = 0; k < n; k++)
			if (isnan(x->measured_s) && !strcmp(p[k].job, x->job) && !strcmp(p[k].placement, x->placement)) {
				x->measured_s = p[k].median_s;
				x->event_sim_s = p[k].event_sim_s;
			}
		for (size_t k = 0; k < n_jobs; k++)
			for (int m = 0; m < COMPARED_METRICS; m++)
				if (!strcmp(jobs[k].policy, x->policy) && !strcmp(jobs[k].job, x->job))
					x->job_measured[m] = jobs[k].v[m][COMPARED_MEASURED];
	}
	free(p);
	free(jobs);
	return rc;
}

/* ---- text, JSON ---- */

static int print_steps(const struct owns *o, FILE *to, bool color, int width)
{
	static const struct column columns[] = { { "policy", TEXT }, { "job", TEXT }, { "placement\n(region:GPUs)", FLEX },
		{ "step\nyours", SECONDS, 't' }, { "event\nsim", SECONDS, 't' }, { "measured", SECONDS, 't' },
		{ "measured\nto yours", PERCENT, 'p' }, { "JCT\nyours", SECONDS, 'j' }, { "measured", SECONDS, 'j' },
		{ "measured\nto yours", PERCENT, 'p' }, { "energy\nto yours", PERCENT, 'p' }, { "cost\nto yours", PERCENT, 'p' } };
	struct table t = { .title = "Another simulator and the measurement", .note = "Empty: not given, or that placement "
		"was not measured for that job.", .columns = columns, .n_columns = ARRAY_LEN(columns) };
	int rc = 0;

	for (size_t i = 0; i < o->n; i++) {
		const struct own *x = &o->v[i];

		rc |= table_text(&t, x->policy);
		rc |= table_text(&t, x->job);
		rc |= table_text(&t, x->placement);
		rc |= table_number(&t, x->v[F_STEP]);
		rc |= table_number(&t, x->event_sim_s);
		rc |= table_number(&t, x->measured_s);
		rc |= table_number(&t, x->measured_s / x->v[F_STEP] - 1);
		rc |= table_number(&t, x->v[F_JCT]);
		rc |= table_number(&t, x->job_measured[COMPARED_JCT]);
		rc |= table_number(&t, x->job_measured[COMPARED_JCT] / x->v[F_JCT] - 1);
		rc |= table_number(&t, x->job_measured[COMPARED_ENERGY] / x->v[F_ENERGY] - 1);
		rc |= table_number(&t, x->job_measured[COMPARED_COST] / x->v[F_COST] - 1);
	}
	rc |= table_print(&t, to, color, width);
	table_free(&t);
	return rc;
}

static json_t *own_json(const struct own *x)
{
	return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "policy", x->policy, "job", x->job, "placement",
			 x->placement, "step_s", json_number(x->v[F_STEP]), "event_sim_s", json_number(x->event_sim_s), "measured_s",
			 json_number(x->measured_s), "jct_s", json_number(x->v[F_JCT]), "measured_jct_s",
			 json_number(x->job_measured[COMPARED_JCT]));
}

static int summarise(const struct owns *o, const struct compare_options *opt, FILE *to, bool json,
		     struct compare_summary *out, struct bace_err *e)
{
	CLEANUP_FREE double *x = calloc(o->n + 1, sizeof(*x));
	double lo = NAN, hi = NAN;
	json_t *rows, *root;
	size_t n = 0;
	int rc = 0;

	*out = (struct compare_summary){ 0 };
	for (size_t i = 0; x && i < o->n; i++)
		if (isfinite(o->v[i].measured_s / o->v[i].v[F_STEP])) {
			x[n] = fabs(o->v[i].measured_s / o->v[i].v[F_STEP] - 1);
			out->worst_abs = fmax(out->worst_abs, x[n++]);
		}
	if (!x || !n)
		return bace_fail(e, x ? ENODATA : ENOMEM, x ? "none of these placements was measured in that run" : "out of memory");
	out->n = n;
	out->median_abs = stats_median(x, n);
	if (n > 1)
		stats_bootstrap(x, n, stats_median, opt->resamples, 0.95, opt->seed, &lo, &hi);
	if (!json) {
		fprintf(to, "\nstep time, median absolute error %.2f %%", 100 * out->median_abs);
		if (isfinite(lo))	/* of one value there is nothing to draw from */
			fprintf(to, "  95 %% CI [%.2f, %.2f]", 100 * lo, 100 * hi);
		fprintf(to, "  (n = %zu of %zu placements), worst %.2f %%\n", n, o->n, 100 * out->worst_abs);
		return 0;
	}
	rows = json_array();
	for (size_t i = 0; i < o->n; i++)
		json_array_append_new(rows, own_json(&o->v[i]));
	root = json_pack("{s:o, s:o, s:o, s:o, s:I, s:o}", "median_abs", json_number(out->median_abs), "lo", json_number(lo), "hi",
			 json_number(hi), "worst_abs", json_number(out->worst_abs), "n", (json_int_t)n, "rows", rows);
	if (!root || json_dumpf(root, to, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) || fputc('\n', to) == EOF)
		rc = bace_fail(e, EIO, "compare: write failed");
	json_decref(root);
	return rc;
}

int results_compare_own(struct store *s, const char *given, const char *csv, const char *placements,
			const struct compare_options *opt, FILE *to, bool json, bool color, int width,
			struct compare_summary *out, struct bace_err *e)
{
	struct owns o = { 0 };
	char run[32];
	int rc = store_find_run(s, given, run, e);

	if (!rc)
		rc = read_csv(csv, &o, e);
	if (!rc)
		rc = read_placements(placements, &o, e);
	if (!rc)
		rc = match(s, run, &o, e);
	if (!rc && !json && print_steps(&o, to, color, width))
		rc = bace_fail(e, ENOMEM, "compare: out of memory");
	if (!rc)
		rc = summarise(&o, opt, to, json, out, e);
	free(o.v);
	return rc;
}
