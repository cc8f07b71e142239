/*
 * Prefix -> class as u32 filters. Up to a handful stand in one list, which a
 * person can read in `tc filter show`; more are hashed by the first eight bits
 * in which they differ, table by table, so that a look-up costs a few steps
 * however many prefixes there are.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <stdlib.h>
#include <string.h>

#include "shaper/plan.h"
#include "shaper/prefix.h"

#define ROOT ((uint32_t)SHAPE_HANDLE_MAJOR << 16)
#define LIST_MAX 8
#define DEPTH_MAX 6		/* the kernel follows 8 links */
#define TABLES_MAX 0x7ff
#define NODES_MAX 0xfff
#define BUCKETS 256
#define BUCKET_BITS 8

struct builder {
	const struct shape_spec *spec;
	struct if_state *to;
	uint16_t prio, protocol;
	int32_t addr_off;	/* of the address, from the network header */
	uint32_t *next_table;	/* table numbers are shared by all priorities */
};

static struct tcobj filter(const struct builder *b, uint32_t handle)
{
	struct tcobj o;

	memset(&o, 0, sizeof(o));
	o.type = TCOBJ_FILTER;
	o.parent = ROOT;
	o.handle = handle;
	o.prio = b->prio;
	o.protocol = b->protocol;
	o.kind = &kind_u32;
	snprintf(o.kind_name, sizeof(o.kind_name), "u32");
	return o;
}

/* The first `len` bits of the address must match. */
static void match_bits(const struct builder *b, const struct shape_prefix *p, unsigned len,
		       struct u32_filter *f)
{
	for (unsigned word = 0; word * 32 < len || !word; word++) {
		unsigned bits = len - word * 32 > 32 ? 32 : len - word * 32;
		uint32_t mask = htonl(bits ? 0xffffffffu << (32 - bits) : 0);
		uint32_t val;

		memcpy(&val, p->addr + 4 * word, sizeof(val));
		f->keys[f->n_keys++] = (struct u32_key){
			.val = val & mask, .mask = mask, .off = b->addr_off + 4 * (int32_t)word };
	}
}

/* Leading bits that all of the sorted, disjoint prefixes v[0..n) share. */
static unsigned common_bits(const struct prefix_owner *v, size_t n)
{
	const struct shape_prefix *a = &v[0].prefix, *z = &v[n - 1].prefix;
	unsigned bit = 0;

	while (bit < a->len && bit < z->len && shape_prefix_bit(a, bit) == shape_prefix_bit(z, bit))
		bit++;
	return bit;
}

static unsigned bits_at(const struct shape_prefix *p, unsigned from)
{
	unsigned v = 0;

	for (unsigned i = 0; i < BUCKET_BITS; i++)
		v = v << 1 | shape_prefix_bit(p, from + i);
	return v;
}

static unsigned last_bucket(const struct shape_prefix *p, unsigned from)
{
	unsigned fixed = p->len > from ? p->len - from : 0;
	unsigned free_bits = fixed >= BUCKET_BITS ? 0 : BUCKET_BITS - fixed;

	return bits_at(p, from) | ((1u << free_bits) - 1);
}

static int add_list(const struct builder *b, const struct prefix_owner *v, size_t n, uint32_t bucket,
		    struct bace_err *e)
{
	if (n > NODES_MAX)
		return bace_fail(e, EINVAL, "%zu prefixes fall into one bucket: at most %d", n, NODES_MAX);
	for (size_t i = 0; i < n; i++) {
		const struct shape_link *l = &b->spec->links[v[i].link];
		struct tcobj o = filter(b, bucket | (uint32_t)(i + 1));

		o.u.u32.classid = ROOT | (SHAPE_MINOR_BASE + l->region);
		match_bits(b, &v[i].prefix, v[i].prefix.len, &o.u.u32);
		if (if_state_add(b->to, &o))
			return bace_fail(e, ENOMEM, "out of memory");
	}
	return 0;
}

static int add_level(const struct builder *b, const struct prefix_owner *v, size_t n, uint32_t bucket,
		     int depth, struct bace_err *e);

static int add_table(const struct builder *b, const struct prefix_owner *v, size_t n, uint32_t bucket,
		     int depth, struct bace_err *e)
{
	unsigned common = common_bits(v, n);
	/* The eight bits must lie within one 32-bit word. */
	unsigned from = common % 32 > 24 ? common - common % 32 + 24 : common;
	uint32_t table = (*b->next_table)++ << 20;
	struct tcobj t = filter(b, table), link = filter(b, bucket | 1);

	t.u.u32.divisor = BUCKETS;
	link.u.u32.link = table;
	link.u.u32.hash_mask = htonl(0xffu << (32 - BUCKET_BITS - from % 32));
	link.u.u32.hash_off = b->addr_off + 4 * (int32_t)(from / 32);
	match_bits(b, &v[0].prefix, common, &link.u.u32);
	if (if_state_add(b->to, &t) || if_state_add(b->to, &link))
		return bace_fail(e, ENOMEM, "out of memory");
	for (size_t i = 0; i < n;) {
		unsigned first = bits_at(&v[i].prefix, from), last = last_bucket(&v[i].prefix, from);
		size_t end = i + 1;
		int rc = 0;

		while (first == last && end < n && bits_at(&v[end].prefix, from) == first)
			end++;
		for (unsigned k = first; k <= last && !rc; k++)
			rc = add_level(b, v + i, end - i, table | k << 12, depth + 1, e);
		if (rc)
			return rc;
		i = end;
	}
	return 0;
}

static int add_level(const struct builder *b, const struct prefix_owner *v, size_t n, uint32_t bucket,
		     int depth, struct bace_err *e)
{
	if (n <= LIST_MAX || depth >= DEPTH_MAX || *b->next_table > TABLES_MAX)
		return add_list(b, v, n, bucket, e);
	return add_table(b, v, n, bucket, depth, e);
}

/* Prefixes of links that have no class on this side are not classified. */
static size_t keep_relevant(const struct shape_spec *s, enum plan_side side, struct prefix_owner *v, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		const struct shape_link *l = &s->links[v[i].link];

		if (side == PLAN_BY_DESTINATION ? l->rate_bps > 0 : plan_link_is_delayed(l))
			v[kept++] = v[i];
	}
	return kept;
}

int plan_add_filters(const struct shape_spec *s, enum plan_side side, struct if_state *to,
		     struct bace_err *e)
{
	CLEANUP_FREE struct prefix_owner *v = NULL;
	uint32_t next_table = 1;
	size_t n = 0, n4 = 0;
	int rc = prefix_owners(s, &v, &n, e);

	if (rc)
		return rc;
	n = keep_relevant(s, side, v, n);
	while (n4 < n && v[n4].prefix.family == AF_INET)
		n4++;
	/* u32 keeps one root table per priority, so each family has its own. */
	const struct builder v4 = { .spec = s, .to = to, .prio = 1, .protocol = ETH_P_IP,
				    .addr_off = side == PLAN_BY_SOURCE ? 12 : 16, .next_table = &next_table };
	const struct builder v6 = { .spec = s, .to = to, .prio = 2, .protocol = ETH_P_IPV6,
				    .addr_off = side == PLAN_BY_SOURCE ? 8 : 24, .next_table = &next_table };

	if (n4)
		rc = add_level(&v4, v, n4, TC_U32_ROOT, 0, e);
	if (!rc && n > n4)
		rc = add_level(&v6, v + n4, n - n4, TC_U32_ROOT, 0, e);
	return rc;
}
