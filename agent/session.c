#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "agent/monitor/monitor.h"
#include "config.h"

#define BACKOFF_MIN_S 0.1
#define BACKOFF_MAX_S 5.0
#define MODULE "session"

static const struct wire_limits limits = WIRE_AGENT_LIMITS;

static void try_connect(struct agent *a);

static void on_reconnect(evutil_socket_t fd, short what, void *arg)
{
	try_connect(arg);
}

static void retry_later(struct agent *a)
{
	double wait_s = a->backoff_s * (0.5 + 0.5 * (double)random() / (double)RAND_MAX);
	struct timeval tv = { .tv_sec = (time_t)wait_s,
			      .tv_usec = (suseconds_t)((wait_s - (double)(time_t)wait_s) * 1e6) };

	a->backoff_s = a->backoff_s * 2 < BACKOFF_MAX_S ? a->backoff_s * 2 : BACKOFF_MAX_S;
	event_add(a->reconnect, &tv);
}

static void on_open(void *arg, struct wire_conn *c, const char *peer)
{
	struct agent *a = arg;

	wire_send(c, json_pack("{s:s,s:i,s:s,s:s,s:o}", "type", "hello", "id", 1, "name", a->cfg.name,
			       "version", BACE_VERSION, "inventory", inventory(a)));
}

static void on_hello_answer(struct agent *a, const char *type, const json_t *msg)
{
	const char *text = json_string_value(json_object_get(msg, "text"));

	if (!strcmp(type, "ok")) {
		a->accepted = true;
		a->backoff_s = BACKOFF_MIN_S;
		a->last_why[0] = '\0';
		malloc_trim(0);		/* the inventory was the most it will hold for long */
		bace_log(BACE_INFO, MODULE, "%s: connected to the controller at %s", a->cfg.name,
			 wire_peer_addr(a->conn));
		return;
	}
	wire_close(a->conn, text ? text : "the controller refused the hello");
}

static void on_message(void *arg, struct wire_conn *c, json_t *msg)
{
	struct agent *a = arg;
	const char *type = json_string_value(json_object_get(msg, "type"));
	json_int_t id = json_integer_value(json_object_get(msg, "id"));

	if (!strcmp(type, "ok") || !strcmp(type, "error")) {
		if (!a->accepted)
			on_hello_answer(a, type, msg);
	} else if (!a->accepted) {
		wire_close(c, "the controller sent a request before it accepted the hello");
	} else {
		request_handle(a, type, id, msg);
	}
}

/* Whatever ran for that controller ends with the connection. */
static void on_close(void *arg, struct wire_conn *c, const char *why)
{
	struct agent *a = arg;
	bool was_accepted = a->accepted;

	a->conn = NULL;
	a->accepted = false;
	__atomic_add_fetch(&a->session, 1, __ATOMIC_RELAXED);
	if (strcmp(why, a->last_why))
		bace_log(BACE_WARN, MODULE, "%s: controller at %s: %s; trying again", a->cfg.name,
			 wire_peer_addr(c), why);
	snprintf(a->last_why, sizeof(a->last_why), "%s", why);
	monitor_stop(a->monitor);
	requests_forget(a);
	if (was_accepted) {
		workers_stop(a, 0, 0);
		lease_drop(a->lease, 0);
	}
	retry_later(a);
}

static void try_connect(struct agent *a)
{
	struct wire_handlers h = { .on_open = on_open, .on_message = on_message, .on_close = on_close,
				   .arg = a, .limits = limits };
	struct bace_err e = { 0 };

	if (!wire_connect(a->base, a->cfg.host, a->cfg.port, a->cfg.name, a->cfg.key, &h, &a->conn, &e))
		return;
	if (strcmp(e.msg, a->last_why))
		bace_log(BACE_WARN, MODULE, "%s: %s; trying again", a->cfg.name, e.msg);
	snprintf(a->last_why, sizeof(a->last_why), "%s", e.msg);
	retry_later(a);
}

void session_start(struct agent *a)
{
	a->backoff_s = BACKOFF_MIN_S;
	a->reconnect = evtimer_new(a->base, on_reconnect, a);
	if (a->reconnect)
		try_connect(a);
}

/* What it was not told it would wait for. */
static void close_if_deaf(struct agent *a, int rc)
{
	if (rc == -ENOBUFS)
		wire_close(a->conn, "the controller does not read");
}

void session_event(struct agent *a, json_t *msg)
{
	if (!a->conn || !a->accepted) {
		json_decref(msg);
		return;
	}
	close_if_deaf(a, wire_send(a->conn, msg));
}

void session_answer(struct agent *a, uint32_t session, json_int_t id, json_t *body,
		    const struct bace_err *e)
{
	if (!a->conn || session != a->session) {
		json_decref(body);
		return;
	}
	if (e) {
		json_decref(body);
		close_if_deaf(a, wire_answer_error(a->conn, id, e));
	} else {
		close_if_deaf(a, wire_answer(a->conn, id, body));
	}
}
