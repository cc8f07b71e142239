#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cmd/fidelity_table.h"
#include "harness/cmd/load.h"
#include "harness/cmd/signals.h"

#define LIST_MAX 32

static void progress(void *arg, const char *line)
{
	const int64_t *start = arg;

	fprintf(stderr, "%6.1f s  %s\n", (double)(bace_mono_ns() - *start) / 1e9, line);
}

struct args {
	const char *experiment;
	struct fidelity_options o;
	enum schedule_kind schedules[LIST_MAX];
	int stages[LIST_MAX], micro_batches[LIST_MAX];
	struct fidelity_limits limits;
};

static int schedule_list(const char *text, enum schedule_kind *v, int *n)
{
	char *copy = strdup(text), *at = copy, *word;
	int rc = copy ? 0 : -ENOMEM;

	for (*n = 0; !rc && (word = strsep(&at, ",")); ++*n)
		rc = *n == LIST_MAX ? -E2BIG : schedule_from_name(word, &v[*n]);
	free(copy);
	return rc;
}

static int number_list(const char *text, int least, int most, int *v, int *n)
{
	const char *p = text;

	for (*n = 0; *n < LIST_MAX;) {
		char *end;
		long x = strtol(p, &end, 10);

		if (end == p || x < least || x > most || (*end && *end != ','))
			return -EINVAL;
		v[(*n)++] = (int)x;
		if (!*end)
			return 0;
		p = end + 1;
	}
	return -E2BIG;
}

static int percent(const char *text, double *out)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || *end || !(v > 0 && v <= 1000))
		return -EINVAL;
	*out = v / 100;
	return 0;
}

static int take_lists(struct args *a, int c)
{
	switch (c) {
	case 's':
		return schedule_list(optarg, a->schedules, &a->o.n_schedules) ? cmd_misuse(&cmd_fidelity,
			"--schedules %s: must be gpipe, 1f1b, eager-1f1b, interleaved-1f1b, zb-h1, with commas "
			"between", optarg) : 0;
	case 'p':
		return number_list(optarg, 2, FIDELITY_STAGES_MAX, a->stages, &a->o.n_stages) ?
			cmd_misuse(&cmd_fidelity, "--stages %s: must be 2 to %d each, with commas between", optarg,
				   FIDELITY_STAGES_MAX) : 0;
	default:
		return number_list(optarg, 1, 1 << 20, a->micro_batches, &a->o.n_micro_batches) ?
			cmd_misuse(&cmd_fidelity, "--micro-batches %s: must be 1 to %d each, with commas between",
				   optarg, 1 << 20) : 0;
	}
}

static int take_number(const char *option, int most, int *out)
{
	int v[LIST_MAX], n;

	if (number_list(optarg, 1, most, v, &n) || n != 1)
		return cmd_misuse(&cmd_fidelity, "--%s %s: must be 1 to %d", option, optarg, most);
	*out = v[0];
	return 0;
}

static int take_gradient(struct args *a)
{
	struct bace_err e;
	uint64_t v;

	if (bace_parse_size_bytes(optarg, &v, &e) || !v)
		return cmd_misuse(&cmd_fidelity, "--gradient %s: must be a size with a unit", optarg);
	a->o.gradient_bytes = (double)v;
	return 0;
}

static int take_percent(const char *option, double *out)
{
	return percent(optarg, out) ? cmd_misuse(&cmd_fidelity, "--%s %s: must be above 0", option, optarg) : 0;
}

static int take_option(struct args *a, int c)
{
	switch (c) {
	case 'b': return cmd_backend(&cmd_fidelity, optarg, &a->o.has_backend, &a->o.backend);
	case 's':
	case 'p':
	case 'm': return take_lists(a, c);
	case 'n': return take_number("sample", 1000000, &a->o.sample);
	case 'a': return take_number("at-once", 1000, &a->o.at_once);
	case 'r': return take_number("replicas", FIDELITY_STAGES_MAX / 2, &a->o.replicas);
	case 't': return take_number("tries", 100, &a->o.tries);
	case 'g': return take_gradient(a);
	case 'M': return take_percent("median", &a->limits.median);
	case 'W': return take_percent("worst", &a->limits.worst);
	case 'c': a->o.curve = true; return 0;
	case 'x': a->o.overlap = false; return 0;
	}
	return cmd_misuse(&cmd_fidelity, "bad options");
}

