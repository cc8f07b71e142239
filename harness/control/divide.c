/*
 * Host mode: several hosts of a region shape for themselves and share its links
 * to other regions. Every PERIOD_MS the link's capacity is divided among them by
 * what their classes sent and hold back, which their agents report all the time.
 */
#include "harness/control/divide.h"

#include <errno.h>
#include <stdlib.h>

#include "harness/control/monitor.h"

#define PERIOD_MS 100
#define PUSH_MS 10
#define FLOOR_SHARE 100		/* of the capacity, for a host that sends nothing */
#define WORTH_IT 0.01		/* smaller changes of a share are not sent */
#define RATE_MIN_BPS 1000	/* 0 would be no limit at all */
#define MODULE "divide"

struct part {
	struct host *host;
	uint64_t rate_bps;		/* in force, as far as we know */
	uint64_t next_bps;		/* to be told; 0: stays */
	int64_t seen_ns;		/* its counters, last time; 0: not yet */
	uint64_t seen_bytes;
	uint64_t sent_bytes, backlog_bytes;	/* in one period */
};

struct shared_link {
	int src, dst;
	int n;
	struct part *parts;
};

struct divider {
	struct controller *c;
	int n;
	struct shared_link *links;
	int *asked;			/* [n_hosts] changes that are on their way */
	struct event *timer;
};

static const struct shape_link *link_of(const struct host *h, int dst)
{
	const struct shape_spec *s = host_shape(h);

	for (int i = 0; i < s->n_links; i++)
		if (s->links[i].region == dst && s->links[i].rate_bps)
			return &s->links[i];
	return NULL;
}

int divider_sharers(const struct controller *c, int src, int dst)
{
	int n = 0;

	for (int i = 0; i < c->n_hosts; i++)
		n += c->hosts[i].spec->region == src && link_of(&c->hosts[i], dst);
	return n;
}

bool divider_watches(const struct host *h)
{
	const struct divider *d = h->c->divider;

	for (int i = 0; d && i < d->n; i++)
		for (int k = 0; k < d->links[i].n; k++)
			if (d->links[i].parts[k].host == h)
				return true;
	return false;
}

void divider_wants(const struct host *h, struct tb_monitor *m)
{
	int *period_ms = &m->period_ms[TB_SRC_CLASS];

	if (!divider_watches(h))
		return;
	if (!*period_ms || *period_ms > PERIOD_MS)
		*period_ms = PERIOD_MS;
	if (m->push_ms > PUSH_MS)
		m->push_ms = PUSH_MS;
}

/* ---- what each wants ---- */

/* False: its agent has not reported since the last time. */
static bool read_part(struct part *p, int dst)
{
	const struct link_seen *l = p->host->monitor ? p->host->monitor->to[dst] : NULL;
	const struct estimate_counters *now = l ? &l->counters : NULL;
	bool fresh;

	if (!now || !now->has_last || now->last_ns == p->seen_ns)
		return false;
	fresh = p->seen_ns && now->last_ns > p->seen_ns && now->last_bytes >= p->seen_bytes;
	if (fresh)
		p->sent_bytes = (uint64_t)((double)(now->last_bytes - p->seen_bytes) * PERIOD_MS * 1e6 /
					   (double)(now->last_ns - p->seen_ns));
	p->backlog_bytes = now->last_backlog;
	p->seen_ns = now->last_ns;
	p->seen_bytes = now->last_bytes;
	return fresh;
}

static bool takes_part(const struct part *p)
{
	return host_ready(p->host) && p->host->planned;
}

/* How many share it now, moved to the front of v; 0: nothing is to be done. */
static int read_link(const struct divider *d, struct shared_link *l, struct part **v, uint64_t *capacity_bps)
{
	bool news = false;
	int n = 0;

	*capacity_bps = 0;
	for (int i = 0; i < l->n; i++) {
		struct part *p = &l->parts[i];

		*capacity_bps += link_of(p->host, l->dst)->rate_bps;
		if (!takes_part(p))
			continue;
		if (d->asked[p->host->index])
			return 0;
		news |= read_part(p, l->dst);
		v[n++] = p;
	}
	return news ? n : 0;
}

static bool worth_it(const struct shape_share *share, struct part *const *v, int n)
{
	for (int i = 0; i < n; i++) {
		double had = (double)v[i]->rate_bps, has = (double)share[i].rate_bps;

		if (has < had * (1 - WORTH_IT) || has > had * (1 + WORTH_IT))
			return true;
	}
	return false;
}

static void divide_link(struct divider *d, struct shared_link *l, struct part **v, struct shape_share *share)
{
	uint64_t capacity_bps;
	int n = read_link(d, l, v, &capacity_bps);

	for (int i = 0; i < n; i++)
		share[i] = (struct shape_share){ .sent_bytes = v[i]->sent_bytes, .backlog_bytes = v[i]->backlog_bytes,
						 .rate_bps = v[i]->rate_bps };
	if (!n)
		return;
	shape_divide(capacity_bps, capacity_bps / FLOOR_SHARE, PERIOD_MS * 1000000ll, share, n);
	if (!worth_it(share, v, n))
		return;
	for (int i = 0; i < n; i++)
		v[i]->next_bps = share[i].rate_bps < RATE_MIN_BPS ? RATE_MIN_BPS : share[i].rate_bps;
}

