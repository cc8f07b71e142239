/* The other end of probes: needs no privilege. One process a connection, so
 * that a slow one is nobody else's trouble; each has a deadline. */
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/shape/probe.h"

#define CHILDREN_MAX 256
#define PATIENCE_S 60
#define REQUEST_S 10
#define UDP_BPS_MAX 1e9

/* ---- one connection ---- */
static int send_counts(int fd, const struct probe_counts *c)
{
	int rc = probe_printf(fd, "counts %lld %d\n", (long long)c->first, c->n);

	for (int i = 0; i < c->n && !rc; i++)
		rc = probe_printf(fd, "%llu\n", (unsigned long long)c->v[i]);
	return rc;
}

static int tcp_sink(int fd, double seconds)
{
	struct probe_counts *c = calloc(1, sizeof(*c));
	ssize_t n;
	int rc;

	if (!c)
		return -ENOMEM;
	while ((n = recv(fd, NULL, PROBE_CHUNK, MSG_TRUNC)) > 0)
		probe_count(c, bace_mono_ns(), (uint64_t)n);
	rc = n < 0 ? -errno : send_counts(fd, c);
	free(c);
	return rc;
}

static int tcp_source(int fd, double seconds)
{
	static const char filler[PROBE_CHUNK];
	int64_t end = bace_mono_ns() + (int64_t)(seconds * 1e9);
	int rc = 0;

	probe_fill(fd);
	while (!rc && bace_mono_ns() < end)
		rc = probe_write(fd, filler, sizeof(filler));
	return rc;
}

