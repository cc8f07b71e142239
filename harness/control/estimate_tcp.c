#include "harness/control/estimate.h"

void estimate_tcp_begin(struct estimate_tcp *t, int64_t at_ns)
{
	t->now_ns = at_ns;
	t->sum_bps = t->acked_bps = 0;
	t->moved = false;
	t->limited = false;
}

/* The place of a socket; a new one takes the place that was silent longest. */
static struct estimate_socket *socket_of(struct estimate_tcp *t, uint64_t id)
{
	struct estimate_socket *oldest = &t->sockets[0];

	for (int i = 0; i < t->n_sockets; i++) {
		if (t->sockets[i].id == id)
			return &t->sockets[i];
		if (t->sockets[i].changed_ns < oldest->changed_ns)
			oldest = &t->sockets[i];
	}
	if (t->n_sockets < ESTIMATE_SOCKETS)
		oldest = &t->sockets[t->n_sockets++];
	*oldest = (struct estimate_socket){ .id = id };
	return oldest;
}

void estimate_tcp_socket(struct estimate_tcp *t, const struct estimate_socket_sample *s)
{
	struct estimate_socket *k = socket_of(t, s->id);
	double seconds = (double)(t->now_ns - k->at_ns) / 1e9, acked = 0, rate;
	bool known = k->at_ns > 0 && s->acked_bytes >= k->acked && seconds > 0;
	bool waits = s->unacked_segs > 0 || s->notsent_bytes > 0, waited = k->waiting;

	if (known)
		acked = 8 * (double)(s->acked_bytes - k->acked) / seconds;
	k->acked = s->acked_bytes;
	k->at_ns = k->changed_ns = t->now_ns;
	k->waiting = waits;
	if (acked <= 0)
		return;
	rate = (double)s->delivery_bps > acked ? (double)s->delivery_bps : acked;
	t->acked_bps += acked;
	t->sum_bps += rate;
	t->moved = true;
	/* It had something to send all the time, or the kernel says so. */
	t->limited |= (waits && waited) || !s->app_limited;
}

bool estimate_tcp_end(struct estimate_tcp *t)
{
	double rate = t->sum_bps * t->l2_per_goodput, least, most;

	t->used_bps = t->acked_bps * t->l2_per_goodput;
	/* Those that were not fed are as they were. */
	for (int i = 0; i < t->n_sockets; i++)
		t->sockets[i].at_ns = t->now_ns;
	if (!t->moved)
		return false;
	/* A sender that had nothing to send says nothing, unless more than was thought. */
	if (!t->limited && t->e.known && rate <= t->e.rate_bps)
		return false;
	if (!t->limited)
		t->ring = (struct estimate_ring){ 0 };
	estimate_ring_add(&t->ring, rate);
	estimate_ring_range(&t->ring, &least, &most);
	t->e.rate_bps = estimate_ring_median(&t->ring, ESTIMATE_RING);
	t->e.error_bps = (most - least) / 2;
	t->e.lower_bound = !t->limited;
	t->e.known = true;
	t->e.at_ns = t->now_ns;
	return true;
}
