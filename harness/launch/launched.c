#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

#include "harness/launch/internal.h"

#define RELAUNCH_S 30.0		/* for agents that had died to be back */

struct launched {
	struct launch_config cfg;
	struct cluster scaled;
	int n_traces;
	struct tb_trace *traces;
	struct lab_net net;
	struct tb_topology topo;
	struct controller *controller;
	struct hands *hands;
	uint8_t master[WIRE_KEY_BYTES];
	int n_paths;
	struct tb_verify *paths;	/* measured before anything was shaped */
	size_t n_lacks, cap_lacks;
	char **lacks;
};

static void progress(const struct launched *l, const char *fmt, ...) BACE_PRINTF(2, 3);

static void progress(const struct launched *l, const char *fmt, ...)
{
	char line[1024];
	va_list ap;

	if (!l->cfg.on_progress)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	l->cfg.on_progress(l->cfg.arg, line);
}

/* "ADDR:PORT", "[ADDR]:PORT" */
static int split_address(const char *text, char host[256], uint16_t *port, struct bace_err *e)
{
	const char *colon = strrchr(text, ':');
	size_t n = colon ? (size_t)(colon - text) : 0;
	char *end = NULL;
	unsigned long p = colon ? strtoul(colon + 1, &end, 10) : 0;

	if (n > 2 && text[0] == '[' && text[n - 1] == ']') {
		text++;
		n -= 2;
	}
	if (!n || n >= 256 || !p || p > 65535 || *end)
		return bace_fail(e, EINVAL, "--controller %s: must be ADDR:PORT, an address of this machine that the "
				 "hosts reach, and a port from 1 to 65535", text);
	memcpy(host, text, n);
	host[n] = '\0';
	*port = (uint16_t)p;
	return 0;
}

static int open_controller(struct launched *l, struct bace_err *e)
{
	char host[256];
	uint16_t port = 0;
	int rc = split_address(l->cfg.o->controller, host, &port, e);

	if (!rc)
		rc = controller_open(&(struct controller_config){ .listen_addr = host, .port = port,
			.master_key = l->master, .topo = &l->topo, .heartbeat_dead_s = 3,
			.cancelled = l->cfg.cancelled, .cancel_arg = l->cfg.arg }, &l->controller, e);
	if (!rc)
		controller_traces(l->controller, l->n_traces, l->traces);
	return rc;
}

static bool is_cancelled(const struct launched *l)
{
	return l->cfg.cancelled && l->cfg.cancelled(l->cfg.arg);
}

/* Until every agent has said hello: a launcher that fails fails at once, with
 * its own words. */
static int gather(struct launched *l, double wait_s, struct bace_err *e)
{
	int64_t until = bace_mono_ns() + (int64_t)(wait_s * 1e9);

	for (;;) {
		struct bace_err gone = { 0 };
		int rc = controller_wait_hosts(l->controller, 0.25, e);

		if (!rc)
			return 0;
		if (hands_tend(l->hands, &gone)) {
			*e = gone;
			return -EHOSTUNREACH;
		}
		if (is_cancelled(l))
			return bace_fail(e, ECANCELED, "interrupted");
		if (bace_mono_ns() > until)
			return rc;
	}
}

/* Says it, if there is something to say; takes it. */
static char *say(const struct launched *l, struct bace_buf *b)
{
	if (b->len)
		progress(l, "%s", b->p);
	return b->p;
}

static int keep_lack(struct launched *l, char *text, struct bace_err *e)
{
	if (!text || !BACE_PUSH(l->lacks, l->n_lacks, l->cap_lacks, text))
		return 0;
	free(text);
	return bace_fail(e, ENOMEM, "launch: out of memory");
}

/* What a lab would have set, and who runs agents as a user cannot; and what else
 * is not as in a lab. */
