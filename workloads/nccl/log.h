/*
 * Reads NCCL's log (NCCL_DEBUG=INFO, subsystems INIT and NET) and says by which
 * path it moves data. The lines are those of NCCL 2.28:
 *   ... NCCL INFO NET/Socket : Using [0]eth0:10.1.2.3<0>
 *   ... NCCL INFO Using network Socket
 *   ... NCCL INFO Channel 00/1 : 0[0] -> 1[0] [send] via NET/Socket/0
 *   ... NCCL INFO Channel 00 : 0[0] -> 1[0] via SHM/direct/direct
 *   ... NCCL WARN TEXT
 * Pure: takes pieces of text, of any content.
 */
#ifndef BACE_NCCL_LOG_H
#define BACE_NCCL_LOG_H

#include "common/common.h"

#define NCCL_LOG_PATHS_MAX 256
#define NCCL_LOG_LINE_MAX 512		/* of a longer line, the beginning */

struct nccl_path {			/* one end's view of the way from one rank to another */
	int from, to;
	enum { PATH_BOTH, PATH_SEND, PATH_RECEIVE } end;
	char via[40];
};

struct nccl_log {
	struct nccl_path paths[NCCL_LOG_PATHS_MAX];	/* each once */
	size_t n_paths;
	bool too_many;
	char network[32];		/* "" until said */
	char interfaces[200];
	char warning[256];		/* the last */
	char line[NCCL_LOG_LINE_MAX];	/* not complete yet */
	size_t len;
};

void nccl_log_feed(struct nccl_log *log, const char *text, size_t n);

/* Is all of it over kernel sockets, of this interface ("eth0:10.1.2.3")? -EPROTO
 * says what is not. `rank` sends to and receives from each of the peers. */
int nccl_log_check(const struct nccl_log *log, int rank, const int *peers, size_t n_peers,
		   const char *interface, struct bace_err *e);

#endif
