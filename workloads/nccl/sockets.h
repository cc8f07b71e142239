/* What this process's TCP sockets, NCCL's among them, have sent to an address. */
#ifndef BACE_NCCL_SOCKETS_H
#define BACE_NCCL_SOCKETS_H

#include "workloads/worker/net.h"

struct sockets_count {
	struct net_info sum;		/* bytes, segments; rtt_us and min_rtt_us: the least */
	int n;
	uint64_t unacked;		/* written, not yet acknowledged */
};

int sockets_count(const char *addr, struct sockets_count *out, struct bace_err *e);

#endif
