#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/json.h"
#include "harness/cmd/lab.h"
#include "harness/cmd/load.h"
#include "harness/cmd/micro.h"
#include "harness/run/run.h"

#define DEFAULT_EXPERIMENT "six-regions"
#define MEND_PERIOD_NS 2000000000

struct args {
	const char *experiment, *name;
	struct bare_options o;
	double for_s;			/* 0: until it is ended */
};

/* The holder, until the lab is up: its lines go to who waits. */
struct holder {
	const struct args *a;
	const struct experiment *exp;
	int door, tell;
};

static int parse(struct args *a, int argc, char **argv)
{
	static const struct option options[] = { { "backend", 1, NULL, 'b' }, { "name", 1, NULL, 'n' }, { "for", 1, NULL, 'f' },
						 { "help", 0, NULL, 'h' }, { 0 } };
	struct bace_err e;
	int64_t ns;
	int c;

	*a = (struct args){ .experiment = DEFAULT_EXPERIMENT, .name = LAB_DEFAULT };
	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		int rc = -1;

		switch (c) {
		case 'b':
			rc = cmd_backend(&cmd_lab_up, optarg, &a->o.has_backend, &a->o.backend);
			break;
		case 'n':
			a->name = optarg;
			rc = lab_check_name(&cmd_lab_up, optarg);
			break;
		case 'f':
			rc = bace_parse_time_ns(optarg, &ns, &e) ? cmd_misuse(&cmd_lab_up, "--for: %s", e.msg)
				: ns <= 0 ? cmd_misuse(&cmd_lab_up, "--for %s: must be more than 0", optarg) : 0;
			a->for_s = rc ? 0 : (double)ns / 1e9;
			break;
		case 'h':
			printf("usage: %s\n", cmd_lab_up.usage);
			return -ECANCELED;
		default:
			rc = cmd_misuse(&cmd_lab_up, "bad options");
		}
		if (rc)
			return rc;
	}
	if (optind < argc - 1)
		return cmd_misuse(&cmd_lab_up, "`%s': one experiment is enough", argv[optind + 1]);
	if (optind < argc)
		a->experiment = argv[optind];
	return 0;
}

/* ---- the holder ---- */

static void tell(struct holder *h, json_t *line)
{
	CLEANUP_FREE char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;
	struct bace_buf b = { 0 };

	json_decref(line);
	/* Whoever asked for it is gone before it is up: then nobody wants it. */
	if (text && h->tell >= 0 && !bace_buf_addf(&b, "%s\n", text) && bace_write_all(h->tell, b.p, b.len))
		raise(SIGTERM);
	bace_buf_free(&b);
}

static void on_progress(void *arg, const char *line)
{
	tell(arg, json_pack("{s:o}", "progress", json_text(line)));
}

static json_t *describe(const struct holder *h, const struct testbed *t, const char *backend)
{
	const struct lab_net *net = testbed_net(t);
	json_t *hosts = json_array();

	for (int i = 0; i < net->n_hosts; i++) {
		const struct lab_host *x = &net->hosts[i];

		json_array_append_new(hosts, json_pack("{s:s,s:s,s:s,s:b}", "name", x->name, "region",
			h->exp->cluster.regions[x->region].name, "address", x->addr, "gateway", x->gateway));
	}
	return json_pack("{s:s,s:o,s:o,s:f,s:f,s:s,s:i,s:i,s:o}", "name", h->a->name, "experiment", json_text(h->exp->path), "cluster",
			 json_text(h->exp->cluster.name), "scale_bytes", h->exp->testbed.scale_bytes, "scale_time",
			 h->exp->testbed.scale_time, "backend", backend, "holder", (int)getpid(), "pid1", (int)testbed_pid(t),
			 "hosts", hosts);
}

