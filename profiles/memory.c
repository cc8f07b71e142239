#include "profiles/profiles.h"

double model_boundary_bytes(const struct model *m, int micro_batch_size)
{
	if (m->measured_boundary_bytes > 0)
		return m->measured_boundary_bytes;
	return (double)micro_batch_size * m->seq * m->hidden * m->bytes_per_element;
}

double model_stage_layers(const struct model *m, bool equal_split, int k, int i)
{
	if (equal_split)
		return (double)m->layers / k;
	return m->layers / k + (i < m->layers % k);
}

static double least(double a, double b)
{
	return a < b ? a : b;
}

double model_live_micro_batches(const struct pipeline_shape *s, int k, int i)
{
	double m = s->micro_batches, v = s->interleave > 1 ? s->interleave : 1;

	switch (s->schedule) {
	case SCHED_GPIPE:
		return m;
	case SCHED_EAGER_1F1B:
		return least(m, 2.0 * (k - 1 - i) + 1);
	case SCHED_INTERLEAVED_1F1B:
		return least(m * v, 2.0 * (k - 1 - i) + (v - 1) * k + 1) / v;
	case SCHED_1F1B:
	case SCHED_ZB_H1:
		break;
	}
	return least(m, k - i);
}

static double layer_activation_bytes(const struct model *m, int micro_batch_size)
{
	if (m->recompute)
		return model_boundary_bytes(m, micro_batch_size);
	return 34.0 * m->seq * micro_batch_size * m->hidden;
}

double model_stage_bytes(const struct model *m, const struct pipeline_shape *s, int k, int i)
{
	return model_stage_layers(m, s->equal_split, k, i) *
	       (m->state_bytes_per_param * m->params / m->layers +
		model_live_micro_batches(s, k, i) * layer_activation_bytes(m, s->micro_batch_size));
}

bool model_fits(const struct model *m, const struct pipeline_shape *s, int k, double memory_bytes)
{
	if (k < 1 || (!s->equal_split && k > m->layers))
		return false;
	/* Megatron's order needs whole groups of k micro-batches, and a second stage. */
	if (s->schedule == SCHED_INTERLEAVED_1F1B && (k < 2 || s->micro_batches % k))
		return false;
	/* The first stage has the odd layers and the most micro-batches in flight
	 * under every schedule: no other needs more. */
	return model_stage_bytes(m, s, k, 0) <= memory_bytes;
}

int model_k_min(const struct model *m, const struct pipeline_shape *s, int k_max,
		double memory_bytes)
{
	for (int k = 1; k <= k_max; k++)
		if (model_fits(m, s, k, memory_bytes))
			return k;
	return 0;
}

int experiment_k_limit(const struct experiment *e, const struct model *m)
{
	if (e->k_limit == K_LIMIT_LAYERS)
		return m->layers;
	return e->k_limit_n;
}

struct pipeline_shape experiment_shape(const struct experiment *e, const struct job *j)
{
	return (struct pipeline_shape){
		.schedule = e->schedule,
		.interleave = e->interleave,
		.equal_split = e->k_limit == K_LIMIT_N &&
			       e->k_limit_n > e->models[j->model].layers,
		.micro_batches = j->micro_batches,
		.micro_batch_size = j->micro_batch_size,
	};
}
