#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>

#include "harness/cmd/stored.h"

#define SCALES_AGREE 0.03

struct args {
	struct compare_options o;
	double limit;		/* fraction; NaN: none */
	bool scales;
	const char *sim, *placements;	/* files of another simulator */
};

static int parse(struct args *a, int argc, char **argv)
{
	static const struct option options[] = { { "policy", 1, NULL, 'p' }, { "job", 1, NULL, 'j' },
		{ "seed", 1, NULL, 's' }, { "resamples", 1, NULL, 'r' }, { "fail-above", 1, NULL, 'f' },
		{ "scales", 0, NULL, 'x' }, { "sim", 1, NULL, 'm' }, { "placements", 1, NULL, 'l' }, { 0 } };
	int c;

	*a = (struct args){ .o = { .seed = 1, .resamples = 2000 }, .limit = NAN };
	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'p': a->o.filter.policy = optarg; break;
		case 'j': a->o.filter.job = optarg; break;
		case 's':
			if (!bace_parse_whole(optarg, 0, UINT64_MAX, &a->o.seed))
				return cmd_misuse(&cmd_compare, "--seed %s: must be a whole number", optarg);
			break;
		case 'r':
			if (!bace_parse_int(optarg, 100, 1000000, &a->o.resamples))
				return cmd_misuse(&cmd_compare, "--resamples %s: must be 100 to 1000000", optarg);
			break;
		case 'f':
			if (parse_percent(&cmd_compare, "--fail-above", optarg, &a->limit))
				return BACE_EXIT_INPUT;
			break;
		case 'x': a->scales = true; break;
		case 'm': a->sim = optarg; break;
		case 'l': a->placements = optarg; break;
		default: return cmd_misuse(&cmd_compare, "bad options");
		}
	}
	if (!a->sim != !a->placements)
		return cmd_misuse(&cmd_compare, "--sim and --placements go together");
	if (a->scales && isnan(a->limit))
		a->limit = SCALES_AGREE;
	if (a->scales)
		return optind == argc - 2 ? 0 : cmd_misuse(&cmd_compare, "--scales needs two runs");
	if (optind != argc - 1)
		return cmd_misuse(&cmd_compare, "one run is needed");
	return 0;
}

static int run(const struct cmd_globals *g, int argc, char **argv)
{
	struct compare_summary sum = { 0 };
	struct store *s = NULL;
	struct bace_err e = { 0 };
	struct output o;
	struct args a;
	int rc = parse(&a, argc, argv);

	if (!rc)
		rc = stored_open(&cmd_compare, g, false, &s);
	if (rc)
		return rc;
	output_begin(g, &o);
	if (a.scales)
		rc = results_compare_scales(s, argv[optind], argv[optind + 1], o.to, g->json, o.color, o.width,
					    &sum.worst_abs, &e);
	else if (a.sim)
		rc = results_compare_own(s, argv[optind], a.sim, a.placements, &a.o, o.to, g->json, o.color, o.width,
					 &sum, &e);
	else
		rc = results_compare(s, argv[optind], &a.o, o.to, g->json, o.color, o.width, &sum, &e);
	if (output_end(&o) && !rc)
		rc = bace_fail(&e, EIO, "write failed");
	store_close(s);
	if (rc)
		return stored_fail(&cmd_compare, rc, &e);
	/* --scales and another simulator's results have said so themselves. */
	if (!isnan(a.limit) && !a.scales && !sum.n)
		return cmd_error(&cmd_compare, BACE_EXIT_VERDICT, "no placement has both times");
	if (sum.worst_abs > a.limit)
		return cmd_error(&cmd_compare, BACE_EXIT_VERDICT, "worst step-time %s %.1f %% is above %.1f %%",
				 a.scales ? "difference" : "error", 100 * sum.worst_abs, 100 * a.limit);
	return BACE_EXIT_OK;
}

const struct command cmd_compare = {
	.name = "compare",
	.summary = "predicted against measured, and where the gap comes from",
	.usage = "bace compare RUN [--policy LABEL] [--job NAME] [--fail-above PERCENT]\n"
		 "             [--seed N] [--resamples N]\n"
		 "       bace compare --scales RUN RUN [--fail-above PERCENT]\n"
		 "       bace compare RUN --sim MY.csv --placements MY.json [--fail-above PERCENT]\n\n"
		 "Per placement, per job and for the order of the policies, with bootstrap 95 %\n"
		 "intervals. The gap is split along the operations that a step waited for.\n\n"
		 "  --fail-above   exit status 4 when the worst step-time error is larger\n"
		 "  --scales       the same placements measured at two scales: do their unscaled\n"
		 "                 step times agree (within 3 %, unless --fail-above says otherwise)?\n"
		 "  --sim, --placements   another simulator's results beside what the run measured of\n"
		 "                 the same placements; docs/compare.md has the layout",
	.run = run,
};
