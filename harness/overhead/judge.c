#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "harness/overhead/overhead.h"
#include "results/results.h"

#define RESAMPLES 4000
/* Of fewer values not even the least and the greatest have the median between them
 * 95 times in 100: 1 - 2^(1 - n). */
#define INTERVAL_PAIRS 6
#define WITHIN 0.10
#define STAYS 2				/* further estimates that must agree */

/* Median of the steps that lie wholly within a block, after the switch at its
 * beginning was confirmed; NAN: none. */
static double block_median(const struct tb_result *r, int64_t from_ns, int64_t until_ns, int *n)
{
	CLEANUP_FREE double *v = calloc((size_t)r->n_steps + 1, sizeof(*v));

	*n = 0;
	for (int i = 0; v && i < r->n_steps; i++) {
		const struct tb_step *s = &r->steps[i];

		if (s->step >= 0 && s->start_ns >= from_ns && s->end_ns <= until_ns)
			v[(*n)++] = (double)(s->end_ns - s->start_ns) / 1e9;
	}
	return v && *n ? stats_median(v, (size_t)*n) : NAN;
}

static void judge_use(const struct overhead_schedule *s, const struct tb_log *l, struct overhead_row *row)
{
	double cpu[2] = { 0 }, seconds[2] = { 0 }, wire = 0, probe = 0;

	for (int i = 0; i < s->n_blocks; i++) {
		const struct tb_acted *a = &l->acted[i], *b = &l->acted[i + 1];
		double t = (double)(b->began_ns - a->began_ns) / 1e9;
		int is_b = s->is_b[i];

		if (a->n_hosts != b->n_hosts || !a->n_hosts)
			continue;
		cpu[is_b] += (double)(b->cpu_ns - a->cpu_ns) / 1e9 / a->n_hosts;
		seconds[is_b] += t;
		if (is_b) {
			wire += (double)(b->wire_bytes - a->wire_bytes);
			probe += (double)(b->probe_bytes - a->probe_bytes);
		}
		row->dropped = b->dropped - l->acted[0].dropped;
		row->agent_rss_bytes = (double)b->rss_max_bytes;
	}
	row->agent_cpu = seconds[1] > 0 ? cpu[1] / seconds[1] : NAN;
	row->agent_cpu_off = seconds[0] > 0 ? cpu[0] / seconds[0] : NAN;
	row->wire_bytes_ps = seconds[1] > 0 ? wire / seconds[1] : NAN;
	row->probe_bytes_ps = seconds[1] > 0 ? probe / seconds[1] : NAN;
}

int overhead_judge_steps(const struct overhead_schedule *s, const struct tb_result *r, uint64_t seed,
			 struct overhead_row *row, struct bace_err *e)
{
	CLEANUP_FREE double *diff = calloc((size_t)s->n_blocks + 1, sizeof(*diff));
	CLEANUP_FREE double *off = calloc((size_t)s->n_blocks + 1, sizeof(*off));
	size_t n = 0;

	row->inflation = row->lo = row->hi = row->step_s = NAN;
	row->agent_cpu = row->agent_cpu_off = row->wire_bytes_ps = row->probe_bytes_ps = NAN;
	if (!diff || !off)
		return bace_fail(e, ENOMEM, "out of memory");
	if (r->log.n_acted <= s->n_blocks)
		return bace_fail(e, ENODATA, "the steps ended before the blocks did");
	for (int i = 0; i + 1 < s->n_blocks; i += 2) {
		double m[2];
		int k[2];

		for (int j = 0; j < 2; j++)
			m[s->is_b[i + j]] = block_median(r, r->log.acted[i + j].settled_ns,
							 r->log.acted[i + j + 1].began_ns, &k[j]);
		if (!k[0] || !k[1])
			continue;
		off[n] = m[0];
		diff[n++] = m[1] / m[0] - 1;
		row->n_steps += k[0] + k[1];
	}
	judge_use(s, &r->log, row);
	row->n_pairs = (int)n;
	if (n < 2)
		return bace_fail(e, ENODATA, "fewer than two pairs of blocks had a whole step in each");
	row->step_s = stats_median(off, n);
	row->inflation = stats_median(diff, n);
	if (n >= INTERVAL_PAIRS)
		stats_bootstrap(diff, n, stats_median, RESAMPLES, 0.95, seed, &row->lo, &row->hi);
	return 0;
}

static bool agrees(const struct tb_estimate *x, double truth_bps)
{
	return fabs(x->rate_bps / truth_bps - 1) <= WITHIN;
}

double overhead_detection_s(const struct tb_estimate *v, int n, int64_t from_ns, int64_t until_ns,
			    double truth_bps)
{
	for (int i = 0; i < n; i++) {
		bool stays = true;

		if (v[i].at_ns < from_ns || v[i].at_ns > until_ns || !agrees(&v[i], truth_bps))
			continue;
		for (int k = i + 1; k <= i + STAYS && k < n && v[k].at_ns <= until_ns && stays; k++)
			stays = agrees(&v[k], truth_bps);
		if (stays)
			return (double)(v[i].at_ns - from_ns) / 1e9;
	}
	return NAN;
}

/* What the view says in the second half of a dwell, where it has settled: every
 * estimate in it, or the last one before. */
static void add_errors(const struct tb_log *l, int64_t from_ns, int64_t until_ns, double truth_bps, double *v,
		       size_t *n)
{
	const struct tb_estimate *last = NULL;
	size_t before = *n;

	for (int i = 0; i < l->n_estimates; i++) {
		const struct tb_estimate *x = &l->estimates[i];

		if (x->at_ns <= until_ns)
			last = x;
		if (x->at_ns >= from_ns && x->at_ns <= until_ns)
			v[(*n)++] = fabs(x->rate_bps / truth_bps - 1);
	}
	if (*n == before && last)
		v[(*n)++] = fabs(last->rate_bps / truth_bps - 1);
}

int overhead_judge_changes(const struct overhead_schedule *s, const struct tb_log *l, uint64_t rate_bps,
			   int *n_detected, double *median_s, double *error, struct bace_err *e)
{
	CLEANUP_FREE double *errors = calloc((size_t)(l->n_estimates + s->n_rates) + 1, sizeof(*errors));
	CLEANUP_FREE double *delays = calloc((size_t)s->n_rates + 1, sizeof(*delays));
	size_t n_errors = 0, n = 0;

	*n_detected = 0;
	*median_s = *error = NAN;
	if (!errors || !delays)
		return bace_fail(e, ENOMEM, "out of memory");
	for (int i = 0; i < s->n_rates && s->first_rate + i + 1 < l->n_acted; i++) {
		const struct tb_acted *a = &l->acted[s->first_rate + i], *b = a + 1;
		double truth = i % 2 ? (double)rate_bps : (double)(rate_bps / 2);
		double d = overhead_detection_s(l->estimates, l->n_estimates, a->began_ns, b->began_ns, truth);

		if (!isnan(d))
			delays[n++] = d;
		add_errors(l, a->began_ns + (b->began_ns - a->began_ns) / 2, b->began_ns, truth, errors, &n_errors);
	}
	*n_detected = (int)n;
	if (n)
		*median_s = stats_median(delays, n);
	if (n_errors)
		*error = stats_median(errors, n_errors);
	return 0;
}
