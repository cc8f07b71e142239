#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cmd/claims_summary.h"
#include "harness/cmd/cmd.h"
#include "harness/cmd/heap.h"
#include "harness/cmd/load.h"
#include "harness/cmd/progress.h"
#include "results/results.h"

#define DEFAULT_BASE "six-regions-paper"
#define DEFAULT_SCENARIOS 1000
#define MAX_SCENARIOS 1000000

struct args {
	const char *base, *html;
	struct claims_options o;
	bool verdict;
};

static int parse_one(struct args *a, int c)
{
	switch (c) {
	case 'n':
		if (!bace_parse_int(optarg, 1, MAX_SCENARIOS, &a->o.n_scenarios))
			return cmd_misuse(&cmd_claims, "--scenarios %s: must be 1 to %d", optarg, MAX_SCENARIOS);
		break;
	case 's':
		if (!bace_parse_whole(optarg, 0, UINT64_MAX, &a->o.seed))
			return cmd_misuse(&cmd_claims, "--seed %s: must be a whole number", optarg);
		break;
	case 't':
		if (!bace_parse_int(optarg, 1, 4096, &a->o.n_threads))
			return cmd_misuse(&cmd_claims, "--threads %s: must be 1 to 4096", optarg);
		break;
	case 'v': a->verdict = true; break;
	case 'o': a->html = optarg; break;
	default: return cmd_misuse(&cmd_claims, "bad options");
	}
	return 0;
}

static int parse(struct args *a, int argc, char **argv)
{
	static const struct option options[] = {
		{ "scenarios", 1, NULL, 'n' }, { "seed", 1, NULL, 's' }, { "threads", 1, NULL, 't' },
		{ "verdict", 0, NULL, 'v' }, { "output", 1, NULL, 'o' }, { 0 } };
	int c, rc = 0;

	a->o.n_scenarios = DEFAULT_SCENARIOS;
	a->o.seed = 1;
	optind = 1;
	while (!rc && (c = getopt_long(argc, argv, "o:", options, NULL)) != -1)
		rc = parse_one(a, c);
	if (!rc && argc - optind > 1)
		rc = cmd_misuse(&cmd_claims, "one experiment at most");
	a->base = optind < argc ? argv[optind] : DEFAULT_BASE;
	return rc;
}

static int keep(const struct cmd_globals *g, const struct experiment *base, const struct summary *sum, struct bace_err *e)
{
	struct store *s = NULL;
	char id[32];
	int rc = store_open(g->store, &s, e);

	if (!rc)
		rc = claims_keep(s, g->line, base, sum, id, e);
	fflush(stdout);	/* not into the middle of a table, where both go to one place */
	if (!rc && !g->quiet)
		fprintf(stderr, "run %s, store %s; `bace --store %s report %s' shows it\n", id, g->store, g->store, id);
	store_close(s);
	return rc;
}

static int present(const struct cmd_globals *g, const struct args *a, const struct experiment *base,
		   const struct claims *c)
{
	struct summary s;
	struct bace_err e = { 0 };
	int rc = summary_build(c, &s, &e);

	if (rc)
		return cmd_error(&cmd_claims, BACE_EXIT_FAILED, "%s", e.msg);
	if (g->json)
		rc = claims_print_json(&s, stdout, &e);
	else
		claims_print(&s, stdout);
	if (!rc && a->html)
		rc = claims_write_html(&s, a->html, &e);
	if (!rc && g->store)
		rc = keep(g, base, &s, &e);
	if (rc)
		rc = cmd_error(&cmd_claims, BACE_EXIT_FAILED, "%s", e.msg);
	else if (a->verdict && !summary_all_hold(&s))
		rc = BACE_EXIT_VERDICT;
	summary_free(&s);
	return rc;
}

static int run(const struct cmd_globals *g, int argc, char **argv)
{
	struct args a = { 0 };
	struct experiment base;
	struct claims c;
	struct bace_err e = { 0 };
	struct progress bar;
	int rc = parse(&a, argc, argv);

	if (!rc)
		rc = load_experiment(&cmd_claims, a.base, &base);
	if (rc)
		return rc;
	heap_keep();
	progress_begin(&bar, "scenarios", g->quiet);
	a.o.on_progress = progress_show;
	a.o.arg = &bar;
	rc = claims_run(&base, &a.o, &c, &e);
	progress_end(&bar);
	if (rc) {
		rc = cmd_error(&cmd_claims, rc == -EINVAL ? BACE_EXIT_INPUT : BACE_EXIT_FAILED, "%s", e.msg);
	} else {
		rc = present(g, &a, &base, &c);
		claims_free(&c);
	}
	experiment_free(&base);
	return rc;
}

const struct command cmd_claims = {
	.name = "claims",
	.summary = "set the published figures beside scenarios drawn from their ranges",
	.usage = "bace claims [EXPERIMENT] [--scenarios N] [--seed N] [--threads N] [--json]\n"
		 "            [-o FILE.html] [--verdict]\n\n"
		 "Draws scenarios from the ranges that public summaries of BACE-Pipe state and runs\n"
		 "its policy, the four baselines and the ablations on each: with the default\n"
		 "choices and either start rule, and with the choices that the sources leave open\n"
		 "drawn as well. Prints, for each published figure, our distribution, the share of\n"
		 "scenarios with its direction and within its range, and what it goes with.\n\n"
		 "  EXPERIMENT       regions, latencies, PUE, GPU and models are taken from it; the\n"
		 "                   rest is drawn (default: six-regions-paper)\n"
		 "  --scenarios N    default 1000\n"
		 "  --seed N         of the first scenario, default 1\n"
		 "  -o FILE.html     one self-contained page, with the sweep and correlations\n"
		 "  --verdict        exit 4 unless every figure holds\n\n"
		 "With `bace --store FILE claims' the figures are kept there, too, for `bace report'.",
	.run = run,
};
