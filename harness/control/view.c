/* The view: what the monitors say of every link, with age and error. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/control/monitor.h"

#define TOGETHER_MIN_NS 2000000000ll

static const struct estimate *estimate_of(const struct link_seen *l, enum tb_method m)
{
	return m == TB_COUNTERS ? &l->counters.e : m == TB_TCP_INFO ? &l->tcp.e : &l->probe.e;
}

static double used_of(const struct link_seen *l, enum tb_method m)
{
	return m == TB_COUNTERS ? l->counters.used_bps : m == TB_TCP_INFO ? l->tcp.used_bps : 0;
}

/* What a host says of a link by one method; NULL: nothing. */
static const struct link_seen *said_by(const struct host *h, int src, int dst, enum tb_method m)
{
	const struct link_seen *l = h->spec->region == src && h->monitor ? h->monitor->to[dst] : NULL;

	return l && estimate_of(l, m)->known ? l : NULL;
}

/* What was seen so much earlier than the newest is of another time. */
static int64_t together_ns(const struct controller *c, enum tb_method m)
{
	static const enum tb_source source[] = { [TB_COUNTERS] = TB_SRC_CLASS, [TB_TCP_INFO] = TB_SRC_TCP,
						 [TB_PROBE] = TB_SRC_PROBE };
	int64_t periods = 3000000ll * c->period_ms[source[m]];

	return periods > TOGETHER_MIN_NS ? periods : TOGETHER_MIN_NS;
}

bool view_of_method(const struct controller *c, int src, int dst, enum tb_method m, struct tb_view_link *out)
{
	int64_t newest = 0, oldest = INT64_MAX;

	*out = (struct tb_view_link){ .method = m, .age_s = NAN };
	for (int i = 0; i < c->n_hosts; i++) {
		const struct link_seen *l = said_by(&c->hosts[i], src, dst, m);

		if (l && l->heard_ns[m] > newest)
			newest = l->heard_ns[m];
	}
	/* Several hosts of a region share its link: each sees its own part. */
	for (int i = 0; i < c->n_hosts; i++) {
		const struct link_seen *l = said_by(&c->hosts[i], src, dst, m);

		if (!l || newest - l->heard_ns[m] > together_ns(c, m))
			continue;
		out->known = true;
		out->capacity_bps += estimate_of(l, m)->rate_bps;
		out->error_bps += estimate_of(l, m)->error_bps;
		out->used_bps += used_of(l, m);
		out->lower_bound |= estimate_of(l, m)->lower_bound;
		oldest = l->heard_ns[m] < oldest ? l->heard_ns[m] : oldest;
	}
	if (out->known)
		out->age_s = (double)(bace_mono_ns() - oldest) / 1e9;
	return out->known;
}

/* The newest that is not a mere lower bound, unless more has passed since; else
 * the highest lower bound. */
bool view_better(const struct tb_view_link *a, const struct tb_view_link *b)
{
	const struct tb_view_link *least = a->lower_bound ? a : b, *exact = a->lower_bound ? b : a;

	if (!b->known)
		return true;
	if (a->lower_bound == b->lower_bound)
		return a->lower_bound ? a->capacity_bps > b->capacity_bps : a->age_s < b->age_s;
	if (least->age_s < exact->age_s && estimate_exceeds(least->capacity_bps, exact->capacity_bps, exact->error_bps))
		return a == least;
	return a == exact;
}

static void view_link(const struct controller *c, int src, int dst, struct tb_view_link *out)
{
	double used = 0;

	*out = (struct tb_view_link){ .age_s = NAN };
	for (int m = 0; m < TB_METHODS; m++) {
		struct tb_view_link v;

		if (!view_of_method(c, src, dst, (enum tb_method)m, &v))
			continue;
		/* Counters see all traffic, sockets only the workers'. */
		used = m == TB_COUNTERS || used <= 0 ? v.used_bps : used;
		if (view_better(&v, out))
			*out = v;
	}
	out->used_bps = used;
}

struct view_task {
	struct task task;
	struct tb_view_link *out;
};

