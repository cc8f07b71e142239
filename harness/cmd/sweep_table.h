/* What `bace sim` and `bace merge` print of a complete sweep. */
#ifndef BACE_CMD_SWEEP_TABLE_H
#define BACE_CMD_SWEEP_TABLE_H

#include "harness/sim/sim.h"

/* Returns the number of cells without numbers, or -errno. */
int sweep_print(const struct sweep *s, FILE *to, struct bace_err *err);
int sweep_print_json(const struct sweep *s, FILE *to, struct bace_err *err);

#endif
