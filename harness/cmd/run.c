#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "harness/cmd/cmd.h"
#include "harness/run/run.h"

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
	interrupted = 1;
}

static bool is_cancelled(void *arg)
{
	return interrupted;
}

static void progress(void *arg, const char *line)
{
	const int64_t *start = arg;

	fprintf(stderr, "%6.1f s  %s\n", (double)(bace_mono_ns() - *start) / 1e9, line);
}

static void catch_signals(void)
{
	struct sigaction a = { .sa_handler = on_signal };

	sigaction(SIGINT, &a, NULL);
	sigaction(SIGTERM, &a, NULL);
	sigaction(SIGHUP, &a, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static int terminal_width(FILE *f)
{
	struct winsize w;

	if (!ioctl(fileno(f), TIOCGWINSZ, &w) && w.ws_col)
		return w.ws_col;
	return 0;
}

struct args {
	const char *experiment;
	const char *report;
	struct run_options o;
	const char *backend, *ranks;
	bool no_report;
};

static int parse(struct args *a, int argc, char **argv)
{
	static const struct option options[] = {
		{ "backend", 1, NULL, 'b' }, { "report", 1, NULL, 'o' }, { "no-report", 0, NULL, 'n' },
		{ "reuse", 0, NULL, 'r' }, { "no-timeline", 0, NULL, 't' }, { 0 } };
	int c;

	a->o.keep_timeline = true;
	optind = 1;
	while ((c = getopt_long(argc, argv, "o:", options, NULL)) != -1) {
		switch (c) {
		case 'b': a->backend = optarg; break;
		case 'o': a->report = optarg; break;
		case 'n': a->no_report = true; break;
		case 'r': a->o.reuse = true; break;
		case 't': a->o.keep_timeline = false; break;
		default: return cmd_misuse(&cmd_run, "bad options");
		}
	}
	if (optind != argc - 1)
		return cmd_misuse(&cmd_run, "one experiment file is needed");
	a->experiment = argv[optind];
	if (!a->backend)
		return 0;
	for (int b = BACKEND_AUTO; b <= BACKEND_UML; b++) {
		if (strcmp(backend_name((enum backend_kind)b), a->backend))
			continue;
		a->o.has_backend = true;
		a->o.backend = (enum backend_kind)b;
		return 0;
	}
	return cmd_misuse(&cmd_run, "--backend %s: must be auto, netem, nfqueue or uml", a->backend);
}

static int load(const char *path, struct experiment *exp)
{
	struct bace_diags d = { 0 };
	struct bace_err e = { 0 };
	int rc = experiment_load(path, exp, &d, &e);

	if (!rc)
		return 0;
	bace_diags_print(&d, stderr);
	if (!d.n)
		cmd_error(&cmd_run, 0, "%s", e.msg);
	bace_diags_free(&d);
	return BACE_EXIT_INPUT;
}

static int exit_code(int rc)
{
	switch (rc) {
	case 0: return BACE_EXIT_OK;
	case -EINVAL: return BACE_EXIT_INPUT;
	case -ENOTSUP: return BACE_EXIT_ENV;
	default: return BACE_EXIT_FAILED;
	}
}

/* The run's tables on stdout, its report beside the store. */
static int present(const struct cmd_globals *g, const struct args *a, const char *id)
{
	struct store *s = NULL;
	struct bace_err e = { 0 };
	CLEANUP_FREE char *path = NULL;
	int rc = store_open_readonly(a->o.store_path, &s, &e);

	if (!rc && g->json)
		rc = results_print_run_json(s, id, stdout, &e);
	else if (!rc)
		rc = results_print_run(s, id, stdout, isatty(1) && !getenv("NO_COLOR"),
				       terminal_width(stdout), &e);
	if (!rc && !a->no_report) {
		const char *slash = strrchr(a->o.store_path, '/');

		if (a->report)
			path = strdup(a->report);
		else if (asprintf(&path, "%.*s%s.html", slash ? (int)(slash - a->o.store_path) + 1 : 0,
				  a->o.store_path, id) < 0)
			path = NULL;
		rc = path ? results_write_report(s, id, path, &e) : -ENOMEM;
		if (!rc)
			fprintf(g->json ? stderr : stdout, "\nreport: %s\n", path);
	}
	store_close(s);
	return rc ? cmd_error(&cmd_run, BACE_EXIT_FAILED, "%s", e.msg) : 0;
}

static int run(const struct cmd_globals *g, int argc, char **argv)
{
	struct args a = { 0 };
	struct experiment exp;
	struct bace_err e = { 0 };
	CLEANUP_FREE char *store = NULL;
	int64_t start = bace_mono_ns();
	char id[32] = "";
	int rc = parse(&a, argc, argv), shown = 0;

	if (rc)
		return rc;
	rc = load(a.experiment, &exp);
	if (rc)
		return rc;
	store = g->store ? strdup(g->store) : store_default_path();
	a.o.self = g->self;
	a.o.command = g->line;
	a.o.store_path = store;
	a.o.on_progress = g->quiet ? NULL : progress;
	a.o.cancelled = is_cancelled;
	a.o.arg = &start;
	catch_signals();
	rc = store ? run_experiment(&exp, &a.o, id, &e) : bace_fail(&e, ENOMEM, "out of memory");
	experiment_free(&exp);
	if (id[0] && (!rc || rc == -EBADMSG))
		shown = present(g, &a, id);
	if (rc)
		return cmd_error(&cmd_run, exit_code(rc), "%s", e.msg);
	return shown;
}

const struct command cmd_run = {
	.name = "run",
	.summary = "predict an experiment, measure it on shaped links, compare",
	.usage = "bace run EXPERIMENT.cfg [--backend auto|netem|nfqueue|uml] [-o REPORT.html]\n"
		 "           [--no-report] [--reuse] [--no-timeline]\n\n"
		 "Places the experiment's jobs with each of its policies, predicts their step\n"
		 "times, runs every placement as worker processes over shaped links, and prints\n"
		 "predicted against measured. All rows go to the store.\n\n"
		 "  --backend      how links are emulated (default: the best this machine can do)\n"
		 "  -o, --report   where the HTML report goes (default: beside the store)\n"
		 "  --reuse        take moments that an earlier run in the store has measured\n"
		 "                 under the same settings instead of running them again\n"
		 "  --no-timeline  do not keep every operation's row",
	.run = run,
};
