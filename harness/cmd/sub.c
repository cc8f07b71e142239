#include <stdio.h>
#include <string.h>

#include "harness/cmd/cmd.h"

#define SUBCOMMANDS_MAX 32

static const char *word_of(const struct command *parent, const struct command *sub)
{
	return sub->name + strlen(parent->name) + 1;
}

static void help(const struct command *c, FILE *to)
{
	fprintf(to, "usage: %s\n\n", c->usage);
	for (size_t i = 0; c->subcommands[i]; i++)
		fprintf(to, "  %-9s %s\n", word_of(c, c->subcommands[i]), c->subcommands[i]->summary);
	fprintf(to, "\n`bace %s SUBCOMMAND --help` says more about one.\n", c->name);
}

int cmd_sub(const struct command *c, const struct cmd_globals *g, int argc, char **argv)
{
	const char *names[SUBCOMMANDS_MAX], *near;
	char name[64];
	size_t n = 0;

	if (argc < 2) {
		help(c, stderr);
		return BACE_EXIT_INPUT;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		help(c, stdout);
		return BACE_EXIT_OK;
	}
	for (; c->subcommands[n] && n < SUBCOMMANDS_MAX; n++) {
		names[n] = word_of(c, c->subcommands[n]);
		if (strcmp(argv[1], names[n]))
			continue;
		snprintf(name, sizeof(name), "bace %s", c->subcommands[n]->name);
		argv[1] = name;		/* getopt's errors begin with it */
		return c->subcommands[n]->run(g, argc - 1, argv + 1);
	}
	near = bace_nearest(argv[1], names, n);
	return cmd_misuse(c, "no subcommand `%s'%s%s%s", argv[1], near ? "; did you mean `" : "", near ? near : "",
			  near ? "'?" : "");
}
