#include "tests/netns/shaper/support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum delay_kind backend;
static char shaperd_path[512];
static pid_t running;

/* ---- sandbox ---- */
static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		fprintf(stderr, "write %s: %s\n", path, strerror(errno));
	close(fd);
}

static bool enter_namespaces(void)
{
	const int flags = CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID;
	uid_t uid = geteuid();
	gid_t gid = getegid();
	char map[64];

	if (!uid && !unshare(flags))
		return true;
	if (unshare(flags | CLONE_NEWUSER))
		return false;
	write_file("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1", uid);
	write_file("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "0 %u 1", gid);
	write_file("/proc/self/gid_map", map);
	return true;
}

static bool mount_private(void)
{
	return !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
	       !mount("tmpfs", "/run", "tmpfs", 0, NULL) && !mkdir("/run/netns", 0755) &&
	       !mkdir("/run/tmp", 01777) && !setenv("TMPDIR", "/run/tmp", 1) &&
	       !mount("proc", "/proc", "proc", 0, NULL);
}

static int refuse(const char *why)
{
	if (getenv("BACE_IN_UML")) {
		printf("User-Mode Linux could run this, but: %s\n", why);
		return 1;
	}
	printf("skipped: %s\n", why);
	return 77;
}

static int inside(int (*body)(void))
{
	const char *why;
	enum delay_kind best;

	if (!mount_private())
		return refuse("a private /run and /proc are refused");
	setenv("XTABLES_LOCKFILE", "/run/xtables.lock", 1);
	setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
	best = shape_probe_delay(&why);
	if (best == DELAY_NONE || (backend == DELAY_NETEM && best != DELAY_NETEM))
		return refuse(why);
	return body();
}

int sandbox_main(int argc, char **argv, int (*body)(void))
{
	const char *exe = getenv("BACE_SHAPERD");
	int status;
	pid_t pid;

	setvbuf(stdout, NULL, _IOLBF, 0);
	backend = argc > 1 && !strcmp(argv[1], "netem") ? DELAY_NETEM : DELAY_NFQUEUE;
	snprintf(shaperd_path, sizeof(shaperd_path), "%s", exe ? exe : "bace-shaperd");
	if (!enter_namespaces())
		return refuse("network namespaces are refused here");
	pid = fork();
	if (!pid) {
		/* PID 1 of the sandbox: when it goes, all goes. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		exit(inside(body));
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	/* Whose children would be of a namespace that has ended: a leak checker at exit has a
	 * child, and this process nothing to be checked. */
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

/* ---- commands ---- */
static char *format(const char *fmt, va_list ap)
{
	char *s;

	assert_true(vasprintf(&s, fmt, ap) >= 0);
	return s;
}

int sh_status(const char *fmt, ...)
{
	va_list ap;
	char *cmd;
	int rc;

	va_start(ap, fmt);
	cmd = format(fmt, ap);
	va_end(ap);
	rc = system(cmd);
	free(cmd);
	return WIFEXITED(rc) ? WEXITSTATUS(rc) : 128;
}

void sh(const char *fmt, ...)
{
	va_list ap;
	char *cmd;

	va_start(ap, fmt);
	cmd = format(fmt, ap);
	va_end(ap);
	if (system(cmd))
		fail_msg("failed: %s", cmd);
	free(cmd);
}

char *sh_output(const char *fmt, ...)
{
	struct bace_buf b = { 0 };
	va_list ap;
	char *cmd, buf[4096];
	size_t n;
	FILE *f;

	va_start(ap, fmt);
	cmd = format(fmt, ap);
	va_end(ap);
	f = popen(cmd, "r");
	assert_non_null(f);
	while ((n = fread(buf, 1, sizeof(buf), f)) > 0)
		bace_buf_add(&b, buf, n);
	bace_buf_add(&b, "", 0);
	pclose(f);
	free(cmd);
	return b.p ? b.p : strdup("");
}

/* ---- network ---- */
void network_up(void)
{
	sh("set -e; for n in a g b; do ip netns add $n; ip -n $n link set lo up; done\n"
	   "ip link add wan0 netns g type veth peer name eth0 netns a\n"
	   "ip link add lan0 netns g type veth peer name eth0 netns b\n"
	   "ip -n g addr add 10.17.0.1/16 dev wan0; ip -n g addr add 10.16.0.1/16 dev lan0\n"
	   "ip -n a addr add " ADDR_A "/16 dev eth0; ip -n b addr add " ADDR_B "/16 dev eth0\n"
	   "ip -n g addr add fd00:11::1/32 dev wan0 nodad; ip -n g addr add fd00:10::1/32 dev lan0 nodad\n"
	   "ip -n a addr add " ADDR6_A "/32 dev eth0 nodad; ip -n b addr add " ADDR6_B "/32 dev eth0 nodad\n"
	   "for x in g:wan0 g:lan0 a:eth0 b:eth0; do ip -n ${x%%%%:*} link set ${x##*:} up; done\n"
	   "ip -n a route add default via 10.17.0.1; ip -n b route add default via 10.16.0.1\n"
	   "ip -n a route add default via fd00:11::1; ip -n b route add default via fd00:10::1\n"
	   "ip netns exec g sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1\n"
	   "ip netns exec b ping -qc1 -w5 " ADDR_A " >/dev/null; ip netns exec b ping -qc1 -w5 " ADDR6_A " >/dev/null");
}

void network_down(void)
{
	sh("for n in a g b; do ip netns del $n; done");
}

/* ---- shaperd ---- */
pid_t shaperd_start_by(const char *wrapper, const char *options)
{
	char cmd[1024];
	pid_t pid = fork();

	snprintf(cmd, sizeof(cmd), "exec %s %s --socket " SOCKET " -q %s", wrapper, shaperd_path, options);
	if (!pid) {
		execl("/bin/sh", "sh", "-c", cmd, (char *)NULL);
		_exit(127);
	}
	for (int i = 0; i < 500 && access(SOCKET, F_OK); i++) {
		usleep(20000);
		if (waitpid(pid, NULL, WNOHANG))
			fail_msg("it did not start: %s", cmd);
	}
	assert_int_equal(access(SOCKET, F_OK), 0);
	running = pid;
	return pid;
}

pid_t shaperd_start(const char *ns, const char *options)
{
	char wrapper[64];

	snprintf(wrapper, sizeof(wrapper), "ip netns exec %s", ns);
	return shaperd_start_by(wrapper, options);
}

void shaperd_stop(pid_t pid, int signal)
{
	int status;

	kill(pid, signal);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (signal == SIGTERM)
		assert_int_equal(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
	unlink(SOCKET);
	running = 0;
}

struct shaperd_client *connected(void)
{
	struct shaperd_client *c;
	struct bace_err e;

	for (int i = 0; shaperd_connect(SOCKET, &c, &e); i++) {
		if (i == 100 || (e.errnum != ECONNREFUSED && e.errnum != EBUSY))
			fail_msg("%s", e.msg);
		usleep(20000);
	}
	return c;
}

void planned(struct shaperd_client *c, const struct shape_spec *s)
{
	struct bace_err e;

	if (shaperd_plan(c, s, &e))
		fail_msg("%s", e.msg);
}

int after_each(void **state)
{
	if (running) {
		kill(running, SIGKILL);
		waitpid(running, NULL, 0);
		running = 0;
		unlink(SOCKET);
		sh_status("ip netns exec g %s --clear -q", shaperd_path);
	}
	sh_status("ip netns exec g sh -c 'for d in wan0 lan0; do tc qdisc del dev $d root; done' 2>/dev/null; rm -rf /run/state");
	return 0;
}

struct shape_spec spec_to_a(struct shape_link *l, uint64_t rate_bps, int64_t latency_ns)
{
	*l = (struct shape_link){
		.name = "a", .region = 1, .n_prefixes = 2,
		.prefixes = { { .family = AF_INET, .len = 16, .addr = { 10, 17 } },
			      { .family = AF_INET6, .len = 32, .addr = { 0xfd, 0, 0, 0x11 } } },
		.rate_bps = rate_bps, .reverse_rate_bps = rate_bps, .latency_ns = latency_ns, .rtt_ns = latency_ns };
	return (struct shape_spec){ .egress = "wan0", .ingress = "lan0", .delay = backend, .mtu = 1500,
				    .fail_closed = true, .n_links = 1, .links = l };
}

/* ---- measurements ---- */
struct rtt ping(const char *from, const char *to, int count, int interval_ms)
{
	CLEANUP_FREE char *out = sh_output("ip netns exec %s ping -n -c %d -i %g -w %d %s", from, count,
					   interval_ms / 1000.0, 10 + count * interval_ms / 500, to);
	const char *sent = strstr(out, " packets transmitted");
	CLEANUP_FREE double *v = calloc((size_t)count + 1, sizeof(*v));
	struct rtt r = { .sent = count };

	/* With -w, one more for every answer that is late. */
	for (const char *p = sent; p && p > out && p[-1] >= '0' && p[-1] <= '9';)
		r.sent = atoi(--p);
	for (const char *p = out; (p = strstr(p, "time=")) && r.received < count; p += 5)
		v[r.received++] = strtod(p + 5, NULL);
	if (r.received) {
		qsort(v, (size_t)r.received, sizeof(*v), bace_by_double);
		r.min_ms = v[0];
		r.median_ms = v[r.received / 2];
	}
	return r;
}

void await_listener(const char *ns, int port)
{
	sh("for i in $(seq 500); do ip netns exec %s ss -Hltn 'sport = :%d' | grep -q . && exit; sleep 0.02; done; exit 1", ns, port);
}

double iperf3_tcp(const char *from_ns, const char *to_ns, const char *addr, int seconds, const char *options)
{
	char *out;
	json_t *root;
	double bps = 0;

	sh("ip netns exec %s iperf3 -s -1 -D -I /run/iperf3.pid >/dev/null", to_ns);
	await_listener(to_ns, 5201);
	out = sh_output("ip netns exec %s iperf3 -J -c %s -t %d %s", from_ns, addr, seconds, options);
	root = json_loads(out, 0, NULL);
	if (!root)
		fail_msg("iperf3 said: %s", out);
	bps = json_number_value(json_object_get(
		json_object_get(json_object_get(root, "end"), "sum_received"), "bits_per_second"));
	json_decref(root);
	free(out);
	return bps;
}

double iperf3_received(const char *from_ns, const char *to_ns, const char *addr, int seconds, const char *options)
{
	CLEANUP_FREE char *out = NULL;
	double bytes = 0, took = 0;
	json_t *root, *interval;
	size_t k;

	sh("ip netns exec %s iperf3 -s -1 -D -J -i 0.5 >/dev/null", to_ns);
	await_listener(to_ns, 5201);
	out = sh_output("ip netns exec %s iperf3 -J --get-server-output -c %s -t %d %s", from_ns, addr, seconds, options);
	root = json_loads(out, 0, NULL);
	if (!root)
		fail_msg("iperf3 said: %s", out);
	json_array_foreach(json_object_get(json_object_get(root, "server_output_json"), "intervals"), k, interval) {
		const json_t *sum = json_object_get(interval, "sum");

		if (json_number_value(json_object_get(sum, "start")) < 0.9 || json_number_value(json_object_get(sum, "end")) > seconds)
			continue;
		bytes += json_number_value(json_object_get(sum, "bytes"));
		took += json_number_value(json_object_get(sum, "seconds"));
	}
	json_decref(root);
	return took > 0 ? bytes * 8 / took : 0;
}

/* ---- UDP with sequence numbers ---- */
static void enter(const char *ns)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "/run/netns/%s", ns);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		_exit(1);
	close(fd);
}

#define UDP_PAYLOAD 1000
#define UDP_PORT 7777

static void udp_receive(const char *ns, int ready, int result)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(UDP_PORT) };
	struct udp_result r = { 0 };
	struct timeval quiet = { .tv_sec = 3 };		/* of a sender that gets no CPU, too */
	int64_t first = 0, last = 0;
	uint64_t next = 0, seq;
	char buf[2048];
	ssize_t n;

	enter(ns);
	int fd = socket(AF_INET, SOCK_DGRAM, 0), room = 16 << 20;

	/* A burst must not be lost here, on one slow CPU. */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)))
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) || write(ready, "r", 1) != 1)
		_exit(1);
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0) {
		if (!r.received++)
			setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &quiet, sizeof(quiet));
		last = bace_mono_ns();
		first = first ? first : last;
		memcpy(&seq, buf, sizeof(seq));
		r.reordered += seq < next;
		next = seq >= next ? seq + 1 : next;
	}
	if (last > first)
		r.bps = (double)(r.received - 1) * UDP_PAYLOAD * 8e9 / (double)(last - first);
	_exit(write(result, &r, sizeof(r)) != sizeof(r));
}

