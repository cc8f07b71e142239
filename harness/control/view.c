/* The view: what the monitors say of every link, with age and error. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/control/monitor.h"

static const struct estimate *estimate_of(const struct link_seen *l, enum tb_method m)
{
	return m == TB_COUNTERS ? &l->counters.e : m == TB_TCP_INFO ? &l->tcp.e : &l->probe.e;
}

static double used_of(const struct link_seen *l, enum tb_method m)
{
	return m == TB_COUNTERS ? l->counters.used_bps : m == TB_TCP_INFO ? l->tcp.used_bps : 0;
}

bool view_of_method(const struct controller *c, int src, int dst, enum tb_method m, struct tb_view_link *out)
{
	int64_t heard = 0;

	*out = (struct tb_view_link){ .method = m };
	/* Several hosts of a region share its link: each sees its own part. */
	for (int i = 0; i < c->n_hosts; i++) {
		const struct host *h = &c->hosts[i];
		const struct link_seen *l = h->spec->region == src && h->monitor ? h->monitor->to[dst] : NULL;
		const struct estimate *e = l ? estimate_of(l, m) : NULL;

		if (!e || !e->known)
			continue;
		out->known = true;
		out->capacity_bps += e->rate_bps;
		out->error_bps += e->error_bps;
		out->used_bps += used_of(l, m);
		out->lower_bound |= e->lower_bound;
		heard = l->heard_ns[m] > heard ? l->heard_ns[m] : heard;
	}
	out->age_s = out->known ? (double)(bace_mono_ns() - heard) / 1e9 : NAN;
	return out->known;
}

/* The newest that is not a mere lower bound; else the highest lower bound. */
static bool better(const struct tb_view_link *a, const struct tb_view_link *b)
{
	if (!b->known || a->lower_bound != b->lower_bound)
		return !b->known || !a->lower_bound;
	return a->lower_bound ? a->capacity_bps > b->capacity_bps : a->age_s < b->age_s;
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
		if (better(&v, out))
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

int controller_look(struct controller *c, double seconds, struct tb_view_link *out, struct bace_err *e)
{
	const struct tb_monitor on = { .period_ms[TB_SRC_PROBE] = LOOK_PERIOD_MS, .push_ms = 50,
				       .probe_packets = LOOK_PACKETS };
	const struct tb_monitor off = { 0 };
	struct bace_err ignored = { 0 };
	int rc = controller_monitor(c, &on, e);

	if (!rc) {
		usleep((useconds_t)(seconds * 1e6));
		rc = controller_view(c, out, e);
	}
	controller_monitor(c, &off, &ignored);
	return rc;
}
