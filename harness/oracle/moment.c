#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/oracle/shares.h"

double moment_link_goodput_bps(const struct moment *m, int which, int src, int dst)
{
	const struct cluster *c = &m->exp->cluster;
	const struct placement *p = m->placements[which];
	int link = src * c->n_regions + dst;
	double goodput = goodput_bps(m->capacity_bps[link], c->mtu);
	struct shares s = { 0 };

	if (shares_compute(&s, m, moment_chunks(m))) {
		goodput = NAN;
	} else if (p->n_parts > 1) {
		size_t end = which + 1 < m->n ? s.first[which + 1] : s.n;

		for (size_t x = s.first[which]; x < end; x++)
			if (s.v[x].link == link)
				goodput = s.v[x].goodput_bps;
	}
	shares_free(&s);
	return goodput;
}

int moment_hops(const struct moment *m, int which, struct hop_cost *fwd, struct hop_cost *rev)
{
	struct shares s = { 0 };
	int rc = shares_compute(&s, m, moment_chunks(m));

	if (!rc)
		shares_hops(&s, which, false, fwd, rev);
	shares_free(&s);
	return rc;
}

int moment_hops_wrapped(const struct moment *m, int which, struct hop_cost *fwd, struct hop_cost *rev)
{
	struct shares s = { 0 };
	int rc = shares_compute(&s, m, moment_chunks(m));

	if (!rc)
		shares_hops(&s, which, true, fwd, rev);
	shares_free(&s);
	return rc;
}

/* ---- the key ---- */

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Shape and path of one job. Its name is not in it: jobs alike are measured once. */
static char *placement_key(const struct moment *m, const struct placement *p)
{
	const struct job *job = &m->exp->jobs[p->job];
	const struct job_model *j = &m->models->v[p->job];
	CLEANUP_FREE char *path = placement_format(&m->exp->cluster, p);
	char *text;

	if (!path || asprintf(&text, "%s (m %d, beta %d, F %.17g s, B %.17g s, A %.17g B) @ %s",
			      m->exp->models[job->model].name, j->m, job->micro_batch_size, j->fwd_s, j->bwd_s,
			      j->boundary_bytes, path) < 0)
		return NULL;
	return text;
}

static char *link_key(const struct moment *m, int link)
{
	const struct cluster *c = &m->exp->cluster;
	const struct link *l = &c->links[link];
	char *text;

	if (asprintf(&text, "%s-%s %.17g bit/s %lld ns jitter %lld ns/%d loss %.17g buffer %llu",
		     c->regions[link / c->n_regions].name, c->regions[link % c->n_regions].name,
		     m->capacity_bps[link], (long long)l->latency_ns, (long long)l->jitter_ns,
		     (int)l->jitter_dist, l->loss, (unsigned long long)l->buffer_bytes) < 0)
		return NULL;
	return text;
}

static char *region_key(const struct moment *m, int region)
{
	const struct region *r = &m->exp->cluster.regions[region];
	char *text;

	if (asprintf(&text, "%s %.17g FLOP/s %.17g bit/s %lld ns", r->name,
		     m->exp->cluster.gpus[r->gpu].flops_eff, r->bandwidth_bps,
		     (long long)r->intra_latency_ns) < 0)
		return NULL;
	return text;
}

struct texts {
	char **v;
	size_t n, cap;
};

static int keep(struct texts *t, char *text)
{
	if (text && !BACE_PUSH(t->v, t->n, t->cap, text))
		return 0;
	free(text);
	return -ENOMEM;
}

/* Appends the texts, sorted, and empties the list. */
static int flush(struct texts *t, struct bace_buf *b, const char *before)
{
	int rc = 0;

	if (t->n)
		qsort(t->v, t->n, sizeof(*t->v), by_text);
	for (size_t i = 0; i < t->n; i++) {
		if (!rc)
			rc = bace_buf_addf(b, "%s%s", i ? "; " : before, t->v[i]);
		free(t->v[i]);
	}
	t->n = 0;
	return rc;
}

/* The regions and links that some placement uses, each once. */
static int add_truth(const struct moment *m, const struct shares *s, struct texts *t, struct bace_buf *b)
{
	int regions = m->exp->cluster.n_regions, rc = 0;
	CLEANUP_FREE uint8_t *used = calloc((size_t)regions * (size_t)(regions + 1) + 1, 1);
	uint8_t *links = used + regions;

	if (!used)
		return -ENOMEM;
	for (int i = 0; i < m->n; i++)
		for (int k = 0; k < m->placements[i]->n_parts; k++)
			used[m->placements[i]->parts[k].region] = 1;
	for (size_t x = 0; x < s->n; x++)
		links[s->v[x].link] = 1;
	for (int i = 0; !rc && i < regions; i++)
		if (used[i])
			rc = keep(t, region_key(m, i));
	rc = rc ? rc : flush(t, b, " | ");
	for (int i = 0; !rc && i < regions * regions; i++)
		if (links[i])
			rc = keep(t, link_key(m, i));
	return rc ? rc : flush(t, b, " | ");
}

char *moment_key(const struct moment *m)
{
	struct shares s = { 0 };
	struct texts t = { 0 };
	struct bace_buf b = { 0 };
	int rc = bace_buf_add(&b, "", 0);

	if (!rc)
		rc = shares_compute(&s, m, moment_chunks(m));
	for (int i = 0; !rc && i < m->n; i++)
		rc = keep(&t, placement_key(m, m->placements[i]));
	rc = rc ? rc : flush(&t, &b, "");
	rc = rc ? rc : add_truth(m, &s, &t, &b);
	for (size_t i = 0; i < t.n; i++)
		free(t.v[i]);
	free(t.v);
	shares_free(&s);
	if (rc)
		bace_buf_free(&b);
	return rc ? NULL : b.p;
}

int moment_order(const struct moment *m, int *place)
{
	CLEANUP_FREE char **keys = calloc((size_t)m->n + 1, sizeof(*keys));
	int rc = keys ? 0 : -ENOMEM;

	for (int i = 0; !rc && i < m->n; i++) {
		keys[i] = placement_key(m, m->placements[i]);
		rc = keys[i] ? 0 : -ENOMEM;
	}
	for (int i = 0; !rc && i < m->n; i++) {
		place[i] = 0;
		for (int k = 0; k < m->n; k++) {
			int order = strcmp(keys[k], keys[i]);

			place[i] += order < 0 || (!order && k < i);
		}
	}
	for (int i = 0; keys && i < m->n; i++)
		free(keys[i]);
	return rc;
}
