#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/control/cell.h"

#define TOLERANCE 0.02
/* Segments that a socket's counters do not show: SYN, FIN, resets, and their
 * repetitions. */
#define UNCOUNTED_PER_FLOW 2048
#define LATENESS_MAX_NS 2000000
/* Of timed compute: mean lateness against mean duration. Lateness does not add
 * up within a stage, so a step is wrong by less than this. What a good host
 * cannot do better is no reason. */
#define COMPUTE_LATENESS 0.05
#define COMPUTE_LATENESS_NS 500000
/* Without overlap: mean error of when a message left, of t_F + t_B. */
#define HOLD_TOLERANCE 0.03
#define HOLD_TOLERANCE_NS 500000

/* Once: a delay line that stood still, for a moment or for long, is in a step. */
#define STOOD_NS 10000000
#define STOOD_OF_STEP 0.05
#define BARRIER_NS 5000000
#define BARRIER_OF_STEP 0.05

const struct shape_stat *cell_class_of(const struct shape_stats *s, int region)
{
	for (int i = 0; i < s->n; i++)
		if (s->v[i].region == region)
			return &s->v[i];
	return NULL;
}

static const char *region_name(const struct cell_run *r, int region)
{
	return r->c->cfg.topo->region_names[region];
}

static struct tb_link_check *link_slot(struct cell_run *r, int src, int dst)
{
	struct tb_result *out = r->out;

	for (int i = 0; i < out->n_links; i++)
		if (out->links[i].src == src && out->links[i].dst == dst)
			return &out->links[i];
	out->links[out->n_links] = (struct tb_link_check){ .src = src, .dst = dst };
	return &out->links[out->n_links++];
}

/* What the classes towards `dst` of all that shapes in `src` counted. */
static bool count_class(const struct cell_run *r, struct tb_link_check *l)
{
	bool found = false;

	for (int i = 0; i < r->c->n_hosts; i++) {
		const struct host *h = &r->c->hosts[i];
		const struct shape_stat *a = cell_class_of(&r->stats[READ_BEFORE][i], l->dst);
		const struct shape_stat *b = cell_class_of(&r->stats[READ_AFTER][i], l->dst);

		if (h->spec->region != l->src || !a || !b)
			continue;
		found = true;
		l->tc_bytes += b->bytes - a->bytes;
		l->drops += b->drops - a->drops;
	}
	return found;
}

static uint32_t largest_packet(const struct cell_run *r)
{
	uint32_t most = 1514;

	for (int i = 0; i < r->c->n_hosts; i++) {
		const struct shape_spec *s = &r->c->hosts[i].spec->shape;

		most = s->mtu + 14 > most ? s->mtu + 14 : most;
		most = s->gso_max_bytes > most ? s->gso_max_bytes : most;
	}
	return most;
}

static bool rate_limited(const struct cell_run *r, int src, int dst)
{
	for (int i = 0; i < r->c->n_hosts; i++) {
		const struct tb_host *h = r->c->hosts[i].spec;

		for (int k = 0; h->region == src && k < h->shape.n_links; k++)
			if (h->shape.links[k].region == dst && h->shape.links[k].rate_bps)
				return true;
	}
	return false;
}

static bool is_delayed(const struct shape_link *k)
{
	return k->latency_ns || k->jitter_ns || k->loss > 0;
}

/* A delay that nothing passed through was not there: its rule was gone, or the
 * traffic came another way. */
static void check_delayed(struct cell_run *r, const struct tb_link_check *l)
{
	bool planned = false, passed = false;

	for (int i = 0; i < r->c->n_hosts && l->wire_bytes; i++) {
		const struct host *h = &r->c->hosts[i];
		const struct shape_stat *a = cell_class_of(&r->stats[READ_BEFORE][i], l->src);
		const struct shape_stat *b = cell_class_of(&r->stats[READ_AFTER][i], l->src);

		for (int k = 0; h->spec->region == l->dst && a && b && k < h->spec->shape.n_links; k++) {
			const struct shape_link *s = &h->spec->shape.links[k];

			if (s->region != l->src || h->spec->shape.delay == DELAY_NONE || !is_delayed(s))
				continue;
			planned = true;
			passed |= a->delay_packets != b->delay_packets;
		}
	}
	if (planned && !passed)
		cell_invalid(r, SEVERITY_CAUSE, "%s to %s: nothing passed through its delay", region_name(r, l->src),
			     region_name(r, l->dst));
}

