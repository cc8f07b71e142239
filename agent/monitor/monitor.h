/*
 * agent/monitor: what this host tells about itself while it runs. Sources, each
 * with a period of its own, are read on the agent's event loop; what they say is
 * pushed in batches. Nothing here needs a privilege.
 *
 * A source that was read gives rows: fields separated by blanks, rows by ';'.
 * Text, because ten thousand JSON numbers a second are too many for 0.5 % of a
 * core. agent/wire/wire.h says what the fields are.
 */
#ifndef BACE_AGENT_MONITOR_H
#define BACE_AGENT_MONITOR_H

#include "agent/agent.h"

struct monitor;
struct mnl_socket;

int monitor_open(struct agent *a, struct monitor **out, struct bace_err *e);
/* NULL is allowed. */
void monitor_close(struct monitor *m);
/* The `sample' request: replaces all that was asked before. *answer: counters
 * since the agent began, of the moment before the change. */
int monitor_configure(struct monitor *m, struct wire_reader *r, json_t **answer);
/* Everything off, also the responder of probes: the session is over. */
void monitor_stop(struct monitor *m);
/* What bace-shaperd counted, asked for by the class source. */
void monitor_take_shaper(struct monitor *m, const struct shape_stats *s);

/* A netlink socket, bound. */
int nl_open(int bus, struct mnl_socket **out, struct bace_err *e);

/* Counters of energy of now: [source, device, microjoules, range or 0], each. */
json_t *power_energy(void);

/* ---- what the sources and the inventory share ---- */

/* What this very process uses. */
void monitor_self(uint64_t *cpu_ns, uint64_t *rss_bytes);

/* NVML by dlopen: no NVIDIA package is needed to build or to run. */
struct gpu_info {
	char name[96], uuid[96];
	uint64_t memory_bytes;
	unsigned power_limit_mw;	/* 0: unknown */
};

struct gpu_reading {
	unsigned power_mw;
	uint64_t energy_mj;		/* since the driver was loaded; 0: no counter */
	unsigned busy_percent;
	bool has_power, has_energy, has_busy;
};

/* Number of GPUs; 0 with the reason in why. Opened once, for the process. */
int nvml_count(char why[128]);
bool nvml_describe(int index, struct gpu_info *out);
bool nvml_read(int index, struct gpu_reading *out);

#endif
