#include "tests/netns/agent/fixture.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "harness/lab/sandbox.h"
#include "tests/common/cluster3.h"

#define DIR "/run/bace"

const char *agent_path, *shaperd_path, *worker_dir;
enum delay_kind delay;

static const struct lab_traffic traffic = { .message_bytes = 250000, .min_message_bytes = 200000,
	.jobs_on_link = 2, .wan = WAN_STEADY, .congestion_control = "cubic" };

static const struct CMUnitTest *the_test;

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	*state = w;
	world_up(w);
	return 0;
}

static int teardown(void **state)
{
	world_down(*state);
	free(*state);
	return 0;
}

static int one_test(void)
{
	const struct CMUnitTest group[] = { { .name = the_test->name, .test_func = the_test->test_func,
		.setup_func = setup, .teardown_func = teardown } };

	return cmocka_run_group_tests(group, NULL, NULL) ? 1 : 0;
}

int fixture_main(int argc, char **argv, const struct CMUnitTest *tests)
{
	int failed = 0;
	static char dir[4096];
	struct bace_err e = { 0 };
	const char *why;
	int rc;

	if (argc != 4) {
		fprintf(stderr, "usage: %s BACE-AGENT BACE-SHAPERD BACE-WORKER\n", argv[0]);
		return 2;
	}
	agent_path = argv[1];
	shaperd_path = argv[2];
	snprintf(dir, sizeof(dir), "%s", argv[3]);
	*strrchr(dir, '/') = '\0';
	worker_dir = dir;
	delay = shape_probe_delay(&why);
	if (delay == DELAY_NONE) {
		printf("skipped: %s\n", why);
		return 77;
	}
	/* A sandbox for each test: namespaces end when they please. */
	for (the_test = tests; the_test->test_func; the_test++) {
		rc = sandbox_probe(one_test, &e);
		if (rc < 0) {
			printf("skipped: %s\n", e.msg);
			return 77;
		}
		failed += rc;
	}
	return failed ? 1 : 0;
}

static pid_t spawn(struct world *w, int i, char *const argv[])
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (netns_enter(&w->lab.ns[i], NULL))
		_exit(126);
	execv(argv[0], argv);
	_exit(127);
}

void world_shaperd(struct world *w, int i)
{
	char sock[96], state[96];

	snprintf(sock, sizeof(sock), DIR "/%s.sock", w->net.hosts[i].name);
	snprintf(state, sizeof(state), DIR "/%s.state", w->net.hosts[i].name);
	w->shaperds[i] = spawn(w, i, (char *[]){ (char *)shaperd_path, "--socket", sock, "--state", state, "-q",
					       NULL });
}

void world_agent(struct world *w, int i)
{
	char sock[96], to[64];

	snprintf(sock, sizeof(sock), DIR "/%s.sock", w->net.hosts[i].name);
	snprintf(to, sizeof(to), LAB_MGMT_ADDR ":%u", controller_port(w->controller));
	w->agents[i] = spawn(w, i, (char *[]){ (char *)agent_path, "--controller", to, "--key", DIR "/key",
		"--name", w->net.hosts[i].name, "--shaperd", sock, "--worker-dir", (char *)worker_dir, "-q",
		NULL });
}

static void must(int rc, const struct bace_err *e)
{
	if (rc)
		fail_msg("%s", e->msg);
}

/* Of an agent that did not come: whether it lives. */
static void await_agents(struct world *w)
{
	struct bace_err e = { 0 };
	int status;

	if (!controller_wait_hosts(w->controller, 30, &e))
		return;
	for (int i = 0; i < HOSTS; i++)
		if (waitpid(w->agents[i], &status, WNOHANG) > 0)
			print_message("the agent of %s ended: wait status %#x\n", w->net.hosts[i].name, (unsigned)status);
	fail_msg("%s", e.msg);
}

void world_up(struct world *w)
{
	struct bace_err e = { 0 };

	*w = (struct world){ .cluster = cluster3() };
	if (mkdir(DIR, 0700) && errno != EEXIST)
		fail_msg("mkdir " DIR);
	unlink(DIR "/key");
	must(wire_key_generate(DIR "/key", &e), &e);
	must(wire_key_load(DIR "/key", w->key, &e), &e);
	must(lab_net_build(&w->cluster, 1, &w->net, &e), &e);
	must(lab_build(&w->cluster, &w->net, &traffic, &w->lab, &e), &e);
	must(lab_topology_build(&w->cluster, &w->net, delay, &traffic, &w->topo, &e), &e);
	must(controller_open(&(struct controller_config){ .listen_addr = LAB_MGMT_ADDR, .master_key = w->key,
		.topo = &w->topo, .heartbeat_dead_s = 3 }, &w->controller, &e), &e);
	for (int i = 0; i < HOSTS; i++) {
		world_shaperd(w, i);
		world_agent(w, i);
	}
	await_agents(w);
	must(controller_plan(w->controller, &e), &e);
}

