/* What the commands that measure links by themselves share. */
#ifndef BACE_CMD_MICRO_H
#define BACE_CMD_MICRO_H

#include "harness/cmd/load.h"

#define MICRO_SIZES_MAX 64

/* "64B,1kB": 0, or an exit status, said. */
int micro_sizes(const struct command *c, const char *text, uint64_t least, uint64_t most, uint64_t *v, int *n);
int micro_backend(const struct command *c, const char *name, enum backend_kind *out);
/* Index of the region of this name, or -1. */
int micro_region(const struct experiment *exp, const char *name);
/* From here on Ctrl-C and the like make micro_cancelled true. */
void micro_catch_signals(void);
bool micro_cancelled(void *arg);
/* Of a failure of the testbed. */
int micro_exit_code(int rc);

#endif
