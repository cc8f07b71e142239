#ifndef BACE_CMD_LOAD_H
#define BACE_CMD_LOAD_H

#include "harness/cmd/cmd.h"
#include "profiles/profiles.h"

/* Loads an experiment; prints every error. Returns 0 or an enum bace_exit. */
int load_experiment(const struct command *c, const char *path, struct experiment *exp);
/* --backend's word; *has: it was given. Returns 0 or an enum bace_exit, said. */
int cmd_backend(const struct command *c, const char *name, bool *has, enum backend_kind *out);

#endif