void world_kill(pid_t *pid)
{
	if (*pid <= 0)
		return;
	kill(*pid, SIGKILL);
	waitpid(*pid, NULL, 0);
	*pid = 0;
}

void world_down(struct world *w)
{
	controller_close(w->controller);
	for (int i = 0; i < HOSTS; i++) {
		world_kill(&w->agents[i]);
		world_kill(&w->shaperds[i]);
	}
	lab_topology_free(&w->topo);
	lab_unbuild(&w->lab);
	lab_net_free(&w->net);
}

pid_t first_child(pid_t pid)
{
	char path[96], text[64] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	f = fopen(path, "r");
	if (!f)
		return 0;
	if (!fgets(text, sizeof(text), f))
		text[0] = '\0';
	fclose(f);
	return (pid_t)atoi(text);
}

int run_in(const struct world *w, int i, const char *command, char *text, size_t cap)
{
	int p[2], status = -1;
	size_t len = 0;
	ssize_t k;
	pid_t pid;

	if (pipe(p) || (pid = fork()) < 0)
		return -1;
	if (!pid) {
		if (netns_enter(&w->lab.ns[i], NULL))
			_exit(126);
		dup2(p[1], 1);
		dup2(p[1], 2);
		close(p[0]);
		close(p[1]);
		execl("/bin/sh", "sh", "-c", command, NULL);
		_exit(127);
	}
	close(p[1]);
	while (len < cap - 1 && (k = read(p[0], text + len, cap - 1 - len)) > 0)
		len += (size_t)k;
	text[len] = '\0';
	close(p[0]);
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool is_shaped(const struct world *w, int i)
{
	char text[8192];

	assert_int_equal(run_in(w, i, "tc qdisc show dev wan0", text, sizeof(text)), 0);
	return strstr(text, "htb bace:") != NULL;
}

bool becomes_unshaped(const struct world *w, int i)
{
	for (int k = 0; k < 100 && is_shaped(w, i); k++)
		usleep(50000);
	return !is_shaped(w, i);
}

void cell_across(struct tb_cell *c, int micro_batches, int64_t fwd_ns, uint64_t bytes)
{
	struct tb_job *j = calloc(1, sizeof(*j));

	*c = (struct tb_cell){ .n_jobs = 1, .jobs = j, .warmup_steps = 1, .steps = 2, .timeout_s = 40 };
	snprintf(j->name, sizeof(j->name), "across");
	j->schedule = SCHED_1F1B;
	j->chunks = 1;
	j->micro_batches = micro_batches;
	j->overlap = true;
	j->n_stages = 3;
	j->stages = calloc(3, sizeof(*j->stages));
	j->hops = calloc(3, sizeof(*j->hops));
	for (int i = 0; i < 3; i++) {
		j->stages[i] = (struct tb_stage){ .host = 3 + i, .region = i, .worker = i, .fwd_ns = fwd_ns,
						  .bwd_ns = 2 * fwd_ns };
		j->hops[i].bytes = bytes;
	}
}

void cell_release(struct tb_cell *c)
{
	free(c->jobs[0].stages);
	free(c->jobs[0].hops);
	free(c->jobs);
}

void expect_valid(struct world *w, const struct tb_cell *cell, struct tb_result *r)
{
	struct bace_err e = { 0 };

	must(controller_run(w->controller, cell, r, &e), &e);
	/* This machine may be busy with something else; all the rest must be right. */
	if (!r->valid && !strstr(r->invalid_why, "overloaded"))
		fail_msg("invalid: %s", r->invalid_why);
}

void expect_invalid(struct world *w, const struct tb_cell *cell, const char *why)
{
	struct bace_err e = { 0 };
	struct tb_result r;

	must(controller_run(w->controller, cell, &r, &e), &e);
	if (r.valid)
		fail_msg("valid, though %s", why);
	if (!strstr(r.invalid_why, why))
		fail_msg("invalid because `%s', not `%s'", r.invalid_why, why);
	tb_result_free(&r);
}