static void start_view(struct controller *c, struct task *t)
{
	struct view_task *x = (struct view_task *)t;
	int n = c->cfg.topo->n_regions;

	for (int i = 0; i < n * n; i++)
		view_link(c, i / n, i % n, &x->out[i]);
	task_finish(c, t, 0);
}

int controller_view(struct controller *c, struct tb_view_link *out, struct bace_err *e)
{
	struct view_task x = { .task.start = start_view, .out = out };

	return task_run(c, &x.task, e);
}

/* ---- what is no estimate: kept as it was said ---- */

static const char *const kept_names[TB_SOURCES] = { [TB_SRC_LINK] = "link", [TB_SRC_SELF] = "self",
						    [TB_SRC_GPU] = "gpu", [TB_SRC_RAPL] = "rapl" };

bool monitor_keep(struct host_monitor *m, const char *source, int64_t at_ns, const char *rows)
{
	for (int i = 0; i < TB_SOURCES; i++) {
		char *copy;

		if (!kept_names[i] || strcmp(source, kept_names[i]))
			continue;
		copy = strdup(rows);
		if (copy) {
			free(m->kept[i].rows);
			m->kept[i].rows = copy;
			m->kept[i].at_ns = at_ns;
		}
		return true;
	}
	return false;
}

json_t *monitor_describe(const struct host_monitor *m)
{
	json_t *o = json_pack("{s:I,s:I}", "batches", (json_int_t)m->seq, "dropped", (json_int_t)m->dropped);

	for (int i = 0; i < TB_SOURCES; i++)
		if (m->kept[i].rows)
			json_object_set_new(o, kept_names[i], json_pack("{s:I,s:s}", "at_ns",
				(json_int_t)m->kept[i].at_ns, "rows", m->kept[i].rows));
	return o;
}

void tb_log_free(struct tb_log *l)
{
	free(l->acted);
	free(l->estimates);
	*l = (struct tb_log){ 0 };
}

/* ---- a look at all links, between cells ---- */

#define LOOK_PERIOD_MS 400
#define LOOK_PACKETS 16
#define LOOK_STEP_US 100000

struct look_task {
	struct task task;
	int64_t since_ns;
	struct tb_view_link *out;
};

static void start_look_view(struct controller *c, struct task *t)
{
	struct look_task *x = (struct look_task *)t;
	int n = c->cfg.topo->n_regions;
	double age_s = (double)(bace_mono_ns() - x->since_ns) / 1e9;

	for (int i = 0; i < n * n; i++) {
		struct tb_view_link *v = &x->out[i];

		/* What was known before is not what came of this look. */
		if (!view_of_method(c, i / n, i % n, TB_PROBE, v) || v->age_s > age_s)
			*v = (struct tb_view_link){ .age_s = NAN };
	}
	task_finish(c, t, 0);
}

static int wait_for_probes(struct controller *c, double seconds, struct bace_err *e)
{
	int64_t end = bace_mono_ns() + (int64_t)(seconds * 1e9), left;

	while ((left = end - bace_mono_ns()) > 0) {
		if (controller_cancelled(c))
			return bace_fail(e, ECANCELED, "interrupted");
		usleep(left / 1000 > LOOK_STEP_US ? LOOK_STEP_US : (useconds_t)(left / 1000 + 1));
	}
	return 0;
}

int controller_look(struct controller *c, double seconds, struct tb_view_link *out, struct bace_err *e)
{
	const struct tb_monitor on = { .period_ms[TB_SRC_PROBE] = LOOK_PERIOD_MS, .push_ms = 50,
				       .probe_packets = LOOK_PACKETS };
	const struct tb_monitor off = { 0 };
	struct look_task x = { .task.start = start_look_view, .since_ns = bace_mono_ns(), .out = out };
	struct bace_err ignored = { 0 };
	int rc = controller_monitor(c, &on, e);

	if (!rc)
		rc = wait_for_probes(c, seconds, e);
	if (!rc)
		rc = task_run(c, &x.task, e);
	controller_monitor(c, &off, &ignored);
	return rc;
}
