#include "workloads/nccl/env.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* P2P, SHM, NVLS, MNNVL and InfiniBand would pass the shaper by. RAS and plugins
 * would talk, or carry, beside it. */
static const char *const fixed[][2] = {
	{ "NCCL_NET", "Socket" },	{ "NCCL_NET_PLUGIN", "none" },	{ "NCCL_TUNER_PLUGIN", "none" },
	{ "NCCL_IB_DISABLE", "1" },	{ "NCCL_P2P_DISABLE", "1" },	{ "NCCL_SHM_DISABLE", "1" },
	{ "NCCL_NVLS_ENABLE", "0" },	{ "NCCL_MNNVL_ENABLE", "0" },	{ "NCCL_COLLNET_ENABLE", "0" },
	{ "NCCL_RAS_ENABLE", "0" },	{ "NCCL_DEBUG", "INFO" },	{ "NCCL_DEBUG_SUBSYS", "INIT,NET" },
	{ "NCCL_MULTI_RANK_GPU_ENABLE", "1" },
	/* Instead of the user's ~/.nccl.conf, whose settings nobody would know of. */
	{ "NCCL_CONF_FILE", "/dev/null" },
};

/* NCCL reads this one whatever the environment says, for what is not set there. */
#define SYSTEM_CONF "/etc/nccl.conf"

extern char **environ;

static void drop_all(void)
{
	for (char **v = environ; *v;) {
		char name[128];
		size_t n = strcspn(*v, "=");

		if (strncmp(*v, "NCCL_", 5) || n >= sizeof(name)) {
			v++;
			continue;
		}
		memcpy(name, *v, n);
		name[n] = '\0';
		bace_log(BACE_INFO, "nccl", "%s of the environment is dropped", *v);
		/* Moves the following ones down. */
		if (unsetenv(name))
			v++;
	}
}

static bool has_addr(const struct ifaddrs *i, int family, const void *want)
{
	const void *have;

	if (!i->ifa_addr || i->ifa_addr->sa_family != family)
		return false;
	have = family == AF_INET ? (const void *)&((const struct sockaddr_in *)i->ifa_addr)->sin_addr :
	       (const void *)&((const struct sockaddr_in6 *)i->ifa_addr)->sin6_addr;
	return !memcmp(have, want, family == AF_INET ? sizeof(struct in_addr) : sizeof(struct in6_addr));
}

static int interface_of(const char *addr, int *family, char name[IF_NAMESIZE], struct bace_err *e)
{
	struct in6_addr want;
	struct ifaddrs *all;
	bool found = false;

	*family = strchr(addr, ':') ? AF_INET6 : AF_INET;
	if (inet_pton(*family, addr, &want) != 1)
		return bace_fail(e, EINVAL, "nccl: address `%s': not IPv4 or IPv6", addr);
	if (getifaddrs(&all))
		return bace_fail_errno(e, errno, "nccl: list interfaces");
	for (struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
		found = has_addr(i, *family, &want);
		if (found)
			snprintf(name, IF_NAMESIZE, "%s", i->ifa_name);
	}
	freeifaddrs(all);
	return found ? 0 : bace_fail(e, EADDRNOTAVAIL, "nccl: no interface here has the address %s", addr);
}

static int set_number(const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", value);
	return setenv(name, text, 1);
}

int nccl_env_set(const struct worker_spec *spec, int log_fd, char ifname[IF_NAMESIZE], struct bace_err *e)
{
	char exact[IF_NAMESIZE + 1], path[40], id[2 * NAME_LEN];
	int family, bad = 0, rc = interface_of(spec->nccl.addr, &family, ifname, e);

	if (rc)
		return rc;
	drop_all();
	if (!access(SYSTEM_CONF, F_OK))
		bace_log(BACE_WARN, "nccl", SYSTEM_CONF " of this host changes what is measured, and is not recorded");
	/* The '=' asks for this interface, not for all whose names begin so. */
	snprintf(exact, sizeof(exact), "=%s", ifname);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", log_fd);
	/* Ranks that share a GPU must not look like one host's: NCCL refuses that. */
	snprintf(id, sizeof(id), "bace/%s/%d/%d", spec->host, spec->job, spec->stages[0].stage);
	for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
		bad |= setenv(fixed[i][0], fixed[i][1], 1);
	bad |= setenv("NCCL_SOCKET_IFNAME", exact, 1);
	bad |= setenv("NCCL_SOCKET_FAMILY", family == AF_INET ? "AF_INET" : "AF_INET6", 1);
	bad |= setenv("NCCL_HOSTID", id, 1);
	bad |= setenv("NCCL_DEBUG_FILE", path, 1);
	bad |= set_number("NCCL_SOCKET_NTHREADS", spec->nccl.threads);
	bad |= set_number("NCCL_NSOCKS_PERTHREAD", spec->nccl.sockets);
	if (spec->nccl.channels)
		bad |= set_number("NCCL_NCHANNELS_PER_NET_PEER", spec->nccl.channels);
	return bad ? bace_fail(e, ENOMEM, "nccl: set the environment: out of memory") : 0;
}
