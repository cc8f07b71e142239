#include <errno.h>
#include <getopt.h>

#include "harness/cmd/stored.h"

static int run(const struct cmd_globals *g, int argc, char **argv)
{
	static const struct option options[] = { { "policy", 1, NULL, 'p' }, { "job", 1, NULL, 'j' }, { 0 } };
	struct run_filter f = { 0 };
	struct store *s = NULL;
	struct bace_err e = { 0 };
	struct output o;
	int c, rc;

	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'p': f.policy = optarg; break;
		case 'j': f.job = optarg; break;
		default: return cmd_misuse(&cmd_show, "bad options");
		}
	}
	if (optind != argc - 1)
		return cmd_misuse(&cmd_show, "one run is needed");
	rc = stored_open(&cmd_show, g, false, &s);
	if (rc)
		return rc;
	output_begin(g, &o);
	rc = g->json ? results_print_run_part_json(s, argv[optind], &f, o.to, &e) :
		results_print_run_part(s, argv[optind], &f, o.to, o.color, o.width, &e);
	if (output_end(&o) && !rc)
		rc = bace_fail(&e, EIO, "write failed");
	store_close(s);
	return rc ? stored_fail(&cmd_show, rc, &e) : BACE_EXIT_OK;
}

const struct command cmd_show = {
	.name = "show",
	.summary = "print a run: step times, policies, links, what was left out",
	.usage = "bace show RUN [--policy LABEL] [--job NAME]\n\n"
		 "RUN is an id, the beginning of one, or `last'.",
	.run = run,
};
