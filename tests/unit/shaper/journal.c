/* What a process left on disk for the next: whole, or not believed. */
#include "tests/unit/shaper/support.h"

#include <errno.h>
#include <linux/pkt_sched.h>
#include <stdlib.h>

#include "shaper/journal.h"

#define BOOT "0d9f2c6a-0000-4000-8000-1f1f1f1f1f1f"

/* Two interfaces; the first had a qdisc with options and one without. */
static struct bace_buf encoded(void)
{
	struct journal j = { 0 };
	struct journal_entry a = { .ifname = "wan0", .tc = true, .gso_before = 150000, .gso_ipv4_before = 65536 };
	struct journal_entry b = { .ifname = "lan0" };
	struct snapshot_object pfifo = { .type = TCOBJ_QDISC, .parent = TC_H_ROOT, .handle = 0x70000, .kind = "pfifo",
					 .n_options = 4 };
	struct snapshot_object fq = { .type = TCOBJ_QDISC, .parent = 0x70001, .handle = 0x80000, .kind = "fq" };
	struct bace_buf out = { 0 };

	pfifo.options = malloc(4);
	memcpy(pfifo.options, "\x09\0\0\0", 4);
	snprintf(a.before.ifname, sizeof(a.before.ifname), "wan0");
	a.before.n_tx_queues = 4;
	assert_int_equal(BACE_PUSH(a.before.v, a.before.n, a.before.cap, pfifo), 0);
	assert_int_equal(BACE_PUSH(a.before.v, a.before.n, a.before.cap, fq), 0);
	assert_int_equal(BACE_PUSH(j.v, j.n, j.cap, a), 0);
	assert_int_equal(BACE_PUSH(j.v, j.n, j.cap, b), 0);
	assert_int_equal(journal_encode(&j, BOOT, &out), 0);
	journal_free(&j);
	return out;
}

/* From a copy of its own, so that a read beyond the end is one beyond the memory. */
static int decode(const struct bace_buf *b, size_t n, const char *boot, struct journal *j)
{
	uint8_t *copy = malloc(n + !n);
	int rc;

	memcpy(copy, b->p, n);
	rc = journal_decode(copy, n, boot, j);
	free(copy);
	return rc;
}

static void what_was_written_is_read(void **state)
{
	struct bace_buf b = encoded();
	struct journal j;

	assert_int_equal(decode(&b, b.len, BOOT, &j), 0);
	assert_int_equal(j.n, 2);
	assert_string_equal(j.v[0].ifname, "wan0");
	assert_true(j.v[0].tc);
	assert_int_equal(j.v[0].gso_before, 150000);
	assert_int_equal(j.v[0].gso_ipv4_before, 65536);
	assert_int_equal(j.v[0].before.n_tx_queues, 4);
	assert_int_equal(j.v[0].before.n, 2);
	assert_string_equal(j.v[0].before.v[0].kind, "pfifo");
	assert_int_equal(j.v[0].before.v[0].n_options, 4);
	assert_memory_equal(j.v[0].before.v[0].options, "\x09\0\0\0", 4);
	assert_string_equal(j.v[0].before.v[1].kind, "fq");
	assert_null(j.v[0].before.v[1].options);
	assert_string_equal(j.v[1].ifname, "lan0");
	assert_false(j.v[1].tc);
	journal_free(&j);
	bace_buf_free(&b);
}

static void another_boot_is_another_world(void **state)
{
	struct bace_buf b = encoded();
	struct journal j;

	assert_int_equal(decode(&b, b.len, "another", &j), -ENOENT);
	assert_int_equal(j.n, 0);
	bace_buf_free(&b);
}

static void what_is_cut_or_disturbed_is_not_believed(void **state)
{
	struct bace_buf b = encoded();
	struct journal j;

	for (size_t n = 0; n < b.len; n++)
		assert_int_equal(decode(&b, n, BOOT, &j), -EBADMSG);
	for (size_t i = 0; i < b.len; i++) {
		b.p[i] ^= 0x40;
		assert_int_equal(decode(&b, b.len, BOOT, &j), -EBADMSG);
		assert_int_equal(j.n, 0);
		b.p[i] ^= 0x40;
	}
	bace_buf_free(&b);
}

/* With a sum that fits, as a writer of another version would have it, what lies
 * inside is still checked, and freed. */
static void a_sum_that_fits_is_not_enough(void **state)
{
	struct bace_buf b = encoded();
	struct journal j;

	for (size_t i = 0; i + sizeof(uint64_t) < b.len; i++) {
		uint64_t sum;
		int rc;

		b.p[i] ^= (char)0xff;
		sum = bace_hash64(b.p, b.len - sizeof(sum), 0);
		memcpy(b.p + b.len - sizeof(sum), &sum, sizeof(sum));
		rc = decode(&b, b.len, BOOT, &j);
		assert_true(rc == 0 || rc == -EBADMSG || rc == -ENOENT);
		if (!rc)
			journal_free(&j);
		b.p[i] ^= (char)0xff;
	}
	bace_buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_written_is_read),
		cmocka_unit_test(another_boot_is_another_world),
		cmocka_unit_test(what_is_cut_or_disturbed_is_not_believed),
		cmocka_unit_test(a_sum_that_fits_is_not_enough),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
