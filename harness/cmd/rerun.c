#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/cmd/execute.h"
#include "harness/cmd/stored.h"

struct args {
	struct execution x;
	double limit;		/* fraction; NaN: none */
};

static int parse(struct args *a, int argc, char **argv)
{
	static const struct option options[] = { { "backend", 1, NULL, 'b' }, { "fail-above", 1, NULL, 'f' },
		{ "report", 1, NULL, 'o' }, { "no-report", 0, NULL, 'n' }, { "no-timeline", 0, NULL, 't' }, { 0 } };
	int c, rc = 0;

	*a = (struct args){ .x = { .command = &cmd_rerun, .no_tables = true, .o.keep_timeline = true }, .limit = NAN };
	optind = 1;
	while (!rc && (c = getopt_long(argc, argv, "o:", options, NULL)) != -1) {
		switch (c) {
		case 'b': rc = cmd_backend(&cmd_rerun, optarg, &a->x.o.has_backend, &a->x.o.backend); break;
		case 'f': rc = parse_percent(&cmd_rerun, "--fail-above", optarg, &a->limit); break;
		case 'o': a->x.report = optarg; break;
		case 'n': a->x.no_report = true; break;
		case 't': a->x.o.keep_timeline = false; break;
		default: rc = cmd_misuse(&cmd_rerun, "bad options");
		}
	}
	if (!rc && optind != argc - 1)
		rc = cmd_misuse(&cmd_rerun, "one run is needed");
	return rc;
}

/* The full id, what it ran, and how links were emulated. */
static int read_run(const struct cmd_globals *g, const char *given, char id[32], char **text, char **backend)
{
	char kind[16] = "";
	struct bace_err e = { 0 };
	struct store *s = NULL;
	int rc = stored_open(&cmd_rerun, g, false, &s);

	if (rc)
		return rc;
	rc = store_find_run(s, given, id, &e);
	if (!rc)
		rc = store_run_kind(s, id, kind, &e);
	if (!rc && strcmp(kind, "run"))
		rc = bace_fail(&e, EINVAL, "run %s is of `bace %s', which cannot be repeated from the store: type its command "
			       "again (`bace show %s --json' has it)", id, kind, id);
	if (!rc)
		rc = store_run_config(s, id, text, backend, &e);
	store_close(s);
	return rc ? stored_fail(&cmd_rerun, rc, &e) : 0;
}

/* Its files as they were, in one that the lab's own process can read, too. */
static int write_bundle(const char *text, char path[64])
{
	int fd, rc;

	snprintf(path, 64, "/tmp/bace-rerun-XXXXXX");
	fd = mkstemp(path);
	if (fd < 0)
		return cmd_error(&cmd_rerun, BACE_EXIT_ENV, "%s: %s", path, strerror(errno));
	rc = bace_write_all(fd, text, strlen(text));
	if (close(fd) && !rc)
		rc = -errno;
	if (!rc)
		return 0;
	unlink(path);
	return cmd_error(&cmd_rerun, BACE_EXIT_ENV, "%s: %s", path, strerror(-rc));
}

static int repeat(const struct cmd_globals *g, struct args *a, const char *text, const char *backend, char id[32])
{
	struct experiment exp;
	char path[64];
	int rc = backend[0] && !a->x.o.has_backend ? cmd_backend(&cmd_rerun, backend, &a->x.o.has_backend, &a->x.o.backend) : 0;

	if (!rc)
		rc = write_bundle(text, path);
	if (rc)
		return rc;
	rc = load_experiment(&cmd_rerun, path, &exp);
	if (!rc) {
		rc = execute(g, &a->x, &exp, id);
		experiment_free(&exp);
	}
	unlink(path);
	return rc;
}

static int run(const struct cmd_globals *g, int argc, char **argv)
{
	CLEANUP_FREE char *text = NULL, *backend = NULL;
	char first[32], second[32] = "";
	struct args a;
	int rc = parse(&a, argc, argv), compared;

	if (!rc)
		rc = read_run(g, argv[optind], first, &text, &backend);
	if (rc)
		return rc;
	rc = repeat(g, &a, text, backend, second);
	if (!second[0])
		return rc;
	compared = diff_stored(&cmd_rerun, g, first, second,
			       &(struct diff_options){ .seed = 1, .resamples = 2000, .record = true }, a.limit);
	return rc ? rc : compared;
}

const struct command cmd_rerun = {
	.name = "rerun",
	.summary = "repeat a run from its record, and compare",
	.usage = "bace rerun RUN [--backend auto|netem|nfqueue|uml] [--fail-above PERCENT]\n"
		 "           [-o REPORT.html] [--no-report] [--no-timeline]\n\n"
		 "Runs what RUN ran: the experiment and all its files are taken from the store, as\n"
		 "they were then; links are emulated as then unless --backend says otherwise. Then\n"
		 "prints what `bace diff' prints, and keeps it with the new run.\n\n"
		 "  --fail-above   exit status 4 when the worst step-time difference is larger",
	.run = run,
};
