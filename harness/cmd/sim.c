#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/cmd/cmd.h"
#include "harness/cmd/heap.h"
#include "harness/cmd/load.h"
#include "harness/cmd/progress.h"
#include "harness/cmd/sweep_table.h"

#define MAX_SEEDS 10000000

struct args {
	const char *experiment, *out, *oracle;
	struct sweep_options o;
};

static bool shard(const char *text, struct sweep_options *o)
{
	char i[16];
	const char *slash = strchr(text, '/');

	if (!slash || slash - text >= (ptrdiff_t)sizeof(i))
		return false;
	memcpy(i, text, (size_t)(slash - text));
	i[slash - text] = '\0';
	return bace_parse_int(slash + 1, 1, 1 << 20, &o->n_shards) && bace_parse_int(i, 1, o->n_shards, &o->shard);
}

static int parse_one(struct args *a, int c)
{
	struct bace_err e = { 0 };
	int64_t gap_ns;

	switch (c) {
	case 'S':	/* else an abbreviation of --seeds */
		return cmd_misuse(&cmd_sim, "--seed %s: the first seed is the experiment's `seed'; --seeds says how many", optarg);
	case 's':
		if (!bace_parse_int(optarg, 1, MAX_SEEDS, &a->o.n_seeds))
			return cmd_misuse(&cmd_sim, "--seeds %s: must be 1 to %d", optarg, MAX_SEEDS);
		break;
	case 't':
		if (!bace_parse_int(optarg, 1, 4096, &a->o.n_threads))
			return cmd_misuse(&cmd_sim, "--threads %s: must be 1 to 4096", optarg);
		break;
	case 'i':
		if (!shard(optarg, &a->o))
			return cmd_misuse(&cmd_sim, "--shard %s: must be I/N with I from 1 to N", optarg);
		break;
	case 'p':
		if (bace_parse_time_ns(optarg, &gap_ns, &e) || gap_ns <= 0)
			return cmd_misuse(&cmd_sim, "--poisson %s: %s", optarg,
					  *e.msg ? e.msg : "must be above 0");
		a->o.mean_gap_s = (double)gap_ns * 1e-9;
		break;
	case 'O': a->oracle = optarg; break;
	case 'r': a->o.resample = true; break;
	case 'o': a->out = optarg; break;
	default: return cmd_misuse(&cmd_sim, "bad options");
	}
	return 0;
}

static int parse(struct args *a, int argc, char **argv)
{
	static const struct option options[] = {
		{ "seeds", 1, NULL, 's' }, { "seed", 1, NULL, 'S' }, { "threads", 1, NULL, 't' }, { "shard", 1, NULL, 'i' },
		{ "poisson", 1, NULL, 'p' }, { "resample", 0, NULL, 'r' }, { "oracle", 1, NULL, 'O' },
		{ "output", 1, NULL, 'o' }, { 0 } };
	int c, rc = 0;

	a->o.n_seeds = 1;
	optind = 1;
	while (!rc && (c = getopt_long(argc, argv, "o:", options, NULL)) != -1)
		rc = parse_one(a, c);
	if (rc)
		return rc;
	if (optind != argc - 1)
		return cmd_misuse(&cmd_sim, "one experiment file is needed");
	if (a->o.n_shards && !a->out)
		return cmd_misuse(&cmd_sim, "--shard needs -o FILE for `bace merge'");
	a->experiment = argv[optind];
	return 0;
}

static int choose_oracles(struct args *a, const struct experiment *exp)
{
	a->o.closed_form = exp->oracle_closed_form;
	/* measured is the testbed's; what it is set against is the event simulation */
	a->o.event_sim = exp->oracle_event_sim || !exp->oracle_closed_form;
	if (!a->oracle)
		return 0;
	a->o.closed_form = !strcmp(a->oracle, "closed-form");
	a->o.event_sim = !strcmp(a->oracle, "event-sim");
	if (!a->o.closed_form && !a->o.event_sim)
		return cmd_misuse(&cmd_sim, "--oracle %s: must be closed-form or event-sim", a->oracle);
	return 0;
}

/* A name that no policy has is bad input, found before anything runs. */
static int check_policies(const struct experiment *exp)
{
	int rc = 0;

	for (int i = 0; i < exp->n_policies; i++) {
		const struct policy_spec *s = &exp->policies[i];
		struct policy *p = NULL;
		struct bace_err e = { 0 };
		int made = policy_create(s, exp->seed, &p, &e);

		if (made)
			fprintf(stderr, "%s:%d: key `name' = \"%s\": %s\n",
				s->file ? s->file : exp->path, s->line, s->name, e.msg);
		if (made)
			rc = made == -ENOMEM ? BACE_EXIT_FAILED : BACE_EXIT_INPUT;
		policy_destroy(p);
	}
	return rc;
}

static int show(const struct command *c, const struct sweep *s, bool json)
{
	struct bace_err e = { 0 };
	int failed = json ? sweep_print_json(s, stdout, &e) : sweep_print(s, stdout, &e);

	if (failed < 0)
		return cmd_error(c, BACE_EXIT_FAILED, "%s", e.msg);
	return failed ? BACE_EXIT_FAILED : BACE_EXIT_OK;
}

static int finish(const struct cmd_globals *g, const struct args *a, const struct sweep *s)
{
	struct bace_err e = { 0 };

	if (a->out && sweep_write(s, a->out, &e))
		return cmd_error(&cmd_sim, BACE_EXIT_FAILED, "%s", e.msg);
	if (s->n_shards)
		return BACE_EXIT_OK;
	return show(&cmd_sim, s, g->json);
}

