/* What agents and the controller use: on loopback, with true agents, in a network
 * namespace of its own (root) that has an interface with 200 classes. Prints a
 * table; asserts nothing. usage: bench-agent BACE-AGENT BACE-WORKER [AGENTS [PART]],
 * PART: idle, sampling, start, many */
#include <math.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/wire/wire.h"
#include "harness/control/control.h"
#include "tests/bench/table.h"

#define AGENTS_MAX 256
#define CLASSES 200

static const char *agent_path;
static char worker_dir[4096];

struct bed {
	char dir[64], key_path[96];
	uint8_t key[WIRE_KEY_BYTES];
	struct tb_topology topo;
	struct controller *c;
	pid_t pids[AGENTS_MAX];
};

static bool has_classes;

/* Idle ones, as most of a gateway's are. */
static void make_classes(int n)
{
	FILE *tc;

	if (unshare(CLONE_NEWNET) || system("ip link set lo up && ip link add d0 type veth peer name d1 && "
					    "ip link set d0 up && tc qdisc add dev d0 root handle bace: htb"))
		return;
	tc = popen("tc -batch -", "w");
	for (int i = 0; tc && i < n; i++)
		fprintf(tc, "class add dev d0 parent bace: classid bace:%x htb rate 100mbit quantum 2000\n", 0x10 + i);
	has_classes = tc && !pclose(tc);
}

static void die(const char *what, const struct bace_err *e)
{
	fprintf(stderr, "bench-agent: %s: %s\n", what, e->msg);
	exit(1);
}

static void start_agent(const struct bed *b, int i, pid_t *pid)
{
	char to[32];

	snprintf(to, sizeof(to), "127.0.0.1:%u", controller_port(b->c));
	*pid = fork();
	if (*pid)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execl(agent_path, agent_path, "--controller", to, "--key", b->key_path, "--name", b->topo.hosts[i].name,
	      "--worker-dir", worker_dir, "-q", (char *)NULL);
	_exit(127);
}

static void open_bed(struct bed *b, int n)
{
	struct bace_err e = { 0 };

	*b = (struct bed){ .dir = "/tmp/bace-bench-agent-XXXXXX" };
	if (!mkdtemp(b->dir))
		exit(1);
	snprintf(b->key_path, sizeof(b->key_path), "%s/key", b->dir);
	if (wire_key_generate(b->key_path, &e) || wire_key_load(b->key_path, b->key, &e))
		die("key", &e);
	b->topo = (struct tb_topology){ .n_regions = n, .n_hosts = n,
		.region_names = calloc((size_t)n, sizeof(*b->topo.region_names)),
		.hosts = calloc((size_t)n, sizeof(*b->topo.hosts)) };
	for (int i = 0; i < n; i++) {
		snprintf(b->topo.region_names[i], NAME_LEN, "r%d", i);
		snprintf(b->topo.hosts[i].name, NAME_LEN, "h%d", i);
		snprintf(b->topo.hosts[i].addr, sizeof(b->topo.hosts[i].addr), "127.0.%d.%d", 1 + i / 200, 1 + i % 200);
		b->topo.hosts[i].region = i;
		if (!has_classes)
			continue;
		/* Nothing is planned: to be read only. */
		snprintf(b->topo.hosts[i].shape.egress, IFNAMSIZ, "d0");
		b->topo.hosts[i].shape.links = calloc(1, sizeof(struct shape_link));
		b->topo.hosts[i].shape.n_links = 1;
	}
	if (controller_open(&(struct controller_config){ .listen_addr = "127.0.0.1", .master_key = b->key,
		.topo = &b->topo, .heartbeat_dead_s = 60 }, &b->c, &e))
		die("controller", &e);
	for (int i = 0; i < n; i++)
		start_agent(b, i, &b->pids[i]);
	if (controller_wait_hosts(b->c, 120, &e))
		die("agents", &e);
	sleep(1);			/* clock exchanges of the beginning */
}

