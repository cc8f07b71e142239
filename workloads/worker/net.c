#include "workloads/worker/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define ETHERNET_HEADER 14
#define IPV4_HEADER 20
#define IPV6_HEADER 40
#define TCP_HEADER 20
#define TCP_TIMESTAMPS 12
#define SYN_EXTRA 8			/* MSS, SACK permitted and window scale beyond those */
#define BACKLOG 128

static int parse(const char *addr, uint16_t port, struct sockaddr_storage *out, socklen_t *len,
		 struct bace_err *e)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)out;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;

	memset(out, 0, sizeof(*out));
	if (inet_pton(AF_INET, addr, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		*len = sizeof(*v4);
		return 0;
	}
	if (inet_pton(AF_INET6, addr, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(port);
		*len = sizeof(*v6);
		return 0;
	}
	return bace_fail(e, EINVAL, "address `%s': not IPv4 or IPv6", addr);
}

static uint16_t port_of(const struct sockaddr_storage *a)
{
	return ntohs(a->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)a)->sin6_port :
		     ((const struct sockaddr_in *)a)->sin_port);
}

int net_peer(int fd, char name[NET_NAME_MAX])
{
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);
	char text[INET6_ADDRSTRLEN] = "?";

	if (getpeername(fd, (struct sockaddr *)&a, &len)) {
		snprintf(name, NET_NAME_MAX, "?");
		return -errno;
	}
	if (a.ss_family == AF_INET6)
		inet_ntop(AF_INET6, &((struct sockaddr_in6 *)&a)->sin6_addr, text, sizeof(text));
	else
		inet_ntop(AF_INET, &((struct sockaddr_in *)&a)->sin_addr, text, sizeof(text));
	snprintf(name, NET_NAME_MAX, a.ss_family == AF_INET6 ? "[%s]:%u" : "%s:%u", text, port_of(&a));
	return 0;
}

static int options(int fd, const char *cc, struct bace_err *e)
{
	int one = 1;

	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
		return bace_fail_errno(e, errno, "TCP_NODELAY");
	/* The route may have set it already; then asking again needs no privilege. */
	if (cc[0] && setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, cc, (socklen_t)strlen(cc))) {
		int errnum = errno;
		struct net_info now;

		if (net_info(fd, &now) || strcmp(now.congestion_control, cc))
			return bace_fail_errno(e, errnum, "congestion control %s", cc);
	}
	return 0;
}

int net_listen(const char *addr, int *fd, uint16_t *port, struct bace_err *e)
{
	struct sockaddr_storage a;
	socklen_t len;
	int rc = parse(addr, 0, &a, &len, e);

	if (rc)
		return rc;
	CLEANUP_CLOSE int s = socket(a.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (s < 0)
		return bace_fail_errno(e, errno, "socket");
	if (bind(s, (struct sockaddr *)&a, len) || listen(s, BACKLOG) ||
	    getsockname(s, (struct sockaddr *)&a, &len))
		return bace_fail_errno(e, errno, "listen on %s", addr);
	*port = port_of(&a);
	*fd = STEAL_FD(s);
	return 0;
}

int net_connect(const char *addr, uint16_t port, const char *cc, int *fd, struct bace_err *e)
{
	struct sockaddr_storage a;
	socklen_t len;
	int rc = parse(addr, port, &a, &len, e);

	if (rc)
		return rc;
	CLEANUP_CLOSE int s = socket(a.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (s < 0)
		return bace_fail_errno(e, errno, "socket");
	if (connect(s, (struct sockaddr *)&a, len) && errno != EINPROGRESS)
		return bace_fail_errno(e, errno, "connect %s:%u", addr, port);
	/* After connect: the route's own choice is known, and may be what is asked. */
	rc = options(s, cc, e);
	if (!rc)
		*fd = STEAL_FD(s);
	return rc;
}

int net_connected(int fd, struct bace_err *e)
{
	int err = 0;
	socklen_t len = sizeof(err);

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len))
		err = errno;
	return err ? bace_fail_errno(e, err, "connect") : 0;
}

/* One that went away before it was accepted, whatever the network has to say of
 * it (accept(2)), is nothing about this end. */
static bool not_there(int errnum)
{
	static const int of_the_peer[] = { EAGAIN, EINTR, ECONNABORTED, EPROTO, EPERM, ENETDOWN, ENETUNREACH,
		EHOSTDOWN, EHOSTUNREACH, ENONET, ENOPROTOOPT, EOPNOTSUPP, ETIMEDOUT };

	for (size_t i = 0; i < ARRAY_LEN(of_the_peer); i++)
		if (errnum == of_the_peer[i])
			return true;
	return false;
}

int net_accept(int listener, const char *cc, int *fd, struct bace_err *e)
{
	int s = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), rc;

	if (s < 0)
		return not_there(errno) ? -EAGAIN : bace_fail_errno(e, errno, "accept");
	rc = options(s, cc, e);
	if (rc)
		close(s);
	else
		*fd = s;
	return rc;
}

