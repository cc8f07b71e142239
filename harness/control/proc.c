#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "harness/control/internal.h"

/* A timeline of 128 stages, 64 micro-batches and 20 steps is 100 MB. */
#define LINE_MAX_BYTES (256u << 20)
#define LINE_MAX_DEPTH 8
#define SEND_S 10.0

static struct proc *find(struct host *h, json_int_t cell, int rank)
{
	for (struct proc *p = h->c->procs; p; p = p->next)
		if (p->host == h && p->cell == cell && p->rank == rank)
			return p;
	return NULL;
}

static void register_proc(struct proc *p)
{
	struct controller *c = p->host->c;

	p->next = c->procs;
	p->prev = &c->procs;
	if (p->next)
		p->next->prev = &p->next;
	c->procs = p;
	p->registered = true;
}

void proc_forget(struct proc *p)
{
	if (p->registered) {
		*p->prev = p->next;
		if (p->next)
			p->next->prev = p->prev;
		p->registered = false;
		requests_cancel(p->host->c, p);
	}
	bace_buf_free(&p->line);
}

static void failed(struct proc *p, const char *why)
{
	char text[400];

	snprintf(text, sizeof(text), "%s: %s", p->what, why);
	p->ops->on_failed(p, text);
}

static void on_launched(void *arg, struct host *h, const json_t *reply, const struct bace_err *err)
{
	struct proc *p = arg;

	if (err)
		failed(p, err->msg);
	else
		p->ops->on_launched(p, reply);
}

void proc_launch(struct proc *p, json_t *config, const char *nic)
{
	register_proc(p);
	host_request(p->host, json_pack("{s:s,s:I,s:i,s:i,s:i,s:s,s:s,s:o}", "type", "launch", "cell", p->cell,
		"rank", p->rank, "slot", p->slot, "slots", p->slots, "program", p->program ? p->program : "worker", "nic", nic,
		"config", config), ANSWER_S, on_launched, p);
}

static void on_told(void *arg, struct host *h, const json_t *reply, const struct bace_err *err)
{
	struct proc *p = arg;

	/* One that is gone says itself why. */
	if (err && !p->gone && err->errnum != ESRCH)
		failed(p, err->msg);
}

void proc_tell(struct proc *p, json_t *line)
{
	host_request(p->host, json_pack("{s:s,s:I,s:i,s:o}", "type", "tell", "cell", p->cell, "rank", p->rank,
		"line", line), SEND_S, on_told, p);
}

static bool too_deep(const char *text, size_t n)
{
	int depth = 0;
	bool in_string = false;

	for (size_t i = 0; i < n; i++) {
		if (in_string && text[i] == '\\')
			i++;
		else if (text[i] == '"')
			in_string = !in_string;
		else if (!in_string && (text[i] == '[' || text[i] == '{') && ++depth > LINE_MAX_DEPTH)
			return true;
		else if (!in_string && (text[i] == ']' || text[i] == '}'))
			depth--;
	}
	return false;
}

static void take_line(struct proc *p, const char *text, size_t n)
{
	json_error_t je;
	json_t *j = too_deep(text, n) ? NULL : json_loadb(text, n, JSON_REJECT_DUPLICATES, &je);
	const char *event = json_string_value(json_object_get(j, "event"));

	if (!event)
		failed(p, "wrote what is not an event");
	else
		p->ops->on_event(p, event, j);
	json_decref(j);
}

void procs_output(struct host *h, const json_t *msg)
{
	struct bace_err e = { 0 };
	struct wire_reader r = { .obj = msg, .what = "output", .e = &e };
	json_int_t cell = wire_read_int(&r, "cell", 1, INT64_MAX);
	int rank = (int)wire_read_int(&r, "rank", 0, INT32_MAX);
	const char *text = json_string_value(json_object_get(msg, "text")), *nl;
	struct proc *p = find(h, cell, rank);

	/* Of a cell that is over: its ranks may still have had something to say. */
	if (r.rc || !text || !p)
		return;
	while (p->registered && (nl = strchr(text, '\n'))) {
		if (bace_buf_add(&p->line, text, (size_t)(nl - text)))
			break;
		struct bace_buf line = p->line;

		p->line = (struct bace_buf){ 0 };
		take_line(p, line.p, line.len);
		bace_buf_free(&line);
		text = nl + 1;
	}
	if (!p->registered || !*text)
		return;
	if (p->line.len + strlen(text) > LINE_MAX_BYTES || bace_buf_add(&p->line, text, strlen(text)))
		failed(p, "wrote a line that is too long");
}

static void gone(struct proc *p, const char *why, int status)
{
	char text[900];

	if (p->gone)
		return;
	p->gone = true;
	if (why)
		snprintf(text, sizeof(text), "%s: %s", p->what, why);
	p->ops->on_gone(p, why ? text : NULL, status);
}

/* The last line of what a process wrote to its standard error. */
static const char *last_line(char *text)
{
	size_t n = strlen(text);
	char *nl;

	while (n && text[n - 1] == '\n')
		text[--n] = '\0';
	nl = strrchr(text, '\n');
	return nl ? nl + 1 : text;
}

void procs_exit(struct host *h, const json_t *msg)
{
	struct bace_err e = { 0 };
	struct wire_reader r = { .obj = msg, .what = "exit", .e = &e };
	json_int_t cell = wire_read_int(&r, "cell", 1, INT64_MAX);
	int rank = (int)wire_read_int(&r, "rank", 0, INT32_MAX);
	int status = (int)wire_read_int(&r, "status", -1, 255), sig = (int)wire_read_int(&r, "signal", 0, 128);
	int stopped = (int)wire_read_int(&r, "stopped", 0, INT32_MAX);
	const char *text = json_string_value(json_object_get(msg, "text"));
	CLEANUP_FREE char *tail = strdup(text ? text : "");
	struct proc *p = find(h, cell, rank);
	char why[600];

	if (r.rc || !p)
		return;
	p->n_stopped = stopped;
	if (!status) {
		gone(p, NULL, 0);
		return;
	}
	if (sig)
		snprintf(why, sizeof(why), "killed by signal %d (%s)", sig, strsignal(sig));
	else
		snprintf(why, sizeof(why), "ended with status %d%s%s", status, tail && *tail ? ": " : "",
			 tail ? last_line(tail) : "");
	gone(p, why, sig ? -1 : status);
}

void procs_host_lost(struct host *h, const char *why)
{
	struct proc *p;

	/* From the front each time: a handler may take others out of the list. */
	do {
		for (p = h->c->procs; p && (p->host != h || p->gone); p = p->next)
			;
		if (p)
			gone(p, why, -1);
	} while (p);
}
