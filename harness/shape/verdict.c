/* What a plan promises, and how sure a measurement is. Pure. */
#include <math.h>
#include <stdlib.h>

#include "harness/shape/shape.h"

#define Z95 1.96
#define Z99 2.576

/* netem's chain: 1 delivers, 2 delivers within a burst, 3 loses in a burst, 4
 * loses one packet. The share of losing steps once it has settled. */
static double four_state_loss(const double p[5])
{
	double p13 = p[0], p31 = p[1], p32 = p[2], p14 = p[3], p23 = p[4];
	double s[4] = { 1, 0, 0, 0 }, sum = 0;
	const int settle = 20000, steps = 20000;

	for (int i = 0; i < settle + steps; i++) {
		double stay3 = fmax(0, 1 - p31 - p32);
		double next[4] = { s[0] * fmax(0, 1 - p13 - p14) + s[2] * p31 + s[3], s[1] * (1 - p23) + s[2] * p32,
				   s[0] * p13 + s[1] * p23 + s[2] * stay3, s[0] * p14 };

		if (i >= settle)
			sum += s[0] * (p13 + p14) + s[1] * p23 + s[2] * stay3;
		for (int k = 0; k < 4; k++)
			s[k] = next[k];
	}
	return sum / steps;
}

double shape_planned_loss(const struct shape_path *p)
{
	const double *m = p->impair.loss_p;
	double bad;

	switch (p->impair.loss_model) {
	case LOSS_RANDOM:
		return p->link.loss;
	case LOSS_GILBERT_ELLIOTT:
		bad = m[0] + m[1] > 0 ? m[0] / (m[0] + m[1]) : 0;
		return bad * m[2] + (1 - bad) * m[3];
	case LOSS_4STATE:
		return four_state_loss(m);
	}
	return 0;
}

/* By how much bursts reduce what n packets say: the state of one is that of the
 * next with probability 1 - p - r. */
static double burst_factor(const struct shape_path *p)
{
	double rho = p->impair.loss_model == LOSS_RANDOM ? 0 : fmax(0, 1 - p->impair.loss_p[0] - p->impair.loss_p[1]);

	return fmin(1000, (1 + rho) / fmax(1e-3, 1 - rho));
}

struct shape_interval shape_loss_interval(const struct shape_path *p, uint64_t sent, uint64_t received)
{
	double n = (double)sent / burst_factor(p), lost = sent > received ? (double)(sent - received) : 0;
	double x = sent ? lost / (double)sent : 0, z2 = Z99 * Z99;
	double middle, half;

	if (!(n > 0))
		return (struct shape_interval){ 0, 0, 1 };
	/* Wilson's: right also where nothing was lost. */
	middle = (x + z2 / (2 * n)) / (1 + z2 / n);
	half = Z99 / (1 + z2 / n) * sqrt(x * (1 - x) / n + z2 / (4 * n * n));
	return (struct shape_interval){ x, fmax(0, middle - half), fmin(1, middle + half) };
}

struct shape_interval shape_median_interval(double *v, int n)
{
	double half = Z95 * sqrt(n) / 2;
	int low = (int)floor(n / 2.0 - half), high = (int)ceil(n / 2.0 + half);

	if (n <= 0)
		return (struct shape_interval){ 0 };
	qsort(v, (size_t)n, sizeof(*v), bace_by_double);
	low = low < 0 ? 0 : low;
	high = high > n - 1 ? n - 1 : high;
	return (struct shape_interval){ n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2, v[low], v[high] };
}

enum shape_verdict shape_judge(const struct shape_interval *seen, double low, double high)
{
	if (!(seen->high >= low && seen->low <= high))
		return SHAPE_OUT;
	return seen->low >= low && seen->high <= high ? SHAPE_WITHIN : SHAPE_UNDECIDED;
}

#define LOSS_NONE 1e-3		/* of packets: what counts as none, and is told apart from it */

struct shape_interval shape_loss_allowed(double planned)
{
	return (struct shape_interval){ planned, planned, planned > 0 ? planned : LOSS_NONE };
}

double shape_loss_half_most(double planned)
{
	return fmax(planned / 2, LOSS_NONE);
}

double shape_loss_packets(const struct shape_path *p)
{
	double x = shape_planned_loss(p), half = shape_loss_half_most(x), v = x * (1 - x);

	/* Half of Wilson's interval: z sqrt(v / n + z^2 / 4n^2), solved for n. */
	return 1.3 * burst_factor(p) * Z99 * Z99 * (v + sqrt(v * v + half * half)) / (2 * half * half);
}

enum shape_verdict shape_judge_loss(const struct shape_interval *seen, double planned, uint64_t sent)
{
	struct shape_interval allowed = shape_loss_allowed(planned);

	if (!sent)
		return SHAPE_UNDECIDED;
	if (seen->low > allowed.high || seen->high < allowed.low)
		return SHAPE_OUT;
	if ((seen->high - seen->low) / 2 > shape_loss_half_most(planned))
		return SHAPE_UNDECIDED;
	return planned > 0 || seen->value <= allowed.high ? SHAPE_WITHIN : SHAPE_UNDECIDED;
}

/* Student's t, two-sided 95 %; beyond the table to within 0.01 %. */
static double t95(int freedom)
{
	static const double table[] = { 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
					2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
					2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042 };
	double z = 1.959964, f = freedom;

	if (freedom <= (int)ARRAY_LEN(table))
		return table[freedom - 1];
	return z + (pow(z, 3) + z) / (4 * f) + (5 * pow(z, 5) + 16 * pow(z, 3) + 3 * z) / (96 * f * f);
}

#define BATCHES 10		/* of 20 values and more: neighbours may make up for each other */
#define LIKE_MAX 0.9		/* more alike than that is a trend, of which no interval tells */

static double mean_of(const double *v, int n)
{
	double sum = 0;

	for (int i = 0; i < n; i++)
		sum += v[i];
	return sum / n;
}

/* Half of the interval of the mean of n values that may follow each other. */
static double half_width(const double *v, int n)
{
	double mean = mean_of(v, n), squares = 0, products = 0, like;

	for (int i = 0; i < n; i++) {
		squares += (v[i] - mean) * (v[i] - mean);
		products += i ? (v[i] - mean) * (v[i - 1] - mean) : 0;
	}
	like = squares > 0 ? fmin(LIKE_MAX, fmax(0, products / squares)) : 0;
	return t95(n - 1) * sqrt(squares / (n - 1) / n * (1 + like) / (1 - like));
}

struct shape_interval shape_mean_interval(const double *v, int n)
{
	double mean = n > 0 ? mean_of(v, n) : 0, half = 0, batch[BATCHES];
	int size = n / BATCHES;

	for (int i = 0; size > 1 && i < BATCHES; i++)
		batch[i] = mean_of(v + i * size, size);
	if (n > 1)
		half = size > 1 ? half_width(batch, BATCHES) : half_width(v, n);
	return (struct shape_interval){ mean, mean - half, mean + half };
}
