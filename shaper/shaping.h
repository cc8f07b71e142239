/*
 * All that one process has changed in its network namespace, and the way back:
 * tc on two interfaces, the delay line with its rule, gso_max_size. Private to
 * the shaper; shaperd holds one. Needs CAP_NET_ADMIN.
 */
#ifndef SHAPER_SHAPING_H
#define SHAPER_SHAPING_H

#include "shaper/shaper.h"

struct shaping;

struct shaping_config {
	/* Refuse the interface of the default route, and to replace qdiscs that
	 * somebody made, unless the spec insists. */
	bool guard;
	const char *journal_dir;	/* NULL: none; borrowed */
};

int shaping_open(const struct shaping_config *c, struct shaping **out, struct bace_err *e);
/* Does not clear. */
void shaping_close(struct shaping *s);
/* Makes everything as the spec says and reads it back. On failure what was
 * there before is put back. *n_changes (may be NULL): messages that changed
 * something. */
int shaping_apply(struct shaping *s, const struct shape_spec *spec, size_t *n_changes, struct bace_err *e);
int shaping_stats(struct shaping *s, struct shape_stats *out, struct bace_err *e);
/* Links in place, one message each, read back; all or none. */
int shaping_change(struct shaping *s, const struct shape_change *v, int n, struct bace_err *e);
/* Takes the trace over. shaping_run_due plays it. */
int shaping_play(struct shaping *s, uint16_t region, struct shape_trace *t, bool loop, int64_t start_real_ns,
		 struct bace_err *e);
bool shaping_playing(const struct shaping *s);
/* Readable when tc state has changed: then shaping_on_notification. */
int shaping_watch_fd(const struct shaping *s);
void shaping_on_notification(struct shaping *s);
/* When shaping_run_due has something to do (CLOCK_MONOTONIC); INT64_MAX: nothing. */
int64_t shaping_next_ns(const struct shaping *s);
void shaping_run_due(struct shaping *s);
/* Compares with the plan and puts back what somebody else changed. */
void shaping_check_drift(struct shaping *s);
/* -EIO: what was applied no longer stands, and why. */
int shaping_lost(const struct shaping *s, struct bace_err *e);
/* Everything as it was before the first apply. */
int shaping_clear(struct shaping *s, struct bace_err *e);
bool shaping_active(const struct shaping *s);
/* Nothing is to be shaped, and something could not be put back: clear again. */
bool shaping_owes(const struct shaping *s);
/* Undoes what the journal of an earlier, dead process says and removes what is
 * ours by its handle from all interfaces here. */
int shaping_clear_leftovers(const char *journal_dir, struct bace_err *e);
/* Does the plan have packets dropped, not passed, when the delay line has died? */
bool shaping_fails_closed(const struct shaping *s);
/* Readable when the delay line has died; -1: there is none. */
int shaping_dead_fd(const struct shaping *s);

#endif
