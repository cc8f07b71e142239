/* bace-shaperd: the only part with privilege. Private to shaper/shaperd. */
#ifndef SHAPER_SHAPERD_SHAPERD_H
#define SHAPER_SHAPERD_SHAPERD_H

#include <sys/types.h>

#include "shaper/shaperd/protocol.h"
#include "shaper/shaping.h"

#define SHAPERD_IFACES_MAX 32
#define SHAPERD_PREFIXES_MAX 256

enum guard { GUARD_AUTO, GUARD_ON, GUARD_OFF };

struct shaperd_config {
	const char *socket_path;
	const char *state_dir;		/* NULL: no journal */
	const char *group;		/* NULL: "bace" if there is such a group */
	double lease_timeout_s;		/* 0: none */
	bool clear;
	enum guard guard;
	int n_ifaces;			/* 0: any */
	char ifaces[SHAPERD_IFACES_MAX][IFNAMSIZ];
	int n_prefixes;			/* 0: any */
	struct shape_prefix prefixes[SHAPERD_PREFIXES_MAX];
};

/* ---- access: who may ask, for what ---- */
int access_group(const struct shaperd_config *c, gid_t *gid, struct bace_err *e);
/* May the process at the other end of `fd` shape? */
int access_check_peer(int fd, gid_t gid, struct bace_err *e);
/* Is the spec within the limits of the configuration, and well-formed as bytes
 * from another process? Terminated strings, enums in range. */
int access_check_spec(const struct shaperd_config *c, const struct shape_spec *s, struct bace_err *e);

/* ---- session: one connected client ---- */
struct session {
	int fd;
	bool greeted;
	int64_t last_heard_ns;
	struct shape_spec spec;		/* being received; links owned */
	int links_expected, links_received, tables_expected;
	struct shape_trace trace;	/* being received */
	struct shaperd_trace_head trace_head;
	size_t points_expected;
	struct shape_stats stats;	/* last read-out, handed out in parts */
	struct shaperd_request request;
	struct shaperd_reply reply;
};

struct session *session_new(int fd);
void session_free(struct session *s);	/* closes; NULL is allowed */
/* Reads one request, does it and answers. -errno: the connection is over. */
int session_serve(struct session *s, const struct shaperd_config *c, struct shaping *sh);

/* ---- server ---- */
/* A second process in the same network namespace would undo the first one's work;
 * abstract socket names belong to the namespace and end with the process. Tried
 * for so long; -EBUSY: somebody else has it. */
int server_claim(int *fd, int64_t patience_ns, struct bace_err *e);
/* Runs until a signal; everything is cleared when it returns. */
int server_run(const struct shaperd_config *c, struct bace_err *e);

#endif
