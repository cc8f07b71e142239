/*
 * One hop's connection: messages framed by a 64-byte header that says whose
 * they are. Payload is filler; a receiver discards it in the kernel.
 */
#ifndef BACE_WORKER_HOP_H
#define BACE_WORKER_HOP_H

#include "workloads/worker/engine.h"

enum message_kind { MESSAGE_WARM, MESSAGE_ACTIVATION, MESSAGE_GRADIENT };

struct header {			/* 64 bytes, host order: both ends run the same binary */
	uint32_t magic;
	uint32_t kind;
	int32_t job, hop, stage;
	int32_t step, micro_batch;
	uint32_t chunk;
	int64_t made;
	uint64_t bytes;			/* of the message, header included */
	uint64_t reserved;
	uint64_t checksum;
};

struct hop_conn {
	const struct worker_spec *spec;
	int index;			/* into spec->hops */
	int fd;
	bool connecting, warm_received, closed;
	struct header *queue;		/* ring of messages to send */
	uint32_t head, tail, cap;
	uint64_t sent;			/* bytes of the first that are gone */
	struct header in;		/* being received */
	uint64_t got;			/* bytes of it */
	uint64_t payload_bytes;		/* queued in all */
	int64_t received;		/* messages of the schedule */
};

void hop_conn_init(struct hop_conn *c, const struct worker_spec *spec, int index);
void hop_conn_free(struct hop_conn *c);
const struct worker_hop_spec *hop_spec(const struct hop_conn *c);

/* Queues a message; hop_conn_write sends it. */
int hop_conn_queue(struct hop_conn *c, enum message_kind kind, const struct message_id *id,
		   int64_t made, struct bace_err *e);
bool hop_conn_pending(const struct hop_conn *c);
/* Writes until the socket is full. */
int hop_conn_write(struct hop_conn *c, struct bace_err *e);
/* Messages of the schedule that this end receives in the whole run. */
int64_t hop_conn_expected(const struct hop_conn *c);
/* Reads one message: 1 and its header, 0 not yet, -errno. */
int hop_conn_read(struct hop_conn *c, struct header *out, struct bace_err *e);

#endif