static void udp_send(const char *ns, const char *addr, double bps, double seconds, int result)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(UDP_PORT) };
	int64_t start, begin, gap_ns = (int64_t)(UDP_PAYLOAD * 8e9 / bps), planned_ns = (int64_t)(seconds * 1e9);
	/* A message of milliseconds is sent whole, also by a process that has to wait. */
	int64_t patience_ns = planned_ns > 500000000 ? planned_ns : 500000000;
	char buf[UDP_PAYLOAD] = { 0 };
	uint64_t seq = 0;

	enter(ns);
	inet_pton(AF_INET, addr, &sa.sin_addr);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	prctl(PR_SET_TIMERSLACK, 1UL);
	for (start = begin = bace_mono_ns(); (int64_t)seq * gap_ns < planned_ns && bace_mono_ns() - begin < patience_ns; seq++) {
		int64_t wait = start + (int64_t)seq * gap_ns - bace_mono_ns();

		if (wait > 0)
			nanosleep(&(struct timespec){ .tv_nsec = wait }, NULL);
		/* Held up: no burst that makes up for it, and that a link's buffer would not take. */
		if (wait < -10000000)
			start -= wait;
		memcpy(buf, &seq, sizeof(seq));
		if (sendto(fd, buf, sizeof(buf), 0, (struct sockaddr *)&sa, sizeof(sa)) < 0)
			seq--;
	}
	_exit(write(result, &seq, sizeof(seq)) != sizeof(seq));
}

