#include "fixture.h"

#include <errno.h>
#include <ftw.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "results/store.h"

#define MUST(call)                                                            \
	do {                                                                  \
		if (call) {                                                   \
			fprintf(stderr, "fixture: %s\n", e.msg);              \
			abort();                                              \
		}                                                             \
	} while (0)

static const char *const regions[] = { "ireland", "us-east-2", "frankfurt", "tokyo", "singapore", "sydney" };
static const double one_way_s[] = { 0.0412, 0.0125, 0.1103, 0.0868, 0.1289 };	/* ireland to each */
static const char *const policies[] = { "bace", "ldf", "cr-lcf", "bace <b>&\"'" };
static const char *const jobs[] = { "qwen2.5-14b", "falcon-40b", "llama-3.1-70b", "flm-101b" };
static const int stages[] = { 2, 4, 6, 8 };
static const double step_s[] = { 4.1, 9.7, 14.2, 21.8 };

struct filling {
	struct store *s;
	const char *run;
	struct fixture_size size;
	struct bace_rng rng;
};

static void add_links(struct filling *f)
{
	struct bace_err e;

	for (int i = 1; i < 6; i++) {
		for (int back = 0; back < 2; back++) {
			const char *src = regions[back ? i : 0], *dst = regions[back ? 0 : i];
			double latency = one_way_s[i - 1], rate = (6.0 - i) * 1e9;
			double off = 1 + 0.004 * bace_rng_normal(&f->rng);

			MUST(store_add_link_truth(f->s, f->run, &(struct link_truth_row){ .src = src,
				.dst = dst, .rate_bps = rate, .latency_s = latency,
				.scaled_rate_bps = rate * 0.02, .scaled_latency_s = latency * 0.25,
				.buffer_bytes = 250e3, .burst_bytes = 3028, .queue_bytes = 250e3, .gso_max_bytes = 2000,
				.initcwnd_segments = back ? NAN : 242, .delay_limit_packets = 4000 }, &e));
			MUST(store_add_plan_check(f->s, f->run, &(struct plan_check_row){ .src = src,
				.dst = dst, .planned_rtt_s = latency * 0.5,
				.rtt_min_s = latency * 0.5 * off, .rtt_median_s = latency * 0.502 * off,
				.rtt_p99_s = latency * 0.52 * off, .planned_goodput_bps = rate * 0.02 * 0.956,
				.goodput_bps = i == 5 ? 0 : rate * 0.02 * 0.95 * off }, &e));
		}
	}
}

static void add_steps(struct filling *f, int64_t id, double median)
{
	struct bace_err e;

	for (int k = -1; k < f->size.steps; k++) {
		double step = median * (1 + 0.002 * bace_rng_normal(&f->rng));

		MUST(store_add_step(f->s, &(struct step_row){ .placement_id = id, .step = k,
			.step_s = step, .compute_s = 0.7 * step, .stall_s = 0.3 * step }, &e));
	}
}

#define TIME 0.25		/* scale */
#define WORK 0.4		/* of a slot; the rest is the message */

static double slot_s(int n, double step)
{
	return step * TIME / (2 * (4 + n));
}

/* One hop in the middle crosses regions; its messages fill their time but for
 * 2 % of it. */
static void add_transfers(struct filling *f, int64_t id, int region, int n, double step)
{
	double rate = (6.0 - region) * 1e9 * 0.02 * 0.956, latency = one_way_s[region - 1] * TIME;
	double bytes = ((1 - WORK) * 0.98 * slot_s(n, step) - latency) * rate / 8;
	double payload = bytes * (4 * (f->size.steps + 1) + 1);
	struct bace_err e;

	for (int forward = 0; forward < 2; forward++)
		MUST(store_add_transfer(f->s, &(struct transfer_row){ .placement_id = id, .hop = n / 2 - 1,
			.src = regions[forward ? 0 : region], .dst = regions[forward ? region : 0],
			.forward = forward, .payload_bytes = payload, .wire_bytes = payload * 1.046,
			.retrans_bytes = 1514.0 * region, .tc_bytes = payload * 1.049, .rtt_s = 2.1 * latency,
			.min_rtt_s = 2.02 * latency, .congestion_control = "cubic", .valid = true }, &e));
}

