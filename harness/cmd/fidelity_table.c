#include "common/json.h"
#include "harness/cmd/fidelity_table.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

double fidelity_error(const struct fidelity_point *p)
{
	return p->valid ? p->measured_s / p->sim_s - 1 : NAN;
}

struct fidelity_summary fidelity_summarise(const struct fidelity *f)
{
	CLEANUP_FREE double *v = calloc((size_t)f->n + 1, sizeof(*v));
	struct fidelity_summary s = { .worst = NAN, .worst_at = -1 };

	for (int i = 0; v && i < f->n; i++) {
		double x = fabs(fidelity_error(&f->v[i]));

		if (isnan(x)) {
			s.n_invalid++;
			continue;
		}
		if (s.worst_at < 0 || x > s.worst) {
			s.worst = x;
			s.worst_at = i;
		}
		v[s.n++] = x;
	}
	s.median = v ? stats_median(v, (size_t)s.n) : NAN;
	return s;
}

static void print_head(const struct fidelity *f, FILE *to)
{
	fprintf(to, "Backend %s. t_F = %.4g ms, t_B = %.4g ms; a message takes %.3g ms of a link; a near hop costs\n"
		"%.3g ms in all; (t_F + t_B) / 2 = %.4g ms. c: the slow hop, latency and message.\n\n", f->backend,
		f->fwd_s * 1e3, f->bwd_s * 1e3, f->serialisation_s * 1e3, f->near_s * 1e3,
		(f->fwd_s + f->bwd_s) / 2 * 1e3);
}

static bool same_row(const struct fidelity_point *a, const struct fidelity_point *b)
{
	return a->schedule == b->schedule && a->stages == b->stages && a->micro_batches == b->micro_batches &&
	       a->latency_ns == b->latency_ns && a->overlap == b->overlap;
}

/* A row: its hops, in order. Points of a row stand apart in the list. */
static void print_row(const struct fidelity *f, int first, bool *done, FILE *to)
{
	const struct fidelity_point *p = &f->v[first];

	fprintf(to, "%-17s %2d %4d  %6.1f ", schedule_name(p->schedule), p->stages, p->micro_batches, p->c_s * 1e3);
	for (int i = first, hop = 0; i < f->n; i++) {
		const struct fidelity_point *q = &f->v[i];

		if (!same_row(p, q))
			continue;
		done[i] = true;
		for (; hop < q->hop; hop++)
			fputs("         ", to);
		hop = q->hop + 1;
		if (q->valid)
			fprintf(to, "  %+7.2f", 100 * fidelity_error(q));
		else
			fputs("  invalid", to);
	}
	fputc('\n', to);
}

void fidelity_print_matrix(const struct fidelity *f, FILE *to)
{
	CLEANUP_FREE bool *done = calloc((size_t)f->n + 1, sizeof(*done));

	print_head(f, to);
	fprintf(to, "                                 measured / simulated step time - 1, in %%\n"
		"schedule           p    m    c ms  slow hop: 0        1        2        3        4        5        6\n");
	for (int i = 0; done && i < f->n; i++)
		if (!done[i])
			print_row(f, i, done, to);
}

/* Of the points of one schedule, signed as well: a bias shows in the median. */
static void print_schedule(const struct fidelity *f, enum schedule_kind k, double *v, FILE *to)
{
	double signed_median;
	int n = 0, all = 0;

	for (int i = 0; i < f->n; i++) {
		double x = fidelity_error(&f->v[i]);

		all += f->v[i].schedule == k;
		if (f->v[i].schedule == k && !isnan(x))
			v[n++] = x;
	}
	if (!all)
		return;
	if (!n) {
		fprintf(to, "%-17s %6d %8d\n", schedule_name(k), all, all);
		return;
	}
	signed_median = stats_median(v, (size_t)n);
	for (int i = 0; i < n; i++)
		v[i] = fabs(v[i]);
	fprintf(to, "%-17s %6d %8d  %+8.2f  %8.2f  %8.2f  %8.2f\n", schedule_name(k), all, all - n, 100 * signed_median,
		100 * stats_median(v, (size_t)n), 100 * stats_quantile(v, (size_t)n, 0.95),
		100 * stats_quantile(v, (size_t)n, 1));
}

void fidelity_print_schedules(const struct fidelity *f, FILE *to)
{
	CLEANUP_FREE double *v = calloc((size_t)f->n + 1, sizeof(*v));

	fputs("\nschedule          points  invalid  median %  |median|       p95     worst\n", to);
	for (int k = 0; v && k <= SCHED_ZB_H1; k++)
		print_schedule(f, (enum schedule_kind)k, v, to);
}

/* ---- curves ---- */

