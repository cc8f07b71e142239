/*
 * From a plan to links that are shaped and read back, on many hosts: agents on
 * loopback, each with a true bace-shaperd in a network namespace of its own.
 * Prints a table; asserts nothing. usage: bench-plan BACE-AGENT BACE-SHAPERD [HOSTS]
 */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/wire/wire.h"
#include "harness/control/control.h"
#include "harness/lab/sandbox.h"
#include "tests/bench/table.h"

#define HOSTS_MAX 256
#define HOSTS_ASKED 64		/* what 300 ms are asked of */
#define REGIONS 6
#define ROUNDS 5

static const char *agent_path, *shaperd_path;
static int n_hosts = HOSTS_ASKED;

static void die(const char *what, const struct bace_err *e)
{
	fprintf(stderr, "bench-plan: %s: %s\n", what, e->msg);
	exit(1);
}

static void spawn(pid_t *pid, char *const argv[])
{
	*pid = fork();
	if (*pid)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execvp(argv[0], argv);
	_exit(127);
}

/* Five links each, as in a region of the six. */
static void describe(struct tb_topology *t)
{
	*t = (struct tb_topology){ .n_regions = REGIONS, .n_hosts = n_hosts,
		.region_names = calloc(REGIONS, sizeof(*t->region_names)),
		.hosts = calloc((size_t)n_hosts, sizeof(*t->hosts)) };
	for (int r = 0; r < REGIONS; r++)
		snprintf(t->region_names[r], NAME_LEN, "r%d", r);
	for (int i = 0; i < n_hosts; i++) {
		struct tb_host *h = &t->hosts[i];

		snprintf(h->name, NAME_LEN, "h%d", i);
		snprintf(h->addr, sizeof(h->addr), "127.0.1.%d", i % 250 + 1);
		/* Gateways: what one does is not divided with others. */
		h->gateway = true;
		h->region = i % REGIONS;
		snprintf(h->shape.egress, IFNAMSIZ, "eth0");
		h->shape.mtu = 1500;
		h->shape.links = calloc(REGIONS, sizeof(*h->shape.links));
		for (int r = 0; r < REGIONS; r++) {
			struct shape_link *l = &h->shape.links[h->shape.n_links];

			if (r == h->region)
				continue;
			h->shape.n_links++;
			snprintf(l->name, NAME_LEN, "r%d", r);
			l->region = (uint16_t)r;
			l->n_prefixes = 1;
			l->prefixes[0] = (struct shape_prefix){ .family = AF_INET, .len = 16,
								.addr = { 10, (uint8_t)(16 + r) } };
			l->rate_bps = 100000000;
			l->rtt_ns = 40000000;
			l->message_bytes = 250000;
		}
	}
}

static void start_host(struct controller *c, int i, pid_t pids[2])
{
	char to[32], name[16], ns[48], sock[48], cmd[256];

	snprintf(to, sizeof(to), "127.0.0.1:%u", controller_port(c));
	snprintf(name, sizeof(name), "h%d", i);
	snprintf(ns, sizeof(ns), "--net=/run/netns/%s", name);
	snprintf(sock, sizeof(sock), "/run/%s.sock", name);
	snprintf(cmd, sizeof(cmd), "ip netns add %s && ip -n %s link add eth0 type veth peer name p0 && "
		 "ip -n %s link set eth0 up", name, name, name);
	if (system(cmd))
		exit(1);
	spawn(&pids[0], (char *[]){ "nsenter", ns, (char *)shaperd_path, "--socket", sock, "-q", NULL });
	spawn(&pids[1], (char *[]){ (char *)agent_path, "--controller", to, "--key", "/run/key", "--name", name,
				    "--shaperd", sock, "-q", NULL });
}

static int body(void)
{
	double first = 0, again = INFINITY;
	char what[80];
	uint8_t key[WIRE_KEY_BYTES];
	struct bace_err e = { 0 };
	struct tb_topology t;
	struct controller *c;
	pid_t pids[HOSTS_MAX][2];

	if (system("ip link set lo up"))
		return 1;
	describe(&t);
	if (wire_key_generate("/run/key", &e) || wire_key_load("/run/key", key, &e) ||
	    controller_open(&(struct controller_config){ .listen_addr = "127.0.0.1", .master_key = key, .topo = &t,
		.heartbeat_dead_s = 60 }, &c, &e))
		die("controller", &e);
	for (int i = 0; i < n_hosts; i++)
		start_host(c, i, pids[i]);
	if (controller_wait_hosts(c, 120, &e))
		die("agents", &e);
	sleep(2);
	for (int k = 0; k < ROUNDS; k++) {
		int64_t began = bace_mono_ns();
		double ms;

		if (controller_plan(c, &e))
			die("plan", &e);
		ms = (double)(bace_mono_ns() - began) / 1e6;
		if (!k)
			first = ms;
		else
			again = fmin(again, ms);
		sleep(1);
	}
	snprintf(what, sizeof(what), "plan to %d hosts, 5 links each, all read back", n_hosts);
	table_row(what, "ms", figure_one(first), (struct figure){ 0 },
		  n_hosts == HOSTS_ASKED ? (struct asked){ ASKED_MOST, 300 } : (struct asked){ 0 });
	snprintf(what, sizeof(what), "  the same again, nothing to be changed, %d hosts", n_hosts);
	table_row(what, "ms", figure_one(again), (struct figure){ 0 }, (struct asked){ 0 });
	table_growth("plan, all read back", "hosts", n_hosts, first, "ms");
	controller_close(c);
	for (int i = 0; i < n_hosts; i++)
		for (int k = 0; k < 2; k++)
			kill(pids[i][k], SIGKILL);
	return 0;
}

int main(int argc, char **argv)
{
	struct bace_err e = { 0 };
	int rc;

	if (argc < 3) {
		fprintf(stderr, "usage: %s BACE-AGENT BACE-SHAPERD [HOSTS]\n", argv[0]);
		return 2;
	}
	agent_path = argv[1];
	shaperd_path = argv[2];
	n_hosts = argc > 3 ? atoi(argv[3]) : n_hosts;
	n_hosts = n_hosts < 1 ? 1 : n_hosts > HOSTS_MAX ? HOSTS_MAX : n_hosts;
	rc = sandbox_probe(body, &e);
	if (rc < 0)
		die("namespaces", &e);
	return rc;
}
