/* What the commands that look at the store share. */
#ifndef BACE_CMD_STORED_H
#define BACE_CMD_STORED_H

#include "harness/cmd/cmd.h"
#include "results/results.h"

/* Opens the store of g or the default one. Returns 0 or, with the message
 * printed, an enum bace_exit. */
int stored_open(const struct command *c, const struct cmd_globals *g, bool write, struct store **out);
/* Prints e; the enum bace_exit that rc stands for. */
int stored_fail(const struct command *c, int rc, const struct bace_err *e);

bool output_color(const struct cmd_globals *g);
int output_width(const struct cmd_globals *g);	/* 0: a pipe, or for machines */
/* Standard output: a pager on a terminal, else itself. */
struct output {
	FILE *to;
	bool color;
	int width;		/* 0: a pipe */
	int pager;		/* process id, 0: none */
};
void output_begin(const struct cmd_globals *g, struct output *o);
/* 0, or -errno when what was written did not arrive. */
int output_end(struct output *o);

/* For machines: {"KEY": "PATH"}. */
void output_path(const char *key, const char *path);
/* Where what is written of a run goes unless told: ID and the suffix, beside the store
 * (NULL: the default one). malloc'd; NULL: out of memory. */
char *output_beside(const char *store, const char *id, const char *suffix);
/* The same of a run as typed, which is looked up; 0 or an enum bace_exit, said. */
int stored_beside(const struct command *c, const struct cmd_globals *g, struct store *s, const char *run,
		  const char *suffix, char **out);

/* A command that writes a file of runs: COMMAND RUN... [-o FILE]. */
struct stored_file {
	const struct command *cmd;
	const char *noun, *suffix;	/* "report", ".html" */
	const char *hint;		/* said behind the file's name */
	bool many;			/* more than one run; then -o is needed */
	int (*write)(struct store *s, const char *const *runs, size_t n, const char *path, struct bace_err *e);
};
/* An enum bace_exit. */
int stored_write(const struct stored_file *f, const struct cmd_globals *g, int argc, char **argv);

/* Prints how the second run differs from the first; limit: a fraction, NaN none. */
int diff_stored(const struct command *c, const struct cmd_globals *g, const char *first, const char *second,
		const struct diff_options *o, double limit);
/* "12" -> 0.12; 0 or an enum bace_exit with the message printed. */
int parse_percent(const struct command *c, const char *option, const char *text, double *out);

#endif
