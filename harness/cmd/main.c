#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/json.h"
#include "harness/cmd/cmd.h"

static const struct command *const commands[] = {
	&cmd_init,
	&cmd_run,
	&cmd_rerun,
	&cmd_sim,
	&cmd_merge,
	&cmd_claims,
	&cmd_robust,
	&cmd_check,
	&cmd_pipeline,
	&cmd_fidelity,
	&cmd_p2p,
	&cmd_allreduce,
	&cmd_probe,
	&cmd_trace_gen,
	&cmd_policies,
	&cmd_runs,
	&cmd_show,
	&cmd_compare,
	&cmd_diff,
	&cmd_report,
	&cmd_export,
	&cmd_trace,
	&cmd_overhead,
	&cmd_store,
	&cmd_doctor,
	&cmd_keygen,
	&cmd_lab,
	&cmd_shape,
	&cmd_lab_inner,
	&cmd_lab_uml,
	&cmd_lab_guest,
	NULL,
};

int cmd_error(const struct command *c, int code, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "bace %s: ", c->name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return code;
}

int cmd_misuse(const struct command *c, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "bace %s: ", c->name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "; `bace help %s' says more\n", c->name);
	return BACE_EXIT_INPUT;
}

static const struct command *find(const char *name)
{
	for (size_t i = 0; commands[i]; i++)
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	return NULL;
}

static void help(FILE *to)
{
	fputs("usage: bace [--store FILE] [--json] [-q] [-v] COMMAND [ARGUMENTS]\n\n"
	      "Runs placements of geo-distributed training on hosts whose links are shaped\n"
	      "to look like links between cloud regions, and sets what was measured against\n"
	      "what simulation predicted.\n\n", to);
	for (size_t i = 0; commands[i]; i++)
		if (commands[i]->summary)
			fprintf(to, "  %-12s %s\n", commands[i]->name, commands[i]->summary);
	fputs("\n  --store FILE  the store of runs; --json: for machines; -q: only errors;\n"
	      "  -v: debugging messages too\n"
	      "\n`bace help COMMAND` says more about one.\n"
	      "Exit status: 0 done, 1 the run failed, 2 bad input, 3 the environment cannot,\n"
	      "4 negative verdict.\n", to);
}

static int unknown(const char *name)
{
	const char *names[ARRAY_LEN(commands)];
	size_t n = 0;

	for (size_t i = 0; commands[i]; i++)
		if (commands[i]->summary)
			names[n++] = commands[i]->name;
	const char *near = bace_nearest(name, names, n);

	fprintf(stderr, "bace: no command `%s'%s%s%s; `bace --help' lists them\n", name,
		near ? "; did you mean `" : "", near ? near : "", near ? "'?" : "");
	return BACE_EXIT_INPUT;
}

static char *join(int argc, char **argv)
{
	struct bace_buf b = { 0 };

	for (int i = 0; i < argc; i++)
		if (bace_buf_addf(&b, "%s%s", i ? " " : "", argv[i]))
			return NULL;
	return b.p;
}

/* Options of bace itself behind the command: taken out, so that they may stand
 * anywhere. What follows `--' is the command's, and so is --help where it has
 * subcommands. */
static int take_globals(const struct command *c, int argc, char **argv, struct cmd_globals *g, bool *help_wanted)
{
	int n = 1, i = 1;

	if (!c->summary)
		return argc;
	for (; i < argc && strcmp(argv[i], "--"); i++) {
		if (!strcmp(argv[i], "--json"))
			g->json = true;
		else if (!strcmp(argv[i], "--help") && !c->subcommands)
			*help_wanted = true;
		else if (!strcmp(argv[i], "--store") && i + 1 < argc)
			g->store = argv[++i];
		else
			argv[n++] = argv[i];
	}
	while (i < argc)
		argv[n++] = argv[i++];
	argv[n] = NULL;
	return n;
}

static json_t *list_json(const struct command *const *v)
{
	json_t *all = json_array();

	for (size_t i = 0; v && v[i]; i++)
		if (v[i]->summary)
			json_array_append_new(all, json_pack("{s:s, s:s, s:s, s:o}", "name", v[i]->name, "summary", v[i]->summary,
				"usage", v[i]->usage, "subcommands", list_json(v[i]->subcommands)));
	return all;
}

