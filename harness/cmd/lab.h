/* A lab that stays up: who holds it, where it is written down, what it has.
 *
 * One process, the holder, has the lab as long as it lives, and a lock on the file
 * NAME.json of the runtime folder `labs' for as long: a file that nobody locks is of
 * a lab that is gone. */
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

/* The holder's: makes the file and locks it for as long as *fd is open. -EEXIST: that lab is up. */
int lab_state_claim(const char *name, int *fd, struct bace_err *e);
int lab_state_write(int fd, const json_t *state, struct bace_err *e);
void lab_state_remove(const char *name);

/* What the holder wrote: NULL and -ENOENT where no such lab is up, the others named;
 * an object without "pid1" while it comes up. */
int lab_state_read(const char *name, json_t **out, struct bace_err *e);
/* All that are up, in order of name; files of others are removed. */
int lab_state_list(json_t **array, struct bace_err *e);

/* "  ireland-0  ireland  10.16.0.2": a line each. */
void lab_print_hosts(const json_t *state);

#endif
