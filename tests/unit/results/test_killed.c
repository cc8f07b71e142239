/* A writer that is killed at any moment loses the cell it was writing, no more. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fixture.h"
#include "results/store.h"

#define MOMENTS 200
#define STEPS 50
#define DELAY_MAX_US 12000

/* Says a byte a committed cell. */
static void write_for_ever(const char *path, int fd)
{
	struct store *s;
	struct bace_err e;
	char id[32];
	int64_t placement;

	if (store_open(path, &s, &e) || store_run_begin(s, &(struct run_info){ .experiment = "x" }, id, &e))
		_exit(1);
	for (;;) {
		int rc = store_begin(s, &e) || store_add_placement(s, id, &(struct placement_row){ .policy = "p",
			.job = "j", .placement = "a:1", .valid = true }, &placement, &e);

		for (int i = 0; !rc && i < STEPS; i++)
			rc = store_add_step(s, &(struct step_row){ .placement_id = placement, .step = i, .step_s = i },
					    &e);
		if (rc || store_commit(s, &e) || write(fd, "c", 1) != 1)
			_exit(1);
	}
}

static int64_t query(struct store *s, const char *sql)
{
	struct bace_err e;
	sqlite3_stmt *q;
	int64_t n;

	if (store_query(s, sql, NULL, &q, &e) || sqlite3_step(q) != SQLITE_ROW)
		fail_msg("%s: %s", sql, sqlite3_errmsg(s->db));
	n = sqlite3_column_int64(q, 0);
	sqlite3_finalize(q);
	return n;
}

static int64_t committed(int fd)
{
	char buf[4096];
	int64_t total = 0;
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) > 0)
		total += n;
	return total;
}

static int64_t kill_one(const char *path, bool writing, uint64_t delay_us, int64_t before)
{
	struct store *s;
	struct bace_err e;
	int fds[2], status;
	int64_t said = 0, cells;
	pid_t pid;
	char c;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (!pid) {
		close(fds[0]);
		write_for_ever(path, fds[1]);
	}
	close(fds[1]);
	/* A slow machine may take long to begin: count from the first commit. */
	if (writing) {
		assert_int_equal(read(fds[0], &c, 1), 1);
		said++;
	}
	usleep((useconds_t)delay_us);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	said += committed(fds[0]);
	close(fds[0]);
	if (store_open(path, &s, &e))
		fail_msg("after %llu us: %s", (unsigned long long)delay_us, e.msg);
	cells = query(s, "SELECT count(*) FROM placement");
	/* Every commit that was said is there, and at most one that was not. */
	assert_true(cells >= before + said && cells <= before + said + 1);
	assert_int_equal(query(s, "SELECT count(*) FROM step"), cells * STEPS);
	assert_int_equal(query(s, "SELECT (SELECT * FROM pragma_integrity_check) = 'ok'"), 1);
	assert_int_equal(query(s, "SELECT count(*) FROM pragma_foreign_key_check"), 0);
	store_close(s);
	return cells;
}

static void killed_at_any_moment(void **state)
{
	struct bace_rng rng;
	int64_t cells = 0, most = 0;

	bace_rng_init(&rng, 20, 26);
	for (int i = 0; i < MOMENTS; i++) {
		CLEANUP_FREE char *name = NULL, *path = NULL;

		/* A new store every ten times: being made is a moment too. */
		if (i % 10 == 0)
			cells = 0;
		assert_true(asprintf(&name, "k%d.db", i / 10) > 0);
		path = fixture_path(name);
		cells = kill_one(path, i % 2, bace_rng_below(&rng, i % 10 ? DELAY_MAX_US : DELAY_MAX_US / 4), cells);
		most = cells > most ? cells : most;
	}
	assert_true(most > 0);
	print_message("%d moments, up to %lld cells in a store\n", MOMENTS, (long long)most);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(killed_at_any_moment) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