/* Forward and backward of four micro-batches on every stage, one after the other. */
static void add_timeline(struct filling *f, int64_t id, int n, double step)
{
	double slot = slot_s(n, step);
	struct bace_err e;

	for (int k = 0; k < f->size.steps; k++) {
		for (int stage = 0; stage < n; stage++) {
			for (int mb = 0; mb < 8; mb++) {
				bool fwd = mb < 4;
				int place = fwd ? mb + stage : 4 + n + (mb - 4) + (n - 1 - stage);
				double start = k * step * TIME + place * slot;
				double late = 0.0003 * bace_rng_uniform(&f->rng);
				bool first = fwd ? stage == 0 : stage == n - 1;

				if (!first)
					MUST(store_add_op(f->s, &(struct op_row){ .placement_id = id,
						.stage = stage, .step = k, .micro_batch = mb % 4,
						.kind = fwd ? "recvF" : "recvB",
						.start_s = start - (1 - WORK) * slot, .end_s = start,
						.planned_end_s = start }, &e));
				MUST(store_add_op(f->s, &(struct op_row){ .placement_id = id, .stage = stage,
					.step = k, .micro_batch = mb % 4, .kind = fwd ? "F" : "B",
					.start_s = start, .end_s = start + WORK * slot + late,
					.planned_end_s = start + WORK * slot }, &e));
			}
		}
	}
}

static void add_simulated(struct filling *f, int64_t id, int n, double step)
{
	double slot = slot_s(n, step);
	struct bace_err e;

	for (int stage = 0; stage < n; stage++) {
		for (int mb = 0; mb < 8; mb++) {
			bool fwd = mb < 4;
			int place = fwd ? mb + stage : 4 + n + (mb - 4) + (n - 1 - stage);

			MUST(store_add_sim_op(f->s, &(struct op_row){ .placement_id = id, .stage = stage,
				.step = 0, .micro_batch = mb % 4, .kind = fwd ? "F" : "B",
				.start_s = place * slot, .end_s = (place + WORK) * slot }, &e));
		}
	}
}

/* As bace robust, overhead and claims write them. */
static void add_robust(struct filling *f)
{
	static const double noise[] = { 0, 0.1, 0.2, 0.3 }, delay[] = { 0, 0.005, 0.02, 3600 };
	static const char *const against[] = { "ldf; as given, links static, prices flat",
		"ldf; links bind, links slow, prices flat", "cr-lcf; as given, links static, prices flat" };
	struct bace_err e;

	for (int a = 0; a < 3; a++)
		for (int m = 0; m < 2; m++)
			for (int x = 0; x < 4; x++)
				for (int y = 0; y < 4; y++)
					MUST(store_add_comparison(f->s, f->run, &(struct comparison_row){ .kind = "robust",
						.subject = "bace", .against = against[a], .metric = m ? "cost_gain" : "jct_gain",
						.x = noise[x], .y = delay[y], .value = 0.31 - 0.11 * x - 0.05 * y - 0.02 * a,
						.lo = 0.2 - 0.11 * x, .hi = 0.35, .n = 100,
						.verdict = x > 1 ? "FAILS" : "HOLDS" }, &e));
}

