#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "harness/policy/internal.h"

static const struct policy_rule *const rules[] = {
	&rule_bace,
	&rule_bace_plus,
	&rule_lcf,
	&rule_ldf,
	&rule_cr_lcf,
	&rule_cr_ldf,
	&rule_atlas_dc,
	&rule_dtfm,
	&rule_random,
	&rule_optimal,
	&rule_external,
};

static const char *names[ARRAY_LEN(rules)], *descriptions[ARRAY_LEN(rules)];

__attribute__((constructor)) static void fill_lists(void)
{
	for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
		names[i] = rules[i]->name;
		descriptions[i] = rules[i]->description;
	}
}

int policy_list(const char *const **n, const char *const **d)
{
	*n = names;
	*d = descriptions;
	return ARRAY_LEN(rules);
}

struct policy_defaults policy_defaults(int index)
{
	return (struct policy_defaults){ rules[index]->order, rules[index]->backfill };
}

static const struct policy_rule *find_rule(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(rules); i++)
		if (!strcmp(rules[i]->name, name))
			return rules[i];
	return NULL;
}

int policy_create(const struct policy_spec *spec, uint64_t seed, struct policy **out,
		  struct bace_err *err)
{
	const struct policy_rule *rule = find_rule(spec->name);
	struct policy *p;
	int rc;

	*out = NULL;
	if (!rule) {
		const char *near = bace_nearest(spec->name, names, ARRAY_LEN(rules));

		return bace_fail(err, EINVAL, "no policy `%s'%s%s%s; `bace policies' lists them", spec->name,
				 near ? "; did you mean `" : "", near ? near : "", near ? "'?" : "");
	}
	p = calloc(1, sizeof(*p));
	if (!p)
		return bace_fail(err, ENOMEM, "policy %s: out of memory", spec->name);
	p->rule = rule;
	p->spec = *spec;
	p->spec.command = NULL;
	p->seed = seed;
	p->aging_s = spec->aging_s;
	if (!p->spec.label[0])
		memcpy(p->spec.label, spec->name, sizeof(p->spec.label));
	p->order = spec->has_order ? spec->order : rule->order;
	p->backfill = spec->has_backfill ? spec->backfill : rule->backfill;
	if (spec->command) {
		p->spec.command = strdup(spec->command);
		if (!p->spec.command) {
			policy_destroy(p);
			return bace_fail(err, ENOMEM, "policy %s: out of memory", spec->name);
		}
	}
	rc = rule->create ? rule->create(p, err) : 0;
	if (rc) {
		policy_destroy(p);
		return rc;
	}
	*out = p;
	return 0;
}

void policy_destroy(struct policy *p)
{
	if (!p)
		return;
	if (p->rule->destroy)
		p->rule->destroy(p);
	policy_unbind(p);
	free(p->key);
	free(p->heap);
	free(p->spec.command);
	free(p);
}

static int bind_if_new(struct policy *p, const struct view *v, struct bace_err *err)
{
	if (p->f.exp == v->exp && p->f.models == v->models)
		return 0;
	return policy_bind(p, v, err);
}

/* What `start = k_star` waits for; found by asking the rule about the empty cluster. */
static int reachable(struct policy *p, const struct queued_job *q, struct bace_err *err)
{
	int *reach = &p->reach[p->f.models->v[q->job].cls];
	int rc;

	if (*reach >= 0)
		return *reach;
	p->best.n = 0;
	rc = p->rule->place(p, &p->empty, q, 0, err);
	if (rc < 0)
		return rc;
	*reach = rc ? p->best.k : 0;
	return *reach;
}

int policy_reachable_gpus(struct policy *p, const struct view *v, int job, struct bace_err *err)
{
	struct queued_job q = { .job = job, .remaining_steps = v->models->v[job].steps };
	int rc = bind_if_new(p, v, err);

	if (rc)
		return rc;
	if (!p->rule->place)
		return v->models->v[job].k_star;
	return reachable(p, &q, err);
}

/* An idle cluster has nothing more to wait for, whatever its links have become. */
int policy_needed(struct policy *p, const struct queued_job *q, struct bace_err *err)
{
	if (p->spec.start != START_K_STAR || p->now.idle)
		return 0;
	int k = reachable(p, q, err);

	return k ? k : 1;
}

int policy_emit(const struct policy *p, int job, struct placement *out, struct bace_err *err)
{
	size_t bytes = sizeof(*out->parts) * (size_t)p->best.n;

	*out = (struct placement){ .job = job, .n_parts = p->best.n, .n_gpus = p->best.k,
				   .parts = malloc(bytes) };
	if (!out->parts)
		return bace_fail(err, ENOMEM, "policy %s: out of memory", p->spec.label);
	memcpy(out->parts, p->best.parts, bytes);
	return 1;
}

/* Jobs of one class are placed alike: after one has failed, the others would. */
static void next_epoch(struct policy *p)
{
	if (++p->epoch)
		return;
	memset(p->failed, 0, sizeof(*p->failed) * (size_t)p->f.models->n_classes);
	p->epoch = 1;
}

static int try_job(struct policy *p, const struct queued_job *q, struct bace_err *err)
{
	int cls = p->f.models->v[q->job].cls, need, rc;

	if (!p->rule->per_job && p->failed[cls] == p->epoch)
		return 0;
	need = policy_needed(p, q, err);
	if (need < 0)
		return need;
	p->best.n = 0;
	rc = p->now.total_free >= (need ? need : 1) ? p->rule->place(p, &p->now, q, need, err) : 0;
	if (!rc)
		p->failed[cls] = p->epoch;
	return rc;
}

int policy_decide(struct policy *p, const struct view *v, const struct queue *q,
		  struct placement *out, struct bace_err *err)
{
	struct order o;
	int rc, i;

	if (!q->n)
		return 0;
	rc = bind_if_new(p, v, err);
	if (rc)
		return rc;
	situation_read(&p->f, v, p->rule->uses_links || p->order == ORDER_BACE, &p->now);
	if (p->rule->decide)
		return p->rule->decide(p, v, q, out, err);
	if (!p->now.total_free)
		return 0;
	next_epoch(p);
	rc = order_begin(p, &p->now, q, &o, err);
	if (rc)
		return rc;
	while ((i = order_next(&o)) >= 0) {
		rc = try_job(p, &q->v[i], err);
		if (rc < 0)
			return rc;
		if (rc)
			return policy_emit(p, q->v[i].job, out, err);
		if (!p->backfill)
			break;
	}
	return 0;
}

bool policy_wants_running(const struct policy *p)
{
	return p->rule->wants_running;
}

bool policy_is_elastic(const struct policy *p)
{
	return p->rule->resize && p->spec.elastic;
}

double policy_restart_s(const struct policy *p)
{
	return p->spec.restart_s;
}

int policy_resize(struct policy *p, const struct view *v, const struct queue *q,
		  struct placement *out, struct bace_err *err)
{
	int rc = bind_if_new(p, v, err);

	if (rc || !policy_is_elastic(p) || !v->n_running)
		return rc;
	situation_read(&p->f, v, true, &p->now);
	return p->rule->resize(p, v, q, out, err);
}

double policy_reservation_bps(const struct policy *p, const struct view *v,
			      const struct placement *pl)
{
	return placement_reservation_bps(v->exp, v->models, pl);
}

int64_t policy_failures(const struct policy *p, const char **last)
{
	if (last)
		*last = p->failures ? p->last_failure : NULL;
	return p->failures;
}
