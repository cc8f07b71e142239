/*
 * A message between two stages, and the 64 bytes that it begins with on the
 * network. Payload is filler; a receiver discards it.
 */
#ifndef BACE_WORKER_MESSAGE_H
#define BACE_WORKER_MESSAGE_H

#include "workloads/worker/worker.h"

enum message_kind {
	MESSAGE_WARM,			/* the first of each connection */
	MESSAGE_ACTIVATION,
	MESSAGE_GRADIENT,
	MESSAGE_TOKEN,			/* all stages from the sender's on have ended the step */
	MESSAGE_REDUCE,			/* a part of a gradient, to the next replica */
	MESSAGE_KINDS,
};

struct message {
	enum message_kind kind;
	int32_t step;			/* < 0: warm-up */
	int32_t micro_batch;		/* REDUCE: the round */
	uint8_t chunk;			/* of the sender */
	int64_t made;			/* planned end of the operation that made it */
};

const char *message_name(enum message_kind kind);
/* Does it travel from the end that connects to the one that listens, as from stage
 * i to i + 1? (A warm message goes either way.) */
bool message_is_forward(enum message_kind kind);

/* On several sockets a message goes in parts, one on each, all with a header. */
struct header {			/* host order: both ends run the same binary */
	uint32_t magic;
	uint16_t kind;
	uint8_t chunk, replica;	/* the sender's, as is the stage */
	int32_t job, hop, stage;
	int32_t step, micro_batch;
	uint16_t part, parts;
	int64_t made;
	uint64_t bytes;			/* of the part, header included */
	uint64_t number;		/* of the message in its direction of the hop, from 0 */
	uint64_t checksum;		/* of all before it, and of the cell's token */
};

/* Bytes on the network of a message of this hop. */
uint64_t message_bytes(const struct worker_hop_spec *h, enum message_kind kind);

/* Parts that a message of this hop goes in. */
int message_parts(const struct worker_spec *s, const struct worker_hop_spec *h, enum message_kind kind);

void header_fill(struct header *h, const struct worker_spec *s, const struct worker_hop_spec *hop,
		 const struct message *m);
/* The header of a part, from that of the whole. */
void header_part(struct header *h, const struct worker_spec *s, int part, int parts, uint64_t number);
/* Is it whole, and of this job, this hop and this direction? `from_below`: the
 * peer plays the hop's first stage. */
int header_check(const struct header *h, const struct worker_spec *s, const struct worker_hop_spec *hop,
		 bool from_below, struct bace_err *e);
void header_read(const struct header *h, struct message *out);

#endif
