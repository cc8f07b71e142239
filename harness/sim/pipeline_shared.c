/*
 * Several pipelines that share links. Who sends first now depends on time, so
 * the ends of operations are taken in order of time from a heap; each stage has
 * at most one operation under way.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "harness/sim/pipeline_internal.h"

struct channel {
	double *arrives;		/* ring of messages under way or not yet consumed */
	size_t head, n, cap;
	int link;			/* index into links */
	double latency, serialisation;
};

struct stage {
	int job;
	bool reducing;			/* its operations are done, its ring is not */
	int sent, received;		/* rounds */
	struct schedule_iter it;
	struct op next;
	bool more, running;
	double free;
	double duration[3];		/* by op_kind */
};

struct runner {
	const struct shared_pipeline *in;
	int n, chunks, n_channels;
	int first_stage;		/* into stages */
	struct channel *channels;
	struct channel *rings;		/* [n]: into each stage, from the replica before; NULL: alone */
	int n_left;			/* stages that are not done with this step */
	int n_steps;			/* done */
	double step_start, compute;	/* compute: seconds of a step, all stages */
	double *steps, *starts;		/* [warmup + steps] */
	bool dead;			/* some link passes nothing: no step ever ends */
};

struct event {
	double at;
	int stage;
};

struct shared {
	int n_jobs, n_stages, n_wanted;
	struct runner *jobs;
	struct stage *stages;
	double *link_free;		/* [n_links], then one for each private channel */
	struct event *heap;		/* [n_stages] */
	int n_heap, n_unfinished;
};

/* ---- heap, by (time, stage): stages are numbered job by job ---- */

static bool before(const struct event *a, const struct event *b)
{
	return a->at < b->at || (a->at == b->at && a->stage < b->stage);
}

