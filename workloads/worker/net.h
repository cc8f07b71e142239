/* TCP sockets of a worker: non-blocking, TCP_NODELAY, with deadlines. */
#ifndef BACE_WORKER_NET_H
#define BACE_WORKER_NET_H

#include <sys/socket.h>

#include "common/common.h"

#define NET_NAME_MAX 72			/* "address:port" */

/* Listens on addr (IPv4 or IPv6 text), port 0: any; *port is the one it got. */
int net_listen(const char *addr, uint16_t want, int *fd, uint16_t *port, struct bace_err *e);
/* Begins to connect: writable when done, then net_connected. cc: congestion
 * control, "" = the route's or the kernel's. */
int net_connect(const char *addr, uint16_t port, const char *cc, int *fd, struct bace_err *e);
int net_connected(int fd, struct bace_err *e);
/* -EAGAIN: nobody there. */
int net_accept(int listener, const char *cc, int *fd, struct bace_err *e);
int net_user_timeout(int fd, int64_t ns);
int net_peer(int fd, char name[NET_NAME_MAX]);
int net_address(const char *addr, uint16_t port, struct sockaddr_storage *out, socklen_t *len,
		struct bace_err *e);

/* Sent on one socket; may be summed over several (net_info_add). */
struct net_info {
	uint64_t wire_bytes;		/* L2, with the headers of every segment sent */
	uint64_t bytes_sent, retrans_bytes, segs_out;
	uint64_t delivery_rate_bps, busy_us, rwnd_limited_us, sndbuf_limited_us;
	uint32_t rtt_us, min_rtt_us;	/* the worst of several */
	char congestion_control[16];
};

int net_info(int fd, struct net_info *out);
void net_info_add(struct net_info *sum, const struct net_info *x);
/* Bytes written but not yet acknowledged. */
int net_unacked(int fd);

/* The kernel tells on the error queue when what is written is acknowledged; to
 * be called before anything is. */
int net_tell_acks(int fd, struct bace_err *e);
/* Empties the error queue. 1 and *bytes: so many are acknowledged, modulo 2^32;
 * 0: nothing new. */
int net_acked(int fd, uint32_t *bytes);

#endif
