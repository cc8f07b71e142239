/*
 * xoshiro256** 1.0 (Blackman and Vigna, "Scrambled linear pseudorandom number
 * generators", ACM TOMS 2021), its state filled by splitmix64.
 */
#include <math.h>

#include "common/common.h"

static uint64_t splitmix64(uint64_t *x)
{
	uint64_t z = *x += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

void bace_rng_init(struct bace_rng *r, uint64_t seed, uint64_t stream)
{
	/* The stream is mixed before it meets the seed, or (1, 2) and (2, 1)
	 * would be related. */
	uint64_t x = stream;
	uint64_t state = seed ^ (stream ? splitmix64(&x) : 0);

	for (int i = 0; i < 4; i++)
		r->s[i] = splitmix64(&state);
}

static uint64_t rotl(uint64_t x, int k)
{
	return x << k | x >> (64 - k);
}

uint64_t bace_rng_u64(struct bace_rng *r)
{
	uint64_t *s = r->s;
	uint64_t result = rotl(s[1] * 5, 7) * 9;
	uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return result;
}

uint64_t bace_rng_below(struct bace_rng *r, uint64_t n)
{
	/* Numbers below 2^64 mod n would make the small results more likely. */
	uint64_t reject = -n % n;
	uint64_t x;

	do
		x = bace_rng_u64(r);
	while (x < reject);
	return x % n;
}

double bace_rng_uniform(struct bace_rng *r)
{
	return (bace_rng_u64(r) >> 11) * 0x1p-53;
}

/* Marsaglia's polar method; the second number is dropped so that a generator
 * is its four words and nothing else. */
double bace_rng_normal(struct bace_rng *r)
{
	double u, v, s;

	do {
		u = 2 * bace_rng_uniform(r) - 1;
		v = 2 * bace_rng_uniform(r) - 1;
		s = u * u + v * v;
	} while (s >= 1 || s == 0);
	return u * sqrt(-2 * log(s) / s);
}

double bace_rng_exponential(struct bace_rng *r, double mean)
{
	return -mean * log1p(-bace_rng_uniform(r));
}
