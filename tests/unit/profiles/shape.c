/* Shape files: what they say, and every kind of bad input, all of it at once. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "config.h"
#include "profiles/profiles.h"

static const char good[] =
	"regions = (\n"
	"  { name = \"a\"; prefixes = [ \"10.16.0.0/16\", \"fd00:10::/32\" ]; },\n"
	"  { name = \"b\"; prefixes = [ \"10.17.0.0/16\" ]; probe = \"10.17.0.10\"; }\n"
	");\n"
	"hosts = ( { name = \"g\"; region = \"a\"; egress = \"wan0\"; ingress = \"lan0\"; } );\n"
	"links = (\n"
	"  { from = \"a\"; to = \"b\"; both_ways = true; rate = \"50mbit\"; latency = \"20ms\"; }\n"
	");\n";

static char dir[] = "/tmp/bace-shape-XXXXXX";

static const char *shape_path(void)
{
	static char path[64];

	snprintf(path, sizeof(path), "%s/s.cfg", dir);
	return path;
}

static void write_shape(const char *text)
{
	FILE *f = fopen(shape_path(), "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

struct broken {
	const char *find, *replace;	/* in the good text */
	struct {
		int line;
		const char *text;
	} said[4];
};

static const struct broken broken[] = {
	/* units */
	{ "\"50mbit\"", "\"10Gb\"", { { 7, "key `links[0].rate' = \"10Gb\": " } } },
	{ "\"50mbit\"", "\"25 gbps\"", { { 7, "key `links[0].rate' = \"25 gbps\": " } } },
	{ "\"50mbit\"", "\"1e400gbit\"", { { 7, "key `links[0].rate' = \"1e400gbit\": " } } },
	{ "\"50mbit\"", "\"-5mbit\"", { { 7, "key `links[0].rate' = \"-5mbit\": " } } },
	{ "\"50mbit\"", "50000000", { { 7, "a bare number has none" } } },
	{ "\"50mbit\"", "\"100bit\"", { { 7, "must be from 8 kbit/s to 4 Tbit/s" } } },
	{ "\"20ms\"", "\"20\"", { { 7, "key `links[0].latency' = \"20\": " } } },
	{ "\"20ms\"", "\"61s\"", { { 7, "must be from 0 s to 60 s" } } },
	/* keys and names */
	{ "prefixes = [ \"10.17", "prefixe = [ \"10.17",
	  { { 3, "did you mean `prefixes'?" }, { 3, "key `regions[1].prefixes' is missing" } } },
	{ "to = \"b\"", "to = \"c\"", { { 7, "key `links[0].to' = \"c\": must be a region of this file" } } },
	{ "to = \"b\"", "to = \"a\"", { { 7, "must not be the same region" } } },
	{ "region = \"a\"", "region = \"x\"", { { 5, "must be a region of this file" } } },
	{ "name = \"b\"", "name = \"a\"",
	  { { 3, "a region of this name before" }, { 7, "key `links[0].to' = \"b\"" } } },
	{ "links = (", "links_file = \"nowhere\";\nlinks = (", { { 6, "nowhere" } } },
	/* prefixes */
	{ "10.17.0.0/16", "10.16.4.0/24",
	  { { 3, "key `regions[1].prefixes[0]' = \"10.16.4.0/24\": overlaps 10.16.0.0/16 of region a" },
	    { 3, "key `regions[1].probe' = \"10.17.0.10\": must be within a prefix of its region" } } },
	{ "10.17.0.0/16", "10.17.0.1/16", { { 3, "has bits beyond its length" } } },
	{ "\"10.17.0.0/16\"", "17", { { 3, "key `regions[1].prefixes[0]' = 17: must be a string" } } },
	{ "[ \"10.17.0.0/16\" ]", "[ ]", { { 3, "must be an array of 1 to 16 address prefixes" } } },
	{ "probe = \"10.17.0.10\"", "probe = \"10.18.0.10\"", { { 3, "must be within a prefix of its region" } } },
	{ "probe = \"10.17.0.10\"", "probe = \"hostname\"", { { 3, "must be the address of a host" } } },
	/* hosts */
	{ "ingress = \"lan0\"; ", "", { { 5, "key `hosts[0].ingress' is missing" } } },
	{ "\"lan0\"", "\"wan0\"", { { 5, "must not be the egress" } } },
	{ "\"wan0\"", "\"a/b\"", { { 5, "must be the name of an interface" } } },
	{ "\"wan0\"", "\"interface-with-long-name\"", { { 5, "must be shorter than 16 bytes" } } },
	{ "hosts = (", "hosts = ( { region = \"b\"; egress = \"x\"; ingress = \"y\"; },",
	  { { 5, "key `hosts[0].name' is missing" } } },
	{ "hosts = (", "mode = \"host\"; hosts = (", { { 5, "a host has the one interface" } } },
	/* links */
	{ "rate = \"50mbit\"", "buffer = \"5MB\"", { { 7, "needs a rate" } } },
	{ "rate = \"50mbit\"", "rate = \"50mbit\"; buffer = \"5 potatoes\"", { { 7, "must be above 0, as a multiple" } } },
	{ "rate = \"50mbit\"", "rate = \"50mbit\"; buffer = \"0bdp\"", { { 7, "must be above 0, as a multiple" } } },
	{ "rate = \"50mbit\"", "jitter = \"21ms\"", { { 7, "must be at most the latency" } } },
	{ "rate = \"50mbit\"", "jitter = \"1ms\"; jitter_distribution = \"gauss\"", { { 7, "must be one of" } } },
	{ "rate = \"50mbit\"", "jitter = \"1ms\"; jitter_table = \"no.dist\"", { { 7, "no.dist" } } },
	{ "rate = \"50mbit\"", "jitter = \"1ms\"; jitter_table = 3", { { 7, "must be a string: the path of a table" } } },
	{ "rate = \"50mbit\"", "jitter = \"1ms\"; jitter_table = \"/dev/null\"",
	  { { 7, "/dev/null: a table has 2 to 16384 numbers, this one 0" } } },
	{ "rate = \"50mbit\"", "jitter_table = \"/dev/null\"",
	  { { 7, "/dev/null: a table" }, { 7, "key `links[0].jitter' is missing" } } },
	{ "rate = \"50mbit\"", "jitter = \"1ms\"; jitter_distribution = \"normal\"; jitter_table = \"/dev/zero\"",
	  { { 7, "one of the two" }, { 7, "/dev/zero" } } },
	{ "rate = \"50mbit\"", "jitter_correlation = 0.5", { { 7, "key `links[0].jitter' is missing" } } },
	{ "rate = \"50mbit\"", "loss = 1.5", { { 7, "must be a finite number from 0 to 1" } } },
	{ "rate = \"50mbit\"", "loss = 0.1; gilbert_elliott = { to_bad = 0.1; to_good = 0.1; }",
	  { { 7, "stands in the place of `loss'" } } },
	{ "rate = \"50mbit\"", "gilbert_elliott = { to_bad = 0.1; }", { { 7, "to_good' is missing" } } },
	{ "rate = \"50mbit\"", "four_state = { p13 = 2; p31 = 0.1; }", { { 7, "key `links[0].four_state.p13' = 2" } } },
	{ "rate = \"50mbit\"", "own_latency = \"21ms\"", { { 7, "is below the 21 ms that the path itself takes" } } },
	{ "rate = \"50mbit\"", "reorder_gap = 3", { { 7, "needs reorder above 0" } } },
	{ "latency = \"20ms\"; }", "latency = \"20ms\"; },\n{ from = \"b\"; to = \"a\"; rate = \"1mbit\"; }",
	  { { 8, "the link from b to a is in line 7 already" } } },
	{ "links = (", "links = ( { from = \"a\"; to = \"b\"; rate = \"10Gb\"; loss = 3; },",
	  { { 6, "10Gb" }, { 6, "loss" } } },
};

