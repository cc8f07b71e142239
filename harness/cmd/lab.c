#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness/cmd/lab.h"

#define END_TIMEOUT_MS 10000

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
	if (lab_list(&all, &e))
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

static bool ends(int holder)
{
	struct pollfd p = { .fd = holder, .events = POLLIN };

	return poll(&p, 1, END_TIMEOUT_MS) > 0;
}

static int end_holder(const struct lab_found *lab)
{
	if (syscall(SYS_pidfd_send_signal, lab->holder, SIGTERM, NULL, 0) && errno != ESRCH)
		return cmd_error(&cmd_lab_down, BACE_EXIT_FAILED, "end its holder: %s", strerror(errno));
	if (ends(lab->holder))
		return BACE_EXIT_OK;
	/* With it the kernel ends all that it holds. */
	syscall(SYS_pidfd_send_signal, lab->holder, SIGKILL, NULL, 0);
	return ends(lab->holder) ? BACE_EXIT_OK : cmd_error(&cmd_lab_down, BACE_EXIT_FAILED, "its holder does not end");
}

static int down(const struct cmd_globals *g, int argc, char **argv)
{
	const char *name = LAB_DEFAULT;
	struct bace_err e = { 0 };
	struct lab_found lab;
	int rc = parse(&cmd_lab_down, argc, argv, &name);

	if (rc >= 0 || (rc = lab_check_name(&cmd_lab_down, name)))
		return rc;
	if (lab_find(name, &lab, &e))
		return cmd_error(&cmd_lab_down, BACE_EXIT_INPUT, "%s", e.msg);
	rc = lab.state ? end_holder(&lab)
		       : cmd_error(&cmd_lab_down, BACE_EXIT_FAILED, "lab `%s' is still coming up; end the `bace lab up' that makes it", name);
	lab_found_free(&lab);
	return rc;
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
