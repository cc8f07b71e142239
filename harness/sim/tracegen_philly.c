/*
 * Philly's cluster_job_log is one JSON array of jobs:
 * { "jobid", "status", "submitted_time", "attempts": [ { "start_time",
 * "end_time", "detail": [ { "ip", "gpus": [ "gpu0", ... ] } ] } ], ... }.
 * A job may have no attempt, an attempt no time.
 */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "harness/sim/tracegen_internal.h"

static int count_gpus(const json_t *attempt)
{
	const json_t *detail = json_object_get(attempt, "detail"), *machine;
	size_t i;
	int n = 0;

	json_array_foreach(detail, i, machine)
		n += (int)json_array_size(json_object_get(machine, "gpus"));
	return n;
}

/* Seconds of an attempt, 0 if one of its times was not recorded; false after a
 * complaint. */
static bool attempt_seconds(struct trace_collector *c, const struct trace_row *row, const json_t *attempt,
			    double *out)
{
	const char *start = json_string_value(json_object_get(attempt, "start_time"));
	const char *end = json_string_value(json_object_get(attempt, "end_time"));
	double a, b;
	bool date_a, date_b;

	*out = 0;
	if (!start || !end || !strcmp(start, "None") || !strcmp(end, "None"))
		return true;
	if (!trace_parse_time(start, &a, &date_a) || !trace_parse_time(end, &b, &date_b) || !date_a || !date_b ||
	    b < a) {
		trace_complain(c, row, "attempt from `%s' to `%s': must be dates like 2017-10-07 01:12:09, in order",
			       start, end);
		return false;
	}
	*out = b - a;
	return true;
}

static bool read_job(struct trace_collector *c, const json_t *job, int number)
{
	const json_t *attempts = json_object_get(job, "attempts"), *attempt;
	char gpus[16], duration[32];
	struct trace_row row = { .place = number, .what = "job",
		.name = json_string_value(json_object_get(job, "jobid")),
		.arrival = json_string_value(json_object_get(job, "submitted_time")),
		.state = json_string_value(json_object_get(job, "status")), .gpus = gpus, .duration = duration };
	double sum = 0;
	int n = 0;
	size_t i;

	if (!json_is_object(job) || (attempts && !json_is_array(attempts) && !json_is_null(attempts))) {
		trace_complain(c, &row, "must be an object with jobid, submitted_time and attempts");
		return c->d->n < TRACE_MAX_DIAGS;
	}
	json_array_foreach(attempts, i, attempt) {
		double s;

		if (!attempt_seconds(c, &row, attempt, &s))
			return c->d->n < TRACE_MAX_DIAGS;
		sum += s;
		n = count_gpus(attempt);
	}
	snprintf(gpus, sizeof(gpus), "%d", n);
	snprintf(duration, sizeof(duration), "%.17g", sum);
	return trace_collect(c, &row);
}

int trace_read_philly(const char *path, bool only_completed, struct trace *out, struct trace_skipped *skipped,
		      struct bace_diags *d, struct bace_err *e)
{
	struct trace_collector c = { .path = path, .d = d, .out = out, .skipped = skipped,
				     .only_completed = only_completed };
	CLEANUP_FCLOSE FILE *f = fopen(path, "re");
	json_error_t why;
	json_t *jobs, *job;
	size_t i;

	*out = (struct trace){ 0 };
	*skipped = (struct trace_skipped){ 0 };
	if (!f)
		return bace_fail_errno(e, errno, "%s: open", path);
	jobs = json_loadf(f, 0, &why);
	if (!jobs)
		bace_diag_add(d, path, why.line, "not JSON: %s", why.text);
	else if (!json_is_array(jobs))
		bace_diag_add(d, path, 1, "must be an array of jobs, as Philly's cluster_job_log");
	json_array_foreach(jobs, i, job)
		if (!read_job(&c, job, (int)i + 1))
			break;
	json_decref(jobs);
	return trace_collected(&c, e);
}
