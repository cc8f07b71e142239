/*
 * What is allowed and may surprise, said before it does: bottleneck queues that
 * are smaller than they should be, and more packets a second than this machine's
 * processors carry. These, not bits, are what a lab runs out of.
 */
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "harness/run/internal.h"
#include "shaper/inspect.h"

/* Mean size of what TCP sends as one packet, in frames, unless the device is told
 * less: 30 links of 20 Mbit/s carry 31,000 packets a second of frames of 1514 bytes. */
#define FRAMES_PER_PACKET 1.6
/* Of what is not simulated by then nothing is said. */
#define LOOK_NS 2000000000

/* ---- packets ---- */

static double packet_bytes(const struct experiment *exp, const struct lab_traffic *t)
{
	return fmin(lab_gso_max(&exp->cluster, t), FRAMES_PER_PACKET * (exp->cluster.mtu + 14));
}

double moment_packets_per_s(const struct moment *m, const struct lab_traffic *t)
{
	const struct cluster *c = &m->exp->cluster;
	const struct testbed_spec *spec = &m->exp->testbed;
	bool wraps = m->exp->schedule == SCHED_INTERLEAVED_1F1B;
	size_t n = (size_t)c->n_regions;
	CLEANUP_FREE double *wanted = calloc(n * n + 1, sizeof(*wanted));
	double sum_bps = 0;

	if (!wanted)
		return NAN;
	for (int i = 0; i < m->n; i++) {
		const struct placement *p = m->placements[i];
		double bps = placement_reservation_bps(m->exp, m->models, p);

		for (int k = 0; k < path_boundaries(p, wraps); k++) {
			size_t a = (size_t)p->parts[k].region, b = (size_t)p->parts[(k + 1) % p->n_parts].region;

			wanted[a * n + b] += bps;
			wanted[b * n + a] += bps;
		}
	}
	for (size_t i = 0; i < n * n; i++)
		sum_bps += fmin(l2_rate_bps(wanted[i], c->mtu), m->capacity_bps[i]);
	return sum_bps * spec->scale_bytes / spec->scale_time / 8 / packet_bytes(m->exp, t);
}

void preflight_see(struct run *r, const struct moment *m)
{
	double packets = r->exp->oracle_measured ? moment_packets_per_s(m, &r->traffic) : 0;

	if (!(packets > r->most_packets))
		return;
	r->most_packets = packets;
	r->busiest = r->policy;
}

static int processors(enum backend_kind backend)
{
	cpu_set_t set;

	/* A User-Mode Linux has one. */
	return backend == BACKEND_UML || sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);
}

/* Up to two digits. */
static double rounded_up(double v)
{
	double unit = pow(10, floor(log10(v)) - 1);

	return ceil(v / unit - 1e-9) * unit;
}

bool packets_note(const struct testbed_spec *t, const char *policy, double packets_per_s, int n_processors,
		  char *buf, size_t cap)
{
	double most = (double)n_processors * RUN_PACKETS_PER_PROCESSOR;

	if (!(packets_per_s > most))
		return false;
	snprintf(buf, cap, "where %s has most jobs on links, they send about %.0f packets a second, and a lab on %d "
		 "processor%s carries about %.0f: cells will be late and not count; testbed.scale.time = %g in place "
		 "of %g fits", policy, round(packets_per_s / 100) * 100, n_processors, n_processors == 1 ? "" : "s", most,
		 rounded_up(t->scale_time * packets_per_s / most), t->scale_time);
	return true;
}

void preflight_packets(const struct run *r, enum backend_kind backend, run_note_fn *note, void *arg)
{
	char text[400];

	if (r->busiest && packets_note(&r->exp->testbed, r->busiest, r->most_packets, processors(backend), text,
				       sizeof(text)))
		note(arg, text);
}

/* ---- bottleneck queues ---- */

struct small_buffers {
	int n;
	double worst;			/* of what it should be */
	char link[2 * NAME_LEN + 8];
	uint64_t has_bytes, wants_bytes;
};

