/*
 * agent/wire: the control protocol, both ends. TLS 1.3 with an external
 * pre-shared key per host, length-prefixed JSON, protocol version. There is no
 * plaintext and no unauthenticated mode.
 *
 * Frame: uint32 length (network order) and that many bytes of JSON, an object
 * {"v": 1, "type": TYPE, "id": N, ...}. Every request carries an id > 0 and is
 * answered by {"type": "ok"|"error", "id": N, ...}; events have id 0. `v` is
 * added and checked here; a peer of another version is told so and refused.
 *
 * Agent to controller: request hello (name, version, inventory), then events
 *   output {cell, rank, text}        what a worker wrote, in pieces, as it comes:
 *                                    a line may span several
 *   exit {cell, rank, status, signal, text}   text: the end of its standard error
 *   sample {seq, dropped, samples: [[source, at_ns, rows], ...]}
 *                                    monitoring, in batches; dropped: samples lost
 *                                    so far. Rows are text: fields by blanks, each
 *                                    row ended by ';', rows that did not change
 *                                    since the last sample of that source left out:
 *      link   name rx_bytes tx_bytes rx_packets tx_packets rx_drops tx_drops
 *      class  minor bytes packets drops backlog_bytes
 *      tcp    peer_addr inode bytes_acked bytes_sent delivery_rate_bps app_limited
 *             rtt_us min_rtt_us retrans_bytes cwnd unacked notsent_bytes
 *      self   cpu_ns rss_bytes
 *      gpu    index power_mw energy_mj busy_percent
 *      rapl   zone energy_uj
 *      probe  peer_addr packets_sent l2_bytes_each at... (0.1 us since the first
 *             packet that came, of each that came)
 *   lease_lost {text}                bace-shaperd died or gave the shaping up
 * Controller to agent: requests
 *   plan {spec} -> {changes}         by bace-shaperd
 *   change {changes}                 links of the plan in place
 *   trace {trace: {region, loop, more, start_real_ns, start_mono_ns, period_ns, points}}
 *                                    played by bace-shaperd, when all of it is there:
 *                                    with `more' the next trace request goes on with it
 *   stats -> {stats}
 *   launch {cell, rank, slot, slots, program, nic, config} -> {pid, binding, bound}
 *                                    slot of slots: of the ranks on this machine, for
 *                                    spreading; 0 of 0: not bound. nic: an address or ""
 *   tell {cell, rank, line}          one line for a worker's standard input
 *   stop {cell} (0: all)             answered when the processes are gone
 *   clear                            stops all workers, drops the lease
 *   clock -> {mono_ns}
 *   energy -> {at_ns, readings: [[source, device, uj, range_uj], ...]}
 *                                    counters; range_uj: where one begins anew, 0: nowhere
 *   routes {addrs: [...]} -> {control, routes: [{dev, initcwnd, initrwnd}, ...]}
 *                                    how it reaches these addresses: interface ("": no
 *                                    route) and initial windows in segments (0: the
 *                                    kernel's); control: its interface to the controller
 *   sample {sources: {NAME: period_ms, ...}, push_ms, class_dev, probe_listen,
 *           token, probe_packets, targets: [{addr, port}, ...]}
 *     -> {at_ns, cpu_ns, rss_bytes, samples, dropped, wire_bytes, probe_bytes,
 *         probe_port}                replaces what was monitored before; the answer
 *                                    has counters since the agent began. A train of
 *                                    probe_packets goes to each target every period;
 *                                    probe_listen (or ""): where to answer others'
 *
 * All of it runs on one event base and one thread.
 */
#ifndef BACE_WIRE_H
#define BACE_WIRE_H

#include <event2/event.h>
#include <jansson.h>

#include "common/common.h"
#include "shaper/shaper.h"

#define WIRE_VERSION 1
#define WIRE_MAX_FRAME (4u << 20)	/* timelines, which are longer, come in pieces */
#define WIRE_FIRST_FRAME (64u << 10)	/* the hello, before the peer has been accepted */
#define WIRE_MAX_DEPTH 16
#define WIRE_KEY_BYTES 32
#define WIRE_NAME_MAX 63		/* [A-Za-z0-9._+-], as NAME_LEN's names */

