#include "workloads/nccl/groups.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW 16			/* issued and not ended */
#define ASYNC_EVERY 16			/* polls */

struct slot {
	struct group group;
	/* Pinned, so that copying does not wait: headers to and from the GPU. */
	struct header *out, *in;	/* [GROUP_CALLS_MAX] */
	cudaEvent_t ended;
};

struct groups {
	const struct worker_spec *spec;
	ncclComm_t comm;
	cudaStream_t stream;
	void **out, **in;		/* [spec->n_hops]: on the GPU; a message is filler but for its header */
	struct header *pinned;
	struct slot slots[WINDOW];
	uint32_t head, tail;		/* of slots */
	bool issuing;			/* the last one is still being taken */
	struct group *queue;		/* ring: not issued yet */
	uint32_t q_head, q_tail, q_cap;	/* q_cap: power of two */
	unsigned polls;
};

/* ---- one group ---- */

static int context(const struct groups *g, const struct group *group, struct bace_err *e)
{
	const struct call *c = &group->calls[group->n - 1];
	int hop = g->spec->hops[c->hop].hop;

	/* All neighbours are in that one. */
	if (c->kind == MESSAGE_WARM)
		return bace_err_context(e, "first messages");
	return bace_err_context(e, "hop %d step %d: %s of micro-batch %d", hop, c->step, message_name(c->kind),
				c->micro_batch);
}

static size_t bytes_of(const struct groups *g, const struct call *c)
{
	return message_bytes(&g->spec->hops[c->hop], c->kind);
}

static int copy_headers_out(struct groups *g, struct slot *s, struct bace_err *e)
{
	int rc = 0;

	for (int i = 0; !rc && i < s->group.n; i++) {
		if (!s->group.calls[i].send)
			continue;
		s->out[i] = s->group.headers[i];
		rc = cuda_check(cudaMemcpyAsync(g->out[s->group.calls[i].hop], &s->out[i], sizeof(*s->out),
				cudaMemcpyHostToDevice, g->stream), "copy a header to the GPU", e);
	}
	return rc;
}

static ncclResult_t call(struct groups *g, const struct call *c)
{
	int peer = calls_peer(g->spec, c->hop);

	return c->send ? ncclSend(g->out[c->hop], bytes_of(g, c), ncclUint8, peer, g->comm, g->stream) :
	       ncclRecv(g->in[c->hop], bytes_of(g, c), ncclUint8, peer, g->comm, g->stream);
}

/* Behind the group on the stream, once NCCL has put it there. */
static int finish_issue(struct groups *g, struct slot *s, struct bace_err *e)
{
	int rc = 0;

	g->issuing = false;
	for (int i = 0; !rc && i < s->group.n; i++)
		if (!s->group.calls[i].send)
			rc = cuda_check(cudaMemcpyAsync(&s->in[i], g->in[s->group.calls[i].hop], sizeof(*s->in),
					cudaMemcpyDeviceToHost, g->stream), "copy a header from the GPU", e);
	return rc ? rc : cuda_check(cudaEventRecord(s->ended, g->stream), "record an event", e);
}

static int issue(struct groups *g, struct slot *s, struct bace_err *e)
{
	ncclResult_t rc = ncclGroupStart(), end;
	int copied = copy_headers_out(g, s, e);

	for (int i = 0; !copied && i < s->group.n && rc == ncclSuccess; i++)
		rc = call(g, &s->group.calls[i]);
	end = ncclGroupEnd();
	if (copied)
		return copied;
	if (rc == ncclSuccess || rc == ncclInProgress)
		rc = end;
	g->issuing = true;
	if (rc == ncclSuccess)
		return finish_issue(g, s, e);
	return nccl_check(rc, "send and receive", "", e);
}

/* ---- all of them ---- */

int groups_add(struct groups *g, const struct group *group, struct bace_err *e)
{
	if (g->q_tail - g->q_head == g->q_cap) {
		uint32_t cap = g->q_cap ? 2 * g->q_cap : 16, n = g->q_tail - g->q_head;
		struct group *v = malloc(cap * sizeof(*v));

		if (!v)
			return bace_fail(e, ENOMEM, "out of memory");
		for (uint32_t i = 0; i < n; i++)
			v[i] = g->queue[(g->q_head + i) & (g->q_cap - 1)];
		free(g->queue);
		g->queue = v;
		g->q_head = 0;
		g->q_tail = n;
		g->q_cap = cap;
	}
	g->queue[g->q_tail++ & (g->q_cap - 1)] = *group;
	return 0;
}

static int check_async(struct groups *g, const struct group *group, ncclResult_t *state, struct bace_err *e)
{
	ncclResult_t rc = ncclCommGetAsyncError(g->comm, state);
	int bad = nccl_check(rc == ncclSuccess ? *state : rc, "send and receive", "", e);

	return bad ? context(g, group, e) : 0;
}

