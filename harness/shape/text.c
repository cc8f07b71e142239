#include <errno.h>
#include <string.h>

#include "harness/shape/holder.h"
#include "profiles/names.h"

const char *const delay_words[] = { [DELAY_NONE] = "none", [DELAY_NETEM] = "netem", [DELAY_NFQUEUE] = "nfqueue" };

static json_t *prefixes_json(const struct shape_prefix *v, int n)
{
	json_t *a = json_array();
	char text[64];

	for (int i = 0; i < n; i++)
		json_array_append_new(a, json_string(shape_prefix_format(&v[i], text)));
	return a;
}

static void prefixes_text(const struct shape_prefix *v, int n, char *buf, size_t cap)
{
	char text[64];

	*buf = '\0';
	for (int i = 0; i < n && strlen(buf) + 70 < cap; i++)
		snprintf(buf + strlen(buf), cap - strlen(buf), "%s%s", i ? ", " : "", shape_prefix_format(&v[i], text));
	if (n > 4)
		snprintf(buf + strlen(buf), cap - strlen(buf), ", ...");
}

static const char *jitter_word(const struct shape_spec *s, const struct shape_link *l)
{
	return l->jitter_dist == JITTER_TABLE ? s->tables[l->jitter_table].name : jitter_names[l->jitter_dist];
}

/* ---- the plan ---- */
static json_t *impair_json(const struct shape_link *l)
{
	static const char *const models[] = { "random", "gilbert-elliott", "4-state" };
	const struct shape_impair *x = &l->impair;
	json_t *p = json_array();

	for (size_t i = 0; i < ARRAY_LEN(x->loss_p); i++)
		json_array_append_new(p, json_real(x->loss_p[i]));
	return json_pack("{s:f,s:s,s:f,s:o,s:f,s:f,s:f,s:f,s:f,s:f,s:I,s:b,s:I,s:f}", "loss", l->loss,
		"loss_model", models[x->loss_model], "loss_correlation", x->loss_corr, "loss_p", p,
		"duplicate", x->duplicate, "duplicate_correlation", x->duplicate_corr, "corrupt", x->corrupt,
		"corrupt_correlation", x->corrupt_corr, "reorder", x->reorder, "reorder_correlation", x->reorder_corr,
		"reorder_gap", (json_int_t)x->reorder_gap, "ecn", x->ecn, "seed", (json_int_t)x->seed,
		"jitter_correlation", x->jitter_corr);
}

static json_t *link_json(const struct shape_file *f, int host, const struct shape_spec *s, const struct shape_link *l)
{
	const struct shape_path *in = shape_file_path(f, l->region, f->hosts[host].region);
	struct shape_computed c;
	char class[16];

	shape_compute(s, l, &c);
	snprintf(class, sizeof(class), "%x:%x", SHAPE_HANDLE_MAJOR, SHAPE_MINOR_BASE + l->region);
	return json_pack("{s:s,s:s,s:o,s:I,s:I,s:I,s:I,s:I,s:I,s:s,s:I,s:I,s:I,s:o}", "region", l->name, "class", class,
		"prefixes", prefixes_json(l->prefixes, l->n_prefixes), "rate_bps", (json_int_t)l->rate_bps,
		"burst_bytes", (json_int_t)c.burst_bytes, "buffer_bytes", (json_int_t)c.buffer_bytes,
		"latency_ns", (json_int_t)(in ? in->link.latency_ns : 0), "added_latency_ns", (json_int_t)l->latency_ns,
		"jitter_ns", (json_int_t)l->jitter_ns, "jitter_distribution", jitter_word(s, l),
		"delay_limit_pkts", (json_int_t)c.delay_limit_pkts, "rtt_ns", (json_int_t)l->rtt_ns,
		"reverse_rate_bps", (json_int_t)l->reverse_rate_bps, "impair", impair_json(l));
}

json_t *shape_plan_json(const struct shape_file *f, int host, const struct shape_spec *s, const char *why)
{
	const struct shape_host *h = &f->hosts[host];
	json_t *links = json_array();

	for (int i = 0; i < s->n_links; i++)
		json_array_append_new(links, link_json(f, host, s, &s->links[i]));
	return json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:i,s:I,s:o}", "file", f->path, "host", h->name, "region",
		f->regions[h->region].name, "mode", shape_mode_names[f->mode], "egress", s->egress, "ingress", s->ingress,
		"delay", delay_words[s->delay], "delay_why", why, "mtu", (int)s->mtu, "gso_max_bytes",
		(json_int_t)s->gso_max_bytes, "links", links);
}

