#include "workloads/nccl/transport_internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "workloads/nccl/env.h"
#include "workloads/worker/events.h"

#define MODULE "nccl"
#define ABORT_S 2

/* ---- the job's id ---- */

#define ID_HEX (2 * (size_t)NCCL_UNIQUE_ID_BYTES)

/* Stage 0 makes it: NCCL's ranks find each other through its process. */
static int announce_id(struct bace_err *e)
{
	char hex[ID_HEX + 1];
	ncclUniqueId id;
	int rc = nccl_check(ncclGetUniqueId(&id), "make the job's id", "", e);

	if (rc)
		return rc;
	for (size_t i = 0; i < sizeof(id.internal); i++)
		snprintf(hex + 2 * i, 3, "%02x", (unsigned char)id.internal[i]);
	event_send(json_pack("{s:s,s:s}", "event", "nccl-id", "id", hex));
	return 0;
}

static int read_id(const json_t *cmd, ncclUniqueId *id, struct bace_err *e)
{
	const char *hex = json_string_value(json_object_get(cmd, "nccl_id"));

	if (!hex || strlen(hex) != ID_HEX || strspn(hex, "0123456789abcdef") != ID_HEX)
		return bace_fail(e, EINVAL, "connect: `nccl_id' must be the %zu hexadecimal digits that stage 0 said",
				 ID_HEX);
	for (size_t i = 0; i < sizeof(id->internal); i++) {
		char byte[3] = { hex[2 * i], hex[2 * i + 1], '\0' };

		id->internal[i] = (char)strtoul(byte, NULL, 16);
	}
	return 0;
}

/* ---- the communicator ---- */

int transport_read_peers(struct transport *t, const json_t *cmd, struct bace_err *e)
{
	const json_t *peers = json_object_get(cmd, "nccl_peers"), *p;
	size_t k;

	json_array_foreach((json_t *)peers, k, p) {
		json_int_t hop = json_integer_value(json_object_get(p, "hop"));
		const char *addr = json_string_value(json_object_get(p, "addr"));

		for (int i = 0; i < t->spec->n_hops; i++)
			if (addr && t->spec->hops[i].hop == hop && t->spec->hops[i].kind == HOP_NCCL)
				snprintf(t->carried[i].peer, sizeof(t->carried[i].peer), "%s", addr);
	}
	for (int i = 0; i < t->spec->n_hops; i++)
		if (t->spec->hops[i].kind == HOP_NCCL && !t->carried[i].peer[0])
			return bace_fail(e, EINVAL, "connect: `nccl_peers' does not say where the other end of hop %d is",
					 t->spec->hops[i].hop);
	return 0;
}

int transport_comm_init(struct transport *t, const json_t *cmd, struct bace_err *e)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclUniqueId id;
	int rc = read_id(cmd, &id, e);

	if (rc)
		return rc;
	config.blocking = 0;
	config.netName = "Socket";
	rc = nccl_check(ncclCommInitRankConfig(&t->comm, t->spec->schedule.stages, id, t->spec->stages[0].stage,
					       &config), "join the communicator", "", e);
	return rc ? transport_explain(t, e) : 0;
}

int transport_comm_ready(struct transport *t, struct bace_err *e)
{
	ncclResult_t state = ncclSuccess, rc = ncclCommGetAsyncError(t->comm, &state);
	int bad = nccl_check(rc == ncclSuccess ? state : rc, "join the communicator", "", e);

	return bad ? bad : state == ncclSuccess;
}

int transport_comm_closed(struct transport *t, struct bace_err *e)
{
	ncclResult_t state = ncclSuccess, rc = ncclCommGetAsyncError(t->comm, &state);
	int bad = nccl_check(rc == ncclSuccess ? state : rc, "end the communicator", "", e);

	if (bad || state == ncclInProgress)
		return bad;
	bad = nccl_check(ncclCommDestroy(t->comm), "end the communicator", "", e);
	t->comm = NULL;
	t->state = TRANSPORT_CLOSED;
	return bad;
}

/* ---- life ---- */

