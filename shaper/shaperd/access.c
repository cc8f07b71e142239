#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shaper/prefix.h"
#include "shaper/shaperd/shaperd.h"

#define DEFAULT_GROUP "bace"
#define NO_GROUP ((gid_t)-1)

int access_group(const struct shaperd_config *c, gid_t *gid, struct bace_err *e)
{
	const struct group *g;
	char *end;

	*gid = NO_GROUP;
	if (c->group && c->group[0] >= '0' && c->group[0] <= '9') {
		*gid = (gid_t)strtoul(c->group, &end, 10);
		return *end ? bace_fail(e, EINVAL, "--group %s: no such group", c->group) : 0;
	}
	g = getgrnam(c->group ? c->group : DEFAULT_GROUP);
	if (!g)
		return c->group ? bace_fail(e, EINVAL, "--group %s: no such group", c->group) : 0;
	*gid = g->gr_gid;
	return 0;
}

static bool in_supplementary_groups(int fd, gid_t gid)
{
	CLEANUP_FREE gid_t *groups = NULL;
	socklen_t len = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &len) && errno != ERANGE)
		return false;
	groups = malloc(len + sizeof(*groups));
	if (!groups || getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len))
		return false;
	for (size_t i = 0; i < len / sizeof(*groups); i++)
		if (groups[i] == gid)
			return true;
	return false;
}

int access_check_peer(int fd, gid_t gid, struct bace_err *e)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len))
		return bace_fail_errno(e, errno, "who is the client");
	if (!peer.uid || peer.uid == geteuid())
		return 0;
	if (gid != NO_GROUP && (peer.gid == gid || in_supplementary_groups(fd, gid)))
		return 0;
	return bace_fail(e, EACCES, "user %u may not shape: only root, this daemon's user and members of its group may", peer.uid);
}

/* ---- what a client may ask for ---- */
static bool terminated(const char *s, size_t cap)
{
	return memchr(s, '\0', cap);
}

static bool is_bool(const bool *b)
{
	return *(const unsigned char *)b <= 1;
}

static bool well_formed_link(const struct shape_link *l)
{
	return terminated(l->name, sizeof(l->name)) && l->n_prefixes >= 1 &&
	       l->n_prefixes <= (int)ARRAY_LEN(l->prefixes) && (unsigned)l->jitter_dist <= JITTER_TABLE &&
	       (unsigned)l->impair.loss_model <= LOSS_4STATE && is_bool(&l->impair.ecn);
}

/* Names go into iptables' input: nothing there that the kernel would not call an
 * interface. */
static bool well_formed_ifname(const char name[IFNAMSIZ])
{
	return terminated(name, IFNAMSIZ) && (!name[0] || shape_is_ifname(name));
}

static bool well_formed(const struct shape_spec *s)
{
	if (!well_formed_ifname(s->egress) || !well_formed_ifname(s->ingress) ||
	    (unsigned)s->delay > DELAY_NFQUEUE || !is_bool(&s->fail_closed) ||
	    !is_bool(&s->allow_control_interface) || !is_bool(&s->replace_foreign))
		return false;
	for (int i = 0; i < s->n_tables; i++)
		if (!terminated(s->tables[i].name, sizeof(s->tables[i].name)))
			return false;
	for (int i = 0; i < s->n_links; i++)
		if (!well_formed_link(&s->links[i]))
			return false;
	return true;
}

static bool iface_allowed(const struct shaperd_config *c, const char *name)
{
	if (!c->n_ifaces || !name[0])
		return true;
	for (int i = 0; i < c->n_ifaces; i++)
		if (!strcmp(c->ifaces[i], name))
			return true;
	return false;
}

static bool prefix_allowed(const struct shaperd_config *c, const struct shape_prefix *p)
{
	if (!c->n_prefixes)
		return true;
	for (int i = 0; i < c->n_prefixes; i++)
		if (c->prefixes[i].len <= p->len && shape_prefix_covers(&c->prefixes[i], p->family, p->addr))
			return true;
	return false;
}

int access_check_spec(const struct shaperd_config *c, const struct shape_spec *s, struct bace_err *e)
{
	char text[64];

	if (!well_formed(s))
		return bace_fail(e, EINVAL, "the plan is malformed");
	if (!iface_allowed(c, s->egress) || !iface_allowed(c, s->ingress))
		return bace_fail(e, EACCES, "interface `%s' is not one that this daemon may shape (--iface)",
				 iface_allowed(c, s->egress) ? s->ingress : s->egress);
	for (int i = 0; i < s->n_links; i++)
		for (int j = 0; j < s->links[i].n_prefixes; j++)
			if (!prefix_allowed(c, &s->links[i].prefixes[j]))
				return bace_fail(e, EACCES, "prefix %s is not within what this daemon may shape (--prefix)",
						 shape_prefix_format(&s->links[i].prefixes[j], text));
	return 0;
}