static void heap_push(struct shared *s, struct event e)
{
	int i = s->n_heap++;

	for (; i && before(&e, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
		s->heap[i] = s->heap[(i - 1) / 2];
	s->heap[i] = e;
}

static struct event heap_pop(struct shared *s)
{
	struct event top = s->heap[0], last = s->heap[--s->n_heap];
	int i = 0;

	for (int c; (c = 2 * i + 1) < s->n_heap; i = c) {
		if (c + 1 < s->n_heap && before(&s->heap[c + 1], &s->heap[c]))
			c++;
		if (before(&last, &s->heap[c]))
			break;
		s->heap[i] = s->heap[c];
	}
	s->heap[i] = last;
	return top;
}

/* ---- messages ---- */

static int channel_push(struct channel *c, double arrives)
{
	if (c->n == c->cap) {
		size_t cap = c->cap ? 2 * c->cap : 16;
		double *v = malloc(cap * sizeof(*v));

		if (!v)
			return -ENOMEM;
		for (size_t i = 0; i < c->n; i++)
			v[i] = c->arrives[(c->head + i) % c->cap];
		free(c->arrives);
		c->arrives = v;
		c->head = 0;
		c->cap = cap;
	}
	c->arrives[(c->head + c->n++) % c->cap] = arrives;
	return 0;
}

static double channel_pop(struct channel *c)
{
	double arrives = c->arrives[c->head];

	c->head = (c->head + 1) % c->cap;
	c->n--;
	return arrives;
}

/* ---- operations ---- */

/* Begins the stage's next operation if its input is on its way. */
static void try_start(struct shared *s, int index)
{
	struct stage *st = &s->stages[index];
	struct runner *j = &s->jobs[st->job];
	double start = st->free;
	int in;

	if (!st->more || st->running)
		return;
	in = input_channel(j->n, j->chunks, index - j->first_stage, &st->next);
	if (in >= 0 && !j->channels[in].n)
		return;
	if (in >= 0)
		start = later(start, channel_pop(&j->channels[in]));
	st->running = true;
	heap_push(s, (struct event){ .at = start + st->duration[st->next.kind], .stage = index });
}

static void begin_step(struct shared *s, struct runner *j, double at)
{
	j->step_start = at;
	j->n_left = j->n;
	for (int i = 0; i < j->n; i++) {
		struct stage *st = &s->stages[j->first_stage + i];

		schedule_begin(&st->it, &j->in->p.schedule, i);
		st->more = schedule_next(&st->it, &st->next);
		st->free = later(at, st->free);
	}
	for (int i = 0; i < j->n; i++)
		try_start(s, j->first_stage + i);
}

static void end_step(struct shared *s, struct runner *j, double at)
{
	if (j->n_steps < s->n_wanted) {
		j->starts[j->n_steps] = j->step_start;
		j->steps[j->n_steps] = at - j->step_start;
	}
	if (++j->n_steps == s->n_wanted)
		s->n_unfinished--;
	/* Goes on until all have what they need: the others still feel it. */
	if (s->n_unfinished)
		begin_step(s, j, at);
}

/* ---- replicas ---- */

static int rounds(const struct runner *j)
{
	return j->rings ? 2 * (j->in->replicas - 1) : 0;
}

/* The same stage of the next replica. */
static int next_in_ring(const struct shared *s, int index)
{
	const struct runner *j = &s->jobs[s->stages[index].job];
	const struct runner *first = j - j->in->replica;

	return first[(j->in->replica + 1) % j->in->replicas].first_stage + index - j->first_stage;
}

/* Receives the round that a stage waits for, if it is on its way: then it can
 * send the next, or is done, at an event of its own. */
static void try_receive(struct shared *s, int index)
{
	struct stage *st = &s->stages[index];
	struct runner *j = &s->jobs[st->job];
	struct channel *in = &j->rings[index - j->first_stage];

	if (!st->reducing || st->running || !in->n)
		return;
	st->free = later(st->free, channel_pop(in));
	st->received++;
	st->running = true;
	heap_push(s, (struct event){ .at = st->free, .stage = index });
}

static void begin_reduce(struct shared *s, int index)
{
	struct stage *st = &s->stages[index];

	st->reducing = st->running = true;
	st->sent = st->received = 0;
	heap_push(s, (struct event){ .at = st->free, .stage = index });
}

/* Sends a round, or ends the step. */
static int go_on_reducing(struct shared *s, struct event e)
{
	struct stage *st = &s->stages[e.stage];
	struct runner *j = &s->jobs[st->job];
	int to = next_in_ring(s, e.stage);
	struct runner *other = &s->jobs[s->stages[to].job];
	struct channel *c = &other->rings[to - other->first_stage];
	double left;

	st->running = false;
	if (st->received == rounds(j)) {
		st->reducing = false;
		if (!--j->n_left)
			end_step(s, j, e.at);
		return 0;
	}
	left = later(e.at, s->link_free[c->link]) + c->serialisation;
	s->link_free[c->link] = left;
	if (channel_push(c, left + c->latency))
		return -ENOMEM;
	st->sent++;
	try_receive(s, to);
	try_receive(s, e.stage);
	return 0;
}

/* Who gets what comes out of channel c. */
static int receiver(const struct runner *j, int c)
{
	return c % 2 ? c / 2 : (c / 2 + 1) % j->n;
}

static int finish_op(struct shared *s, struct event e)
{
	struct stage *st = &s->stages[e.stage];
	struct runner *j = &s->jobs[st->job];
	int out;

	if (st->reducing)
		return go_on_reducing(s, e);
	out = output_channel(j->n, j->chunks, e.stage - j->first_stage, &st->next);
	st->free = e.at;
	st->running = false;
	st->more = schedule_next(&st->it, &st->next);
	if (out >= 0) {
		struct channel *c = &j->channels[out];
		double left = later(e.at, s->link_free[c->link]) + c->serialisation;

		s->link_free[c->link] = left;
		if (channel_push(c, left + c->latency))
			return -ENOMEM;
		if (j->in->p.no_overlap)
			st->free = left;
		try_start(s, j->first_stage + receiver(j, out));
	}
	try_start(s, e.stage);
	if (!st->more && j->rings)
		begin_reduce(s, e.stage);
	else if (!st->more && !--j->n_left)
		end_step(s, j, e.at);
	return 0;
}

/* ---- from the input to the answer ---- */

static int setup_channels(struct runner *j, int n_links, int *n_private, int index, struct bace_err *e)
{
	const struct pipeline *p = &j->in->p;

	j->channels = calloc((size_t)j->n_channels + 1, sizeof(*j->channels));
	if (!j->channels)
		return bace_fail(e, ENOMEM, "pipeline %d: out of memory", index);
	for (int i = 0; i < j->n_channels; i++) {
		const int *links = i % 2 ? j->in->rev_link : j->in->fwd_link;
		struct channel *c = &j->channels[i];

		c->link = links ? links[i / 2] : -1;
		if (c->link < -1 || c->link >= n_links)
			return bace_fail(e, EINVAL, "pipeline %d, hop %d: no link %d: must be -1 to %d", index,
					 i / 2, c->link, n_links - 1);
		if (c->link < 0)
			c->link = n_links + (*n_private)++;
		c->latency = i % 2 ? p->rev_latency[i / 2] : p->fwd_latency[i / 2];
		c->serialisation = i % 2 ? p->rev_serialisation[i / 2] : p->fwd_serialisation[i / 2];
		j->dead |= isinf(c->serialisation);
	}
	return 0;
}

/* Replica k's rings lead to replica k + 1, over the links that k names. */
static int setup_rings(struct shared *s, int n_links, int *n_private, struct bace_err *e)
{
	for (int i = 0; i < s->n_jobs; i++) {
		struct runner *j = &s->jobs[i], *to;
		const struct shared_pipeline *in = j->in;
		int n = in->replicas;

		if (n < 2)
			continue;
		to = in->replica < 0 || in->replica >= n || i < in->replica || i - in->replica + n > s->n_jobs ?
			NULL : &s->jobs[i - in->replica + (in->replica + 1) % n];
		if (!to || to->in->replica != (in->replica + 1) % n || to->in->replicas != n || to->n != j->n)
			return bace_fail(e, EINVAL, "pipeline %d: replica %d of %d: they must follow each other and be "
					 "alike", i, in->replica, n);
		to->rings = calloc((size_t)j->n, sizeof(*to->rings));
		if (!to->rings)
			return bace_fail(e, ENOMEM, "pipeline %d: out of memory", i);
		for (int k = 0; k < j->n; k++) {
			int link = in->ring_link ? in->ring_link[k] : -1;

			if (link < -1 || link >= n_links)
				return bace_fail(e, EINVAL, "pipeline %d, ring %d: no link %d", i, k, link);
			to->rings[k] = (struct channel){ .link = link < 0 ? n_links + (*n_private)++ : link,
				.latency = in->ring_latency[k], .serialisation = in->ring_serialisation[k] };
			/* A ring that passes nothing holds all replicas. */
			for (int r = 0; r < n; r++)
				s->jobs[i - in->replica + r].dead |= isinf(in->ring_serialisation[k]);
		}
	}
	return 0;
}

static void setup_stages(struct shared *s, int index)
{
	struct runner *j = &s->jobs[index];
	const struct pipeline *p = &j->in->p;

	for (int i = 0; i < j->n; i++) {
		struct stage *st = &s->stages[j->first_stage + i];

		st->job = index;
		st->duration[OP_FORWARD] = p->tf[i] / j->chunks;
		st->duration[OP_BACKWARD] = p->tb[i] / j->chunks;
		st->duration[OP_WEIGHT] = p->tw ? p->tw[i] / j->chunks : 0;
		j->compute += p->schedule.micro_batches * (p->tf[i] + p->tb[i] + (p->tw ? p->tw[i] : 0));
	}
}

static int setup(struct shared *s, const struct shared_pipeline *in, int n_links, struct bace_err *e)
{
	int n_private = 0, rc;

	s->jobs = calloc((size_t)s->n_jobs + 1, sizeof(*s->jobs));
	if (!s->jobs)
		return bace_fail(e, ENOMEM, "%d pipelines: out of memory", s->n_jobs);
	for (int i = 0; i < s->n_jobs; i++) {
		struct runner *j = &s->jobs[i];

		*j = (struct runner){ .in = &in[i], .n = in[i].p.schedule.stages, .first_stage = s->n_stages,
				   .chunks = pipeline_chunks(&in[i].p), };
		rc = pipeline_check(&in[i].p, e);
		if (!rc && !isfinite(in[i].start))
			rc = bace_fail(e, EINVAL, "start %g: must be finite", in[i].start);
		if (rc)
			return bace_err_context(e, "pipeline %d", i);
		j->n_channels = 2 * pipeline_hops(&in[i].p);
		s->n_stages += j->n;
		j->steps = calloc((size_t)s->n_wanted, sizeof(*j->steps));
		j->starts = calloc((size_t)s->n_wanted, sizeof(*j->starts));
		if (!j->steps || !j->starts)
			return bace_fail(e, ENOMEM, "pipeline %d: out of memory", i);
		rc = setup_channels(j, n_links, &n_private, i, e);
		if (rc)
			return rc;
	}
	rc = setup_rings(s, n_links, &n_private, e);
	if (rc)
		return rc;
	s->stages = calloc((size_t)s->n_stages + 1, sizeof(*s->stages));
	s->heap = calloc((size_t)s->n_stages + 1, sizeof(*s->heap));
	s->link_free = calloc((size_t)(n_links + n_private) + 1, sizeof(*s->link_free));
	if (!s->stages || !s->heap || !s->link_free)
		return bace_fail(e, ENOMEM, "%d pipelines: out of memory", s->n_jobs);
	for (int i = 0; i < n_links + n_private; i++)
		s->link_free[i] = -INFINITY;
	for (int i = 0; i < s->n_stages; i++)
		s->stages[i].free = -INFINITY;
	for (int i = 0; i < s->n_jobs; i++)
		setup_stages(s, i);
	return 0;
}

static void destroy(struct shared *s)
{
	for (int i = 0; s->jobs && i < s->n_jobs; i++) {
		for (int c = 0; s->jobs[i].channels && c < s->jobs[i].n_channels; c++)
			free(s->jobs[i].channels[c].arrives);
		for (int k = 0; s->jobs[i].rings && k < s->jobs[i].n; k++)
			free(s->jobs[i].rings[k].arrives);
		free(s->jobs[i].rings);
		free(s->jobs[i].channels);
		free(s->jobs[i].steps);
		free(s->jobs[i].starts);
	}
	free(s->jobs);
	free(s->stages);
	free(s->heap);
	free(s->link_free);
}

static int run(struct shared *s, struct bace_err *e)
{
	for (int i = 0; i < s->n_jobs; i++)
		s->n_unfinished += !s->jobs[i].dead;
	for (int i = 0; i < s->n_jobs; i++)
		if (!s->jobs[i].dead)
			begin_step(s, &s->jobs[i], s->jobs[i].in->start);
	while (s->n_unfinished) {
		if (!s->n_heap)
			return bace_fail(e, EDEADLK, "the schedule deadlocks");
		if (finish_op(s, heap_pop(s)))
			return bace_fail(e, ENOMEM, "%d pipelines: out of memory", s->n_jobs);
	}
	return 0;
}

/* A step of replicas is from the first one's start to the last one's end. */
static void join_replicas(struct shared *s, struct runner *first)
{
	int n = first->in->replicas;

	for (int k = 0; k < s->n_wanted; k++) {
		double start = INFINITY, end = -INFINITY;

		for (int r = 0; r < n; r++) {
			start = fmin(start, first[r].starts[k]);
			end = later(end, first[r].starts[k] + first[r].steps[k]);
		}
		for (int r = 0; r < n; r++)
			first[r].steps[k] = end - start;
	}
}

static struct shared_result summarise(struct runner *j, int warmup, int n)
{
	struct shared_result r = { .first_step = INFINITY, .mean_step = INFINITY, .median_step = INFINITY };
	double *v = j->steps + warmup, sum = 0;

	if (j->dead)
		return r;
	r.first_step = j->steps[0];
	qsort(v, (size_t)n, sizeof(*v), bace_by_double);
	for (int i = 0; i < n; i++)
		sum += v[i];
	r.mean_step = sum / n;
	r.median_step = n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
	r.busy = sum > 0 ? j->compute / j->n / r.mean_step : 0;
	return r;
}

int pipelines_simulate_shared(int n, const struct shared_pipeline *jobs, int n_links, int warmup_steps,
			      int steps, struct shared_result *out, struct bace_err *err)
{
	struct shared s = { .n_jobs = n, .n_wanted = warmup_steps + steps };
	int rc;

	if (warmup_steps < 0 || steps < 1)
		return bace_fail(err, EINVAL, "warm-up steps %d, steps %d: must be at least 0 and 1",
				 warmup_steps, steps);
	rc = setup(&s, jobs, n_links, err);
	if (!rc)
		rc = run(&s, err);
	for (int i = 0; !rc && i < n; i++)
		if (s.jobs[i].rings && !s.jobs[i].in->replica)
			join_replicas(&s, &s.jobs[i]);
	for (int i = 0; !rc && i < n; i++)
		out[i] = summarise(&s.jobs[i], warmup_steps, steps);
	destroy(&s);
	return rc;
}
