/* Which jobs of a moment are measured together: those that share a link, either
 * way round, directly or through others. */
#include "harness/run/internal.h"
#include "tests/unit/oracle/moments.h"

static void path(struct bench *b, int job, int n, const int *regions)
{
	struct placement_part parts[4];

	for (int i = 0; i < n; i++)
		parts[i] = (struct placement_part){ regions[i], 1 };
	add(b, job, n, parts);
}

/* group_of[]: of each placement, the number of its group. */
static int groups(const struct bench *b, int *group_of)
{
	struct bace_err e = { 0 };
	struct group *g;
	int n = groups_of(&b->m, &g, &e), seen = 0;

	assert_true(n > 0);
	for (int i = 0; i < n; i++)
		for (int k = 0; k < g[i].n; k++, seen++) {
			group_of[g[i].which[k]] = i;
			assert_ptr_equal(g[i].placements[k], b->m.placements[g[i].which[k]]);
		}
	assert_int_equal(seen, b->m.n);
	groups_free(g, n);
	return n;
}

static void apart(void **state)
{
	struct bench b;
	int of[16];

	begin(&b);
	path(&b, 0, 2, (int[]){ 0, 1 });
	path(&b, 1, 2, (int[]){ 1, 2 });	/* a region in common, no link */
	path(&b, 2, 1, (int[]){ 1 });
	assert_int_equal(groups(&b, of), 3);
	path(&b, 3, 2, (int[]){ 1, 0 });	/* the first one's, turned round */
	assert_int_equal(groups(&b, of), 3);
	assert_int_equal(of[0], of[3]);
	end(&b);
}

static void through_a_third(void **state)
{
	struct bench b;
	int of[16];

	begin(&b);
	path(&b, 0, 2, (int[]){ 0, 1 });
	path(&b, 1, 2, (int[]){ 2, 3 });
	assert_int_equal(groups(&b, of), 2);
	path(&b, 2, 4, (int[]){ 0, 1, 2, 3 });
	assert_int_equal(groups(&b, of), 1);
	end(&b);
}

/* Interleaved, the last region of a path also talks to the first. */
static void by_the_way_back(void **state)
{
	struct bench b;
	int of[16];

	begin(&b);
	path(&b, 0, 3, (int[]){ 0, 1, 2 });
	path(&b, 1, 2, (int[]){ 0, 2 });
	assert_int_equal(groups(&b, of), 2);
	b.f.e.schedule = SCHED_INTERLEAVED_1F1B;
	b.f.e.interleave = 2;
	assert_int_equal(groups(&b, of), 1);
	path(&b, 2, 3, (int[]){ 3, 1, 0 });	/* 3-1, 1-0, 0-3 */
	assert_int_equal(groups(&b, of), 1);
	path(&b, 3, 2, (int[]){ 2, 3 });
	assert_int_equal(groups(&b, of), 2);
	path(&b, 4, 3, (int[]){ 3, 0, 2 });	/* 3-2 on its way back */
	assert_int_equal(groups(&b, of), 1);
	end(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(apart), cmocka_unit_test(through_a_third), cmocka_unit_test(by_the_way_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
