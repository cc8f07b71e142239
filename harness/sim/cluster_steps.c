/*
 * Asks the oracle. Whole: about everything that runs, when that changed.
 * Separable: about each group of jobs connected by shared links in which
 * something changed, once per distinct group (classes, placements, capacities
 * of the links crossed); the answers are remembered.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/sim/cluster.h"

static int ask(struct sim *s, int n, const int *slots, struct bace_err *err)
{
	struct moment m = { .exp = s->exp, .models = s->in->models, .n = n,
			    .placements = s->placements, .capacity_bps = s->capacity };
	int rc;

	for (int i = 0; i < n; i++)
		s->placements[i] = &s->out->jobs[s->run[slots[i]].job].placement;
	s->out->n_moments++;
	rc = s->in->oracle->step_times(s->in->oracle, &m, s->estimates, err);
	if (rc)
		return rc;
	for (int i = 0; i < n; i++) {
		const struct step_estimate *e = &s->estimates[i];

		if (e->step_s > 0 && e->busy >= 0 && e->busy <= 1 + 1e-9)
			continue;
		return bace_fail(err, ERANGE, "oracle %s: step of %g s, busy %g for %s at %g s: must be above 0, and 0 to 1",
				 s->in->oracle->name, e->step_s, e->busy,
				 s->exp->jobs[s->run[slots[i]].job].name, s->now_s);
	}
	return 0;
}

static int update_whole(struct sim *s, struct bace_err *err)
{
	int n = 0, rc;

	for (int slot = s->first_running; slot >= 0; slot = s->run[slot].next)
		s->group[n++] = slot;
	if (!n)
		return 0;
	rc = ask(s, n, s->group, err);
	for (int i = 0; !rc && i < n; i++)
		running_set_step(s, s->group[i], &s->estimates[i]);
	return rc;
}

/* ---- groups ---- */

static int by_start(const void *a, const void *b, void *arg)
{
	const struct sim *s = arg;
	int64_t x = s->run[*(const int *)a].started, y = s->run[*(const int *)b].started;

	return (x > y) - (x < y);
}

/* All jobs connected with the slot, in order of start. */
static int gather(struct sim *s, int slot)
{
	int n = 0;

	s->group[n++] = slot;
	s->run[slot].mark = s->mark;
	for (int i = 0; i < n; i++) {
		for (int x = s->run[s->group[i]].first_crossing; x >= 0; x = s->cross[x].sibling) {
			for (int y = s->pair_first[s->cross[x].pair]; y >= 0; y = s->cross[y].next) {
				struct running *r = &s->run[s->cross[y].slot];

				if (r->mark == s->mark)
					continue;
				r->mark = s->mark;
				s->group[n++] = s->cross[y].slot;
			}
		}
	}
	if (n > 1)
		qsort_r(s->group, (size_t)n, sizeof(*s->group), by_start, s);
	return n;
}

static size_t key_length(const struct sim *s, const struct placement *p)
{
	return 2 + 2 * (size_t)p->n_parts + (p->n_parts > 1 ? 4 * (size_t)p->n_parts : 0);
}

/* Class, parts, and the capacities of the hops (and of last to first). */
static size_t key_append(const struct sim *s, const struct placement *p, int32_t *key)
{
	size_t n = 0;

	key[n++] = s->in->models->v[p->job].cls;
	key[n++] = p->n_parts;
	for (int i = 0; i < p->n_parts; i++) {
		key[n++] = p->parts[i].region;
		key[n++] = p->parts[i].gpus;
	}
	for (int i = 0; p->n_parts > 1 && i < p->n_parts; i++) {
		int a = p->parts[i].region, b = p->parts[(i + 1) % p->n_parts].region;

		memcpy(key + n, &s->capacity[a * s->n + b], sizeof(double));
		memcpy(key + n + 2, &s->capacity[b * s->n + a], sizeof(double));
		n += 4;
	}
	return n;
}

static int make_key(struct sim *s, int n)
{
	size_t len = 0;

	for (int i = 0; i < n; i++)
		len += key_length(s, &s->out->jobs[s->run[s->group[i]].job].placement);
	if (len > s->cap_key && bace_grow(&s->key, &s->cap_key, len, sizeof(*s->key)))
		return -ENOMEM;
	s->n_key = 0;
	for (int i = 0; i < n; i++)
		s->n_key += key_append(s, &s->out->jobs[s->run[s->group[i]].job].placement,
				       s->key + s->n_key);
	return 0;
}

static int update_group(struct sim *s, int slot, struct bace_err *err)
{
	int n = gather(s, slot), rc;
	const struct step_estimate *known;

	if (make_key(s, n))
		return bace_fail(err, ENOMEM, "step times of %d jobs: out of memory", n);
	known = memo_find(s->memo, s->key, s->n_key);
	if (!known) {
		rc = ask(s, n, s->group, err);
		if (rc)
			return rc;
		if (memo_add(s->memo, s->key, s->n_key, s->estimates, (size_t)n))
			return bace_fail(err, ENOMEM, "step times of %d jobs: out of memory", n);
		known = s->estimates;
	}
	for (int i = 0; i < n; i++)
		running_set_step(s, s->group[i], &known[i]);
	return 0;
}

const struct step_estimate *steps_known(struct sim *s, const struct placement *p)
{
	int32_t key[4];

	if (!s->in->separable || p->n_parts != 1)
		return NULL;
	return memo_find(s->memo, key, key_append(s, p, key));
}

static void next_mark(struct sim *s)
{
	if (++s->mark)
		return;
	for (int i = 0; i < s->max_running; i++)
		s->run[i].mark = 0;
	s->mark = 1;
}

int steps_update(struct sim *s, struct bace_err *err)
{
	int rc = 0;

	if (s->changed && !s->in->separable)
		rc = update_whole(s, err);
	if (s->n_dirty)
		next_mark(s);
	for (int i = 0; i < s->n_dirty; i++) {
		struct running *r = &s->run[s->dirty[i]];

		/* A slot may have been left and taken again within the instant. */
		if (!rc && r->dirty && s->in->separable && r->mark != s->mark)
			rc = update_group(s, s->dirty[i], err);
		r->dirty = false;
	}
	s->n_dirty = 0;
	s->changed = false;
	return rc;
}
