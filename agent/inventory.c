#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <event2/event.h>
#include <hwloc.h>
#include <libmnl/libmnl.h>
#include <linux/ethtool.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <openssl/crypto.h>

#include "agent/monitor/monitor.h"
#include "config.h"

/* The hello is one frame of WIRE_FIRST_FRAME bytes, however much a host has. */
#define INTERFACES_MAX 256
#define INTERFACES_BYTES (WIRE_FIRST_FRAME / 2)
#define RDMA_MAX 64
#define GPUS_MAX 32

/* Settings that change what a transfer over a long path takes. */
static const char *const sysctls[] = {
	"net/ipv4/tcp_congestion_control", "net/ipv4/tcp_available_congestion_control",
	"net/ipv4/tcp_slow_start_after_idle", "net/ipv4/tcp_no_metrics_save", "net/ipv4/tcp_rmem",
	"net/ipv4/tcp_wmem", "net/ipv4/tcp_window_scaling", "net/ipv4/tcp_timestamps",
	"net/ipv4/tcp_sack", "net/ipv4/tcp_min_tso_segs", "net/ipv4/tcp_limit_output_bytes",
	"net/ipv4/tcp_moderate_rcvbuf", "net/ipv4/tcp_mtu_probing", "net/core/rmem_max",
	"net/core/wmem_max", "net/core/default_qdisc",
};

static json_t *read_sysctls(void)
{
	json_t *o = json_object();

	for (size_t i = 0; i < ARRAY_LEN(sysctls); i++) {
		char path[128];
		CLEANUP_FREE char *text = NULL;
		size_t n;

		snprintf(path, sizeof(path), "/proc/sys/%s", sysctls[i]);
		if (bace_read_file(path, 4096, &text, &n, NULL))
			continue;	/* not in this namespace */
		while (n && isspace((unsigned char)text[n - 1]))
			text[--n] = '\0';
		for (char *c = text; *c; c++)
			if (*c == '\t')
				*c = ' ';
		json_object_set_new(o, sysctls[i], json_string(text));
	}
	return o;
}

static json_int_t link_speed_mbps(int fd, const char *name)
{
	struct ethtool_cmd cmd = { .cmd = ETHTOOL_GSET };
	struct ifreq ifr = { .ifr_data = (void *)&cmd };

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", name);
	if (ioctl(fd, SIOCETHTOOL, &ifr))
		return -1;
	/* ethtool_cmd_speed() shifts into the sign bit. */
	uint32_t speed = (uint32_t)cmd.speed_hi << 16 | cmd.speed;

	return speed == (uint32_t)SPEED_UNKNOWN ? -1 : (json_int_t)speed;
}

static void link_driver(int fd, const char *name, char driver[32])
{
	struct ethtool_drvinfo info = { .cmd = ETHTOOL_GDRVINFO };
	struct ifreq ifr = { .ifr_data = (void *)&info };

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", name);
	snprintf(driver, 32, "%s", ioctl(fd, SIOCETHTOOL, &ifr) ? "" : info.driver);
}

/* What makes one large packet of many: netem loses it whole, HTB sends it at once. */
static void link_offloads(int fd, const char *name, char text[32])
{
	static const struct {
		uint32_t cmd;
		const char *word;
	} v[] = { { ETHTOOL_GTSO, "tso" }, { ETHTOOL_GGSO, "gso" }, { ETHTOOL_GGRO, "gro" } };

	text[0] = '\0';
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		struct ethtool_value on = { .cmd = v[i].cmd };
		struct ifreq ifr = { .ifr_data = (void *)&on };

		snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", name);
		if (!ioctl(fd, SIOCETHTOOL, &ifr) && on.data)
			snprintf(text + strlen(text), 32 - strlen(text), "%s%s", *text ? "," : "", v[i].word);
	}
}

static int on_gso_max(const struct nlattr *a, void *arg)
{
	if (mnl_attr_get_type(a) == IFLA_GSO_MAX_SIZE && !mnl_attr_validate(a, MNL_TYPE_U32))
		*(uint32_t *)arg = mnl_attr_get_u32(a);
	return MNL_CB_OK;
}

