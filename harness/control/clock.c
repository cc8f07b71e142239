/* How far a host's CLOCK_MONOTONIC is from ours: of many exchanges the one with
 * the least round trip, whose middle is wrong by half of that at most. */
#include <errno.h>
#include <string.h>

#include "harness/control/internal.h"

#define FIRST_EXCHANGES 8
#define FIRST_GAP_MS 10
#define LATER_GAP_MS 10000		/* clocks of two machines drift */
#define CLOCK_ANSWER_S 5.0

/* Two machines' clocks by 10 ppm, since the best exchange. */
static int64_t drift_ns(const struct host_clock *k, int64_t now_ns)
{
	return now_ns > k->best_at_ns ? (now_ns - k->best_at_ns) / 100000 : 0;
}

int64_t clock_uncertainty_ns(const struct host_clock *k, int64_t now_ns)
{
	return k->same_kernel ? 0 : k->n ? k->rtt_ns / 2 + drift_ns(k, now_ns) : INT64_MAX;
}

bool clock_take(struct host_clock *k, int64_t sent_ns, int64_t remote_ns, int64_t received_ns)
{
	int64_t rtt = received_ns - sent_ns;

	if (rtt < 0)
		return false;
	/* Half of a round trip is what is uncertain, and an old best has drifted. */
	if (k->n++ && rtt > k->rtt_ns + 2 * drift_ns(k, received_ns))
		return false;
	k->rtt_ns = rtt;
	k->best_at_ns = received_ns;
	k->offset_ns = remote_ns - (sent_ns + rtt / 2);
	return true;
}

static void on_exchange(void *arg, struct host *h, const json_t *reply, const struct bace_err *err)
{
	struct host_clock *k = &h->clock;
	json_t *at = json_object_get(reply, "mono_ns");
	int64_t now = bace_mono_ns();
	int gap_ms = k->n + 1 < FIRST_EXCHANGES ? FIRST_GAP_MS : LATER_GAP_MS;
	struct timeval tv = { .tv_sec = gap_ms / 1000, .tv_usec = gap_ms % 1000 * 1000 };

	if (!k->timer)
		return;
	if (err || !json_is_integer(at)) {
		/* The next one may be answered. */
		if (host_ready(h))
			event_add(k->timer, &(struct timeval){ .tv_sec = LATER_GAP_MS / 1000 });
		return;
	}
	if (clock_take(k, k->sent_ns, json_integer_value(at), now) && !k->same_kernel)
		h->offset_ns = k->offset_ns;
	/* The same kernel needs no more than a first look, for the record. */
	if (!k->same_kernel || k->n < FIRST_EXCHANGES)
		event_add(k->timer, &tv);
}

static void on_clock_timer(evutil_socket_t fd, short what, void *arg)
{
	struct host *h = arg;

	h->clock.sent_ns = bace_mono_ns();
	host_request(h, json_pack("{s:s}", "type", "clock"), CLOCK_ANSWER_S, on_exchange, &h->clock);
}

void clock_start(struct host *h)
{
	const char *boot_id = json_string_value(json_object_get(h->inventory, "boot_id"));
	struct timeval now = { 0 };

	clock_stop(h);
	h->clock.same_kernel = boot_id && boot_id[0] && !strcmp(boot_id, h->c->boot_id);
	h->offset_ns = 0;
	h->clock.timer = evtimer_new(h->c->base, on_clock_timer, h);
	if (h->clock.timer)
		event_add(h->clock.timer, &now);
}

void clock_stop(struct host *h)
{
	if (h->clock.timer)
		event_free(h->clock.timer);
	h->clock = (struct host_clock){ 0 };
}

json_t *clock_describe(const struct host *h)
{
	const struct host_clock *k = &h->clock;
	int64_t uncertain_ns = clock_uncertainty_ns(k, bace_mono_ns());

	return json_pack("{s:s,s:I,s:I,s:I,s:I,s:i}", "source",
		k->same_kernel ? "same kernel: one clock" : k->n ? "least round trip" : "not measured yet",
		"offset_ns", (json_int_t)h->offset_ns, "uncertainty_ns",
		(json_int_t)uncertain_ns, "measured_offset_ns", (json_int_t)k->offset_ns,
		"measured_rtt_ns", (json_int_t)k->rtt_ns, "exchanges", k->n);
}
