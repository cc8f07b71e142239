/* Was the loss made that a link is to have? By the counters of what makes it. */
#include <math.h>

#include "harness/control/cell.h"

/* A loss as asked for is called wrong once in a million links. */
#define UNLIKELY 1e-6
#define HEADERS 52		/* IPv4 20, TCP 20, timestamps 12 */
#define GSO_MOST 65536

/* n times the divergence of x of n from a share of p: by Chernoff, exp(-that) is more than
 * the chance of x or what is farther off, whatever n and p are. */
static double surprise(double x, double n, double p)
{
	double q = n > 0 ? x / n : 0;

	return n * ((q > 0 ? q * log(q / p) : 0) + (q < 1 ? (1 - q) * log((1 - q) / (1 - p)) : 0));
}

bool cell_loss_as_asked(double loss, double came, double lost, double bundle)
{
	double most = came + lost, least = came / bundle + lost;

	if (loss >= 1)
		return came == 0;
	if (lost > most * loss)
		return surprise(lost, most, loss) <= -log(UNLIKELY);
	if (lost < least * loss)
		return surprise(lost, least, loss) <= -log(UNLIKELY);
	return true;
}

/* Packets that netem counts one by one may be lost as one: those of a GSO packet. On the
 * hosts of others anything on the way may have put more together. */
static double bundle_of(const struct cell_run *r, const struct shape_spec *s, int from)
{
	double most = s->fail_closed ? 0 : GSO_MOST;

	if (s->delay != DELAY_NETEM)
		return 1;
	for (int i = 0; i < r->c->n_hosts; i++) {
		const struct tb_host *h = r->c->hosts[i].spec;

		if (h->region == from && !h->gateway)
			most = fmax(most, h->shape.gso_max_bytes ? h->shape.gso_max_bytes : GSO_MOST);
	}
	return fmax(1, ceil(most / (s->mtu - HEADERS)));
}

static void check_link(struct cell_run *r, const struct host *h, const struct shape_link *l)
{
	const struct shape_spec *s = &h->spec->shape;
	const struct shape_stat *a = cell_class_of(&r->stats[READ_BEFORE][h->index], l->region);
	const struct shape_stat *b = cell_class_of(&r->stats[READ_AFTER][h->index], l->region);
	double came, lost;

	if (!a || !b)
		return;
	came = (double)(b->delay_packets - a->delay_packets);
	lost = (double)(b->delay_drops - a->delay_drops);
	/* The delay line counts what it loses, the class above netem what it gets back. */
	if (s->delay == DELAY_NFQUEUE)
		came -= lost;
	if (!cell_loss_as_asked(l->loss, came, lost, bundle_of(r, s, l->region)))
		cell_invalid(r, SEVERITY_CAUSE, "%s to %s: its delay lost %.0f of %.0f packets, of which %.3g %% were to be lost",
			     l->name, r->c->cfg.topo->region_names[h->spec->region], lost, came + lost, 100 * l->loss);
}

void cell_check_loss(struct cell_run *r, const struct host *h)
{
	const struct shape_spec *s = &h->spec->shape;

	/* Bursts and traces are not what one share of all packets says. */
	if (s->delay == DELAY_NONE || cell_trace_loses(r, h))
		return;
	for (int i = 0; i < s->n_links; i++) {
		const struct shape_link *l = &s->links[i];

		if (l->loss > 0 && l->impair.loss_model == LOSS_RANDOM && !(l->impair.loss_corr > 0))
			check_link(r, h, l);
	}
}
