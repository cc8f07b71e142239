#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shaper/calc.h"
#include "shaper/delay/fate.h"
#include "shaper/plan.h"

#define REGION_MAX 0x9000	/* class minors stay below the root's own handle */
#define MTU_MIN 576
#define MTU_MAX 65535

static int check_fraction(const struct shape_link *l, const char *what, double v, struct bace_err *e)
{
	if (!(v >= 0 && v <= 1))
		return bace_fail(e, EINVAL, "link `%s': %s = %g: must be 0 to 1", l->name, what, v);
	return 0;
}

static int check_impair(const struct shape_link *l, struct bace_err *e)
{
	const struct shape_impair *x = &l->impair;
	const struct {
		const char *what;
		double v;
	} fractions[] = {
		{ "loss", l->loss }, { "jitter correlation", x->jitter_corr },
		{ "loss correlation", x->loss_corr }, { "loss p[0]", x->loss_p[0] },
		{ "loss p[1]", x->loss_p[1] }, { "loss p[2]", x->loss_p[2] },
		{ "loss p[3]", x->loss_p[3] }, { "loss p[4]", x->loss_p[4] },
		{ "duplicate", x->duplicate }, { "duplicate correlation", x->duplicate_corr },
		{ "corrupt", x->corrupt }, { "corrupt correlation", x->corrupt_corr },
		{ "reorder", x->reorder }, { "reorder correlation", x->reorder_corr },
	};

	for (size_t i = 0; i < ARRAY_LEN(fractions); i++)
		if (check_fraction(l, fractions[i].what, fractions[i].v, e))
			return -EINVAL;
	if (x->reorder > 0 && l->latency_ns <= 0)
		return bace_fail(e, EINVAL, "link `%s': reorder needs a latency: packets that are sent at once overtake those that wait", l->name);
	return 0;
}

static int check_rate(const struct shape_link *l, struct bace_err *e)
{
	char buf[BACE_FMT_MAX];

	if (l->rate_bps && (l->rate_bps < CALC_RATE_MIN_BPS || l->rate_bps > CALC_RATE_MAX_BPS))
		return bace_fail(e, EINVAL, "link `%s': rate %s: must be 8 kbit/s to 4 Tbit/s",
				 l->name, bace_fmt_rate(buf, (double)l->rate_bps));
	return 0;
}

int spec_check_link(const struct shape_link *l, struct bace_err *e)
{
	char buf[BACE_FMT_MAX];

	if (l->region >= REGION_MAX)
		return bace_fail(e, EINVAL, "link `%s': region %u: at most %u regions", l->name, l->region, REGION_MAX);
	if (l->n_prefixes < 1 || l->n_prefixes > (int)ARRAY_LEN(l->prefixes))
		return bace_fail(e, EINVAL, "link `%s': %d prefixes: must be 1 to %zu", l->name, l->n_prefixes,
				 ARRAY_LEN(l->prefixes));
	if (l->latency_ns < 0 || l->latency_ns > CALC_LATENCY_MAX_NS)
		return bace_fail(e, EINVAL, "link `%s': latency %s: must be 0 to 60 s", l->name,
				 bace_fmt_time(buf, (double)l->latency_ns / 1e9));
	if (l->jitter_ns < 0 || l->jitter_ns > l->latency_ns)
		return bace_fail(e, EINVAL, "link `%s': jitter %s: must be 0 to the latency", l->name,
				 bace_fmt_time(buf, (double)l->jitter_ns / 1e9));
	if (l->jitter_ns && l->jitter_dist == JITTER_NONE)
		return bace_fail(e, EINVAL, "link `%s': jitter without a distribution", l->name);
	if (l->rtt_ns < 0 || l->rtt_ns > 2 * CALC_LATENCY_MAX_NS)
		return bace_fail(e, EINVAL, "link `%s': RTT %s: must be 0 to 120 s", l->name,
				 bace_fmt_time(buf, (double)l->rtt_ns / 1e9));
	if (l->buffer_bytes > UINT32_MAX)
		return bace_fail(e, EINVAL, "link `%s': buffer %s: must be below 4 GiB", l->name,
				 bace_fmt_size(buf, (double)l->buffer_bytes));
	if (check_rate(l, e))
		return -EINVAL;
	return check_impair(l, e);
}