static void check_broken(const struct broken *b)
{
	struct bace_diags d = { 0 };
	struct bace_buf text = { 0 };
	struct shape_file f;
	struct bace_err e;
	const char *at = strstr(good, b->find);
	size_t n = 0;

	assert_non_null(at);
	bace_buf_add(&text, good, (size_t)(at - good));
	bace_buf_addf(&text, "%s%s", b->replace, at + strlen(b->find));
	write_shape(text.p);
	if (shape_file_load(shape_path(), &f, &d, &e) != -EINVAL)
		fail_msg("accepted: %s", b->replace);
	while (n < ARRAY_LEN(b->said) && b->said[n].text)
		n++;
	for (size_t i = 0; i < n; i++) {
		bool seen = false;

		for (size_t k = 0; k < d.n; k++)
			seen |= d.v[k].line == b->said[i].line && strstr(d.v[k].text, b->said[i].text);
		if (!seen)
			fail_msg("%s: line %d `%s' is not among %zu errors; first: line %d %s", b->replace,
				 b->said[i].line, b->said[i].text, d.n, d.n ? d.v[0].line : 0, d.n ? d.v[0].text : "");
	}
	if (d.n != n)
		fail_msg("%s: %zu errors instead of %zu; last: line %d %s", b->replace, d.n, n, d.v[d.n - 1].line,
			 d.v[d.n - 1].text);
	bace_diags_free(&d);
	bace_buf_free(&text);
}

