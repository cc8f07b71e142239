#include "workloads/worker/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define ETHERNET_HEADER 14
#define IPV4_HEADER 20
#define IPV6_HEADER 40
#define TCP_HEADER_TS 32		/* with timestamps */
#define SYN_EXTRA 8			/* MSS, SACK permitted and window scale beyond those */

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

static int options(int fd, const char *cc, struct bace_err *e)
{
	int one = 1;

	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
		return bace_fail_errno(e, errno, "TCP_NODELAY");
	/* The route may have set it already; then asking again needs no privilege. */
	if (cc[0] && setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, cc, (socklen_t)strlen(cc))) {
		struct net_info now;

		if (net_info(fd, &now) || strcmp(now.congestion_control, cc))
			return bace_fail_errno(e, errno, "congestion control %s", cc);
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
	if (bind(s, (struct sockaddr *)&a, len) || listen(s, 16) ||
	    getsockname(s, (struct sockaddr *)&a, &len))
		return bace_fail_errno(e, errno, "listen on %s", addr);
	*port = ntohs(a.ss_family == AF_INET ? ((struct sockaddr_in *)&a)->sin_port :
		      ((struct sockaddr_in6 *)&a)->sin6_port);
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

int net_accept(int listener, const char *cc, int *fd, struct bace_err *e)
{
	int s = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), rc;

	if (s < 0)
		return errno == EAGAIN ? -EAGAIN : bace_fail_errno(e, errno, "accept");
	rc = options(s, cc, e);
	if (rc)
		close(s);
	else
		*fd = s;
	return rc;
}

int net_user_timeout(int fd, int64_t ns)
{
	unsigned ms = (unsigned)(ns / 1000000);

	return setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms)) ? -errno : 0;
}

int net_info(int fd, struct net_info *out)
{
	struct tcp_info t = { 0 };
	struct sockaddr_storage a;
	socklen_t len = sizeof(t), alen = sizeof(a), cclen = sizeof(out->congestion_control);
	unsigned headers;

	*out = (struct net_info){ 0 };
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &t, &len) ||
	    getsockname(fd, (struct sockaddr *)&a, &alen) ||
	    getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, out->congestion_control, &cclen))
		return -errno;
	headers = ETHERNET_HEADER + TCP_HEADER_TS + (a.ss_family == AF_INET6 ? IPV6_HEADER : IPV4_HEADER);
	out->wire_bytes = t.tcpi_bytes_sent + (uint64_t)t.tcpi_segs_out * headers + SYN_EXTRA;
	out->retrans_bytes = t.tcpi_bytes_retrans;
	out->rtt_us = t.tcpi_rtt;
	out->min_rtt_us = t.tcpi_min_rtt;
	return 0;
}

int net_unacked(int fd)
{
	int n = 0;

	return ioctl(fd, SIOCOUTQ, &n) ? 0 : n;
}
