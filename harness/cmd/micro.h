/* What the commands that measure links by themselves share. */
#ifndef BACE_CMD_MICRO_H
#define BACE_CMD_MICRO_H

#include "harness/cmd/load.h"
#include "harness/cmd/signals.h"

#define MICRO_SIZES_MAX 64

/* "64B,1kB": 0, or an exit status, said. */
int micro_sizes(const struct command *c, const char *text, uint64_t least, uint64_t most, uint64_t *v, int *n);
/* Index of the region of this name, or -1. */
int micro_region(const struct experiment *exp, const char *name);

#endif
