/* A whole run, on a testbed that is not there: what it keeps, what it tries again,
 * what it uses again. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <sqlite3.h>

#include "agent/wire/wire.h"
#include "config.h"
#include "fake_bed.h"
#include "harness/run/internal.h"

static const char *tiny;	/* the experiment's file */

struct bench {
	char dir[40], store[64], key[64], id[32];
	struct experiment exp;
	struct launch_options launch;
	struct run_options o;
	struct bace_err e;
	char said[8192];	/* progress */
};

static void hear(void *arg, const char *line)
{
	struct bench *b = arg;
	size_t n = strlen(b->said);

	snprintf(b->said + n, sizeof(b->said) - n, "%s\n", line);
}

/* Two hosts in each of the two regions, each shaping for itself. */
static void add_hosts(struct cluster *c)
{
	c->hosts = calloc(4, sizeof(*c->hosts));
	assert_non_null(c->hosts);
	for (int i = 0; i < 4; i++) {
		struct cluster_host *h = &c->hosts[c->n_hosts++];

		*h = (struct cluster_host){ .region = i / 2, .egress = "eth1", .ingress = "eth1" };
		snprintf(h->name, sizeof(h->name), "h%d", i);
		snprintf(h->address, sizeof(h->address), "10.0.%d.%d", i / 2, i);
	}
}

static int setup(void **state)
{
	struct bench *b = calloc(1, sizeof(*b));
	struct bace_diags diags = { 0 };

	*state = b;
	snprintf(b->dir, sizeof(b->dir), "/tmp/bace-test-run-XXXXXX");
	if (!mkdtemp(b->dir))
		return -1;
	snprintf(b->store, sizeof(b->store), "%s/x.db", b->dir);
	snprintf(b->key, sizeof(b->key), "%s/key", b->dir);
	assert_int_equal(wire_key_generate(b->key, &b->e), 0);
	assert_int_equal(experiment_load(tiny, &b->exp, &diags, &b->e), 0);
	add_hosts(&b->exp.cluster);
	b->launch = (struct launch_options){ .kind = LAUNCH_MANUAL, .controller = "127.0.0.1:1", .key_path = b->key };
	b->o = (struct run_options){ .self = "bace", .command = "bace run", .store_path = b->store, .launch = &b->launch,
				     .on_progress = hear, .arg = b };
	fake_bed = (struct fake_bed){ 0 };
	return 0;
}

static int teardown(void **state)
{
	struct bench *b = *state;
	char path[80];

	for (int i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s%s", b->store, (const char *[]){ "", "-wal", "-shm", "" }[i]);
		unlink(i < 3 ? path : b->key);
	}
	snprintf(path, sizeof(path), "%s/asked", b->dir);
	rmdir(path);
	rmdir(b->dir);
	experiment_free(&b->exp);
	free(b);
	return 0;
}