static const struct fidelity_point *find(const struct fidelity *f, const struct fidelity_point *like,
					 int64_t latency_ns)
{
	for (int i = 0; i < f->n; i++) {
		const struct fidelity_point *p = &f->v[i];

		if (p->schedule == like->schedule && p->stages == like->stages && p->latency_ns == latency_ns &&
		    p->micro_batches == like->micro_batches)
			return p;
	}
	return NULL;
}

/* Seconds a micro-batch that the slow hop adds to a step. */
static double added_s(const struct fidelity_point *p, const struct fidelity_point *near, bool measured)
{
	double with = measured ? p->measured_s : p->sim_s, without = measured ? near->measured_s : near->sim_s;

	return near->valid || !measured ? (with - without) / p->micro_batches : NAN;
}

void fidelity_print_curve(const struct fidelity *f, FILE *to)
{
	const struct fidelity_point *near = NULL;

	print_head(f, to);
	fputs("added: what the slow hop adds to a step, for each micro-batch; and as a part of its additional c.\n", to);
	for (int i = 0; i < f->n; i++) {
		const struct fidelity_point *p = &f->v[i];
		double c_more;

		if (!near || p->schedule != near->schedule || p->stages != near->stages ||
		    p->micro_batches != near->micro_batches) {
			fprintf(to, "\n%s, p = %d, m = %d, slow hop %d\n"
				"    c ms   simulated s  measured s  error %%   added ms sim.  meas.   of c: sim.  meas.\n",
				schedule_name(p->schedule), p->stages, p->micro_batches, p->hop);
			near = find(f, p, llround((f->near_s - f->serialisation_s) * 1e9));
			near = near ? near : p;
		}
		c_more = p->c_s - near->c_s;
		fprintf(to, "%8.1f  %12.4f  %10.4f  %+7.2f", p->c_s * 1e3, p->sim_s, p->valid ? p->measured_s : NAN,
			100 * fidelity_error(p));
		if (p != near)
			fprintf(to, "   %13.2f %6.2f   %11.2f %6.2f", 1e3 * added_s(p, near, false),
				1e3 * added_s(p, near, true), added_s(p, near, false) / c_more,
				added_s(p, near, true) / c_more);
		fputc('\n', to);
	}
}

void fidelity_print_summary(const struct fidelity *f, const struct fidelity_summary *s,
			    const struct fidelity_limits *l, FILE *to)
{
	fprintf(to, "\n%d points, %d invalid. |error|: median %.2f %% (limit %.3g %%), worst %.2f %% (limit %.3g %%)",
		f->n, s->n_invalid, 100 * s->median, 100 * l->median, 100 * s->worst, 100 * l->worst);
	if (s->worst_at >= 0) {
		const struct fidelity_point *p = &f->v[s->worst_at];

		fprintf(to, ":\n%s, p = %d, m = %d, hop %d of c = %.1f ms", schedule_name(p->schedule), p->stages,
			p->micro_batches, p->hop, p->c_s * 1e3);
	}
	fputs(".\n", to);
	for (int i = 0; i < f->n; i++)
		if (!f->v[i].valid)
			fprintf(to, "invalid: %s, p = %d, m = %d, hop %d of c = %.1f ms: %s\n",
				schedule_name(f->v[i].schedule), f->v[i].stages, f->v[i].micro_batches, f->v[i].hop,
				f->v[i].c_s * 1e3, f->v[i].why);
}

int fidelity_json(const struct fidelity *f, const struct fidelity_summary *s, FILE *to)
{
	json_t *points = json_array(), *root;
	int rc;

	for (int i = 0; i < f->n; i++) {
		const struct fidelity_point *p = &f->v[i];

		json_array_append_new(points, json_pack("{s:s,s:i,s:i,s:i,s:i,s:b,s:f,s:f,s:o,s:o,s:i,s:b,s:s}", "schedule",
			schedule_name(p->schedule), "chunks", p->chunks, "stages", p->stages, "micro_batches",
			p->micro_batches, "hop", p->hop, "overlap", p->overlap, "c_s", p->c_s, "simulated_s", p->sim_s,
			"measured_s", json_number(p->measured_s), "error", json_number(fidelity_error(p)), "n_steps",
			p->n_steps, "valid", p->valid, "invalid_why", p->why));
	}
	root = json_pack("{s:s,s:f,s:f,s:f,s:f,s:i,s:i,s:o,s:o,s:o}", "backend", f->backend, "fwd_s", f->fwd_s, "bwd_s",
			 f->bwd_s, "serialisation_s", f->serialisation_s, "near_hop_s", f->near_s, "n", f->n,
			 "n_invalid", s->n_invalid, "median_error", json_number(s->median), "worst_error",
			 json_number(s->worst), "points", points);
	rc = root && !json_dumpf(root, to, JSON_INDENT(2)) ? 0 : -ENOMEM;
	fputc('\n', to);
	json_decref(root);
	return rc;
}
