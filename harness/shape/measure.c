/* The latency that paths have of their own, before anything is shaped. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "harness/shape/shape.h"

#define SAMPLES 20

static struct shape_path *path_of(struct shape_file *f, int from, int to)
{
	const struct shape_path *p = shape_file_path(f, from, to);

	return p ? &f->paths[p - f->paths] : NULL;
}

static int subtract(const struct shape_file *f, struct shape_path *p, int64_t own_ns, struct bace_err *e)
{
	char latency[BACE_FMT_MAX], own[BACE_FMT_MAX];

	if (!p)
		return 0;
	if (p->link.latency_ns && p->link.latency_ns < own_ns)
		return bace_fail(e, EINVAL, "the link from %s to %s has a latency of %s, below the %s that the path itself takes "
				 "(half of its RTT, measured)", f->regions[p->from].name, f->regions[p->to].name,
				 bace_fmt_time(latency, (double)p->link.latency_ns / 1e9), bace_fmt_time(own, (double)own_ns / 1e9));
	p->own_latency_ns = own_ns;
	return 0;
}

static int check_nothing_is_shaped(struct bace_err *e)
{
	struct shape_seen seen;
	bool any;
	int rc = shape_inspect(&seen, e);

	if (rc)
		return rc;
	any = seen.n || seen.queue_bound;
	shape_seen_free(&seen);
	return any ? bace_fail(e, EEXIST, "something is shaped here: to measure the paths themselves, `bace shape clear' first") : 0;
}

int shape_measure_paths(struct shape_file *f, int host, const struct shape_spec *s, int port,
			void (*said)(const char *region, double rtt_min_s), struct bace_err *e)
{
	int here = f->hosts[host].region, rc = check_nothing_is_shaped(e);

	for (int i = 0; i < s->n_links && !rc; i++)
		if (!f->regions[s->links[i].region].probe[0])
			rc = bace_fail(e, EINVAL, "region %s has no `probe' in the file: the address to which its path is measured",
				       s->links[i].name);
	for (int i = 0; i < s->n_links && !rc; i++) {
		int r = s->links[i].region;
		const struct shape_probe p = { .addr = f->regions[r].probe, .port = port, .rtt_samples = SAMPLES };
		struct shape_measured m = { 0 };
		int64_t own_ns;

		rc = shape_probe_rtt(&p, &m, e);
		if (rc)
			break;
		own_ns = (int64_t)(m.rtt_min_s * 1e9 / 2);
		said(s->links[i].name, m.rtt_min_s);
		rc = subtract(f, path_of(f, here, r), own_ns, e);
		if (!rc)
			rc = subtract(f, path_of(f, r, here), own_ns, e);
	}
	return rc;
}
