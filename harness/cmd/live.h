/* What `bace run' shows while it runs: on a terminal a block that stays in place
 * under the lines, in a pipe lines only. */
#ifndef BACE_CMD_LIVE_H
#define BACE_CMD_LIVE_H

#include "harness/run/run.h"

struct live {
	bool on, in_place;
	int64_t begin_ns, cells_begin_ns;
	int width;		/* of the terminal */
	int shown;		/* lines of the block that are on it */
	struct bace_buf block;
};

void live_begin(struct live *l, bool quiet);
void live_line(struct live *l, const char *line);
void live_status(struct live *l, const struct run_status *s);
void live_end(struct live *l);

#endif