static int more_text(const struct shape_link *l, struct bace_buf *b)
{
	const struct shape_impair *x = &l->impair;
	int rc = 0;

	if (x->loss_model == LOSS_GILBERT_ELLIOTT)
		rc = bace_buf_addf(b, ", bursts of loss (Gilbert-Elliott)");
	if (x->loss_model == LOSS_4STATE)
		rc = bace_buf_addf(b, ", bursts of loss (4-state)");
	if (!rc && l->loss > 0)
		rc = bace_buf_addf(b, ", loss %.4g %%", 100 * l->loss);
	if (!rc && x->duplicate > 0)
		rc = bace_buf_addf(b, ", duplicates %.4g %%", 100 * x->duplicate);
	if (!rc && x->corrupt > 0)
		rc = bace_buf_addf(b, ", corrupts %.4g %%", 100 * x->corrupt);
	if (!rc && x->reorder > 0)
		rc = bace_buf_addf(b, ", reorders %.4g %%", 100 * x->reorder);
	return rc || !x->ecn ? rc : bace_buf_addf(b, ", marks with ECN");
}

static int link_text(const struct shape_file *f, int host, const struct shape_spec *s, const struct shape_link *l,
		     struct bace_buf *b)
{
	const struct shape_path *in = shape_file_path(f, l->region, f->hosts[host].region);
	char rate[BACE_FMT_MAX], buffer[BACE_FMT_MAX], burst[BACE_FMT_MAX], t[BACE_FMT_MAX], u[BACE_FMT_MAX], p[320];
	struct shape_computed c;
	int rc;

	shape_compute(s, l, &c);
	prefixes_text(l->prefixes, l->n_prefixes, p, sizeof(p));
	rc = bace_buf_addf(b, "\n%s  (%s)\n", l->name, p);
	if (!rc && l->rate_bps)
		rc = bace_buf_addf(b, "  to it    %s, buffer %s, burst %s; class %x:%x on %s\n",
				   bace_fmt_rate(rate, (double)l->rate_bps), bace_fmt_size(buffer, (double)c.buffer_bytes),
				   bace_fmt_size(burst, (double)c.burst_bytes), SHAPE_HANDLE_MAJOR,
				   SHAPE_MINOR_BASE + l->region, s->egress);
	else if (!rc)
		rc = bace_buf_addf(b, "  to it    not limited\n");
	if (rc || !in)
		return rc;
	rc = bace_buf_addf(b, "  from it  %s one way", bace_fmt_time(t, (double)in->link.latency_ns / 1e9));
	if (!rc && in->own_latency_ns)
		rc = bace_buf_addf(b, " (%s added)", bace_fmt_time(t, (double)l->latency_ns / 1e9));
	if (!rc && l->jitter_ns)
		rc = bace_buf_addf(b, ", jitter %s %s", bace_fmt_time(u, (double)l->jitter_ns / 1e9),
				   jitter_word(s, l));
	if (!rc)
		rc = more_text(l, b);
	return rc ? rc : bace_buf_addf(b, "; RTT %s\n", bace_fmt_time(t, (double)l->rtt_ns / 1e9));
}

int shape_plan_text(const struct shape_file *f, int host, const struct shape_spec *s, const char *why,
		    struct bace_buf *b)
{
	const struct shape_host *h = &f->hosts[host];
	int rc = bace_buf_addf(b, "%s%sregion %s, %s, egress %s%s%s, MTU %u; delay by %s (%s)\n", h->name,
			       h->name[0] ? ": " : "", f->regions[h->region].name, shape_mode_names[f->mode], s->egress,
			       s->ingress[0] ? ", ingress " : "", s->ingress, s->mtu, delay_words[s->delay], why);

	for (int i = 0; i < s->n_links && !rc; i++)
		rc = link_text(f, host, s, &s->links[i], b);
	return rc;
}

/* ---- what there is ---- */
static const char *region_name(const struct shape_file *f, const json_t *held, int region, char *buf, size_t cap)
{
	const json_t *names = held ? json_object_get(held, "links") : NULL, *l;
	size_t i;

	if (f && region < f->n_regions)
		return f->regions[region].name;
	json_array_foreach(names, i, l)
		if (json_integer_value(json_object_get(l, "index")) == region)
			return json_string_value(json_object_get(l, "region"));
	snprintf(buf, cap, "region %d", region);
	return buf;
}