/* On the address by which the client came, so that it takes the same link. */
static int udp_socket(int fd, int *out, uint16_t *port, struct sockaddr_storage *peer, socklen_t *peer_len)
{
	struct sockaddr_storage own;
	socklen_t len = sizeof(own);
	int room = 8 << 20;

	*peer_len = sizeof(*peer);
	if (getsockname(fd, (struct sockaddr *)&own, &len) || getpeername(fd, (struct sockaddr *)peer, peer_len))
		return -errno;
	*out = socket(own.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (*out < 0)
		return -errno;
	((struct sockaddr_in *)&own)->sin_port = 0;	/* both families have it there */
	setsockopt(*out, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	if (bind(*out, (struct sockaddr *)&own, len) || getsockname(*out, (struct sockaddr *)&own, &len))
		return -errno;
	*port = ntohs(((struct sockaddr_in *)&own)->sin_port);
	return 0;
}

static int udp_sink(int fd, double seconds)
{
	CLEANUP_CLOSE int udp = -1;
	struct sockaddr_storage peer;
	struct probe_udp_counts c;
	socklen_t peer_len;
	uint16_t port;
	int rc = udp_socket(fd, &udp, &port, &peer, &peer_len);

	if (!rc)
		rc = probe_printf(fd, "port %u\n", port);
	if (rc)
		return rc;
	probe_udp_receive(udp, bace_mono_ns() + (int64_t)((seconds + 5) * 1e9), PROBE_UDP_QUIET_MS, &c);
	return probe_printf(fd, "received %llu %llu\n", (unsigned long long)c.received, (unsigned long long)c.reordered);
}

static int udp_source(int fd, double bps, double seconds, unsigned client_port, int bytes)
{
	CLEANUP_CLOSE int udp = -1;
	struct sockaddr_storage peer;
	socklen_t peer_len;
	uint16_t port;
	int rc = udp_socket(fd, &udp, &port, &peer, &peer_len);

	if (rc)
		return rc;
	((struct sockaddr_in *)&peer)->sin_port = htons((uint16_t)client_port);
	if (connect(udp, (struct sockaddr *)&peer, peer_len))
		return -errno;
	return probe_printf(fd, "sent %llu\n", (unsigned long long)probe_udp_send(udp, bytes, bps, seconds));
}

static int serve(int fd)
{
	char line[PROBE_LINE], what[16];
	double a = 0, b = 0, seconds;
	unsigned version, port = 0;
	bool source;
	int n, rc, bytes = 0;

	probe_timeouts(fd, REQUEST_S);
	rc = probe_read_line(fd, line, sizeof(line));
	if (rc)
		return rc;
	n = sscanf(line, "bace-probe %u %15s %lf %lf %u %d", &version, what, &a, &b, &port, &bytes);
	if (n < 3 || version != PROBE_VERSION)
		return probe_printf(fd, "error this is a bace shape respond of version %d\n", PROBE_VERSION);
	source = !strcmp(what, "udp-source");
	seconds = source ? b : a;
	/* Anybody may ask: all else of a request is used only within these. */
	if (n != (source ? 6 : 3) || !(seconds > 0 && seconds <= PROBE_SECONDS_MAX))
		return probe_printf(fd, "error a request that makes no sense\n");
	probe_timeouts(fd, PATIENCE_S);
	alarm((unsigned)ceil(seconds) + 2 * PATIENCE_S);
	if (!strcmp(what, "tcp-sink"))
		return tcp_sink(fd, a);
	if (!strcmp(what, "tcp-source"))
		return tcp_source(fd, a);
	if (!strcmp(what, "udp-sink"))
		return udp_sink(fd, a);
	if (source && a > 0 && a <= UDP_BPS_MAX && port > 0 && port < 65536 && bytes >= (int)sizeof(uint64_t) &&
	    bytes <= PROBE_UDP_BYTES)
		return udp_source(fd, a, b, port, bytes);
	return probe_printf(fd, "error a request that makes no sense\n");
}

/* ---- the loop ---- */
struct responder {
	int tcp, udp, signals;
	int children;
	pid_t parent;
};

static int open_socket(int type, const struct sockaddr_storage *sa, socklen_t len, int *fd, struct bace_err *e)
{
	int one = 1, zero = 0;

	*fd = socket(sa->ss_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (*fd < 0)
		return bace_fail_errno(e, errno, "socket");
	setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (sa->ss_family == AF_INET6)
		setsockopt(*fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
	if (bind(*fd, (const struct sockaddr *)sa, len) || (type == SOCK_STREAM && listen(*fd, 64)))
		return bace_fail_errno(e, errno, "listen at port %u", ntohs(((const struct sockaddr_in *)sa)->sin_port));
	return 0;
}

/* Answers as many bytes as were asked with: nothing to amplify. */
static void echo(int fd)
{
	struct sockaddr_storage from;
	struct probe_echo m;

	for (int i = 0; i < 64; i++) {
		socklen_t len = sizeof(from);
		ssize_t n = recvfrom(fd, &m, sizeof(m), 0, (struct sockaddr *)&from, &len);

		if (n < 0)
			return;
		if (n == sizeof(m) && m.magic == PROBE_ECHO_MAGIC &&
		    sendto(fd, &m, sizeof(m), MSG_NOSIGNAL, (struct sockaddr *)&from, len) < 0)
			return;
	}
}

static void take_client(struct responder *r)
{
	int fd = accept4(r->tcp, NULL, NULL, SOCK_CLOEXEC);
	pid_t pid;

	if (fd < 0)
		return;
	pid = r->children < CHILDREN_MAX ? fork() : -1;
	if (!pid) {
		sigset_t none;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != r->parent)
			_exit(1);
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		_exit(serve(fd) ? 1 : 0);
	}
	r->children += pid > 0;
	close(fd);
}

static bool take_signal(struct responder *r)
{
	struct signalfd_siginfo s;

	if (read(r->signals, &s, sizeof(s)) != sizeof(s) || s.ssi_signo != SIGCHLD)
		return false;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		r->children--;
	return true;
}

static int open_all(struct responder *r, const char *addr, int port, struct bace_err *e)
{
	static const int wanted[] = { SIGINT, SIGTERM, SIGHUP, SIGCHLD };
	struct sockaddr_storage sa;
	socklen_t len;
	sigset_t set;
	int rc;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
		sigaddset(&set, wanted[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	r->signals = signalfd(-1, &set, SFD_CLOEXEC);
	rc = probe_address(addr ? addr : "::", port, &sa, &len, e);
	if (!rc)
		rc = open_socket(SOCK_STREAM, &sa, len, &r->tcp, e);
	/* A kernel without IPv6. */
	if (rc == -EAFNOSUPPORT && !addr) {
		rc = probe_address("0.0.0.0", port, &sa, &len, e);
		if (!rc)
			rc = open_socket(SOCK_STREAM, &sa, len, &r->tcp, e);
	}
	return rc ? rc : open_socket(SOCK_DGRAM, &sa, len, &r->udp, e);
}

int shape_respond(const char *addr, int port, bool quiet, struct bace_err *e)
{
	struct responder r = { .tcp = -1, .udp = -1, .signals = -1, .parent = getpid() };
	bool go_on = true;
	int rc = open_all(&r, addr, port, e);

	if (!rc && !quiet)
		bace_log(BACE_INFO, "shape", "answering probes at %s port %d", addr ? addr : "every address", port);
	while (!rc && go_on) {
		struct pollfd p[] = { { .fd = r.signals, .events = POLLIN }, { .fd = r.tcp, .events = POLLIN },
				      { .fd = r.udp, .events = POLLIN } };

		if (poll(p, ARRAY_LEN(p), -1) < 0 && errno != EINTR)
			rc = bace_fail_errno(e, errno, "wait");
		if (p[2].revents)
			echo(r.udp);
		if (p[1].revents)
			take_client(&r);
		if (p[0].revents)
			go_on = take_signal(&r);
	}
	bace_cleanup_close(&r.tcp);
	bace_cleanup_close(&r.udp);
	bace_cleanup_close(&r.signals);
	return rc;
}
