/*
 * What a measurement depends on beside its moment, as a text: two runs whose
 * texts are the same may use each other's moments. Policies, prices and what else
 * only decides where jobs run are not in it, nor are the jobs' numbers of steps.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "config.h"
#include "harness/run/internal.h"

static const char *text_of(const char *s)
{
	return s ? s : "";
}

/* Buffers, windows and sockets are computed from all links and from the largest
 * message; the moment's key has only the links that are used. */
static int add_network(const struct run *r, struct bace_buf *b)
{
	const struct cluster *c = &r->exp->cluster;
	int n = c->n_regions;
	int rc = bace_buf_addf(b, "mtu %u messages %llu %llu jobs %d\n", c->mtu,
			       (unsigned long long)r->traffic.message_bytes,
			       (unsigned long long)r->traffic.min_message_bytes, r->traffic.jobs_on_link);

	for (int i = 0; !rc && i < n; i++)
		rc = bace_buf_addf(b, "region %s %.17g %lld\n", c->regions[i].name, c->regions[i].bandwidth_bps,
				   (long long)c->regions[i].intra_latency_ns);
	for (int i = 0; !rc && i < n * n; i++) {
		const struct link *l = &c->links[i];

		if (l->present)
			rc = bace_buf_addf(b, "link %d %d %llu %lld %lld %d %.17g %llu\n", i / n, i % n,
					   (unsigned long long)l->rate_bps, (long long)l->latency_ns,
					   (long long)l->jitter_ns, (int)l->jitter_dist, l->loss,
					   (unsigned long long)l->buffer_bytes);
	}
	return rc;
}

/* How a model is divided among stages; what it computes is in the moment's key. */
static int add_models(const struct experiment *exp, struct bace_buf *b)
{
	int rc = bace_buf_addf(b, "k_limit %d %d\n", (int)exp->k_limit, exp->k_limit_n);

	for (int i = 0; !rc && i < exp->n_models; i++) {
		const struct model *m = &exp->models[i];
		bool used = false;

		for (int j = 0; j < exp->n_jobs; j++)
			used |= exp->jobs[j].model == i;
		if (used)
			rc = bace_buf_addf(b, "model %s %d %d %d\n", m->name, m->layers, m->hidden, m->recompute);
	}
	return rc;
}

static int add_testbed(const struct testbed_spec *t, struct bace_buf *b)
{
	int rc = bace_buf_addf(b, "testbed %d %d %d %d %.17g %d %llu\n", (int)t->transport, (int)t->compute, (int)t->timeline,
			       t->sockets_per_hop, t->steady_within, t->steady_steps, (unsigned long long)t->socket_buffer_bytes);

	for (int i = 0; !rc && i < t->n_disturb; i++) {
		const struct disturbance *d = &t->disturb[i];

		rc = bace_buf_addf(b, "disturb %d %d %lld %d %.17g %d %s\n", d->from, d->to, (long long)d->jitter_ns,
				   (int)d->jitter_dist, d->loss, d->loop, text_of(d->trace));
	}
	return rc;
}

static int add_hosts(const struct cluster *c, struct bace_buf *b)
{
	int rc = 0;

	for (int i = 0; !rc && i < c->n_hosts; i++) {
		const struct cluster_host *h = &c->hosts[i];

		rc = bace_buf_addf(b, "host %s %d %d %s %s %s\n", h->name, h->region, h->gateway, h->address, h->egress,
				   h->ingress);
	}
	return rc;
}

static int hash_conditions(const struct run *r, uint64_t *out)
{
	struct bace_buf b = { 0 };
	int rc = add_network(r, &b);

	if (!rc)
		rc = add_models(r->exp, &b);
	if (!rc)
		rc = add_testbed(&r->exp->testbed, &b);
	if (!rc && r->o->launch)
		rc = add_hosts(&r->exp->cluster, &b);
	if (!rc)
		*out = bace_hash64(b.p, b.len, 0);
	bace_buf_free(&b);
	return rc;
}

char *run_settings(const struct run *r)
{
	const struct testbed_spec *t = &r->exp->testbed;
	struct bace_buf b = { 0 };
	uint64_t conditions;
	struct utsname u;

	uname(&u);
	if (hash_conditions(r, &conditions) ||
	    bace_buf_addf(&b, "launcher=%s version=%s kernel=%s backend=%s schedule=%s chunks=%d overlap=%d ranks=%d "
			  "scale_bytes=%.17g scale_time=%.17g warmup=%d steps=%d wan=%d cc=%s hosts=%d "
			  "conditions=%016llx", launcher_name(r->o->launch ? r->o->launch->kind : LAUNCH_LAB),
			  BACE_VERSION, u.release, backend_name(r->backend), schedule_name(r->exp->schedule),
			  r->exp->interleave, r->exp->overlap, t->ranks, t->scale_bytes, t->scale_time,
			  t->warmup_steps, t->steps, t->wan, t->congestion_control, t->hosts_per_region,
			  (unsigned long long)conditions)) {
		bace_buf_free(&b);
		return NULL;
	}
	return b.p;
}

/* ---- of the run that is gone on with ---- */

/* "backend=nfqueue (now uml), ...": the words of two settings that differ. */
static void describe_settings(const char *old, const char *now, char *buf, size_t cap)
{
	size_t used = 0;

	*buf = '\0';
	while (*old && *now) {
		size_t n = strcspn(old, " "), k = strcspn(now, " "), name = strcspn(now, "= ");

		if ((n != k || memcmp(old, now, n)) && used < cap)
			used += (size_t)snprintf(buf + used, cap - used, "%s%.*s (now %.*s)", used ? ", " : "", (int)n, old,
						 (int)(k > name ? k - name - 1 : 0), now + name + 1);
		old += n + (old[n] == ' ');
		now += k + (now[k] == ' ');
	}
}

int settings_check_resumed(struct run *r, struct bace_err *e)
{
	CLEANUP_FREE char *other = NULL;
	char differ[300];
	int n, rc = r->settings ? store_count_moments(r->store, r->resumed, r->settings, &n, &other, e) : 0;

	if (rc || !r->settings || n || !other)
		return rc;
	describe_settings(other, r->settings, differ, sizeof(differ));
	return bace_fail(e, EINVAL, "--resume: run %s measured with other settings: %s", r->resumed, differ);
}