static int on_link(const struct nlmsghdr *nlh, void *arg)
{
	return mnl_attr_parse(nlh, sizeof(struct ifinfomsg), on_gso_max, arg);
}

/* 0: not known. The kernel shows it by netlink alone. */
static uint32_t link_gso_max(struct mnl_socket *nl, const char *name)
{
	_Alignas(NLMSG_ALIGNTO) char buf[16384] = { 0 };	/* what pads the name is sent, too */
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	uint32_t bytes = 0;
	ssize_t n = -1;

	nlh->nlmsg_type = RTM_GETLINK;
	nlh->nlmsg_flags = NLM_F_REQUEST;
	mnl_nlmsg_put_extra_header(nlh, sizeof(struct ifinfomsg));
	mnl_attr_put_strz(nlh, IFLA_IFNAME, name);
	if (nl && mnl_socket_sendto(nl, nlh, nlh->nlmsg_len) >= 0)
		n = mnl_socket_recvfrom(nl, buf, sizeof(buf));
	if (n > 0)
		mnl_cb_run(buf, (size_t)n, 0, 0, on_link, &bytes);
	return bytes;
}

static json_t *interface(int fd, struct mnl_socket *nl, const char *name)
{
	char driver[32], offloads[32];
	uint32_t gso_max = link_gso_max(nl, name);
	struct ifreq ifr = { 0 };
	json_t *o;

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", name);
	link_driver(fd, name, driver);
	link_offloads(fd, name, offloads);
	o = json_pack("{s:s,s:i,s:I,s:s}", "name", name, "mtu", ioctl(fd, SIOCGIFMTU, &ifr) ? 0 : ifr.ifr_mtu,
		      "speed_mbps", link_speed_mbps(fd, name), "driver", driver);
	/* The hello is short: what is not there is not said. */
	if (gso_max)
		json_object_set_new(o, "gso_max_bytes", json_integer(gso_max));
	if (*offloads)
		json_object_set_new(o, "offloads", json_string(offloads));
	return o;
}

static size_t bytes_of(const json_t *j)
{
	return json_dumpb(j, NULL, 0, JSON_COMPACT);
}

int inventory_fit(json_t *interfaces, size_t most_bytes)
{
	size_t n = json_array_size(interfaces), bytes = bytes_of(interfaces);
	int dropped = 0;

	for (size_t i = n; i-- > 0 && bytes > most_bytes; ) {
		json_t *o = json_array_get(interfaces, i);
		size_t before = bytes_of(o);

		json_object_del(o, "gso_max_bytes");
		json_object_del(o, "offloads");
		bytes -= before - bytes_of(o);
	}
	for (; n && bytes > most_bytes; dropped++) {
		bytes -= bytes_of(json_array_get(interfaces, --n)) + 1;
		json_array_remove(interfaces, n);
	}
	return dropped;
}

json_t *inventory_interfaces(const struct if_nameindex *all, int *left_out)
{
	CLEANUP_CLOSE int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct mnl_socket *nl = NULL;
	json_t *a = json_array();

	nl_open(NETLINK_ROUTE, &nl, NULL);
	*left_out = 0;
	for (const struct if_nameindex *i = all; i && i->if_name; i++) {
		if (json_array_size(a) == INTERFACES_MAX)
			++*left_out;
		else
			json_array_append_new(a, interface(fd, nl, i->if_name));
	}
	if (nl)
		mnl_socket_close(nl);
	*left_out += inventory_fit(a, INTERFACES_BYTES);
	return a;
}

static void add_interfaces(json_t *o)
{
	struct if_nameindex *all = if_nameindex();
	int left_out;

	json_object_set_new(o, "interfaces", inventory_interfaces(all, &left_out));
	if (left_out)
		json_object_set_new(o, "interfaces_left_out", json_integer(left_out));
	if (all)
		if_freenameindex(all);
}

/* They bypass tc: traffic over them is not shaped. */
static json_t *read_rdma(void)
{
	json_t *a = json_array();
	DIR *d = opendir("/sys/class/infiniband");
	struct dirent *f;

	while (d && (f = readdir(d)) && json_array_size(a) < RDMA_MAX)
		if (f->d_name[0] != '.')
			json_array_append_new(a, json_string(f->d_name));
	if (d)
		closedir(d);
	return a;
}

