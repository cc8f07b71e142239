#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/control/divide.h"

#define MODULE "control"

bool host_ready(const struct host *h)
{
	return h->conn != NULL;
}

bool host_shapes(const struct host *h)
{
	return h->spec->shape.egress[0] != '\0';
}

void watcher_add(struct controller *c, struct watcher *w)
{
	w->next = c->watchers;
	c->watchers = w;
}

void watcher_remove(struct controller *c, struct watcher *w)
{
	for (struct watcher **p = &c->watchers; *p; p = &(*p)->next) {
		if (*p == w) {
			*p = w->next;
			return;
		}
	}
}

static void tell_ready(struct host *h)
{
	for (struct watcher *w = h->c->watchers, *next; w; w = next) {
		next = w->next;
		if (w->on_ready)
			w->on_ready(w, h);
	}
}

void host_trouble(struct host *h, const char *why)
{
	for (struct watcher *w = h->c->watchers, *next; w; w = next) {
		next = w->next;
		if (w->on_trouble)
			w->on_trouble(w, h, why);
	}
}

int hosts_missing(struct controller *c, const bool *wanted, char *text, size_t cap)
{
	size_t used = 0;
	int n = 0;

	text[0] = '\0';
	for (int i = 0; i < c->n_hosts; i++) {
		const struct host *h = &c->hosts[i];

		if (host_ready(h) || (wanted && !wanted[i]))
			continue;
		n++;
		if (used + 1 < cap)
			used += (size_t)snprintf(text + used, cap - used, "%s%s%s%s", used ? "; " : "",
						 h->spec->name, h->last_why[0] ? ": " : "", h->last_why);
	}
	return n;
}

/* ---- requests ---- */

static struct request *request_take(struct host *h, json_int_t id)
{
	for (struct request **p = &h->requests; *p; p = &(*p)->next) {
		struct request *r = *p;

		if (r->id == id) {
			*p = r->next;
			return r;
		}
	}
	return NULL;
}

/* It is out of the list already. */
static void request_end(struct request *r, const json_t *reply, const struct bace_err *err)
{
	reply_fn fn = r->fn;
	void *arg = r->arg;
	struct host *h = r->host;
	struct bace_err copy = { 0 };

	if (err)
		copy = *err;
	if (!strcmp(r->type, "plan"))
		h->planned = reply != NULL;
	if (!strcmp(r->type, "plan") && reply)
		divider_planned(h);
	if (r->timer)
		event_free(r->timer);
	free(r);
	if (fn)
		fn(arg, h, reply, err ? &copy : NULL);
}

static void on_request_timer(evutil_socket_t fd, short what, void *arg)
{
	struct request *r = arg;
	struct bace_err e = r->failed;

	request_take(r->host, r->id);
	if (!e.errnum)
		bace_fail(&e, ETIMEDOUT, "%s: no answer to `%s'", r->host->spec->name, r->type);
	request_end(r, NULL, &e);
}

void host_request(struct host *h, json_t *msg, double timeout_s, reply_fn fn, void *arg)
{
	struct request *r = calloc(1, sizeof(*r));
	struct timeval tv = { .tv_sec = (time_t)timeout_s, .tv_usec = (suseconds_t)(fmod(timeout_s, 1) * 1e6) };
	int rc = -ENOMEM;

	if (r)
		r->timer = evtimer_new(h->c->base, on_request_timer, r);
	if (!r || !r->timer || !msg) {
		/* Nothing that could call back later: the one case that does so now. */
		struct bace_err e = { 0 };

		if (r && r->timer)
			event_free(r->timer);
		free(r);
		json_decref(msg);
		bace_fail(&e, ENOMEM, "%s: out of memory", h->spec->name);
		fn(arg, h, NULL, &e);
		return;
	}
	r->host = h;
	r->fn = fn;
	r->arg = arg;
	r->id = ++h->next_id;
	snprintf(r->type, sizeof(r->type), "%s", json_string_value(json_object_get(msg, "type")));
	r->next = h->requests;
	h->requests = r;
	json_object_set_new(msg, "id", json_integer(r->id));
	if (h->conn)
		rc = wire_send(h->conn, msg);
	else
		json_decref(msg);
	if (!h->conn)
		bace_fail(&r->failed, ENOTCONN, "%s: %s", h->spec->name,
			  h->last_why[0] ? h->last_why : "its agent is not connected");
	else if (rc)
		bace_fail_errno(&r->failed, -rc, "%s: send `%s'", h->spec->name, r->type);
	if (r->failed.errnum)
		tv = (struct timeval){ 0 };
	event_add(r->timer, &tv);
}

