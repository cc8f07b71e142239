#include <getopt.h>

#include "harness/cmd/stored.h"

static int write_file(struct store *s, const char *run, const char *path, struct bace_err *e)
{
	struct bace_outfile out;
	int rc = bace_outfile_open(path, &out, e);

	return rc ? rc : bace_outfile_close(&out, results_write_trace(s, run, out.f, e), e);
}

static int run(const struct cmd_globals *g, int argc, char **argv)
{
	static const struct option options[] = { { "output", 1, NULL, 'o' }, { 0 } };
	CLEANUP_FREE char *beside = NULL;
	const char *path = NULL;
	struct store *s = NULL;
	struct bace_err e = { 0 };
	int c, rc;

	optind = 1;
	while ((c = getopt_long(argc, argv, "o:", options, NULL)) != -1) {
		if (c != 'o')
			return cmd_misuse(&cmd_trace, "bad options");
		path = optarg;
	}
	if (optind != argc - 1)
		return cmd_misuse(&cmd_trace, "one run is needed");
	rc = stored_open(&cmd_trace, g, false, &s);
	if (!rc && !path)
		rc = stored_beside(&cmd_trace, g, s, argv[optind], ".trace.json", &beside);
	path = path ? path : beside;
	if (!rc && (rc = write_file(s, argv[optind], path, &e)))
		rc = stored_fail(&cmd_trace, rc, &e);
	store_close(s);
	if (rc)
		return rc;
	if (g->json)
		output_path("trace", path);
	else if (!g->quiet)
		printf("trace: %s (open it in https://ui.perfetto.dev)\n", path);
	return BACE_EXIT_OK;
}

const struct command cmd_trace = {
	.name = "trace",
	.summary = "write a run's timeline for Perfetto",
	.usage = "bace trace RUN [-o FILE.json]\n\n"
		 "Chrome trace-event JSON: a process a region's host, a thread a stage, a flow a\n"
		 "message, counters the messages on every link. It is written beside the store, as\n"
		 "RUN.trace.json, unless -o says where.",
	.run = run,
};
