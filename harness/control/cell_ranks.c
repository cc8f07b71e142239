/* The ranks of a cell: started, connected, let go, and what they say. */
#include <errno.h>
#include <string.h>

#include "harness/control/cell.h"

#define BARRIER_LEAD_NS 150000000
#define MODULE "control"

static void rank_launched(struct proc *p, const json_t *answer)
{
	struct cell_rank *k = p->owner;
	const char *binding = json_string_value(json_object_get(answer, "binding"));

	k->launched = true;
	bace_log(BACE_DEBUG, MODULE, "%s: %s", p->what, binding ? binding : "?");
	cell_advance(k->run);
}

static int take_port(struct cell_rank *k, const json_t *line, struct bace_err *e)
{
	struct wire_reader rd = { .obj = line, .what = k->proc.what, .e = e };
	int hop = (int)wire_read_int(&rd, "hop", 0, 2 * k->run->cell->jobs[k->job].n_stages - 1);
	int port = (int)wire_read_int(&rd, "port", 1, 65535);
	struct cell_hop *h = rd.rc ? NULL : cell_hop_at(k->run, k, hop, true);

	if (!rd.rc && (!h || h->port))
		return bace_fail(e, EPROTO, "%s: listens for hop %d, which is not its own", k->proc.what, hop);
	if (rd.rc)
		return rd.rc;
	h->port = port;
	k->n_ports++;
	return 0;
}

/* A rank's error without the "JOB rank N on HOST: " that it begins with. */
static const char *own_words(const struct cell_run *r, const struct cell_rank *k, const char *text)
{
	char prefix[200];
	int n = snprintf(prefix, sizeof(prefix), "%s rank %d on %s: ", r->cell->jobs[k->job].name, k->proc.rank,
			 k->proc.host->spec->name);

	return strncmp(text, prefix, (size_t)n) ? text : text + n;
}

static void rank_event(struct proc *p, const char *event, const json_t *line)
{
	struct cell_rank *k = p->owner;
	struct cell_run *r = k->run;
	const char *text = json_string_value(json_object_get(line, "text"));
	struct bace_err e = { 0 };
	char why[300];
	int rc = 0;

	if (r->phase >= PHASE_STOP)
		return;
	if (!strcmp(event, "listening")) {
		rc = take_port(k, line, &e);
	} else if (!strcmp(event, "nccl-id")) {
		rc = cell_nccl_take_id(k, line, &e);
	} else if (!strcmp(event, "ready")) {
		k->ready = true;
	} else if (!strcmp(event, "done") && r->phase == PHASE_RUN && !k->done) {
		rc = cell_take_done(r, k, line, &e);
		k->done = true;
	} else if (!strcmp(event, "error")) {
		/* It names itself; what it is of the job, we add. */
		snprintf(why, sizeof(why), "%s: %s", p->what, text ? own_words(r, k, text) :
			 "failed without a reason");
		cell_fail(r, SEVERITY_CONSEQUENCE, why);
		return;
	} else {
		rc = bace_fail(&e, EPROTO, "%s: unexpected event `%.40s'", p->what, event);
	}
	if (rc)
		cell_fail(r, SEVERITY_CAUSE, e.msg);
	else
		cell_advance(r);
}

static void rank_gone(struct proc *p, const char *why, int status)
{
	struct cell_rank *k = p->owner;
	char text[300];

	k->exited = true;
	if (p->n_stopped)
		cell_invalid(k->run, SEVERITY_CAUSE, "%s: was stopped for a while (SIGSTOP)", p->what);
	if (k->done && !why) {
		cell_advance(k->run);
		return;
	}
	snprintf(text, sizeof(text), "%s", why ? why : p->what);
	if (!why)
		snprintf(text, sizeof(text), "%s: ended before it was done", p->what);
	/* An error of its own was reported before, in its own words. */
	cell_fail(k->run, status == 1 ? SEVERITY_CONSEQUENCE : SEVERITY_CAUSE, text);
}

static void rank_failed(struct proc *p, const char *why)
{
	cell_fail(((struct cell_rank *)p->owner)->run, SEVERITY_CAUSE, why);
}

static const struct proc_ops rank_ops = {
	.on_launched = rank_launched, .on_event = rank_event, .on_gone = rank_gone, .on_failed = rank_failed,
};

void cell_launch(struct cell_run *r)
{
	for (int i = 0; i < r->n_ranks && r->phase == PHASE_LAUNCH; i++) {
		struct cell_rank *k = &r->ranks[i];

		k->proc.ops = &rank_ops;
		k->proc.owner = k;
		proc_launch(&k->proc, cell_rank_config(r, k), k->proc.host->spec->addr);
	}
}

void cell_connect(struct cell_run *r)
{
	for (int i = 0; i < r->n_ranks && r->phase == PHASE_CONNECT; i++)
		proc_tell(&r->ranks[i].proc, cell_rank_connects(r, &r->ranks[i]));
}

void cell_go(struct cell_run *r)
{
	int64_t at = bace_mono_ns() + BARRIER_LEAD_NS;
	struct bace_err e = { 0 };

	for (int i = 0; i < r->n_ranks && r->phase == PHASE_RUN; i++) {
		struct cell_rank *k = &r->ranks[i];

		k->go_ns = at + k->proc.host->offset_ns;
		proc_tell(&k->proc, json_pack("{s:s,s:I}", "cmd", "go", "at_ns", (json_int_t)k->go_ns));
	}
	if (r->phase == PHASE_RUN && (cell_traces_start(r, at, &e) || cell_script_start(r, at, &e)))
		cell_fail(r, SEVERITY_CAUSE, e.msg);
}