void requests_cancel(struct controller *c, const void *arg)
{
	for (int i = 0; i < c->n_hosts; i++)
		for (struct request *r = c->hosts[i].requests; r; r = r->next)
			if (r->arg == arg)
				r->fn = NULL;
}

static void fail_requests(struct host *h, const char *why)
{
	struct bace_err e = { 0 };

	bace_fail(&e, ECONNRESET, "%s: %s", h->spec->name, why);
	while (h->requests) {
		struct request *r = h->requests;

		h->requests = r->next;
		request_end(r, NULL, &e);
	}
}

static void on_answer(struct host *h, const char *type, const json_t *msg)
{
	struct request *r = request_take(h, json_integer_value(json_object_get(msg, "id")));
	const char *text = json_string_value(json_object_get(msg, "text"));
	int errnum = (int)json_integer_value(json_object_get(msg, "errno"));
	struct bace_err e = { 0 };

	if (!r)
		return;		/* it came after its time-out */
	if (!strcmp(type, "ok")) {
		request_end(r, msg, NULL);
		return;
	}
	bace_fail(&e, errnum > 0 && errnum < 4096 ? errnum : EIO, "%s: %s", h->spec->name,
		  text ? text : "refused");
	request_end(r, NULL, &e);
}

/* ---- sessions ---- */

static struct host *find_host(struct controller *c, const char *name)
{
	for (int i = 0; i < c->n_hosts; i++)
		if (!strcmp(c->hosts[i].spec->name, name))
			return &c->hosts[i];
	return NULL;
}

static void refuse(struct wire_conn *conn, json_int_t id, struct host *h, const struct bace_err *e)
{
	bace_log(BACE_WARN, MODULE, "%s: %s", wire_peer_addr(conn), e->msg);
	if (h && !h->conn)
		snprintf(h->last_why, sizeof(h->last_why), "%.250s", e->msg);
	wire_answer_error(conn, id, e);
	wire_close(conn, e->msg);
}

static void on_hello(struct controller *c, struct wire_conn *conn, const json_t *msg)
{
	struct bace_err e = { 0 };
	struct wire_reader r = { .obj = msg, .what = "hello", .e = &e };
	static const char *const keys[] = { "name", "version", "inventory" };
	json_int_t id = json_integer_value(json_object_get(msg, "id"));
	const char *name = wire_read_str(&r, "name", WIRE_NAME_MAX);
	const char *peer = wire_peer(conn);
	json_t *inventory;
	struct host *h;

	wire_read_only(&r, keys, ARRAY_LEN(keys));
	wire_read_str(&r, "version", 40);
	inventory = wire_read_object(&r, "inventory");
	h = find_host(c, peer);
	if (!r.rc && strcmp(name, peer))
		r.rc = bace_fail(&e, EPERM, "host `%s' called itself `%s'", peer, name);
	if (!r.rc && !h)
		r.rc = bace_fail(&e, ENOENT, "host `%s' is not part of this cluster", peer);
	if (!r.rc && h->conn)
		r.rc = bace_fail(&e, EEXIST, "host `%s' is connected already, from %s", peer,
				 wire_peer_addr(h->conn));
	if (r.rc) {
		refuse(conn, id, h, &e);
		return;
	}
	h->conn = conn;
	h->planned = false;
	h->last_why[0] = '\0';
	json_decref(h->inventory);
	h->inventory = json_incref(inventory);
	json_object_set_new(inventory, "agent_version", json_string(json_string_value(
		json_object_get(msg, "version"))));
	wire_answer(conn, id, NULL);
	clock_start(h);
	bace_log(BACE_DEBUG, MODULE, "%s is here, from %s", h->spec->name, wire_peer_addr(conn));
	tell_ready(h);
}

