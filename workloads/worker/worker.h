/*
 * workloads/worker: bace-worker, the process that plays one or more stages of
 * one job (a rank), or one end of a network probe. Unprivileged; started by the
 * agent (or by hand) with no arguments.
 *
 * stdin:  JSON, one object a line: first the spec, then commands.
 * stdout: JSON, one object a line: events.      stderr: log.
 * End of stdin at any time means that the parent is gone: the worker ends with
 * status 1. SIGTERM and SIGINT end it too. Exit status: 0 after "done" or after
 * "stop", 1 after any other "error", 2 when the spec or a command was refused
 * ("error" with cause "input").
 * A line is at most WORKER_LINE_MAX bytes. Unknown keys are refused.
 *
 * ---- mode "pipeline" ----
 *
 * spec:
 *  {"mode": "pipeline",
 *   "rank": 3, "host": "ie2",		names for messages; rank is any number
 *   "job": 0, "name": "qwen-14b",	job: 0..65535, must be equal on all ranks
 *   "schedule": "1f1b",		gpipe, 1f1b, eager-1f1b, interleaved-1f1b, zb-h1
 *   "chunks": 1,			model chunks a stage; > 1 with interleaved-1f1b only
 *   "micro_batches": 8,
 *   "overlap": true,			default true; see below
 *   "n_stages": 5,			of the whole job
 *   "stages": [{"stage": 1, "fwd_ns": 50000000, "bwd_ns": 100000000, "w_ns": 0}, ...],
 *					those played here, at least one, per micro-batch;
 *					interleaved: of the whole stage, a chunk takes 1/chunks
 *   "compute": "timed",		default; "cpu" where built with a BLAS
 *   "hops": [HOP, ...],		every hop that touches one of these stages
 *   "warmup_steps": 1, "steps": 3,
 *   "congestion_control": "cubic",	TCP_CONGESTION; "" or absent: the route's or kernel's
 *   "shared_clock": true,		default true: all ranks are on one machine. false: send
 *					times of other machines are not used (see "local")
 *   "timeline": "ops",			"none", "ops" (default) or "full" (with sends)
 *   "connect_timeout_ms": 20000,	from the spec to "ready"; default 20000
 *   "go_timeout_ms": 60000,		from "ready" to "go"; default 60000
 *   "step_timeout_ms": 30000}		for each step, and for closing; default 30000
 *
 * HOP: hop h joins stage h and h + 1; with interleaved-1f1b hop n_stages - 1
 * joins the last stage and stage 0.
 *  {"hop": 0, "kind": "tcp"|"local",
 *   "bytes": 210000,			per micro-batch and direction, headers of ours included;
 *					1 .. 2^40; below WORKER_HEADER_BYTES it is rounded up
 *   "rate_bps": ..., "latency_ns": ...,	"local" only: goodput (0: infinite) and one-way latency
 *   "sockets": 1,			TCP connections that share each message, 1..64
 *   "role": "listen"|"connect",	not for a hop between two stages of this worker
 *   "addr": "10.17.0.10",		listen: own address; connect: the peer's, may be left to
 *   "port": 0}				the "connect" command. IPv4 or IPv6, numeric
 * A hop between two stages of this worker has kind "local" and no role: it is
 * in-process. A "local" hop with a role joins two workers of one region (on any
 * hosts): a message is then WORKER_HEADER_BYTES on the network, and the
 * receiver delivers it when the region's network would have:
 *     max(sender's operation ended, link free) + 8 * bytes / rate + latency,
 * FIFO per direction, exactly as the event simulation does. With shared_clock
 * false the time at which the header was read replaces "operation ended".
 * Give such hosts an unshaped path; "tcp" hops carry all bytes for real.
 *
 * overlap false: the stage does nothing after an operation until the message has
 * left: on a "local" hop as the event simulation; on "tcp" until its last byte
 * was acknowledged, less the connection's minimal RTT.
 *
 * life cycle:
 *  < spec
 *  > {"event": "listening", "hop": 0, "port": 41234}	one for each hop with role listen
 *  > {"event": "waiting"}		every listener is reported; if a connecting hop has no port
 *					yet, the worker now wants "connect"
 *  < {"cmd": "connect", "hops": [{"hop": 1, "addr": "10.17.1.10", "port": 40001}, ...]}
 *					may come before "waiting", in parts, or never when every
 *					connecting hop had addr and port in the spec
 *  > {"event": "ready"}		all hops connected and warmed by one message each way
 *  < {"cmd": "go", "at_ns": N}		CLOCK_MONOTONIC of this host; past or 0: at once
 *  > {"event": "ops", ...}		any number, at most WORKER_OPS_PER_LINE operations each
 *  > {"event": "done", ...}		then exit 0
 * At any time:
 *  < {"cmd": "stop"}			> {"event": "stopped"} and exit 0
 *  > {"event": "error", "cause": C, "text": "rank 3 on ie2: hop 2 step 3: ...",
 *     "rank": 3, "host": "ie2", "job": 0, "hop": 2, "step": 3}	hop and step where known
 *    C: "input" spec or command refused; "peer" a neighbour went away (another
 *    rank's error is probably the first cause); "timeout"; "protocol" a wrong,
 *    lost or damaged message; "system" anything else. The text is one line.
 *
 * ops:
 *  {"event": "ops", "base_ns": T, "ops": [[kind, stage, chunk, step, micro_batch, start, end, third], ...]}
 *    kind: enum worker_op_kind. step: 0.. measured, -warmup_steps..-1 warm-up.
 *    start, end, third are CLOCK_MONOTONIC ns minus base_ns, of this host.
 *    F, B, W:	start, end: as planned: start = max(input arrived, planned end of
 *		the operation before), so lateness does not add up. end: start +
 *		duration. third: when the worker got to it (>= end; timed compute);
 *		with real compute end is when it ended and third equals end.
 *    receive:	stage: the receiving one. start: when the sender's operation ended
 *		(its clock; with shared_clock false equal to third). end: last byte
 *		read, or delivered by a "local" hop. third: first byte read.
 *    send:	stage: the sending one. start: when its operation ended. end: when
 *		the kernel had taken the last byte, which is NOT when it left the
 *		host. third: equals end.
 *
 * done:
 *  {"event": "done", "job": 0, "rank": 3,
 *   "steps": [{"step": 0, "stage": 1, "start_ns": ..., "end_ns": ..., "compute_ns": ...}, ...],
 *					each stage and step; start of the first and end of the
 *					last operation as planned. The job's step lasts from the
 *					least start to the greatest end over all stages
 *   "flows": [FLOW, ...],		one for each hop with a role: the direction sent by this end
 *   "n_ops": ..., "lateness_p50_ns": ..., "lateness_p99_ns": ..., "lateness_max_ns": ...}
 * Lateness: of timed compute, measured steps: how long after its planned end the
 * worker got to it.
 * FLOW, from tcp_info, summed over the hop's sockets, over the life of the
 * connections with SYN and FIN (and under "measured" from the first operation of
 * step 0 to the end of the last step):
 *  {"hop": 1, "forward": true, "kind": "tcp", "congestion_control": "cubic",
 *   "peer": "10.17.1.10:40001",
 *   "payload_bytes": ...,		framed by this worker, headers of ours included
 *   "messages": ...,
 *   "wire_bytes": ...,			bytes_sent + segs_out * (14 + IP 20 or 40 + TCP 32)
 *   "bytes_sent": ...,			with retransmissions
 *   "retrans_bytes": ..., "segs_out": ...,
 *   "rtt_us": ..., "min_rtt_us": ...,	at the end
 *   "delivery_rate_bps": ..., "busy_us": ..., "rwnd_limited_us": ..., "sndbuf_limited_us": ...,
 *   "measured": {"payload_bytes", "messages", "wire_bytes", "bytes_sent", "retrans_bytes",
 *		  "segs_out", "busy_us", "rwnd_limited_us", "sndbuf_limited_us"},
 *   "steps": [[step, bytes_sent, retrans_bytes, rtt_us, delivery_rate_bps], ...]}
 *					at each step's end as seen by the sending stage
 *					(bytes cumulative)
 *
 * Steps are separated by a flush that costs a step nothing: after its last
 * operation a stage that has its successor's token passes one to its
 * predecessor, behind the last gradient; stage 0 begins step s + 1 at the later
 * of its own end and the token. Where the last gradient already implies that
 * all stages are done (all but zb-h1) the token is there before stage 0 ends.
 *
 * ---- mode "probe-server" ----
 *
 *  {"mode": "probe-server", "host": "ie1", "addr": "10.17.0.10", "port": 0,
 *   "timeout_ms": 60000}		ends when nothing came for so long (status 1)
 *  > {"event": "listening", "port": P}	the same port for TCP and UDP
 *  Serves any number of clients, one after another or at once, until "stop".
 *
 * ---- mode "probe-client" ----
 *
 *  {"mode": "probe-client", "host": "us1", "addr": "10.17.0.10", "port": P,
 *   "rtt": "tcp",			"tcp", "udp", "both" or "none"; default "tcp"
 *   "samples": 20, "interval_ms": 10,	of RTT; a request of 64 bytes and its echo
 *   "goodput_s": 2.0,			0: not measured
 *   "rampup_s": 0.5,			receiver's time that is left out first, default 0.5
 *   "connections": 1,			for goodput
 *   "loss_packets": 0, "loss_rate_pps": 1000,	UDP datagrams one way, counted by the server
 *   "congestion_control": "cubic",
 *   "timeout_ms": 20000}		for the whole
 *  > {"event": "done",
 *     "tcp_rtt": {"n": 20, "min_ns": ..., "median_ns": ..., "p99_ns": ...},
 *     "udp_rtt": {"n": 19, "lost": 1, "min_ns": ...},
 *     "goodput": {"bps": ..., "bytes": ..., "seconds": ..., "retrans_bytes": ...},
 *					payload at the receiver after the ramp-up
 *     "loss": {"sent": ..., "received": ...}}		only what was asked for
 */
#ifndef BACE_WORKER_H
#define BACE_WORKER_H

#define WORKER_LINE_MAX (1u << 20)
#define WORKER_OPS_PER_LINE 2000
#define WORKER_HEADER_BYTES 72

enum worker_op_kind {
	WORKER_FORWARD,
	WORKER_BACKWARD,
	WORKER_WEIGHT,
	WORKER_RECV_ACTIVATION,
	WORKER_RECV_GRADIENT,
	WORKER_SEND_ACTIVATION,
	WORKER_SEND_GRADIENT,
};

#endif
