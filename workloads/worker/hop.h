/*
 * A hop that is not internal: the connections to the worker at its other end.
 * Larger messages are striped over all of them, a part on each, and are whole
 * when the last part is; small ones go on the first. In every connection what
 * was sent first comes first, so messages arrive in order.
 */
#ifndef BACE_WORKER_HOP_H
#define BACE_WORKER_HOP_H

#include "workloads/worker/sock.h"

#define HOP_PENDING_MAX 64

/* What a hop tells its rank. */
struct hop_events {
	int (*received)(void *arg, int hop, const struct message *m, int64_t first, int64_t now,
			struct bace_err *e);
	void (*sent)(void *arg, int hop, const struct message *m, int64_t now);
	/* Steps of the spec that are left out. */
	int (*skipped)(void *arg);
	/* For messages of errors. */
	int (*step)(void *arg, int hop);
	void *arg;
};

/* Accepted, and not yet known to be of this hop. */
struct pending {
	struct watch watch;
	struct header in;
	size_t got;
};

/* A part that is here, when others of its message are not. */
struct part {
	struct header h;
	int64_t first;
};

/* One of the connections. */
struct lane {
	struct sock sock;
	struct hop *hop;
	struct part *parts;		/* ring */
	uint32_t head, tail, cap;	/* cap: power of two */
	uint64_t received;		/* parts of messages of the schedule */
	uint64_t sent;			/* parts of striped messages, whole with the kernel */
};

struct hop {
	const struct worker_spec *spec;
	const struct hop_events *events;
	struct loop *loop;
	int index;			/* into spec->hops */
	char name[24];			/* "hop 2", "ring 0" */
	struct watch listener;
	struct pending pending[HOP_PENDING_MAX];
	unsigned next_pending;
	bool told_full;			/* that files ran out, once */
	int n_lanes;
	struct lane lanes[WORKER_SOCKETS_MAX];
	bool warm;			/* the peer's first message is here */
	uint64_t sent, told;		/* messages queued; striped ones told to be sent */
	uint64_t received;		/* messages of the schedule, tokens included */
	char peer[NET_NAME_MAX];
};

void hop_init(struct hop *h, const struct worker_spec *spec, int index, struct loop *loop,
	      const struct hop_events *events);
void hop_free(struct hop *h);
const struct worker_hop_spec *hop_spec(const struct hop *h);

int hop_listen(struct hop *h, uint16_t *port, struct bace_err *e);
int hop_connect(struct hop *h, const char *addr, uint16_t port, struct bace_err *e);
/* Some connection is there, or on its way. */
bool hop_begun(const struct hop *h);
/* Some is on its way. */
bool hop_connecting(const struct hop *h);
/* The connections are there and have carried one message each way. */
bool hop_warm(const struct hop *h);

int hop_send(struct hop *h, const struct message *m, struct bace_err *e);

/* The end: all is sent and acknowledged; no more will be sent; the peer says so too. */
bool hop_drained(const struct hop *h);
void hop_shutdown(struct hop *h);
bool hop_finished(const struct hop *h);

/* Sums over the connections; times, of the first. */
void hop_info(const struct hop *h, struct net_info *out, uint64_t *payload_bytes, uint64_t *messages);

#endif
