#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/policy/instance.h"

struct draw {
	int n;
	int at[FIX_REGIONS];	/* where region i of the story stands in the config */
	int gpus[FIX_REGIONS], taken[FIX_REGIONS], type[FIX_REGIONS];
	double price[FIX_REGIONS], pue[FIX_REGIONS];
	double goodput[FIX_REGIONS][FIX_REGIONS], latency[FIX_REGIONS][FIX_REGIONS],
		reserved[FIX_REGIONS][FIX_REGIONS];
	bool absent[FIX_REGIONS][FIX_REGIONS];
};

static void draw_all(struct draw *d, struct bace_rng *r, int n)
{
	d->n = n;
	for (int i = 0; i < n; i++) {
		d->at[i] = i;
		d->gpus[i] = (int)bace_rng_below(r, 9);
		d->taken[i] = (int)bace_rng_below(r, (uint64_t)d->gpus[i] + 1) / 2;
		d->type[i] = (int)bace_rng_below(r, 3);
		/* few distinct prices, so that ties occur */
		d->price[i] = 0.1 + 0.05 * (double)bace_rng_below(r, 4);
		d->pue[i] = 1 + 0.1 * (double)bace_rng_below(r, 3);
		for (int j = 0; j < i; j++) {
			d->absent[i][j] = d->absent[j][i] = !bace_rng_below(r, 6);
			d->latency[i][j] = d->latency[j][i] = 0.1 * bace_rng_uniform(r);
			for (int way = 0; way < 2; way++) {
				int a = way ? i : j, b = way ? j : i;

				d->goodput[a][b] = 1e9 * (double)(1 + bace_rng_below(r, 20));
				d->reserved[a][b] = bace_rng_below(r, 3) ? 0 :
					d->goodput[a][b] * 1.1 * bace_rng_uniform(r);
			}
		}
	}
	if (!d->gpus[0])
		d->gpus[0] = 3;
}

static void shuffle(struct draw *d, struct bace_rng *r)
{
	for (int i = d->n - 1; i > 0; i--) {
		int j = (int)bace_rng_below(r, (uint64_t)i + 1), t = d->at[i];

		d->at[i] = d->at[j];
		d->at[j] = t;
	}
}

static void add_types(struct fixture *f, bool shuffled, int type[3])
{
	static const double flops[] = { 1e12, 1e12, 2e12 }, memory[] = { 100e9, 60e9, 80e9 };
	static const char *const names[] = { "t0", "t1", "t2" };

	f->e.cluster.n_gpus = 0;
	for (int i = 0; i < 3; i++) {
		int t = shuffled ? 2 - i : i;

		type[t] = fix_gpu(f, names[t], flops[t], memory[t]);
	}
}

static void add_jobs(struct fixture *f, struct bace_rng *r, bool shuffled)
{
	char names[4][NAME_LEN];
	double steps[4];
	int m[4];

	fix_model(f, "net", instance_layers, 24, 48, (0.1 + bace_rng_uniform(r)) * 1e9 / 8,
		  50e9 * (double)bace_rng_below(r, 8) + 1e9);
	for (int i = 0; i < 4; i++) {
		snprintf(names[i], NAME_LEN, "job%d", i);
		steps[i] = 1 + (double)bace_rng_below(r, 100);
		m[i] = i ? 4 << i : 8;
	}
	for (int i = 0; i < 4; i++) {
		int j = shuffled ? 3 - i : i;

		fix_job(f, names[j], 0, m[j], steps[j], 0);
	}
}

void instance_build(struct fixture *f, uint64_t seed, int n, int flags)
{
	bool shuffled = flags & INSTANCE_SHUFFLED;
	struct draw d = { 0 };
	struct bace_rng r, s;
	int type[3];
	char name[NAME_LEN];

	bace_rng_init(&r, seed, 7);
	bace_rng_init(&s, seed, 8);
	draw_all(&d, &r, n);
	if (shuffled)
		shuffle(&d, &s);
	fix_init(f, n);
	add_types(f, shuffled, type);
	for (int i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "r%c", 'a' + i);
		fix_region(f, d.at[i], name, d.gpus[i], d.price[i], 1e15);
		f->e.cluster.regions[d.at[i]].pue = d.pue[i];
		f->e.cluster.regions[d.at[i]].gpu = type[flags & INSTANCE_MIXED ? d.type[i] : 0];
		for (int j = 0; j < n; j++)
			if (i != j && !d.absent[i][j])
				fix_link_one_way(f, d.at[i], d.at[j], d.goodput[i][j], d.latency[i][j]);
	}
	add_jobs(f, &r, shuffled);
	fix_ready(f);
	for (int i = 0; i < n; i++) {
		f->free_gpus[d.at[i]] -= d.taken[i];
		for (int j = 0; j < n; j++)
			if (i != j && !d.absent[i][j])
				f->reserved_bps[d.at[i] * n + d.at[j]] = d.reserved[i][j];
	}
}
