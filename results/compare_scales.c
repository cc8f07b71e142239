/* Two runs of the same placements at different scales. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "common/json.h"
#include "results/compare.h"

struct scaled {
	char policy[64], job[64], placement[160];
	double event_sim_s, a_s, b_s;
};

struct scales {
	struct scaled *v;
	size_t n;
	double bytes[2], time[2];
	double median_abs, worst_abs;
};

static int load_scale(struct store *s, const char *run, double *bytes, double *time, struct bace_err *e)
{
	sqlite3_stmt *q;
	int rc = store_query(s, "SELECT scale_bytes, scale_time FROM run WHERE id = ?1", run, &q, e);

	if (rc)
		return rc;
	if (store_next(s, q, &rc, e)) {
		*bytes = column_number(q, 0);
		*time = column_number(q, 1);
	}
	sqlite3_finalize(q);
	return rc;
}

/* A moment's key is of unscaled truth: the same in both. */
static int load(struct store *s, const char *a, const char *b, struct scales *out, struct bace_err *e)
{
	sqlite3_stmt *q;
	size_t cap = 0;
	int rc = store_query(s, "SELECT x.policy, x.job, x.placement, x.event_sim_s, x.measured_median_s,"
		" y.measured_median_s, min(x.id) FROM placement x JOIN placement y ON y.moment = x.moment AND y.job ="
		" x.job AND y.run_id = ?2 AND y.valid AND y.measured_median_s > 0 WHERE x.run_id = ?1 AND x.valid AND"
		" x.measured_median_s > 0 GROUP BY x.moment, x.job ORDER BY x.id", a, &q, e);

	if (rc)
		return rc;
	sqlite3_bind_text(q, 2, b, -1, SQLITE_STATIC);
	while (store_next(s, q, &rc, e)) {
		struct scaled r = { .event_sim_s = column_number(q, 3), .a_s = column_number(q, 4),
				    .b_s = column_number(q, 5) };

		snprintf(r.policy, sizeof(r.policy), "%s", column_text(q, 0));
		snprintf(r.job, sizeof(r.job), "%s", column_text(q, 1));
		snprintf(r.placement, sizeof(r.placement), "%s", column_text(q, 2));
		if (BACE_PUSH(out->v, out->n, cap, r))
			rc = bace_fail(e, ENOMEM, "scales: out of memory");
	}
	sqlite3_finalize(q);
	if (rc)
		return rc;
	return out->n ? 0 : bace_fail(e, ENODATA, "runs %s and %s have no valid measured placement in common", a, b);
}

static int judge(struct scales *s, struct bace_err *e)
{
	CLEANUP_FREE double *x = calloc(s->n + 1, sizeof(*x));

	if (!x)
		return bace_fail(e, ENOMEM, "scales: out of memory");
	for (size_t i = 0; i < s->n; i++) {
		x[i] = fabs(s->v[i].b_s / s->v[i].a_s - 1);
		s->worst_abs = fmax(s->worst_abs, x[i]);
	}
	s->median_abs = stats_median(x, s->n);
	return 0;
}

static int print(const struct scales *s, const char *a, const char *b, FILE *to, bool color, int width)
{
	static const struct column columns[] = { { "policy", TEXT }, { "job", TEXT }, { "placement\n(region:GPUs)", FLEX },
		{ "event\nsim", SECONDS, 't' }, { "first\nrun", SECONDS, 't' }, { "second\nrun", SECONDS, 't' },
		{ "differ-\nence", PERCENT, 'p' } };
	struct table t = { .title = "Step times at two scales", .note = "Measured medians, unscaled.",
			   .columns = columns, .n_columns = ARRAY_LEN(columns) };
	int rc = 0;

	for (size_t i = 0; i < s->n; i++) {
		rc |= table_text(&t, s->v[i].policy);
		rc |= table_text(&t, s->v[i].job);
		rc |= table_text(&t, s->v[i].placement);
		rc |= table_number(&t, s->v[i].event_sim_s);
		rc |= table_number(&t, s->v[i].a_s);
		rc |= table_number(&t, s->v[i].b_s);
		rc |= table_number(&t, s->v[i].b_s / s->v[i].a_s - 1);
	}
	rc |= table_print(&t, to, color, width);
	table_free(&t);
	fprintf(to, "\nfirst %s: bytes x%g, time x%g; second %s: bytes x%g, time x%g\n"
		"difference: median %.2f %%, worst %.2f %% (n = %zu placements)\n", a, s->bytes[0], s->time[0], b,
		s->bytes[1], s->time[1], 100 * s->median_abs, 100 * s->worst_abs, s->n);
	return rc;
}

static int print_json(const struct scales *s, const char *a, const char *b, FILE *to, struct bace_err *e)
{
	json_t *list = json_array(), *root;
	int rc = 0;

	for (size_t i = 0; i < s->n; i++)
		json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:o, s:f, s:f}", "policy", s->v[i].policy, "job",
			s->v[i].job, "placement", s->v[i].placement, "event_sim_s", json_number(s->v[i].event_sim_s), "first_s",
			s->v[i].a_s, "second_s", s->v[i].b_s));
	root = json_pack("{s:{s:s, s:f, s:f}, s:{s:s, s:f, s:f}, s:f, s:f, s:o}", "first", "run", a, "scale_bytes",
			 s->bytes[0], "scale_time", s->time[0], "second", "run", b, "scale_bytes", s->bytes[1],
			 "scale_time", s->time[1], "median_abs", s->median_abs, "worst_abs", s->worst_abs,
			 "placements", list);
	if (!root || json_dumpf(root, to, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) || fputc('\n', to) == EOF)
		rc = bace_fail(e, EIO, "compare: write failed");
	json_decref(root);
	return rc;
}

int results_compare_scales(struct store *s, const char *first, const char *second, FILE *to, bool json, bool color,
			   int width, double *worst_abs, struct bace_err *e)
{
	struct scales sc = { 0 };
	char a[32], b[32];
	int rc = store_find_run(s, first, a, e);

	if (!rc)
		rc = store_find_run(s, second, b, e);
	if (!rc)
		rc = load_scale(s, a, &sc.bytes[0], &sc.time[0], e);
	if (!rc)
		rc = load_scale(s, b, &sc.bytes[1], &sc.time[1], e);
	if (!rc)
		rc = load(s, a, b, &sc, e);
	if (!rc)
		rc = judge(&sc, e);
	if (!rc && json)
		rc = print_json(&sc, a, b, to, e);
	else if (!rc && print(&sc, a, b, to, color, width))
		rc = bace_fail(e, ENOMEM, "compare: out of memory");
	*worst_abs = sc.worst_abs;
	free(sc.v);
	return rc;
}