/* Until it is to end, or has. */
static void hold(const struct holder *h, struct testbed *t, const json_t *state)
{
	int64_t begin = bace_mono_ns(), looked = begin;
	struct bace_err e;
	int rc = 0;

	while (!rc && !signals_caught(NULL) && !(h->a->for_s > 0 && (double)(bace_mono_ns() - begin) / 1e9 > h->a->for_s)) {
		lab_answer(h->door, state);
		rc = testbed_idle(t, &e);
		if (rc || bace_mono_ns() - looked < MEND_PERIOD_NS)
			continue;
		/* What died in it is started again; what cannot be is tried again. */
		looked = bace_mono_ns();
		testbed_mend(t, &e);
	}
}

/* Nothing of who asked for it is kept: files, locks, pipes, a folder. */
static int let_go(struct holder *h, struct bace_err *e)
{
	int null = open("/dev/null", O_RDWR);

	if (null < 0)
		return bace_fail_errno(e, errno, "/dev/null");
	/* Above all that is placed. */
	h->door = fcntl(h->door, F_DUPFD_CLOEXEC, 16);
	h->tell = fcntl(h->tell, F_DUPFD_CLOEXEC, 16);
	null = fcntl(null, F_DUPFD_CLOEXEC, 16);
	if (h->door < 0 || h->tell < 0 || null < 0)
		return bace_fail_errno(e, errno, "duplicate a descriptor");
	dup2(h->door, 3);
	dup2(h->tell, 4);
	for (int fd = 0; fd < 2; fd++)
		dup2(null, fd);
	close_range(5, ~0u, 0);
	h->door = 3;
	h->tell = 4;
	return fcntl(3, F_SETFD, FD_CLOEXEC) || fcntl(4, F_SETFD, FD_CLOEXEC) ? bace_fail_errno(e, errno, "fcntl") : 0;
}

static int hold_lab(struct holder *h)
{
	struct bare_options o = h->a->o;
	struct testbed *t = NULL;
	const char *backend;
	struct bace_err e = { 0 };
	json_t *state = NULL;
	int rc = let_go(h, &e);

	setsid();
	o.on_progress = on_progress;
	o.cancelled = signals_caught;
	o.arg = h;
	if (!rc)
		rc = bare_open(h->exp, &o, &t, &backend, &e);
	if (!rc) {
		state = describe(h, t, backend);
		rc = state ? lab_listen(h->door, &e) : bace_fail(&e, ENOMEM, "lab: out of memory");
	}
	if (rc)
		tell(h, json_pack("{s:o,s:i}", "error", json_text(e.msg), "errno", -rc));
	else
		tell(h, json_pack("{s:O}", "up", state));
	/* From here on nobody is there, and no folder is in use. */
	bace_cleanup_close(&h->tell);
	dup2(0, 2);
	if (chdir("/") == 0 && !rc)
		hold(h, t, state);
	json_decref(state);
	testbed_close(t);
	return rc ? 1 : 0;
}

/* ---- who asked for it ---- */

static void print_up(const struct cmd_globals *g, const json_t *state, const struct args *a)
{
	const char *name = json_string_value(json_object_get(state, "name"));
	bool named = strcmp(name, LAB_DEFAULT);

	if (g->json) {
		json_dumpf(state, stdout, JSON_INDENT(2));
		putchar('\n');
		return;
	}
	printf("lab `%s' is up: the links of %s, bytes x %g, time x %g, by %s%s\n", name,
	       json_string_value(json_object_get(state, "cluster")), json_number_value(json_object_get(state, "scale_bytes")),
	       json_number_value(json_object_get(state, "scale_time")), json_string_value(json_object_get(state, "backend")),
	       a->for_s > 0 ? ", for a while" : "");
	lab_print_hosts(state);
	printf("\n  bace lab exec%s%s HOST -- COMMAND\n  bace lab down%s%s\n", named ? " --name " : "", named ? name : "",
	       named ? " " : "", named ? name : "");
}

