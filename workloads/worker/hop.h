/*
 * A hop that is not internal: S connections to the worker at its other end. A
 * message is shared among them and is there when all its parts are.
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
	int (*left)(void *arg, int hop, bool forward, int64_t left, struct bace_err *e);
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

struct partial {
	struct message m;
	int parts;
	int64_t first;
};

struct hop {
	const struct worker_spec *spec;
	const struct hop_events *events;
	struct loop *loop;
	int index;			/* into spec->hops */
	struct watch listener;
	struct pending pending[HOP_PENDING_MAX];
	unsigned next_pending;
	struct sock *socks;		/* [sockets] */
	int n_socks, n_warm;
	struct partial *partial;	/* ring of messages under way */
	uint64_t head, cap;		/* number of the oldest; cap: power of two */
	uint64_t received;		/* messages of the schedule, tokens included */
	uint64_t sent_parts;		/* of the message that is to tell left: acknowledged */
	bool left_forward;
	char peer[NET_NAME_MAX];
};

int hop_init(struct hop *h, const struct worker_spec *spec, int index, struct loop *loop,
	     const struct hop_events *events, struct bace_err *e);
void hop_free(struct hop *h);
const struct worker_hop_spec *hop_spec(const struct hop *h);

int hop_listen(struct hop *h, uint16_t *port, struct bace_err *e);
int hop_connect(struct hop *h, const char *addr, uint16_t port, struct bace_err *e);
/* All connections are there and have carried one message each way. */
bool hop_warm(const struct hop *h);

int hop_send(struct hop *h, const struct message *m, bool tell_left, struct bace_err *e);

/* The end: all is sent and acknowledged; no more will be sent; the peer says so too. */
bool hop_drained(const struct hop *h);
void hop_shutdown(struct hop *h);
bool hop_finished(const struct hop *h);

/* Sums over the sockets. */
void hop_info(const struct hop *h, struct net_info *out);
uint64_t hop_payload_bytes(const struct hop *h);
uint64_t hop_messages(const struct hop *h);

#endif
