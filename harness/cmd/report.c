#include <errno.h>
#include <getopt.h>

#include "harness/cmd/stored.h"

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
			return cmd_misuse(&cmd_report, "bad options");
		path = optarg;
	}
	if (optind == argc)
		return cmd_misuse(&cmd_report, "at least one run is needed");
	if (!path && optind + 1 < argc)
		return cmd_misuse(&cmd_report, "-o FILE.html is needed for more than one run");
	rc = stored_open(&cmd_report, g, false, &s);
	if (!rc && !path)
		rc = stored_beside(&cmd_report, g, s, argv[optind], ".html", &beside);
	path = path ? path : beside;
	if (!rc && (rc = results_write_reports(s, (const char *const *)argv + optind, (size_t)(argc - optind), path, &e)))
		rc = stored_fail(&cmd_report, rc, &e);
	store_close(s);
	if (rc)
		return rc;
	if (g->json)
		output_path("report", path);
	else if (!g->quiet)
		printf("report: %s\n", path);
	return BACE_EXIT_OK;
}

const struct command cmd_report = {
	.name = "report",
	.summary = "write one or several runs as a self-contained HTML page",
	.usage = "bace report RUN... [-o FILE.html]\n\n"
		 "RUN is an id, the beginning of one, or `last'. The page needs no network and no\n"
		 "scripts; plots are drawn by gnuplot. It is written beside the store, as RUN.html,\n"
		 "unless -o says where; that of several runs needs it.",
	.run = run,
};