/* One line of the holder's; -1: go on. */
static int take_line(const struct cmd_globals *g, const struct args *a, const char *line)
{
	json_t *j = json_loads(line, 0, NULL);
	const char *said = json_string_value(json_object_get(j, "progress")), *wrong = json_string_value(json_object_get(j, "error"));
	const json_t *up = json_object_get(j, "up");
	int rc = -1;

	if (said && !g->quiet)
		fprintf(stderr, "%s\n", said);
	if (wrong)
		rc = cmd_error(&cmd_lab_up, cmd_exit_of((int)json_integer_value(json_object_get(j, "errno")), true), "%s", wrong);
	if (up) {
		print_up(g, up, a);
		rc = BACE_EXIT_OK;
	}
	json_decref(j);
	return rc;
}

static int wait_for(const struct cmd_globals *g, const struct args *a, int from, pid_t holder)
{
	struct pollfd p = { .fd = from, .events = POLLIN };
	struct bace_buf b = { 0 };
	char buf[4096], *nl;
	bool told = false;
	int rc = -1;

	while (rc < 0) {
		/* It is in a session of its own: what ends this command is passed on. It says that it ends. */
		if (signals_caught(NULL) && !told)
			told = !kill(holder, SIGTERM);
		if (poll(&p, 1, 100) <= 0)
			continue;
		ssize_t n = read(from, buf, sizeof(buf));

		if (n <= 0 || bace_buf_add(&b, buf, (size_t)n))
			rc = cmd_error(&cmd_lab_up, BACE_EXIT_FAILED, "the lab's holder ended by itself");
		while (rc < 0 && b.len && (nl = memchr(b.p, '\n', b.len))) {
			*nl = '\0';
			rc = take_line(g, a, b.p);
			b.len -= (size_t)(nl + 1 - b.p);
			memmove(b.p, nl + 1, b.len);
		}
	}
	bace_buf_free(&b);
	close(from);
	if (rc != BACE_EXIT_OK) {
		kill(holder, SIGTERM);
		waitpid(holder, NULL, 0);
	}
	return rc;
}

static int start(const struct cmd_globals *g, const struct args *a, const struct experiment *exp)
{
	struct holder h = { .a = a, .exp = exp, .door = -1 };
	struct bace_err e = { 0 };
	int fd[2], rc = lab_claim(a->name, &h.door, &e);
	pid_t pid;

	if (rc)
		return cmd_error(&cmd_lab_up, cmd_exit_of(-rc, true), "%s", e.msg);
	if (pipe2(fd, O_CLOEXEC))
		return cmd_error(&cmd_lab_up, BACE_EXIT_FAILED, "pipe: %s", strerror(errno));
	signals_catch();
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		close(fd[0]);
		h.tell = fd[1];
		_exit(hold_lab(&h));
	}
	close(fd[1]);
	close(h.door);
	if (pid < 0) {
		close(fd[0]);
		return cmd_error(&cmd_lab_up, BACE_EXIT_FAILED, "fork: %s", strerror(errno));
	}
	return wait_for(g, a, fd[0], pid);
}

static int run(const struct cmd_globals *g, int argc, char **argv)
{
	struct args a;
	struct experiment exp;
	int rc = parse(&a, argc, argv);

	if (rc)
		return rc == -ECANCELED ? BACE_EXIT_OK : rc;
	a.o.self = g->self;
	rc = load_experiment(&cmd_lab_up, a.experiment, &exp);
	if (rc)
		return rc;
	rc = start(g, &a, &exp);
	experiment_free(&exp);
	return rc;
}

const struct command cmd_lab_up = {
	.name = "lab up",
	.summary = "make the hosts and links of an experiment, and leave them there",
	.usage = "bace lab up [EXPERIMENT.cfg] [--name NAME] [--backend auto|netem|nfqueue] [--for TIME]\n\n"
		 "Gateways and hosts as namespaces, agents and shapers in them, links as the experiment's\n"
		 "testbed has them, scaled as it says; no job runs. Ordinary users may. It is gone with the\n"
		 "process that holds it, and with the machine's next start.\n\n"
		 "  EXPERIMENT  default: " DEFAULT_EXPERIMENT "\n"
		 "  --name      of this lab, where several are up; default: " LAB_DEFAULT "\n"
		 "  --for       ends by itself after so long, such as 2h",
	.run = run,
};