static int identify_gpu(struct transport *t, struct bace_err *e)
{
	struct bace_err why;
	int rc = cuda_take_gpu(t->spec, &t->device, e);

	if (!rc)
		rc = cuda_check(cudaDeviceGetPCIBusId(t->bus, sizeof(t->bus), t->device), "ask for the GPU's bus id", e);
	if (!rc && power_open(t->bus, &t->power, &why))
		bace_log(BACE_INFO, MODULE, "no energy is read: %s", why.msg);
	return rc;
}

static int prepare(struct transport *t, struct bace_err *e)
{
	char ifname[IF_NAMESIZE];
	int rc;

	t->log_fd = memfd_create("bace-nccl-log", MFD_CLOEXEC);
	if (t->log_fd < 0)
		return bace_fail_errno(e, errno, "nccl: a file in memory for its log");
	rc = nccl_env_set(t->spec, t->log_fd, ifname, e);
	if (rc)
		return rc;
	snprintf(t->interface, sizeof(t->interface), "%s:%s", ifname, t->spec->nccl.addr);
	rc = identify_gpu(t, e);
	if (!rc)
		rc = groups_create(t->spec, &t->groups, e);
	if (!rc)
		rc = transport_watch(t, e);
	if (!rc && t->spec->stages[0].stage == 0)
		rc = announce_id(e);
	return rc ? transport_explain(t, e) : 0;
}

static int make_rows(struct transport *t, int hop, struct bace_err *e)
{
	size_t steps = (size_t)(t->spec->warmup_steps + t->spec->steps);

	if (t->spec->hops[hop].kind != HOP_NCCL)
		return 0;
	t->carried[hop].rows = calloc(steps, sizeof(*t->carried[hop].rows));
	return t->carried[hop].rows ? 0 : bace_fail(e, ENOMEM, "nccl: rows of %zu steps: out of memory", steps);
}

int transport_create(const struct worker_spec *spec, struct loop *loop, const struct hop_events *events,
		     struct mover **out, struct bace_err *e)
{
	struct transport *t = calloc(1, sizeof(*t));
	int rc = 0;

	if (!t)
		return bace_fail(e, ENOMEM, "nccl: out of memory");
	*t = (struct transport){ .base.ops = &nccl_mover, .spec = spec, .loop = loop, .events = events,
				 .log_fd = -1, .tick.fd = -1, .energy_j = -1 };
	t->carried = calloc((size_t)spec->n_hops + 1, sizeof(*t->carried));
	for (int i = 0; t->carried && !rc && i < spec->n_hops; i++)
		rc = make_rows(t, i, e);
	if (!rc)
		rc = t->carried ? prepare(t, e) : bace_fail(e, ENOMEM, "nccl: out of memory");
	if (rc)
		transport_destroy(&t->base);
	else
		*out = &t->base;
	return rc;
}

static void *abort_thread(void *comm)
{
	ncclCommAbort(comm);
	return NULL;
}

/* It has been seen to hang. The process ends by _exit then, which no thread can
 * hold up. */
static void abort_comm(ncclComm_t comm)
{
	struct timespec until;
	pthread_t thread;

	if (pthread_create(&thread, NULL, abort_thread, comm))
		return;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ABORT_S;
	if (!pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until))
		return;
	bace_log(BACE_WARN, MODULE, "NCCL did not abort within %d s; the process ends without it", ABORT_S);
	pthread_detach(thread);
}

void transport_destroy(struct mover *mover)
{
	struct transport *t = (struct transport *)mover;

	/* The rest goes with the process: freeing it waits for all that runs on the
	 * GPU, which may be a kernel of NCCL's that hangs. */
	if (t->comm) {
		abort_comm(t->comm);
		return;
	}
	if (t->groups)
		groups_destroy(t->groups);
	if (t->power)
		power_close(t->power);
	bace_cleanup_close(&t->tick.fd);
	bace_cleanup_close(&t->log_fd);
	for (int i = 0; t->carried && i < t->spec->n_hops; i++)
		free(t->carried[i].rows);
	free(t->carried);
	free(t);
}
