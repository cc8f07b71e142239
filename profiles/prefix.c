#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "profiles/profiles.h"

static unsigned family_bits(uint8_t family)
{
	return family == AF_INET ? 32 : 128;
}

int shape_prefix_parse(const char *s, struct shape_prefix *p, struct bace_err *e)
{
	char addr[64];
	const char *slash = strchr(s, '/');
	size_t n = slash ? (size_t)(slash - s) : strlen(s);
	char *end;

	*p = (struct shape_prefix){ 0 };
	if (n >= sizeof(addr))
		return bace_fail(e, EINVAL, "`%s' is not an address prefix such as 10.16.0.0/16 or fd00:16::/32", s);
	memcpy(addr, s, n);
	addr[n] = '\0';
	if (inet_pton(AF_INET, addr, p->addr) == 1)
		p->family = AF_INET;
	else if (inet_pton(AF_INET6, addr, p->addr) == 1)
		p->family = AF_INET6;
	else
		return bace_fail(e, EINVAL, "`%s' is not an address prefix such as 10.16.0.0/16 or fd00:16::/32", s);
	p->len = (uint8_t)family_bits(p->family);
	if (slash) {
		long len = strtol(slash + 1, &end, 10);

		if (end == slash + 1 || *end || slash[1] < '0' || slash[1] > '9' || len > p->len)
			return bace_fail(e, EINVAL, "`%s': a prefix length must be 0 to %u", s, p->len);
		p->len = (uint8_t)len;
	}
	return shape_prefix_check(p, e);
}

const char *shape_prefix_format(const struct shape_prefix *p, char buf[64])
{
	char addr[INET6_ADDRSTRLEN];

	if (!inet_ntop(p->family, p->addr, addr, sizeof(addr)))
		snprintf(addr, sizeof(addr), "family-%u", p->family);
	snprintf(buf, 64, "%s/%u", addr, p->len);
	return buf;
}

bool shape_prefix_bit(const struct shape_prefix *p, unsigned bit)
{
	return p->addr[bit / 8] >> (7 - bit % 8) & 1;
}

int shape_prefix_check(const struct shape_prefix *p, struct bace_err *e)
{
	char buf[64];

	if (p->family != AF_INET && p->family != AF_INET6)
		return bace_fail(e, EINVAL, "a prefix must be IPv4 or IPv6, not address family %u", p->family);
	if (p->len > family_bits(p->family))
		return bace_fail(e, EINVAL, "prefix %s: the length must be 0 to %u",
				 shape_prefix_format(p, buf), family_bits(p->family));
	for (unsigned bit = p->len; bit < family_bits(p->family); bit++)
		if (shape_prefix_bit(p, bit))
			return bace_fail(e, EINVAL, "prefix %s has bits beyond its length",
					 shape_prefix_format(p, buf));
	return 0;
}

int shape_prefix_cmp(const struct shape_prefix *a, const struct shape_prefix *b)
{
	int c;

	if (a->family != b->family)
		return a->family < b->family ? -1 : 1;
	c = memcmp(a->addr, b->addr, sizeof(a->addr));
	return c ? c : (int)a->len - (int)b->len;
}

bool shape_prefix_covers(const struct shape_prefix *p, uint8_t family, const uint8_t *addr)
{
	unsigned whole = p->len / 8, rest = p->len % 8;

	if (p->family != family || memcmp(p->addr, addr, whole))
		return false;
	return !rest || (uint8_t)(p->addr[whole] ^ addr[whole]) >> (8 - rest) == 0;
}

bool shape_is_ifname(const char *s)
{
	return *s && strlen(s) < IFNAMSIZ && strcmp(s, ".") && strcmp(s, "..") && !s[strcspn(s, "/: \t\n\v\f\r")];
}
