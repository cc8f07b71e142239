#include "workloads/worker/message.h"

#include <errno.h>
#include <string.h>

#define MAGIC 0x65636162u		/* "bace" */
#define STRIPE_MIN 16384		/* less is not worth a second socket */

_Static_assert(sizeof(struct header) == WORKER_MESSAGE_MIN, "the header's size is part of the protocol");

const char *message_name(enum message_kind kind)
{
	static const char *const names[] = {
		[MESSAGE_WARM] = "first message", [MESSAGE_ACTIVATION] = "activation",
		[MESSAGE_GRADIENT] = "gradient", [MESSAGE_TOKEN] = "end of step",
		[MESSAGE_REDUCE] = "part of a summed gradient",
	};

	return (unsigned)kind < MESSAGE_KINDS ? names[kind] : "unknown message";
}

bool message_is_forward(enum message_kind kind)
{
	return kind == MESSAGE_ACTIVATION || kind == MESSAGE_REDUCE;
}

uint64_t message_bytes(const struct worker_hop_spec *h, enum message_kind kind)
{
	return h->kind == HOP_LOCAL || kind == MESSAGE_TOKEN ? WORKER_MESSAGE_MIN : h->bytes;
}

int message_parts(const struct worker_spec *s, const struct worker_hop_spec *h, enum message_kind kind)
{
	if (h->kind != HOP_TCP || kind == MESSAGE_TOKEN || s->sockets_per_hop < 2)
		return 1;
	/* The first message opens them all. */
	return kind == MESSAGE_WARM || h->bytes >= (uint64_t)s->sockets_per_hop * STRIPE_MIN ? s->sockets_per_hop : 1;
}

static uint64_t part_bytes(uint64_t whole, uint64_t part, uint64_t parts)
{
	uint64_t n = whole / parts + (part < whole % parts);

	return n < sizeof(struct header) ? sizeof(struct header) : n;
}

/* The token in it: who does not know it does not make one by chance. */
static uint64_t checksum(const struct header *h, const struct worker_spec *s)
{
	return bace_hash64(h, offsetof(struct header, checksum), MAGIC ^ s->token);
}

static int sender_stage(const struct worker_spec *s, const struct worker_hop_spec *hop, bool below)
{
	return below ? worker_hop_from(s, hop->hop) : worker_hop_to(s, hop->hop);
}

/* Of a ring, the end that connects is of the replica before the other's. */
static int sender_replica(const struct worker_spec *s, const struct worker_hop_spec *hop, bool below)
{
	bool connects = hop->role == HOP_CONNECT;

	if (!worker_is_ring(s, hop->hop) || connects == below)
		return s->replica;
	return (s->replica + (connects ? 1 : s->replicas - 1)) % s->replicas;
}

void header_fill(struct header *h, const struct worker_spec *s, const struct worker_hop_spec *hop,
		 const struct message *m)
{
	bool below = m->kind == MESSAGE_WARM ? hop->role == HOP_CONNECT : message_is_forward(m->kind);

	*h = (struct header){ .magic = MAGIC, .kind = (uint16_t)m->kind, .chunk = m->chunk,
		.replica = (uint8_t)sender_replica(s, hop, below), .job = s->job,
		.hop = hop->hop, .stage = sender_stage(s, hop, below), .step = m->step,
		.micro_batch = m->micro_batch, .made = m->made, .bytes = message_bytes(hop, m->kind), .parts = 1 };
	h->checksum = checksum(h, s);
}

void header_part(struct header *h, const struct worker_spec *s, int part, int parts, uint64_t number)
{
	h->bytes = part_bytes(h->bytes, (uint64_t)part, (uint64_t)parts);
	h->part = (uint16_t)part;
	h->parts = (uint16_t)parts;
	h->number = number;
	h->checksum = checksum(h, s);
}

/* A warm message goes over any hop, either way; the others over their kind, one way. */
static bool right_kind(const struct header *h, bool ring, bool from_below)
{
	if (h->kind == MESSAGE_WARM)
		return true;
	return h->kind < MESSAGE_KINDS && ring == (h->kind == MESSAGE_REDUCE) &&
	       message_is_forward((enum message_kind)h->kind) == from_below;
}

int header_check(const struct header *h, const struct worker_spec *s, const struct worker_hop_spec *hop,
		 bool from_below, struct bace_err *e)
{
	uint64_t bytes;

	if (h->magic != MAGIC || h->checksum != checksum(h, s))
		return bace_fail(e, EPROTO, "a damaged message, or one of another cell: its checksum is wrong");
	if (h->job != s->job || h->hop != hop->hop)
		return bace_fail(e, EPROTO, "a message of job %d hop %d, wanted job %d hop %d", h->job, h->hop,
				 s->job, hop->hop);
	if (h->replica != sender_replica(s, hop, from_below))
		return bace_fail(e, EPROTO, "a message of replica %d, wanted one of replica %d", h->replica,
				 sender_replica(s, hop, from_below));
	if (!right_kind(h, worker_is_ring(s, hop->hop), from_below) || h->stage != sender_stage(s, hop, from_below))
		return bace_fail(e, EPROTO, "a message of the wrong kind (%s from stage %d)",
				 message_name((enum message_kind)h->kind), h->stage);
	if (h->parts != message_parts(s, hop, (enum message_kind)h->kind) || h->part >= h->parts)
		return bace_fail(e, EPROTO, "%s of step %d micro-batch %d is part %d of %d, wanted one of %d: the "
				 "number of sockets differs", message_name((enum message_kind)h->kind), h->step,
				 h->micro_batch, h->part, h->parts, message_parts(s, hop, (enum message_kind)h->kind));
	bytes = part_bytes(message_bytes(hop, (enum message_kind)h->kind), h->part, h->parts);
	if (h->bytes != bytes)
		return bace_fail(e, EPROTO, "%s of step %d micro-batch %d has %llu bytes, wanted %llu",
				 message_name((enum message_kind)h->kind), h->step, h->micro_batch,
				 (unsigned long long)h->bytes, (unsigned long long)bytes);
	return 0;
}

void header_read(const struct header *h, struct message *out)
{
	*out = (struct message){ .kind = (enum message_kind)h->kind, .step = h->step,
		.micro_batch = h->micro_batch, .chunk = h->chunk, .made = h->made };
}