/* ---- keys: HKDF-SHA256(master, host name); files are mode 0600 or refused ----
 *
 * A file is one line, "bace-master-key HEX" or "bace-host-key NAME HEX". A host
 * needs only its own key; who holds the master can be any host and the
 * controller.
 */
int wire_key_generate(const char *path, struct bace_err *e);
/* Writes the key of one host, derived. */
int wire_key_write_host(const char *path, const uint8_t master[WIRE_KEY_BYTES], const char *host,
			struct bace_err *e);
int wire_key_load(const char *path, uint8_t master[WIRE_KEY_BYTES], struct bace_err *e);
/* From either kind of file; a host key of another name is refused. */
int wire_key_load_host(const char *path, const char *host, uint8_t key[WIRE_KEY_BYTES],
		       struct bace_err *e);
/* The line of one host's key file, with its line end. */
#define WIRE_KEY_LINE_MAX 256
int wire_key_host_line(const uint8_t master[WIRE_KEY_BYTES], const char *host,
		       char line[WIRE_KEY_LINE_MAX]);
/* From such a line that came another way than by a file (a pipe). */
int wire_key_read_host(int fd, const char *host, uint8_t key[WIRE_KEY_BYTES], struct bace_err *e);
int wire_key_derive(const uint8_t master[WIRE_KEY_BYTES], const char *host,
		    uint8_t key[WIRE_KEY_BYTES]);
bool wire_name_ok(const char *name);

/* ---- connections ---- */
struct wire_conn;

/* 0: the default. */
struct wire_limits {
	size_t max_frame;	/* bytes in one received frame; WIRE_MAX_FRAME */
	size_t max_values;	/* JSON values in one received frame; max_frame / 4 */
	size_t max_queue;	/* bytes waiting to be sent; 2 max_frame */
	double heartbeat_s;	/* 1 */
	double dead_s;		/* nothing heard for so long: closed; 3 */
};

/* What an agent takes: the controller sends little, and a bad one must not fill
 * the host's memory. */
#define WIRE_AGENT_LIMITS \
	{ .max_frame = 1u << 20, .max_values = 1u << 16, .max_queue = 8u << 20 }

struct wire_handlers {
	/* Authenticated; peer is the PSK identity (client side: the server). */
	void (*on_open)(void *arg, struct wire_conn *c, const char *peer);
	/* msg is borrowed for the call. Heartbeats are not handed on. */
	void (*on_message)(void *arg, struct wire_conn *c, json_t *msg);
	/* Closed, refused or timed out, also by wire_close; c is freed after the
	 * call. Called for every connection that had on_open, and for a client's
	 * that never got so far. */
	void (*on_close)(void *arg, struct wire_conn *c, const char *why);
	void *arg;
	struct wire_limits limits;
};

struct wire_server;

struct wire_server_counts {
	int unauthenticated;	/* in handshake now */
	uint64_t refused;	/* failed handshakes, in all */
};

/* Listens; keys for any host are derived from master. */
int wire_listen(struct event_base *base, const char *addr, uint16_t port,
		const uint8_t master[WIRE_KEY_BYTES], const struct wire_handlers *h,
		struct wire_server **out, struct bace_err *e);
uint16_t wire_server_port(const struct wire_server *s);
void wire_server_counts(const struct wire_server *s, struct wire_server_counts *out);
/* Frees its connections too, without calling on_close. */
void wire_server_free(struct wire_server *s);

/* Connects as host `name` with its derived key; addr may be a host name, which
 * is then looked up here and now. */
int wire_connect(struct event_base *base, const char *addr, uint16_t port, const char *name,
		 const uint8_t key[WIRE_KEY_BYTES], const struct wire_handlers *h,
		 struct wire_conn **out, struct bace_err *e);
/* Steals msg; queued. -ENOBUFS: the peer does not read, nothing was queued;
 * -EPIPE: already closing. */
int wire_send(struct wire_conn *c, json_t *msg);
/* Sends what is queued for at most a second, then closes; on_close is called
 * from the event loop, never from within. */
