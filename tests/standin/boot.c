#include "tests/standin/comm.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>

#define POLL_MS 20

void boot_log(const char *kind, const char *fmt, ...)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static FILE *to;
	const char *level = getenv("NCCL_DEBUG"), *path = getenv("NCCL_DEBUG_FILE");
	va_list ap;

	if (!level || !path)
		return;
	pthread_mutex_lock(&lock);
	if (!to)
		to = fopen(path, "we");
	if (to) {
		fprintf(to, "standin:%d:%d [0] NCCL %s ", (int)getpid(), (int)getpid(), kind);
		va_start(ap, fmt);
		vfprintf(to, fmt, ap);
		va_end(ap);
		fputc('\n', to);
		fflush(to);
	}
	pthread_mutex_unlock(&lock);
}

/* ---- sockets ---- */

static socklen_t length(const struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

/* The address of the interface that NCCL_SOCKET_IFNAME names ("=eth0"). */
static int own_address(struct sockaddr_storage *out)
{
	const char *name = getenv("NCCL_SOCKET_IFNAME"), *wanted = getenv("NCCL_SOCKET_FAMILY");
	int family = wanted && !strcmp(wanted, "AF_INET6") ? AF_INET6 : AF_INET;
	struct ifaddrs *all;
	char text[INET6_ADDRSTRLEN] = "";
	bool found = false;

	if (!name || name[0] != '=' || getifaddrs(&all))
		return -1;
	for (struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
		if (strcmp(i->ifa_name, name + 1) || !i->ifa_addr || i->ifa_addr->sa_family != family)
			continue;
		memset(out, 0, sizeof(*out));
		memcpy(out, i->ifa_addr, family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
		found = true;
	}
	freeifaddrs(all);
	if (!found)
		return -1;
	inet_ntop(family, family == AF_INET6 ? (void *)&((struct sockaddr_in6 *)out)->sin6_addr :
		  (void *)&((struct sockaddr_in *)out)->sin_addr, text, sizeof(text));
	boot_log("INFO", "NET/Socket : Using [0]%s:%s<0>", name + 1, text);
	return 0;
}

int boot_listen(int *fd, struct sockaddr_storage *addr)
{
	socklen_t len;

	if (own_address(addr))
		return -1;
	len = length(addr);
	*fd = socket(addr->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (*fd >= 0 && !bind(*fd, (struct sockaddr *)addr, len) && !listen(*fd, RANKS_MAX) &&
	    !getsockname(*fd, (struct sockaddr *)addr, &len))
		return 0;
	return -1;
}

/* Tries until it is accepted or the communicator is aborted. */
int boot_dial(struct ncclComm *comm, const struct sockaddr_storage *addr)
{
	while (!comm->aborted) {
		int fd = socket(addr->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), err = 0;
		struct pollfd p = { .fd = fd, .events = POLLOUT };
		socklen_t len = sizeof(err);

		if (fd < 0)
			return -1;
		if (connect(fd, (const struct sockaddr *)addr, length(addr)) && errno != EINPROGRESS)
			err = errno;
		while (!err && !comm->aborted && poll(&p, 1, POLL_MS) == 0)
			;
		if (!err && !comm->aborted)
			getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len);
		if (!err && !comm->aborted)
			return fd;
		close(fd);
		usleep(POLL_MS * 1000);
	}
	return -1;
}

int boot_transfer(struct ncclComm *comm, int fd, bool send_it, void *data, size_t n)
{
	struct pollfd p = { .fd = fd, .events = send_it ? POLLOUT : POLLIN };
	char *at = data;

	while (n) {
		ssize_t got;

		if (poll(&p, 1, POLL_MS) < 0 && errno != EINTR)
			return -1;
		if (comm && comm->aborted)
			return -1;
		got = send_it ? send(fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(fd, at, n, MSG_DONTWAIT);
		if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
			return -1;
		if (got > 0) {
			at += got;
			n -= (size_t)got;
		}
	}
	return 0;
}

/* ---- the root: rank 0's process tells each rank about all ---- */

static void *run_root(void *arg)
{
	int listener = *(int *)arg, fds[RANKS_MAX], n = 0, want = RANKS_MAX;
	struct member all[RANKS_MAX] = { 0 };

	free(arg);
	while (n < want) {
		struct member m;
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0)
			break;
		if (boot_transfer(NULL, fd, false, &m, sizeof(m)) || m.n < 1 || m.n > RANKS_MAX || m.rank < 0 ||
		    m.rank >= m.n) {
			close(fd);
			continue;
		}
		want = m.n;
		all[m.rank] = m;
		fds[n++] = fd;
	}
	for (int i = 0; i < n; i++) {
		boot_transfer(NULL, fds[i], true, all, sizeof(all[0]) * (size_t)want);
		close(fds[i]);
	}
	close(listener);
	return NULL;
}

ncclResult_t boot_root(ncclUniqueId *id)
{
	struct sockaddr_storage addr;
	int *fd = malloc(sizeof(*fd));
	pthread_t thread;

	memset(id, 0, sizeof(*id));
	if (!fd || boot_listen(fd, &addr)) {
		free(fd);
		boot_log("WARN", "Bootstrap : no socket interface found");
		return ncclSystemError;
	}
	_Static_assert(sizeof(addr) <= sizeof(id->internal), "an address fits");
	memcpy(id->internal, &addr, sizeof(addr));
	if (pthread_create(&thread, NULL, run_root, fd)) {
		free(fd);
		return ncclSystemError;
	}
	pthread_detach(thread);
	return ncclSuccess;
}

static ncclResult_t check_members(const struct ncclComm *c)
{
	const struct member *a = c->members;

	for (int i = 0; i < c->n; i++) {
		if (a[i].rank != i || a[i].n != c->n)
			return ncclInvalidUsage;
		for (int k = 0; k < i; k++) {
			if (a[k].device != a[i].device || strcmp(a[k].host, a[i].host))
				continue;
			boot_log("WARN", "Duplicate GPU detected : rank %d and rank %d both on CUDA device %x", k, i,
				 (unsigned)a[i].device);
			return ncclInvalidUsage;
		}
	}
	return ncclSuccess;
}

ncclResult_t boot_join(struct ncclComm *comm)
{
	struct member me = { .rank = comm->rank, .n = comm->n };
	const char *host = getenv("NCCL_HOSTID");
	struct sockaddr_storage root;
	int fd, bad;

	snprintf(me.host, sizeof(me.host), "%s", host ? host : "here");
	if (boot_listen(&comm->listener, &me.addr))
		return ncclSystemError;
	boot_log("INFO", "Using network %s", standin_option("network", "Socket"));
	memcpy(&root, comm->id.internal, sizeof(root));
	fd = boot_dial(comm, &root);
	if (fd < 0)
		return ncclSystemError;
	bad = boot_transfer(comm, fd, true, &me, sizeof(me)) ||
	      boot_transfer(comm, fd, false, comm->members, sizeof(me) * (size_t)comm->n);
	close(fd);
	return bad ? ncclRemoteError : check_members(comm);
}