static json_t *read_gpus(void)
{
	char why[128];
	int n = nvml_count(why);
	json_t *a = json_array(), *o;

	for (int i = 0; i < n && i < GPUS_MAX; i++) {
		struct gpu_info g;
		struct gpu_reading r;

		if (!nvml_describe(i, &g))
			continue;
		nvml_read(i, &r);
		json_array_append_new(a, json_pack("{s:i,s:s,s:s,s:I,s:f,s:b,s:b}", "index", i, "name", g.name, "uuid",
			g.uuid, "memory_bytes", (json_int_t)g.memory_bytes, "power_limit_w",
			g.power_limit_mw / 1e3, "measures_power", r.has_power, "measures_energy", r.has_energy));
	}
	o = json_pack("{s:o}", "devices", a);
	if (!n)
		json_object_set_new(o, "why_none", json_string(why));
	return o;
}

static enum delay_kind tc_delay;
static const char *tc_why;

void inventory_probe(void)
{
	if (!tc_why)
		tc_delay = shape_probe_delay(&tc_why);
	nvml_count(NULL);
}

static json_t *read_tc(void)
{
	static const char *const names[] = { [DELAY_NONE] = "none", [DELAY_NETEM] = "netem",
					     [DELAY_NFQUEUE] = "nfqueue" };

	inventory_probe();
	return json_pack("{s:s,s:s}", "delay", names[tc_delay], "why", tc_why);
}

static char *read_line(const char *path)
{
	char *text;
	size_t n;

	if (bace_read_file(path, 256, &text, &n, NULL))
		return NULL;
	text[strcspn(text, "\n")] = '\0';
	return text;
}

static json_t *read_clocks(void)
{
	CLEANUP_FREE char *source = read_line("/sys/devices/system/clocksource/clocksource0/current_clocksource");
	struct timespec res = { 0 };

	clock_getres(CLOCK_MONOTONIC, &res);
	return json_pack("{s:s,s:I}", "source", source ? source : "", "resolution_ns",
			 (json_int_t)res.tv_sec * 1000000000 + res.tv_nsec);
}

static json_t *read_boot_id(void)
{
	CLEANUP_FREE char *text = NULL;
	size_t n;

	if (bace_read_file("/proc/sys/kernel/random/boot_id", 64, &text, &n, NULL))
		return json_string("");
	text[strcspn(text, "\n")] = '\0';
	return json_string(text);
}

static json_t *read_versions(void)
{
	char hwloc[32];
	unsigned v = hwloc_get_api_version();

	snprintf(hwloc, sizeof(hwloc), "%u.%u", v >> 16, v >> 8 & 0xff);
	return json_pack("{s:s,s:s,s:s,s:s,s:s}", "bace", BACE_VERSION, "libevent", event_get_version(),
			 "openssl", OpenSSL_version(OPENSSL_VERSION_STRING), "jansson", JANSSON_VERSION,
			 "hwloc", hwloc);
}

json_t *inventory(struct agent *a)
{
	struct utsname u;
	struct sysinfo mem = { 0 };

	uname(&u);
	sysinfo(&mem);
	json_t *rdma = read_rdma(), *energy = power_energy();
	bool bypass = json_array_size(rdma) > 0;
	json_t *o = json_pack("{s:s,s:s,s:s,s:o,s:I,s:I,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "hostname", u.nodename,
		"kernel", u.release, "machine", u.machine, "boot_id", read_boot_id(),
		"mono_ns", (json_int_t)bace_mono_ns(),
		"memory_bytes", (json_int_t)((uint64_t)mem.totalram * mem.mem_unit),
		"topology", binder_describe(a->binder), "rdma", rdma,
		"sysctls", read_sysctls(), "versions", read_versions(), "gpus", read_gpus(), "tc", read_tc(),
		"clocks", read_clocks());

	add_interfaces(o);
	json_object_set_new(o, "energy_counters", json_integer((json_int_t)json_array_size(energy)));
	json_decref(energy);
	if (bypass)
		json_object_set_new(o, "warnings", json_pack("[s]", "RDMA devices bypass tc: traffic over them is not "
			"shaped"));
	return o;
}
