/* What a socket's reader makes of a stream, however it comes in pieces: the messages
 * in order, each header seen before its payload is read, each with the read that
 * brought its first byte and its last. recv() and the clock are this file's, but for
 * the last test, which is TCP. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "workloads/worker/sock.h"

#define SCRIPTED 1000000		/* a descriptor that is none */
#define MESSAGES 200
#define LONGEST 9000
#define PIECES 130
#define READS_A_TURN 8
#define AHEAD sizeof(((struct sock_turn *)0)->ahead)
#define PATIENCE_MS 20000

/* What the peer sends, and what of it has come. `reads' is the clock. */
static struct {
	char *bytes;
	uint64_t len, come, taken;
	bool closes;			/* behind all of it */
	int fails;			/* errno, behind all of it */
	int reads;			/* calls */
	int *read_of;			/* [len]: the call that took the byte */
} stream;

ssize_t __real_recv(int fd, void *buf, size_t n, int flags);
ssize_t __wrap_recv(int fd, void *buf, size_t n, int flags);
ssize_t __wrap_recv(int fd, void *buf, size_t n, int flags)
{
	uint64_t have = stream.come - stream.taken;

	if (fd != SCRIPTED)
		return __real_recv(fd, buf, n, flags);
	assert_true(n > 0);
	/* Of TCP's, a buffer or none: then the bytes are dropped. */
	assert_int_equal(flags, buf ? 0 : MSG_TRUNC);
	stream.reads++;
	if (!have && stream.taken == stream.len && stream.closes)
		return 0;
	if (!have) {
		errno = stream.taken == stream.len && stream.fails ? stream.fails : EAGAIN;
		return -1;
	}
	n = n < have ? n : have;
	if (buf)
		memcpy(buf, stream.bytes + stream.taken, n);
	for (uint64_t i = 0; i < n; i++)
		stream.read_of[stream.taken + i] = stream.reads;
	stream.taken += n;
	return (ssize_t)n;
}

int64_t __real_bace_mono_ns(void);
int64_t __wrap_bace_mono_ns(void);
int64_t __wrap_bace_mono_ns(void)
{
	return stream.reads ? stream.reads : __real_bace_mono_ns();
}

static struct header sent[MESSAGES];
static uint64_t begins[MESSAGES + 1];

/* Payload that a header is not taken for. */
static void make_stream(const uint64_t *bytes, int n)
{
	uint64_t at = 0;

	for (int i = 0; i < n; i++) {
		sent[i] = (struct header){ .magic = 0x1234567, .micro_batch = i, .number = (uint64_t)i, .bytes = bytes[i] };
		begins[i] = at;
		at += bytes[i];
	}
	begins[n] = at;
	memset(&stream, 0, sizeof(stream));
	stream.len = at;
	stream.bytes = malloc(at);
	stream.read_of = malloc(at * sizeof(*stream.read_of));
	assert_true(stream.bytes && stream.read_of);
	memset(stream.bytes, 0xa5, at);
	for (int i = 0; i < n; i++)
		memcpy(stream.bytes + begins[i], &sent[i], sizeof(sent[i]));
}

static void drop_stream(void)
{
	free(stream.bytes);
	free(stream.read_of);
	memset(&stream, 0, sizeof(stream));
}

/* The edges of what is read at once, headers alone, and all between. */
static void mixed(uint64_t bytes[MESSAGES])
{
	static const uint64_t edges[] = { 64, 65, 64, AHEAD - 64, AHEAD - 1, AHEAD, AHEAD + 1, AHEAD + 63, AHEAD + 64,
					  AHEAD + 65, 127, 128, 2 * AHEAD, LONGEST };

	for (int i = 0; i < MESSAGES; i++)
		bytes[i] = (size_t)i < ARRAY_LEN(edges) ? edges[i] : i % 10 == 9 ? (uint64_t)(64 + i * 6151 % (LONGEST - 63)) :
			   (uint64_t)(64 + i * 37 % 300);
}

struct reader {
	struct sock sock;
	int checked, read;
	int refuses;			/* the check of this one; -1: none */
};

static int check(void *arg, const struct header *h, struct bace_err *e)
{
	struct reader *r = arg;

	/* In turn, once each, when all before it are out. */
	assert_int_equal(r->checked, r->read);
	assert_memory_equal(h, &sent[r->checked], sizeof(*h));
	return r->checked++ == r->refuses ? bace_fail(e, EPROTO, "refused") : 0;
}

