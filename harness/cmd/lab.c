#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "harness/cmd/lab.h"

#define END_TIMEOUT_NS 10000000000
#define END_STEP_US 20000

static const struct command *const subcommands[] = { &cmd_lab_up, &cmd_lab_list, &cmd_lab_exec, &cmd_lab_down, NULL };

/* The one argument that may be there; -1: go on, else an exit status. */
static int parse(const struct command *c, int argc, char **argv, const char **name)
{
	static const struct option options[] = { { "help", 0, NULL, 'h' }, { 0 } };
	int o;

	optind = 1;
	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (o != 'h')
			return cmd_misuse(c, "bad options");
		return printf("usage: %s\n", c->usage) < 0 ? BACE_EXIT_FAILED : BACE_EXIT_OK;
	}
	if (optind < argc - (name ? 1 : 0))
		return cmd_misuse(c, "`%s': not understood", argv[optind + (name ? 1 : 0)]);
	if (optind < argc)
		*name = argv[optind];
	return -1;
}

static int list(const struct cmd_globals *g, int argc, char **argv)
{
	struct bace_err e = { 0 };
	json_t *all = NULL, *state;
	size_t i;
	int rc = parse(&cmd_lab_list, argc, argv, NULL);

	if (rc >= 0)
		return rc;
	if (lab_state_list(&all, &e))
		return cmd_error(&cmd_lab_list, BACE_EXIT_FAILED, "%s", e.msg);
	if (g->json) {
		json_dumpf(all, stdout, JSON_INDENT(2));
		putchar('\n');
	} else if (!json_array_size(all)) {
		puts("no lab is up");
	} else {
		json_array_foreach(all, i, state) {
			if (json_object_get(state, "pid1"))
				printf("%s: %s, cluster %s, by %s\n", json_string_value(json_object_get(state, "name")),
				       json_string_value(json_object_get(state, "experiment")),
				       json_string_value(json_object_get(state, "cluster")),
				       json_string_value(json_object_get(state, "backend")));
			else
				printf("%s: coming up\n", json_string_value(json_object_get(state, "name")));
			lab_print_hosts(state);
		}
	}
	json_decref(all);
	return BACE_EXIT_OK;
}

static bool is_down(const char *name)
{
	struct bace_err e;
	json_t *state = NULL;
	bool down = lab_state_read(name, &state, &e) == -ENOENT;

	json_decref(state);
	return down;
}

static bool ends_within(const char *name, int64_t ns)
{
	int64_t until = bace_mono_ns() + ns;

	while (!is_down(name)) {
		if (bace_mono_ns() > until)
			return false;
		usleep(END_STEP_US);
	}
	return true;
}

static int down(const struct cmd_globals *g, int argc, char **argv)
{
	const char *name = LAB_DEFAULT;
	struct bace_err e = { 0 };
	json_t *state = NULL;
	pid_t holder;
	int rc = parse(&cmd_lab_down, argc, argv, &name);

	if (rc < 0 && !(rc = lab_check_name(&cmd_lab_down, name)))
		rc = -1;
	if (rc >= 0)
		return rc;
	if (lab_state_read(name, &state, &e))
		return cmd_error(&cmd_lab_down, BACE_EXIT_INPUT, "%s", e.msg);
	holder = (pid_t)json_integer_value(json_object_get(state, "holder"));
	json_decref(state);
	if (!holder)
		return cmd_error(&cmd_lab_down, BACE_EXIT_FAILED, "lab `%s' is still coming up; end the `bace lab up' that makes it", name);
	if (kill(holder, SIGTERM))
		return cmd_error(&cmd_lab_down, BACE_EXIT_FAILED, "end its holder, pid %d: %s", (int)holder, strerror(errno));
	if (ends_within(name, END_TIMEOUT_NS))
		return BACE_EXIT_OK;
	/* With it the kernel ends all that it holds. */
	kill(holder, SIGKILL);
	return ends_within(name, END_TIMEOUT_NS) ? BACE_EXIT_OK
		: cmd_error(&cmd_lab_down, BACE_EXIT_FAILED, "its holder, pid %d, does not end", (int)holder);
}

static int run(const struct cmd_globals *g, int argc, char **argv)
{
	return cmd_sub(&cmd_lab, g, argc, argv);
}

const struct command cmd_lab_list = {
	.name = "lab list",
	.summary = "which labs are up, and their hosts",
	.usage = "bace lab list",
	.run = list,
};

const struct command cmd_lab_down = {
	.name = "lab down",
	.summary = "end a lab: nothing is left of it",
	.usage = "bace lab down [NAME]",
	.run = down,
};

const struct command cmd_lab = {
	.name = "lab",
	.summary = "an experiment's hosts and links on this machine, to look into",
	.usage = "bace lab SUBCOMMAND ...",
	.run = run,
	.subcommands = subcommands,
};
