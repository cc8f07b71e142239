#include "tests/unit/oracle/moments.h"

void assert_close(double got, double want)
{
	if (!(fabs(got - want) <= 1e-9 * fmax(1, fabs(want))))
		fail_msg("got %.15g, want %.15g", got, want);
}

void add(struct bench *b, int job, int n, const struct placement_part *parts)
{
	int i = b->m.n++;

	memcpy(b->parts[i], parts, (size_t)n * sizeof(*parts));
	b->p[i] = (struct placement){ .job = job, .n_parts = n, .parts = b->parts[i] };
	for (int k = 0; k < n; k++)
		b->p[i].n_gpus += parts[k].gpus;
	b->list[i] = &b->p[i];
}

void pair(struct bench *b, int job, int from, int to)
{
	add(b, job, 2, (struct placement_part[]){ { from, 1 }, { to, 1 } });
}

void begin(struct bench *b)
{
	*b = (struct bench){ 0 };
	fix_init(&b->f, 4);
	for (int r = 0; r < 4; r++)
		fix_region(&b->f, r, (const char *[]){ "a", "b", "c", "d" }[r], 8, 0.1, 1000 * MBIT);
	for (int x = 0; x < 4; x++)
		for (int y = 0; y < x; y++)
			fix_link(&b->f, x, y, 100 * MBIT, 0.25);
	fix_model(&b->f, "M", 12, 1, 2, 1 * MB, 1e9);
	for (int j = 0; j < 12; j++) {
		char name[8];

		snprintf(name, sizeof(name), "j%c", 'a' + j);
		fix_job(&b->f, name, 0, 4, 10, 0);
	}
	fix_ready(&b->f);
	for (int i = 0; i < 16; i++)
		b->f.capacity_bps[i] = i / 4 == i % 4 ? 0 : l2_rate_bps(100 * MBIT, 1500);
	b->f.capacity_bps[4] = l2_rate_bps(50 * MBIT, 1500);
	b->m = (struct moment){ .exp = &b->f.e, .models = &b->f.models, .placements = b->list,
				.capacity_bps = b->f.capacity_bps };
}

void end(struct bench *b)
{
	fix_free(&b->f);
}

void draw_path(struct bench *b, struct bace_rng *rng, int job)
{
	struct placement_part parts[4];
	int order[4] = { 0, 1, 2, 3 }, n = 1 + (int)bace_rng_below(rng, 4);

	for (int i = 0; i < n; i++) {
		int k = i + (int)bace_rng_below(rng, (uint64_t)(4 - i)), t = order[i];

		order[i] = order[k];
		order[k] = t;
		parts[i] = (struct placement_part){ order[i], 1 + (int)bace_rng_below(rng, 3) };
	}
	add(b, job, n, parts);
}
