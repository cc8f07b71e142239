/* TCP sockets of a worker: non-blocking, TCP_NODELAY, with deadlines. */
#ifndef BACE_WORKER_NET_H
#define BACE_WORKER_NET_H

#include "common/common.h"

#define NET_NAME_MAX 72			/* "address:port" */

/* Listens on any port of addr (IPv4 or IPv6 text). */
int net_listen(const char *addr, int *fd, uint16_t *port, struct bace_err *e);
/* Begins to connect: writable when done, then net_connected. cc: congestion
 * control, "" = the route's or the kernel's. */
int net_connect(const char *addr, uint16_t port, const char *cc, int *fd, struct bace_err *e);
int net_connected(int fd, struct bace_err *e);
/* -EAGAIN: nobody there. */
int net_accept(int listener, const char *cc, int *fd, struct bace_err *e);
/* The connection ends, with ETIMEDOUT, when the peer acknowledges nothing for so
 * long; it is asked now and then, also when there is nothing to send. */
void net_peer_timeout(int fd, int64_t ns);
/* Lets the socket's buffers hold so many bytes, before it is connected or
 * listens: by the kernel's own growth if that goes so far, which adapts, else
 * fixed. Returns what they can hold now. */
uint64_t net_buffers(int fd, uint64_t bytes);
int net_peer(int fd, char name[NET_NAME_MAX]);

/* Sent on one socket. */
struct net_info {
	uint64_t wire_bytes;		/* L2, with the headers of every segment sent */
	uint64_t bytes_sent, retrans_bytes, segs_out;
	uint64_t delivery_rate_bps, busy_us, rwnd_limited_us, sndbuf_limited_us;
	uint64_t cwnd_bytes;
	uint32_t rtt_us, min_rtt_us;
	bool app_limited;		/* the sender bounded delivery_rate_bps */
	char congestion_control[16];
};

/* What of it stays as it is once the connection is open. */
struct net_ends {
	bool ipv6;
	char congestion_control[16];
};

int net_info(int fd, struct net_info *out);
/* In two: the ends once, then net_info_of is one system call. */
int net_ends(int fd, struct net_ends *out);
int net_info_of(int fd, const struct net_ends *ends, struct net_info *out);
/* Counters and rates of another socket to the same peer. */
void net_info_add(struct net_info *to, const struct net_info *t);
/* Bytes written but not yet acknowledged. */
int net_unacked(int fd);

#endif
