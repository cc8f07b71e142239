/* What both ends of a probe share. Private to harness/shape. */
#ifndef BACE_HARNESS_SHAPE_PROBE_H
#define BACE_HARNESS_SHAPE_PROBE_H

#include <sys/socket.h>

#include "harness/shape/shape.h"

#define PROBE_VERSION 2
#define PROBE_LINE 128
#define PROBE_SECONDS_MAX 120
#define PROBE_BUCKET_NS 100000000LL
#define PROBE_BUCKETS 4096
#define PROBE_CHUNK (128 << 10)
#define PROBE_UDP_BYTES 1000	/* of payload, at most; a number of 8 at least */
#define PROBE_UDP_LATE_NS 10000000LL	/* more than so is not made up for */
#define PROBE_UDP_LONGER_NS 2000000000LL	/* and takes longer, by so much at most */
#define PROBE_UDP_QUIET_MS 3000	/* nothing more comes after so long: the longest pause, and a second */

/* Bytes received, by 100 ms of the receiver's monotonic clock. */
struct probe_counts {
	int64_t first;			/* number of the first bucket */
	int n;
	uint64_t v[PROBE_BUCKETS];
};

void probe_count(struct probe_counts *c, int64_t now_ns, uint64_t bytes);
/* Adds `from` to `to`, aligned by the clock. */
void probe_counts_add(struct probe_counts *to, const struct probe_counts *from);

struct probe_udp_counts {
	uint64_t received, reordered;
};

/* An echo request; the answer is the same bytes. */
struct probe_echo {
	uint32_t magic, seq;
	int64_t sent_ns;
	uint8_t pad[48];
};
#define PROBE_ECHO_MAGIC 0x62616563u

/* address (numeric, either family) and port; -EINVAL. */
int probe_address(const char *addr, int port, struct sockaddr_storage *sa, socklen_t *len, struct bace_err *e);
void probe_timeouts(int fd, double seconds);
/* A congestion control that keeps a link full, whatever the host's default is. */
void probe_fill(int fd);
/* One line without its newline; 0, or -errno. */
int probe_read_line(int fd, char *buf, size_t cap);
int probe_write(int fd, const void *p, size_t n);
int probe_printf(int fd, const char *fmt, ...) BACE_PRINTF(2, 3);

/* Numbered datagrams of so many bytes to a connected socket at this rate; how many were sent. */
uint64_t probe_udp_send(int fd, int bytes, double bps, double seconds);
/* Until `quiet` ms pass without one, or `until`. */
void probe_udp_receive(int fd, int64_t until_ns, int quiet_ms, struct probe_udp_counts *out);

#endif
