/*
 * external: any program as a policy.
 *
 * Objective    the program's own; so that a researcher's scheduler, in any
 *              language, runs unchanged on the simulator and on the testbed.
 * Inputs       `command`, run once by /bin/sh -c and kept; `timeout` a
 *              decision; one JSON line on its stdin. docs/policy.md has the
 *              protocol, field by field.
 * Steps        It answers with a list of placements, which are checked one by
 *              one as they are placed, then it is asked again, until the list
 *              is empty.
 * Failures     No answer in time, no JSON, another shape, an exit: logged and
 *              counted (policy_failures), the program is ended, nothing is
 *              placed now, and it is started afresh for the next decision;
 *              after three failures in a row it is given up. A placement that
 *              breaks a constraint is an error that names the constraint: it
 *              is never repaired.
 * Complexity   the program's; O(regions^2 + jobs) to write the view.
 * Source       ours. `order`, `backfill` and `start` are the program's matter.
 */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/policy/answer.h"
#include "harness/policy/child.h"
#include "harness/policy/internal.h"

#define GIVE_UP_AFTER 3

struct external {
	struct child child;
	int in_a_row;		/* failures */
	json_t *placements;	/* of the last answer */
	size_t next;
	double answered_at_s;
};

static int create(struct policy *p, struct bace_err *err)
{
	struct external *x;

	if (!p->spec.command || !p->spec.command[0])
		return bace_fail(err, EINVAL, "policy %s: external needs `command', the program to run",
				 p->spec.label);
	if (!(p->spec.timeout_s > 0))
		return bace_fail(err, EINVAL, "policy %s: timeout %g s: must be above 0", p->spec.label,
				 p->spec.timeout_s);
	x = calloc(1, sizeof(*x));
	if (!x)
		return bace_fail(err, ENOMEM, "policy %s: out of memory", p->spec.label);
	x->child.in = x->child.out = -1;
	p->priv = x;
	return 0;
}

static void destroy(struct policy *p)
{
	struct external *x = p->priv;

	if (!x)
		return;
	json_decref(x->placements);
	child_kill(&x->child);
	free(x);
}

/* ---- the question ---- */

static json_t *region_json(const struct policy *p, const struct view *v, int r)
{
	const struct region *reg = &v->exp->cluster.regions[r];
	const struct gpu_type *g = &v->exp->cluster.gpus[reg->gpu];

	return json_pack("{s:s, s:i, s:i, s:s, s:f, s:f, s:f, s:f, s:f}", "name", reg->name, "gpus",
			 reg->n_gpus, "free", v->free_gpus[r], "gpu", g->name, "memory_bytes",
			 g->memory_bytes, "flops", g->flops_eff, "price_usd_per_kwh", v->price[r], "pue",
			 reg->pue, "bandwidth_bps", reg->bandwidth_bps);
}

static json_t *link_json(const struct policy *p, const struct view *v, int a, int b)
{
	const struct cluster *c = &v->exp->cluster;
	int at = a * c->n_regions + b;

	return json_pack("{s:s, s:s, s:f, s:f, s:f}", "src", c->regions[a].name, "dst", c->regions[b].name,
			 "capacity_bps", v->capacity_bps[at], "reserved_bps", v->reserved_bps[at],
			 "latency_s", p->f.latency_s[at]);
}

static json_t *fits_json(const uint8_t *fits, int k_limit)
{
	json_t *list = json_array();

	for (int k = 1; k <= k_limit; k++)
		if (fits[k])
			json_array_append_new(list, json_integer(k));
	return list;
}

/* NULL: there is one type, that of `fits'. */
static json_t *fits_by_gpu_json(const struct view *v, int job)
{
	const struct cluster *c = &v->exp->cluster;
	const struct job_class *cls = class_of(v->models, job);
	json_t *all = c->n_gpus > 1 ? json_object() : NULL;

	for (int g = 0; all && g < c->n_gpus; g++)
		json_object_set_new(all, c->gpus[g].name, fits_json(class_fits(cls, g), cls->k_limit));
	return all;
}