static void check_link(struct cell_run *r, struct tb_link_check *l, int flows)
{
	double slack = TOLERANCE * (double)l->wire_bytes + (double)flows * UNCOUNTED_PER_FLOW;
	double low;

	if (!count_class(r, l)) {
		/* Unlimited links have no class to compare with. */
		l->valid = !rate_limited(r, l->src, l->dst);
		if (!l->valid)
			cell_invalid(r, SEVERITY_CAUSE, "%s to %s: nothing counted its traffic",
				     region_name(r, l->src), region_name(r, l->dst));
		return;
	}
	/* The sender counts what the class's queue dropped, the class does not. */
	low = (double)l->wire_bytes - slack - (double)l->drops * largest_packet(r);
	l->valid = (double)l->tc_bytes >= low && (double)l->tc_bytes <= (double)l->wire_bytes + slack;
	if (!l->valid)
		cell_invalid(r, SEVERITY_CAUSE, "%s to %s: tc counted %llu bytes, the ranks sent %llu: some "
			     "traffic bypassed the shaper, or was not theirs", region_name(r, l->src),
			     region_name(r, l->dst), (unsigned long long)l->tc_bytes,
			     (unsigned long long)l->wire_bytes);
}

static int check_links(struct cell_run *r, struct bace_err *e)
{
	struct tb_result *out = r->out;
	CLEANUP_FREE int *flows = calloc((size_t)out->n_flows + 1, sizeof(int));

	out->links = calloc((size_t)out->n_flows + 1, sizeof(*out->links));
	if (!out->links || !flows)
		return bace_fail(e, ENOMEM, "links: out of memory");
	for (int i = 0; i < out->n_flows; i++) {
		const struct tb_flow *f = &out->flows[i];
		struct tb_link_check *l;

		if (f->src_region == f->dst_region)
			continue;
		l = link_slot(r, f->src_region, f->dst_region);
		l->wire_bytes += f->wire_bytes;
		flows[l - out->links]++;
	}
	for (int i = 0; i < out->n_links; i++) {
		out->links[i].wire_bytes += cell_probe_bytes(r, out->links[i].src, out->links[i].dst);
		check_link(r, &out->links[i], flows[i]);
		check_delayed(r, &out->links[i]);
	}
	return 0;
}

static bool loses_on_purpose(const struct host *h)
{
	for (int i = 0; i < h->spec->shape.n_links; i++) {
		const struct shape_link *l = &h->spec->shape.links[i];

		if (l->loss > 0 || l->impair.loss_model != LOSS_RANDOM)
			return true;
	}
	return false;
}

static uint64_t delay_drops(const struct shape_stats *s)
{
	uint64_t n = 0;

	for (int i = 0; i < s->n; i++)
		n += s->v[i].delay_drops;
	return n;
}

static int64_t shortest_step_ns(const struct cell_run *r)
{
	int64_t shortest = INT64_MAX;

	for (int i = 0; i < r->out->n_steps; i++) {
		const struct tb_step *s = &r->out->steps[i];

		if (s->step >= 0 && s->end_ns - s->start_ns < shortest)
			shortest = s->end_ns - s->start_ns;
	}
	return shortest;
}

static void check_interface(struct cell_run *r, const struct host *h)
{
	if (r->stats[READ_AFTER][h->index].carrier_changes != r->stats[READ_BEFORE][h->index].carrier_changes)
		cell_invalid(r, SEVERITY_CAUSE, "%s: an interface that it shapes went down or came up during the cell",
			     h->spec->name);
}

static void check_delay(struct cell_run *r, const struct host *h)
{
	const struct shape_stats *before = &r->stats[READ_BEFORE][h->index];
	const struct shape_stats *after = &r->stats[READ_AFTER][h->index];
	uint64_t queue = after->queue_drops - before->queue_drops;
	uint64_t user = after->user_drops - before->user_drops;
	uint64_t lost = delay_drops(after) - delay_drops(before);

	if (h->spec->shape.delay != DELAY_NONE && !after->delay_alive)
		cell_invalid(r, SEVERITY_CAUSE, "%s: its delay line died during the cell", h->spec->name);
	if (queue || user)
		cell_invalid(r, SEVERITY_CAUSE, "%s: its delay queue dropped %llu packets", h->spec->name,
			     (unsigned long long)(queue + user));
	else if (lost && !loses_on_purpose(h) && !cell_trace_loses(r, h))
		cell_invalid(r, SEVERITY_CAUSE, "%s: its delay dropped %llu packets, none should be lost",
			     h->spec->name, (unsigned long long)lost);
	if (after->lateness_p99_ns > r->out->delay_lateness_p99_ns)
		r->out->delay_lateness_p99_ns = after->lateness_p99_ns;
	if (after->lateness_p99_ns > LATENESS_MAX_NS)
		cell_invalid(r, SEVERITY_CONSEQUENCE, "%s: its delay line was late by %.1f ms (p99); the machine is "
			     "overloaded", h->spec->name, (double)after->lateness_p99_ns / 1e6);
	else if (after->lateness_max_ns > STOOD_NS &&
		 (double)after->lateness_max_ns > STOOD_OF_STEP * (double)shortest_step_ns(r))
		cell_invalid(r, SEVERITY_CONSEQUENCE, "%s: its delay line stood still for %.0f ms; the machine is "
			     "overloaded", h->spec->name, (double)after->lateness_max_ns / 1e6);
}

