/* Private to the stand-in's NCCL. */
#ifndef TESTS_STANDIN_COMM_H
#define TESTS_STANDIN_COMM_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>

#include <nccl.h>

#include "tests/standin/standin.h"

#define RANKS_MAX 64
#define HOST_ID 120

struct member {				/* what ranks tell each other at the start */
	int32_t rank, n;
	int32_t device;
	char host[HOST_ID];
	struct sockaddr_storage addr;	/* where it takes connections */
};

struct op {
	bool send;
	int peer;
	void *data;
	size_t n, done;			/* done counts the length before the data too */
	uint64_t length;
};

struct ncclComm {
	int rank, n;
	ncclUniqueId id;
	atomic_int state;		/* ncclResult_t */
	atomic_bool aborted;
	pthread_t init, launcher, acceptor;
	bool has_init, has_launcher, has_acceptor;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct launch *launches, **last;
	bool quit;
	int listener;
	struct member members[RANKS_MAX];
	int out[RANKS_MAX], in[RANKS_MAX];	/* connections, -1: none yet */
	bool told[RANKS_MAX];		/* the log has the way from that rank */
};

/* ---- boot.c ---- */
int boot_listen(int *fd, struct sockaddr_storage *addr);
ncclResult_t boot_root(ncclUniqueId *id);
/* Fills comm->members; blocks until all are there or the communicator is aborted. */
ncclResult_t boot_join(struct ncclComm *comm);
int boot_dial(struct ncclComm *comm, const struct sockaddr_storage *addr);
/* All n bytes, or -1: closed, failed or aborted. */
int boot_transfer(struct ncclComm *comm, int fd, bool send, void *p, size_t n);
void boot_log(const char *kind, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- move.c ---- */
/* Carries the operations out; ncclSuccess, or why not. */
ncclResult_t move_all(struct ncclComm *comm, struct op *ops, int n);

#endif
