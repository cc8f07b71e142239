/* Running an experiment from the command line: what `run' and `rerun' share. */
#ifndef BACE_CMD_EXECUTE_H
#define BACE_CMD_EXECUTE_H

#include "harness/cmd/cmd.h"
#include "harness/cmd/load.h"
#include "harness/run/run.h"

struct execution {
	const struct command *command;	/* in whose name errors are printed */
	struct run_options o;
	const char *report;		/* NULL: beside the store */
	bool no_report;
	bool no_tables;
};

/* Runs it with progress, catching signals, and presents it. id: "" if none began. */
int execute(const struct cmd_globals *g, struct execution *x, struct experiment *exp, char id[32]);

#endif
