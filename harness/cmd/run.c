#include <getopt.h>

#include "harness/cmd/execute.h"

static int launcher(struct launch_options *l, const char *name)
{
	if (!launcher_from_name(name, &l->kind))
		return 0;
	return cmd_misuse(&cmd_run, "--launcher %s: must be lab, manual, ssh or slurm", name);
}

static int wait_for(struct launch_options *l, const char *text)
{
	struct bace_err e = { 0 };
	int64_t ns;

	if (bace_parse_time_ns(text, &ns, &e) || ns <= 0)
		return cmd_misuse(&cmd_run, "--wait %s: %s", text, *e.msg ? e.msg : "must be above 0");
	l->wait_s = (double)ns / 1e9;
	return 0;
}

/* The agent of the hosts: where this one's is, unless told. */
static int use_launcher(struct execution *x, struct launch_options *l, const char *self, char path[4096])
{
	struct bace_err e = { 0 };

	if (l->kind == LAUNCH_LAB) {
		if (l->controller || l->key_path || l->agent_path || l->wait_s > 0 || l->allow_control_interface ||
		    l->replace_foreign)
			return cmd_misuse(&cmd_run, "--controller, --key, --agent, --wait, --allow-control-interface and "
					  "--replace: only with --launcher manual, ssh or slurm");
		return 0;
	}
	x->o.launch = l;
	if (!l->agent_path) {
		if (lab_find_program(self, "bace-agent", path, &e))
			return cmd_error(&cmd_run, BACE_EXIT_ENV, "%s; --agent PATH says where it is on the hosts", e.msg);
		l->agent_path = path;
	}
	return 0;
}

static int parse(struct execution *x, struct launch_options *l, int argc, char **argv)
{
	static const struct option options[] = {
		{ "backend", 1, NULL, 'b' }, { "report", 1, NULL, 'o' }, { "no-report", 0, NULL, 'n' },
		{ "reuse", 0, NULL, 'r' }, { "resume", 1, NULL, 'R' }, { "reports", 0, NULL, 'p' },
		{ "no-timeline", 0, NULL, 't' }, { "launcher", 1, NULL, 'l' },
		{ "controller", 1, NULL, 'c' }, { "key", 1, NULL, 'k' }, { "agent", 1, NULL, 'a' },
		{ "wait", 1, NULL, 'w' }, { "allow-control-interface", 0, NULL, 'i' }, { "replace", 0, NULL, 'x' }, { 0 } };
	int c, rc = 0;

	x->o.keep_timeline = true;
	optind = 1;
	while (!rc && (c = getopt_long(argc, argv, "o:", options, NULL)) != -1) {
		switch (c) {
		case 'b': rc = cmd_backend(&cmd_run, optarg, &x->o.has_backend, &x->o.backend); break;
		case 'o': x->report = optarg; break;
		case 'n': x->no_report = true; break;
		case 'r': x->o.reuse = true; break;
		case 'p': x->o.reports = true; break;
		case 'R': x->o.resume = optarg; break;
		case 't': x->o.keep_timeline = false; break;
		case 'l': rc = launcher(l, optarg); break;
		case 'c': l->controller = optarg; break;
		case 'k': l->key_path = optarg; break;
		case 'a': l->agent_path = optarg; break;
		case 'i': l->allow_control_interface = true; break;
		case 'x': l->replace_foreign = true; break;
		case 'w': rc = wait_for(l, optarg); break;
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
	struct launch_options launch = { 0 };
	struct experiment exp;
	char id[32], agent[4096];
	int rc = parse(&x, &launch, argc, argv);

	if (!rc)
		rc = use_launcher(&x, &launch, g->self, agent);
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
		 "           [--no-report] [--reuse] [--resume RUN] [--reports] [--no-timeline]\n"
		 "       ... --launcher manual|ssh|slurm --controller ADDR:PORT --key FILE\n"
		 "           [--agent PATH] [--wait T] [--allow-control-interface] [--replace]\n\n"
		 "Places the experiment's jobs with each of its policies, predicts their step\n"
		 "times, runs every placement as worker processes over shaped links, and prints\n"
		 "predicted against measured. All rows go to the store.\n\n"
		 "  --backend      how links are emulated (default: the best this machine can do)\n"
		 "  -o, --report   where the HTML report goes (default: beside the store)\n"
		 "  --reuse        take moments that an earlier run in the store has measured\n"
		 "                 under the same settings instead of running them again; other\n"
		 "                 policies, prices or seeds are no other settings\n"
		 "  --resume       go on with a run that was cut short (an id, or last): only what it\n"
		 "                 has not measured is run\n"
		 "  --reports      policies are told of links what agents measure (probes), before the\n"
		 "                 first cell and after each, in place of what is true of them\n"
		 "  --no-timeline  do not keep every operation's row\n"
		 "  --launcher     on the real `hosts' of the cluster file instead of in a lab: manual\n"
		 "                 prints what to start on each and waits, ssh starts the agents by the\n"
		 "                 system's ssh, slurm by srun inside an allocation\n"
		 "  --controller   address of this machine that the hosts reach, and a port\n"
		 "  --key          the master key, of `bace keygen'\n"
		 "  --agent        bace-agent on the hosts (default: the path of the one here)\n"
		 "  --wait         for all agents to connect (default: 45s ssh, 60s slurm, 10min manual)\n"
		 "  --allow-control-interface  shape the interface of the default route, too\n"
		 "  --replace      save a qdisc that somebody made on a host, shape, and put it back after",
	.run = run,
};