static void bad_input_is_said(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(broken); i++)
		check_broken(&broken[i]);
}

static void load(const char *name, struct shape_file *f)
{
	struct bace_diags d = { 0 };
	struct bace_err e;

	if (shape_file_load(name, f, &d, &e))
		fail_msg("%s: %s", name, e.msg);
}

static void a_file_means_what_it_says(void **state)
{
	const struct shape_path *p;
	struct shape_file f;

	write_shape(good);
	load(shape_path(), &f);
	assert_string_equal(f.name, "s");
	assert_int_equal(f.n_regions, 2);
	assert_int_equal(f.n_paths, 2);
	assert_int_equal(f.mtu, 1500);
	assert_int_equal(f.regions[0].n_prefixes, 2);
	assert_int_equal(f.regions[0].prefixes[1].family, AF_INET6);
	assert_string_equal(f.hosts[0].egress, "wan0");
	p = shape_file_path(&f, 1, 0);
	assert_non_null(p);
	assert_int_equal(p->link.rate_bps, 50000000);
	assert_int_equal(p->link.latency_ns, 20000000);
	assert_null(shape_file_path(&f, 0, 0));
	shape_file_free(&f);
}

static void seventy_thousand_classes_are_refused(void **state)
{
	struct bace_buf b = { 0 };
	struct bace_diags d = { 0 };
	struct shape_file f;
	struct bace_err e;

	bace_buf_addf(&b, "regions = (\n");
	for (int i = 0; i < 70000; i++)
		bace_buf_addf(&b, "{ name = \"r%d\"; prefixes = [ \"10.%d.%d.%d/32\" ]; }%s\n", i, i >> 16,
			      i >> 8 & 255, i & 255, i < 69999 ? "," : "");
	bace_buf_addf(&b, ");\nhosts = ( { region = \"r0\"; egress = \"e\"; ingress = \"i\"; } );\n"
		      "links = ( { from = \"r0\"; to = \"r1\"; rate = \"1mbit\"; } );\n");
	write_shape(b.p);
	assert_int_equal(shape_file_load(shape_path(), &f, &d, &e), -EINVAL);
	assert_int_equal(d.n, 1);
	assert_non_null(strstr(d.v[0].text, "has 70000 regions: at most 16384"));
	bace_diags_free(&d);
	bace_buf_free(&b);
}

static void links_of_a_cluster_are_changed_by_key(void **state)
{
	const struct shape_path *changed, *same;
	struct shape_file f;
	int singapore = 4, sydney = 5;

	load("six-gateways", &f);
	assert_int_equal(f.n_regions, 6);
	assert_int_equal(f.n_paths, 30);
	changed = shape_file_path(&f, singapore, sydney);
	assert_true(changed->line > 0);
	assert_true(fabs(changed->link.loss - 0.001) < 1e-12);
	assert_int_equal(changed->link.jitter_dist, JITTER_NORMAL);
	/* What the entry does not say is the cluster's. */
	assert_true(changed->link.rate_bps > 1000000000);
	assert_true(changed->link.latency_ns > 40000000);
	same = shape_file_path(&f, 0, 1);
	assert_int_equal(same->link.rate_bps, 4433000000);
	assert_int_equal(same->link.latency_ns, 38225000);
	assert_int_equal(same->own_latency_ns, 200000);
	assert_int_equal(same->line, 0);
	shape_file_free(&f);
}

/* ---- tables of jitter ---- */
static void a_table_is_read_as_tc_reads_it(void **state)
{
	static const char text[] = "# made by hand\n\n -8192 0\t7 # the middle\n8192\n32767 -32768";
	static const int16_t want[] = { -8192, 0, 7, 8192, 32767, -32768 };
	struct jitter_table *t = malloc(sizeof(*t));

	assert_non_null(t);
	assert_int_equal(jitter_table_parse(text, sizeof(text) - 1, "/usr/lib/tc/mine.dist", t, NULL), 0);
	assert_int_equal(t->n, ARRAY_LEN(want));
	assert_memory_equal(t->v, want, sizeof(want));
	assert_string_equal(t->name, "mine");
	free(t);
}