static struct host *host_of(struct controller *c, struct wire_conn *conn)
{
	for (int i = 0; i < c->n_hosts; i++)
		if (c->hosts[i].conn == conn)
			return &c->hosts[i];
	return NULL;
}

static void on_open(void *arg, struct wire_conn *conn, const char *peer)
{
	bace_log(BACE_DEBUG, MODULE, "%s authenticated, from %s", peer, wire_peer_addr(conn));
}

static void on_lease_lost(struct host *h, const json_t *msg)
{
	const char *text = json_string_value(json_object_get(msg, "text"));

	h->planned = false;
	host_trouble(h, text ? text : "bace-shaperd is gone");
}

static void on_message(void *arg, struct wire_conn *conn, json_t *msg)
{
	struct controller *c = arg;
	struct host *h = host_of(c, conn);
	const char *type = json_string_value(json_object_get(msg, "type"));

	if (!h && !strcmp(type, "hello"))
		on_hello(c, conn, msg);
	else if (!h)
		wire_close(conn, "spoke before its hello");
	else if (!strcmp(type, "ok") || !strcmp(type, "error"))
		on_answer(h, type, msg);
	else if (!strcmp(type, "output"))
		procs_output(h, msg);
	else if (!strcmp(type, "exit"))
		procs_exit(h, msg);
	else if (!strcmp(type, "lease_lost"))
		on_lease_lost(h, msg);
	else if (!strcmp(type, "sample"))
		monitor_take(h, msg);
	else
		bace_log(BACE_WARN, MODULE, "%s: unknown event `%.40s'", h->spec->name, type);
}

static void on_close(void *arg, struct wire_conn *conn, const char *why)
{
	struct controller *c = arg;
	struct host *h = host_of(c, conn);
	char text[320];

	if (!h) {
		struct host *refused = find_host(c, wire_peer(conn));

		if (refused && !refused->conn)
			snprintf(refused->last_why, sizeof(refused->last_why), "%.250s", why);
		return;
	}
	h->conn = NULL;
	h->planned = h->classes_sampled = false;
	monitor_host_lost(h);
	clock_stop(h);
	snprintf(h->last_why, sizeof(h->last_why), "%.250s", why);
	snprintf(text, sizeof(text), "its agent is gone: %s", why);
	bace_log(BACE_WARN, MODULE, "%s: %s", h->spec->name, text);
	/* Watchers first: they know what it means; then what hangs on it. */
	host_trouble(h, text);
	procs_host_lost(h, text);
	fail_requests(h, text);
}

void hosts_handlers(struct controller *c, struct wire_handlers *h)
{
	*h = (struct wire_handlers){ .on_open = on_open, .on_message = on_message, .on_close = on_close,
				     .arg = c };
	h->limits.dead_s = c->cfg.heartbeat_dead_s;
	if (h->limits.dead_s < 3)
		h->limits.heartbeat_s = h->limits.dead_s / 3;
}

int hosts_init(struct controller *c, struct bace_err *e)
{
	const struct tb_topology *t = c->cfg.topo;

	c->hosts = calloc((size_t)t->n_hosts + 1, sizeof(*c->hosts));
	if (!c->hosts)
		return bace_fail(e, ENOMEM, "controller of %d hosts: out of memory", t->n_hosts);
	for (int i = 0; i < t->n_hosts; i++) {
		if (!wire_name_ok(t->hosts[i].name))
			return bace_fail(e, EINVAL, "host name `%s': must be 1 to %d of letters, digits and "
					 "._+-", t->hosts[i].name, WIRE_NAME_MAX);
		c->hosts[i] = (struct host){ .c = c, .spec = &t->hosts[i], .index = i };
	}
	c->n_hosts = t->n_hosts;
	return monitors_init(c, e) ? -ENOMEM : divider_init(c, e);
}

void hosts_free(struct controller *c)
{
	divider_free(c);
	monitors_free(c);
	for (int i = 0; i < c->n_hosts; i++) {
		struct host *h = &c->hosts[i];

		while (h->requests) {
			struct request *r = h->requests;

			h->requests = r->next;
			event_free(r->timer);
			free(r);
		}
		clock_stop(h);
		free(h->now.links);
		json_decref(h->inventory);
	}
	free(c->hosts);
	c->hosts = NULL;
	c->n_hosts = 0;
}