/* What one turn gives. */
static int turn(struct reader *r, struct bace_err *e)
{
	struct sock_turn t;
	struct header out;
	int rc, before = stream.reads;

	sock_turn_begin(&t);
	while ((rc = sock_read(&r->sock, &t, check, r, &out, e)) > 0) {
		assert_int_equal(r->checked, r->read + 1);
		assert_memory_equal(&out, &sent[r->read], sizeof(out));
		assert_int_equal(r->sock.first, stream.read_of[begins[r->read]]);
		assert_int_equal(t.at, stream.read_of[begins[r->read + 1] - 1]);
		r->read++;
	}
	assert_true(stream.reads - before <= READS_A_TURN);
	/* The next turn begins where this one ended: nothing is ahead any more. */
	assert_true(rc || t.from == t.to);
	return rc;
}

static struct reader make_reader(void)
{
	struct reader r = { .refuses = -1 };

	sock_init(&r.sock, SCRIPTED);
	return r;
}

/* As the loop does: it calls again while there is something. */
static void read_all(struct reader *r)
{
	struct bace_err e = { 0 };

	do {
		assert_int_equal(turn(r, &e), 0);
	} while (stream.taken < stream.come);
}

static void test_pieces(void **state)
{
	uint64_t bytes[MESSAGES];

	mixed(bytes);
	make_stream(bytes, MESSAGES);
	for (uint64_t piece = 1; piece <= PIECES; piece++) {
		struct reader r = make_reader();

		stream.come = stream.taken = 0;
		stream.reads = 0;
		while (stream.come < stream.len) {
			int whole = r.read;

			stream.come = stream.come + piece < stream.len ? stream.come + piece : stream.len;
			read_all(&r);
			/* At once, not with the next piece. */
			while (whole < MESSAGES && begins[whole + 1] <= stream.come)
				whole++;
			assert_int_equal(r.read, whole);
		}
		assert_int_equal(r.read, MESSAGES);
		assert_false(r.sock.closed);
	}
	drop_stream();
}

static void test_all_at_once(void **state)
{
	uint64_t bytes[MESSAGES];
	struct reader r = make_reader();

	mixed(bytes);
	make_stream(bytes, MESSAGES);
	stream.come = stream.len;
	read_all(&r);
	assert_int_equal(r.read, MESSAGES);
	drop_stream();
}

/* Other sockets have theirs: of small messages come as many as eight reads bring, of
 * long ones one. */
static void test_turns(void **state)
{
	enum { SMALL = 512, A_TURN = READS_A_TURN * AHEAD / SMALL };
	static const uint64_t long_ones[] = { 1000000, 1000000, 64 };
	uint64_t bytes[MESSAGES];
	struct bace_err e = { 0 };
	struct reader r = make_reader();

	for (int i = 0; i < MESSAGES; i++)
		bytes[i] = SMALL;
	make_stream(bytes, MESSAGES);
	stream.come = stream.len;
	for (int turns = 1; turns <= 3; turns++) {
		assert_int_equal(turn(&r, &e), 0);
		assert_int_equal(stream.reads, turns * READS_A_TURN);
		assert_int_equal(r.read, turns * A_TURN);
	}
	assert_int_equal(turn(&r, &e), 0);
	assert_int_equal(r.read, MESSAGES);
	drop_stream();

	r = make_reader();
	make_stream(long_ones, ARRAY_LEN(long_ones));
	stream.come = stream.len;
	/* The header with what follows, then all the rest in one call. */
	assert_int_equal(turn(&r, &e), 0);
	assert_int_equal(r.read, 1);
	assert_int_equal(stream.reads, 2);
	read_all(&r);
	assert_int_equal(r.read, ARRAY_LEN(long_ones));
	drop_stream();
}

/* In the middle of a header, of a payload, between two messages, and behind a read
 * that was full: what came whole before is given. */