/* A region's links, as its gateway would be told to shape them. */
static void see_buffers(const struct cluster *scaled, int region, const struct lab_traffic *t, struct small_buffers *out)
{
	struct shape_spec s = { .mtu = scaled->mtu, .gso_max_bytes = lab_gso_max(scaled, t) };

	if (lab_shape_links(scaled, region, false, t, &s))
		return;
	for (int i = 0; i < s.n_links; i++) {
		const struct shape_link *l = &s.links[i];
		uint64_t wanted = shape_buffer_wanted(&s, l);
		double part;

		if (!l->buffer_bytes || !l->rate_bps)
			continue;
		part = (double)l->buffer_bytes / (double)wanted;
		if (part >= 1 || (out->n++ && part >= out->worst))
			continue;
		out->worst = part;
		out->has_bytes = l->buffer_bytes;
		out->wants_bytes = wanted;
		snprintf(out->link, sizeof(out->link), "%s to %s", scaled->regions[region].name, l->name);
	}
	free(s.links);
}

void preflight_buffers(const struct experiment *exp, const struct lab_traffic *t, run_note_fn *note, void *arg)
{
	struct small_buffers small = { 0 };
	char text[400], has[BACE_FMT_MAX], wants[BACE_FMT_MAX];
	struct cluster scaled;

	if (cluster_scaled(&exp->cluster, exp->testbed.scale_bytes, exp->testbed.scale_time, &scaled))
		return;
	for (int i = 0; i < scaled.n_regions; i++)
		see_buffers(&scaled, i, t, &small);
	cluster_scaled_free(&scaled);
	if (!small.n)
		return;
	snprintf(text, sizeof(text), "%d link%s a smaller `buffer' than the larger of rate x RTT and 1.2 messages of each of "
		 "%d jobs: %s has %s, scaled, of %s: packets are lost, and steps take longer (with less than one message "
		 "by 37 to 83 %%)", small.n, small.n == 1 ? " has" : "s have", t->jobs_on_link, small.link,
		 bace_fmt_size(has, (double)small.has_bytes), bace_fmt_size(wants, (double)small.wants_bytes));
	note(arg, text);
}

/* ---- without a run ---- */

void preflight_simulate(struct run *r, int64_t until_ns)
{
	struct oracle *counting = NULL;
	struct bace_err e;

	if ((!r->event_sim && oracle_event_sim(r->exp->schedule, r->exp->interleave, r->exp->overlap, &r->event_sim, &e)) ||
	    counting_oracle(r, &counting, &e))
		return;
	r->look_until_ns = until_ns;
	for (int i = 0; i < r->exp->n_policies && bace_mono_ns() < until_ns; i++) {
		const struct policy_spec *spec = &r->exp->policies[i];
		struct cluster_result res = { 0 };
		struct policy *policy = NULL;

		/* Somebody's program is not started for a look. */
		if (!strcmp(spec->name, "external") || policy_create(spec, r->exp->seed, &policy, &e))
			continue;
		r->policy = spec->label;
		/* What fails here fails in the run, which says so. */
		if (!cluster_simulate(&(struct cluster_sim){ .exp = r->exp, .models = &r->models, .policy = policy,
				      .oracle = counting, .seed = r->exp->seed }, &res, &e))
			cluster_result_free(&res);
		policy_destroy(policy);
	}
	oracle_destroy(counting);
}

void run_notes(const struct experiment *exp, run_note_fn *note, void *arg)
{
	struct run r = { .exp = exp };
	struct bace_err e;

	if (job_models_build(exp, &r.models, &e))
		return;
	traffic_of(exp, &r.models, &r.traffic);
	preflight_buffers(exp, &r.traffic, note, arg);
	preflight_simulate(&r, bace_mono_ns() + LOOK_NS);
	preflight_packets(&r, exp->testbed.backend, note, arg);
	oracle_destroy(r.event_sim);
	job_models_free(&r.models);
}
