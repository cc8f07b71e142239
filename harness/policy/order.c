/*
 * The order of the queue. fcfs: (arrival, name), as queued. sjf: predicted run
 * time N T(K*). srtf: the same of the remaining steps. las: least attained
 * GPU-seconds. bace: the priority of design section 5. Ties: as queued.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "harness/policy/internal.h"

static int reserve(struct policy *p, int n, struct bace_err *err)
{
	double *key;
	int *heap;

	if (n <= p->queue_cap)
		return 0;
	n += n / 2;
	key = realloc(p->key, sizeof(*key) * (size_t)n);
	if (key)
		p->key = key;
	heap = realloc(p->heap, sizeof(*heap) * (size_t)n);
	if (heap)
		p->heap = heap;
	if (!key || !heap)
		return bace_fail(err, ENOMEM, "policy %s: queue of %d jobs: out of memory", p->spec.label, n);
	p->queue_cap = n;
	return 0;
}

static double remaining_share(const struct job_model *j, const struct queued_job *q)
{
	return j->steps > 0 ? q->remaining_steps / j->steps : 0;
}

static double normalised(double x, double lo, double hi)
{
	return hi > lo ? (x - lo) / (hi - lo) : 0;
}

/* P_j = (1-a)(1-I_j) + a(1-D_j) + waited/aging_s; the key is -P_j. */
static void priority_keys(const struct policy *p, const struct situation *s, const struct queue *q)
{
	const struct job_model *v = p->f.models->v;
	double i_lo = INFINITY, i_hi = -INFINITY, d_lo = INFINITY, d_hi = -INFINITY;
	double a = isnan(p->spec.alpha) ? s->load * p->spec.alpha_gain : p->spec.alpha;

	a = fmin(fmax(a, 0), 1);
	for (int i = 0; i < q->n; i++) {
		const struct job_model *j = &v[q->v[i].job];
		double c = j->computation_gpu_s * remaining_share(j, &q->v[i]);

		p->key[i] = c;
		i_lo = fmin(i_lo, c);
		i_hi = fmax(i_hi, c);
		d_lo = fmin(d_lo, j->bandwidth_need_bps);
		d_hi = fmax(d_hi, j->bandwidth_need_bps);
	}
	for (int i = 0; i < q->n; i++) {
		double c = normalised(p->key[i], i_lo, i_hi);
		double d = normalised(v[q->v[i].job].bandwidth_need_bps, d_lo, d_hi);
		double age = p->aging_s > 0 ? q->v[i].waited_s / p->aging_s : 0;

		p->key[i] = -((1 - a) * (1 - c) + a * (1 - d) + age);
	}
}

static void plain_keys(const struct policy *p, const struct queue *q)
{
	for (int i = 0; i < q->n; i++) {
		const struct job_model *j = &p->f.models->v[q->v[i].job];

		if (p->order == ORDER_LAS)
			p->key[i] = q->v[i].attained_gpu_s;
		else
			p->key[i] = j->step_star_s *
				    (p->order == ORDER_SRTF ? q->v[i].remaining_steps : j->steps);
	}
}

static bool before(const struct order *o, int a, int b)
{
	return o->key[a] < o->key[b] || (o->key[a] == o->key[b] && a < b);
}

static void sift_down(struct order *o, int i)
{
	int x = o->heap[i];

	for (;;) {
		int c = 2 * i + 1;

		if (c >= o->n)
			break;
		if (c + 1 < o->n && before(o, o->heap[c + 1], o->heap[c]))
			c++;
		if (!before(o, o->heap[c], x))
			break;
		o->heap[i] = o->heap[c];
		i = c;
	}
	o->heap[i] = x;
}

int order_begin(struct policy *p, const struct situation *s, const struct queue *q, struct order *o,
		struct bace_err *err)
{
	*o = (struct order){ .q = q, .n = q->n };
	if (p->order == ORDER_FCFS || q->n < 2)
		return 0;
	if (reserve(p, q->n, err))
		return -ENOMEM;
	if (p->order == ORDER_BACE)
		priority_keys(p, s, q);
	else
		plain_keys(p, q);
	o->key = p->key;
	o->heap = p->heap;
	for (int i = 0; i < q->n; i++)
		o->heap[i] = i;
	for (int i = q->n / 2 - 1; i >= 0; i--)
		sift_down(o, i);
	return 0;
}

int order_next(struct order *o)
{
	int top;

	if (!o->key)
		return o->next < o->n ? o->next++ : -1;
	if (!o->n)
		return -1;
	top = o->heap[0];
	o->heap[0] = o->heap[--o->n];
	if (o->n)
		sift_down(o, 0);
	return top;
}
