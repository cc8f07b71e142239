/* How `bace robust` shows what it found. */
#ifndef BACE_CMD_ROBUST_H
#define BACE_CMD_ROBUST_H

#include "harness/robust/robust.h"
#include "harness/run/run.h"
#include "results/results.h"

void robust_print(const struct robust_judgement *j, FILE *to);
int robust_print_json(const struct robust_judgement *j, FILE *to, struct bace_err *err);
/* As a run of its own, with a row a cell in `comparison`. */
int robust_keep(struct store *s, const char *command, const struct robust_judgement *j, char id[32],
		struct bace_err *e);

struct robust_testbed {
	int n_views, n_seeds;
	struct view_spec views[ROBUST_MAX_AXIS];
};

/* Every policy under the exact view and under each of o's, measured; a run of
 * the store each. json: in place of the table, when all is done. *began: there is one. */
int robust_on_testbed(const struct experiment *exp, const struct robust_testbed *o, const struct run_options *run,
		      bool json, FILE *to, bool *began, struct bace_err *e);

#endif
