#include <getopt.h>

#include "harness/cmd/execute.h"

static int parse(struct execution *x, int argc, char **argv)
{
	static const struct option options[] = {
		{ "backend", 1, NULL, 'b' }, { "report", 1, NULL, 'o' }, { "no-report", 0, NULL, 'n' },
		{ "reuse", 0, NULL, 'r' }, { "no-timeline", 0, NULL, 't' }, { 0 } };
	int c, rc = 0;

	x->o.keep_timeline = true;
	optind = 1;
	while (!rc && (c = getopt_long(argc, argv, "o:", options, NULL)) != -1) {
		switch (c) {
		case 'b': rc = parse_backend(&cmd_run, optarg, &x->o); break;
		case 'o': x->report = optarg; break;
		case 'n': x->no_report = true; break;
		case 'r': x->o.reuse = true; break;
		case 't': x->o.keep_timeline = false; break;
		default: return cmd_misuse(&cmd_run, "bad options");
		}
	}
	if (!rc && optind != argc - 1)
		rc = cmd_misuse(&cmd_run, "one experiment file is needed");
	return rc;
}

static int run(const struct cmd_globals *g, int argc, char **argv)
{
	struct execution x = { .command = &cmd_run };
	struct experiment exp;
	char id[32];
	int rc = parse(&x, argc, argv);

	if (!rc)
		rc = load_experiment(&cmd_run, argv[optind], &exp);
	if (rc)
		return rc;
	rc = execute(g, &x, &exp, id);
	experiment_free(&exp);
	return rc;
}

const struct command cmd_run = {
	.name = "run",
	.summary = "predict an experiment, measure it on shaped links, compare",
	.usage = "bace run EXPERIMENT.cfg [--backend auto|netem|nfqueue|uml] [-o REPORT.html]\n"
		 "           [--no-report] [--reuse] [--no-timeline]\n\n"
		 "Places the experiment's jobs with each of its policies, predicts their step\n"
		 "times, runs every placement as worker processes over shaped links, and prints\n"
		 "predicted against measured. All rows go to the store.\n\n"
		 "  --backend      how links are emulated (default: the best this machine can do)\n"
		 "  -o, --report   where the HTML report goes (default: beside the store)\n"
		 "  --reuse        take moments that an earlier run in the store has measured\n"
		 "                 under the same settings instead of running them again\n"
		 "  --no-timeline  do not keep every operation's row",
	.run = run,
};