/* Every command, for what is generated from it. */
static int help_json(void)
{
	json_t *all = list_json(commands);
	int rc;

	rc = json_dumpf(all, stdout, JSON_INDENT(1)) || putchar('\n') != '\n';
	json_decref(all);
	return rc ? BACE_EXIT_FAILED : BACE_EXIT_OK;
}

/* Output that did not arrive is a failure: a full disk must not pass as done. */
static int end(int code)
{
	bool failed = ferror(stdout);

	/* Whoever ended with an error has said why. */
	if (failed && code != BACE_EXIT_OK)
		return code;
	if (!fflush(stdout) && !failed)
		return code;
	fprintf(stderr, "bace: write the output: %s\n", failed ? "it failed" : strerror(errno));
	return code == BACE_EXIT_OK ? BACE_EXIT_FAILED : code;
}

/* Errors of getopt begin with argv[0]. */
static int run(const struct command *c, const struct cmd_globals *g, int argc, char **argv)
{
	char name[64];

	snprintf(name, sizeof(name), "bace %s", c->name);
	argv[0] = name;
	return end(c->run(g, argc, argv));
}

static char *self_path(void)
{
	char buf[4096];
	ssize_t n = readlink("/proc/self/exe", buf, sizeof(buf) - 1);

	if (n <= 0)
		return NULL;
	buf[n] = '\0';
	return strdup(buf);
}

/* Options before the command; the index of the command, or an exit status with *done. */
static int read_globals(int argc, char **argv, struct cmd_globals *g, bool *done)
{
	int i = 1;

	*done = true;
	for (; i < argc && argv[i][0] == '-'; i++) {
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			help(stdout);
			return end(BACE_EXIT_OK);
		}
		if (!strcmp(argv[i], "--version")) {
			const char *git = bace_git_revision();

			printf("bace %s%s%s%s\n", bace_version(), git ? " (" : "", git ? git : "", git ? ")" : "");
			return end(BACE_EXIT_OK);
		}
		if (!strcmp(argv[i], "--json")) {
			g->json = true;
		} else if (!strcmp(argv[i], "-q")) {
			g->quiet = true;
		} else if (!strcmp(argv[i], "-v")) {
			g->verbose++;
		} else if (!strcmp(argv[i], "--store") && i + 1 < argc) {
			g->store = argv[++i];
		} else {
			fprintf(stderr, "bace: unknown option `%s'; see `bace --help'\n", argv[i]);
			return BACE_EXIT_INPUT;
		}
	}
	*done = false;
	return i;
}

static int show_help(const struct cmd_globals *g, const char *name, char *sub)
{
	char option[] = "--help", *with_sub[] = { NULL, sub ? sub : option, sub ? option : NULL, NULL };
	const struct command *c = name ? find(name) : NULL;

	if (!name && g->json)
		return end(help_json());
	if (!name) {
		help(stdout);
		return end(BACE_EXIT_OK);
	}
	if (!c)
		return unknown(name);
	if (c->subcommands)
		return run(c, g, sub ? 3 : 2, with_sub);
	printf("usage: %s\n", c->usage);
	return end(BACE_EXIT_OK);
}

int main(int argc, char **argv)
{
	CLEANUP_FREE char *line = join(argc, argv);
	CLEANUP_FREE char *self = self_path();
	struct cmd_globals g = { .self = self, .line = line };
	bool done, help_wanted = false;
	int i;

	json_end_without_memory();
	i = read_globals(argc, argv, &g, &done);
	if (done)
		return i;
	bace_log_setup(&(struct bace_log_config){
		.level = g.quiet ? BACE_ERROR : g.verbose ? BACE_DEBUG : BACE_INFO,
		.program = "bace", .fd = 2 });
	if (i >= argc) {
		help(stderr);
		return BACE_EXIT_INPUT;
	}
	if (!strcmp(argv[i], "help"))
		return show_help(&g, i + 1 < argc ? argv[i + 1] : NULL, i + 2 < argc ? argv[i + 2] : NULL);
	const struct command *c = find(argv[i]);

	if (!c)
		return unknown(argv[i]);
	argc = take_globals(c, argc - i, argv + i, &g, &help_wanted);
	return help_wanted ? show_help(&g, c->name, NULL) : run(c, &g, argc, argv + i);
}
