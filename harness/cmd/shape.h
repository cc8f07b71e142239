/* The subcommands of `bace shape`: one file each, one table in shape.c. */
#ifndef BACE_CMD_SHAPE_H
#define BACE_CMD_SHAPE_H

#include "harness/cmd/cmd.h"
#include "harness/shape/shape.h"

extern const struct command cmd_shape_plan, cmd_shape_diff, cmd_shape_show, cmd_shape_apply, cmd_shape_clear,
	cmd_shape_trace, cmd_shape_verify, cmd_shape_respond;

/* A shape file with the host in it that is meant. */
struct shape_input {
	struct shape_file file;
	int host;
	struct shape_spec spec;
	const char *why;		/* this delay backend */
};

/* Reads and checks everything that can be wrong without touching anything, and
 * prints it: an enum bace_exit. offline: do not look at this machine's interfaces. */
int shape_input_read(const struct command *c, const char *file, const char *host, bool offline, struct shape_input *in);
void shape_input_free(struct shape_input *in);
/* The exit status that an error of the shaper means. */
int shape_exit(const struct bace_err *e);
/* --at: a moment ("2026-11-30T10:00:00Z", Unix seconds, or "+5s" from now), ns of
 * CLOCK_REALTIME. -1, or an exit status once it is said what is wrong. */
int shape_take_at(const struct command *c, const char *text, int64_t *at_ns);
void shape_print_json(json_t *j);	/* takes it */

#endif
