/* Every policy under one oracle: what it decides, and what becomes of its jobs. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "harness/run/internal.h"

/* ---- the event loop's observers ---- */

static void note_used(void *arg, double now_s, const struct placement *p, double predicted_step_s)
{
	struct run *r = arg;
	int n = r->exp->cluster.n_regions;
	bool wraps = r->exp->schedule == SCHED_INTERLEAVED_1F1B;

	for (int i = 0; i < path_boundaries(p, wraps); i++) {
		int a = p->parts[i].region, b = p->parts[(i + 1) % p->n_parts].region;

		r->used[a * n + b] = r->used[b * n + a] = 1;
	}
}

static void note_decision(void *arg, double now_s, uint64_t view_digest, double latency_s, int placed_job)
{
	struct run *r = arg;
	struct decided d = { .at_s = now_s, .view_digest = view_digest, .latency_s = latency_s, .job = placed_job };

	r->decisions_lost |= BACE_PUSH(r->decisions, r->n_decisions, r->cap_decisions, d) != 0;
}

/* A run in which a job never finished is no result, and says so. */
static int note_unfinished(struct run *r, const struct cluster_result *res, struct bace_err *e)
{
	char what[160], why[256] = "";
	size_t used = 0;

	if (res->n_finished == res->n)
		return 0;
	for (int i = 0; i < res->n && used < sizeof(why); i++)
		if (!res->jobs[i].finished)
			used += (size_t)snprintf(why + used, sizeof(why) - used, "%s%s%s", used ? "; " : "",
				r->exp->jobs[res->jobs[i].job].name, isfinite(res->jobs[i].start_s) ?
				" never ended" : " was never placed");
	snprintf(what, sizeof(what), "%s: %d of %d jobs did not finish", r->oracle, res->n - res->n_finished, res->n);
	run_progress(r, "%s by %s: %s", r->policy, what, why);
	r->n_unfinished++;
	return record_skip(r, r->policy, what, why, e);
}

/* A program that did not answer was asked in vain: nothing was placed then that
 * might have been. Of a simulation that is run once more, the second counts. */
static int note_unanswered(struct run *r, const struct policy *p, struct bace_err *e)
{
	const char *last = NULL;
	int64_t n = policy_failures(p, &last);
	char what[160];

	if (!n)
		return 0;
	snprintf(what, sizeof(what), "%s: %lld question%s not answered", r->oracle, (long long)n, n == 1 ? "" : "s");
	run_progress(r, "%s by %s: %s", r->policy, what, last);
	r->n_unanswered++;
	return record_skip(r, r->policy, what, last, e);
}

/* ---- the simulations ---- */

/* -EBADMSG: a cell did not count. What it had decided by then is in r->decisions,
 * for the caller to keep. */
static int simulate(struct run *r, const struct policy_spec *spec, struct oracle *o, struct bace_err *e)
{
	struct policy *policy = NULL;
	struct cluster_result res = { 0 };
	struct bace_err unsaid;
	int rc, said;

	r->policy = spec->label;
	r->oracle = o->name;
	r->n_decisions = 0;
	rc = policy_create(spec, r->exp->seed, &policy, e);
	if (rc)
		return rc;
	rc = cluster_simulate(&(struct cluster_sim){ .exp = r->exp, .models = &r->models,
		.policy = policy, .oracle = o, .seed = r->exp->seed, .on_start = note_used, .on_decision = note_decision,
		.reports = r->reports.over_truth ? &r->reports : NULL,
		.arg = r }, &res, e);
	if (!rc && r->decisions_lost)
		rc = bace_fail(e, ENOMEM, "decisions of %s: out of memory", spec->label);
	if (!rc)
		rc = record_outcomes(r, &res, e);
	if (!rc)
		rc = note_unfinished(r, &res, e);
	said = rc == -EBADMSG && !r->again ? 0 : note_unanswered(r, policy, rc ? &unsaid : e);
	cluster_result_free(&res);
	policy_destroy(policy);
	return rc ? rc : said;
}

static bool ends_the_run(int rc)
{
	return rc == -ECANCELED || rc == -ENOMEM || rc == -EPIPE || rc == -ENOSPC;
}

static int note_failed(struct run *r, int rc, const char *why, struct bace_err *e)
{
	r->n_bad++;
	r->n_spoilt += rc == -EBADMSG;
	run_progress(r, "%s by %s: %s", r->policy, r->oracle, why);
	rc = record_decisions(r, e);
	return rc ? rc : record_skip(r, r->policy, r->oracle, why, e);
}

/* 1: a cell did not count, and the policy is to be tried once more. */
static int attempt(struct run *r, int at, bool again, struct oracle *o, struct bace_err *e)
{
	struct bace_err why = { 0 };
	int rc;

	r->at = at;
	r->again = again;
	rc = simulate(r, &r->exp->policies[at], o, &why);
	if (!rc)
		return again ? measured_forget(r, e) : 0;
	if (ends_the_run(rc)) {
		*e = why;
		return rc;
	}
	if (rc != -EBADMSG || again)
		return note_failed(r, rc, why.msg, e);
	run_progress(r, "%s by %s: %s; tried again after the others", r->policy, o->name, why.msg);
	return 1;
}

int simulate_all(struct run *r, struct oracle *o, struct bace_err *e)
{
	CLEANUP_FREE bool *left = calloc((size_t)r->exp->n_policies + 1, sizeof(*left));
	int rc = left ? 0 : bace_fail(e, ENOMEM, "policies: out of memory");

	for (int i = 0; rc >= 0 && i < r->exp->n_policies; i++) {
		rc = attempt(r, i, false, o, e);
		if (rc > 0)
			left[i] = true;
	}
	/* What spoilt a cell may have passed by now; what did count is not run again. Told
	 * otherwise by then, it may place jobs elsewhere. */
	for (int i = 0; rc >= 0 && i < r->exp->n_policies; i++)
		if (left[i])
			rc = attempt(r, i, true, o, e);
	return rc < 0 ? rc : 0;
}