static void test_closed(void **state)
{
	static const uint64_t bytes[] = { 100, AHEAD - 100, 300, 2 * LONGEST };
	static const uint64_t cuts[] = { 0, 30, 64, 99, 100, 130, AHEAD - 1, AHEAD, AHEAD + 10, AHEAD + 164, AHEAD + 300,
					 AHEAD + 364, AHEAD + 300 + LONGEST };
	const int n = ARRAY_LEN(bytes);

	for (size_t i = 0; i < ARRAY_LEN(cuts); i++)
		for (int fails = 0; fails < 2; fails++) {
			struct bace_err e = { 0 };
			struct reader r = make_reader();
			int rc = 0, whole = 0;

			make_stream(bytes, n);
			stream.len = stream.come = cuts[i];
			stream.closes = !fails;
			stream.fails = fails ? ECONNRESET : 0;
			for (int turns = 0; turns < 4 && !rc && !r.sock.closed; turns++)
				rc = turn(&r, &e);
			while (begins[whole + 1] <= cuts[i])
				whole++;
			assert_int_equal(r.read, whole);
			assert_int_equal(rc, fails ? -ECONNRESET : 0);
			assert_int_equal(r.sock.closed, !fails);
			drop_stream();
		}
}

/* Nothing of a payload is read when its header is refused. */
static void test_refused(void **state)
{
	static const uint64_t bytes[] = { 200, LONGEST, 200 };

	for (int k = 0; k < 3; k++) {
		struct bace_err e = { 0 };
		struct reader r = make_reader();
		int rc = 0;

		r.refuses = k;
		make_stream(bytes, ARRAY_LEN(bytes));
		/* The payload is there, and so is the next one. */
		stream.come = stream.len;
		for (int turns = 0; turns < 4 && !rc; turns++)
			rc = turn(&r, &e);
		assert_int_equal(rc, -EPROTO);
		assert_string_equal(e.msg, "refused");
		assert_int_equal(r.read, k);
		assert_int_equal(r.checked, k + 1);
		assert_int_equal(stream.read_of[begins[k] + sizeof(struct header) - 1], stream.reads);
		drop_stream();
	}
}

/* Both ends of a connection over the loopback. */
static void connected(int ends[2])
{
	struct bace_err e = { 0 };
	struct pollfd p = { .events = POLLIN };
	uint16_t port;

	if (net_listen("127.0.0.1", &p.fd, &port, &e) || net_connect("127.0.0.1", port, "", &ends[0], &e))
		fail_msg("%s", e.msg);
	assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
	if (net_accept(p.fd, "", &ends[1], &e))
		fail_msg("%s", e.msg);
	close(p.fd);
}

/* Queued all at once, more than the sockets hold: written and read by turns. */
static void test_tcp(void **state)
{
	uint64_t bytes[MESSAGES];
	struct bace_err e = { 0 };
	struct sock from;
	struct reader r = make_reader();
	struct sock_turn t;
	struct header h;
	int ends[2], gone = 0, rc;

	mixed(bytes);
	bytes[20] = 30000000;
	bytes[21] = 64;
	for (int i = 0; i < MESSAGES; i++)
		sent[i] = (struct header){ .number = (uint64_t)i, .bytes = bytes[i] };
	connected(ends);
	sock_init(&from, ends[0]);
	sock_init(&r.sock, ends[1]);
	for (int i = 0; i < MESSAGES; i++)
		assert_int_equal(sock_queue(&from, &sent[i], &e), 0);
	while (!r.sock.closed) {
		struct pollfd p[2] = { { .fd = sock_pending(&from) ? ends[0] : -1, .events = POLLOUT },
				       { .fd = ends[1], .events = POLLIN } };

		assert_true(poll(p, 2, PATIENCE_MS) > 0);
		while ((rc = sock_write(&from, &h, &e)) > 0)
			assert_memory_equal(&h, &sent[gone++], sizeof(h));
		assert_int_equal(rc, 0);
		if (!sock_pending(&from))
			shutdown(ends[0], SHUT_WR);
		sock_turn_begin(&t);
		while ((rc = sock_read(&r.sock, &t, check, &r, &h, &e)) > 0)
			assert_memory_equal(&h, &sent[r.read++], sizeof(h));
		assert_int_equal(rc, 0);
	}
	assert_int_equal(gone, MESSAGES);
	assert_int_equal(r.read, MESSAGES);
	sock_free(&from);
	sock_free(&r.sock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces), cmocka_unit_test(test_all_at_once), cmocka_unit_test(test_turns),
		cmocka_unit_test(test_closed), cmocka_unit_test(test_refused), cmocka_unit_test(test_tcp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
