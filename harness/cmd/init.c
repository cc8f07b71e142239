/* A first experiment, from flags or a few questions. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/cmd/execute.h"
#include "harness/cmd/stored.h"
#include "harness/policy/policy.h"

#define RATE_MOST_BPS 60e6	/* of a scaled link: what two cores carry for six regions */

struct answers {
	const char *file, *cluster, *jobs, *policies, *schedule;
	bool simulate_only;
	double scale_bytes, scale_time;
};

/* ---- questions ---- */

static void list_profiles(const char *kind)
{
	CLEANUP_FREE char *path = NULL;
	struct dirent **names;
	int n;

	if (asprintf(&path, "%s/%s", profiles_dir(), kind) < 0)
		return;
	n = scandir(path, &names, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		size_t len = strlen(names[i]->d_name);

		if (len > 4 && !strcmp(names[i]->d_name + len - 4, ".cfg"))
			fprintf(stderr, "  %.*s\n", (int)len - 4, names[i]->d_name);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
}

/* The line typed, or the default; malloc'd for the life of the process. */
static const char *ask(const char *question, const char *fallback)
{
	char *line = NULL;
	size_t cap = 0;
	ssize_t n;

	fprintf(stderr, "%s [%s]: ", question, fallback);
	n = getline(&line, &cap, stdin);
	while (n > 0 && strchr("\n\r \t", line[n - 1]))
		line[--n] = '\0';
	if (n > 0)
		return line;
	free(line);
	return fallback;
}

static void ask_all(struct answers *a)
{
	fputs("Clusters:\n", stderr);
	list_profiles("clusters");
	a->cluster = ask("Which cluster", a->cluster);
	fputs("Jobs:\n", stderr);
	list_profiles("jobs");
	a->jobs = ask("Which jobs", a->jobs);
	a->policies = ask("Which policies, with commas between (`bace policies' explains them)", a->policies);
	a->schedule = ask("Which pipeline schedule", a->schedule);
	a->simulate_only = strchr("nN", *ask("Measure it on shaped links, too (y/n)", "y")) != NULL;
	a->file = ask("File", a->file);
}

/* ---- the text ---- */

static void policies_text(const char *list, struct bace_buf *b)
{
	bool any = false;

	for (const char *p = list; *p;) {
		int n = (int)strcspn(p, ", ");

		if (n)
			bace_buf_addf(b, "%s\n  { name = \"%.*s\"; }", any ? "," : "", n, p);
		any |= n > 0;
		p += n + (p[n] != '\0');
	}
}

static void testbed_text(const struct answers *a, struct bace_buf *b)
{
	bace_buf_addf(b, "\n"
		"# How it is measured: every stage is a worker process, links are shaped.\n"
		"testbed = {\n"
		"  # bytes multiplies messages and bandwidths; time multiplies durations and\n"
		"  # latencies and divides bandwidths. Transfer and computation keep their\n"
		"  # proportion; chosen so that no link is faster than %g Mbit/s here.\n"
		"  scale = { bytes = %.15g; time = %.15g; };\n"
		"  # Seconds of TCP that every link in use is checked with first; 0: RTT only.\n"
		"  verify_s = 1;\n"
		"  warmup_steps = 1;\n"
		"  # Measured steps a placement; their median is what counts.\n"
		"  steps = 3;\n"
		"};\n", RATE_MOST_BPS / 1e6, a->scale_bytes, a->scale_time);
}

/* Numbers with a point, or libconfig takes them for integers. */
static void experiment_text(const struct answers *a, struct bace_buf *b)
{
	bace_buf_addf(b,
		"# Made by `bace init'. `bace check FILE' reads it, `bace sim FILE' simulates it%s.\n"
		"# profiles/README.md has every key.\n\n"
		"# Regions, their GPUs, links and electricity prices: a name of profiles/clusters,\n"
		"# or the path of a file of your own.\n"
		"cluster = \"%s\";\n"
		"# What is trained: a name of profiles/jobs, or a path; `bace trace-gen' makes one.\n"
		"jobs = \"%s\";\n\n"
		"# Of every random number.\n"
		"seed = 1;\n"
		"# Order of forward and backward: gpipe, 1f1b, eager-1f1b, zb-h1.\n"
		"schedule = \"%s\";\n"
		"# Most stages a job may have; \"layers\": as many as the model has layers.\n"
		"k_limit = 8;\n"
		"# Where step times come from.\n"
		"oracles = [\"closed-form\", \"event-sim\"%s];\n\n"
		"# `bace policies' lists them; order, start and more can be set in each.\n"
		"policies = (", a->simulate_only ? "" : ",\n# `bace run FILE' measures it on shaped links",
		a->cluster, a->jobs, a->schedule, a->simulate_only ? "" : ", \"measured\"");
	policies_text(a->policies, b);
	bace_buf_addf(b, "\n);\n");
	if (!a->simulate_only)
		testbed_text(a, b);
}

static int write_experiment(const struct answers *a, struct bace_err *e)
{
	struct bace_buf b = { 0 };
	struct bace_outfile out;
	int rc;

	experiment_text(a, &b);
	rc = b.p ? bace_outfile_open(a->file, &out, e) : bace_fail(e, ENOMEM, "%s: out of memory", a->file);
	if (!rc) {
		fwrite(b.p, 1, b.len, out.f);
		rc = bace_outfile_close(&out, 0, e);
	}
	bace_buf_free(&b);
	return rc;
}

/* ---- a scale that this experiment can be measured at ---- */

static double round_down(double v)
{
	double ten = pow(10, floor(log10(v))), lead = v / ten;

	return (lead >= 5 ? 5 : lead >= 2 ? 2 : 1) * ten;
}

static int choose_scale(struct experiment *exp, struct answers *a, struct bace_err *e)
{
	static const double times[] = { 0.5, 1, 2, 5 };
	const struct cluster *c = &exp->cluster;
	double most = 1;
	int rc = 0;

	for (int i = 0; i < c->n_regions * c->n_regions; i++)
		if (c->links[i].present)
			most = fmax(most, (double)c->links[i].rate_bps);
	for (size_t i = 0; i < ARRAY_LEN(times); i++) {
		exp->testbed.scale_time = times[i];
		exp->testbed.scale_bytes = most <= RATE_MOST_BPS ? 1 : round_down(times[i] * RATE_MOST_BPS / most);
		rc = run_check(exp, e);
		if (!rc)
			break;
	}
	a->scale_bytes = exp->testbed.scale_bytes;
	a->scale_time = exp->testbed.scale_time;
	return rc;
}

static int check_policies(const struct experiment *exp)
{
	for (int i = 0; i < exp->n_policies; i++) {
		struct policy *p = NULL;
		struct bace_err e;

		if (policy_create(&exp->policies[i], exp->seed, &p, &e))
			return cmd_error(&cmd_init, BACE_EXIT_INPUT, "policy %s: %s", exp->policies[i].name, e.msg);
		policy_destroy(p);
	}
	return 0;
}

/* With a scale of 1 first, to see what the scale is to be; then for good. */
static int make(struct answers *a)
{
	struct bace_err e = { 0 };
	struct experiment exp;
	int rc;

	a->scale_bytes = a->scale_time = 1;
	if (write_experiment(a, &e))
		return cmd_error(&cmd_init, BACE_EXIT_FAILED, "%s", e.msg);
	rc = load_experiment(&cmd_init, a->file, &exp);
	if (rc)
		return rc;
	rc = check_policies(&exp);
	if (!rc && !a->simulate_only && choose_scale(&exp, a, &e))
		rc = cmd_error(&cmd_init, BACE_EXIT_INPUT, "%s; --simulate-only does without the testbed", e.msg);
	experiment_free(&exp);
	if (!rc && write_experiment(a, &e))
		rc = cmd_error(&cmd_init, BACE_EXIT_FAILED, "%s", e.msg);
	return rc;
}

static int parse(struct answers *a, bool *quiet, int argc, char **argv)
{
	static const struct option options[] = { { "cluster", 1, NULL, 'c' }, { "jobs", 1, NULL, 'j' },
		{ "policies", 1, NULL, 'p' }, { "schedule", 1, NULL, 's' }, { "simulate-only", 0, NULL, 'n' },
		{ "yes", 0, NULL, 'y' }, { 0 } };
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "y", options, NULL)) != -1) {
		switch (c) {
		case 'c': a->cluster = optarg; break;
		case 'j': a->jobs = optarg; break;
		case 'p': a->policies = optarg; break;
		case 's': a->schedule = optarg; break;
		case 'n': a->simulate_only = true; break;
		case 'y': break;
		default: return cmd_misuse(&cmd_init, "bad options");
		}
		*quiet = true;
	}
	if (optind < argc - 1)
		return cmd_misuse(&cmd_init, "one file at most");
	if (optind < argc)
		a->file = argv[optind];
	return 0;
}

