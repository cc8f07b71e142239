/* How `bace robust` shows what it found. */
#ifndef BACE_CMD_ROBUST_H
#define BACE_CMD_ROBUST_H

#include "harness/robust/robust.h"
#include "results/results.h"

void robust_print(const struct robust_judgement *j, FILE *to);
int robust_print_json(const struct robust_judgement *j, FILE *to, struct bace_err *err);
/* As a run of its own, with a row a cell in `comparison`. */
int robust_keep(struct store *s, const char *command, const struct robust_judgement *j, char id[32],
		struct bace_err *e);

#endif
