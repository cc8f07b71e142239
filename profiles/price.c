#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "profiles/load.h"

/* Index of the piece that holds at t, 0 <= t (< period_s). */
static size_t piece_at(const struct price_series *p, double t)
{
	size_t lo = 0, hi = p->n;

	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (p->start_s[mid] <= t)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

/* End of piece i, counted from the start of its period. */
static double piece_end(const struct price_series *p, size_t i)
{
	if (i + 1 < p->n)
		return p->start_s[i + 1];
	return p->period_s > 0 ? p->period_s : INFINITY;
}

/* Splits t into whole periods and the rest, rest < period even after rounding. */
static double whole_periods(const struct price_series *p, double t, double *rest)
{
	double n = 0;

	*rest = t;
	if (p->period_s <= 0)
		return 0;
	n = floor(t / p->period_s);
	*rest = t - n * p->period_s;
	if (*rest < 0) {
		n -= 1;
		*rest += p->period_s;
	}
	if (*rest >= p->period_s) {
		n += 1;
		*rest = 0;
	}
	return n;
}

double price_at(const struct price_series *p, double t_s, double *until_s)
{
	double rest, end;
	double periods = whole_periods(p, t_s, &rest);
	size_t i = piece_at(p, rest);

	end = piece_end(p, i);
	/* Rounding may put t just before the change that it was announced to be: an
	 * event loop that is told "changes now" again would not advance. */
	for (size_t tries = p->n; tries > 1 && periods * p->period_s + end <= t_s; tries--) {
		i = (i + 1) % p->n;
		periods += i == 0;
		end = piece_end(p, i);
	}
	if (until_s)
		*until_s = p->n == 1 || isinf(end) ? INFINITY :
			   fmax(periods * p->period_s + end, nextafter(t_s, INFINITY));
	return p->usd_per_kwh[i];
}

/* From 0 to t within one period. */
static double integral_in_period(const struct price_series *p, double t)
{
	size_t last = piece_at(p, t);
	double sum = 0;

	if (p->sum)
		sum = p->sum[last];
	else
		for (size_t i = 0; i < last; i++)
			sum += p->usd_per_kwh[i] * (p->start_s[i + 1] - p->start_s[i]);
	return sum + p->usd_per_kwh[last] * (t - p->start_s[last]);
}

int price_sum(struct price_series *p)
{
	free(p->sum);
	p->sum = calloc(p->n ? p->n : 1, sizeof(double));
	if (!p->sum)
		return -ENOMEM;
	for (size_t i = 1; i < p->n; i++)
		p->sum[i] = p->sum[i - 1] + p->usd_per_kwh[i - 1] * (p->start_s[i] - p->start_s[i - 1]);
	return 0;
}

double price_integral(const struct price_series *p, double a_s, double b_s)
{
	double rest_a, rest_b;
	double periods = -whole_periods(p, a_s, &rest_a);

	if (p->n == 1)
		return p->usd_per_kwh[0] * (b_s - a_s);
	periods += whole_periods(p, b_s, &rest_b);
	return (periods ? periods * integral_in_period(p, p->period_s) : 0) +
	       integral_in_period(p, rest_b) - integral_in_period(p, rest_a);
}

void price_series_free(struct price_series *p)
{
	free(p->start_s);
	free(p->usd_per_kwh);
	free(p->sum);
	*p = (struct price_series){ 0 };
}
