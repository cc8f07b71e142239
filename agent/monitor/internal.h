/* Private to agent/monitor. */
#ifndef BACE_AGENT_MONITOR_INTERNAL_H
#define BACE_AGENT_MONITOR_INTERNAL_H

#include <libmnl/libmnl.h>

#include "agent/monitor/monitor.h"

#define PROBE_TARGETS_MAX 256
#define PROBE_PACKETS_MAX 256
#define PROBE_PACKETS_PER_S_MAX 100000	/* of all trains of this host */

/* Headers of a UDP packet at layer 2, and the payload that fills it at MTU 1500. */
static inline size_t probe_headers(int family)
{
	return family == AF_INET6 ? 62 : 42;
}

static inline size_t probe_payload(int family)
{
	return 1500 + 14 - probe_headers(family);
}
#define PROBE_PAYLOAD_MAX 1472

struct source;

#define SOURCE_LATER 1

struct source_ops {
	const char *name;
	/* Rows of now; `full': also those that are as they were. A source without
	 * anything to say adds nothing. SOURCE_LATER: its rows come by monitor_push. */
	int (*read)(struct source *s, bool full, struct bace_buf *rows, struct bace_err *e);
	void (*destroy)(struct source *s);
};

struct source {				/* the first member of each kind's own */
	const struct source_ops *ops;
	struct monitor *monitor;
};

/* A zeroed source of `size' bytes; NULL, e says so: out of memory. */
void *source_new(struct monitor *m, const struct source_ops *ops, size_t size, struct bace_err *e);
/* destroy() of one that owns nothing else. */
void source_free(struct source *s);

struct probe_target {
	char addr[46];
	uint16_t port;
};

struct monitor_config {
	char class_dev[IFNAMSIZ];	/* where the classes are; "": none */
	uint64_t probe_token;
	int probe_packets;		/* of one train */
	int n_targets;
	struct probe_target *targets;	/* owned by the monitor */
};

const struct monitor_config *monitor_config(const struct monitor *m);
struct agent *monitor_agent(const struct monitor *m);
/* Adds rows of that moment that come between two reads (answers to probes). */
void monitor_push(struct monitor *m, const char *source, int64_t at_ns, const char *rows);
void monitor_count_probe(struct monitor *m, uint64_t bytes);

int source_link(struct monitor *m, struct source **out, struct bace_err *e);
int source_class(struct monitor *m, struct source **out, struct bace_err *e);
int source_tcp(struct monitor *m, struct source **out, struct bace_err *e);
int source_self(struct monitor *m, struct source **out, struct bace_err *e);
int source_gpu(struct monitor *m, struct source **out, struct bace_err *e);
int source_rapl(struct monitor *m, struct source **out, struct bace_err *e);
int source_probe(struct monitor *m, struct source **out, struct bace_err *e);

/* ---- class.c ---- */
struct class_row {
	uint32_t minor;
	uint64_t bytes, packets;
	uint32_t drops, backlog;
};

/* ---- responder.c: the receiving end of probes ---- */
struct responder;
int responder_open(struct agent *a, const char *addr, struct responder **out, struct bace_err *e);
void responder_close(struct responder *r);
void responder_set_token(struct responder *r, uint64_t token);
uint16_t responder_port(const struct responder *r);

struct probe_packet {			/* host order: both ends are of one build, checked by magic */
	uint32_t magic;
	uint16_t index, count;		/* of the train */
	uint64_t token;
	uint32_t train, target;
};

struct probe_report {
	struct probe_packet head;	/* index: packets that came */
	uint32_t bytes;			/* of each at layer 2 */
	uint32_t at_us10[PROBE_PACKETS_MAX];	/* 0.1 us since the first, in order of arrival */
};

#define PROBE_MAGIC 0x62637031u
#define PROBE_REPORT_MAGIC 0x62637231u

/* ---- nl.c ---- */
/* cb returns MNL_CB_OK or MNL_CB_ERROR with errno set. */
int nl_dump(struct mnl_socket *s, struct nlmsghdr *req, mnl_cb_t cb, void *arg, struct bace_err *e);
/* Part of it: one datagram of an answer. 1: there is more, 0: that was all, -errno. */
int nl_take(void *buf, size_t len, uint32_t seq, uint32_t portid, mnl_cb_t cb, void *arg);
/* What a failed read left behind must not be taken for the next one's. */
void nl_drain(struct mnl_socket *s);

/* ---- rows.c ---- */
int row_u64(struct bace_buf *b, uint64_t v, char after);
int row_str(struct bace_buf *b, const char *s, char after);

#endif