static void a_bad_table_is_refused_with_its_line(void **state)
{
	static const struct {
		const char *text, *said;
	} bad[] = {
		{ "", "t: a table has 2 to 16384 numbers, this one 0" },
		{ "# nothing\n5\n", "t: a table has 2 to 16384 numbers, this one 1" },
		{ "1 2\n3 4.5\n", "t:2: `4.5': must be a whole number" },
		{ "1 2\n\n32768\n", "t:3: `32768': must be a whole number from -32768 to 32767" },
		{ "1 2 99999999999999999999", "t:1: `99999999999999999999': must be" },
		{ "1 x2", "t:1: `x2'" },
		{ "1 2 0x10", "t:1: `0x10'" },
	};
	struct jitter_table *t = malloc(sizeof(*t));
	struct bace_buf b = { 0 };
	struct bace_err e;

	assert_non_null(t);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(jitter_table_parse(bad[i].text, strlen(bad[i].text), "t", t, &e), -EINVAL);
		if (!strstr(e.msg, bad[i].said))
			fail_msg("%s", e.msg);
	}
	for (int i = 0; i < JITTER_TABLE_MAX; i++)
		bace_buf_addf(&b, "%d\n", i % 100);
	assert_int_equal(jitter_table_parse(b.p, b.len, "t", t, &e), 0);
	bace_buf_addf(&b, "1\n");
	assert_int_equal(jitter_table_parse(b.p, b.len, "t", t, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "t:16385: a table has 2 to 16384 numbers, this one more"));
	bace_buf_free(&b);
	free(t);
}

static void links_name_tables_beside_the_file(void **state)
{
	const struct shape_path *ab, *ba;
	struct bace_buf text = { 0 };
	struct shape_file f;
	char path[64];
	FILE *table;

	snprintf(path, sizeof(path), "%s/one.dist", dir);
	table = fopen(path, "w");
	assert_non_null(table);
	fputs("1 2 3", table);
	fclose(table);
	bace_buf_addf(&text, "%.*slinks = (\n"
		      "{ from = \"a\"; to = \"b\"; latency = \"20ms\"; jitter = \"1ms\"; jitter_table = \"one.dist\"; },\n"
		      "{ from = \"b\"; to = \"a\"; latency = \"20ms\"; jitter = \"2ms\"; jitter_table = \"one.dist\"; } );\n",
		      (int)(strstr(good, "links = (") - good), good);
	write_shape(text.p);
	load(shape_path(), &f);
	ab = shape_file_path(&f, 0, 1);
	ba = shape_file_path(&f, 1, 0);
	assert_int_equal(f.n_tables, 1);
	assert_int_equal(f.tables[0].n, 3);
	assert_string_equal(f.tables[0].name, "one");
	assert_true(ab->link.jitter_dist == JITTER_TABLE && ba->link.jitter_dist == JITTER_TABLE);
	assert_true(ab->jitter_table == 0 && ba->jitter_table == 0);
	shape_file_free(&f);
	bace_buf_free(&text);
	unlink(path);
}

