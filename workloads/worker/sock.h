/*
 * One TCP connection of a hop: a queue of framed messages to send, and the
 * message that is being received.
 */
#ifndef BACE_WORKER_SOCK_H
#define BACE_WORKER_SOCK_H

#include "workloads/worker/loop.h"
#include "workloads/worker/message.h"
#include "workloads/worker/net.h"

struct sock {
	struct watch watch;		/* watch.fd: -1 none */
	bool connecting;
	bool closed;			/* the peer has shut its side */
	struct net_ends ends;		/* since it is open */
	struct header *queue;		/* ring */
	uint32_t head, tail, cap;	/* cap: power of two */
	uint64_t gone;			/* bytes of the first that the kernel has */
	uint64_t payload_bytes, messages;	/* queued in all */
	struct header in;		/* being received */
	uint64_t got;			/* bytes of it */
	int64_t first;			/* when its first byte came */
};

/* What is read of one socket while it is that socket's turn. */
struct sock_turn {
	int reads_left;
	int64_t at;			/* when it was read last */
	uint32_t from, to;		/* of ahead: of the messages to come */
	char ahead[4096];
};

void sock_init(struct sock *s, int fd);
void sock_free(struct sock *s);

int sock_queue(struct sock *s, const struct header *h, struct bace_err *e);
bool sock_pending(const struct sock *s);
/* Writes until the socket is full. 1: *done has gone whole to the kernel (call
 * again), 0 nothing more for now, -errno. */
int sock_write(struct sock *s, struct header *done, struct bace_err *e);

void sock_turn_begin(struct sock_turn *t);
/* Reads at most until one message is whole: 1, in *out with the time of its
 * first byte in s->first and of its last in t->at (call again); 0 nothing more in
 * this turn, -errno. A header is handed to `check` before its payload is read. */
typedef int (*header_fn)(void *arg, const struct header *h, struct bace_err *e);
int sock_read(struct sock *s, struct sock_turn *t, header_fn check, void *arg, struct header *out, struct bace_err *e);

#endif
