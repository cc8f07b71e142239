#include "tests/unit/control/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

const char *agent_path, *worker_dir, *bad_worker_dir;

int fixture_args(int argc, char **argv)
{
	static char worker[4096], bad[4096];

	if (argc != 4) {
		fprintf(stderr, "usage: %s BACE-AGENT BACE-WORKER FALSE-WORKER\n", argv[0]);
		return 2;
	}
	agent_path = argv[1];
	snprintf(worker, sizeof(worker), "%s", argv[2]);
	snprintf(bad, sizeof(bad), "%s", argv[3]);
	*strrchr(worker, '/') = '\0';
	*strrchr(bad, '/') = '\0';
	worker_dir = worker;
	bad_worker_dir = bad;
	return 0;
}

void world_open(struct world *w, int n)
{
	struct bace_err e = { 0 };

	*w = (struct world){ .worker_dir = worker_dir };
	snprintf(w->dir, sizeof(w->dir), "/tmp/bace-test-control-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	snprintf(w->key_path, sizeof(w->key_path), "%s/key", w->dir);
	assert_int_equal(wire_key_generate(w->key_path, &e), 0);
	assert_int_equal(wire_key_load(w->key_path, w->key, &e), 0);
	for (int i = 0; i < n; i++) {
		snprintf(w->hosts[i].name, sizeof(w->hosts[i].name), "h%d", i);
		snprintf(w->names[i], sizeof(w->names[i]), "region-%d", i);
		snprintf(w->hosts[i].addr, sizeof(w->hosts[i].addr), "127.0.0.%d", 10 + i);
		w->hosts[i].region = i;
	}
	w->topo = (struct tb_topology){ .n_regions = n, .region_names = w->names, .n_hosts = n,
					.hosts = w->hosts };
	assert_int_equal(controller_open(&(struct controller_config){ .listen_addr = "127.0.0.1",
		.master_key = w->key, .topo = &w->topo, .heartbeat_dead_s = 3 }, &w->controller, &e), 0);
}

void world_agent(struct world *w, int i)
{
	world_agent_at(w, i, controller_port(w->controller));
}

void world_agent_at(struct world *w, int i, uint16_t port)
{
	char to[32];

	snprintf(to, sizeof(to), "127.0.0.1:%u", port);
	w->agents[i] = fork();
	assert_true(w->agents[i] >= 0);
	if (w->agents[i])
		return;
	char *argv[] = { (char *)agent_path, "--controller", to, "--key", w->key_path, "--name",
			 w->hosts[i].name, "--worker-dir", (char *)w->worker_dir, "-q",
			 w->shaperd ? "--shaperd" : NULL, (char *)w->shaperd, NULL };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (w->machine)
		w->machine(w, i);
	execv(agent_path, argv);
	_exit(127);
}

void world_agents(struct world *w)
{
	struct bace_err e = { 0 };

	for (int i = 0; i < w->topo.n_hosts; i++)
		world_agent(w, i);
	if (controller_wait_hosts(w->controller, 30, &e))
		fail_msg("%s", e.msg);
}

void world_kill_agent(struct world *w, int i, int sig)
{
	kill(w->agents[i], sig);
	if (sig != SIGKILL && sig != SIGTERM)
		return;
	waitpid(w->agents[i], NULL, 0);
	w->agents[i] = 0;
}

void world_close(struct world *w)
{
	controller_close(w->controller);
	for (int i = 0; i < w->topo.n_hosts; i++) {
		if (!w->agents[i])
			continue;
		kill(w->agents[i], SIGCONT);
		kill(w->agents[i], SIGTERM);
		waitpid(w->agents[i], NULL, 0);
	}
	unlink(w->key_path);
	rmdir(w->dir);
}

int world_children(const struct world *w, int i, pid_t *pids, int max)
{
	char path[96], text[4096];
	int n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)w->agents[i], (int)w->agents[i]);
	f = fopen(path, "r");
	if (!f)
		return 0;
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	fclose(f);
	for (char *save = NULL, *p = strtok_r(text, " ", &save); p && n < max; p = strtok_r(NULL, " ", &save))
		pids[n++] = (pid_t)atoi(p);
	return n;
}

bool pid_alive(pid_t pid)
{
	char path[64], text[512], *state;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "r");
	if (!f)
		return false;
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	fclose(f);
	state = strrchr(text, ')');
	return state && state[2] != 'Z' && state[2] != 'X';
}

bool pid_gone(pid_t pid)
{
	for (int i = 0; i < 500 && pid_alive(pid); i++)
		usleep(10000);
	return !pid_alive(pid);
}

long memory_kib(pid_t pid, const char *what)
{
	char path[64], line[256];
	long kib = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, what, strlen(what)))
			kib = atol(line + strlen(what) + 1);
	fclose(f);
	assert_true(kib > 0);
	return kib;
}

void check_agent_memory(pid_t pid, const char *after)
{
	long kib = memory_kib(pid, "VmHWM");

	print_message("after %s an agent's memory was at most %.1f MiB\n", after, (double)kib / 1024);
#ifndef __SANITIZE_ADDRESS__
	assert_true(kib <= AGENT_MEMORY_MAX_KIB);
#endif
}

void cell_pipeline(struct tb_cell *c, const char *name, int stages, int micro_batches, int64_t fwd_ns,
		   uint64_t bytes)
{
	struct tb_job *j = calloc(1, sizeof(*j));

	*c = (struct tb_cell){ .n_jobs = 1, .jobs = j, .warmup_steps = 1, .steps = 3, .timeout_s = 60 };
	snprintf(j->name, sizeof(j->name), "%s", name);
	j->schedule = SCHED_1F1B;
	j->chunks = 1;
	j->micro_batches = micro_batches;
	j->overlap = true;
	j->n_stages = stages;
	j->stages = calloc((size_t)stages, sizeof(*j->stages));
	j->hops = calloc((size_t)stages, sizeof(*j->hops));
	for (int i = 0; i < stages; i++) {
		j->stages[i] = (struct tb_stage){ .host = i, .region = i, .worker = i, .fwd_ns = fwd_ns,
						  .bwd_ns = 2 * fwd_ns };
		j->hops[i].bytes = bytes;
	}
}

void cell_release(struct tb_cell *c)
{
	for (int i = 0; i < c->n_jobs; i++) {
		free(c->jobs[i].stages);
		free(c->jobs[i].hops);
	}
	free(c->jobs);
}

struct later {
	pthread_t thread;
	struct world *w;	/* NULL: not after work there */
	int host;
	double seconds;
	void (*fn)(void *arg);
	void *arg;
};

static void *later_thread(void *arg)
{
	struct later *l = arg;
	pid_t pid;

	for (int i = 0; l->w && i < 1000 && !world_children(l->w, l->host, &pid, 1); i++)
		usleep(20000);
	usleep((useconds_t)(l->seconds * 1e6));
	l->fn(l->arg);
	return NULL;
}

struct later *later_at_work(struct world *w, int i, double seconds, void (*fn)(void *arg), void *arg)
{
	struct later *l = calloc(1, sizeof(*l));

	*l = (struct later){ .w = w, .host = i, .seconds = seconds, .fn = fn, .arg = arg };
	assert_int_equal(pthread_create(&l->thread, NULL, later_thread, l), 0);
	return l;
}

struct later *later(double seconds, void (*fn)(void *arg), void *arg)
{
	return later_at_work(NULL, 0, seconds, fn, arg);
}

void later_join(struct later *l)
{
	pthread_join(l->thread, NULL);
	free(l);
}
