/*
 * Active probe: every period one train of packets, back to back, to each target;
 * the target's answer says when each of them came. A train's bytes are its
 * budget: what it takes of the link is known before it is sent.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/monitor/internal.h"

struct probe_source {
	struct source base;
	int fd[2];			/* IPv4, IPv6; -1: not needed */
	struct event *on_answer[2];
	uint32_t train;
};

static socklen_t target_addr(const struct probe_target *t, struct sockaddr_storage *out)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)out;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;

	memset(out, 0, sizeof(*out));
	if (inet_pton(AF_INET, t->addr, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(t->port);
		return sizeof(*v4);
	}
	if (inet_pton(AF_INET6, t->addr, &v6->sin6_addr) != 1)
		return 0;
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons(t->port);
	return sizeof(*v6);
}

static void send_train(struct probe_source *s, uint32_t index, const struct probe_target *t)
{
	const struct monitor_config *c = monitor_config(s->base.monitor);
	struct sockaddr_storage to;
	socklen_t n = target_addr(t, &to);
	char buf[PROBE_PAYLOAD_MAX] = { 0 };
	struct probe_packet p = { .magic = PROBE_MAGIC, .count = (uint16_t)c->probe_packets,
				  .token = c->probe_token, .train = s->train, .target = index };
	int fd = n ? s->fd[to.ss_family == AF_INET6] : -1;
	uint64_t sent = 0;

	for (int i = 0; fd >= 0 && i < c->probe_packets; i++) {
		ssize_t k;

		p.index = (uint16_t)i;
		memcpy(buf, &p, sizeof(p));
		k = sendto(fd, buf, probe_payload(to.ss_family), MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&to, n);
		sent += k > 0 ? (uint64_t)k + probe_headers(to.ss_family) : 0;
	}
	monitor_count_probe(s->base.monitor, sent);
}

/* The answers are rows of their own, as they come. */
static int probe_read(struct source *base, bool full, struct bace_buf *rows, struct bace_err *e)
{
	struct probe_source *s = (struct probe_source *)base;
	const struct monitor_config *c = monitor_config(base->monitor);

	s->train++;
	for (int i = 0; i < c->n_targets; i++)
		send_train(s, (uint32_t)i, &c->targets[i]);
	return SOURCE_LATER;
}

static void take_answer(struct probe_source *s, const struct probe_report *r, size_t n)
{
	const struct monitor_config *c = monitor_config(s->base.monitor);
	struct bace_buf row = { 0 };

	if (n < offsetof(struct probe_report, at_us10) || r->head.magic != PROBE_REPORT_MAGIC ||
	    r->head.token != c->probe_token || r->head.target >= (uint32_t)c->n_targets ||
	    r->head.index > PROBE_PACKETS_MAX || r->head.count != c->probe_packets ||
	    n != offsetof(struct probe_report, at_us10) + r->head.index * sizeof(uint32_t))
		return;
	row_str(&row, c->targets[r->head.target].addr, ' ');
	row_u64(&row, r->head.count, ' ');
	row_u64(&row, r->bytes, r->head.index ? ' ' : ';');
	for (int i = 0; i < r->head.index; i++)
		row_u64(&row, r->at_us10[i], i + 1 < r->head.index ? ' ' : ';');
	if (row.p)
		monitor_push(s->base.monitor, "probe", bace_mono_ns(), row.p);
	bace_buf_free(&row);
}

static void on_answer(evutil_socket_t fd, short what, void *arg)
{
	struct probe_source *s = arg;
	struct probe_report r;

	for (int i = 0; i < 256; i++) {
		ssize_t n = recv(fd, &r, sizeof(r), MSG_DONTWAIT);

		if (n < 0)
			return;
		take_answer(s, &r, (size_t)n);
	}
}

static void probe_destroy(struct source *base)
{
	struct probe_source *s = (struct probe_source *)base;

	for (int i = 0; i < 2; i++) {
		if (s->on_answer[i])
			event_free(s->on_answer[i]);
		bace_cleanup_close(&s->fd[i]);
	}
	free(s);
}

static const struct source_ops ops = { .name = "probe", .read = probe_read, .destroy = probe_destroy };

int source_probe(struct monitor *m, struct source **out, struct bace_err *e)
{
	static const int families[] = { AF_INET, AF_INET6 };
	struct probe_source *s = source_new(m, &ops, sizeof(*s), e);

	if (!s)
		return -ENOMEM;
	s->fd[0] = s->fd[1] = -1;
	/* Not what the last one counted: a responder remembers trains. */
	s->train = (uint32_t)random();
	for (int i = 0; i < 2; i++) {
		s->fd[i] = socket(families[i], SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (s->fd[i] < 0)
			continue;	/* a host without IPv6 */
		s->on_answer[i] = event_new(monitor_agent(m)->base, s->fd[i], EV_READ | EV_PERSIST, on_answer, s);
		if (!s->on_answer[i] || event_add(s->on_answer[i], NULL)) {
			probe_destroy(&s->base);
			return bace_fail(e, ENOMEM, "sample: out of memory");
		}
	}
	*out = &s->base;
	return 0;
}
