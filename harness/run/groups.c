/* What of a moment can be measured apart, and how many cells that will take. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "harness/run/internal.h"

static bool share_a_link(const struct placement *p, const struct placement *q, bool wraps)
{
	for (int i = 0; i < path_boundaries(p, wraps); i++) {
		int a = p->parts[i].region, b = p->parts[(i + 1) % p->n_parts].region;

		for (int k = 0; k < path_boundaries(q, wraps); k++) {
			int c = q->parts[k].region, d = q->parts[(k + 1) % q->n_parts].region;

			if ((a == c && b == d) || (a == d && b == c))
				return true;
		}
	}
	return false;
}

void groups_free(struct group *g, int n)
{
	for (int i = 0; g && i < n; i++) {
		free(g[i].which);
		free(g[i].placements);
		free(g[i].place);
		free(g[i].key);
	}
	free(g);
}

/* Everything that job `first` is connected to, itself included. */
static int group_collect(const struct moment *m, int first, bool *taken, struct group *g)
{
	bool wraps = m->exp->schedule == SCHED_INTERLEAVED_1F1B;
	struct moment sub = *m;

	g->which = calloc((size_t)m->n, sizeof(*g->which));
	g->placements = calloc((size_t)m->n, sizeof(*g->placements));
	g->place = calloc((size_t)m->n, sizeof(*g->place));
	if (!g->which || !g->placements || !g->place)
		return -ENOMEM;
	g->which[g->n++] = first;
	taken[first] = true;
	for (int seen = 0; seen < g->n; seen++) {
		const struct placement *p = m->placements[g->which[seen]];

		for (int k = 0; k < m->n; k++) {
			if (taken[k] || !share_a_link(p, m->placements[k], wraps))
				continue;
			taken[k] = true;
			g->which[g->n++] = k;
		}
	}
	for (int i = 0; i < g->n; i++)
		g->placements[i] = m->placements[g->which[i]];
	sub.n = g->n;
	sub.placements = g->placements;
	g->key = moment_key(&sub);
	return g->key ? moment_order(&sub, g->place) : -ENOMEM;
}

int groups_of(const struct moment *m, struct group **out, struct bace_err *e)
{
	CLEANUP_FREE bool *taken = calloc((size_t)m->n + 1, sizeof(*taken));
	struct group *g = calloc((size_t)m->n + 1, sizeof(*g));
	int n = 0;

	for (int i = 0; g && taken && i < m->n; i++) {
		if (taken[i])
			continue;
		if (group_collect(m, i, taken, &g[n++])) {
			groups_free(g, n);
			g = NULL;
		}
	}
	if (!g || !taken)
		return bace_fail(e, ENOMEM, "moment of %d jobs: out of memory", m->n);
	*out = g;
	return n;
}

/* ---- counting ---- */

/* Event simulation, that notes which groups it was asked about: the testbed will
 * be asked about much the same. */
struct counting {
	struct oracle base;
	struct run *run;
	size_t n, cap;
	char **seen;
};

static bool was_seen(const struct counting *c, const char *key)
{
	for (size_t i = 0; i < c->n; i++)
		if (!strcmp(c->seen[i], key))
			return true;
	return false;
}

static int count(struct counting *c, const struct moment *m, struct bace_err *e)
{
	struct group *g = NULL;
	bool any = false;
	int rc = 0, n = groups_of(m, &g, e);

	for (int i = 0; !rc && i < n; i++) {
		char *key = was_seen(c, g[i].key) ? NULL : strdup(g[i].key);

		if (!key)
			continue;
		any = true;
		if (BACE_PUSH(c->seen, c->n, c->cap, key)) {
			free(key);
			rc = bace_fail(e, ENOMEM, "moment of %d jobs: out of memory", m->n);
		}
	}
	groups_free(g, n);
	c->run->cells_expected += any;
	return n < 0 ? n : rc;
}

static int counting_step_times(struct oracle *base, const struct moment *m, struct step_estimate *out,
			       struct bace_err *e)
{
	struct counting *c = (struct counting *)base;
	int rc;

	if (c->run->look_until_ns && bace_mono_ns() >= c->run->look_until_ns)
		return bace_fail(e, ETIME, "event simulation: not in the time it has");
	rc = count(c, m, e);
	preflight_see(c->run, m);
	return rc ? rc : c->run->event_sim->step_times(c->run->event_sim, m, out, e);
}

static void counting_destroy(struct oracle *base)
{
	struct counting *c = (struct counting *)base;

	for (size_t i = 0; i < c->n; i++)
		free(c->seen[i]);
	free(c->seen);
	free(c);
}

int counting_oracle(struct run *r, struct oracle **out, struct bace_err *e)
{
	struct counting *c = calloc(1, sizeof(*c));

	if (!c)
		return bace_fail(e, ENOMEM, "event simulation: out of memory");
	*c = (struct counting){ .base = { .name = r->event_sim->name, .step_times = counting_step_times,
					  .destroy = counting_destroy }, .run = r };
	*out = &c->base;
	return 0;
}
