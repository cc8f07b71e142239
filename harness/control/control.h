/*
 * harness/control: the controller. Sessions for all agents on one event loop;
 * plans the links, starts the ranks of a cell behind a barrier, collects step
 * times, transfers and tc counters, and says whether the cell is valid.
 *
 * Everything here is in testbed (scaled) units; the caller scales.
 */
#ifndef BACE_CONTROL_H
#define BACE_CONTROL_H

#include "common/common.h"
#include "profiles/profiles.h"
#include "shaper/shaper.h"

/* ---- who is there ---- */
struct tb_host {
	char name[NAME_LEN];	/* agent's identity */
	int region;
	bool gateway;		/* shapes; runs no ranks */
	char addr[46];		/* where ranks listen: its address on the emulated network */
	struct shape_spec shape;	/* what it must shape; links owned */
};

struct tb_topology {
	int n_regions;
	char (*region_names)[NAME_LEN];
	int n_hosts;
	struct tb_host *hosts;	/* owned by the topology */
};

/* ---- what is to run ---- */
struct tb_stage {
	int host;			/* index into topology.hosts */
	int region;
	int worker;			/* stages with the same number share one worker process */
	int64_t fwd_ns, bwd_ns;		/* per micro-batch; zb-h1: bwd without W */
	int64_t w_ns;			/* zb-h1: the gradient of the weights; else 0 */
};

struct tb_hop {
	bool local;			/* within a region: paced by the worker, not by tc */
	uint64_t local_rate_bps;	/* goodput, of a local hop */
	int64_t local_latency_ns;
	uint64_t bytes;			/* per micro-batch and direction */
	/* Of a hop over the network, as planned: goodput, one-way. 0: not known. */
	uint64_t rate_bps, reverse_rate_bps;
	int64_t latency_ns, reverse_latency_ns;
};

struct tb_job {
	char name[NAME_LEN];
	enum schedule_kind schedule;
	int chunks;
	int micro_batches;
	bool overlap;
	int hidden;			/* size of the model's; 0: not known */
	int n_stages;
	struct tb_stage *stages;
	struct tb_hop *hops;		/* [tb_hops] */
	/* Data parallelism: `replicas' jobs that follow each other in the cell are one,
	 * this being number `replica'; 0 or 1: alone. rings[n_stages]: from each stage
	 * here to the same of the next replica, of the last to the first; `bytes' is
	 * 1/replicas of the stage's gradient. Their own hop numbers are n_stages + stage. */
	int replicas, replica;
	struct tb_hop *rings;		/* NULL: none */
};

/* Interleaved-1f1b has one more, from the last stage to the first. */
static inline int tb_hops(const struct tb_job *j)
{
	return j->schedule == SCHED_INTERLEAVED_1F1B ? j->n_stages : j->n_stages - 1;
}

/* ---- what agents are to watch, and what is to happen while they do ---- */
enum tb_source { TB_SRC_LINK, TB_SRC_CLASS, TB_SRC_TCP, TB_SRC_SELF, TB_SRC_GPU, TB_SRC_RAPL, TB_SRC_PROBE, TB_SOURCES };

struct tb_monitor {
	int period_ms[TB_SOURCES];	/* 0: off; else 10 to 600000 */
	int push_ms;			/* samples of this long go in one message */
	int probe_packets;		/* of 1514 bytes at layer 2, one train to each other region every period */
};

enum tb_action_kind { TB_ACT_MONITOR, TB_ACT_RATE };

struct tb_action {
	enum tb_action_kind kind;
	double at_s;			/* after the start of the first step, or of the script */
	bool on;			/* MONITOR: as the script's, or nothing */
	int stretch_ppm;		/* MONITOR: from then on timed compute takes so much longer */
	int src, dst;			/* RATE: of this link */
	uint64_t rate_bps;		/* L2; 0: as planned */
};

struct tb_script {
	struct tb_monitor monitor;
	int n;
	struct tb_action *actions;	/* in order of time */
};

/* What became of one action. Counters are sums over hosts since their agents
 * began, read when the action was done. */
struct tb_acted {
	int64_t began_ns, settled_ns;	/* asked, and confirmed by all hosts; the controller's clock */
	uint64_t cpu_ns, rss_bytes, samples, dropped, wire_bytes, probe_bytes;
	uint64_t rss_max_bytes;		/* of one agent */
	int n_hosts;
};

