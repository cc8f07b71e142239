/* Between the process that holds the lease and the commands that ask it; where
 * its things are. Private to harness/shape. */
#ifndef BACE_HARNESS_SHAPE_HOLDER_H
#define BACE_HARNESS_SHAPE_HOLDER_H

#include "harness/shape/shape.h"

extern const char *const delay_words[];	/* by enum delay_kind */

/* One holder a network namespace: -EADDRINUSE when there is one. */
int holder_listen(int *fd, struct bace_err *e);
/* Sends `request` (taken) to the holder here and reads its answer. -ENOENT: there is none. */
int holder_ask(json_t *request, json_t **answer, struct bace_err *e);
/* One request from an accepted connection; NULL: nothing of use. */
json_t *holder_receive(int fd);
void holder_answer(int fd, json_t *answer);	/* takes it */

/* What shape_play asked for. */
int holder_play(struct shaperd_client *c, const struct shape_spec *s, const json_t *request, struct bace_err *e);

/* Does a bace-shaperd run in this network namespace? */
bool daemon_is_here(void);
/* Of the daemon that we start: socket and journal; one a network namespace. */
int daemon_state_dir(char *buf, size_t cap, struct bace_err *e);
int daemon_path(const char *self, char *buf, size_t cap, struct bace_err *e);
/* Starts one that ends with this process; *socket is where it listens. */
int daemon_start(const char *self, pid_t *pid, char *socket, size_t cap, struct bace_err *e);
void daemon_stop(pid_t pid);
/* Removes the state directory, unless a journal is in it. */
void daemon_forget_state(void);
/* `bace-shaperd --clear`. */
int daemon_clear(const char *self, struct bace_err *e);

#endif
