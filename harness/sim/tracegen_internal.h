/* Private to the readers of traces. */
#ifndef BACE_SIM_TRACEGEN_INTERNAL_H
#define BACE_SIM_TRACEGEN_INTERNAL_H

#include "harness/sim/tracegen.h"

/* Where jobs of a file are collected; names are refused the second time. */
struct trace_collector {
	const char *path;
	struct bace_diags *d;
	struct trace *out;
	struct trace_skipped *skipped;
	bool only_completed;
	struct name_slot *slots;	/* hash table, open addressing */
	size_t n_slots, n_names;
	bool dates, any_time;		/* how arrivals are given */
	bool no_memory;
};

struct name_slot {
	char name[NAME_LEN];		/* "": empty */
	int place;			/* line, or number of the job */
};

/* One job as text; NULL or "": not given. place: line of the file, or with
 * `what` ("job") the number of an item. */
struct trace_row {
	int place;
	const char *what;		/* NULL: place is a line */
	const char *name, *arrival, *gpus, *duration, *start, *end, *state;
};

/* false: no more is to be read (memory, or too many diagnostics). */
bool trace_collect(struct trace_collector *c, const struct trace_row *row);
/* A diagnostic about a row. */
void trace_complain(struct trace_collector *c, const struct trace_row *row, const char *fmt, ...)
	BACE_PRINTF(3, 4);
/* Ends the collection: orders, or frees and returns -EINVAL or -ENOMEM. */
int trace_collected(struct trace_collector *c, struct bace_err *e);

#endif
