#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <stdlib.h>
#include <string.h>

#include "shaper/shaper.h"
#include "shaper/tcobj.h"

static const struct tckind *const kinds[] = {
	&kind_htb_root, &kind_htb_class, &kind_bfifo, &kind_pfifo, &kind_netem, &kind_u32,
};

const struct tckind *tckind_find(enum tcobj_type type, const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (kinds[i]->type == type && !strcmp(kinds[i]->name, name))
			return kinds[i];
	return NULL;
}

uint64_t tcobj_key(const struct tcobj *o)
{
	return (uint64_t)o->type << 48 | (uint64_t)o->prio << 32 | o->handle;
}

_Static_assert(offsetof(struct netem, seed) + sizeof(uint64_t) == sizeof(struct netem), "the seed comes last");

/* A kernel that knows seeds shows one of its own where none was asked for. */
static size_t compared_bytes(const struct tcobj *want)
{
	return want->kind == &kind_netem && !want->u.netem.seed ? offsetof(struct netem, seed) : sizeof(want->u);
}

bool tcobj_equal(const struct tcobj *want, const struct tcobj *have)
{
	return tcobj_key(want) == tcobj_key(have) && want->parent == have->parent && want->protocol == have->protocol &&
	       want->kind && want->kind == have->kind && !memcmp(&want->u, &have->u, compared_bytes(want));
}

static const char *protocol_name(uint16_t protocol, char buf[16])
{
	if (protocol == ETH_P_IP)
		return "ip";
	if (protocol == ETH_P_IPV6)
		return "ipv6";
	if (protocol == ETH_P_ALL)
		return "all";
	snprintf(buf, 16, "0x%04x", protocol);
	return buf;
}

static int print_parent(uint32_t parent, struct bace_buf *b)
{
	if (parent == TC_H_ROOT)
		return bace_buf_addf(b, " root");
	if (parent == TC_H_INGRESS)
		return bace_buf_addf(b, " ingress");
	return TC_H_MIN(parent) ? bace_buf_addf(b, " parent %x:%x", TC_H_MAJ(parent) >> 16, TC_H_MIN(parent))
				: bace_buf_addf(b, " parent %x:", TC_H_MAJ(parent) >> 16);
}

int tcobj_print(const struct tcobj *o, const char *verb, const char *ifname, struct bace_buf *b)
{
	static const char *const nouns[] = { "qdisc", "class", "filter" };
	char buf[16];
	int rc = bace_buf_addf(b, "%s %s dev %s", nouns[o->type], verb, ifname);

	if (!rc)
		rc = print_parent(o->parent, b);
	if (rc)
		return rc;
	switch (o->type) {
	case TCOBJ_QDISC:
		rc = bace_buf_addf(b, " handle %x: %s", TC_H_MAJ(o->handle) >> 16, o->kind_name);
		break;
	case TCOBJ_CLASS:
		rc = bace_buf_addf(b, " classid %x:%x %s", TC_H_MAJ(o->handle) >> 16,
				   TC_H_MIN(o->handle), o->kind_name);
		break;
	case TCOBJ_FILTER:
		rc = bace_buf_addf(b, " protocol %s prio %u", protocol_name(o->protocol, buf), o->prio);
		if (!rc && o->kind == &kind_u32 && o->u.u32.divisor)
			rc = bace_buf_addf(b, " handle %x:", TC_U32_USERHTID(o->handle));
		if (!rc)
			rc = bace_buf_addf(b, " %s", o->kind_name);
		break;
	}
	return rc || !o->kind ? rc : o->kind->print(o, b);
}

void if_state_free(struct if_state *s)
{
	free(s->v);
	s->v = NULL;
	s->n = s->cap = 0;
}

int if_state_add(struct if_state *s, const struct tcobj *o)
{
	return BACE_PUSH(s->v, s->n, s->cap, *o);
}

const struct tcobj *if_state_root(const struct if_state *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].type == TCOBJ_QDISC && s->v[i].parent == TC_H_ROOT)
			return &s->v[i];
	return NULL;
}

bool if_state_is_ours(const struct if_state *s)
{
	const struct tcobj *root = if_state_root(s);

	return root && root->handle == (uint32_t)SHAPE_HANDLE_MAJOR << 16 && root->kind == &kind_htb_root;
}
