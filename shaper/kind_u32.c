#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/pkt_cls.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "shaper/netlink.h"
#include "shaper/tcobj.h"

static void encode(const struct tcobj *o, struct nlmsghdr *nlh)
{
	const struct u32_filter *f = &o->u.u32;
	struct nlattr *nest = mnl_attr_nest_start(nlh, TCA_OPTIONS);

	if (f->divisor) {
		mnl_attr_put_u32(nlh, TCA_U32_DIVISOR, f->divisor);
	} else {
		/* The struct ends in an array of keys. */
		_Alignas(struct tc_u32_key) char bytes[sizeof(struct tc_u32_sel) +
						       U32_KEYS_MAX * sizeof(struct tc_u32_key)] = { 0 };
		const struct tc_u32_sel sel = {
			.flags = f->link ? 0 : TC_U32_TERMINAL, .nkeys = (uint8_t)f->n_keys,
			.hmask = f->hash_mask, .hoff = (int16_t)f->hash_off };

		memcpy(bytes, &sel, sizeof(sel));
		for (uint32_t i = 0; i < f->n_keys; i++) {
			const struct tc_u32_key k = {
				.mask = f->keys[i].mask, .val = f->keys[i].val, .off = f->keys[i].off };

			memcpy(bytes + sizeof(sel) + i * sizeof(k), &k, sizeof(k));
		}
		if (TC_U32_HTID(o->handle) != TC_U32_ROOT || TC_U32_HASH(o->handle))
			mnl_attr_put_u32(nlh, TCA_U32_HASH, o->handle & ~0xfffu);
		if (f->link)
			mnl_attr_put_u32(nlh, TCA_U32_LINK, f->link);
		else
			mnl_attr_put_u32(nlh, TCA_U32_CLASSID, f->classid);
		mnl_attr_put(nlh, TCA_U32_SEL, sizeof(sel) + f->n_keys * sizeof(struct tc_u32_key), bytes);
	}
	mnl_attr_nest_end(nlh, nest);
}

static int decode_selector(const struct nlattr *a, struct u32_filter *f)
{
	const struct tc_u32_sel *sel = attr_struct(a, sizeof(*sel));

	if (!sel || sel->nkeys > U32_KEYS_MAX ||
	    mnl_attr_get_payload_len(a) < sizeof(*sel) + sel->nkeys * sizeof(struct tc_u32_key))
		return -EINVAL;
	/* Anything that moves the offset is not of our making. */
	if (sel->flags & ~TC_U32_TERMINAL || sel->off || sel->offmask || sel->offshift)
		return -EINVAL;
	f->n_keys = sel->nkeys;
	f->hash_mask = sel->hmask;
	f->hash_off = sel->hoff;
	for (uint32_t i = 0; i < f->n_keys; i++) {
		struct tc_u32_key k;

		memcpy(&k, (const char *)sel + sizeof(*sel) + i * sizeof(k), sizeof(k));
		if (k.offmask)
			return -EINVAL;
		f->keys[i] = (struct u32_key){ .val = k.val, .mask = k.mask, .off = k.off };
	}
	return 0;
}

static int decode(const struct nlattr *options, struct tcobj *o)
{
	const struct nlattr *tb[TCA_U32_MAX + 1];
	struct u32_filter *f = &o->u.u32;
	int rc = attrs_parse(options, tb, TCA_U32_MAX);

	if (rc)
		return rc;
	if (tb[TCA_U32_POLICE] || tb[TCA_U32_ACT] || tb[TCA_U32_INDEV] || tb[TCA_U32_MARK])
		return -EINVAL;
	if (tb[TCA_U32_DIVISOR])
		return attr_u32(tb[TCA_U32_DIVISOR], &f->divisor);
	if ((tb[TCA_U32_CLASSID] && attr_u32(tb[TCA_U32_CLASSID], &f->classid)) ||
	    (tb[TCA_U32_LINK] && attr_u32(tb[TCA_U32_LINK], &f->link)))
		return -EINVAL;
	return decode_selector(tb[TCA_U32_SEL], f);
}

static int print(const struct tcobj *o, struct bace_buf *b)
{
	const struct u32_filter *f = &o->u.u32;
	int rc = 0;

	if (f->divisor)
		return bace_buf_addf(b, " divisor %u", f->divisor);
	if (TC_U32_HTID(o->handle) != TC_U32_ROOT)
		rc = bace_buf_addf(b, " ht %x:%x:", TC_U32_USERHTID(o->handle), TC_U32_HASH(o->handle));
	for (uint32_t i = 0; i < f->n_keys && !rc; i++)
		rc = bace_buf_addf(b, " match u32 0x%08x 0x%08x at %d", ntohl(f->keys[i].val),
				   ntohl(f->keys[i].mask), f->keys[i].off);
	if (rc)
		return rc;
	if (f->link)
		return bace_buf_addf(b, " link %x: hashkey mask 0x%08x at %d", TC_U32_USERHTID(f->link),
				     ntohl(f->hash_mask), f->hash_off);
	return bace_buf_addf(b, " flowid %x:%x", f->classid >> 16, f->classid & 0xffff);
}

const struct tckind kind_u32 = {
	.name = "u32", .type = TCOBJ_FILTER, .can_change = false,
	.encode = encode, .decode = decode, .print = print,
};