void wire_close(struct wire_conn *c, const char *why);
/* At once, without on_close; not from within a handler of c. */
void wire_free(struct wire_conn *c);
void wire_set_user(struct wire_conn *c, void *user);
void *wire_user(const struct wire_conn *c);
/* Bytes waiting to be sent. */
size_t wire_queued(const struct wire_conn *c);
/* Bytes of frames handed to it, before TLS. */
uint64_t wire_sent_bytes(const struct wire_conn *c);
/* PSK identity; "" before on_open. */
const char *wire_peer(const struct wire_conn *c);
/* Address of the peer, "10.1.2.3:4567". */
const char *wire_peer_addr(const struct wire_conn *c);

/* ---- answers ---- */
/* body may be NULL; stolen. */
int wire_answer(struct wire_conn *c, json_int_t id, json_t *body);
int wire_answer_error(struct wire_conn *c, json_int_t id, const struct bace_err *e);

/* ---- message bodies: JSON <-> structs, every field range-checked ---- */

/* Reads fields of one object; after the first failure the others do nothing,
 * so that only `rc` at the end needs a look. Missing fields are errors. */
struct wire_reader {
	const json_t *obj;
	const char *what;	/* for messages: "plan: link 3" */
	struct bace_err *e;
	int rc;
};

json_int_t wire_read_int(struct wire_reader *r, const char *key, json_int_t min, json_int_t max);
uint64_t wire_read_u64(struct wire_reader *r, const char *key, uint64_t max);
double wire_read_num(struct wire_reader *r, const char *key, double min, double max);
bool wire_read_bool(struct wire_reader *r, const char *key);
/* Borrowed; at most max_len bytes, no control characters. NULL after failure. */
const char *wire_read_str(struct wire_reader *r, const char *key, size_t max_len);
/* Copies into buf[cap]. */
void wire_read_copy(struct wire_reader *r, const char *key, char *buf, size_t cap);
/* Borrowed. NULL after failure. */
json_t *wire_read_array(struct wire_reader *r, const char *key, size_t max_items);
json_t *wire_read_object(struct wire_reader *r, const char *key);
/* The object has no more than these keys ("v", "type" and "id" are always allowed). */
void wire_read_only(struct wire_reader *r, const char *const *keys, size_t n);

json_t *wire_encode_shape(const struct shape_spec *s);
/* *out owns its links: free(out->links). */
int wire_decode_shape(const json_t *j, struct shape_spec *out, struct bace_err *e);
#define WIRE_CHANGES_MAX 256		/* in one frame */
#define WIRE_ROUTES_MAX 4096
/* An array; what a change does not set is left out. *out: free(). */
json_t *wire_encode_changes(const struct shape_change *v, int n);
int wire_decode_changes(const json_t *j, struct shape_change **out, int *n, struct bace_err *e);

#define WIRE_TRACE_POINTS_MAX 50000	/* of a whole trace */
#define WIRE_TRACE_PIECE_MAX 8000	/* of one request: an agent takes it whatever the values are */
struct wire_trace {
	uint16_t region;
	bool loop;
	bool more;			/* the next request has more of its points */
	int64_t start_real_ns;		/* 0: at once, or: */
	int64_t start_mono_ns;		/* by the monotonic clock of the host that plays it; 0: not so */
};
/* The keys of a trace request; *out: shape_trace_free. */
json_t *wire_encode_trace(const struct wire_trace *head, const struct shape_trace *t);
int wire_decode_trace(const json_t *j, struct wire_trace *head, struct shape_trace *out, struct bace_err *e);
json_t *wire_encode_stats(const struct shape_stats *s);
int wire_decode_stats(const json_t *j, struct shape_stats *out, struct bace_err *e);

/* One frame's bytes as a checked object (new reference): size, depth, number of
 * values, no duplicate keys, an object with v, type and id. What every received
 * byte goes through; public for the fuzzer. */
int wire_parse(const char *text, size_t len, const struct wire_limits *l, json_t **out,
	       struct bace_err *e);

#endif
