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
 *   Durations are of a whole stage; a chunk of interleaved-1f1b takes 1/chunks.
 *   Hop h joins stage h, which connects, and stage h+1, which listens (the last
 *   hop of interleaved-1f1b, n_stages - 1, joins the last stage and stage 0);
 *   "internal": both are in this worker. Every hop of a stage here is listed.
 *   With "replicas": D the job is D such pipelines, and this worker is of number
 *   "replica". The stages' gradients are summed at the end of a step, over a ring:
 *   hop n_stages + s is listed twice for a stage s here, with role "connect" (to
 *   stage s of the next replica, of the last to the first) and "listen". `bytes'
 *   is what a round moves, 1/D of the gradient; there are 2(D - 1) rounds.
 *   A "tcp" hop moves `bytes` each message over the network. A "local" hop is
 *   within a region: only headers are sent, and the receiver delivers a message
 *   when the region's own network would have: FIFO per direction, bytes at
 *   rate_bps (0: at once), then latency_ns, as in the event simulation.
 *   May also be given, here with their defaults:
 *    "host": "", "rank": the first stage	for messages
 *    "token": 0		a random number of the cell: messages of a rank that was
 *				told another, or none, are taken for damaged
 *    "go_timeout_ms": 0			from "ready" to "go"; 0: waits for ever
 *    "shared_clock": true	ranks are on one machine. false: the sender's time
 *				of a message means nothing here; a local hop counts
 *				from when its header came
 *    "timeline": "ops"		"none", or "full" for sends too
 *    "replicas": 1, "replica": 0	data parallelism, see above
 *    "steady": {"ppm": N, "steps": K}	the warm-up ends early, when each of the last
 *				K steps of stage 0 was within N millionths of their
 *				median; warmup_steps is then the most that it takes.
 *				Step 0 is the next; those left out are in no report
 *    "sockets": 1		of a tcp hop: its larger messages are striped over them
 *    "peer_timeout_ms": 3000	a tcp peer that acknowledges nothing for so long is gone
 *    "hidden": 0		the model's hidden size, of products on a GPU; 0: not known
 *    "compute": "timed"	"cpu": matrix products on a core, for as long as the
 *				spec says by a calibration when the worker begins; or
 *				"cuda" (bace-worker-nccl): on the GPU, of hidden x hidden
 *				matrices, or smaller ones where those would take
 *				more than 1/32 of the shortest operation or more
 *				memory than the GPU has
 *    "nccl": {"addr": A, "gpu": 0, "threads": 1, "sockets": 1, "channels": 0}
 *				(bace-worker-nccl) the rank is in the job's
 *				communicator, as all ranks of a job with nccl hops
 *				are: address of its interface, GPU (modulo those
 *				there are), NCCL's connections to a peer: threads x
 *				sockets of each channel; channels 0: as NCCL likes
 *   A hop of kind "nccl" is carried by NCCL over kernel sockets. A worker with
 *   "nccl" plays one stage, which is its rank in the communicator; of any schedule
 *   but interleaved-1f1b.
 *   A tcp hop may say of the link that it goes over: "rate_bps", "latency_ns",
 *   "reverse_rate_bps", "reverse_latency_ns" (from stage h to h+1, and back; goodput,
 *   one-way; 0: not known). Socket buffers are checked against it.
 *   "overlap": false: a stage computes nothing until its message has left the link.
 *   No host sees that happen, and an acknowledgement would come a round trip too
 *   late: the stage is held as long as the message takes of the link's rate_bps,
 *   which must be given. Whether it did take so long, the receiver's record says
 *   (end - latency_ns against start); the controller compares.
 *   A step must end within step_timeout_ms of the end of the one before.
 * 2. {"event": "listening", "hop": H, "port": P}, one for each listening hop.
 *   And {"event": "nccl-id", "id": HEX} from stage 0 of a job with "nccl".
 * 3. stdin: {"cmd": "connect", "hops": [{"hop": H, "addr": A, "port": P}, ...]}
 *   (also needed, with an empty list, by a worker that connects nothing). Of a
 *   job with "nccl" also "nccl_id": HEX, as stage 0 said it, and "nccl_peers":
 *   [{"hop": H, "addr": A}, ...], where the other end of each nccl hop is.
 * 4. {"event": "ready"} when every hop is connected and has carried one message
 *   each way.
 * 5. stdin: {"cmd": "go", "at_ns": N}: step -warmup_steps begins then, or now if
 *   that is past; at most an hour ahead.
 *    While it runs, also {"cmd": "stretch", "ppm": N}: from the next operation on
 *    timed compute takes N millionths longer than the spec says.
 * 6. {"event": "done", "started_ns": N, "lateness_p99_ns": N,
 *     "steps": [[stage, step, start_ns, end_ns, compute_ns], ...],
 *     "ops": [[stage, step, micro_batch, kind, start, end, third], ...],
 *     "flows": [{"hop": H, "forward": B, "payload_bytes": N, "wire_bytes": N,
 *                "retrans_bytes": N, "rtt_us": N, "min_rtt_us": N,
 *                "congestion_control": "cubic", ...}, ...]}
 *   kind: enum worker_op_kind. step < 0: warm-up.
 *    F, B, W: end: when the worker saw it end; third: when it should have ended
 *    (timed compute), from which the next one is counted.
 *   With "overlap": false the end of a step includes the hold.
 *    Rounds of a ring are received and sent, micro_batch being the round.
 *    received: start: when the sender's operation ended, on the sender's clock;
 *    end: last byte; third: first byte.
 *    sent ("full" only): start: when the operation ended; end and third: when
 *    the kernel had taken the last byte, which is not when it left the host.
 *   A flow is what THIS side of a tcp hop sent during the connection's life:
 *   wire_bytes is L2, every segment with its headers, SYN, FIN and pure ACKs
 *   included. Also in it: "peer", "messages", "bytes_sent"
 *   (with retransmissions), "segs_out", "delivery_rate_bps", "busy_us",
 *   "rwnd_limited_us", "sndbuf_limited_us", "cwnd_bytes", "app_limited";
 *   "measured": {the counters, from the end of the warm-up on}; "steps":
 *   [[step, bytes_sent, retrans_bytes, rtt_us, delivery_rate_bps, min_rtt_us,
 *   cwnd_bytes, busy_us, rwnd_limited_us, sndbuf_limited_us, app_limited], ...],
 *   read as the sending stage ended each step: bytes and times busy or limited
 *   are of the step alone (from the end of the one before, or the connection's
 *   start), the rest as it was then. app_limited: 1 if the sender, not the
 *   network, bounded delivery_rate_bps when that was measured. Of several
 *   sockets: sums; round trips of the first; app_limited if any is.
 *   A flow of an nccl hop: wire_bytes and "steps" of all sockets that this process
 *   had to the peer's address, NCCL's own talk included. Also, from bace-worker-nccl: "nccl":
 *   {"version": N, "paths": what its log said, "gpu": {"bus": B, "name": T,
 *   "energy_j": J, "seconds": S}}, energy of the whole board from "go" on.
 *   With compute "cpu" or "cuda": "compute": {"gemm_n": N, "gemm_s": S, "flops": F}.
 *   And: "lateness_p50_ns", "lateness_max_ns", of timed compute, measured steps.
 *   Then exit status 0.
 *   Or, at any time, {"event": "error", "cause": C, "text": T} and exit status 1
 *   (2: the spec or a command was refused). T is one line that names rank, host, and where it
 *   applies hop and step. C: "input", "peer" (a neighbour went away: another
 *   rank's error is probably the first), "timeout", "protocol" (a wrong, lost or
 *   damaged message) or "system".
 *
 * Probes: {"mode": "probe-server", "addr": A, "token": T} answers "listening"
 * with hop -1 and serves one client that says the token, then ends.
 * {"mode": "probe-client", "addr": A, "port": P, "rtt_samples": N,
 * "goodput_s": S, "congestion_control": C, "timeout_ms": N, "token": T} (of both
 * may be left out: 0) ends with {"event": "done", "rtt_ns": [...],
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
#define WORKER_SOCKETS_MAX 16
#define WORKER_REPLICAS_MAX 256
#define WORKER_MESSAGE_MIN 64		/* the header */
#define WORKER_MESSAGE_MAX (4ull << 30)

enum worker_op_kind {
	WORKER_FORWARD, WORKER_BACKWARD, WORKER_WEIGHT,
	WORKER_RECV_ACTIVATION, WORKER_RECV_GRADIENT,
	WORKER_SEND_ACTIVATION, WORKER_SEND_GRADIENT,
	WORKER_RECV_REDUCE, WORKER_SEND_REDUCE,
};

enum hop_kind { HOP_TCP, HOP_LOCAL, HOP_NCCL };
enum hop_role { HOP_LISTEN, HOP_CONNECT, HOP_INTERNAL };
enum compute_kind { COMPUTE_TIMED, COMPUTE_CUDA, COMPUTE_CPU };
enum timeline_kind { TIMELINE_NONE, TIMELINE_OPS, TIMELINE_FULL };

struct worker_stage_spec {
	int stage;
	int64_t duration_ns[3];		/* by op_kind, of a whole micro-batch */
};

struct worker_hop_spec {
	int hop;			/* n_stages + s: of the ring of stage s */
	enum hop_kind kind;
	enum hop_role role;
	uint64_t bytes;
	char addr[64];
	uint64_t rate_bps;		/* local: both ways; tcp: 0 if not known */
	int64_t latency_ns;
	uint64_t reverse_rate_bps;	/* tcp */
	int64_t reverse_latency_ns;
};

struct worker_nccl_spec {
	bool used;			/* the rank is in its job's communicator */
	char addr[64];			/* of its interface on the emulated network */
	int gpu;
	int threads, sockets;		/* NCCL's, per peer and channel: NCCL_SOCKET_NTHREADS, NCCL_NSOCKS_PERTHREAD */
	int channels;			/* per peer; 0: as NCCL likes */
};

struct worker_spec {
	int job, rank;
	uint64_t token;			/* of the cell: what does not know it is no rank of it */
	char name[NAME_LEN];
	char host[NAME_LEN];
	struct schedule_spec schedule;
	int replicas, replica;		/* of the pipeline; this one's number */
	bool shared_clock, overlap;
	int sockets_per_hop;
	int hidden;			/* size of the model's; 0: not known */
	enum timeline_kind timeline;
	enum compute_kind compute;
	struct worker_nccl_spec nccl;
	int n_stages;			/* here */
	struct worker_stage_spec *stages;
	int n_hops;			/* here */
	struct worker_hop_spec *hops;
	int warmup_steps, steps;
	int steady_ppm, steady_steps;	/* ends the warm-up early; 0: never */
	char congestion_control[16];
	int64_t connect_timeout_ns, go_timeout_ns, step_timeout_ns, peer_timeout_ns;
};

static inline bool worker_is_ring(const struct worker_spec *s, int hop)
{
	return hop >= s->schedule.stages;
}

/* Stages that a hop joins; of a ring they are the same, of two replicas. */
static inline int worker_hop_from(const struct worker_spec *s, int hop)
{
	return hop % s->schedule.stages;
}

static inline int worker_hop_to(const struct worker_spec *s, int hop)
{
	return (worker_is_ring(s, hop) ? hop : hop + 1) % s->schedule.stages;
}

/* Rounds of the ring of a stage, each with a message out and one in. */
static inline int worker_ring_rounds(const struct worker_spec *s)
{
	return s->replicas > 1 ? 2 * (s->replicas - 1) : 0;
}

/* The least that any operation takes; INT64_MAX: none takes any time. */
int64_t worker_shortest_ns(const struct worker_spec *s);

/* Every field range-checked; -EINVAL or -ENOTSUP names the key. What was read is
 * freed by the caller, after an error too. */
int worker_spec_read(const json_t *j, struct worker_spec *out, struct bace_err *e);
/* Part of it: "nccl", and the hops of that kind. */
int worker_spec_read_nccl(const json_t *j, struct worker_spec *out, struct bace_err *e);
/* Part of it: stages, hops and rings belong together and none is missing. */
int worker_spec_check(const struct worker_spec *s, struct bace_err *e);
void worker_spec_free(struct worker_spec *s);

#endif