static json_t *job_json(const struct view *v, const struct queued_job *q)
{
	const struct job_model *j = &v->models->v[q->job];
	const struct job *job = &v->exp->jobs[q->job];

	return json_pack("{s:s, s:s, s:i, s:i, s:i, s:o, s:o*, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "name",
			 job->name, "model", v->exp->models[job->model].name, "micro_batches", j->m, "k_min",
			 j->k_min, "k_star", j->k_star, "fits", fits_json(j->fits, j->k_limit),
			 "fits_by_gpu", fits_by_gpu_json(v, q->job), "fwd_s", j->fwd_s, "bwd_s", j->bwd_s,
			 "boundary_bytes", j->boundary_bytes, "steps", j->steps, "remaining_steps",
			 q->remaining_steps, "waited_s", q->waited_s, "attained_gpu_s", q->attained_gpu_s);
}

static char *question(const struct policy *p, const struct view *v, const struct queue *q, size_t *len)
{
	json_t *regions = json_array(), *links = json_array(), *jobs = json_array(), *all;
	char *text, *line;

	for (int i = 0; i < p->f.n; i++) {
		int a = p->f.by_name[i];

		json_array_append_new(regions, region_json(p, v, a));
		for (int j = 0; j < p->f.n; j++)
			if (cluster_link(&v->exp->cluster, a, p->f.by_name[j])->present)
				json_array_append_new(links, link_json(p, v, a, p->f.by_name[j]));
	}
	for (int i = 0; i < q->n; i++)
		json_array_append_new(jobs, job_json(v, &q->v[i]));
	all = json_pack("{s:i, s:f, s:o, s:o, s:o}", "version", 1, "now_s", v->now_s, "regions", regions,
			"links", links, "jobs", jobs);
	text = all ? json_dumps(all, JSON_COMPACT) : NULL;
	json_decref(all);
	if (!text)
		return NULL;
	*len = strlen(text) + 1;
	line = realloc(text, *len + 1);
	if (!line) {
		free(text);
		return NULL;
	}
	memcpy(line + *len - 1, "\n", 2);
	return line;
}

/* ---- the answer ---- */

static int fail_softly(struct policy *p, struct external *x, const char *why)
{
	p->failures++;
	x->in_a_row++;
	snprintf(p->last_failure, sizeof(p->last_failure), "%s", why);
	child_kill(&x->child);
	bace_log(BACE_WARN, "policy", "%s: `%s': %s; nothing placed%s", p->spec.label, p->spec.command, why,
		 x->in_a_row < GIVE_UP_AFTER ? "" : "; given up after three failures in a row");
	return 0;
}

static int ask(struct policy *p, struct external *x, const struct view *v, const struct queue *q,
	       struct bace_err *err)
{
	struct bace_err e = { 0 };
	char why[256];
	size_t len = 0;

	if (x->in_a_row >= GIVE_UP_AFTER)
		return 0;
	if (!x->child.pid && child_start(&x->child, p->spec.command, &e))
		return fail_softly(p, x, e.msg);
	CLEANUP_FREE char *line = question(p, v, q, &len);
	CLEANUP_FREE char *reply = NULL;
	if (!line)
		return bace_fail(err, ENOMEM, "policy %s: cannot write the view as JSON", p->spec.label);
	if (child_ask(&x->child, line, len, p->spec.timeout_s, &reply, &e))
		return fail_softly(p, x, e.msg);
	x->placements = answer_parse(reply, why);
	if (!x->placements)
		return fail_softly(p, x, why);
	x->in_a_row = 0;
	x->next = 0;
	x->answered_at_s = v->now_s;
	return 0;
}

static int decide(struct policy *p, const struct view *v, const struct queue *q, struct placement *out,
		  struct bace_err *err)
{
	struct external *x = p->priv;
	bool left = x->next < json_array_size(x->placements) && x->answered_at_s == v->now_s;
	int rc;

	if (!left) {
		json_decref(x->placements);
		x->placements = NULL;
		rc = ask(p, x, v, q, err);
		if (rc)
			return rc;
	}
	if (!x->placements || x->next >= json_array_size(x->placements))
		return 0;
	return answer_placement(p->spec.label, v, q, json_array_get(x->placements, x->next++), out, err);
}

const struct policy_rule rule_external = {
	.name = "external",
	.description = "any program: a JSON line in, a JSON line out",
	.order = ORDER_FCFS,
	.backfill = true,
	.create = create,
	.destroy = destroy,
	.decide = decide,
};
