/* Private to harness/control: what the monitors of one host said. */
#ifndef BACE_CONTROL_MONITOR_H
#define BACE_CONTROL_MONITOR_H

#include "harness/control/estimate.h"
#include "harness/control/internal.h"

struct addr_region {
	const char *addr;
	int region;
};

struct link_seen {			/* from this host to one region */
	struct estimate_counters counters;
	struct estimate_tcp tcp;
	struct estimate_probe probe;
	int64_t heard_ns[TB_METHODS];	/* when we heard the last news, on our clock */
};

struct host_monitor {
	uint64_t seq, dropped, bad, probe_bytes;
	int probe_port;
	struct link_seen **to;		/* [n_regions] */
	struct {
		int64_t at_ns;
		char *rows;		/* link, self, gpu, rapl: the last */
	} kept[TB_SOURCES];
};

/* ---- view.c ---- */
/* One method's estimate of one link, over all hosts of the region whose own are of
 * about the same time as the newest; as old as the oldest of these. false: none. */
bool view_of_method(const struct controller *c, int src, int dst, enum tb_method m, struct tb_view_link *out);
/* Is a, which is known, to be believed before b? */
bool view_better(const struct tb_view_link *a, const struct tb_view_link *b);
bool monitor_keep(struct host_monitor *m, const char *source, int64_t at_ns, const char *rows);
json_t *monitor_describe(const struct host_monitor *m);

#endif
