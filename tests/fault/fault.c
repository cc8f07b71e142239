/*
 * Loaded before a program (LD_PRELOAD), makes one of its calls fail.
 *
 *   BACE_FAULT=alloc:N		the Nth allocation after the libraries' constructors
 *   BACE_FAULT=netlink:N:ERRNO	the Nth message sent to or received from netlink
 *   BACE_FAULT_IN=NAME		only in processes of this name (/proc/self/comm)
 *   BACE_FAULT_SPARES=NAME	not what a library of that name asks for, then the next
 *   BACE_FAULT_SAID=FILE	a line is added when it came to that
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/netlink.h>

static atomic_long left;		/* calls until the one that fails */
static bool of_allocations, of_netlink;	/* which calls are counted */
static int netlink_errno;

static bool is_named(const char *name)
{
	char comm[32] = "";
	int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, comm, sizeof(comm) - 1);

	size_t len = strcspn(comm, "\n");

	close(fd);
	/* The kernel keeps the first fifteen. */
	return n > 0 && !strncmp(comm, name, len) && (len == 15 || len == strlen(name));
}

__attribute__((constructor)) static void begin(void)
{
	const char *what = getenv("BACE_FAULT"), *in = getenv("BACE_FAULT_IN");
	char *end;

	if (!what || (in && !is_named(in)))
		return;
	if (!strncmp(what, "alloc:", 6)) {
		left = strtol(what + 6, NULL, 10);
		of_allocations = true;
	} else if (!strncmp(what, "netlink:", 8)) {
		left = strtol(what + 8, &end, 10);
		netlink_errno = *end ? atoi(end + 1) : EIO;
		of_netlink = true;
	}
}

/* Is this the one? */
static bool fails(void)
{
	const char *path;
	int fd;

	if (atomic_fetch_sub(&left, 1) != 1)
		return false;
	path = getenv("BACE_FAULT_SAID");
	fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
	if (fd >= 0 && write(fd, "reached\n", 8) < 0)
		abort();
	close(fd);
	return true;
}

static bool is_spared(const void *caller)
{
	const char *name = getenv("BACE_FAULT_SPARES");
	Dl_info i;

	return name && dladdr(caller, &i) && i.dli_fname && strstr(i.dli_fname, name);
}

static bool no_room(const void *caller)
{
	if (!of_allocations || is_spared(caller) || !fails())
		return false;
	errno = ENOMEM;
	return true;
}

/* ---- allocations ---- */
/* The C library's own, which need no dlsym that would allocate. */
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
void *malloc(size_t n);
void *calloc(size_t n, size_t size);
void *realloc(void *p, size_t n);
void *aligned_alloc(size_t alignment, size_t n);
int posix_memalign(void **p, size_t alignment, size_t n);
char *strdup(const char *s);
char *__strdup(const char *s);		/* as libraries that were built for an older one call it */

void *malloc(size_t n)
{
	return no_room(__builtin_return_address(0)) ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	return no_room(__builtin_return_address(0)) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
	return no_room(__builtin_return_address(0)) ? NULL : __libc_realloc(p, n);
}

void *aligned_alloc(size_t alignment, size_t n)
{
	return no_room(__builtin_return_address(0)) ? NULL : __libc_memalign(alignment, n);
}

int posix_memalign(void **p, size_t alignment, size_t n)
{
	if (no_room(__builtin_return_address(0)))
		return ENOMEM;
	*p = __libc_memalign(alignment, n);
	return *p ? 0 : ENOMEM;
}

/* The C library's would ask in its own name. */
static char *duplicate(const char *s, const void *caller)
{
	size_t n = strlen(s) + 1;
	char *to = no_room(caller) ? NULL : __libc_malloc(n);

	return to ? memcpy(to, s, n) : NULL;
}

char *strdup(const char *s)
{
	return duplicate(s, __builtin_return_address(0));
}

char *__strdup(const char *s)
{
	return duplicate(s, __builtin_return_address(0));
}

/* ---- netlink ---- */
static bool netlink_fails(int fd)
{
	int domain = 0;
	socklen_t n = sizeof(domain);

	if (!of_netlink || getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) || domain != AF_NETLINK || !fails())
		return false;
	errno = netlink_errno;
	return true;
}

ssize_t sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *to, socklen_t to_len)
{
	ssize_t (*real)(int, const void *, size_t, int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "sendto");

	return netlink_fails(fd) ? -1 : real(fd, buf, len, flags, to, to_len);
}

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	ssize_t (*real)(int, struct msghdr *, int) = dlsym(RTLD_NEXT, "recvmsg");

	return netlink_fails(fd) ? -1 : real(fd, msg, flags);
}

ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	ssize_t (*real)(int, void *, size_t, int) = dlsym(RTLD_NEXT, "recv");

	return netlink_fails(fd) ? -1 : real(fd, buf, len, flags);
}