static void everything_a_link_can_do_is_read(void **state)
{
	const struct shape_path *p;
	struct shape_file f;

	load("impaired", &f);
	assert_int_equal(f.mode, SHAPE_HOST);
	assert_int_equal(f.delay, SHAPE_DELAY_NETEM);
	assert_int_equal(f.gso_max_bytes, 16384);
	assert_string_equal(f.hosts[0].ingress, "eth1");
	p = shape_file_path(&f, 1, 0);
	assert_int_equal(p->link.jitter_dist, JITTER_PARETONORMAL);
	assert_true(p->impair.jitter_corr == 0.25 && p->link.loss == 0.01 && p->impair.loss_corr == 0.3);
	assert_true(p->impair.duplicate == 0.001 && p->impair.duplicate_corr == 0.1);
	assert_true(p->impair.corrupt == 0.0001 && p->impair.corrupt_corr == 0.1 && p->impair.ecn);
	assert_int_equal(p->message_bytes, 500000);
	assert_int_equal(p->own_latency_ns, 100000);
	p = shape_file_path(&f, 2, 0);
	assert_int_equal(p->impair.loss_model, LOSS_GILBERT_ELLIOTT);
	assert_true(p->impair.loss_p[0] == 0.001 && p->impair.loss_p[1] == 0.1 && p->impair.loss_p[2] == 0.5 &&
		    p->impair.loss_p[3] == 0.0001);
	assert_true(p->impair.reorder == 0.01 && p->impair.reorder_corr == 0.5 && p->impair.reorder_gap == 5);
	assert_int_equal(p->impair.seed, 7);
	p = shape_file_path(&f, 0, 2);
	assert_int_equal(p->impair.loss_model, LOSS_4STATE);
	assert_true(p->impair.loss_p[0] == 0.001 && p->impair.loss_p[1] == 0.1 && p->impair.loss_p[2] == 0.05 &&
		    p->impair.loss_p[3] == 0.0001 && p->impair.loss_p[4] == 0.2);
	assert_int_equal(p->buffer, BUFFER_BYTES);
	assert_true(p->buffer_value == 250000);
	p = shape_file_path(&f, 0, 1);
	assert_int_equal(p->buffer, BUFFER_SECONDS);
	assert_true(fabs(p->buffer_value - 0.2) < 1e-12);
	shape_file_free(&f);
	load("two-sites", &f);
	p = shape_file_path(&f, 0, 1);
	assert_int_equal(p->buffer, BUFFER_BDP);
	assert_true(p->buffer_value == 1.5);
	shape_file_free(&f);
	load("two-hosts", &f);
	assert_int_equal(f.mode, SHAPE_HOST);
	assert_int_equal(shape_file_path(&f, 1, 0)->link.rate_bps, 10000000);
	shape_file_free(&f);
}

/* The loader itself says which keys there are. */
static void every_key_is_documented(void **state)
{
	static const char mark[] = "the keys here are ";
	static const char *const places[] = { "regions = (", "name = \"a\"", "region = \"a\"", "from = ", "to_bad", "p13" };
	CLEANUP_FREE char *readme = NULL;
	struct bace_err e;

	assert_int_equal(bace_read_file(BACE_SOURCE_ROOT "/profiles/README.md", 1 << 20, &readme, NULL, &e), 0);
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		struct bace_diags d = { 0 };
		struct bace_buf whole = { 0 }, text = { 0 };
		struct shape_file f;
		const char *at;
		int n = 0;

		bace_buf_addf(&whole, "%.*s gilbert_elliott = { to_bad = 0.1; to_good = 0.1; }; }, { from = \"a\"; to = \"b\"; "
			      "four_state = { p13 = 0.1; p31 = 0.1; }; } );", (int)(strstr(good, "both_ways") - good), good);
		at = strstr(whole.p, places[i]);
		assert_non_null(at);
		bace_buf_addf(&text, "%.*s qqqqqqqqqq = 1; %s", (int)(at - whole.p), whole.p, at);
		write_shape(text.p);
		assert_int_equal(shape_file_load(shape_path(), &f, &d, &e), -EINVAL);
		for (size_t k = 0; k < d.n; k++) {
			char *list = strstr(d.v[k].text, mark);

			for (char *key = list ? strtok(list + strlen(mark), ", ") : NULL; key; key = strtok(NULL, ", "), n++) {
				char quoted[64];

				snprintf(quoted, sizeof(quoted), "`%s`", key);
				if (!strstr(readme, quoted))
					fail_msg("key %s is not in profiles/README.md", quoted);
			}
		}
		assert_true(n >= 3);
		bace_diags_free(&d);
		bace_buf_free(&text);
		bace_buf_free(&whole);
	}
}

static int setup(void **state)
{
	setenv("BACE_PROFILES", BACE_SOURCE_ROOT "/profiles", 1);
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	unlink(shape_path());
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_means_what_it_says),
		cmocka_unit_test(bad_input_is_said),
		cmocka_unit_test(seventy_thousand_classes_are_refused),
		cmocka_unit_test(links_of_a_cluster_are_changed_by_key),
		cmocka_unit_test(a_table_is_read_as_tc_reads_it),
		cmocka_unit_test(a_bad_table_is_refused_with_its_line),
		cmocka_unit_test(links_name_tables_beside_the_file),
		cmocka_unit_test(everything_a_link_can_do_is_read),
		cmocka_unit_test(every_key_is_documented),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
