#include <errno.h>
#include <string.h>

#include "profiles/names.h"
#include "profiles/profiles.h"

const char *const schedule_names[] = {
	[SCHED_GPIPE] = "gpipe",
	[SCHED_1F1B] = "1f1b",
	[SCHED_EAGER_1F1B] = "eager-1f1b",
	[SCHED_INTERLEAVED_1F1B] = "interleaved-1f1b",
	[SCHED_ZB_H1] = "zb-h1",
	NULL,
};
const char *const order_names[] = {
	[ORDER_FCFS] = "fcfs", [ORDER_SJF] = "sjf", [ORDER_SRTF] = "srtf",
	[ORDER_LAS] = "las",   [ORDER_BACE] = "bace", NULL,
};
const char *const start_names[] = { [START_K_MIN] = "k_min", [START_K_STAR] = "k_star", NULL };
const char *const stall_names[] = {
	[STALL_FORWARD] = "forward", [STALL_SLOT] = "slot",
	[STALL_LATENCY] = "latency", [STALL_NONE] = "none", NULL,
};
const char *const grow_names[] = { [GROW_PATH] = "path", [GROW_TREE] = "tree", NULL };
const char *const prefer_names[] = {
	[PREFER_GPUS] = "gpus", [PREFER_JCT] = "jct", [PREFER_COST] = "cost", NULL,
};
const char *const jitter_names[] = {
	[JITTER_NONE] = "none",	    [JITTER_UNIFORM] = "uniform",
	[JITTER_NORMAL] = "normal", [JITTER_PARETO] = "pareto",
	[JITTER_PARETONORMAL] = "paretonormal", NULL,
};
const char *const noise_names[] = {
	[NOISE_UNIFORM] = "uniform", [NOISE_GAUSSIAN] = "gaussian", NULL,
};
const char *const rank_names[] = { [RANKS_STAGE] = "stage", [RANKS_REGION] = "region", NULL };
const char *const wan_names[] = { [WAN_STEADY] = "steady", [WAN_STOCK] = "stock", NULL };
const char *const backend_names[] = {
	[BACKEND_AUTO] = "auto", [BACKEND_NETEM] = "netem",
	[BACKEND_NFQUEUE] = "nfqueue", [BACKEND_UML] = "uml", NULL,
};

const char *const shape_mode_names[] = { [SHAPE_GATEWAY] = "gateway", [SHAPE_HOST] = "host", NULL };
const char *const shape_delay_names[] = {
	[SHAPE_DELAY_AUTO] = "auto", [SHAPE_DELAY_NETEM] = "netem", [SHAPE_DELAY_NFQUEUE] = "nfqueue", NULL,
};

const char *schedule_name(enum schedule_kind s)
{
	return schedule_names[s];
}

const char *order_name(enum order_kind o)
{
	return order_names[o];
}

const char *start_name(enum start_kind s)
{
	return start_names[s];
}

const char *backend_name(enum backend_kind b)
{
	return backend_names[b];
}

int schedule_from_name(const char *name, enum schedule_kind *out)
{
	for (int i = 0; schedule_names[i]; i++) {
		if (strcmp(name, schedule_names[i]))
			continue;
		*out = (enum schedule_kind)i;
		return 0;
	}
	return -EINVAL;
}