static int parse(struct args *a, int argc, char **argv)
{
	static const struct option options[] = {
		{ "backend", 1, NULL, 'b' }, { "schedules", 1, NULL, 's' }, { "stages", 1, NULL, 'p' },
		{ "micro-batches", 1, NULL, 'm' }, { "sample", 1, NULL, 'n' }, { "tries", 1, NULL, 't' }, { "curve", 0, NULL, 'c' }, { "at-once", 1, NULL, 'a' },
		{ "replicas", 1, NULL, 'r' }, { "gradient", 1, NULL, 'g' },
		{ "no-overlap", 0, NULL, 'x' }, { "median", 1, NULL, 'M' }, { "worst", 1, NULL, 'W' }, { 0 } };
	int c;

	schedule_list("gpipe,1f1b,eager-1f1b,interleaved-1f1b,zb-h1", a->schedules, &a->o.n_schedules);
	number_list("2,4,8", 2, FIDELITY_STAGES_MAX, a->stages, &a->o.n_stages);
	number_list("4,8,16", 1, 16, a->micro_batches, &a->o.n_micro_batches);
	a->o.overlap = true;
	a->o.tries = 3;
	a->o.replicas = 1;
	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		int rc = take_option(a, c);

		if (rc)
			return rc;
	}
	if (optind < argc - 1)
		return cmd_misuse(&cmd_fidelity, "one experiment file at most");
	a->experiment = optind < argc ? argv[optind] : "fidelity";
	a->o.schedules = a->schedules;
	a->o.stages = a->stages;
	a->o.micro_batches = a->micro_batches;
	return 0;
}

static int present(const struct args *a, const struct fidelity *f, bool json)
{
	struct fidelity_summary s = fidelity_summarise(f);
	bool holds = s.median <= a->limits.median && s.worst <= a->limits.worst;

	if (json) {
		if (fidelity_json(f, &s, stdout))
			return cmd_error(&cmd_fidelity, BACE_EXIT_FAILED, "out of memory");
	} else {
		a->o.curve ? fidelity_print_curve(f, stdout) : fidelity_print_matrix(f, stdout);
		fidelity_print_schedules(f, stdout);
		fidelity_print_summary(f, &s, &a->limits, stdout);
		printf("In %.0f s.\n", (double)(bace_mono_ns() - *(const int64_t *)a->o.arg) / 1e9);
	}
	if (s.n_invalid)
		return BACE_EXIT_FAILED;
	return holds ? BACE_EXIT_OK : BACE_EXIT_VERDICT;
}

static int run(const struct cmd_globals *g, int argc, char **argv)
{
	struct args a = { .limits = { .worst = 0.1 } };
	struct experiment exp;
	struct fidelity f = { 0 };
	struct bace_err e = { 0 };
	int64_t start = bace_mono_ns();
	int rc = parse(&a, argc, argv);

	if (rc)
		return rc;
	rc = load_experiment(&cmd_fidelity, a.experiment, &exp);
	if (rc)
		return rc;
	a.o.self = g->self;
	a.o.on_progress = g->quiet ? NULL : progress;
	a.o.cancelled = signals_caught;
	a.o.arg = &start;
	signals_catch();
	rc = fidelity_run(&exp, &a.o, &f, &e);
	if (!rc && a.limits.median <= 0)
		a.limits.median = strcmp(f.backend, "uml") ? 0.03 : 0.05;
	rc = rc ? cmd_error(&cmd_fidelity, cmd_exit_of(rc, true), "%s", e.msg) : present(&a, &f, g->json);
	fidelity_free(&f);
	experiment_free(&exp);
	return rc;
}

const struct command cmd_fidelity = {
	.name = "fidelity",
	.summary = "pipelines with one slow hop, measured and simulated",
	.usage = "bace fidelity [EXPERIMENT.cfg] [--schedules S,S,...] [--stages P,P,...]\n"
		 "           [--micro-batches M,M,...] [--curve] [--no-overlap] [--sample N]\n"
		 "           [--replicas D] [--gradient SIZE] [--at-once N]\n"
		 "           [--tries N] [--backend auto|netem|nfqueue|uml] [--median PERCENT] [--worst PERCENT]\n\n"
		 "Runs pipelines whose hops are alike but for one, and sets measured step times\n"
		 "beside the event simulation: every schedule, number of stages and of micro-batches,\n"
		 "the slow hop at every place, with its cost c (latency and transfer) below and above\n"
		 "(t_F + t_B) / 2. A stage is one layer of the model of the experiment's first job, on\n"
		 "a region of its own; the cluster's links give the latencies. Default: the profile\n"
		 "`fidelity' (slower: `fidelity-slow', `fidelity-uml'). Nothing is stored.\n\n"
		 "  --schedules      gpipe,1f1b,eager-1f1b,interleaved-1f1b,zb-h1\n"
		 "  --stages         2,4,8\n"
		 "  --micro-batches  4,8,16; interleaved-1f1b only where it is a multiple of the stages\n"
		 "  --curve          the slow hop in the middle, with all latencies that there are\n"
		 "  --no-overlap     a stage does not compute while its message leaves\n"
		 "  --replicas       so many pipelines that sum their gradients at the end of a step, each\n"
		 "                   stage over a ring of near hops (default 1); the slow hop is the first's\n"
		 "  --gradient       of a stage (default: the model's parameters of a layer)\n"
		 "  --sample         so many points, evenly from all\n"
		 "  --at-once        so many points, if their paths share no link (default: all that have\n"
		 "                   room; 1 in User-Mode Linux, which has one processor)\n"
		 "  --tries          of a cell that the machine was too busy for (default 3)\n"
		 "  --median         largest median error (default 3, in User-Mode Linux 5)\n"
		 "  --worst          largest error (default 10)\n\n"
		 "Status 4: an error is larger than that. 1: points could not be measured.",
	.run = run,
};
