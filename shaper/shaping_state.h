/* What a struct shaping holds, for the files that work on it. Private to the shaper. */
#ifndef SHAPER_SHAPING_STATE_H
#define SHAPER_SHAPING_STATE_H

#include "shaper/delay/line.h"
#include "shaper/delay/rules.h"
#include "shaper/journal.h"
#include "shaper/player.h"
#include "shaper/shaping.h"
#include "shaper/watch.h"

struct shaping {
	struct shaping_config config;
	struct netlink nl;
	bool active;
	bool known;		/* the kernel was read and had just `spec`, and `watch` told of nothing since */
	struct shape_spec spec;	/* last applied, with what changed since; links owned */
	struct delay_line *line;
	struct delay_rules rules;
	struct journal touched;	/* every interface, and how it was */
	struct watch watch;
	int ifindex[2];		/* of egress and ingress; 0: not shaped by tc */
	uint64_t drift_repairs;
	int64_t drift_check_ns;	/* CLOCK_MONOTONIC; 0: none is due */
	int64_t drift_checked_ns;
	int64_t rules_check_ns;	/* when the delay line's rule is looked for again; 0: there is none */
	struct bace_err lost;	/* errnum 0: what is ours stands */
	struct player player;
};

/* Of the interface; NULL: nothing was done there. */
struct journal_entry *shaping_touched(struct shaping *s, const char *ifname);
/* The same, made if there is none; NULL: no memory, err says so. */
struct journal_entry *shaping_touch(struct shaping *s, const char *ifname, struct bace_err *e);
/* Before a change, so that a crash in the middle of it can be undone. */
int shaping_keep_journal(struct shaping *s, struct bace_err *e);

/* Gives the root of the interface back as it was; adds to *n_changes. */
int shaping_clear_tc(struct shaping *s, struct journal_entry *t, size_t *n_changes, struct bace_err *e);
int shaping_stop_line(struct shaping *s, struct bace_err *e);
int shaping_apply_gso(struct shaping *s, const struct shape_spec *spec, size_t *n_changes, struct bace_err *e);
int shaping_restore_gso(struct shaping *s, struct journal_entry *t, struct bace_err *e);

/* netem does not show its table, so a comparison cannot tell that it is another
 * one: sends it again to links that may have another since a plan for `before'. */
int shaping_renew_tables(struct shaping *s, const struct shape_spec *before, const struct shape_spec *spec,
			 size_t *n_changes, struct bace_err *e);
/* Looks for the delay line's rule again in a while, if there is one. */
void shaping_watch_rules(struct shaping *s);
/* Looks, and puts it back. */
void shaping_check_rules(struct shaping *s);
/* What a change in place and the drift watch need to find the interfaces. */
void shaping_keep_indices(struct shaping *s, const struct shape_plan *plan);

#endif
