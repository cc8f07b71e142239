/* Private to results: the open store and its statements. */
#ifndef BACE_RESULTS_STORE_H
#define BACE_RESULTS_STORE_H

#include <sqlite3.h>

#include "results/results.h"

enum insert { INSERT_RUN, INSERT_LINK_TRUTH, INSERT_PLAN_CHECK, INSERT_PLACEMENT, INSERT_STEP,
	INSERT_TRANSFER, INSERT_OP, INSERT_JOB_OUTCOME, INSERT_DECISION, INSERT_SKIP, INSERT_MOMENT,
	INSERT_MOMENT_JOB, INSERT_SIM_OP, INSERT_MONITOR, INSERT_ENERGY, INSERT_COMPARISON,
	INSERT_TRANSFER_STEP, INSERT_DISTURBANCE, N_INSERTS };

struct store {
	sqlite3 *db;
	char *path;
	sqlite3_stmt *inserts[N_INSERTS];	/* prepared when first used */
	struct op_counter {
		int64_t placement, seq;		/* next number of that placement's operations */
	} ops, sim_ops;
};

/* Fills e from the database's last error; returns -errno. */
int store_fail(struct store *s, struct bace_err *e, const char *what);
/* Binds one argument a letter: s text (may be NULL), d double (NaN: NULL),
 * i int64_t; steps and resets. */
int store_insert(struct store *s, enum insert which, struct bace_err *e, const char *format, ...);
int store_exec(struct store *s, const char *sql, struct bace_err *e);
/* Prepares sql and binds run to its first parameter, if it has one. */
int store_query(struct store *s, const char *sql, const char *run, sqlite3_stmt **out,
		struct bace_err *e);
/* True with a row of q. False where *rc says that something failed before, at
 * the end, and when the row cannot be read, which *rc then says. */
bool store_next(struct store *s, sqlite3_stmt *q, int *rc, struct bace_err *e);
/* All that is read from here on is of one state, though a run may be writing;
 * nothing to do inside a transaction. store_rollback ends it. */
int store_begin_read(struct store *s, struct bace_err *e);
/* NULL is NaN; NULL is "". */
double column_number(sqlite3_stmt *q, int column);
const char *column_text(sqlite3_stmt *q, int column);

/* What a run's row says it is. Where it says "running": "killed" when its process is
 * gone, "running?" when that process would not be seen from here. */
const char *run_status(const char *status, const char *process);
#define RUN_STATUS_UNSEEN "running?"
/* Where process ids mean the same: the inode of the namespace; 0: unknown. */
unsigned long long pid_namespace(void);

/* What the bytes of a file say, without a database library in the way.
 * Returns 0 when it may be opened (or is not there), else -errno with what is
 * wrong with it. *version is -1 when only the library can tell (a log beside
 * it holds newer pages). */
int store_probe(const char *path, int *version, struct bace_err *e);

#endif