static void add_overhead(struct filling *f)
{
	static const char *const methods[] = { "counters", "tcp_info", "probe 24 kB" };
	struct bace_err e;

	for (int m = 0; m < 3; m++) {
		for (int p = 0; p < 4; p++) {
			double cost = 0.4 * (m + 1) / (p + 1), seen = m == 2 ? 0.025 * pow(10, p) : NAN;
			const struct { const char *metric; double value, lo, hi; } rows[] = {
				{ "inflation_percent", cost, 0.75 * cost, 1.25 * cost },
				{ "agent_cpu_percent", 0.52, NAN, NAN }, { "wire_bytes_per_s", 8590, NAN, NAN },
				{ "probe_bytes_per_s", m == 2 ? 461230 : 0, NAN, NAN },
				{ "detection_loaded_s", seen, NAN, NAN }, { "error_loaded_percent", 1.3, NAN, NAN } };

			for (size_t i = 0; i < ARRAY_LEN(rows); i++)
				if (!isnan(rows[i].value))
					MUST(store_add_comparison(f->s, f->run, &(struct comparison_row){
						.kind = "overhead", .subject = methods[m], .against = "off",
						.metric = rows[i].metric, .x = 0.01 * pow(10, p), .y = seen,
						.value = rows[i].value, .lo = rows[i].lo, .hi = rows[i].hi, .n = 40,
						.verdict = "valid" }, &e));
		}
	}
}

static void add_claims(struct filling *f)
{
	static const char *const arms[] = { "k_min", "k_star", "swept" };
	static const char *const metrics[] = { "mean_percent", "q05_percent", "median_percent", "q95_percent",
		"direction_percent", "in_range_percent" };
	static const double values[] = { 12, -31.5, 10.5, 55, 60, 40 };
	struct bace_err e;

	for (int arm = 0; arm < 3; arm++)
		for (int m = 0; m < 6; m++)
			MUST(store_add_comparison(f->s, f->run, &(struct comparison_row){ .kind = "claims",
				.subject = "ldf", .against = arms[arm], .metric = metrics[m], .x = NAN, .y = NAN,
				.value = values[m] + 2 * arm, .lo = m ? NAN : 9, .hi = m ? NAN : 15, .n = 1000,
				.published = "JCT gain 27.9 to 64.7 %", .verdict = "direction only" }, &e));
}

static void add_placement(struct filling *f, int policy, int job, bool valid)
{
	double slower = 1 + 0.09 * policy * (job % 2), sim = step_s[job] * slower;
	double median = sim * (1.01 + 0.008 * bace_rng_normal(&f->rng));
	char text[128], moment[192];
	struct bace_err e;
	int64_t id;
	bool measured = valid && f->size.measured;

	snprintf(text, sizeof(text), "%s:%d > %s:%d", regions[0], stages[job] / 2, regions[1 + (job + policy) % 5],
		 stages[job] / 2);
	snprintf(moment, sizeof(moment), "%s@%s", jobs[job], text);
	MUST(store_add_placement(f->s, f->run, &(struct placement_row){ .policy = policies[policy],
		.job = jobs[job], .placement = text, .stages = stages[job], .micro_batches = 16,
		.moment = moment, .jobs_at_once = 2, .closed_form_s = sim * 0.94, .event_sim_s = sim,
		.valid = valid, .invalid_why = valid ? "" : "shaperd on ireland-gw died",
		.n_steps = measured ? f->size.steps : 0, .measured_median_s = measured ? median : NAN,
		.measured_p95_s = measured ? median * 1.006 : NAN,
		.measured_first_s = measured ? median * 1.004 : NAN,
		.compute_s = measured ? median * 0.7 : NAN }, &id, &e));
	if (!measured)
		return;
	add_steps(f, id, median);
	add_transfers(f, id, 1 + (job + policy) % 5, stages[job], median);
	if (f->size.timeline) {
		add_timeline(f, id, stages[job], median);
		add_simulated(f, id, stages[job], sim);
	}
}

