#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <hwloc.h>
#include <hwloc/glibc-sched.h>

#include "agent/agent.h"

#define DESCRIBED_MAX 96		/* a host may have hundreds of virtual functions; the hello is one frame */

struct binder {
	hwloc_topology_t topo;
	int n_pus;		/* that this process may use */
};

int binder_open(struct binder **out, struct bace_err *e)
{
	struct binder *b = calloc(1, sizeof(*b));

	if (!b)
		return bace_fail(e, ENOMEM, "out of memory");
	if (hwloc_topology_init(&b->topo)) {
		free(b);
		return bace_fail_errno(e, errno, "read the machine's topology");
	}
	/* Only what binding needs: the full tree costs a megabyte. */
	hwloc_topology_set_all_types_filter(b->topo, HWLOC_TYPE_FILTER_KEEP_STRUCTURE);
	hwloc_topology_set_io_types_filter(b->topo, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
	if (hwloc_topology_load(b->topo)) {
		int saved = errno;

		binder_close(b);
		return bace_fail_errno(e, saved, "read the machine's topology");
	}
	b->n_pus = hwloc_get_nbobjs_by_type(b->topo, HWLOC_OBJ_PU);
	*out = b;
	return 0;
}

void binder_close(struct binder *b)
{
	if (!b)
		return;
	hwloc_topology_destroy(b->topo);
	free(b);
}

static bool interface_of(const char *addr, char name[IF_NAMESIZE])
{
	struct in_addr want;
	struct ifaddrs *all;
	bool found = false;

	if (inet_pton(AF_INET, addr, &want) != 1 || getifaddrs(&all))
		return false;
	for (struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
		if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET ||
		    ((struct sockaddr_in *)i->ifa_addr)->sin_addr.s_addr != want.s_addr)
			continue;
		snprintf(name, IF_NAMESIZE, "%s", i->ifa_name);
		found = true;
	}
	freeifaddrs(all);
	return found;
}

/* The GPU of that slot, else the NIC: where the rank's traffic enters memory. */
static hwloc_obj_t near_object(struct binder *b, int slot, const char *nic_addr, const char **what)
{
	char nic[IF_NAMESIZE] = "";
	hwloc_obj_t o = NULL, gpu = NULL;
	int n = 0;

	while ((o = hwloc_get_next_osdev(b->topo, o)))
		if (o->attr->osdev.type == HWLOC_OBJ_OSDEV_COPROC && n++ == slot)
			gpu = o;
	if (gpu) {
		*what = "its GPU";
		return hwloc_get_non_io_ancestor_obj(b->topo, gpu);
	}
	if (nic_addr[0] && interface_of(nic_addr, nic)) {
		while ((o = hwloc_get_next_osdev(b->topo, o))) {
			if (o->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK && !strcmp(o->name, nic)) {
				*what = "its NIC";
				return hwloc_get_non_io_ancestor_obj(b->topo, o);
			}
		}
	}
	*what = NULL;
	return NULL;
}

bool binder_choose(struct binder *b, int slot, int slots, const char *nic_addr, cpu_set_t *cpus,
		   char *text, size_t cap)
{
	const char *what;
	hwloc_obj_t root = near_object(b, slot, nic_addr, &what);
	hwloc_cpuset_t *sets;
	char list[128];
	bool ok = false;

	if (!root || hwloc_bitmap_weight(root->cpuset) < slots) {
		root = hwloc_get_root_obj(b->topo);
		what = NULL;
	}
	if (!slots) {
		snprintf(text, cap, "not bound: this machine plays several hosts");
		return false;
	}
	if (slots == 1 && !what) {
		snprintf(text, cap, "not bound: alone on this machine");
		return false;
	}
	if (slots > b->n_pus) {
		snprintf(text, cap, "not bound: %d ranks for %d processors", slots, b->n_pus);
		return false;
	}
	sets = calloc((size_t)slots, sizeof(*sets));
	if (sets && !hwloc_distrib(b->topo, &root, 1, sets, (unsigned)slots, INT_MAX, 0)) {
		hwloc_bitmap_list_snprintf(list, sizeof(list), sets[slot]);
		ok = !hwloc_cpuset_to_glibc_sched_affinity(b->topo, sets[slot], cpus, sizeof(*cpus));
		snprintf(text, cap, "cpus %s (rank %d of %d on this machine%s%s)", list, slot + 1, slots,
			 what ? ", near " : "", what ? what : "");
	}
	if (!ok)
		snprintf(text, cap, "not bound: hwloc could not spread %d ranks", slots);
	for (int i = 0; sets && i < slots; i++)
		hwloc_bitmap_free(sets[i]);
	free(sets);
	return ok;
}

json_t *binder_describe(struct binder *b)
{
	json_t *devices = json_array();
	hwloc_obj_t o = NULL;

	while ((o = hwloc_get_next_osdev(b->topo, o)) && json_array_size(devices) < DESCRIBED_MAX) {
		hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(b->topo, o);
		char set[128];

		hwloc_bitmap_list_snprintf(set, sizeof(set), near->cpuset);
		if (o->attr->osdev.type == HWLOC_OBJ_OSDEV_COPROC || o->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK ||
		    o->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS)
			json_array_append_new(devices, json_pack("{s:s,s:s}", "name", o->name, "cpus", set));
	}
	return json_pack("{s:i,s:i,s:i,s:i,s:o}",
		"packages", hwloc_get_nbobjs_by_type(b->topo, HWLOC_OBJ_PACKAGE),
		"numa_nodes", hwloc_get_nbobjs_by_type(b->topo, HWLOC_OBJ_NUMANODE),
		"cores", hwloc_get_nbobjs_by_type(b->topo, HWLOC_OBJ_CORE),
		"processors", b->n_pus, "devices", devices);
}
