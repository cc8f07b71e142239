/*
 * What travels between a client and bace-shaperd: fixed structs over a
 * SOCK_SEQPACKET unix socket. Both ends come from one build; the version
 * changes with the size of every struct that is sent.
 */
#ifndef SHAPER_SHAPERD_PROTOCOL_H
#define SHAPER_SHAPERD_PROTOCOL_H

#include "shaper/shaper.h"

#define SHAPERD_MAGIC 0x62616365u
#define SHAPERD_REVISION 1u
#define SHAPERD_VERSION \
	(SHAPERD_REVISION << 24 ^ (uint32_t)sizeof(struct shape_spec) << 12 ^ (uint32_t)sizeof(struct shape_link))
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
};

struct shaperd_request {
	uint32_t magic, version, type, n;
	union {
		struct shape_spec spec;		/* links pointer ignored */
		struct shape_link links[SHAPERD_LINKS_PER_MESSAGE];
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

/* Bytes of a request or reply that really has `n` links or entries. */
static inline size_t shaperd_request_bytes(uint32_t type, uint32_t n)
{
	if (type == SHAPERD_SPEC)
		return offsetof(struct shaperd_request, u) + sizeof(struct shape_spec);
	if (type == SHAPERD_LINKS)
		return offsetof(struct shaperd_request, u) + n * sizeof(struct shape_link);
	return offsetof(struct shaperd_request, u);
}

static inline size_t shaperd_reply_bytes(uint32_t n_stats)
{
	return offsetof(struct shaperd_reply, v) + n_stats * sizeof(struct shape_stat);
}

#endif