static int run_sim(const struct cmd_globals *g, int argc, char **argv)
{
	struct args a = { 0 };
	struct experiment exp;
	struct sweep s;
	struct bace_err e = { 0 };
	struct progress bar;
	int rc = parse(&a, argc, argv);

	if (!rc)
		rc = load_experiment(&cmd_sim, a.experiment, &exp);
	if (rc)
		return rc;
	rc = choose_oracles(&a, &exp);
	if (!rc)
		rc = check_policies(&exp);
	if (rc) {
		experiment_free(&exp);
		return rc;
	}
	heap_keep();
	progress_begin(&bar, "cells", g->quiet);
	a.o.on_progress = progress_show;
	a.o.arg = &bar;
	rc = sweep_run(&exp, &a.o, &s, &e);
	progress_end(&bar);
	experiment_free(&exp);
	if (rc)
		return cmd_error(&cmd_sim, rc == -EINVAL ? BACE_EXIT_INPUT : BACE_EXIT_FAILED, "%s", e.msg);
	if (s.n_seeds > 1 && !s.varies && !g->quiet)
		cmd_error(&cmd_sim, 0, "nothing in this experiment depends on the seed: noise in the view, "
			  "--poisson or --resample would");
	rc = finish(g, &a, &s);
	sweep_free(&s);
	return rc;
}

const struct command cmd_sim = {
	.name = "sim",
	.summary = "simulate all policies of an experiment, over many seeds",
	.usage = "bace sim EXPERIMENT.cfg [--seeds N] [--poisson GAP] [--resample]\n"
		 "           [--oracle closed-form|event-sim] [--threads N] [--json]\n"
		 "           [--shard I/N] [-o FILE]\n\n"
		 "Runs every policy of the experiment on every seed and prints mean, median and\n"
		 "95th percentile of the job completion time, waiting, utilisation, energy and\n"
		 "cost, with bootstrap intervals, and differences to the first policy, paired.\n"
		 "The first seed is the experiment's. A seed draws the noise of the view and what\n"
		 "random policies draw; with the options below jobs, too.\n\n"
		 "  --seeds N      how many (default 1: intervals are then over jobs)\n"
		 "  --poisson GAP  arrivals at exponential gaps of this mean, e.g. 20min, in an\n"
		 "                 order drawn\n"
		 "  --resample     as many jobs, drawn with replacement from the experiment's\n"
		 "  --oracle O     step times by one oracle (default: the experiment's)\n"
		 "  --threads N    default: all processors; results do not depend on it\n"
		 "  --shard I/N    only each Nth cell, to a file for `bace merge': one task of a\n"
		 "                 Slurm array\n"
		 "  -o FILE        the numbers of every cell, as JSON",
	.run = run_sim,
};

/* ---- merge ---- */

static int check_complete(const struct sweep *s)
{
	int missing = 0;

	for (int i = 0; i < s->n_cells; i++)
		missing += !s->cells[i].done;
	if (missing)
		return cmd_error(&cmd_merge, BACE_EXIT_INPUT,
				 "%d of %d cells are missing: all %d shards are needed", missing, s->n_cells,
				 s->n_shards ? s->n_shards : 1);
	return 0;
}

static int merge_files(int n, char **paths, struct sweep *s)
{
	struct bace_err e = { 0 };
	int rc = sweep_read(paths[0], s, &e);

	for (int i = 1; i < n && !rc; i++) {
		struct sweep next = { 0 };

		rc = sweep_read(paths[i], &next, &e);
		if (rc)
			break;
		rc = sweep_merge(s, &next, &e);
		if (rc)
			bace_err_context(&e, "%s", paths[i]);
		sweep_free(&next);
	}
	if (rc)
		return cmd_error(&cmd_merge, BACE_EXIT_INPUT, "%s", e.msg);
	return 0;
}

static int run_merge(const struct cmd_globals *g, int argc, char **argv)
{
	static const struct option options[] = { { "output", 1, NULL, 'o' }, { 0 } };
	struct sweep s = { 0 };
	struct bace_err e = { 0 };
	const char *out = NULL;
	int c, rc;

	optind = 1;
	while ((c = getopt_long(argc, argv, "o:", options, NULL)) != -1) {
		if (c != 'o')
			return cmd_misuse(&cmd_merge, "bad options");
		out = optarg;
	}
	if (optind == argc)
		return cmd_misuse(&cmd_merge, "the files of all shards are needed");
	rc = merge_files(argc - optind, argv + optind, &s);
	if (!rc)
		rc = check_complete(&s);
	if (!rc) {
		s.shard = s.n_shards = 0;
		rc = out && sweep_write(&s, out, &e) ? cmd_error(&cmd_merge, BACE_EXIT_FAILED, "%s", e.msg) :
						       show(&cmd_merge, &s, g->json);
	}
	sweep_free(&s);
	return rc;
}

const struct command cmd_merge = {
	.name = "merge",
	.summary = "put the shards of a `bace sim' together",
	.usage = "bace merge FILE... [--json] [-o FILE]\n\n"
		 "Prints what `bace sim' without --shard would have printed, bit for bit, from the\n"
		 "files that `bace sim --shard I/N -o FILE' wrote. -o writes them as one file.",
	.run = run_merge,
};