int groups_issue(struct groups *g, struct bace_err *e)
{
	if (g->issuing) {
		struct slot *s = &g->slots[(g->tail - 1) % WINDOW];
		ncclResult_t state;
		int rc = check_async(g, &s->group, &state, e);

		if (rc || state == ncclInProgress)
			return rc;
		if (finish_issue(g, s, e))
			return context(g, &s->group, e);
	}
	while (!g->issuing && g->q_head != g->q_tail && g->tail - g->head < WINDOW) {
		struct slot *s = &g->slots[g->tail++ % WINDOW];

		s->group = g->queue[g->q_head++ & (g->q_cap - 1)];
		if (issue(g, s, e))
			return context(g, &s->group, e);
	}
	return 0;
}

int groups_poll(struct groups *g, struct group *done, struct bace_err *e)
{
	struct slot *s = &g->slots[g->head % WINDOW];
	cudaError_t now;
	int rc = groups_issue(g, e);

	if (rc || g->head == g->tail || (g->issuing && g->tail - g->head == 1))
		return rc;
	now = cudaEventQuery(s->ended);
	if (now == cudaErrorNotReady) {
		ncclResult_t state;

		return g->issuing || ++g->polls % ASYNC_EVERY ? 0 : check_async(g, &s->group, &state, e);
	}
	if (now != cudaSuccess) {
		cuda_check(now, "send and receive", e);
		return context(g, &s->group, e);
	}
	*done = s->group;
	for (int i = 0; i < done->n; i++)
		if (!done->calls[i].send)
			done->headers[i] = s->in[i];
	g->head++;
	return 1;
}

bool groups_idle(const struct groups *g)
{
	return g->head == g->tail && g->q_head == g->q_tail;
}

bool groups_issuing(const struct groups *g)
{
	return g->issuing;
}

/* ---- life ---- */

static int allocate(struct groups *g, struct bace_err *e)
{
	size_t n = (size_t)g->spec->n_hops + 1, headers = 2 * WINDOW * GROUP_CALLS_MAX;
	int rc;

	g->out = calloc(n, sizeof(*g->out));
	g->in = calloc(n, sizeof(*g->in));
	if (!g->out || !g->in)
		return bace_fail(e, ENOMEM, "out of memory");
	rc = cuda_check(cudaStreamCreateWithFlags(&g->stream, cudaStreamNonBlocking), "create a stream", e);
	if (!rc)
		rc = cuda_check(cudaHostAlloc((void **)&g->pinned, headers * sizeof(struct header), cudaHostAllocDefault),
				"allocate pinned memory", e);
	for (int i = 0; !rc && i < g->spec->n_hops; i++) {
		if (g->spec->hops[i].kind != HOP_NCCL)
			continue;
		rc = cuda_check(cudaMalloc(&g->out[i], g->spec->hops[i].bytes), "allocate a message on the GPU", e);
		if (!rc)
			rc = cuda_check(cudaMalloc(&g->in[i], g->spec->hops[i].bytes), "allocate a message on the GPU", e);
		/* What is sent should not depend on what lay there. */
		if (!rc)
			rc = cuda_check(cudaMemsetAsync(g->out[i], 0, g->spec->hops[i].bytes, g->stream), "clear a message", e);
		if (rc)
			bace_err_context(e, "hop %d", g->spec->hops[i].hop);
	}
	return rc;
}

int groups_create(const struct worker_spec *spec, struct groups **out, struct bace_err *e)
{
	struct groups *g = calloc(1, sizeof(*g));
	int rc;

	if (!g)
		return bace_fail(e, ENOMEM, "out of memory");
	g->spec = spec;
	rc = allocate(g, e);
	for (int i = 0; !rc && i < WINDOW; i++) {
		g->slots[i].out = g->pinned + 2 * i * GROUP_CALLS_MAX;
		g->slots[i].in = g->slots[i].out + GROUP_CALLS_MAX;
		rc = cuda_check(cudaEventCreateWithFlags(&g->slots[i].ended, cudaEventDisableTiming), "create an event", e);
	}
	if (rc)
		groups_destroy(g);
	else
		*out = g;
	return rc;
}

void groups_use(struct groups *g, ncclComm_t comm)
{
	g->comm = comm;
}

void groups_destroy(struct groups *g)
{
	if (g->stream)
		cudaStreamDestroy(g->stream);
	for (int i = 0; i < WINDOW; i++)
		if (g->slots[i].ended)
			cudaEventDestroy(g->slots[i].ended);
	for (int i = 0; i < g->spec->n_hops; i++) {
		if (g->out && g->out[i])
			cudaFree(g->out[i]);
		if (g->in && g->in[i])
			cudaFree(g->in[i]);
	}
	if (g->pinned)
		cudaFreeHost(g->pinned);
	free(g->out);
	free(g->in);
	free(g->queue);
	free(g);
}
