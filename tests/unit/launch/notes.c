/* What is said of real hosts. Expected values are worked out by hand from
 * tests/common/cluster3.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include <jansson.h>

#include "harness/launch/internal.h"
#include "tests/common/cluster3.h"

static const struct lab_traffic steady = { .message_bytes = 500000, .min_message_bytes = 200000, .jobs_on_link = 1,
	.wan = WAN_STEADY, .congestion_control = "cubic" };

static const char good_sysctls[] = "\"net/ipv4/tcp_slow_start_after_idle\": \"0\","
	"\"net/ipv4/tcp_no_metrics_save\": \"1\", \"net/ipv4/tcp_rmem\": \"4096 131072 6291456\","
	"\"net/ipv4/tcp_wmem\": \"4096 131072 6291456\","
	"\"net/ipv4/tcp_available_congestion_control\": \"reno cubic\"";

/* What is said of host a-0, of region a; "": nothing. */
static void said(const struct lab_traffic *t, const char *sysctls, const char *routes, char text[1000])
{
	struct cluster c = cluster3();
	struct cluster_host h = { .name = "a-0" };
	struct bace_buf b = { 0 }, in = { 0 };
	json_t *inventory;

	bace_buf_addf(&in, "{\"sysctls\": {%s}%s%s}", sysctls, *routes ? ", \"routes\": " : "", routes);
	inventory = json_loads(in.p, 0, NULL);
	assert_non_null(inventory);
	launch_steady_host(&c, t, &h, inventory, &b);
	snprintf(text, 1000, "%s", b.len ? b.p : "");
	json_decref(inventory);
	bace_buf_free(&in);
	bace_buf_free(&b);
}

/* To b: (100 Mbit/s x 40 ms / 8 + 500000) / 1448 = 690.6; to c, 70 ms: 949.6. */
static const char windows[] = "a-0: for wan = \"steady\", as root: towards b: ip route ... initcwnd 691 initrwnd 691; "
	"towards c: ip route ... initcwnd 950 initrwnd 950";

static void windows_are_wanted_where_sysctls_are_right(void **state)
{
	char text[1000];

	said(&steady, good_sysctls, "{\"to\": {\"b\": {\"initcwnd\": 0, \"initrwnd\": 0}}}", text);
	assert_string_equal(text, windows);
	/* An agent that cannot tell. */
	said(&steady, good_sysctls, "", text);
	assert_string_equal(text, windows);
}

static void a_route_that_has_them_is_not_named(void **state)
{
	char text[1000];

	said(&steady, good_sysctls, "{\"to\": {\"b\": {\"initcwnd\": 691, \"initrwnd\": 700},"
	     "\"c\": {\"initcwnd\": 950, \"initrwnd\": 949}}}", text);
	assert_string_equal(text, "a-0: for wan = \"steady\", as root: towards c: ip route ... initcwnd 950 initrwnd 950");
	said(&steady, good_sysctls, "{\"to\": {\"b\": {\"initcwnd\": 691, \"initrwnd\": 691},"
	     "\"c\": {\"initcwnd\": 950, \"initrwnd\": 950}}}", text);
	assert_string_equal(text, "");
}

static void sysctls_come_first(void **state)
{
	char text[1000];

	said(&steady, "\"net/ipv4/tcp_slow_start_after_idle\": \"1\"", "{\"to\": {\"b\": {\"initcwnd\": 691, \"initrwnd\": 691},"
	     "\"c\": {\"initcwnd\": 950, \"initrwnd\": 950}}}", text);
	assert_string_equal(text, "a-0: for wan = \"steady\", as root: sysctl -w net.ipv4.tcp_slow_start_after_idle=0");
	said(&steady, "\"net/ipv4/tcp_no_metrics_save\": \"0\"", "", text);
	assert_non_null(strstr(text, "as root: sysctl -w net.ipv4.tcp_no_metrics_save=1; towards b: ip route"));
}

static void stock_wants_nothing(void **state)
{
	struct lab_traffic stock = steady;
	char text[1000];

	stock.wan = WAN_STOCK;
	said(&stock, "\"net/ipv4/tcp_slow_start_after_idle\": \"1\"", "", text);
	assert_string_equal(text, "");
}

static bool notes_control(const char *egress, const char *ingress, int n_links, const char *control)
{
	struct tb_host h = { .name = "a-0", .shape.n_links = n_links };
	json_t *inventory = json_pack("{s:{s:s}}", "routes", "control", control);
	struct bace_buf b = { 0 };
	bool any;

	snprintf(h.shape.egress, sizeof(h.shape.egress), "%s", egress);
	snprintf(h.shape.ingress, sizeof(h.shape.ingress), "%s", ingress);
	launch_control_interface(&h, inventory, &b);
	any = b.len > 0;
	if (any)
		assert_non_null(strstr(b.p, control));
	bace_buf_free(&b);
	json_decref(inventory);
	return any;
}

static void a_shaped_control_interface_is_noted(void **state)
{
	struct bace_buf b = { 0 };

	assert_true(notes_control("eth1", "", 2, "eth1"));
	assert_true(notes_control("eth1", "eth2", 2, "eth2"));
	assert_false(notes_control("eth1", "eth2", 2, "eth0"));
	assert_false(notes_control("eth1", "", 2, ""));
	/* Behind a gateway nothing of it is shaped. */
	assert_false(notes_control("eth1", "", 0, "eth1"));
	launch_control_interface(&(struct tb_host){ .name = "a-0", .shape.n_links = 1 }, NULL, &b);
	assert_int_equal(b.len, 0);
}

static void hosts_without_egress_are_named(void **state)
{
	struct cluster_host hosts[] = { { .name = "gw", .gateway = true }, { .name = "a-0" },
					{ .name = "a-1", .egress = "eth1" }, { .name = "a-2" } };
	struct cluster c = cluster3();
	struct bace_buf b = { 0 };

	c.hosts = hosts;
	c.n_hosts = 1;
	launch_unbounded(&c, &steady, &b);
	assert_int_equal(b.len, 0);
	c.n_hosts = 4;
	launch_unbounded(&c, &steady, &b);
	assert_string_equal(b.p, "no egress given of a-0, a-2: GSO packets of up to 64 kB leave them, where 4000 bytes at most "
			    "are 2 % of the smallest message");
	bace_buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(windows_are_wanted_where_sysctls_are_right),
		cmocka_unit_test(a_route_that_has_them_is_not_named), cmocka_unit_test(sysctls_come_first),
		cmocka_unit_test(stock_wants_nothing), cmocka_unit_test(a_shaped_control_interface_is_noted),
		cmocka_unit_test(hosts_without_egress_are_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