static int advise(struct launched *l, struct bace_err *e)
{
	CLEANUP_FREE char *text = NULL;
	struct bace_buf b = { 0 };
	int rc = controller_inventory(l->controller, &text, e);
	json_t *all = rc ? NULL : json_loads(text, 0, NULL);

	for (int i = 0; !rc && i < l->scaled.n_hosts; i++) {
		const json_t *its = json_object_get(all, l->scaled.hosts[i].name);

		b = (struct bace_buf){ 0 };
		launch_steady_host(&l->scaled, &l->cfg.traffic, &l->scaled.hosts[i], its, &b);
		rc = keep_lack(l, say(l, &b), e);
		b = (struct bace_buf){ 0 };
		launch_control_interface(&l->topo.hosts[i], its, &b);
		free(say(l, &b));
	}
	b = (struct bace_buf){ 0 };
	launch_unbounded(&l->scaled, &l->cfg.traffic, &b);
	free(say(l, &b));
	json_decref(all);
	return rc;
}

/* A plan without links: the shapers are ours from now on, or say whose they are. */
static int hold_unshaped(struct launched *l, struct bace_err *e)
{
	CLEANUP_FREE int *n_links = calloc((size_t)l->topo.n_hosts + 1, sizeof(*n_links));
	int rc;

	if (!n_links)
		return bace_fail(e, ENOMEM, "launch: out of memory");
	for (int i = 0; i < l->topo.n_hosts; i++) {
		n_links[i] = l->topo.hosts[i].shape.n_links;
		l->topo.hosts[i].shape.n_links = 0;
	}
	rc = controller_plan(l->controller, e);
	for (int i = 0; i < l->topo.n_hosts; i++)
		l->topo.hosts[i].shape.n_links = n_links[i];
	return rc;
}

/* Before anything is shaped, by us or by others: it is the paths alone that are measured. */
static int measure_paths(struct launched *l, struct bace_err *e)
{
	double least_s = INFINITY, most_s = 0;
	char least[BACE_FMT_MAX], most[BACE_FMT_MAX];
	int rc = launch_pairs(&l->topo, &l->paths, &l->n_paths, e);

	if (!rc && l->n_paths)
		rc = hold_unshaped(l, e);
	if (!rc && l->n_paths)
		rc = controller_verify(l->controller, l->n_paths, l->paths, 0, e);
	for (int i = 0; !rc && i < l->n_paths; i++) {
		least_s = fmin(least_s, l->paths[i].rtt_min_s / 2);
		most_s = fmax(most_s, l->paths[i].rtt_min_s / 2);
	}
	if (!rc && l->n_paths)
		progress(l, "paths without shaping take %s to %s one way: taken off the links' latencies",
			 bace_fmt_time(least, least_s), bace_fmt_time(most, most_s));
	return rc ? rc : launch_subtract(l->n_paths, l->paths, &l->topo, l->n_traces, l->traces, e);
}

static int bring_up(struct launched *l, struct bace_err *e)
{
	const struct launcher *by = launcher_of(l->cfg.o->kind);
	double wait_s = l->cfg.o->wait_s > 0 ? l->cfg.o->wait_s : by->wait_s;
	int rc = open_controller(l, e);

	if (rc)
		return rc;
	if (by->announce)
		by->announce(&l->cfg);
	progress(l, "%d hosts by %s, controller at %s", l->topo.n_hosts, by->name, l->cfg.o->controller);
	rc = hands_open(&l->cfg, l->master, &l->hands, e);
	if (!rc)
		rc = hands_start(l->hands, e);
	if (!rc)
		rc = gather(l, wait_s, e);
	if (!rc)
		rc = measure_paths(l, e);
	if (!rc)
		rc = controller_plan(l->controller, e);
	if (!rc)
		progress(l, "%d agents connected, links shaped and read back", l->topo.n_hosts);
	return rc ? rc : advise(l, e);
}

/* Where several hosts share a link without a gateway, each has a part of its
 * rate, which a trace knows nothing of. */
static int check_traces(const struct launched *l, struct bace_err *e)
{
	for (int i = 0; i < l->n_traces; i++) {
		const struct tb_trace *t = &l->traces[i];
		int n = 0;

		for (int h = 0; h < l->topo.n_hosts; h++)
			n += l->topo.hosts[h].region == t->src && l->topo.hosts[h].shape.n_links > 0;
		if (n > 1 && (shape_trace_sets(&t->points) & SHAPE_SET_RATE))
			return bace_fail(e, EINVAL, "testbed.disturb: the %d hosts of %s share its links without a gateway: a "
					 "trace of a rate needs one", n, l->topo.region_names[t->src]);
	}
	return 0;
}

