/* The client of bace-shaperd, against one that takes a plan and does not answer. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "shaper/shaperd/protocol.h"
#include "tests/unit/agent/fixture.h"

struct silent {				/* says hello, then nothing */
	char dir[64], path[96];
	int listener, stop[2];
	pthread_t thread;
	int connections, requests;	/* requests: beside the hello */
	bool ended;			/* the last client hung up */
};

static void serve(struct silent *s, int fd)
{
	struct shaperd_request in;
	struct shaperd_reply out = { .magic = SHAPERD_MAGIC };

	for (;;) {
		struct pollfd p[2] = { { .fd = fd, .events = POLLIN }, { .fd = s->stop[0], .events = POLLIN } };
		ssize_t n;

		poll(p, 2, -1);
		if (p[1].revents)
			return;
		n = recv(fd, &in, sizeof(in), 0);
		if (n <= 0)
			break;
		if (in.type == SHAPERD_HELLO)
			send(fd, &out, shaperd_reply_bytes(0), MSG_NOSIGNAL);
		else
			__atomic_add_fetch(&s->requests, 1, __ATOMIC_SEQ_CST);
	}
	__atomic_store_n(&s->ended, true, __ATOMIC_SEQ_CST);
}

static void *silent_thread(void *arg)
{
	struct silent *s = arg;

	for (;;) {
		struct pollfd p[2] = { { .fd = s->listener, .events = POLLIN }, { .fd = s->stop[0], .events = POLLIN } };
		int fd;

		poll(p, 2, -1);
		if (p[1].revents)
			return NULL;
		fd = accept(s->listener, NULL, NULL);
		__atomic_store_n(&s->ended, false, __ATOMIC_SEQ_CST);
		__atomic_add_fetch(&s->connections, 1, __ATOMIC_SEQ_CST);
		serve(s, fd);
		close(fd);
	}
}

static void silent_open(struct silent *s)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };

	*s = (struct silent){ .dir = "/tmp/bace-test-lease-XXXXXX" };
	assert_non_null(mkdtemp(s->dir));
	snprintf(s->path, sizeof(s->path), "%s/sock", s->dir);
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", s->path);
	s->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s->listener, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(s->listener, 4), 0);
	assert_int_equal(pipe(s->stop), 0);
	assert_int_equal(pthread_create(&s->thread, NULL, silent_thread, s), 0);
}

static void silent_close(struct silent *s)
{
	assert_int_equal(write(s->stop[1], "x", 1), 1);
	pthread_join(s->thread, NULL);
	close(s->listener);
	close(s->stop[0]);
	close(s->stop[1]);
	unlink(s->path);
	rmdir(s->dir);
}

static bool is_asked(void *arg)
{
	return __atomic_load_n(&((struct silent *)arg)->requests, __ATOMIC_SEQ_CST) > 0;
}

static bool has_ended(void *arg)
{
	return __atomic_load_n(&((struct silent *)arg)->ended, __ATOMIC_SEQ_CST);
}

static bool is_answered(void *arg)
{
	return told_answer(*(json_int_t *)arg) >= 0;
}

static struct shape_spec plan_of(int n_links)
{
	return (struct shape_spec){ .egress = "wan0", .n_links = n_links,
				    .links = calloc((size_t)n_links, sizeof(struct shape_link)) };
}

static void plan(struct agent *a, json_int_t id, int n_links)
{
	struct shape_spec spec = plan_of(n_links);

	lease_plan(a->lease, id, &spec);
}

/* The thread waits for an answer to plan 1. */
static void begin(struct agent *a, struct silent *s)
{
	struct bace_err e = { 0 };

	agent_begin(a);
	silent_open(s);
	a->cfg.shaperd_path = s->path;
	assert_int_equal(lease_open(a, &a->lease, &e), 0);
	plan(a, 1, 1);
	assert_true(spin(a, is_asked, s));
}

static void end(struct agent *a, struct silent *s)
{
	lease_close(a->lease);
	silent_close(s);
	agent_over(a);
}

static int n_refused(void)
{
	int n = 0;

	for (int i = 0; i < told.n_answers; i++)
		n += told.answers[i].errnum == EBUSY;
	return n;
}

static void test_queue_is_bounded(void **state)
{
	const int large = (3 << 20) / (int)sizeof(struct shape_link);
	struct agent a;
	struct silent s;

	begin(&a, &s);
	for (int i = 0; i < 70; i++)
		lease_stats(a.lease, 2 + i);
	assert_int_equal(n_refused(), 70 - 64);
	end(&a, &s);
	/* And by bytes: two of 3 MiB, not three; small ones still go. */
	begin(&a, &s);
	for (int i = 0; i < 3; i++)
		plan(&a, 2 + i, large);
	assert_int_equal(n_refused(), 1);
	assert_int_equal(told_answer(4), EBUSY);
	lease_stats(a.lease, 5);
	assert_int_equal(n_refused(), 1);
	end(&a, &s);
}

