/*
 * workloads/worker: bace-worker, the process that plays one or more stages of
 * one job, or one end of a probe. It has no privilege, is started by the agent
 * and speaks JSON lines: commands on stdin, events on stdout, log on stderr.
 * Times are CLOCK_MONOTONIC ns of the host, sizes bytes, rates bits/s goodput.
 *
 * 1. The first line on stdin is the spec:
 *   {"mode": "pipeline", "job": 0, "name": "qwen-14b", "schedule": "1f1b",
 *    "chunks": 1, "micro_batches": 8, "n_stages": 5, "overlap": true,
 *    "stages": [{"stage": 1, "fwd_ns": N, "bwd_ns": N, "w_ns": 0}, ...],
 *    "hops": [{"hop": 0, "kind": "tcp", "role": "listen", "bytes": N,
 *              "addr": "10.17.0.10"},
 *             {"hop": 1, "kind": "tcp", "role": "connect", "bytes": N},
 *             {"hop": 2, "kind": "local", "role": "listen", "bytes": N,
 *              "addr": "...", "rate_bps": N, "latency_ns": N},
 *             {"hop": 3, "kind": "local", "role": "internal", ...}],
 *    "warmup_steps": 1, "steps": 3, "congestion_control": "cubic" or "",
 *    "connect_timeout_ms": N, "step_timeout_ms": N}
 *   Hop h joins stage h, which connects, and stage h+1, which listens;
 *   "internal": both are in this worker. Every hop of a stage here is listed.
 *   A "tcp" hop moves `bytes` each message over the network. A "local" hop is
 *   within a region: only headers are sent, and the receiver delivers a message
 *   when the region's own network would have: FIFO per direction, bytes at
 *   rate_bps, then latency_ns.
 * 2. {"event": "listening", "hop": H, "port": P}, one for each listening hop.
 * 3. stdin: {"cmd": "connect", "hops": [{"hop": H, "addr": A, "port": P}, ...]}
 *   (also needed, with an empty list, by a worker that connects nothing).
 * 4. {"event": "ready"} when every hop is connected and has carried one message
 *   each way.
 * 5. stdin: {"cmd": "go", "at_ns": N}: step -warmup_steps begins then.
 * 6. {"event": "done", "started_ns": N, "lateness_p99_ns": N,
 *     "steps": [[stage, step, start_ns, end_ns, compute_ns], ...],
 *     "ops": [[stage, step, micro_batch, kind, start, end, planned_end], ...],
 *     "flows": [{"hop": H, "forward": B, "payload_bytes": N, "wire_bytes": N,
 *                "retrans_bytes": N, "rtt_us": N, "min_rtt_us": N,
 *                "congestion_control": "cubic"}, ...]}
 *   kind: 0 F, 1 B, 2 W, 3 activation received, 4 gradient received (start: when
 *   the sender's operation ended on the sender's clock). step < 0: warm-up.
 *   A flow is what THIS side of a tcp hop sent during the connection's life:
 *   wire_bytes is L2, every segment with its headers, pure ACKs included.
 *   Then exit status 0.
 *   Or, at any time, {"event": "error", "text": T} and exit status 1.
 *
 * Probes: {"mode": "probe-server", "addr": A} answers "listening" with hop -1
 * and serves one client, then ends. {"mode": "probe-client", "addr": A,
 * "port": P, "rtt_samples": N, "goodput_s": S, "congestion_control": C,
 * "timeout_ms": N} ends with {"event": "done", "rtt_ns": [...],
 * "goodput_bps": X} (goodput as the server saw it, start-up excluded; 0 when S
 * is 0).
 *
 * EOF on stdin means that the agent is gone: the worker ends.
 */
#ifndef BACE_WORKER_H
#define BACE_WORKER_H

#include <jansson.h>

#include "common/common.h"
#include "workloads/schedule/schedule.h"

#define WORKER_STAGES_MAX 1024
#define WORKER_MESSAGE_MIN 64		/* the header */
#define WORKER_MESSAGE_MAX (4ull << 30)

enum hop_kind { HOP_TCP, HOP_LOCAL };
enum hop_role { HOP_LISTEN, HOP_CONNECT, HOP_INTERNAL };

struct worker_stage_spec {
	int stage;
	int64_t duration_ns[3];		/* by op_kind, of a whole micro-batch */
};

struct worker_hop_spec {
	int hop;
	enum hop_kind kind;
	enum hop_role role;
	uint64_t bytes;
	char addr[64];
	uint64_t rate_bps;		/* local */
	int64_t latency_ns;		/* local */
};

struct worker_spec {
	int job;
	char name[NAME_LEN];
	struct schedule_spec schedule;
	int n_stages;			/* here */
	struct worker_stage_spec *stages;
	int n_hops;			/* here */
	struct worker_hop_spec *hops;
	int warmup_steps, steps;
	char congestion_control[16];
	int64_t connect_timeout_ns, step_timeout_ns;
};

int worker_spec_read(const json_t *j, struct worker_spec *out, struct bace_err *e);
void worker_spec_free(struct worker_spec *s);

#endif
