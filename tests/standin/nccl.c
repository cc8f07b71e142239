#include "tests/standin/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <poll.h>

#define OPS_MAX 64
#define POLL_MS 20

/* A group on its way: connections first, then on to the stream. */
struct launch {
	struct launch *next;
	struct ncclComm *comm;
	cudaStream_t stream;
	int n;
	struct op ops[OPS_MAX];
};

static _Thread_local struct {
	int depth;
	struct launch *open;
} group;

ncclResult_t ncclGetVersion(int *version)
{
	*version = NCCL_VERSION_CODE;
	return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t r)
{
	static const char *const names[] = { "no error", "unhandled cuda error", "unhandled system error",
		"internal error", "invalid argument", "invalid usage",
		"remote process exited or there was a network error", "NCCL operation in progress" };

	return (unsigned)r < sizeof(names) / sizeof(names[0]) ? names[r] : "unknown result code";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
	return boot_root(id);
}

static void hang_until_aborted(const struct ncclComm *c)
{
	while (!c->aborted)
		usleep(POLL_MS * 1000);
}

/* ---- launching ---- */

/* What has failed hangs, as a kernel does that waits for its proxy. */
static void run_group(void *arg)
{
	struct launch *l = arg;
	ncclResult_t rc = move_all(l->comm, l->ops, l->n);

	if (rc != ncclSuccess && !l->comm->aborted) {
		l->comm->state = rc;
		hang_until_aborted(l->comm);
	}
	free(l);
}

static ncclResult_t connect_peer(struct ncclComm *c, const struct op *o)
{
	const char *path = standin_option("path", "NET/Socket/0");
	int32_t me = c->rank;

	if (!o->send) {
		for (;;) {
			int fd;

			pthread_mutex_lock(&c->lock);
			fd = c->in[o->peer];
			pthread_mutex_unlock(&c->lock);
			if (fd >= 0)
				break;
			if (c->aborted)
				return ncclInternalError;
			usleep(1000);
		}
		boot_log("INFO", "Channel 00/0 : %d[0] -> %d[0] [receive] via %s", o->peer, c->rank, path);
		return ncclSuccess;
	}
	c->out[o->peer] = boot_dial(c, &c->members[o->peer].addr);
	if (c->out[o->peer] < 0 || boot_transfer(c, c->out[o->peer], true, &me, sizeof(me)))
		return ncclRemoteError;
	boot_log("INFO", "Channel 00/0 : %d[0] -> %d[0] [send] via %s", c->rank, o->peer, path);
	return ncclSuccess;
}

/* Those that send first: the other side's receive waits for them. */
static ncclResult_t connect_all(struct launch *l)
{
	ncclResult_t rc = ncclSuccess;

	for (int pass = 0; pass < 2; pass++) {
		for (int i = 0; rc == ncclSuccess && i < l->n; i++) {
			const struct op *o = &l->ops[i];

			if (o->send != !pass)
				continue;
			if (o->send ? l->comm->out[o->peer] >= 0 : l->comm->told[o->peer])
				continue;
			rc = connect_peer(l->comm, o);
			if (!o->send)
				l->comm->told[o->peer] = true;
		}
	}
	return rc;
}

