/* A script beside a running cell. */
#include <errno.h>
#include <stdlib.h>

#include "harness/control/cell.h"

#define PACKET_L2 1514
#define REPORT_HEAD_L2 70		/* UDP, IPv4, Ethernet and the report's own head */

static void stretch(void *arg, int ppm)
{
	struct cell_run *r = arg;

	for (int i = 0; i < r->n_ranks && r->phase == PHASE_RUN; i++)
		if (!r->ranks[i].done)
			proc_tell(&r->ranks[i].proc, json_pack("{s:s,s:i}", "cmd", "stretch", "ppm", ppm));
}

static void on_done(void *arg, const struct bace_err *err)
{
	struct cell_run *r = arg;

	r->scripted = false;
	if (err)
		cell_fail(r, SEVERITY_CAUSE, err->msg);
	else if (r->phase == PHASE_RUN)
		cell_advance(r);
}

static bool stretches(const struct tb_script *s)
{
	for (int i = 0; i < s->n; i++)
		if (s->actions[i].stretch_ppm)
			return true;
	return false;
}

int cell_script_start(struct cell_run *r, int64_t at_ns, struct bace_err *e)
{
	int n = r->c->cfg.topo->n_regions, rc;

	if (!r->cell->script)
		return 0;
	r->probe_base = calloc((size_t)(n * n) + 1, sizeof(*r->probe_base));
	if (!r->probe_base)
		return bace_fail(e, ENOMEM, "script: out of memory");
	for (int i = 0; i < n * n; i++)
		r->probe_base[i] = monitor_probe_bytes(r->c, i / n, i % n);
	rc = script_start(r->c, r->cell->script, at_ns, &r->out->log, on_done, r, e);
	if (rc)
		return rc;
	r->scripted = true;
	if (stretches(r->cell->script))
		script_set_stretch(r->c, stretch, r);
	return 0;
}

void cell_script_end(struct cell_run *r)
{
	if (r->scripted)
		script_cancel(r->c);
	r->scripted = false;
}

static uint64_t trains(const struct cell_run *r, int src, int dst)
{
	int n = r->c->cfg.topo->n_regions;

	return monitor_probe_bytes(r->c, src, dst) - r->probe_base[src * n + dst];
}

uint64_t cell_probe_bytes(const struct cell_run *r, int src, int dst)
{
	double per_train, report;

	if (!r->probe_base || !r->cell->script->monitor.probe_packets)
		return 0;
	per_train = r->cell->script->monitor.probe_packets;
	report = (REPORT_HEAD_L2 + 4 * per_train) / (PACKET_L2 * per_train);
	return trains(r, src, dst) + (uint64_t)(report * (double)trains(r, dst, src));
}