static void check_compute(struct cell_run *r)
{
	double late = 0, busy = 0;
	int n = 0;

	for (int i = 0; i < r->out->n_ops; i++) {
		const struct tb_op *o = &r->out->ops[i];

		if (o->kind > TB_WEIGHT || o->step < 0)
			continue;
		n++;
		late += o->end_ns > o->planned_end_ns ? (double)(o->end_ns - o->planned_end_ns) : 0;
		busy += (double)(o->planned_end_ns - o->start_ns);
	}
	if (late > COMPUTE_LATENESS * busy && late > (double)n * COMPUTE_LATENESS_NS)
		cell_invalid(r, SEVERITY_CONSEQUENCE, "timed compute was late by %.1f %% of its duration on "
			     "average (p99 %.1f ms, allowed %.0f %%); the machine is overloaded", 100 * late / busy,
			     (double)r->out->lateness_p99_ns / 1e6, 100 * COMPUTE_LATENESS);
}

/* The hop that brought a message, by its receiver. */
static const struct tb_hop *hop_of(const struct tb_job *j, const struct tb_op *o)
{
	int before = (o->stage + j->n_stages - 1) % j->n_stages;

	return &j->hops[o->kind == TB_RECV_ACTIVATION ? before : o->stage];
}

/* Without overlap a stage was held for as long as its message should have taken
 * of the link; did it? (What came before a stage's turn waited nowhere: there is
 * one message at a time.) */
static void check_holds(struct cell_run *r, int job)
{
	const struct tb_job *j = &r->cell->jobs[job];
	/* Else a message is timed from its first byte, which has the latency behind it. */
	bool one_clock = cell_shares_clock(r, job);
	double late = 0, slot = (double)(j->stages[0].fwd_ns + j->stages[0].bwd_ns + j->stages[0].w_ns);
	int n = 0;

	for (int i = 0; i < r->out->n_ops; i++) {
		const struct tb_op *o = &r->out->ops[i];
		bool forward = o->kind == TB_RECV_ACTIVATION;
		const struct tb_hop *h;
		double planned;

		if (o->job != job || o->step < 0 || o->kind < TB_RECV_ACTIVATION || o->kind > TB_RECV_GRADIENT)
			continue;
		h = hop_of(j, o);
		if (h->local)
			continue;
		planned = (double)h->bytes * 8e9 / (double)(forward ? h->rate_bps : h->reverse_rate_bps) +
			  (one_clock ? (double)(forward ? h->latency_ns : h->reverse_latency_ns) : 0);
		late += (double)(o->end_ns - o->start_ns) - planned;
		n++;
	}
	if (n && fabs(late / n) > HOLD_TOLERANCE * slot && fabs(late / n) > HOLD_TOLERANCE_NS)
		cell_invalid(r, SEVERITY_CAUSE, "%s: without overlap, messages left their links %.1f ms later than "
			     "planned on average (allowed %.1f ms): the stages were held for too short", j->name,
			     late / n / 1e6, HOLD_TOLERANCE * slot / 1e6);
}

/* Without a warm-up the first step is measured from where the first rank began. */
static void check_barrier(struct cell_run *r)
{
	int64_t spread = r->out->barrier_spread_ns;

	if (!r->cell->warmup_steps && spread > BARRIER_NS && (double)spread > BARRIER_OF_STEP * (double)shortest_step_ns(r))
		cell_invalid(r, SEVERITY_CONSEQUENCE, "the ranks did not begin together: the last was late by %.1f ms; the "
			     "machine is overloaded", (double)spread / 1e6);
}

int cell_check(struct cell_run *r, struct bace_err *e)
{
	int rc;

	/* A cell that was ended has no second read-out, and needs no second reason. */
	if (!r->out->valid)
		return 0;
	rc = r->c->plan_wanted ? check_links(r, e) : 0;
	for (int i = 0; i < r->c->n_hosts; i++)
		if (cell_reads(r, &r->c->hosts[i])) {
			check_interface(r, &r->c->hosts[i]);
			check_delay(r, &r->c->hosts[i]);
			cell_check_loss(r, &r->c->hosts[i]);
		}
	check_compute(r);
	check_barrier(r);
	for (int j = 0; j < r->cell->n_jobs; j++)
		if (!r->cell->jobs[j].overlap)
			check_holds(r, j);
	return rc;
}