void net_peer_timeout(int fd, int64_t ns)
{
	int64_t whole = ns / 1000000;
	int ms = whole < 1 ? 1 : whole > INT32_MAX ? INT32_MAX : (int)whole;
	int third_s = ms / 3000 > 1 ? ms / 3000 : 1, on = 1;

	/* A kernel that refuses leaves the rank its own deadlines. */
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &third_s, sizeof(third_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &third_s, sizeof(third_s));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

/* The last number of a sysctl; 0: cannot be read. */
static uint64_t sysctl_last(const char *path)
{
	CLEANUP_FREE char *text = NULL;
	struct bace_err e;
	const char *last = NULL;

	if (bace_read_file(path, 4096, &text, NULL, &e))
		return 0;
	for (char *save, *word = strtok_r(text, " \t\n", &save); word; word = strtok_r(NULL, " \t\n", &save))
		last = word;
	return last ? strtoull(last, NULL, 10) : 0;
}

static uint64_t make_room(int fd, int option, const char *growth_path, const char *fixed_path, uint64_t bytes)
{
	uint64_t most = sysctl_last(growth_path);
	/* The kernel doubles it, for what holds the bytes. */
	int ask = bytes > INT32_MAX ? INT32_MAX / 2 : (int)(bytes / 2), got = 0;
	socklen_t len = sizeof(got);

	/* A fixed size grows no more: only if it is the larger. */
	if (most >= bytes || 2 * sysctl_last(fixed_path) <= most || setsockopt(fd, SOL_SOCKET, option, &ask, sizeof(ask)) ||
	    getsockopt(fd, SOL_SOCKET, option, &got, &len))
		return most;
	return (uint64_t)got;
}

uint64_t net_buffers(int fd, uint64_t bytes)
{
	uint64_t in = make_room(fd, SO_RCVBUF, "/proc/sys/net/ipv4/tcp_rmem",
				"/proc/sys/net/core/rmem_max", bytes);
	uint64_t out = make_room(fd, SO_SNDBUF, "/proc/sys/net/ipv4/tcp_wmem",
				 "/proc/sys/net/core/wmem_max", bytes);

	return in < out ? in : out;
}

int net_ends(int fd, struct net_ends *out)
{
	struct sockaddr_storage a;
	socklen_t alen = sizeof(a), cclen = sizeof(out->congestion_control);

	*out = (struct net_ends){ 0 };
	if (getsockname(fd, (struct sockaddr *)&a, &alen) ||
	    getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, out->congestion_control, &cclen))
		return -errno;
	out->ipv6 = a.ss_family == AF_INET6;
	return 0;
}

int net_info_of(int fd, const struct net_ends *ends, struct net_info *out)
{
	struct tcp_info t = { 0 };
	socklen_t len = sizeof(t);
	unsigned headers;

	*out = (struct net_info){ 0 };
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &t, &len))
		return -errno;
	memcpy(out->congestion_control, ends->congestion_control, sizeof(out->congestion_control));
	headers = ETHERNET_HEADER + (ends->ipv6 ? IPV6_HEADER : IPV4_HEADER) + TCP_HEADER +
		  (t.tcpi_options & TCPI_OPT_TIMESTAMPS ? TCP_TIMESTAMPS : 0);
	out->bytes_sent = t.tcpi_bytes_sent;
	out->segs_out = t.tcpi_segs_out;
	out->wire_bytes = t.tcpi_bytes_sent + (uint64_t)t.tcpi_segs_out * headers + SYN_EXTRA;
	out->retrans_bytes = t.tcpi_bytes_retrans;
	out->delivery_rate_bps = t.tcpi_delivery_rate * 8;
	out->busy_us = t.tcpi_busy_time;
	out->rwnd_limited_us = t.tcpi_rwnd_limited;
	out->sndbuf_limited_us = t.tcpi_sndbuf_limited;
	out->cwnd_bytes = (uint64_t)t.tcpi_snd_cwnd * t.tcpi_snd_mss;
	out->app_limited = t.tcpi_delivery_rate_app_limited;
	out->rtt_us = t.tcpi_rtt;
	out->min_rtt_us = t.tcpi_min_rtt;
	return 0;
}

int net_info(int fd, struct net_info *out)
{
	struct net_ends ends;
	int rc = net_ends(fd, &ends);

	return rc ? rc : net_info_of(fd, &ends, out);
}

void net_info_add(struct net_info *to, const struct net_info *t)
{
	to->wire_bytes += t->wire_bytes;
	to->bytes_sent += t->bytes_sent;
	to->retrans_bytes += t->retrans_bytes;
	to->segs_out += t->segs_out;
	to->delivery_rate_bps += t->delivery_rate_bps;
	to->busy_us += t->busy_us;
	to->rwnd_limited_us += t->rwnd_limited_us;
	to->sndbuf_limited_us += t->sndbuf_limited_us;
	to->cwnd_bytes += t->cwnd_bytes;
	to->app_limited |= t->app_limited;
}

int net_unacked(int fd)
{
	int n = 0;

	return ioctl(fd, SIOCOUTQ, &n) ? 0 : n;
}
