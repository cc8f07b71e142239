/* Sweeps: the same bits for any number of threads and shards, files exact. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/cluster/world.h"

#define SEEDS 24

static struct drawn d;
static struct policy_spec policies[4];

static int setup(void **state)
{
	static const char *const names[] = { "bace", "lcf", "cr-ldf", "random" };

	for (uint64_t seed = 1;; seed++) {
		world_draw(&d, seed, 0);
		if (d.w.e.n_jobs > 10 && d.w.e.cluster.n_regions > 3 && d.w.e.view.bandwidth_noise > 0)
			break;
		drawn_free(&d);
	}
	for (int i = 0; i < 4; i++) {
		policies[i] = (struct policy_spec){ .alpha = NAN, .alpha_gain = 1, .pathfinder = true,
						    .cost_min = true };
		snprintf(policies[i].name, NAME_LEN, "%s", names[i]);
		snprintf(policies[i].label, NAME_LEN, "%s", names[i]);
	}
	d.w.e.policies = policies;
	d.w.e.n_policies = 4;
	d.w.e.seed = UINT64_MAX - 3;
	d.w.e.text_hash = UINT64_C(0xfedcba9876543210);
	return 0;
}

static int teardown(void **state)
{
	drawn_free(&d);
	return 0;
}

static void run(struct sweep *s, int seeds, int threads, int shard, int n_shards)
{
	struct bace_err err;
	const struct sweep_options o = { .n_seeds = seeds, .n_threads = threads, .shard = shard,
		.n_shards = n_shards, .closed_form = true, .event_sim = true, .resample = true,
		.mean_gap_s = 100 };

	if (sweep_run(&d.w.e, &o, s, &err))
		fail_msg("%s", err.msg);
}

static void assert_same(const struct sweep *a, const struct sweep *b)
{
	assert_int_equal(a->n_cells, b->n_cells);
	assert_true(a->config_hash == b->config_hash && a->seed == b->seed);
	for (int i = 0; i < a->n_cells; i++) {
		const struct sweep_cell *x = &a->cells[i], *y = &b->cells[i];

		assert_true(x->done && y->done);
		assert_true(!x->error == !y->error);
		for (int m = 0; m < N_METRICS; m++)
			assert_true(x->metric[m] == y->metric[m] || (isnan(x->metric[m]) && isnan(y->metric[m])));
		assert_true(!x->jct_s == !y->jct_s);
		for (int j = 0; x->jct_s && j < a->n_jobs; j++)
			assert_true(x->jct_s[j] == y->jct_s[j] ||
				    (isnan(x->jct_s[j]) && isnan(y->jct_s[j])));
	}
}

static void threads(void **state)
{
	struct sweep one, three;

	run(&one, SEEDS, 1, 0, 0);
	run(&three, SEEDS, 3, 0, 0);
	assert_int_equal(one.n_cells, SEEDS * 4 * 2);
	assert_same(&one, &three);
	/* and seeds differ, or this says nothing */
	assert_true(sweep_at(&one, 0, 0, 0)->metric[METRIC_MEAN_JCT] !=
		    sweep_at(&one, 1, 0, 0)->metric[METRIC_MEAN_JCT]);
	assert_true(one.varies);
	sweep_free(&one);
	sweep_free(&three);
}

static void read_back(struct sweep *s)
{
	char path[] = "/tmp/bace-test-sweep-XXXXXX";
	struct bace_err err;
	struct sweep back;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(sweep_write(s, path, &err), 0);
	assert_int_equal(sweep_read(path, &back, &err), 0);
	unlink(path);
	sweep_free(s);
	*s = back;
}

static void shards(void **state)
{
	for (int seeds = 1; seeds <= SEEDS; seeds += SEEDS - 1) {
		struct sweep whole, part[3];
		struct bace_err err;

		run(&whole, seeds, 1, 0, 0);
		for (int i = 0; i < 3; i++) {
			run(&part[i], seeds, 2, i + 1, 3);
			read_back(&part[i]);
		}
		assert_int_equal(sweep_merge(&part[2], &part[0], &err), 0);
		assert_int_equal(sweep_merge(&part[2], &part[1], &err), 0);
		assert_same(&whole, &part[2]);
		sweep_free(&whole);
		for (int i = 0; i < 3; i++)
			sweep_free(&part[i]);
	}
}

static void merge_refuses(void **state)
{
	struct sweep a, b, other;
	struct bace_err err;

	run(&a, 2, 1, 1, 2);
	run(&b, 2, 1, 1, 2);
	run(&other, 3, 1, 2, 2);
	assert_int_equal(sweep_merge(&a, &b, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "twice"));
	assert_int_equal(sweep_merge(&a, &other, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "another sweep"));
	sweep_free(&a);
	sweep_free(&b);
	sweep_free(&other);
}