struct udp_result udp_stream(const char *from_ns, const char *to_ns, const char *addr, double bps, double seconds,
			     void (*meanwhile)(void *), void *arg)
{
	int ready[2], received[2], sent[2];
	struct udp_result r = { 0 };
	pid_t receiver, sender;
	char c;

	assert_false(pipe2(ready, O_CLOEXEC) || pipe2(received, O_CLOEXEC) || pipe2(sent, O_CLOEXEC));
	receiver = fork();
	if (!receiver)
		udp_receive(to_ns, ready[1], received[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	sender = fork();
	if (!sender)
		udp_send(from_ns, addr, bps, seconds, sent[1]);
	if (meanwhile)
		meanwhile(arg);
	waitpid(sender, NULL, 0);
	waitpid(receiver, NULL, 0);
	assert_int_equal(read(received[0], &r, sizeof(r)), sizeof(r));
	assert_int_equal(read(sent[0], &r.sent, sizeof(r.sent)), sizeof(r.sent));
	for (int i = 0; i < 2; i++) {
		close(ready[i]);
		close(received[i]);
		close(sent[i]);
	}
	return r;
}

char *tc_state(void)
{
	return sh_output("ip netns exec g sh -c 'tc qdisc show; tc class show dev wan0 | sort; tc filter show dev wan0; "
			 "tc class show dev lan0 | sort; tc filter show dev lan0; iptables-legacy-save -t mangle; "
			 "ip6tables-legacy-save -t mangle' | grep -v -e '^#' -e '^:' | "
			 /* The kernel numbers u32's root tables as it likes. */
			 "sed 's/fh 8[0-9a-f]*:/fh R:/; s/ht 8[0-9a-f]*/ht R/; s/refcnt [0-9]*//'");
}

/* cmocka cuts long strings; diff shows the line. */
void assert_same_state(const char *a, const char *b)
{
	FILE *fa, *fb;

	if (!strcmp(a, b))
		return;
	fa = fopen("/run/before", "w");
	fb = fopen("/run/after", "w");
	fputs(a, fa);
	fputs(b, fb);
	fclose(fa);
	fclose(fb);
	sh_status("diff /run/before /run/after");
	fail_msg("the states differ");
}

int with_network(void **state)
{
	network_up();
	return 0;
}

int without_network(void **state)
{
	network_down();
	return 0;
}
