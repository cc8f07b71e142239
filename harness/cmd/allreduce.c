#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cmd/micro.h"
#include "harness/run/run.h"
#include "workloads/worker/worker.h"

struct args {
	const char *experiment, *names, *sizes_text;
	struct allreduce_options o;
	uint64_t sizes[MICRO_SIZES_MAX];
	int regions[REGIONS_MAX];
};

static int parse(struct args *a, int argc, char **argv)
{
	static const struct option options[] = {
		{ "backend", 1, NULL, 'b' }, { "regions", 1, NULL, 'r' }, { "sizes", 1, NULL, 's' }, { 0 } };
	int c, rc = 0;

	a->sizes_text = "16kB,128kB,1MB";
	optind = 1;
	while (!rc && (c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'b':
			rc = cmd_backend(&cmd_allreduce, optarg, &a->o.has_backend, &a->o.backend);
			break;
		case 'r': a->names = optarg; break;
		case 's': a->sizes_text = optarg; break;
		default: rc = cmd_misuse(&cmd_allreduce, "bad options");
		}
	}
	if (!rc && optind != argc - 1)
		rc = cmd_misuse(&cmd_allreduce, "one experiment file is needed");
	a->experiment = rc ? NULL : argv[optind];
	return rc;
}

/* All of the cluster, or those that are named, each once. */
static int choose_regions(struct args *a, const struct experiment *exp)
{
	CLEANUP_FREE char *copy = a->names ? strdup(a->names) : NULL;
	char *at = copy, *word;

	a->o.regions = a->regions;
	for (int i = 0; !a->names && i < exp->cluster.n_regions; i++)
		a->regions[a->o.n_regions++] = i;
	while (a->names && (word = strsep(&at, ","))) {
		int r = micro_region(exp, word);

		if (r < 0)
			return cmd_error(&cmd_allreduce, BACE_EXIT_INPUT, "%s: cluster %s has no region %s", exp->path,
					 exp->cluster.name, word);
		for (int i = 0; i < a->o.n_regions; i++)
			if (a->regions[i] == r)
				return cmd_error(&cmd_allreduce, BACE_EXIT_INPUT, "--regions: %s is named twice", word);
		a->regions[a->o.n_regions++] = r;
	}
	return 0;
}

static double bus_share(const struct args *a)
{
	return 2.0 * (a->o.n_regions - 1) / a->o.n_regions;
}

static void print_text(const struct allreduce *p, const struct experiment *exp, const struct args *a)
{
	for (int i = 0; i < a->o.n_regions; i++)
		printf("%s > ", exp->cluster.regions[a->regions[i]].name);
	printf("%s, backend %s, scaled as the experiment says. Time: from one end to the\n"
	       "next, median. algbw: size / time. busbw: algbw x 2 (D - 1) / D, D = %d.\n\n"
	       "        size       time ms   p95 ms  planned ms  ratio  algbw Mbit/s  busbw Mbit/s     n\n",
	       exp->cluster.regions[a->regions[0]].name, p->backend, a->o.n_regions);
	for (int i = 0; i < p->n; i++) {
		const struct allreduce_row *r = &p->rows[i];
		double algbw = (double)r->bytes * 8 / r->time_s / 1e6;

		printf("%10llu B  %12.3f %8.3f  %10.3f  %5.3f  %12.2f  %12.2f  %4d\n", (unsigned long long)r->bytes,
		       r->time_s * 1e3, r->time_p95_s * 1e3, r->planned_s * 1e3, r->time_s / r->planned_s, algbw,
		       algbw * bus_share(a), r->n);
	}
}

static int print_json(const struct allreduce *p, const struct experiment *exp, const struct args *a)
{
	json_t *rows = json_array(), *ring = json_array(), *root;
	int rc;

	for (int i = 0; i < a->o.n_regions; i++)
		json_array_append_new(ring, json_string(exp->cluster.regions[a->regions[i]].name));
	for (int i = 0; i < p->n; i++) {
		const struct allreduce_row *r = &p->rows[i];
		double algbw = (double)r->bytes * 8 / r->time_s;

		json_array_append_new(rows, json_pack("{s:I,s:f,s:f,s:f,s:f,s:f,s:i}", "bytes", (json_int_t)r->bytes,
			"time_s", r->time_s, "time_p95_s", r->time_p95_s, "planned_s", r->planned_s, "algbw_bps", algbw,
			"busbw_bps", algbw * bus_share(a), "n", r->n));
	}
	root = json_pack("{s:o,s:s,s:o}", "ring", ring, "backend", p->backend, "sizes", rows);
	rc = root && !json_dumpf(root, stdout, JSON_INDENT(2)) ? 0 : -ENOMEM;
	putchar('\n');
	json_decref(root);
	return rc ? cmd_error(&cmd_allreduce, BACE_EXIT_FAILED, "out of memory") : BACE_EXIT_OK;
}

static int run(const struct cmd_globals *g, int argc, char **argv)
{
	struct args a = { .o.self = g->self, .o.cancelled = signals_caught };
	struct experiment exp;
	struct allreduce p = { 0 };
	struct bace_err e = { 0 };
	int rc = parse(&a, argc, argv);

	if (!rc)
		rc = load_experiment(&cmd_allreduce, a.experiment, &exp);
	if (rc)
		return rc;
	signals_catch();
	rc = choose_regions(&a, &exp);
	/* Each rank's part must have room for its header. */
	if (!rc)
		rc = micro_sizes(&cmd_allreduce, a.sizes_text, WORKER_MESSAGE_MIN * (uint64_t)a.o.n_regions,
				 WORKER_MESSAGE_MAX, a.sizes, &a.o.n_sizes);
	a.o.sizes = a.sizes;
	if (!rc && (rc = allreduce_run(&exp, &a.o, &p, &e)))
		rc = cmd_error(&cmd_allreduce, cmd_exit_of(rc, true), "%s", e.msg);
	else if (!rc && g->json)
		rc = print_json(&p, &exp, &a);
	else if (!rc)
		print_text(&p, &exp, &a);
	allreduce_free(&p);
	experiment_free(&exp);
	return rc;
}

const struct command cmd_allreduce = {
	.name = "allreduce",
	.summary = "ring all-reduce over the shaped links, by size",
	.usage = "bace allreduce EXPERIMENT.cfg [--regions A,B,...] [--sizes 16kB,128kB,...]\n"
		 "           [--backend auto|netem|nfqueue|uml]\n\n"
		 "A rank in each region of a ring sums a buffer of each size with the others', again\n"
		 "and again: 2 (D - 1) rounds, in each of which every rank sends 1/D to the next, as\n"
		 "replicas of a pipeline do at the end of a step; beside what the links should give.\n"
		 "Sizes are as on the testbed, unscaled; sockets_per_hop, wan and the rest are the\n"
		 "experiment's.\n\n"
		 "  --regions   the ring (default: all regions of the cluster, in their order)\n"
		 "  --sizes     default 16kB,128kB,1MB",
	.run = run,
};
