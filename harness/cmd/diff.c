#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>

#include "harness/cmd/stored.h"

int diff_stored(const struct command *c, const struct cmd_globals *g, const char *first, const char *second,
		const struct diff_options *o, double limit)
{
	struct diff_summary sum = { 0 };
	struct bace_err e = { 0 };
	struct store *s = NULL;
	struct output out;
	int rc = stored_open(c, g, o->record, &s);

	if (rc)
		return rc;
	output_begin(g, &out);
	rc = results_diff(s, first, second, o, out.to, g->json, out.color, out.width, &sum, &e);
	if (output_end(&out) && !rc)
		rc = bace_fail(&e, EIO, "write failed");
	store_close(s);
	if (rc)
		return stored_fail(c, rc, &e);
	if (isnan(limit))
		return BACE_EXIT_OK;
	if (!sum.n)
		return cmd_error(c, BACE_EXIT_VERDICT, "no placement was measured in both runs");
	if (sum.worst_abs > limit)
		return cmd_error(c, BACE_EXIT_VERDICT, "worst step-time difference %.2f %% is above %.2f %%",
				 100 * sum.worst_abs, 100 * limit);
	return BACE_EXIT_OK;
}

int parse_percent(const struct command *c, const char *option, const char *text, double *out)
{
	char *end;

	*out = strtod(text, &end) / 100;
	if (*end || end == text || !(*out >= 0))
		return cmd_misuse(c, "%s %s: must be a percentage, e.g. 12", option, text);
	return 0;
}

static int run(const struct cmd_globals *g, int argc, char **argv)
{
	static const struct option options[] = { { "fail-above", 1, NULL, 'f' }, { 0 } };
	struct diff_options o = { .seed = 1, .resamples = 2000 };
	double limit = NAN;
	int c, rc = 0;

	optind = 1;
	while (!rc && (c = getopt_long(argc, argv, "", options, NULL)) != -1)
		rc = c == 'f' ? parse_percent(&cmd_diff, "--fail-above", optarg, &limit) :
				cmd_misuse(&cmd_diff, "bad options");
	if (rc)
		return rc;
	if (optind != argc - 2)
		return cmd_misuse(&cmd_diff, "two runs are needed");
	return diff_stored(&cmd_diff, g, argv[optind], argv[optind + 1], &o, limit);
}

const struct command cmd_diff = {
	.name = "diff",
	.summary = "two runs side by side: how they came about, step times, policies",
	.usage = "bace diff RUN RUN [--fail-above PERCENT]\n\n"
		 "Placements that both measured, each with the difference of its median step time\n"
		 "and a bootstrap 95 % interval; completion times and costs by policy and oracle.\n\n"
		 "  --fail-above   exit status 4 when the worst step-time difference is larger",
	.run = run,
};
