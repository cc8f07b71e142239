/*
 * What travels between a client and bace-shaperd: fixed structs over a
 * SOCK_SEQPACKET unix socket. Both ends come from one build; the version
 * changes with the size of every struct that is sent, and by hand with what the
 * sizes do not show.
 */
#ifndef SHAPER_SHAPERD_PROTOCOL_H
#define SHAPER_SHAPERD_PROTOCOL_H

#include "shaper/shaper.h"

#define SHAPERD_MAGIC 0x62616365u
#define SHAPERD_REVISION 4u
#define SHAPERD_LINKS_PER_MESSAGE 32
#define SHAPERD_STATS_PER_MESSAGE 128
#define SHAPERD_LINKS_MAX 40000

enum shaperd_type {
	SHAPERD_HELLO = 1,	/* first on a connection */
	SHAPERD_SPEC,		/* begins a plan: everything but the links */
	SHAPERD_LINKS,		/* the next `n` of them; not answered */
	SHAPERD_APPLY,		/* all `n` links were sent: do it */
	SHAPERD_STATS,		/* read out; answers the first of them */
	SHAPERD_STATS_NEXT,	/* more of the same read-out, from index `n` */
	SHAPERD_KEEPALIVE,
	SHAPERD_CLEAR,
	SHAPERD_CHANGE,		/* `n` links in place */
	SHAPERD_TRACE,		/* begins a trace: everything but its `n` points */
	SHAPERD_POINTS,		/* the next `n` of them; not answered */
	SHAPERD_PLAY,		/* all `n` points were sent: play it */
	SHAPERD_TABLE,		/* one of the plan's jitter tables, in order; not answered */
};

#define SHAPERD_CHANGES_MAX 256
#define SHAPERD_POINTS_PER_MESSAGE 256

struct shaperd_trace_head {
	uint16_t region;
	uint16_t loop;
	int64_t period_ns, start_real_ns;
};

struct shaperd_request {
	uint32_t magic, version, type, n;
	union {
		struct shape_spec spec;		/* its pointers are ignored */
		struct shape_link links[SHAPERD_LINKS_PER_MESSAGE];
		struct shape_change changes[SHAPERD_CHANGES_MAX];
		struct jitter_table table;
		struct shaperd_trace_head trace;
		struct shape_trace_point points[SHAPERD_POINTS_PER_MESSAGE];
	} u;
};

struct shaperd_reply {
	uint32_t magic;
	int32_t status;			/* 0 or -errno */
	uint32_t n;			/* entries in v; SHAPERD_APPLY: messages that changed something */
	char text[496];			/* why not */
	struct shape_stats stats;	/* its n is the total; its v pointer is ignored */
	struct shape_stat v[SHAPERD_STATS_PER_MESSAGE];
};

/* Sums of primes' multiples: what one struct gains another does not lose again. */
#define SHAPERD_SIZES                                                                                     \
	((uint32_t)(sizeof(struct shape_spec) + 3 * sizeof(struct shape_link) + 5 * sizeof(struct shape_change) + \
		    7 * sizeof(struct jitter_table) + 11 * sizeof(struct shaperd_trace_head) +            \
		    13 * sizeof(struct shape_trace_point) + 17 * sizeof(struct shape_stats) +             \
		    19 * sizeof(struct shape_stat) + 23 * offsetof(struct shaperd_request, u) +           \
		    29 * offsetof(struct shaperd_reply, v)))
#define SHAPERD_VERSION (SHAPERD_REVISION << 24 | (SHAPERD_SIZES & 0xffffff))

/* What follows the head of a request: how many of what size, and how many fit. */
static inline size_t shaperd_item_bytes(uint32_t type, uint32_t *max)
{
	switch (type) {
	case SHAPERD_SPEC:
		*max = UINT32_MAX;	/* one, whatever `n` announces */
		return sizeof(struct shape_spec);
	case SHAPERD_TABLE:
		*max = UINT32_MAX;
		return sizeof(struct jitter_table);
	case SHAPERD_TRACE:
		*max = UINT32_MAX;
		return sizeof(struct shaperd_trace_head);
	case SHAPERD_LINKS:
		*max = SHAPERD_LINKS_PER_MESSAGE;
		return sizeof(struct shape_link);
	case SHAPERD_CHANGE:
		*max = SHAPERD_CHANGES_MAX;
		return sizeof(struct shape_change);
	case SHAPERD_POINTS:
		*max = SHAPERD_POINTS_PER_MESSAGE;
		return sizeof(struct shape_trace_point);
	default:
		*max = UINT32_MAX;
		return 0;
	}
}

/* Bytes of a request that has `n` items; 0: more than fit. */
static inline size_t shaperd_request_bytes(uint32_t type, uint32_t n)
{
	uint32_t max;
	size_t item = shaperd_item_bytes(type, &max);

	if (n > max)
		return 0;
	return offsetof(struct shaperd_request, u) + (max == UINT32_MAX ? item : n * item);
}

/* Bytes of a reply that really has `n` entries. */
static inline size_t shaperd_reply_bytes(uint32_t n_stats)
{
	return offsetof(struct shaperd_reply, v) + n_stats * sizeof(struct shape_stat);
}

#endif
