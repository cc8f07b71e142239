#include "workloads/worker/message.h"

#include <errno.h>
#include <string.h>

#define MAGIC 0x65636162u		/* "bace" */

_Static_assert(sizeof(struct header) == WORKER_MESSAGE_MIN, "the header's size is part of the protocol");

const char *message_name(enum message_kind kind)
{
	static const char *const names[] = {
		[MESSAGE_WARM] = "first message", [MESSAGE_ACTIVATION] = "activation",
		[MESSAGE_GRADIENT] = "gradient", [MESSAGE_TOKEN] = "end of step",
	};

	return (unsigned)kind < MESSAGE_KINDS ? names[kind] : "unknown message";
}

bool message_is_forward(enum message_kind kind)
{
	return kind == MESSAGE_ACTIVATION;
}

uint64_t message_bytes(const struct worker_hop_spec *h, enum message_kind kind)
{
	return h->kind == HOP_LOCAL || kind == MESSAGE_TOKEN ? WORKER_MESSAGE_MIN : h->bytes;
}

uint64_t message_part_bytes(uint64_t total, int part, int parts)
{
	uint64_t n = total / (uint64_t)parts + ((uint64_t)part < total % (uint64_t)parts);

	return n > WORKER_MESSAGE_MIN ? n : WORKER_MESSAGE_MIN;
}

static uint64_t checksum(const struct header *h)
{
	return bace_hash64(h, offsetof(struct header, checksum), MAGIC);
}

static int sender_stage(const struct worker_spec *s, const struct worker_hop_spec *hop, bool below)
{
	return below ? hop->hop : (hop->hop + 1) % s->schedule.stages;
}

void header_fill(struct header *h, const struct worker_spec *s, const struct worker_hop_spec *hop,
		 const struct message *m, int part)
{
	/* A token is small: one connection carries it. */
	int parts = m->kind == MESSAGE_TOKEN ? 1 : hop->sockets;
	bool below = m->kind == MESSAGE_WARM ? hop->role == HOP_CONNECT : message_is_forward(m->kind);

	memset(h, 0, sizeof(*h));
	h->magic = MAGIC;
	h->kind = (uint16_t)m->kind;
	h->part = (uint16_t)part;
	h->parts = (uint16_t)parts;
	h->chunk = m->chunk;
	h->job = s->job;
	h->hop = hop->hop;
	h->stage = sender_stage(s, hop, below);
	h->step = m->step;
	h->micro_batch = m->micro_batch;
	h->made = m->made;
	h->total = message_bytes(hop, m->kind);
	h->bytes = message_part_bytes(h->total, part, parts);
	h->checksum = checksum(h);
}

int header_check(const struct header *h, const struct worker_spec *s, const struct worker_hop_spec *hop,
		 bool from_below, struct bace_err *e)
{
	int parts = h->kind == MESSAGE_TOKEN ? 1 : hop->sockets;
	uint64_t total;

	if (h->magic != MAGIC || h->checksum != checksum(h))
		return bace_fail(e, EPROTO, "a damaged message: its checksum is wrong");
	if (h->job != s->job || h->hop != hop->hop)
		return bace_fail(e, EPROTO, "a message of job %d hop %d, wanted job %d hop %d", h->job, h->hop,
				 s->job, hop->hop);
	if (h->kind >= MESSAGE_KINDS || h->stage != sender_stage(s, hop, from_below) ||
	    (h->kind != MESSAGE_WARM && message_is_forward((enum message_kind)h->kind) != from_below))
		return bace_fail(e, EPROTO, "a message of the wrong kind (%s from stage %d)",
				 message_name((enum message_kind)h->kind), h->stage);
	if (h->parts != parts || h->part >= parts)
		return bace_fail(e, EPROTO, "part %d of %d of a message, wanted %d parts", h->part, h->parts,
				 parts);
	total = message_bytes(hop, (enum message_kind)h->kind);
	if (h->total != total || h->bytes != message_part_bytes(total, h->part, parts))
		return bace_fail(e, EPROTO, "%s of step %d micro-batch %d has %llu bytes, wanted %llu",
				 message_name((enum message_kind)h->kind), h->step, h->micro_batch,
				 (unsigned long long)h->total, (unsigned long long)total);
	return 0;
}

void header_read(const struct header *h, struct message *out)
{
	*out = (struct message){ .kind = (enum message_kind)h->kind, .step = h->step,
		.micro_batch = h->micro_batch, .chunk = (uint8_t)h->chunk, .made = h->made };
}