enum tb_method { TB_COUNTERS, TB_TCP_INFO, TB_PROBE, TB_METHODS };

/* What the view became, when; only of links that the script changes. */
struct tb_estimate {
	int src, dst;
	enum tb_method method;
	bool lower_bound;
	int64_t at_ns;			/* known to the controller, on its clock */
	double rate_bps, error_bps;
};

struct tb_log {
	int n_acted;
	struct tb_acted *acted;		/* [script.n] */
	int n_estimates;
	struct tb_estimate *estimates;
};
void tb_log_free(struct tb_log *l);

/* What the monitors say of one directed link, with the age and the error of it. */
struct tb_view_link {
	bool known, lower_bound;
	enum tb_method method;		/* whose it is */
	double capacity_bps, error_bps;	/* L2 */
	double used_bps;
	double age_s;
};

struct tb_cell {
	int n_jobs;
	struct tb_job *jobs;
	int warmup_steps, steps;
	/* > 0: each job's warm-up ends early, when its last steady_steps step times are
	 * within so many millionths of their median; warmup_steps is the most. */
	int steady_ppm, steady_steps;
	char congestion_control[16];	/* asked of the sockets; "" = route's or kernel's */
	enum transport_mode transport;	/* of hops over the network */
	enum compute_mode compute;
	int sockets_per_hop;		/* 0: 1 */
	bool timeline_sends;		/* the operations have sends among them */
	double timeout_s;		/* for the whole cell */
	struct tb_script *script;	/* runs beside it; may be NULL; borrowed */
};

/* ---- what came of it ---- */
struct tb_op {			/* one operation or transfer of one stage; CLOCK_MONOTONIC ns of the cell's hosts */
	int32_t job, stage, step, micro_batch;
	uint8_t kind;		/* enum tb_op_kind */
	int64_t start_ns, end_ns;
	int64_t planned_end_ns;	/* of compute: when it should have ended */
};
enum tb_op_kind { TB_FORWARD, TB_BACKWARD, TB_WEIGHT, TB_RECV_ACTIVATION, TB_RECV_GRADIENT,
		  TB_SEND_ACTIVATION, TB_SEND_GRADIENT,		/* the kernel had taken the last byte: not when it left the host */
		  TB_RECV_REDUCE, TB_SEND_REDUCE };	/* micro_batch: the round of the ring */

struct tb_step {
	int32_t job, step;	/* step < 0: warm-up, from -warmup_steps; left out after a steady state */
	int64_t start_ns, end_ns;	/* first F start .. last operation end, over all stages */
	int64_t compute_ns;	/* sum over stages */
};

struct tb_flow {		/* one hop of one job, both directions, from tcp_info */
	int32_t job, hop;
	int32_t src_region, dst_region;
	bool forward;		/* stage i -> i+1 */
	uint64_t payload_bytes;	/* framed by the worker */
	uint64_t wire_bytes;	/* bytes_sent (with retransmissions) + headers of every segment, L2 */
	uint64_t retrans_bytes;
	uint32_t rtt_us, min_rtt_us;
	char congestion_control[16];
};

/* tcp_info of one flow as its sending stage ended a step. Bytes and times are of
 * the step, the rest as it was then. */
struct tb_flow_step {
	int32_t flow, step;	/* index into tb_result.flows; < 0: warm-up */
	uint64_t bytes_sent, retrans_bytes;
	uint64_t delivery_rate_bps, cwnd_bytes;
	uint64_t busy_us;	/* with something to send; of it, held up by the receiver's */
	uint64_t rwnd_limited_us, sndbuf_limited_us;	/* window, by the sender's own buffer */
	uint32_t rtt_us, min_rtt_us;
	bool app_limited;	/* delivery_rate_bps is what was offered, not what the path gives */
};

struct tb_link_check {		/* one directed region pair with traffic in this cell */
	int src, dst;
	uint64_t tc_bytes;	/* counted by the class */
	uint64_t wire_bytes;	/* expected from the flows */
	uint64_t drops;
	bool valid;		/* differ by no more than 2 % */
};

/* Measured, of one counter: from before the ranks are let go to after the last one
 * ended, warm-up included. */
