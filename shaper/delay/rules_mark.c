/* The size of the mangle table, which every change of it by anybody changes; read
 * without starting a process. */
#include <net/if.h>
#include <netinet/in.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
/* After the C library's, which they yield to. */
#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>

#include "shaper/delay/rules.h"

static int read4(int fd, struct rules_mark *m)
{
	struct ipt_getinfo info = { .name = "mangle" };
	socklen_t len = sizeof(info);

	if (getsockopt(fd, IPPROTO_IP, IPT_SO_GET_INFO, &info, &len))
		return -errno;
	*m = (struct rules_mark){ .entries = info.num_entries, .bytes = info.size };
	return 0;
}

static int read6(int fd, struct rules_mark *m)
{
	struct ip6t_getinfo info = { .name = "mangle" };
	socklen_t len = sizeof(info);

	if (getsockopt(fd, IPPROTO_IPV6, IP6T_SO_GET_INFO, &info, &len))
		return -errno;
	*m = (struct rules_mark){ .entries = info.num_entries, .bytes = info.size };
	return 0;
}

int rules_mark_read(uint8_t family, struct rules_mark *m)
{
	CLEANUP_CLOSE int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	*m = (struct rules_mark){ 0 };
	if (fd < 0)
		return -errno;
	return family == AF_INET ? read4(fd, m) : read6(fd, m);
}
