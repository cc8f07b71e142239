#include "tests/unit/shaper/support.h"

#include <errno.h>
#include <stdlib.h>

#include "shaper/prefix.h"

static void parse_and_format_agree(void **state)
{
	static const char *const good[] = { "10.16.0.0/16", "0.0.0.0/0", "192.0.2.1/32", "fd00:16::/32",
					    "::/0", "2001:db8::1/128" };
	struct shape_prefix p;
	char buf[64];

	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		assert_int_equal(shape_prefix_parse(good[i], &p, NULL), 0);
		assert_string_equal(shape_prefix_format(&p, buf), good[i]);
	}
	assert_int_equal(shape_prefix_parse("10.1.2.3", &p, NULL), 0);
	assert_int_equal(p.len, 32);
}

static void parse_refuses(void **state)
{
	static const char *const bad[] = { "", "/", "10.16.0.0/", "10.16.0.0/33", "10.16.0.0/-1", "10.16.0.0/1x",
					   "10.16.0.1/16", "fd00::1/64", "fd00::/129", "ten/8", "10.16/16",
					   "10.16.0.0/ 16", "1.2.3.4.5/8" };
	struct shape_prefix p;
	struct bace_err e;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(shape_prefix_parse(bad[i], &p, &e), -EINVAL);
}

static void overlaps_between_links_are_refused_and_named(void **state)
{
	struct shape_link l[2];
	struct shape_spec s = test_spec(l, 2);
	struct prefix_owner *v = NULL;
	struct bace_err e;
	size_t n;

	shape_prefix_parse("10.16.0.0/12", &l[0].prefixes[0], NULL);
	shape_prefix_parse("10.17.4.0/24", &l[1].prefixes[0], NULL);
	assert_int_equal(prefix_owners(&s, &v, &n, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "10.16.0.0/12"));
	assert_non_null(strstr(e.msg, "10.17.4.0/24"));
	assert_non_null(strstr(e.msg, "region-1"));
	/* The same prefix twice, too. */
	l[0].prefixes[0] = l[1].prefixes[0];
	assert_int_equal(prefix_owners(&s, &v, &n, &e), -EINVAL);
	/* Within one link it is only redundant. */
	l[0].n_prefixes = 2;
	shape_prefix_parse("10.40.0.0/16", &l[0].prefixes[0], NULL);
	shape_prefix_parse("10.40.7.0/24", &l[0].prefixes[1], NULL);
	assert_int_equal(prefix_owners(&s, &v, &n, &e), 0);
	assert_int_equal(n, 2);
	free(v);
}

static void lookup_agrees_with_a_linear_search(void **state)
{
	enum { N = 400 };
	struct shape_link *l = calloc(N, sizeof(*l));
	struct shape_spec s = test_spec(l, N);
	struct prefix_owner *v = NULL;
	struct bace_rng r;
	size_t n;

	bace_rng_init(&r, 1, 0);
	for (int i = 0; i < N; i++) {
		uint8_t *a = l[i].prefixes[0].addr;

		memset(a, 0, 16);
		l[i].prefixes[0].family = i % 2 ? AF_INET6 : AF_INET;
		a[0] = i % 2 ? 0xfd : 10;
		a[1] = (uint8_t)(i / 2);
		l[i].prefixes[0].len = (uint8_t)(16 + bace_rng_below(&r, 3) * 4);
		if (l[i].prefixes[0].len > 16)
			a[2] = (uint8_t)(bace_rng_below(&r, 16) << 4);
	}
	assert_int_equal(prefix_owners(&s, &v, &n, NULL), 0);
	assert_int_equal(n, N);
	for (int i = 0; i < 20000; i++) {
		uint8_t family = bace_rng_below(&r, 2) ? AF_INET6 : AF_INET, addr[16] = { 0 };
		int expect = -1;

		addr[0] = family == AF_INET6 ? 0xfd : 10;
		addr[1] = (uint8_t)bace_rng_below(&r, 210);
		addr[2] = (uint8_t)bace_rng_below(&r, 256);
		for (int k = 0; k < N && expect < 0; k++)
			if (shape_prefix_covers(&l[k].prefixes[0], family, addr))
				expect = k;
		assert_int_equal(prefix_lookup(v, n, family, addr), expect);
	}
	free(v);
	free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parse_and_format_agree),
		cmocka_unit_test(parse_refuses),
		cmocka_unit_test(overlaps_between_links_are_refused_and_named),
		cmocka_unit_test(lookup_agrees_with_a_linear_search),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