static void read_refuses(void **state)
{
	static const char *const bad[] = { "", "{}", "[1]", "{\"format\": \"bace-sweep-1\"}",
		"{\"format\":\"bace-sweep-1\",\"experiment\":\"x\",\"config\":\"0\",\"seed\":\"1\",\"jobs\":1,"
		"\"seeds\":1000000,\"shard\":0,\"shards\":0,\"resample\":false,\"varies\":false,"
		"\"mean_gap_s\":0.0,\"policies\":[\"a\"],\"oracles\":[\"closed-form\"],\"cells\":[]}",
		"{\"format\":\"bace-sweep-1\",\"experiment\":\"x\",\"config\":\"0\",\"seed\":\"1\",\"jobs\":1,"
		"\"seeds\":1,\"shard\":0,\"shards\":0,\"resample\":false,\"varies\":false,"
		"\"mean_gap_s\":0.0,\"policies\":[\"a\"],\"oracles\":[\"closed-form\"],"
		"\"cells\":[{\"cell\":1,\"metrics\":[1,1,1,1,1,1,1,1,1,1,1,1]}]}",
		/* one seed: its jobs are compared one by one, and must be there */
		"{\"format\":\"bace-sweep-1\",\"experiment\":\"x\",\"config\":\"0\",\"seed\":\"1\",\"jobs\":1,"
		"\"seeds\":1,\"shard\":0,\"shards\":0,\"resample\":false,\"varies\":false,"
		"\"mean_gap_s\":0.0,\"policies\":[\"a\"],\"oracles\":[\"closed-form\"],"
		"\"cells\":[{\"cell\":0,\"metrics\":[1,1,1,1,1,1,1,1,1,1,1,1]}]}",
	};
	char path[] = "/tmp/bace-test-sweep-XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct bace_err err = { 0 };
		struct sweep s;
		FILE *f = fopen(path, "w");

		fputs(bad[i], f);
		fclose(f);
		assert_int_equal(sweep_read(path, &s, &err), -EINVAL);
		assert_null(s.cells);
	}
	unlink(path);
}

/* Any file: numbers, and of one seed the jobs', or -EINVAL. */
static void mutate(int seeds, uint64_t stream)
{
	char path[] = "/tmp/bace-test-sweep-XXXXXX";
	CLEANUP_FREE char *good = NULL;
	struct bace_err err;
	struct bace_rng r;
	struct sweep s;
	size_t len;
	int fd = mkstemp(path), refused = 0;

	assert_true(fd >= 0);
	close(fd);
	run(&s, seeds, 1, seeds > 1, seeds > 1 ? 2 : 0);
	assert_int_equal(sweep_write(&s, path, &err), 0);
	sweep_free(&s);
	assert_int_equal(bace_read_file(path, 1 << 20, &good, &len, &err), 0);
	bace_rng_init(&r, 1, stream);
	for (int i = 0; i < 1000; i++) {
		CLEANUP_FREE char *text = strndup(good, len);
		size_t n = bace_rng_below(&r, 4) ? len : bace_rng_below(&r, len);
		FILE *f = fopen(path, "w");
		int rc;

		for (size_t k = bace_rng_below(&r, 4); k--;)
			text[bace_rng_below(&r, len)] = "0123456789-.,:[]{}\"en\0 \xff"[bace_rng_below(&r, 25)];
		fwrite(text, 1, n, f);
		fclose(f);
		rc = sweep_read(path, &s, &err);
		assert_true(rc == 0 || rc == -EINVAL);
		refused += rc != 0;
		for (int k = 0; s.n_seeds == 1 && k < s.n_cells; k++)
			assert_true(!s.cells[k].done || s.cells[k].error || (s.cells[k].jct_s && s.cells[k].cost_usd));
		sweep_free(&s);
	}
	assert_true(refused > 100 && refused < 950);
	unlink(path);
}

static void read_mutated(void **state)
{
	mutate(2, 1);
	mutate(1, 2);
}

/* A policy that cannot run is an error of its cells; the others have numbers. */
static void failing_policy(void **state)
{
	struct sweep s;

	strcpy(policies[1].name, "no-such");
	run(&s, 2, 2, 0, 0);
	strcpy(policies[1].name, "lcf");
	for (int i = 0; i < s.n_cells; i++) {
		bool bad = i / s.n_oracles % s.n_policies == 1;

		assert_true(!!s.cells[i].error == bad);
		assert_true(isnan(s.cells[i].metric[METRIC_COST]) == bad);
	}
	sweep_free(&s);
}

/* ---- the pool ---- */

struct tally {
	atomic_int hits[100];
	int last, total;
};

static void hit(void *arg, int i)
{
	atomic_fetch_add(&((struct tally *)arg)->hits[i], 1);
}

static void on_progress(void *arg, int done, int total)
{
	struct tally *t = arg;

	assert_true(done >= t->last && done <= total);
	t->last = done;
	t->total = total;
}

static void pool(void **state)
{
	for (int threads = 0; threads < 5; threads++) {
		struct tally t = { 0 };
		struct bace_err err;

		assert_int_equal(pool_run(100, threads, hit, &t, on_progress, &t, &err), 0);
		for (int i = 0; i < 100; i++)
			assert_int_equal(t.hits[i], 1);
		assert_int_equal(pool_run(0, threads, hit, &t, NULL, NULL, &err), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads),
		cmocka_unit_test(shards),
		cmocka_unit_test(merge_refuses),
		cmocka_unit_test(read_refuses),
		cmocka_unit_test(read_mutated),
		cmocka_unit_test(failing_policy),
		cmocka_unit_test(pool),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
