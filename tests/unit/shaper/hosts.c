/* From a shape file to what one host does. */
#include "tests/unit/shaper/support.h"

#include <stdlib.h>
#include <unistd.h>

#include "harness/shape/shape.h"

static const char file[] =
	"mode = \"%s\"; regions = (\n"
	"  { name = \"a\"; prefixes = [ \"10.16.0.0/16\" ]; }, { name = \"b\"; prefixes = [ \"10.17.0.0/16\" ]; } );\n"
	"hosts = ( { name = \"a1\"; region = \"a\"; egress = \"e0\"; %s },\n"
	"          { name = \"a2\"; region = \"a\"; egress = \"e0\"; %s },\n"
	"          { name = \"b1\"; region = \"b\"; egress = \"e0\"; %s } );\n"
	"links = ( { from = \"a\"; to = \"b\"; both_ways = true; rate = \"10gbit\"; latency = \"20ms\"; own_latency = \"1ms\"; } );\n";

static int sharing[2];		/* of regions a and b in the file that spec_of read last */

static struct shape_spec spec_of(const char *mode, const char *ingress, const char *host)
{
	char path[] = "/tmp/bace-hosts-XXXXXX";
	int fd = mkstemp(path), h;
	struct bace_diags d = { 0 };
	struct shape_spec s;
	struct shape_file f;
	struct bace_err e;

	assert_true(fd >= 0 && dprintf(fd, file, mode, ingress, ingress, ingress) > 0);
	close(fd);
	if (shape_file_load(path, &f, &d, &e))
		fail_msg("%s", d.n ? d.v[0].text : e.msg);
	unlink(path);
	if (shape_find_host(&f, host, &h, &e) || shape_spec_of(&f, h, DELAY_NFQUEUE, &s, &e))
		fail_msg("%s", e.msg);
	for (int r = 0; r < 2; r++)
		sharing[r] = shape_hosts_sharing(&f, r);
	shape_file_free(&f);
	bace_diags_free(&d);
	return s;
}

/* Together they never send more than the link carries, also above 32 bits of bits. */
static void hosts_of_a_region_have_even_parts_of_its_links(void **state)
{
	struct shape_spec s = spec_of("host", "", "a1");

	assert_int_equal(s.links[0].rate_bps, 5000000000);
	assert_int_equal(s.links[0].reverse_rate_bps, 10000000000);
	assert_int_equal(s.links[0].latency_ns, 19000000);
	assert_int_equal(sharing[0], 2);
	assert_int_equal(sharing[1], 1);
	shape_spec_free(&s);
	s = spec_of("host", "", "a2");
	assert_int_equal(s.links[0].rate_bps, 5000000000);
	shape_spec_free(&s);
	s = spec_of("host", "", "b1");
	assert_int_equal(s.links[0].rate_bps, 10000000000);
	shape_spec_free(&s);
}

static void a_gateway_has_its_links_whole(void **state)
{
	struct shape_spec s = spec_of("gateway", "ingress = \"e1\";", "a1");

	assert_int_equal(s.links[0].rate_bps, 10000000000);
	assert_string_equal(s.ingress, "e1");
	assert_int_equal(sharing[0], 1);
	shape_spec_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hosts_of_a_region_have_even_parts_of_its_links),
		cmocka_unit_test(a_gateway_has_its_links_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
