/* A progress bar with the time left, on a terminal; silent elsewhere. */
#ifndef BACE_CMD_PROGRESS_H
#define BACE_CMD_PROGRESS_H

#include "common/common.h"

struct progress {
	bool on;
	const char *what;		/* borrowed */
	int64_t begin_ns;
};

void progress_begin(struct progress *p, const char *what, bool quiet);
/* arg: struct progress *. Fits pool_run and sweep_options. */
void progress_show(void *arg, int done, int total);
/* Removes the bar. */
void progress_end(struct progress *p);

#endif