static int check_regions_differ(const struct shape_spec *s, struct bace_err *e)
{
	CLEANUP_FREE int *seen = calloc(REGION_MAX, sizeof(*seen));

	if (!seen)
		return bace_fail(e, ENOMEM, "out of memory");
	for (int i = 0; i < s->n_links; i++) {
		int *other = &seen[s->links[i].region];

		if (*other)
			return bace_fail(e, EINVAL, "links `%s' and `%s' have the same region number %u",
					 s->links[*other - 1].name, s->links[i].name, s->links[i].region);
		*other = i + 1;
	}
	return 0;
}

static int check_tables(const struct shape_spec *s, struct bace_err *e)
{
	if (s->n_tables < 0 || s->n_tables > JITTER_TABLES_MAX)
		return bace_fail(e, EINVAL, "%d jitter tables: at most %d", s->n_tables, JITTER_TABLES_MAX);
	for (int i = 0; i < s->n_tables; i++)
		if (s->tables[i].n < JITTER_TABLE_MIN || s->tables[i].n > JITTER_TABLE_MAX)
			return bace_fail(e, EINVAL, "jitter table `%s': %d numbers: must be %d to %d", s->tables[i].name, s->tables[i].n,
					 JITTER_TABLE_MIN, JITTER_TABLE_MAX);
	for (int i = 0; i < s->n_links; i++)
		if (s->links[i].jitter_dist == JITTER_TABLE && s->links[i].jitter_table >= s->n_tables)
			return bace_fail(e, EINVAL, "link `%s': its jitter table is missing", s->links[i].name);
	return 0;
}

int spec_check(const struct shape_spec *s, struct bace_err *e)
{
	if (s->mtu < MTU_MIN || s->mtu > MTU_MAX)
		return bace_fail(e, EINVAL, "mtu %u: must be %d to %d", s->mtu, MTU_MIN, MTU_MAX);
	if (s->n_links < 0 || s->n_links > REGION_MAX)
		return bace_fail(e, EINVAL, "%d links: an interface has at most %d, one class each",
				 s->n_links, REGION_MAX);
	if (!s->egress[0])
		return bace_fail(e, EINVAL, "no egress interface");
	for (int i = 0; i < s->n_links; i++)
		if (spec_check_link(&s->links[i], e))
			return -e->errnum;
	return check_tables(s, e) ? -e->errnum : check_regions_differ(s, e);
}

int spec_check_backend(const struct shape_spec *spec, struct bace_err *e)
{
	int rc = 0;

	for (int i = 0; i < spec->n_links && spec->delay == DELAY_NFQUEUE && !rc; i++)
		rc = fate_check(&spec->links[i], e);
	if (rc)
		return rc;
	if (spec->delay == DELAY_NONE && plan_delays(spec))
		return bace_fail(e, EINVAL, "links have a latency or loss, but no delay backend is chosen");
	return 0;
}

static void *copy_of(const void *v, int n, size_t size)
{
	void *p = calloc((size_t)n + 1, size);

	if (p && n)
		memcpy(p, v, (size_t)n * size);
	return p;
}

int shape_spec_copy(struct shape_spec *to, const struct shape_spec *from)
{
	*to = *from;
	to->links = copy_of(from->links, from->n_links, sizeof(*to->links));
	to->tables = copy_of(from->tables, from->n_tables, sizeof(*to->tables));
	if (to->links && to->tables)
		return 0;
	shape_spec_free(to);
	return -ENOMEM;
}

static bool all_same(const void *a, int n, const void *b, int m, size_t size)
{
	return n == m && (!n || !memcmp(a, b, (size_t)n * size));
}

bool shape_spec_is_same(const struct shape_spec *a, const struct shape_spec *b)
{
	return !strcmp(a->egress, b->egress) && !strcmp(a->ingress, b->ingress) && a->delay == b->delay && a->mtu == b->mtu &&
	       a->gso_max_bytes == b->gso_max_bytes && a->fail_closed == b->fail_closed &&
	       a->allow_control_interface == b->allow_control_interface && a->replace_foreign == b->replace_foreign &&
	       all_same(a->links, a->n_links, b->links, b->n_links, sizeof(*a->links)) &&
	       all_same(a->tables, a->n_tables, b->tables, b->n_tables, sizeof(*a->tables));
}

void shape_spec_free(struct shape_spec *s)
{
	free(s->links);
	free(s->tables);
	s->links = NULL;
	s->tables = NULL;
	s->n_links = s->n_tables = 0;
}
