#include "results/causes.h"

#include <math.h>
#include <string.h>

#define SEGMENT 1448.0

const char *const slow_cause_name[SLOW_CAUSES] = { "cwnd", "buffer", "contention", "retransmission", "other" };

static double retransmission_s(const struct slow_flow *f)
{
	double lost = ceil(f->retrans_bytes / SEGMENT);

	return fmin(lost, f->messages) * f->rtt_s + f->retrans_bytes * 8 / f->goodput_bps;
}

/* Neither goes a message out whole, nor is the path kept full. */
static bool window_too_small(const struct slow_flow *f)
{
	double bdp = f->goodput_bps / 8 * f->rtt_s;

	return f->window_bytes > 0 && f->window_bytes < f->message_bytes && f->window_bytes < bdp;
}

static enum slow_cause rest_is(const struct slow_flow *f)
{
	if (!f->known)
		return SLOW_OTHER;
	/* A time-out: nothing else keeps a sender waiting for so long. */
	if (f->retrans_bytes > 0)
		return SLOW_RETRANSMISSION;
	return window_too_small(f) ? SLOW_CWND : SLOW_OTHER;
}

/* How long the link idles while the window, doubled every round trip, is too
 * small for a message. */
static double slow_start_s(const struct slow_flow *f)
{
	double idle = 0, sent = 0;

	for (double w = f->window_bytes; sent + w < f->message_bytes; w *= 2) {
		double round = f->rtt_s - w * 8 / f->goodput_bps;

		if (round <= 0)
			break;
		idle += round;
		sent += w;
	}
	return idle;
}

void slow_split(const struct slow_flow *f, double part[SLOW_CAUSES])
{
	double seen[SLOW_CAUSES] = { 0 }, sum = 0, whole = fmax(f->extra_s, f->late_s);

	memset(part, 0, SLOW_CAUSES * sizeof(*part));
	if (!(f->late_s > 0)) {
		part[SLOW_OTHER] = f->late_s;
		return;
	}
	seen[SLOW_CONTENTION] = fmax(0, f->others_s);
	if (f->known) {
		seen[SLOW_BUFFER] = f->limited_s;
		if (f->retrans_bytes > 0)
			seen[SLOW_RETRANSMISSION] = retransmission_s(f);
		if (f->retrans_bytes > 0 && window_too_small(f))
			seen[SLOW_CWND] = f->messages * slow_start_s(f);
	}
	for (int i = 0; i < SLOW_CAUSES; i++)
		sum += seen[i];
	if (sum < whole)
		seen[rest_is(f)] += whole - sum;
	for (int i = 0; i < SLOW_CAUSES; i++)
		part[i] = f->late_s * seen[i] / fmax(sum, whole);
}

enum slow_cause slow_main_cause(const double part[SLOW_CAUSES])
{
	enum slow_cause best = SLOW_CAUSES;
	double most = 0;

	for (int i = 0; i < SLOW_CAUSES; i++) {
		if (part[i] > most) {
			most = part[i];
			best = (enum slow_cause)i;
		}
	}
	return best;
}
