/* Several processes read while one writes: each sees whole cells, at any time. */
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

#define READERS 3
#define LOOKS 60
#define STEPS 40

static void add_cell(struct store *s, const char *run)
{
	struct bace_err e;
	int64_t id;

	if (store_begin(s, &e) || store_add_placement(s, run, &(struct placement_row){ .policy = "p", .job = "j",
	    .placement = "a:1", .valid = true, .n_steps = STEPS, .measured_median_s = 1, .event_sim_s = 1,
	    .closed_form_s = 1 }, &id, &e))
		_exit(1);
	for (int i = 0; i < STEPS; i++)
		if (store_add_step(s, &(struct step_row){ .placement_id = id, .step = i, .step_s = 1 }, &e))
			_exit(1);
	if (store_commit(s, &e))
		_exit(1);
}

static void write_for_ever(const char *path)
{
	struct store *s;
	struct bace_err e;
	char id[32];

	if (store_open(path, &s, &e) || store_run_begin(s, &(struct run_info){ .experiment = "x" }, id, &e))
		_exit(1);
	for (;;)
		add_cell(s, id);
}

static int64_t number(struct store *s, const char *sql)
{
	struct bace_err e;
	sqlite3_stmt *q;
	int64_t n;

	if (store_query(s, sql, NULL, &q, &e) || sqlite3_step(q) != SQLITE_ROW)
		_exit(3);
	n = sqlite3_column_int64(q, 0);
	sqlite3_finalize(q);
	return n;
}

/* 0: every look was at whole cells and none at fewer than the one before. */
static int look(const char *path)
{
	int64_t before = 0;

	for (int i = 0; i < LOOKS; i++) {
		struct store *s;
		struct bace_err e;
		char *text;
		size_t len;

		if (store_open_readonly(path, &s, &e))
			return 2;
		int64_t cells = number(s, "SELECT count(*) FROM placement");

		if (number(s, "SELECT count(*) - (SELECT count(*) FROM placement) * 40 FROM step") || cells < before)
			return 4;
		before = cells;
		FILE *to = open_memstream(&text, &len);

		if (i % 20 == 0 && results_print_run_json(s, "last", to, &e))
			return 5;
		fclose(to);
		free(text);
		store_close(s);
	}
	return before ? 0 : 6;
}

static void read_beside_a_writer(void **state)
{
	CLEANUP_FREE char *path = fixture_path("readers.db");
	pid_t writer, readers[READERS];
	struct store *s;
	struct bace_err e;
	char id[32];
	int status;

	assert_int_equal(store_open(path, &s, &e), 0);
	assert_int_equal(store_run_begin(s, &(struct run_info){ .experiment = "first" }, id, &e), 0);
	add_cell(s, id);
	store_close(s);
	writer = fork();
	if (!writer)
		write_for_ever(path);
	for (int i = 0; i < READERS; i++) {
		readers[i] = fork();
		if (!readers[i])
			_exit(look(path));
	}
	for (int i = 0; i < READERS; i++) {
		assert_int_equal(waitpid(readers[i], &status, 0), readers[i]);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
	}
	/* The writer was held up by none of them. */
	assert_int_equal(waitpid(writer, &status, WNOHANG), 0);
	kill(writer, SIGKILL);
	waitpid(writer, &status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(read_beside_a_writer) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
