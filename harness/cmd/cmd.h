/*
 * harness/cmd: the `bace` command. One file a subcommand, one table in main.c.
 */
#ifndef BACE_CMD_H
#define BACE_CMD_H

#include "common/common.h"

struct cmd_globals {
	bool json;		/* --json: for machines */
	bool quiet;
	int verbose;
	const char *store;	/* --store FILE; NULL: default */
	const char *self;	/* path of this executable */
	const char *line;	/* the command as typed */
};

struct command {
	const char *name;
	const char *summary;	/* one line, for `bace --help`; NULL: hidden */
	const char *usage;	/* printed by `bace help NAME` */
	/* argv[0] is "bace NAME"; returns an enum bace_exit. */
	int (*run)(const struct cmd_globals *g, int argc, char **argv);
	const struct command *const *subcommands;	/* named "NAME SUB", NULL ends them; NULL: none */
};

extern const struct command cmd_run, cmd_fidelity, cmd_p2p, cmd_allreduce, cmd_probe, cmd_check, cmd_pipeline, cmd_trace_gen, cmd_sim, cmd_merge,
	cmd_claims, cmd_policies, cmd_runs, cmd_show, cmd_report, cmd_export, cmd_trace,
	cmd_compare, cmd_store, cmd_doctor, cmd_keygen, cmd_shape, cmd_overhead, cmd_diff, cmd_rerun, cmd_init, cmd_robust, cmd_lab;
extern const struct command cmd_lab_inner, cmd_lab_uml, cmd_lab_guest;	/* hidden */

/* "bace CMD: MESSAGE" on stderr; returns code. */
int cmd_error(const struct command *c, int code, const char *fmt, ...) BACE_PRINTF(3, 4);
/* The enum bace_exit of a failure (-errno or errno; 0: none) of a shaper, a lab, hosts or
 * a run: bad input, an environment that cannot, or a failure. began: there is a run in
 * the store, so that what a store says of itself is the run's failure. */
int cmd_exit_of(int rc, bool began);
/* Misuse: message, where the usage is, BACE_EXIT_INPUT. */
int cmd_misuse(const struct command *c, const char *fmt, ...) BACE_PRINTF(2, 3);

/* n zeroed items for a table that is about to be printed; without memory for it says so
 * and ends with BACE_EXIT_FAILED. */
void *cmd_room(size_t n, size_t size);

/* Runs the subcommand that argv[1] names; without one, or with --help, says which there are. */
int cmd_sub(const struct command *parent, const struct cmd_globals *g, int argc, char **argv);

#endif
