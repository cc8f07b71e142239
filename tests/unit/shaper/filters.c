/*
 * The filters of a plan against an interpreter of u32 written from the
 * kernel's documentation: every address goes to the class of its prefix, or to
 * none, in few steps.
 */
#include "tests/unit/shaper/support.h"

#include <arpa/inet.h>
#include <linux/pkt_cls.h>
#include <stdlib.h>

#include "shaper/prefix.h"

struct machine {
	const struct if_state *s;
	uint16_t prio;
	const uint8_t *packet;
	int steps;
};

static uint32_t word(const struct machine *m, int off)
{
	uint32_t v;

	memcpy(&v, m->packet + off, sizeof(v));
	return v;
}

static bool matches(const struct machine *m, const struct u32_filter *f)
{
	for (uint32_t i = 0; i < f->n_keys; i++)
		if ((word(m, f->keys[i].off) ^ f->keys[i].val) & f->keys[i].mask)
			return false;
	return true;
}

/* One bucket: its nodes in order of their number; 0 when none ends in a class. */
static uint32_t run_bucket(struct machine *m, uint32_t bucket, int depth)
{
	assert_true(depth < TC_U32_MAXDEPTH);
	for (size_t i = 0; i < m->s->n; i++) {
		const struct tcobj *o = &m->s->v[i];
		const struct u32_filter *f = &o->u.u32;
		uint32_t hash, class;

		if (o->type != TCOBJ_FILTER || o->prio != m->prio || f->divisor || (o->handle & ~0xfffu) != bucket)
			continue;
		m->steps++;
		if (!matches(m, f))
			continue;
		if (!f->link)
			return f->classid;
		hash = ntohl(word(m, f->hash_off) & f->hash_mask) >> __builtin_ctz(ntohl(f->hash_mask));
		class = run_bucket(m, f->link | (hash & 255) << 12, depth + 1);
		if (class)
			return class;
	}
	return 0;
}

static uint32_t classify(const struct if_state *s, uint8_t family, const uint8_t *addr, bool by_source, int *steps)
{
	uint8_t packet[64] = { 0 };
	struct machine m = { .s = s, .prio = family == AF_INET ? 1 : 2, .packet = packet };
	size_t off = family == AF_INET ? (by_source ? 12 : 16) : (by_source ? 8 : 24);
	uint32_t class;

	memcpy(packet + off, addr, family == AF_INET ? 4 : 16);
	class = run_bucket(&m, TC_U32_ROOT, 0);
	if (steps && m.steps > *steps)
		*steps = m.steps;
	return class;
}

static uint32_t expected(const struct shape_spec *s, uint8_t family, const uint8_t *addr)
{
	for (int i = 0; i < s->n_links; i++)
		for (int j = 0; j < s->links[i].n_prefixes; j++)
			if (shape_prefix_covers(&s->links[i].prefixes[j], family, addr))
				return 0xbace0000u | (uint32_t)(s->links[i].region + SHAPE_MINOR_BASE);
	return 0;
}

static void unique_handles(const struct if_state *s)
{
	for (size_t i = 1; i < s->n; i++)
		for (size_t k = i > 300 ? i - 300 : 0; k < i; k++)
			assert_true(tcobj_key(&s->v[i]) != tcobj_key(&s->v[k]));
}

static void six_regions_stand_in_plain_lists(void **state)
{
	struct shape_link l[6];
	struct shape_spec s = test_spec(l, 6);
	struct shape_plan p;
	uint8_t a[16] = { 10, 18, 7, 7 }, other[16] = { 192, 0, 2, 1 };

	for (int i = 0; i < 6; i++) {
		l[i].n_prefixes = 2;
		l[i].prefixes[1] = (struct shape_prefix){ .family = AF_INET6, .len = 32, .addr = { 0xfd, 0, 0, (uint8_t)(16 + i) } };
	}
	assert_int_equal(plan_build(&s, &p, NULL), 0);
	for (size_t i = 0; i < p.egress.n; i++)
		assert_int_equal(p.egress.v[i].u.u32.divisor && p.egress.v[i].type == TCOBJ_FILTER, 0);
	assert_int_equal(classify(&p.egress, AF_INET, a, false, NULL), 0xbace0012);
	assert_int_equal(classify(&p.ingress, AF_INET, a, true, NULL), 0xbace0012);
	assert_int_equal(classify(&p.egress, AF_INET, other, false, NULL), 0);
	uint8_t v6[16] = { 0xfd, 0, 0, 21, 1, 2, 3 }, link_local[16] = { 0xfe, 0x80 };
	assert_int_equal(classify(&p.egress, AF_INET6, v6, false, NULL), 0xbace0015);
	assert_int_equal(classify(&p.ingress, AF_INET6, v6, true, NULL), 0xbace0015);
	/* Neighbour discovery stays free. */
	assert_int_equal(classify(&p.egress, AF_INET6, link_local, false, NULL), 0);
	plan_free(&p);
}