json_t *shape_show_json(const struct shape_seen *seen, const struct shape_file *f, const json_t *held)
{
	json_t *ifs = json_array();
	char name[32];

	for (size_t i = 0; i < seen->n; i++) {
		json_t *v = json_array();

		for (size_t k = 0; k < seen->v[i].n; k++) {
			const struct shape_seen_class *c = &seen->v[i].v[k];

			json_array_append_new(v, json_pack("{s:s,s:i,s:s,s:o,s:I,s:I,s:I,s:I,s:f,s:I,s:I,s:I,s:I}", "region",
				region_name(f, held, c->region, name, sizeof(name)), "index", (int)c->region, "direction",
				c->by_source ? "from" : "to", "prefixes", prefixes_json(c->prefixes, c->n_prefixes), "rate_bps",
				(json_int_t)c->rate_bps, "buffer_bytes", (json_int_t)c->buffer_bytes, "latency_ns",
				(json_int_t)c->latency_ns, "jitter_ns", (json_int_t)c->jitter_ns, "loss", c->loss, "bytes",
				(json_int_t)c->bytes, "packets", (json_int_t)c->packets, "drops", (json_int_t)c->drops,
				"backlog_bytes", (json_int_t)c->backlog_bytes));
		}
		json_array_append_new(ifs, json_pack("{s:s,s:o}", "interface", seen->v[i].ifname, "links", v));
	}
	return json_pack("{s:o,s:b,s:I,s:I,s:O?}", "interfaces", ifs, "delay_line", seen->queue_bound, "queue_drops",
			 (json_int_t)seen->queue_drops, "user_drops", (json_int_t)seen->user_drops, "held", held);
}

static int class_text(const struct shape_seen_class *c, const char *name, struct bace_buf *b)
{
	char a[BACE_FMT_MAX], t[BACE_FMT_MAX], s[BACE_FMT_MAX], p[320];
	int rc;

	prefixes_text(c->prefixes, c->n_prefixes < 5 ? c->n_prefixes : 4, p, sizeof(p));
	rc = bace_buf_addf(b, "  %s %s (%s):", c->by_source ? "from" : "to", name, p);
	if (!rc && c->rate_bps)
		rc = bace_buf_addf(b, " %s, buffer %s,", bace_fmt_rate(a, (double)c->rate_bps),
				   bace_fmt_size(s, (double)c->buffer_bytes));
	if (!rc && c->netem)
		rc = bace_buf_addf(b, " %s one way%s%s,", bace_fmt_time(t, (double)c->latency_ns / 1e9),
				   c->jitter_ns ? ", jitter " : "",
				   c->jitter_ns ? bace_fmt_time(a, (double)c->jitter_ns / 1e9) : "");
	if (!rc && c->loss > 0)
		rc = bace_buf_addf(b, " loss %.4g %%,", 100 * c->loss);
	return rc ? rc : bace_buf_addf(b, " %llu packets (%s), %llu dropped, %s waiting\n", (unsigned long long)c->packets,
				       bace_fmt_size(s, (double)c->bytes), (unsigned long long)c->drops,
				       bace_fmt_size(a, c->backlog_bytes));
}

static int held_text(const json_t *held, struct bace_buf *b)
{
	const json_t *links = json_object_get(held, "links"), *l;
	double left = json_number_value(json_object_get(held, "left_s"));
	char t[BACE_FMT_MAX];
	size_t i;
	int rc = bace_buf_addf(b, "held by process %lld%s%s\n", json_integer_value(json_object_get(held, "pid")),
			       left > 0 ? ", reverts in " : "", left > 0 ? bace_fmt_time(t, left) : "");

	json_int_t repairs = json_integer_value(json_object_get(held, "drift_repairs"));

	if (!rc && repairs)
		rc = bace_buf_addf(b, "  somebody else changed it %lld time%s, and it was put back\n", repairs,
				   repairs == 1 ? "" : "s");
	if (strcmp(json_string_value(json_object_get(held, "delay")), "nfqueue"))
		return rc;
	json_array_foreach(links, i, l)
		if (!rc)
			rc = bace_buf_addf(b, "  from %s: %s one way, %lld packets, %lld lost\n",
				json_string_value(json_object_get(l, "region")),
				bace_fmt_time(t, json_number_value(json_object_get(l, "latency_ns")) / 1e9),
				json_integer_value(json_object_get(l, "delay_packets")),
				json_integer_value(json_object_get(l, "delay_drops")));
	return rc ? rc : bace_buf_addf(b, "  delay line %s, late by %s (p99)\n",
				       json_is_true(json_object_get(held, "delay_alive")) ? "runs" : "is DEAD",
				       bace_fmt_time(t, json_number_value(json_object_get(held, "lateness_p99_ns")) / 1e9));
}

int shape_show_text(const struct shape_seen *seen, const struct shape_file *f, const json_t *held, struct bace_buf *b)
{
	char name[32];
	int rc = 0;

	if (!seen->n && !held)
		return bace_buf_addf(b, "nothing is shaped here%s\n",
				     seen->queue_bound ? ", but a delay line reads NFQUEUE 47806" : "");
	for (size_t i = 0; i < seen->n && !rc; i++) {
		rc = bace_buf_addf(b, "%s\n", seen->v[i].ifname);
		for (size_t k = 0; k < seen->v[i].n && !rc; k++)
			rc = class_text(&seen->v[i].v[k],
					region_name(f, held, seen->v[i].v[k].region, name, sizeof(name)), b);
	}
	return rc || !held ? rc : held_text(held, b);
}
