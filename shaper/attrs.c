#include <errno.h>
#include <string.h>

#include "shaper/netlink.h"

static int parse_range(const char *p, size_t n, const struct nlattr **tb, uint16_t max)
{
	memset(tb, 0, sizeof(*tb) * (max + 1u));
	while (n >= sizeof(struct nlattr)) {
		const struct nlattr *a = (const void *)p;
		size_t len = a->nla_len;

		if (len < sizeof(*a) || len > n)
			return -EBADMSG;
		if (mnl_attr_get_type(a) <= max)
			tb[mnl_attr_get_type(a)] = a;
		if (MNL_ALIGN(len) >= n)
			break;
		p += MNL_ALIGN(len);
		n -= MNL_ALIGN(len);
	}
	return 0;
}

int attrs_parse(const struct nlattr *nest, const struct nlattr **tb, uint16_t max)
{
	return attrs_parse_at(nest, 0, tb, max);
}

int attrs_parse_at(const struct nlattr *nest, size_t skip, const struct nlattr **tb, uint16_t max)
{
	size_t n = nest ? mnl_attr_get_payload_len(nest) : 0;

	if (!nest)
		return -EINVAL;
	if (skip >= n)
		return parse_range(NULL, 0, tb, max);
	return parse_range((const char *)mnl_attr_get_payload(nest) + skip, n - skip, tb, max);
}

int attrs_parse_msg(const struct nlmsghdr *nlh, size_t skip, const struct nlattr **tb, uint16_t max)
{
	size_t n = mnl_nlmsg_get_payload_len(nlh);

	skip = MNL_ALIGN(skip);
	if (skip >= n)
		return parse_range(NULL, 0, tb, max);
	return parse_range((const char *)mnl_nlmsg_get_payload(nlh) + skip, n - skip, tb, max);
}

const void *attr_struct(const struct nlattr *a, size_t size)
{
	return a && mnl_attr_get_payload_len(a) >= size ? mnl_attr_get_payload(a) : NULL;
}

int attr_u32(const struct nlattr *a, uint32_t *v)
{
	if (!attr_struct(a, sizeof(*v)))
		return -EBADMSG;
	memcpy(v, mnl_attr_get_payload(a), sizeof(*v));
	return 0;
}

int attr_u64(const struct nlattr *a, uint64_t *v)
{
	if (!attr_struct(a, sizeof(*v)))
		return -EBADMSG;
	memcpy(v, mnl_attr_get_payload(a), sizeof(*v));
	return 0;
}

int attr_str(const struct nlattr *a, char *to, size_t cap)
{
	size_t n = a ? mnl_attr_get_payload_len(a) : 0;
	const char *p = a ? mnl_attr_get_payload(a) : NULL;
	size_t len = p ? strnlen(p, n) : 0;

	if (!p || len >= cap)
		return -EBADMSG;
	memcpy(to, p, len);
	to[len] = '\0';
	return 0;
}