static double number(const struct bench *b, const char *sql)
{
	sqlite3_stmt *q;
	sqlite3 *db;
	double v;

	assert_int_equal(sqlite3_open_v2(b->store, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	if (sqlite3_prepare_v2(db, sql, -1, &q, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	sqlite3_bind_text(q, 1, b->id, -1, SQLITE_STATIC);
	assert_int_equal(sqlite3_step(q), SQLITE_ROW);
	v = sqlite3_column_type(q, 0) == SQLITE_NULL ? NAN : sqlite3_column_double(q, 0);
	sqlite3_finalize(q);
	sqlite3_close(db);
	return v;
}

static int run(struct bench *b)
{
	b->said[0] = '\0';
	b->e = (struct bace_err){ 0 };
	return run_experiment(&b->exp, &b->o, b->id, &b->e);
}

/* Every question to every policy by every oracle, and every job where it was placed. */
static void decisions_are_kept(void **state)
{
	struct bench *b = *state;

	if (run(b))
		fail_msg("%s", b->e.msg);
	assert_true(number(b, "SELECT count(*) FROM (SELECT DISTINCT policy, oracle FROM decision WHERE run_id = ?1)") == 6);
	assert_true(number(b, "SELECT count(*) FROM job_outcome o WHERE run_id = ?1") == 12);
	assert_true(number(b, "SELECT count(*) FROM job_outcome o JOIN decision d USING (run_id, policy, oracle, job) WHERE"
			   " run_id = ?1 AND d.at_s = o.start_s") == 12);
	assert_true(number(b, "SELECT count(*) FROM decision WHERE job IS NOT NULL") == 12);
	/* An empty cluster with one job waiting is told in the same words by all three. */
	assert_true(number(b, "SELECT count(DISTINCT view_digest) FROM decision WHERE policy = 'ldf' AND at_s = 0 AND job ="
			   " 'gpt2-a'") == 1);
	assert_true(number(b, "SELECT count(DISTINCT view_digest) FROM decision WHERE policy = 'ldf'") > 1);
	assert_true(number(b, "SELECT count(*) FROM decision WHERE latency_s IS NULL OR latency_s < 0 OR"
			   " length(view_digest) <> 16") == 0);
}

static void an_answer_that_never_comes_is_kept(void **state)
{
	struct bench *b = *state;
	struct policy_spec *p = &b->exp.policies[1];

	b->exp.oracle_measured = false;
	snprintf(p->name, sizeof(p->name), "external");
	p->command = strdup("exit 3");
	p->timeout_s = 5;
	assert_int_equal(run(b), -ENOMSG);
	/* Once as each of the two jobs comes. */
	assert_true(number(b, "SELECT count(*) FROM skip WHERE run_id = ?1 AND policy = 'ldf' AND what ="
			   " 'closed-form: 2 questions not answered' AND why <> ''") == 1);
	assert_true(number(b, "SELECT count(*) FROM skip WHERE what LIKE '%not answered'") == 2);
	assert_non_null(strstr(b->said, "ldf by event-sim: 2 questions not answered"));
	assert_null(strstr(b->e.msg, "--resume"));
}

/* The second cell of the second policy comes back spoilt, twice; then all is well. */
static void a_policy_is_tried_again(void **state)
{
	struct bench *b = *state;
	double rows;

	if (run(b))
		fail_msg("%s", b->e.msg);
	rows = number(b, "SELECT count(*) FROM placement WHERE run_id = ?1");
	fake_bed = (struct fake_bed){ .spoil_from = 3, .spoil_to = 4 };
	if (run(b))
		fail_msg("%s", b->e.msg);
	assert_non_null(strstr(b->said, "ldf by measured: cell invalid: somebody stood on the cable; tried again"));
	assert_true(number(b, "SELECT count(*) FROM skip") == 0);
	assert_true(number(b, "SELECT count(*) FROM job_outcome WHERE run_id = ?1 AND oracle = 'measured' AND finished") == 4);
	/* What did not count is there; what did, once. */
	assert_true(number(b, "SELECT count(*) FROM placement WHERE run_id = ?1 AND NOT valid") > 0);
	assert_true(number(b, "SELECT count(*) FROM placement WHERE run_id = ?1 AND valid") == rows);
	/* The decisions are of the simulation that went through. */
	assert_true(number(b, "SELECT count(*) FROM decision WHERE run_id = ?1 AND oracle = 'measured' AND job IS NOT NULL") == 4);
}

/* Its first question on the testbed goes without an answer; a cell spoils that try anyway. */
static void an_answer_that_comes_when_tried_again(void **state)
{
	struct bench *b = *state;
	struct policy_spec *p = &b->exp.policies[0];
	int rc;

	snprintf(p->name, sizeof(p->name), "external");
	if (asprintf(&p->command, "test -n \"$BACE_TEST_MEASURING\" && mkdir %s/asked 2>/dev/null && exit 3;"
		     " exec python3 " BACE_SOURCE_ROOT "/profiles/policies/largest_region.py", b->dir) < 0)
		fail();
	p->timeout_s = 60;
	b->exp.n_policies = 1;
	fake_bed = (struct fake_bed){ .spoil_from = 1, .spoil_to = 2 };
	rc = run(b);
	b->exp.n_policies = 2;
	if (rc)
		fail_msg("%s\n%s", b->e.msg, b->said);
	assert_non_null(strstr(b->said, "tried again"));
	snprintf(b->said, sizeof(b->said), "%s/asked", b->dir);
	assert_int_equal(access(b->said, F_OK), 0);
	assert_true(number(b, "SELECT count(*) FROM skip") == 0);
}

/* The second cell is spoilt, and by then agents say that links are slow: jobs go elsewhere. */
static void a_policy_is_told_otherwise_when_tried_again(void **state)
{
	struct bench *b = *state;
	int rc;

	b->exp.n_policies = 1;
	b->exp.jobs[1].micro_batches = 2;	/* else the two are one moment */
	b->o.reports = true;
	fake_bed = (struct fake_bed){ .spoil_from = 2, .spoil_to = 3, .slow_from = 3 };
	rc = run(b);
	b->exp.n_policies = 2;
	if (rc)
		fail_msg("%s\n%s", b->e.msg, b->said);
	assert_non_null(strstr(b->said, "tried again"));
	/* What was measured first is there to be used again, and is no longer that policy's. */
	assert_true(number(b, "SELECT count(*) FROM moment WHERE moment NOT IN (SELECT moment FROM placement)") == 1);
	assert_true(number(b, "SELECT count(DISTINCT job) FROM placement WHERE valid") == 2);
	assert_true(number(b, "SELECT count(*) FROM placement p WHERE valid AND NOT EXISTS (SELECT 1 FROM job_outcome o WHERE"
			   " o.oracle = 'measured' AND o.job = p.job AND o.placement = p.placement)") == 0);
	assert_true(number(b, "SELECT count(*) FROM step WHERE placement_id NOT IN (SELECT id FROM placement)") == 0);
}

/* `bace check' simulates for no longer than it is given. */
static void a_look_ends(void **state)
{
	struct bench *b = *state;
	struct run r = { .exp = &b->exp };

	assert_int_equal(job_models_build(&b->exp, &r.models, &b->e), 0);
	traffic_of(&b->exp, &r.models, &r.traffic);
	preflight_simulate(&r, bace_mono_ns());
	assert_true(!r.busiest && !r.cells_expected);
	preflight_simulate(&r, INT64_MAX);
	assert_true(r.busiest && r.cells_expected > 0);
	oracle_destroy(r.event_sim);
	job_models_free(&r.models);
}

static void a_cell_that_never_counts(void **state)
{
	struct bench *b = *state;

	b->exp.n_policies = 1;
	fake_bed = (struct fake_bed){ .spoil_from = 1, .spoil_to = 1000 };
	assert_int_equal(run(b), -EBADMSG);
	b->exp.n_policies = 2;
	assert_int_equal(fake_bed.runs, 4);
	assert_non_null(strstr(b->e.msg, "--resume"));
	assert_non_null(strstr(b->e.msg, b->id));
	assert_true(number(b, "SELECT count(*) FROM skip WHERE run_id = ?1 AND policy = 'bace' AND what = 'measured' AND"
			   " why LIKE '%somebody stood%'") == 1);
	assert_true(number(b, "SELECT count(*) FROM decision WHERE oracle = 'measured'") >= 1);
}

/* Nothing failed; but the report must not look like a lab's. */
static void what_hosts_lack_is_kept(void **state)
{
	struct bench *b = *state;

	fake_bed = (struct fake_bed){ .lacks = "ireland-0: for wan = \"steady\", as root: ..." };
	b->exp.n_policies = 1;
	if (run(b))
		fail_msg("%s", b->e.msg);
	b->exp.n_policies = 2;
	assert_true(number(b, "SELECT count(*) FROM skip") == 1);
	assert_true(number(b, "SELECT count(*) FROM skip WHERE run_id = ?1 AND policy = '' AND"
			   " what = 'wan = steady is not in force' AND why LIKE 'ireland-0: %'") == 1);
}

/* How many cells a run of the first n policies takes. */
static int cells(struct bench *b, int n, bool reuse)
{
	int had = b->exp.n_policies;

	b->exp.n_policies = n;
	b->o.reuse = reuse;
	fake_bed.runs = 0;
	if (run(b))
		fail_msg("%s", b->e.msg);
	b->exp.n_policies = had;
	return fake_bed.runs;
}

/* A policy more is another text, and nothing that a cell could tell. */
static void another_policy_uses_what_was_measured(void **state)
{
	struct bench *b = *state;
	int one = cells(b, 1, true), more, all;

	b->exp.text_hash++;
	more = cells(b, 2, true);
	all = cells(b, 2, false);
	assert_true(one > 0 && more < all);
	assert_int_equal(one + more, all);
	assert_int_equal(cells(b, 2, true), 0);
	for (int i = 0; i < b->exp.cluster.n_regions; i++)
		b->exp.cluster.regions[i].price.usd_per_kwh[0] *= 2;
	assert_int_equal(cells(b, 1, true), 0);
	b->exp.testbed.socket_buffer_bytes = 100000;
	assert_int_equal(cells(b, 2, true), all);
}

static void what_was_computed_is_kept(void **state)
{
	struct bench *b = *state;

	if (run(b))
		fail_msg("%s", b->e.msg);
	assert_true(number(b, "SELECT min(delay_lateness_p99_s) FROM placement WHERE run_id = ?1") == FAKE_DELAY_LATE_NS / 1e9);
	assert_true(number(b, "SELECT count(*) FROM link_truth WHERE burst_bytes >= 3028 AND queue_bytes > burst_bytes AND"
			   " gso_max_bytes BETWEEN 1514 AND 65536 AND delay_limit_packets > 0") == 2);
	/* bace sets no routes on hosts that are not its own. */
	assert_true(number(b, "SELECT count(initcwnd_segments) FROM link_truth") == 0);
	b->exp.oracle_measured = false;
	if (run(b))
		fail_msg("%s", b->e.msg);
	assert_true(number(b, "SELECT count(*) FROM link_truth WHERE run_id = ?1 AND burst_bytes IS NULL AND queue_bytes IS"
			   " NULL AND gso_max_bytes IS NULL") == 2);
}

static void a_small_buffer_is_said(void **state)
{
	struct bench *b = *state;

	b->exp.n_policies = 1;
	if (run(b))
		fail_msg("%s", b->e.msg);
	assert_null(strstr(b->said, "note: "));
	b->exp.cluster.links[1].buffer_bytes = 2000000;	/* scaled: 20 kB */
	if (run(b))
		fail_msg("%s", b->e.msg);
	b->exp.n_policies = 2;
	assert_non_null(strstr(b->said, "note: 1 link has a smaller `buffer' than"));
	assert_non_null(strstr(b->said, "ireland to frankfurt has 20 kB"));
}

int main(int argc, char **argv)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(decisions_are_kept), T(an_answer_that_never_comes_is_kept), T(a_policy_is_tried_again),
		T(a_cell_that_never_counts), T(what_hosts_lack_is_kept), T(another_policy_uses_what_was_measured), T(what_was_computed_is_kept),
		T(a_small_buffer_is_said), T(an_answer_that_comes_when_tried_again),
		T(a_policy_is_told_otherwise_when_tried_again), T(a_look_ends),
	};

	tiny = argv[1];
	return argc == 2 ? cmocka_run_group_tests(tests, NULL, NULL) : 2;
}