static void close_bed(struct bed *b)
{
	controller_close(b->c);
	for (int i = 0; i < b->topo.n_hosts; i++)
		kill(b->pids[i], SIGTERM);
	for (int i = 0; i < b->topo.n_hosts; i++)
		waitpid(b->pids[i], NULL, 0);
	unlink(b->key_path);
	rmdir(b->dir);
	for (int i = 0; i < b->topo.n_hosts; i++)
		free(b->topo.hosts[i].shape.links);
	free(b->topo.hosts);
	free(b->topo.region_names);
}

/* CPU seconds of a process, from its nanosecond clock. */
static double cpu_of(pid_t pid)
{
	struct timespec ts;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &ts))
		return NAN;
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double rss_mib(pid_t pid)
{
	char path[64];
	unsigned long pages = 0, skip;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	f = fopen(path, "r");
	if (f && fscanf(f, "%lu %lu", &skip, &pages) != 2)
		pages = 0;
	if (f)
		fclose(f);
	return (double)pages * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

static void line(const char *what, double value, const char *unit, double most)
{
	table_row(what, unit, figure_one(value), (struct figure){ 0 },
		  most > 0 ? (struct asked){ ASKED_MOST, most } : (struct asked){ 0 });
}

static void bench_idle(void)
{
	struct bed b;
	double cpu, t;

	open_bed(&b, 1);
	cpu = cpu_of(b.pids[0]);
	t = (double)bace_mono_ns() / 1e9;
	sleep(20);
	line("agent idle: CPU", 100 * (cpu_of(b.pids[0]) - cpu) / ((double)bace_mono_ns() / 1e9 - t), "% core", 0.1);
	line("agent idle: resident", rss_mib(b.pids[0]), "MiB", 8);
	close_bed(&b);
}

/* ranks of one host and its peer: a job of n stages in turn on two hosts has a
 * socket for each hop at each of them. */
static void pipeline(struct tb_cell *c, int stages, int hosts, int micro_batches, int64_t fwd_ns, uint64_t bytes)
{
	struct tb_job *j = calloc(1, sizeof(*j));

	*c = (struct tb_cell){ .n_jobs = 1, .jobs = j, .warmup_steps = 1, .steps = 3, .timeout_s = 120 };
	snprintf(j->name, sizeof(j->name), "bench");
	j->schedule = SCHED_1F1B;
	j->chunks = 1;
	j->micro_batches = micro_batches;
	j->overlap = true;
	j->n_stages = stages;
	j->stages = calloc((size_t)stages, sizeof(*j->stages));
	j->hops = calloc((size_t)stages, sizeof(*j->hops));
	for (int i = 0; i < stages; i++) {
		j->stages[i] = (struct tb_stage){ .host = i % hosts, .region = i % hosts, .worker = i % hosts,
						  .fwd_ns = fwd_ns, .bwd_ns = 2 * fwd_ns };
		j->hops[i].bytes = bytes;
	}
}

static void free_cell(struct tb_cell *c)
{
	free(c->jobs[0].stages);
	free(c->jobs[0].hops);
	free(c->jobs);
}

/* 100 sockets at each of two agents: 101 stages, alternately. */
static void bench_sampling(int push_ms)
{
	struct tb_action acts[] = { { .kind = TB_ACT_MONITOR, .at_s = 1, .on = true },
				    { .kind = TB_ACT_MONITOR, .at_s = 11 } };
	struct tb_script script = { .monitor = { .push_ms = push_ms }, .n = 2, .actions = acts };
	struct bace_err e = { 0 };
	struct tb_result r;
	struct tb_cell cell;
	char what[80];
	struct bed b;

	script.monitor.period_ms[TB_SRC_CLASS] = script.monitor.period_ms[TB_SRC_TCP] = 100;
	script.monitor.period_ms[TB_SRC_SELF] = script.monitor.period_ms[TB_SRC_LINK] = 100;
	open_bed(&b, 2);
	pipeline(&cell, 101, 2, 8, 10000000, 20000);
	cell.steps = 4;
	cell.script = &script;
	if (controller_run(b.c, &cell, &r, &e))
		die("sampling", &e);
	if (r.log.n_acted < 2)
		printf("sampling: the cell ended early: %s\n", r.invalid_why);
	else {
		const struct tb_acted *on = &r.log.acted[0], *off = &r.log.acted[1];
		double s = (double)(off->began_ns - on->settled_ns) / 1e9;

		snprintf(what, sizeof(what), "agent at 10 Hz, %d classes, 100 sockets, pushed every %d ms: CPU",
			 has_classes ? CLASSES : 0, push_ms);
		line(what, 100 * (double)(off->cpu_ns - on->cpu_ns) / 1e9 / 2 / s,
		     "% core", 0.5);
		snprintf(what, sizeof(what), "  to the controller, an agent, pushed every %d ms", push_ms);
		line(what, (double)(off->wire_bytes - on->wire_bytes) / 2e3 / s, "kB/s", 0);
	}
	tb_result_free(&r);
	free_cell(&cell);
	close_bed(&b);
}

static void bench_start(void)
{
	struct bace_err e = { 0 };
	struct tb_result r;
	struct tb_cell cell;
	struct bed b;
	double least = INFINITY, spread = 0;

	open_bed(&b, 8);
	for (int i = 0; i < 5; i++) {
		int64_t began, first = INT64_MAX;

		pipeline(&cell, 8, 8, 8, 1000000, 20000);
		began = bace_mono_ns();
		if (controller_run(b.c, &cell, &r, &e))
			die("start", &e);
		for (int k = 0; k < r.n_steps; k++)
			if (r.steps[k].start_ns && r.steps[k].start_ns < first)
				first = r.steps[k].start_ns;
		least = fmin(least, (double)(first - began) / 1e6);
		spread = fmax(spread, (double)r.barrier_spread_ns / 1e6);
		tb_result_free(&r);
		free_cell(&cell);
	}
	line("8-rank job, command to first step (best of 5)", least, "ms", 500);
	line("  ranks begin within (worst of 5)", spread, "ms", 10);
	close_bed(&b);
}

static void bench_many(int n)
{
	struct tb_monitor m = { .push_ms = 20 };
	struct rusage a, z;
	struct bace_err e = { 0 };
	struct bed b;
	int64_t t;
	char what[80];

	m.period_ms[TB_SRC_SELF] = m.period_ms[TB_SRC_LINK] = m.period_ms[TB_SRC_CLASS] = 100;
	open_bed(&b, n);
	if (controller_monitor(b.c, &m, &e))
		die("monitor", &e);
	sleep(2);
	getrusage(RUSAGE_SELF, &a);
	t = bace_mono_ns();
	sleep(10);
	getrusage(RUSAGE_SELF, &z);
	snprintf(what, sizeof(what), "controller with %d agents at 10 Hz: CPU", n);
	line(what, 100 * ((double)(z.ru_utime.tv_sec - a.ru_utime.tv_sec + z.ru_stime.tv_sec - a.ru_stime.tv_sec) +
		(double)(z.ru_utime.tv_usec - a.ru_utime.tv_usec + z.ru_stime.tv_usec - a.ru_stime.tv_usec) / 1e6) /
		((double)(bace_mono_ns() - t) / 1e9), "% core", 20);
	close_bed(&b);
}

int main(int argc, char **argv)
{
	int n = argc > 3 ? atoi(argv[3]) : AGENTS_MAX;
	const char *part;

	if (argc < 3) {
		fprintf(stderr, "usage: %s BACE-AGENT BACE-WORKER [AGENTS]\n", argv[0]);
		return 2;
	}
	agent_path = argv[1];
	snprintf(worker_dir, sizeof(worker_dir), "%s", argv[2]);
	*strrchr(worker_dir, '/') = '\0';
	part = argc > 4 ? argv[4] : "";
	make_classes(CLASSES);
	table_head("agent and controller");
	if (!*part || !strcmp(part, "idle"))
		bench_idle();
	if (!*part || !strcmp(part, "sampling")) {
		bench_sampling(20);
		bench_sampling(500);
	}
	if (!*part || !strcmp(part, "start"))
		bench_start();
	if (!*part || !strcmp(part, "many"))
		bench_many(n > AGENTS_MAX ? AGENTS_MAX : n < 1 ? 1 : n);
	return 0;
}