/* An end that was asked for is no loss, and a call that waits does not hold it up. */
static void test_drop_while_a_call_waits(void **state)
{
	json_int_t clear = 2;
	struct agent a;
	struct silent s;

	begin(&a, &s);
	lease_drop(a.lease, clear);
	assert_true(spin(&a, is_answered, &clear));
	assert_int_equal(told_answer(2), 0);
	assert_true(told_answer(1) > 0);
	assert_true(spin(&a, has_ended, &s));
	assert_int_equal(told.n_events, 0);
	end(&a, &s);
}

/* What still waits when its controller goes is not carried out for the next one. */
static void test_late_plan(void **state)
{
	struct agent a;
	struct silent s;
	json_int_t last = 5;

	begin(&a, &s);
	plan(&a, 2, 1);
	lease_change(a.lease, 3, calloc(1, sizeof(struct shape_change)), 1);
	a.session++;
	lease_drop(a.lease, 0);
	lease_stats(a.lease, last);
	assert_true(spin(&a, is_answered, &last));
	assert_int_equal(told_answer(last), ENOTCONN);
	assert_int_equal(told.n_answers, 1);
	assert_int_equal(told.n_events, 0);
	assert_int_equal(s.connections, 1);
	end(&a, &s);
}

static void trace_request(struct agent *a, json_int_t id, int region, int n, bool more)
{
	struct shape_trace t = { .n = (size_t)n, .v = calloc((size_t)n, sizeof(*t.v)) };
	const struct wire_trace head = { .region = (uint16_t)region, .more = more };
	json_t *msg;

	for (int i = 0; i < n; i++)
		t.v[i] = (struct shape_trace_point){ i, { .set = SHAPE_SET_RATE, .rate_bps = 1000000 } };
	msg = json_pack("{s:s,s:I,s:o}", "type", "trace", "id", id, "trace", wire_encode_trace(&head, &t));
	request_handle(a, "trace", id, msg);
	json_decref(msg);
	shape_trace_free(&t);
}

/* A trace comes in pieces, is played when it is whole, and is of one link. */
static void test_trace_in_pieces(void **state)
{
	json_int_t whole = 4, late = 12;
	struct agent a;
	struct silent s;

	begin(&a, &s);
	lease_drop(a.lease, 2);
	trace_request(&a, 3, 7, 1000, true);
	assert_int_equal(told_answer(3), 0);
	assert_int_equal(a.trace.n, 1000);
	/* Nothing is shaped: that is what bace-shaperd's client says of the whole. */
	trace_request(&a, whole, 7, 500, false);
	assert_int_equal(a.trace.n, 0);
	assert_true(spin(&a, is_answered, &whole));
	assert_int_equal(told_answer(whole), ENOTCONN);
	trace_request(&a, 5, 7, 10, true);
	trace_request(&a, 6, 8, 10, true);
	assert_int_equal(told_answer(6), EPROTO);
	assert_int_equal(a.trace.n, 0);
	for (int i = 0; i < 5; i++)
		trace_request(&a, 7 + i, 7, 10000, true);
	assert_int_equal(told_answer(11), 0);
	assert_int_equal(a.trace.n, 50000);
	trace_request(&a, late, 7, 1, false);
	assert_int_equal(told_answer(late), EINVAL);
	assert_int_equal(a.trace.n, 0);
	end(&a, &s);
}

/* With its backlog full of those who were given up, connecting ends too. */
static void test_stopped_for_long(void **state)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	char dir[] = "/tmp/bace-test-lease-XXXXXX";
	int listener = socket(AF_UNIX, SOCK_SEQPACKET, 0), fds[8], n = 0;
	struct shaperd_client *c = NULL;
	struct bace_err e = { 0 };

	assert_non_null(mkdtemp(dir));
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/sock", dir);
	assert_int_equal(bind(listener, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(listener, 1), 0);
	while (n < 8) {
		fds[n] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
		if (connect(fds[n++], (struct sockaddr *)&sa, sizeof(sa)))
			break;
	}
	assert_int_equal(errno, EAGAIN);
	alarm(60);
	assert_int_equal(shaperd_connect(sa.sun_path, &c, &e), -ETIMEDOUT);
	alarm(0);
	assert_non_null(strstr(e.msg, "takes no connections"));
	while (n)
		close(fds[--n]);
	close(listener);
	unlink(sa.sun_path);
	rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_queue_is_bounded),
		cmocka_unit_test(test_drop_while_a_call_waits),
		cmocka_unit_test(test_late_plan),
		cmocka_unit_test(test_trace_in_pieces),
		cmocka_unit_test(test_stopped_for_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
