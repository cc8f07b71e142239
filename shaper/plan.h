/*
 * The exact tc state that follows from a shape_spec, and the way there from
 * what the kernel shows. Pure; private to the shaper.
 */
#ifndef SHAPER_PLAN_H
#define SHAPER_PLAN_H

#include "shaper/shaper.h"
#include "shaper/tcobj.h"

struct shape_plan {
	struct if_state egress;		/* n = 0: no tc state of ours */
	struct if_state ingress;
	/* Delay queue of the NFQUEUE backend: kernel packets, none dropped. */
	uint32_t queue_limit_pkts;
};

/* Checks the spec and computes the plan. -EINVAL: err names link and value. */
int plan_build(const struct shape_spec *s, struct shape_plan *out, struct bace_err *e);
void plan_free(struct shape_plan *p);

/* What the link's buffer resolves to. */
uint64_t plan_buffer_bytes(const struct shape_spec *s, const struct shape_link *l);
bool plan_link_is_delayed(const struct shape_link *l);
/* Is any link of it? */
bool plan_delays(const struct shape_spec *s);
/* Packets of the link that may have to wait in its delay at once. */
uint32_t plan_delay_limit_pkts(const struct shape_link *l);
int spec_check(const struct shape_spec *s, struct bace_err *e);
/* Can the delay backend that the spec names do what it asks? */
int spec_check_backend(const struct shape_spec *s, struct bace_err *e);
int spec_check_link(const struct shape_link *l, struct bace_err *e);
/* The two objects of one link that a change in place touches. */
struct tcobj plan_link_class(const struct shape_spec *s, const struct shape_link *l);
struct tcobj plan_link_netem(const struct shape_spec *s, const struct shape_link *l);
/* Packets that the NFQUEUE delay line may have to hold. */
uint32_t plan_queue_limit(const struct shape_spec *s);

enum plan_side { PLAN_BY_DESTINATION, PLAN_BY_SOURCE };
/* u32 filters under root qdisc SHAPE_HANDLE_MAJOR: prefix -> class of its link.
 * Hash tables once there are more than a handful. */
int plan_add_filters(const struct shape_spec *s, enum plan_side side, struct if_state *to,
		     struct bace_err *e);

/* ---- from here to there ---- */
enum plan_verb {
	PLAN_ADD,
	PLAN_CHANGE,
	PLAN_REPLACE_ROOT,	/* whatever is at the root gives way */
	PLAN_DELETE,
	PLAN_DELETE_PRIO,	/* every filter of that priority */
};

struct plan_step {
	enum plan_verb verb;
	const struct tcobj *o;	/* borrowed from want (or, to delete, from have) */
};

struct plan_steps {
	size_t n, cap;
	struct plan_step *v;
};

/* In the order in which the kernel takes them. Nothing to do: n = 0. */
int plan_diff(const struct if_state *want, const struct if_state *have, struct plan_steps *out);
void plan_steps_free(struct plan_steps *s);
/* "qdisc change dev wan0 parent bace:10 handle 10: bfifo limit 50000b" */
int plan_step_print(const struct plan_step *s, const char *ifname, struct bace_buf *b);

#endif