static void *run_launcher(void *arg)
{
	struct ncclComm *c = arg;

	pthread_mutex_lock(&c->lock);
	while (!c->quit) {
		struct launch *l = c->launches;
		ncclResult_t rc;

		if (!l) {
			pthread_cond_wait(&c->wake, &c->lock);
			continue;
		}
		c->launches = l->next;
		if (!c->launches)
			c->last = &c->launches;
		pthread_mutex_unlock(&c->lock);
		rc = connect_all(l);
		if (rc == ncclSuccess && standin_enqueue(l->stream, run_group, l) != cudaSuccess)
			rc = ncclUnhandledCudaError;
		if (rc != ncclSuccess)
			free(l);
		pthread_mutex_lock(&c->lock);
		int working = ncclInProgress;

		/* An error of a group that ran meanwhile stays. */
		if (!c->launches)
			atomic_compare_exchange_strong(&c->state, &working, (int)rc);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

/* ---- groups ---- */

ncclResult_t ncclGroupStart(void)
{
	group.depth++;
	return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
	struct launch *l = group.open;
	struct ncclComm *c;

	if (--group.depth || !l)
		return ncclSuccess;
	group.open = NULL;
	c = l->comm;
	pthread_mutex_lock(&c->lock);
	int idle = ncclSuccess;

	/* The documentation's rule: no call while another is in progress. */
	if (!atomic_compare_exchange_strong(&c->state, &idle, ncclInProgress)) {
		pthread_mutex_unlock(&c->lock);
		free(l);
		return idle == ncclInProgress ? ncclInvalidUsage : (ncclResult_t)idle;
	}
	*c->last = l;
	c->last = &l->next;
	pthread_cond_signal(&c->wake);
	pthread_mutex_unlock(&c->lock);
	return ncclInProgress;
}

static ncclResult_t add(bool send, void *data, size_t n, int peer, ncclComm_t comm, cudaStream_t stream)
{
	ncclResult_t rc;

	if (!comm || peer < 0 || peer >= comm->n || peer == comm->rank || !data)
		return ncclInvalidArgument;
	ncclGroupStart();
	if (!group.open)
		group.open = calloc(1, sizeof(*group.open));
	if (!group.open || group.open->n == OPS_MAX) {
		ncclGroupEnd();
		return ncclSystemError;
	}
	group.open->comm = comm;
	group.open->stream = stream;
	group.open->ops[group.open->n++] = (struct op){ .send = send, .peer = peer, .data = data, .n = n, .length = n };
	rc = ncclGroupEnd();
	return group.depth ? ncclSuccess : rc;
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
		      cudaStream_t stream)
{
	return add(true, (void *)from, count, peer, comm, stream);
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
	return add(false, to, count, peer, comm, stream);
}

/* ---- the communicator ---- */

static void *run_acceptor(void *arg)
{
	struct ncclComm *c = arg;
	struct pollfd p = { .fd = c->listener, .events = POLLIN };

	while (!c->aborted && !c->quit) {
		int32_t from;
		int fd;

		if (poll(&p, 1, POLL_MS) <= 0)
			continue;
		fd = accept4(c->listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			continue;
		if (boot_transfer(c, fd, false, &from, sizeof(from)) || from < 0 || from >= c->n) {
			close(fd);
			continue;
		}
		pthread_mutex_lock(&c->lock);
		c->in[from] = fd;
		pthread_mutex_unlock(&c->lock);
	}
	return NULL;
}

static void *run_init(void *arg)
{
	struct ncclComm *c = arg;
	ncclResult_t rc;

	if (!strcmp(standin_option("init", ""), "hang"))
		hang_until_aborted(c);
	rc = boot_join(c);
	if (rc == ncclSuccess)
		c->has_acceptor = !pthread_create(&c->acceptor, NULL, run_acceptor, c);
	if (rc == ncclSuccess)
		c->has_launcher = !pthread_create(&c->launcher, NULL, run_launcher, c);
	c->state = rc;
	return NULL;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int n, ncclUniqueId id, int rank, ncclConfig_t *config)
{
	struct ncclComm *c;

	if (n < 1 || n > RANKS_MAX || rank < 0 || rank >= n || config->magic != 0xcafebeef || config->blocking != 0)
		return ncclInvalidArgument;
	c = calloc(1, sizeof(*c));
	if (!c)
		return ncclSystemError;
	c->rank = rank;
	c->n = n;
	c->id = id;
	c->state = ncclInProgress;
	c->listener = -1;
	c->last = &c->launches;
	for (int i = 0; i < RANKS_MAX; i++)
		c->out[i] = c->in[i] = -1;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->wake, NULL);
	c->has_init = !pthread_create(&c->init, NULL, run_init, c);
	if (!c->has_init) {
		free(c);
		return ncclSystemError;
	}
	*comm = c;
	return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
	*state = (ncclResult_t)comm->state;
	return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
	if (strcmp(standin_option("finalize", ""), "hang"))
		return ncclSuccess;
	comm->state = ncclInProgress;
	return ncclInProgress;
}

static void free_comm(struct ncclComm *c)
{
	if (c->has_init)
		pthread_join(c->init, NULL);
	pthread_mutex_lock(&c->lock);
	c->quit = true;
	pthread_cond_signal(&c->wake);
	pthread_mutex_unlock(&c->lock);
	if (c->has_launcher)
		pthread_join(c->launcher, NULL);
	if (c->has_acceptor)
		pthread_join(c->acceptor, NULL);
	while (c->launches) {
		struct launch *l = c->launches;

		c->launches = l->next;
		free(l);
	}
	for (int i = 0; i < RANKS_MAX; i++) {
		if (c->out[i] >= 0)
			close(c->out[i]);
		if (c->in[i] >= 0)
			close(c->in[i]);
	}
	if (c->listener >= 0)
		close(c->listener);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
	free_comm(comm);
	free(comm);
	return ncclSuccess;
}

/* A group may still be about to see that it is aborted: the memory stays. */
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
	while (!strcmp(standin_option("abort", ""), "hang"))
		sleep(1);
	comm->aborted = true;
	free_comm(comm);
	return ncclSuccess;
}
