#include "tests/standin/comm.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#define POLL_MS 20

/* The first that is not done of each connection: one peer's go in order. */
static bool first_of_its_kind(const struct op *ops, int i)
{
	for (int k = 0; k < i; k++)
		if (ops[k].send == ops[i].send && ops[k].peer == ops[i].peer && ops[k].done < ops[k].n + sizeof(uint64_t))
			return false;
	return true;
}

/* One call of send or recv: > 0, 0: not now, -1: gone. */
static ssize_t step(const struct ncclComm *c, struct op *o)
{
	int fd = o->send ? c->out[o->peer] : c->in[o->peer];
	bool head = o->done < sizeof(o->length);
	char *at = head ? (char *)&o->length + o->done : (char *)o->data + (o->done - sizeof(o->length));
	size_t n = head ? sizeof(o->length) - o->done : o->n - (o->done - sizeof(o->length));
	ssize_t got = o->send ? send(fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(fd, at, n, MSG_DONTWAIT);

	if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
		return -1;
	if (got < 0)
		return 0;
	o->done += (size_t)got;
	return got;
}

static ncclResult_t advance(struct ncclComm *c, struct op *o)
{
	ssize_t got;

	while (o->done < o->n + sizeof(o->length) && (got = step(c, o)) != 0) {
		if (got < 0) {
			boot_log("WARN", "socketProgress: Connection closed by remote peer %d", o->peer);
			return ncclRemoteError;
		}
		if (!o->send && o->done == sizeof(o->length) && o->length != o->n) {
			boot_log("WARN", "NET/Socket : peer %d message truncated : receiving %llu bytes instead of %llu",
				 o->peer, (unsigned long long)o->length, (unsigned long long)o->n);
			return ncclInternalError;
		}
	}
	return ncclSuccess;
}

ncclResult_t move_all(struct ncclComm *c, struct op *ops, int n)
{
	for (;;) {
		struct pollfd p[RANKS_MAX];
		int k = 0;

		for (int i = 0; i < n && k < RANKS_MAX; i++) {
			ncclResult_t rc;

			if (ops[i].done == ops[i].n + sizeof(uint64_t) || !first_of_its_kind(ops, i))
				continue;
			rc = advance(c, &ops[i]);
			if (rc != ncclSuccess)
				return rc;
			if (ops[i].done < ops[i].n + sizeof(uint64_t))
				p[k++] = (struct pollfd){ .fd = ops[i].send ? c->out[ops[i].peer] : c->in[ops[i].peer],
							  .events = ops[i].send ? POLLOUT : POLLIN };
			else
				i = -1;		/* the next of that connection may go on */
			if (i < 0)
				k = 0;
		}
		if (!k)
			return ncclSuccess;
		if (c->aborted)
			return ncclInternalError;
		poll(p, (nfds_t)k, POLL_MS);
	}
}
