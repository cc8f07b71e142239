#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <math.h>

#include "harness/cmd/micro.h"
#include "harness/run/run.h"
#include "workloads/worker/worker.h"

struct args {
	const char *experiment, *from, *to;
	struct p2p_options o;
	uint64_t sizes[MICRO_SIZES_MAX];
};

static int take_sizes(struct args *a, const char *text)
{
	return micro_sizes(&cmd_p2p, text, WORKER_MESSAGE_MIN, WORKER_MESSAGE_MAX, a->sizes, &a->o.n_sizes);
}

static int parse(struct args *a, int argc, char **argv)
{
	static const struct option options[] = {
		{ "backend", 1, NULL, 'b' }, { "from", 1, NULL, 'f' }, { "to", 1, NULL, 't' },
		{ "sizes", 1, NULL, 's' }, { 0 } };
	int c, rc = take_sizes(a, "64B,1kB,16kB,128kB,1MB");

	optind = 1;
	while (!rc && (c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'b': rc = cmd_backend(&cmd_p2p, optarg, &a->o.has_backend, &a->o.backend); break;
		case 'f': a->from = optarg; break;
		case 't': a->to = optarg; break;
		case 's': rc = take_sizes(a, optarg); break;
		default: rc = cmd_misuse(&cmd_p2p, "bad options");
		}
	}
	if (!rc && optind != argc - 1)
		rc = cmd_misuse(&cmd_p2p, "one experiment file is needed");
	a->experiment = rc ? NULL : argv[optind];
	a->o.sizes = a->sizes;
	return rc;
}

static int choose_regions(struct args *a, const struct experiment *exp)
{
	a->o.src = a->from ? micro_region(exp, a->from) : 0;
	a->o.dst = a->to ? micro_region(exp, a->to) : a->o.src ? 0 : 1;
	if (exp->cluster.n_regions < 2)
		return cmd_error(&cmd_p2p, BACE_EXIT_INPUT, "%s: cluster %s has one region", exp->path, exp->cluster.name);
	if (a->o.src < 0 || a->o.dst < 0)
		return cmd_error(&cmd_p2p, BACE_EXIT_INPUT, "%s: cluster %s has no region %s", exp->path,
				 exp->cluster.name, a->o.src < 0 ? a->from : a->to);
	if (a->o.src == a->o.dst)
		return cmd_error(&cmd_p2p, BACE_EXIT_INPUT, "--from and --to: must be two regions");
	return 0;
}

static void print_text(const struct p2p *p, const struct experiment *exp, const struct args *a)
{
	printf("%s to %s, backend %s, scaled as the experiment says. One way: half of there and back (median of\n"
	       "20). algbw: size / one way. Stream: messages on end, at the receiver.\n\n"
	       "        size     one way ms   p95 ms  planned ms  algbw Mbit/s  stream Mbit/s  planned  ratio  messages\n",
	       exp->cluster.regions[a->o.src].name, exp->cluster.regions[a->o.dst].name, p->backend);
	for (int i = 0; i < p->n; i++) {
		const struct p2p_row *r = &p->rows[i];

		printf("%10llu B  %13.3f %8.3f  %10.3f  %12.2f  %13.2f  %7.2f  %5.3f  %8d\n",
		       (unsigned long long)r->bytes, r->one_way_s * 1e3, r->one_way_p95_s * 1e3,
		       r->planned_one_way_s * 1e3, (double)r->bytes * 8 / r->one_way_s / 1e6, r->goodput_bps / 1e6,
		       r->planned_goodput_bps / 1e6, r->goodput_bps / r->planned_goodput_bps, r->messages);
	}
}

static int print_json(const struct p2p *p, const struct experiment *exp, const struct args *a)
{
	json_t *rows = json_array(), *root;
	int rc;

	for (int i = 0; i < p->n; i++) {
		const struct p2p_row *r = &p->rows[i];

		json_array_append_new(rows, json_pack("{s:I,s:f,s:f,s:f,s:f,s:f,s:i}", "bytes", (json_int_t)r->bytes,
			"one_way_s", r->one_way_s, "one_way_p95_s", r->one_way_p95_s, "planned_one_way_s",
			r->planned_one_way_s, "goodput_bps", r->goodput_bps, "planned_goodput_bps",
			r->planned_goodput_bps, "messages", r->messages));
	}
	root = json_pack("{s:s,s:s,s:s,s:o}", "from", exp->cluster.regions[a->o.src].name, "to",
			 exp->cluster.regions[a->o.dst].name, "backend", p->backend, "sizes", rows);
	rc = root && !json_dumpf(root, stdout, JSON_INDENT(2)) ? 0 : -ENOMEM;
	putchar('\n');
	json_decref(root);
	return rc ? cmd_error(&cmd_p2p, BACE_EXIT_FAILED, "out of memory") : BACE_EXIT_OK;
}

static int run(const struct cmd_globals *g, int argc, char **argv)
{
	struct args a = { .o.self = g->self, .o.cancelled = signals_caught };
	struct experiment exp;
	struct p2p p = { 0 };
	struct bace_err e = { 0 };
	int rc = parse(&a, argc, argv);

	if (!rc)
		rc = load_experiment(&cmd_p2p, a.experiment, &exp);
	if (rc)
		return rc;
	signals_catch();
	rc = choose_regions(&a, &exp);
	if (!rc && (rc = p2p_run(&exp, &a.o, &p, &e)))
		rc = cmd_error(&cmd_p2p, cmd_exit_of(rc, true), "%s", e.msg);
	else if (!rc && g->json)
		rc = print_json(&p, &exp, &a);
	else if (!rc)
		print_text(&p, &exp, &a);
	p2p_free(&p);
	experiment_free(&exp);
	return rc;
}

const struct command cmd_p2p = {
	.name = "p2p",
	.summary = "latency and goodput of one shaped link, by message size",
	.usage = "bace p2p EXPERIMENT.cfg [--from REGION] [--to REGION] [--sizes 64B,1kB,...]\n"
		 "           [--backend auto|netem|nfqueue|uml]\n\n"
		 "Two ranks at the ends of one link of the experiment's testbed, with the engine and\n"
		 "the transport of a run: for every size the time of a message one way, and the goodput\n"
		 "of a stream of them, beside what the link should give. Sizes are as on the testbed,\n"
		 "unscaled; sockets_per_hop, wan and the rest are the experiment's.\n\n"
		 "  --from, --to   default: the first two regions\n"
		 "  --sizes        default 64B,1kB,16kB,128kB,1MB",
	.run = run,
};