static void add_outcomes(struct filling *f, int policy)
{
	static const char *const oracles[] = { "closed-form", "event-sim", "measured" };
	struct bace_err e;

	for (int o = 0; o < (f->size.measured ? 3 : 2); o++) {
		for (int j = 0; j < 4; j++) {
			double factor = (1 + 0.12 * policy) * (o ? o == 1 ? 1 : 1.012 : 0.94);
			double run_s = step_s[j] * 4000 * factor;

			MUST(store_add_job_outcome(f->s, f->run, &(struct job_outcome_row){
				.policy = policies[policy], .oracle = oracles[o], .job = jobs[j],
				.finished = true, .arrival_s = 0, .start_s = j * 600.0, .finish_s = j * 600.0 +
				run_s, .jct_s = j * 600.0 + run_s, .waiting_s = j * 600.0, .slowdown = factor,
				.energy_j = run_s * stages[j] * 240, .cost_usd = run_s * stages[j] * 240 / 3.6e6 *
				(0.22 - 0.02 * policy), .mean_step_s = step_s[j] * factor,
				.placement = "ireland:2 > frankfurt:1" }, &e));
		}
		MUST(store_add_decision(f->s, f->run, &(struct decision_row){ .policy = policies[policy],
			.oracle = oracles[o], .at_s = 0, .view_digest = UINT64_MAX - 3, .latency_s = 41e-6,
			.job = jobs[0] }, &e));
	}
}

void fixture_run(struct store *s, uint64_t seed, struct fixture_size size, char id[32])
{
	struct filling f = { .s = s, .run = id, .size = size };
	double median[] = { 4.1, 9.8 }, busy[] = { 0.7, NAN };
	struct bace_err e;

	bace_rng_init(&f.rng, seed, 0);
	MUST(store_run_begin(s, &(struct run_info){ .command = "bace run six-regions.cfg",
		.experiment = "six-regions", .config_text = "# <config> & \"text\"\ncluster = 'x';\n",
		.config_hash = 0xfedcba9876543210, .seed = UINT64_MAX, .version = "0.1.0",
		.kernel = "6.1.0", .backend = size.measured ? "nfqueue" : NULL,
		.backend_why = size.measured ? "the kernel has no sch_netem" : NULL, .schedule = "1f1b",
		.scale_bytes = 0.005, .scale_time = 0.25 }, id, &e));
	MUST(store_run_set_inventory(s, id, "{\"hosts\": [\"ireland-gw\"]}", &e));
	MUST(store_begin(s, &e));
	add_links(&f);
	for (int p = 0; p < size.policies; p++) {
		for (int j = 0; j < 4; j++) {
			if (p == 1 && j == 2 && size.measured)
				add_placement(&f, p, j, false);
			add_placement(&f, p, j, true);
		}
		add_outcomes(&f, p);
	}
	MUST(store_add_skip(s, id, &(struct skip_row){ .policy = "ldf", .what = "gemma-3-27b",
		.why = "no region has 12 free GPUs <at once>" }, &e));
	add_robust(&f);
	add_overhead(&f);
	add_claims(&f);
	MUST(store_add_moment(s, id, "settings", "a@x;b@y", 2, median, busy, &e));
	MUST(store_commit(s, &e));
	MUST(store_run_end(s, id, "done", &e));
}

static char dir[64];

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	return remove(path);
}

static pid_t owner;

static void remove_dir(void)
{
	if (getpid() == owner)
		nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *fixture_dir(void)
{
	if (dir[0])
		return dir;
	snprintf(dir, sizeof(dir), "/tmp/bace-results-XXXXXX");
	if (!mkdtemp(dir))
		abort();
	owner = getpid();
	atexit(remove_dir);
	return dir;
}

char *fixture_path(const char *name)
{
	char *path;

	if (asprintf(&path, "%s/%s", fixture_dir(), name) < 0)
		abort();
	return path;
}

struct store *fixture_open(const char *name)
{
	CLEANUP_FREE char *path = fixture_path(name);
	struct store *s;
	struct bace_err e;

	MUST(store_open(path, &s, &e));
	return s;
}

int64_t fixture_number(struct store *s, const char *sql)
{
	struct bace_err e;
	sqlite3_stmt *q;
	int64_t n;
	int rc = 0;

	MUST(store_query(s, sql, NULL, &q, &e));
	MUST(!store_next(s, q, &rc, &e) && bace_fail(&e, ENODATA, "%s: no row", sql));
	n = sqlite3_column_int64(q, 0);
	sqlite3_finalize(q);
	return n;
}
