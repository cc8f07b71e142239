#include "workloads/nccl/sockets.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static bool is_peer(int fd, int family, const void *want)
{
	struct sockaddr_storage a;
	socklen_t len = sizeof(a), type_len = sizeof(int);
	int type = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_len) || type != SOCK_STREAM ||
	    getpeername(fd, (struct sockaddr *)&a, &len))
		return false;
	if (a.ss_family == AF_INET && family == AF_INET)
		return !memcmp(&((struct sockaddr_in *)&a)->sin_addr, want, sizeof(struct in_addr));
	return a.ss_family == AF_INET6 && family == AF_INET6 &&
	       !memcmp(&((struct sockaddr_in6 *)&a)->sin6_addr, want, sizeof(struct in6_addr));
}

static uint32_t least(uint32_t a, uint32_t b, int n)
{
	return n && a < b ? a : b;
}

static void add(struct sockets_count *out, int fd)
{
	struct net_info t, *s = &out->sum;
	int unacked = net_unacked(fd);

	if (net_info(fd, &t))
		return;
	net_info_add(s, &t);
	s->rtt_us = least(s->rtt_us, t.rtt_us, out->n);
	s->min_rtt_us = least(s->min_rtt_us, t.min_rtt_us, out->n);
	memcpy(s->congestion_control, t.congestion_control, sizeof(s->congestion_control));
	out->unacked += unacked > 0 ? (uint64_t)unacked : 0;
	out->n++;
}

int sockets_count(const char *addr, struct sockets_count *out, struct bace_err *e)
{
	int family = strchr(addr, ':') ? AF_INET6 : AF_INET;
	struct in6_addr want;
	struct dirent *f;
	DIR *dir;

	*out = (struct sockets_count){ 0 };
	if (inet_pton(family, addr, &want) != 1)
		return bace_fail(e, EINVAL, "address `%s': not IPv4 or IPv6", addr);
	dir = opendir("/proc/self/fd");
	if (!dir)
		return bace_fail_errno(e, errno, "list this process's sockets");
	while ((f = readdir(dir))) {
		char *end;
		long fd = strtol(f->d_name, &end, 10);

		if (!*end && end != f->d_name && is_peer((int)fd, family, &want))
			add(out, (int)fd);
	}
	closedir(dir);
	return 0;
}
