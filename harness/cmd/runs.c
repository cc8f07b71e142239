#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cmd/stored.h"

static bool is_status(const char *text)
{
	static const char *const all[] = { "running", "done", "failed", "interrupted", "killed" };

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (!strcmp(all[i], text))
			return true;
	return false;
}

static int run(const struct cmd_globals *g, int argc, char **argv)
{
	static const struct option options[] = { { "experiment", 1, NULL, 'e' }, { "status", 1, NULL, 's' },
		{ "limit", 1, NULL, 'n' }, { 0 } };
	struct runs_filter f = { .limit = 0 };
	struct store *s = NULL;
	struct bace_err e = { 0 };
	struct output o;
	int c, rc;

	optind = 1;
	while ((c = getopt_long(argc, argv, "n:", options, NULL)) != -1) {
		switch (c) {
		case 'e': f.experiment = optarg; break;
		case 's':
			f.status = optarg;
			if (!is_status(optarg))
				return cmd_misuse(&cmd_runs, "--status %s: must be running, done, failed, interrupted or "
						  "killed", optarg);
			break;
		case 'n':
			if (!bace_parse_int(optarg, 1, INT_MAX, &f.limit))
				return cmd_misuse(&cmd_runs, "-n %s: must be a number from 1 on", optarg);
			break;
		default: return cmd_misuse(&cmd_runs, "bad options");
		}
	}
	if (optind != argc)
		return cmd_misuse(&cmd_runs, "`%s': no argument is taken", argv[optind]);
	rc = stored_open(&cmd_runs, g, false, &s);
	if (rc)
		return rc;
	output_begin(g, &o);
	rc = results_print_runs(s, &f, o.to, g->json, o.color, o.width, &e);
	if (output_end(&o) && !rc)
		rc = bace_fail(&e, EIO, "write failed");
	store_close(s);
	return rc ? stored_fail(&cmd_runs, rc, &e) : BACE_EXIT_OK;
}

const struct command cmd_runs = {
	.name = "runs",
	.summary = "list the runs in the store, newest first",
	.usage = "bace runs [--experiment NAME] [--status STATUS] [-n COUNT]\n\n"
		 "  --status       running, done, failed, interrupted or killed; running? is a run\n"
		 "                 whose process cannot be seen from here\n"
		 "  -n, --limit    at most so many",
	.run = run,
};
