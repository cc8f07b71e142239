#include <errno.h>

#include "workloads/worker/worker.h"

/* NCCL's own limits: 16 threads, 64 sockets in all. */
#define THREADS_MAX 16
#define SOCKETS_MAX 64
#define CHANNELS_MAX 32
#define GPUS_MAX 256

static int check_hops(const struct worker_spec *s, struct bace_err *e)
{
	for (int i = 0; i < s->n_hops; i++)
		if (s->hops[i].kind == HOP_NCCL && !s->nccl.used)
			return bace_fail(e, EINVAL, "hop %d: of kind nccl, and the spec has no `nccl'", s->hops[i].hop);
	if (!s->nccl.used)
		return 0;
	if (s->n_stages != 1)
		return bace_fail(e, ENOTSUP, "spec: with `nccl' a worker plays one stage, not %d: the order of its calls "
				 "must be known beforehand", s->n_stages);
	if (s->steady_ppm)
		return bace_fail(e, ENOTSUP, "spec: `steady': the order of NCCL's calls must be known beforehand");
	if (s->replicas > 1)
		return bace_fail(e, ENOTSUP, "spec: `replicas' = %d: a job with nccl hops has one", s->replicas);
	/* A communicator carries calls out in one order. With m > p, a stage 0 that sends a
	 * gradient round to the last stage waits for a receive there that stands behind a
	 * send which waits, by way of the stages between, for stage 0. Sending each F
	 * together with the B after it, as Megatron-LM does, would help, but holds the
	 * message back: that is not the schedule that is simulated. */
	if (s->schedule.kind == SCHED_INTERLEAVED_1F1B)
		return bace_fail(e, ENOTSUP, "spec: interleaved-1f1b cannot run over NCCL: a communicator carries its "
				 "calls out in one order, and from the steady state on (m > p) the sends of its ranks would "
				 "wait for each other in a circle");
	return 0;
}

static int check_ranges(const struct worker_nccl_spec *n, struct bace_err *e)
{
	if (n->gpu < 0 || n->gpu >= GPUS_MAX)
		return bace_fail(e, EINVAL, "spec: nccl: `gpu' = %d: must be 0 to %d", n->gpu, GPUS_MAX - 1);
	if (n->threads < 1 || n->threads > THREADS_MAX || n->sockets < 1 || n->sockets > SOCKETS_MAX / n->threads)
		return bace_fail(e, EINVAL, "spec: nccl: `threads' = %d, `sockets' = %d: must be 1 to %d, and %d sockets "
				 "in all at most", n->threads, n->sockets, THREADS_MAX, SOCKETS_MAX);
	if (n->channels < 0 || n->channels > CHANNELS_MAX)
		return bace_fail(e, EINVAL, "spec: nccl: `channels' = %d: must be 0 to %d", n->channels, CHANNELS_MAX);
	return 0;
}

int worker_spec_read_nccl(const json_t *j, struct worker_spec *out, struct bace_err *e)
{
	struct worker_nccl_spec *n = &out->nccl;
	json_t *o = json_object_get(j, "nccl");
	const char *addr;
	json_error_t je;
	int rc;

	*n = (struct worker_nccl_spec){ .used = o, .threads = 1, .sockets = 1 };
	if (o && json_unpack_ex(o, &je, 0, "{s:s,s?i,s?i,s?i,s?i!}", "addr", &addr, "gpu", &n->gpu, "threads",
				&n->threads, "sockets", &n->sockets, "channels", &n->channels))
		return bace_fail(e, EINVAL, "spec: `nccl': %s", je.text);
	if (o && snprintf(n->addr, sizeof(n->addr), "%s", addr) >= (int)sizeof(n->addr))
		return bace_fail(e, EINVAL, "spec: nccl: `addr' is longer than %zu characters", sizeof(n->addr) - 1);
	rc = check_ranges(n, e);
	return rc ? rc : check_hops(out, e);
}