static int run(const struct cmd_globals *g, int argc, char **argv)
{
	struct answers a = { .file = "experiment.cfg", .cluster = "six-regions", .jobs = "four-llms",
		.policies = "bace,ldf,cr-lcf", .schedule = "1f1b" };
	bool given = false;
	int fd, rc = parse(&a, &given, argc, argv);

	if (rc)
		return rc;
	if (!given && !g->json && isatty(STDIN_FILENO) && isatty(STDERR_FILENO))
		ask_all(&a);
	fd = open(a.file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		return cmd_error(&cmd_init, BACE_EXIT_INPUT, "%s: %s%s", a.file, strerror(errno),
				 errno == EEXIST ? ": name another FILE" : "");
	close(fd);
	rc = make(&a);
	if (rc) {
		unlink(a.file);
		return rc;
	}
	if (g->json)
		output_path("experiment", a.file);
	else if (!g->quiet)
		printf("%s: next, `bace check %s', `bace sim %s'%s%s%s\n", a.file, a.file, a.file,
		       a.simulate_only ? "" : ", `bace run ", a.simulate_only ? "" : a.file, a.simulate_only ? "" : "'");
	return BACE_EXIT_OK;
}

const struct command cmd_init = {
	.name = "init",
	.summary = "write a first experiment, from flags or a few questions",
	.usage = "bace init [FILE.cfg] [--cluster NAME] [--jobs NAME] [--policies A,B,...]\n"
		 "            [--schedule S] [--simulate-only] [-y]\n\n"
		 "Writes a commented experiment (default experiment.cfg, never over a file that is\n"
		 "there) that `bace check' accepts and `bace run' can run: the testbed's scale is\n"
		 "chosen for the cluster's links and the jobs' messages. Without flags, on a\n"
		 "terminal, it asks.\n\n"
		 "  --cluster        of profiles/clusters, or a path (six-regions)\n"
		 "  --jobs           of profiles/jobs, or a path (four-llms)\n"
		 "  --policies       (bace,ldf,cr-lcf)\n"
		 "  --schedule       (1f1b)\n"
		 "  --simulate-only  without a testbed\n"
		 "  -y, --yes        do not ask",
	.run = run,
};