struct tb_energy {
	char host[NAME_LEN];
	char source[8], device[64];	/* "nvml" "GPU 0", "rapl" "intel-rapl:0 package-0" */
	double seconds, energy_j;
};

struct tb_result {
	bool valid;
	char invalid_why[256];
	int n_steps;
	struct tb_step *steps;
	int n_ops;
	struct tb_op *ops;
	int n_flows;
	struct tb_flow *flows;
	int n_flow_steps;	/* by flow, then step */
	struct tb_flow_step *flow_steps;
	int n_links;
	struct tb_link_check *links;
	int64_t barrier_spread_ns;	/* first to last rank's start; 0: all began when they were told to */
	int64_t lateness_p99_ns;	/* of timed compute, worst worker */
	int64_t delay_lateness_p99_ns;	/* of the delay lines, worst gateway */
	struct tb_log log;		/* of the script */
	int n_energy;			/* none where hosts with ranks have no counters */
	struct tb_energy *energy;
};
void tb_result_free(struct tb_result *r);

struct tb_verify {		/* one directed region pair */
	int src, dst;
	double rtt_min_s, rtt_median_s, rtt_p99_s;
	double goodput_bps;	/* 0: not measured */
	double planned_rtt_s, planned_goodput_bps;	/* filled by the caller */
};

/* ---- the controller ---- */
struct controller;

/* A link that changes while ranks run: played from their first step on, by the
 * shapers of both ends, anew in every cell; then all is as planned again. */
struct tb_trace {
	int src, dst;			/* regions */
	bool loop;
	struct shape_trace points;
};

struct controller_config {
	const char *listen_addr;
	uint16_t port;			/* 0: any; see controller_port */
	const uint8_t *master_key;	/* WIRE_KEY_BYTES */
	const struct tb_topology *topo;	/* borrowed */
	double heartbeat_dead_s;	/* 3 */
	/* Asked all the time by who called controller_run, _verify or _look: true
	 * ends the cell, the verify or the look. May be NULL. */
	bool (*cancelled)(void *arg);
	void *cancel_arg;
};

int controller_open(const struct controller_config *cfg, struct controller **out, struct bace_err *e);
void controller_close(struct controller *c);	/* clears all shaping, stops all ranks */
uint16_t controller_port(const struct controller *c);
/* Waits until every host of the topology has said hello. The error names who is missing. */
int controller_wait_hosts(struct controller *c, double timeout_s, struct bace_err *e);
/* Sends every host its shape_spec; applied and read back when this returns 0. */
int controller_plan(struct controller *c, struct bace_err *e);
/* From now on, in every cell; borrowed until the controller is closed. */
void controller_traces(struct controller *c, int n, const struct tb_trace *v);
/* Runs one cell. -errno only if it could not be run; an invalid cell is a result.
 * -ECANCELED: see controller_config. */
int controller_run(struct controller *c, const struct tb_cell *cell, struct tb_result *out,
		   struct bace_err *e);
/* Measures the directed pairs, in rounds in which each host takes part once.
 * -ECANCELED: see controller_config. */
int controller_verify(struct controller *c, int n, struct tb_verify *pairs, double goodput_s,
		      struct bace_err *e);
/* Runs a script with nothing else running. */
int controller_script(struct controller *c, const struct tb_script *s, struct tb_log *out, struct bace_err *e);
/* Starts, changes or (all periods 0) ends monitoring on all hosts. */
int controller_monitor(struct controller *c, const struct tb_monitor *m, struct bace_err *e);
/* out[n_regions * n_regions], [src * n_regions + dst]. */
int controller_view(struct controller *c, struct tb_view_link *out, struct bace_err *e);
/* Has every agent probe all links for so long, and says what came of that: not
 * known is what no probe of this look crossed. out[n_regions * n_regions], as
 * controller_view's, without used_bps. -ECANCELED: see controller_config. */
int controller_look(struct controller *c, double seconds, struct tb_view_link *out, struct bace_err *e);
/* malloc'd JSON: per host kernel, versions, sysctls that matter, and how it reaches
 * the other regions now: "routes": {control: DEV, to: {REGION: {dev, initcwnd, initrwnd}}}. */
int controller_inventory(struct controller *c, char **json, struct bace_err *e);

#endif
