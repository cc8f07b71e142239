#include <errno.h>

#include "workloads/worker/worker.h"

/* NCCL's own limits: 16 threads, 64 sockets in all. */
#define THREADS_MAX 16
#define SOCKETS_MAX 64
#define CHANNELS_MAX 32
#define GPUS_MAX 256

static int check_hops(const struct worker_spec *s, struct bace_err *e)
{
	for (int i = 0; i < s->n_hops; i++) {
		if (s->hops[i].kind != HOP_NCCL)
			continue;
		if (s->n_stages != 1)
			return bace_fail(e, ENOTSUP, "hop %d: a worker with nccl hops plays one stage, not %d: the "
					 "order of its calls must be known beforehand", s->hops[i].hop, s->n_stages);
		/* Two hops between the same two ranks: NCCL has no tags to tell them apart. */
		if (s->schedule.kind == SCHED_INTERLEAVED_1F1B && s->schedule.stages == 2)
			return bace_fail(e, ENOTSUP, "hop %d: interleaved-1f1b of 2 stages cannot run over NCCL, "
					 "which cannot tell the two hops apart", s->hops[i].hop);
	}
	return 0;
}

int worker_spec_read_nccl(const json_t *j, struct worker_spec *out, struct bace_err *e)
{
	struct worker_nccl_spec *n = &out->nccl;
	json_t *o = json_object_get(j, "nccl");
	json_error_t je;

	*n = (struct worker_nccl_spec){ .threads = 1, .sockets = 1 };
	if (o && json_unpack_ex(o, &je, 0, "{s?i,s?i,s?i,s?i!}", "gpu", &n->gpu, "threads", &n->threads, "sockets",
				&n->sockets, "channels", &n->channels))
		return bace_fail(e, EINVAL, "spec: `nccl': %s", je.text);
	if (n->gpu < 0 || n->gpu >= GPUS_MAX)
		return bace_fail(e, EINVAL, "spec: nccl: `gpu' = %d: must be 0 to %d", n->gpu, GPUS_MAX - 1);
	if (n->threads < 1 || n->threads > THREADS_MAX || n->sockets < 1 || n->threads * n->sockets > SOCKETS_MAX)
		return bace_fail(e, EINVAL, "spec: nccl: `threads' = %d, `sockets' = %d: must be 1 to %d, and %d sockets "
				 "in all at most", n->threads, n->sockets, THREADS_MAX, SOCKETS_MAX);
	if (n->channels < 0 || n->channels > CHANNELS_MAX)
		return bace_fail(e, EINVAL, "spec: nccl: `channels' = %d: must be 0 to %d", n->channels, CHANNELS_MAX);
	return check_hops(out, e);
}
