#include "fake_bed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "harness/run/bed.h"

struct fake_bed fake_bed;

struct bed {
	struct lab_net net;
	const struct experiment *exp;
};

int bed_open(const struct bed_config *cfg, struct bed **out, struct bace_err *e)
{
	struct bed *b = calloc(1, sizeof(*b));
	int rc = b ? launch_net(&cfg->exp->cluster, &b->net, e) : bace_fail(e, ENOMEM, "bed: out of memory");

	if (rc) {
		free(b);
		return rc;
	}
	b->exp = cfg->exp;
	setenv("BACE_TEST_MEASURING", "1", 1);
	*out = b;
	return 0;
}

void bed_close(struct bed *b)
{
	if (b)
		lab_net_free(&b->net);
	unsetenv("BACE_TEST_MEASURING");
	free(b);
}

int bed_run(struct bed *b, const struct tb_cell *cell, struct tb_result *out, struct bace_err *e)
{
	int steps = cell->warmup_steps + cell->steps, run = ++fake_bed.runs;

	*out = (struct tb_result){ .valid = run < fake_bed.spoil_from || run > fake_bed.spoil_to,
				   .delay_lateness_p99_ns = FAKE_DELAY_LATE_NS };
	if (!out->valid) {
		snprintf(out->invalid_why, sizeof(out->invalid_why), "somebody stood on the cable");
		return 0;
	}
	out->steps = calloc((size_t)(cell->n_jobs * steps), sizeof(*out->steps));
	if (!out->steps)
		return bace_fail(e, ENOMEM, "cell: out of memory");
	for (int j = 0; j < cell->n_jobs; j++)
		for (int i = 0; i < steps; i++)
			out->steps[out->n_steps++] = (struct tb_step){ .job = j, .step = i - cell->warmup_steps,
				.start_ns = 1000000000ll * i, .end_ns = 1000000000ll * (i + 1), .compute_ns = 500000000 };
	return 0;
}

int bed_verify(struct bed *b, int n, struct tb_verify *pairs, double goodput_s, struct bace_err *e)
{
	for (int i = 0; i < n; i++)
		pairs[i].rtt_min_s = pairs[i].rtt_median_s = pairs[i].rtt_p99_s = pairs[i].planned_rtt_s;
	return 0;
}

int bed_look(struct bed *b, double seconds, struct tb_view_link *out, struct bace_err *e)
{
	const struct testbed_spec *t = &b->exp->testbed;
	const struct cluster *c = &b->exp->cluster;

	for (int i = 0; i < c->n_regions * c->n_regions; i++)
		out[i] = (struct tb_view_link){ .known = fake_bed.slow_from && fake_bed.runs >= fake_bed.slow_from,
			.capacity_bps = 0.01 * (double)c->links[i].rate_bps * t->scale_bytes / t->scale_time };
	return 0;
}

int bed_inventory(struct bed *b, char **json, struct bace_err *e)
{
	*json = strdup("{}");
	return *json ? 0 : bace_fail(e, ENOMEM, "inventory: out of memory");
}

const struct lab_net *bed_net(const struct bed *b)
{
	return &b->net;
}

const char *bed_log_tail(const struct bed *b)
{
	return "";
}

const char *bed_lacks(const struct bed *b, size_t i)
{
	return i ? NULL : fake_bed.lacks;
}
