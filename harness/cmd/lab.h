/* A lab that stays up: who holds it, how it is found, what it has.
 *
 * One process, the holder, has the lab as long as it lives. It listens on an abstract
 * socket named by user and lab, which the kernel removes with it: nothing can be
 * stale, and no folder that others clear is in it. To whoever connects it says what
 * it has. */
#ifndef BACE_CMD_LAB_H
#define BACE_CMD_LAB_H

#include <jansson.h>
#include <sys/types.h>

#include "harness/cmd/cmd.h"

#define LAB_NAME_MAX 32
#define LAB_DEFAULT "lab"

extern const struct command cmd_lab_up, cmd_lab_list, cmd_lab_exec, cmd_lab_down;

/* Letters, digits, - and _; 0, or an exit status, said. */
int lab_check_name(const struct command *c, const char *name);

/* ---- the holder ---- */
/* Takes the name for as long as *fd is open. -EEXIST: that lab is up, or coming up. */
int lab_claim(const char *name, int *fd, struct bace_err *e);
/* From now on it is up; by the holder itself, whose pid others are told. */
int lab_listen(int fd, struct bace_err *e);
/* Answers all who wait; never waits itself, but a second for who does not read. */
void lab_answer(int fd, const json_t *state);

/* ---- the others ---- */
struct lab_found {
	json_t *state;			/* what the holder says of itself; NULL while it comes up */
	int holder;			/* pidfd; -1 while it comes up */
};

/* -ENOENT: no such lab is up; the error names those that are. */
int lab_find(const char *name, struct lab_found *out, struct bace_err *e);
void lab_found_free(struct lab_found *f);
/* Of all that are up, in order of name; of those that come up only "name". */
int lab_list(json_t **array, struct bace_err *e);

/* "  ireland-0  ireland  10.16.0.2": a line each. */
void lab_print_hosts(const json_t *state);

#endif