int launched_open(const struct launch_config *cfg, struct launched **out, struct bace_err *e)
{
	struct launched *l = calloc(1, sizeof(*l));
	int rc;

	if (!l)
		return bace_fail(e, ENOMEM, "launch: out of memory");
	l->cfg = *cfg;
	rc = wire_key_load(cfg->o->key_path, l->master, e);
	if (!rc && cluster_scaled(cfg->cluster, cfg->scale_bytes, cfg->scale_time, &l->scaled))
		rc = bace_fail(e, ENOMEM, "scale the cluster: out of memory");
	if (!rc)
		lab_disturb(&cfg->exp->testbed, &l->scaled);
	if (!rc)
		rc = lab_traces(cfg->exp, &l->traces, &l->n_traces, e);
	if (!rc)
		rc = launch_net(&l->scaled, &l->net, e);
	if (!rc)
		rc = launch_topology(&l->scaled, &l->cfg.traffic,
				     cfg->backend == BACKEND_NETEM ? DELAY_NETEM : DELAY_NFQUEUE,
				     cfg->o, &l->topo, e);
	if (!rc)
		rc = check_traces(l, e);
	if (!rc)
		rc = bring_up(l, e);
	if (rc) {
		launched_close(l);
		return rc;
	}
	*out = l;
	return 0;
}

void launched_close(struct launched *l)
{
	if (!l)
		return;
	controller_close(l->controller);
	hands_close(l->hands);
	lab_topology_free(&l->topo);
	lab_traces_free(l->traces, l->n_traces);
	lab_net_free(&l->net);
	for (size_t i = 0; i < l->n_lacks; i++)
		free(l->lacks[i]);
	free(l->lacks);
	free(l->paths);
	cluster_scaled_free(&l->scaled);
	OPENSSL_cleanse(l->master, sizeof(l->master));
	free(l);
}

/* What died since the last cell is started again: that cell was invalid, the
 * next need not be. */
static int mend(struct launched *l, struct bace_err *e)
{
	struct bace_err gone = { 0 };
	int n = hands_tend(l->hands, &gone), rc;

	if (n) {
		progress(l, "%s; starting it again", gone.msg);
		rc = hands_start(l->hands, e);
		if (rc)
			return rc;
	}
	if (!controller_wait_hosts(l->controller, 0.01, &gone))
		return 0;
	rc = gather(l, RELAUNCH_S, e);
	return rc ? rc : controller_plan(l->controller, e);
}

int launched_run(struct launched *l, const struct tb_cell *cell, struct tb_result *out, struct bace_err *e)
{
	int rc = mend(l, e);

	return rc ? rc : controller_run(l->controller, cell, out, e);
}

int launched_verify(struct launched *l, int n, struct tb_verify *pairs, double goodput_s, struct bace_err *e)
{
	int rc = mend(l, e);

	return rc ? rc : controller_verify(l->controller, n, pairs, goodput_s, e);
}

int launched_look(struct launched *l, double seconds, struct tb_view_link *out, struct bace_err *e)
{
	int rc = mend(l, e);

	return rc ? rc : controller_look(l->controller, seconds, out, e);
}

int launched_inventory(struct launched *l, char **json, struct bace_err *e)
{
	int rc = controller_inventory(l->controller, json, e);
	json_t *all = rc ? NULL : json_loads(*json, 0, NULL);
	char *told = all && !launch_tell_paths(l->n_paths, l->paths, &l->topo, all) ? json_dumps(all, JSON_COMPACT) : NULL;

	json_decref(all);
	if (rc)
		return rc;
	free(*json);
	*json = told;
	return told ? 0 : bace_fail(e, ENOMEM, "inventory: out of memory");
}

const struct lab_net *launched_net(const struct launched *l)
{
	return &l->net;
}

const char *launched_lacks(const struct launched *l, size_t i)
{
	return i < l->n_lacks ? l->lacks[i] : NULL;
}