/* ---- telling them ---- */

static void on_changed(void *arg, struct host *h, const json_t *reply, const struct bace_err *err)
{
	struct divider *d = arg;

	d->asked[h->index]--;
	/* One that is gone has said so; another refusal leaves the link divided wrongly. */
	if (err && host_ready(h))
		host_trouble(h, err->msg);
}

static void tell_host(struct divider *d, struct host *h)
{
	struct shape_change v[WIRE_CHANGES_MAX];
	int n = 0;

	for (int i = 0; i < d->n; i++) {
		for (int k = 0; k < d->links[i].n; k++) {
			struct part *p = &d->links[i].parts[k];

			if (p->host != h || !p->next_bps || n == WIRE_CHANGES_MAX)
				continue;
			v[n++] = (struct shape_change){ .region = (uint16_t)d->links[i].dst, .set = SHAPE_SET_RATE,
							.rate_bps = p->next_bps };
			p->rate_bps = p->next_bps;
			p->next_bps = 0;
		}
	}
	if (!n)
		return;
	d->asked[h->index]++;
	host_request(h, json_pack("{s:s,s:o}", "type", "change", "changes", wire_encode_changes(v, n)), ANSWER_S,
		     on_changed, d);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct divider *d = arg;
	size_t n = (size_t)d->c->n_hosts;
	CLEANUP_FREE struct part **v = calloc(n, sizeof(*v));
	CLEANUP_FREE struct shape_share *share = calloc(n, sizeof(*share));

	if (!v || !share)
		return;
	for (int i = 0; i < d->n; i++)
		divide_link(d, &d->links[i], v, share);
	for (int i = 0; i < d->c->n_hosts; i++)
		tell_host(d, &d->c->hosts[i]);
}

static void on_sampled(void *arg, struct host *h, const json_t *reply, const struct bace_err *err)
{
	if (err && host_ready(h))
		host_trouble(h, err->msg);
}

void divider_planned(struct host *h)
{
	struct divider *d = h->c->divider;
	struct tb_monitor off = { 0 };

	for (int i = 0; d && i < d->n; i++)
		for (int k = 0; k < d->links[i].n; k++)
			if (d->links[i].parts[k].host == h)
				d->links[i].parts[k] = (struct part){ .host = h,
					.rate_bps = link_of(h, d->links[i].dst)->rate_bps };
	if (divider_watches(h) && !h->classes_sampled)
		host_request(h, monitor_request(h, &off, false), ANSWER_S, on_sampled, d);
}

/* ---- which links are shared ---- */

static int add_link(struct divider *d, int src, int dst, size_t *cap)
{
	struct controller *c = d->c;
	struct shared_link l = { .src = src, .dst = dst };
	size_t n = (size_t)d->n;

	l.parts = calloc((size_t)c->n_hosts, sizeof(*l.parts));
	if (!l.parts || BACE_PUSH(d->links, n, *cap, l)) {
		free(l.parts);
		return -ENOMEM;
	}
	d->n = (int)n;
	for (int i = 0; i < c->n_hosts; i++)
		if (c->hosts[i].spec->region == src && link_of(&c->hosts[i], dst))
			l.parts[l.n++] = (struct part){ .host = &c->hosts[i] };
	d->links[n - 1].n = l.n;
	return 0;
}

int divider_init(struct controller *c, struct bace_err *e)
{
	const struct timeval period = { .tv_usec = PERIOD_MS * 1000 };
	struct divider *d = calloc(1, sizeof(*d));
	int n = c->cfg.topo->n_regions, rc = d ? 0 : -ENOMEM;
	size_t cap = 0;

	c->divider = d;
	if (d)
		*d = (struct divider){ .c = c, .asked = calloc((size_t)c->n_hosts + 1, sizeof(*d->asked)) };
	for (int i = 0; i < n * n && !rc; i++)
		if (i / n != i % n && divider_sharers(c, i / n, i % n) > 1)
			rc = add_link(d, i / n, i % n, &cap);
	if (!rc && d->n) {
		d->timer = event_new(c->base, -1, EV_PERSIST, on_timer, d);
		rc = d->timer && !event_add(d->timer, &period) ? 0 : -ENOMEM;
	}
	if (!rc && d->asked)
		return 0;
	divider_free(c);
	return bace_fail(e, ENOMEM, "controller of %d hosts: out of memory", c->n_hosts);
}

void divider_free(struct controller *c)
{
	struct divider *d = c->divider;

	c->divider = NULL;
	if (!d)
		return;
	for (int i = 0; i < d->n; i++)
		free(d->links[i].parts);
	if (d->timer)
		event_free(d->timer);
	free(d->links);
	free(d->asked);
	free(d);
}