static void random_prefixes_hash_to_their_class(void **state)
{
	enum { N = 600 };
	struct shape_link *l = calloc(N, sizeof(*l));
	struct shape_spec s = test_spec(l, N);
	struct shape_plan p;
	struct bace_rng r;
	int steps = 0;

	bace_rng_init(&r, 7, 0);
	for (int i = 0; i < N; i++) {
		struct shape_prefix *x = &l[i].prefixes[0];
		bool v6 = i % 3 == 0;

		/* Disjoint by construction: the number stands in bits 8 to 18. */
		memset(x->addr, 0, 16);
		x->family = v6 ? AF_INET6 : AF_INET;
		x->addr[0] = v6 ? 0xfd : 10;
		x->addr[1] = (uint8_t)(i >> 2);
		x->addr[2] = (uint8_t)((i & 3) << 6);
		x->len = (uint8_t)(18 + bace_rng_below(&r, v6 ? 100 : 14));
		for (unsigned b = 18; b < x->len; b++)
			if (bace_rng_below(&r, 2))
				x->addr[b / 8] |= (uint8_t)(0x80 >> b % 8);
	}
	assert_int_equal(plan_build(&s, &p, NULL), 0);
	unique_handles(&p.egress);
	for (int i = 0; i < 4000; i++) {
		const struct shape_prefix *x = &l[bace_rng_below(&r, N)].prefixes[0];
		uint8_t addr[16];

		memcpy(addr, x->addr, 16);
		for (unsigned b = x->len; b < (x->family == AF_INET ? 32 : 128); b++)
			if (bace_rng_below(&r, 2))
				addr[b / 8] |= (uint8_t)(0x80 >> b % 8);
		/* One time in two, flip a bit anywhere. */
		if (i % 2) {
			unsigned b = (unsigned)bace_rng_below(&r, x->family == AF_INET ? 32 : 128);

			addr[b / 8] ^= (uint8_t)(0x80 >> b % 8);
		}
		assert_int_equal(classify(&p.egress, x->family, addr, false, &steps), expected(&s, x->family, addr));
		assert_int_equal(classify(&p.ingress, x->family, addr, true, &steps), expected(&s, x->family, addr));
	}
	assert_true(steps <= 40);
	plan_free(&p);
	free(l);
}

/* 10,000 hosts: a look-up costs a few comparisons, not thousands. */
static void ten_thousand_prefixes_take_few_steps(void **state)
{
	enum { N = 10000 };
	struct shape_link *l = calloc(N, sizeof(*l));
	struct shape_spec s = test_spec(l, N);
	struct shape_plan p;
	struct bace_rng r;
	int steps = 0;

	for (int i = 0; i < N; i++) {
		uint8_t *a = l[i].prefixes[0].addr;

		l[i].prefixes[0].len = 32;
		a[1] = 99;
		a[2] = (uint8_t)(i / 250);
		a[3] = (uint8_t)(i % 250 + 1);
	}
	s.delay = DELAY_NFQUEUE;
	assert_int_equal(plan_build(&s, &p, NULL), 0);
	bace_rng_init(&r, 3, 0);
	for (int i = 0; i < 300; i++) {
		int k = (int)bace_rng_below(&r, N);

		assert_int_equal(classify(&p.egress, AF_INET, l[k].prefixes[0].addr, false, &steps),
				 0xbace0000u | (uint32_t)(k + 0x10));
	}
	assert_true(steps <= 12);
	plan_free(&p);
	free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(six_regions_stand_in_plain_lists),
		cmocka_unit_test(random_prefixes_hash_to_their_class),
		cmocka_unit_test(ten_thousand_prefixes_take_few_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
