/* Do stages, hops and rings of a spec belong together? */
#include <errno.h>
#include <stdlib.h>

#include "workloads/worker/worker.h"

static bool wraps(const struct worker_spec *s)
{
	return s->schedule.kind == SCHED_INTERLEAVED_1F1B;
}

/* Of a hop in listed[]; a ring is listed for each end. */
static int listing(const struct worker_spec *s, const struct worker_hop_spec *h)
{
	return h->hop + (worker_is_ring(s, h->hop) && h->role == HOP_LISTEN ? s->schedule.stages : 0);
}

/* here[] is by stage, listed[] by listing(). */
static int check_unique(const struct worker_spec *s, bool *here, bool *listed, struct bace_err *e)
{
	for (int i = 0; i < s->n_stages; i++) {
		if (here[s->stages[i].stage])
			return bace_fail(e, EINVAL, "spec: stage %d is given twice", s->stages[i].stage);
		here[s->stages[i].stage] = true;
	}
	for (int i = 0; i < s->n_hops; i++) {
		bool *l = &listed[listing(s, &s->hops[i])];

		if (*l)
			return bace_fail(e, EINVAL, "hop %d: given twice", s->hops[i].hop);
		*l = true;
	}
	return 0;
}

static int check_ring(const struct worker_spec *s, const bool *here, const struct worker_hop_spec *h,
		      struct bace_err *e)
{
	if (!here[worker_hop_from(s, h->hop)])
		return bace_fail(e, EINVAL, "hop %d: touches no stage of this worker", h->hop);
	if (h->role == HOP_INTERNAL)
		return bace_fail(e, EINVAL, "hop %d: `role' = internal: a ring's must be connect or listen", h->hop);
	if (h->kind == HOP_NCCL)
		return bace_fail(e, ENOTSUP, "hop %d: a ring of replicas cannot be of kind nccl", h->hop);
	return 0;
}

/* A hop's role must be the one that its stages here give it. */
static int check_roles(const struct worker_spec *s, const bool *here, struct bace_err *e)
{
	static const char *const names[] = { "listen", "connect", "internal" };
	int p = s->schedule.stages;

	for (int i = 0; i < s->n_hops; i++) {
		const struct worker_hop_spec *h = &s->hops[i];
		bool from = here[worker_hop_from(s, h->hop)], to = here[worker_hop_to(s, h->hop)];
		enum hop_role want = from && to ? HOP_INTERNAL : from ? HOP_CONNECT : HOP_LISTEN;

		if (worker_is_ring(s, h->hop)) {
			int rc = check_ring(s, here, h, e);

			if (rc)
				return rc;
			continue;
		}
		if (h->hop == p - 1 && !wraps(s))
			return bace_fail(e, EINVAL, "hop %d: only interleaved-1f1b goes from the last stage to "
					 "the first", h->hop);
		if (!from && !to)
			return bace_fail(e, EINVAL, "hop %d: touches no stage of this worker", h->hop);
		if (h->role != want)
			return bace_fail(e, EINVAL, "hop %d: `role' = %s: must be %s", h->hop, names[h->role],
					 names[want]);
	}
	return 0;
}

static int check_complete(const struct worker_spec *s, const bool *listed, struct bace_err *e)
{
	int p = s->schedule.stages;

	for (int i = 0; i < s->n_stages; i++) {
		int stage = s->stages[i].stage, before = (stage + p - 1) % p;

		if ((stage > 0 || wraps(s)) && !listed[before])
			return bace_fail(e, EINVAL, "stage %d: its hop %d is not in the spec", stage, before);
		if ((stage < p - 1 || wraps(s)) && !listed[stage])
			return bace_fail(e, EINVAL, "stage %d: its hop %d is not in the spec", stage, stage);
		if (s->replicas > 1 && (!listed[p + stage] || !listed[2 * p + stage]))
			return bace_fail(e, EINVAL, "stage %d: both ends of its ring, hop %d, must be in the spec", stage,
					 p + stage);
	}
	return 0;
}

int worker_spec_check(const struct worker_spec *s, struct bace_err *e)
{
	CLEANUP_FREE bool *here = calloc((size_t)s->schedule.stages, sizeof(*here));
	CLEANUP_FREE bool *listed = calloc(3 * (size_t)s->schedule.stages, sizeof(*listed));
	int rc;

	if (!here || !listed)
		return bace_fail(e, ENOMEM, "spec: out of memory");
	rc = check_unique(s, here, listed, e);
	if (!rc)
		rc = check_roles(s, here, e);
	return rc ? rc : check_complete(s, listed, e);
}

int64_t worker_shortest_ns(const struct worker_spec *s)
{
	int chunks = s->schedule.kind == SCHED_INTERLEAVED_1F1B ? s->schedule.chunks : 1;
	int64_t least = INT64_MAX;

	for (int i = 0; i < s->n_stages; i++)
		for (int k = 0; k < 3; k++) {
			int64_t d = s->stages[i].duration_ns[k] / chunks;

			least = d > 0 && d < least ? d : least;
		}
	return least;
}
