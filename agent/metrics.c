/* What the agent is doing, for Prometheus, over HTTP on the loopback. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/http.h>

#include "agent/monitor/monitor.h"

#define TYPE "text/plain; version=0.0.4; charset=utf-8"
#define REQUEST_MAX_BYTES 4096

struct metrics {
	struct agent *agent;
	struct evhttp *http;
	double start_s;			/* since 1970 */
};

static void family(struct evbuffer *b, const char *name, const char *type, const char *help)
{
	evbuffer_add_printf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void one(struct evbuffer *b, const char *name, const char *type, const char *help, double value)
{
	family(b, name, type, help);
	evbuffer_add_printf(b, "%s %.17g\n", name, value);
}

static void add_process(const struct metrics *m, struct evbuffer *b)
{
	struct rusage children = { 0 };
	uint64_t cpu_ns, rss_bytes;

	monitor_self(&cpu_ns, &rss_bytes);
	getrusage(RUSAGE_CHILDREN, &children);
	one(b, "process_cpu_seconds_total", "counter", "User and system CPU time of the agent.", (double)cpu_ns / 1e9);
	one(b, "process_resident_memory_bytes", "gauge", "Resident memory of the agent.", (double)rss_bytes);
	one(b, "process_start_time_seconds", "gauge", "When the agent started, since the epoch.", m->start_s);
	one(b, "bace_agent_workers_cpu_seconds_total", "counter", "User and system CPU time of workers that ended.",
	    (double)(children.ru_utime.tv_sec + children.ru_stime.tv_sec) +
	    (double)(children.ru_utime.tv_usec + children.ru_stime.tv_usec) / 1e6);
}

/* A line of /proc/net/dev: "  eth0: RECEIVED packets errs drop ... SENT packets errs drop ..." */
struct interface {
	char name[32];
	unsigned long long v[16];
};

static bool read_interface(const char *line, struct interface *i)
{
	const char *colon = strchr(line, ':');
	char *end;

	while (*line == ' ')
		line++;
	if (!colon || colon == line || colon - line >= (long)sizeof(i->name))
		return false;
	memcpy(i->name, line, (size_t)(colon - line));
	i->name[colon - line] = '\0';
	colon++;
	for (int k = 0; k < 16; k++) {
		i->v[k] = strtoull(colon, &end, 10);
		if (end == colon)
			return false;
		colon = end;
	}
	/* The names that the kernel allows may hold what a label may not. */
	return !i->name[strcspn(i->name, "\"\\\n")];
}

static void add_interfaces(struct evbuffer *b)
{
	static const struct {
		const char *name, *help;
		int field;
	} families[] = {
		{ "bace_interface_receive_bytes_total", "Bytes received on an interface.", 0 },
		{ "bace_interface_receive_packets_total", "Packets received on an interface.", 1 },
		{ "bace_interface_receive_drops_total", "Received packets dropped on an interface.", 3 },
		{ "bace_interface_transmit_bytes_total", "Bytes sent on an interface.", 8 },
		{ "bace_interface_transmit_packets_total", "Packets sent on an interface.", 9 },
		{ "bace_interface_transmit_drops_total", "Packets to be sent dropped on an interface.", 11 },
	};
	CLEANUP_FREE char *text = NULL;

	if (bace_read_file("/proc/net/dev", 1 << 20, &text, NULL, NULL))
		return;
	for (size_t f = 0; f < ARRAY_LEN(families); f++) {
		family(b, families[f].name, "counter", families[f].help);
		for (const char *p = text; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL) {
			struct interface i;

			if (read_interface(p, &i))
				evbuffer_add_printf(b, "%s{interface=\"%s\"} %llu\n", families[f].name, i.name,
						    i.v[families[f].field]);
		}
	}
}

static void add_agent(const struct agent *a, struct evbuffer *b)
{
	family(b, "bace_agent_info", "gauge", "Always 1; the labels say which agent this is.");
	evbuffer_add_printf(b, "bace_agent_info{host=\"%s\",version=\"%s\"} 1\n", a->cfg.name, bace_version());
	one(b, "bace_agent_connected", "gauge", "Whether a controller has accepted this agent.", a->accepted);
	one(b, "bace_agent_connections_total", "counter", "Connections to a controller since the start.", a->session);
	one(b, "bace_agent_workers", "gauge", "Workers that run on this host now.", a->n_workers);
}

static void on_metrics(struct evhttp_request *r, void *arg)
{
	struct metrics *m = arg;
	struct evbuffer *b = evbuffer_new();

	if (!b) {
		evhttp_send_error(r, HTTP_INTERNAL, NULL);
		return;
	}
	add_agent(m->agent, b);
	add_interfaces(b);
	add_process(m, b);
	evhttp_add_header(evhttp_request_get_output_headers(r), "Content-Type", TYPE);
	evhttp_send_reply(r, HTTP_OK, "OK", b);
	evbuffer_free(b);
}

static void on_other(struct evhttp_request *r, void *arg)
{
	evhttp_send_error(r, HTTP_NOTFOUND, "only /metrics is here");
}

int metrics_parse(const char *text, char addr[64], uint16_t *port, struct bace_err *e)
{
	const char *colon = strrchr(text, ':');
	unsigned char ignored[16];
	char *end;
	unsigned long v;

	snprintf(addr, 64, "127.0.0.1");
	if (colon) {
		bool brackets = *text == '[' && colon > text && colon[-1] == ']';

		snprintf(addr, 64, "%.*s", (int)(colon - text) - 2 * brackets, text + brackets);
	}
	v = strtoul(colon ? colon + 1 : text, &end, 10);
	if (*end || end == text || end == colon + 1 || v > 65535 ||
	    (inet_pton(AF_INET, addr, ignored) != 1 && inet_pton(AF_INET6, addr, ignored) != 1))
		return bace_fail(e, EINVAL, "--metrics %.80s: must be a port, or ADDRESS:PORT, e.g. 9500 or 127.0.0.1:9500",
				 text);
	*port = (uint16_t)v;
	return 0;
}

int metrics_open(struct agent *a, const char *addr, uint16_t port, struct metrics **out, struct bace_err *e)
{
	struct metrics *m = calloc(1, sizeof(*m));
	struct evhttp_bound_socket *bound;
	struct sockaddr_storage at;
	socklen_t len = sizeof(at);

	if (!m || !(m->http = evhttp_new(a->base))) {
		free(m);
		return bace_fail(e, ENOMEM, "metrics: out of memory");
	}
	m->agent = a;
	m->start_s = (double)bace_wall_ns() / 1e9;
	evhttp_set_allowed_methods(m->http, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD);
	evhttp_set_max_headers_size(m->http, REQUEST_MAX_BYTES);
	evhttp_set_max_body_size(m->http, REQUEST_MAX_BYTES);
	evhttp_set_timeout(m->http, 10);
	evhttp_set_cb(m->http, "/metrics", on_metrics, m);
	evhttp_set_gencb(m->http, on_other, m);
	bound = evhttp_bind_socket_with_handle(m->http, addr, port);
	if (!bound) {
		int rc = bace_fail_errno(e, errno ? errno : EADDRINUSE, "metrics on %s:%u", addr, port);

		metrics_close(m);
		return rc;
	}
	if (!getsockname(evhttp_bound_socket_get_fd(bound), (struct sockaddr *)&at, &len))
		port = ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port :
			     ((struct sockaddr_in *)&at)->sin_port);
	bace_log(BACE_INFO, "metrics", "http://%s%s%s:%u/metrics", strchr(addr, ':') ? "[" : "", addr,
		 strchr(addr, ':') ? "]" : "", port);
	*out = m;
	return 0;
}

void metrics_close(struct metrics *m)
{
	if (!m)
		return;
	evhttp_free(m->http);
	free(m);
}
