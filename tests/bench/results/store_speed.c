/*
 * bench-store [ROWS]: how fast rows go into the store, how long a run of it
 * takes to show, and how fast its rows are exported.
 */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "results/results.h"
#include "tests/bench/table.h"

#define CELL_ROWS 10000

static void must(int rc, const struct bace_err *e)
{
	if (!rc)
		return;
	fprintf(stderr, "%s\n", e->msg);
	exit(1);
}

static double since(int64_t start_ns)
{
	return (double)(bace_mono_ns() - start_ns) / 1e9;
}

static void row(const char *what, const char *unit, double value, enum asked_kind kind, double asked)
{
	table_row(what, unit, figure_one(value), (struct figure){ 0 }, (struct asked){ kind, asked });
}

static void fill(struct store *s, int64_t rows, char run[32])
{
	struct bace_err e;
	int64_t id, start = bace_mono_ns();

	must(store_run_begin(s, &(struct run_info){ .experiment = "speed", .scale_bytes = 1, .scale_time = 1 }, run,
			     &e), &e);
	for (int64_t done = 0; done < rows; done += CELL_ROWS) {
		must(store_begin(s, &e), &e);
		must(store_add_placement(s, run, &(struct placement_row){ .policy = "bace", .job = "j",
			.placement = "a:1 > b:1", .stages = 2, .event_sim_s = 1, .closed_form_s = 1, .valid = true,
			.n_steps = CELL_ROWS, .measured_median_s = 1.01, .measured_p95_s = 1.02 }, &id, &e), &e);
		for (int i = 0; i < CELL_ROWS; i++)
			must(store_add_step(s, &(struct step_row){ .placement_id = id, .step = i, .step_s = 1.0 / (i + 3),
				.compute_s = 0.7 / (i + 3), .stall_s = 0.3 / (i + 3) }, &e), &e);
		must(store_commit(s, &e), &e);
	}
	must(store_run_end(s, run, "done", &e), &e);
	row("step rows into the store, a transaction per 10,000", "rows/s", (double)rows / since(start), ASKED_LEAST, 1e5);
}

static void show(const char *path, const char *run)
{
	FILE *to = fopen("/dev/null", "w");
	double best = 1e9;
	struct bace_err e;

	for (int i = 0; i < 5; i++) {
		int64_t start = bace_mono_ns();
		struct store *s;

		must(store_open_readonly(path, &s, &e), &e);
		must(results_print_run(s, run, to, false, 0, &e), &e);
		store_close(s);
		if (since(start) < best)
			best = since(start);
	}
	fclose(to);
	row("show a run of them, best of 5, opening included", "ms", best * 1e3, ASKED_MOST, 300);
}

static void export(const char *path, const char *run, int64_t rows, enum export_format format, const char *name)
{
	FILE *to = fopen("/dev/null", "w");
	char what[32];
	int64_t start = bace_mono_ns();
	struct store *s;
	struct bace_err e;

	must(store_open_readonly(path, &s, &e), &e);
	must(results_export(s, run, &(struct export_options){ .format = format, .table = "step" }, to, &e), &e);
	store_close(s);
	fclose(to);
	snprintf(what, sizeof(what), "export as %s", name);
	row(what, "rows/s", (double)rows / since(start), ASKED_LEAST, 5e5);
}

int main(int argc, char **argv)
{
	int64_t rows = argc > 1 ? atoll(argv[1]) : 1000000;
	char dir[] = "/tmp/bace-bench-XXXXXX", path[64], run[32];
	struct store *s;
	struct bace_err e;
	struct stat st;

	if (rows < 1 || !mkdtemp(dir))
		return 1;
	snprintf(path, sizeof(path), "%s/s.db", dir);
	printf("%lld rows\n", (long long)rows);
	table_head("store");
	must(store_open(path, &s, &e), &e);
	fill(s, rows, run);
	store_close(s);
	if (!stat(path, &st))
		row("file", "B/row", (double)st.st_size / (double)rows, ASKED_NOTHING, 0);
	show(path, run);
	export(path, run, rows, EXPORT_CSV, "csv");
	export(path, run, rows, EXPORT_NDJSON, "ndjson");
	unlink(path);
	/* Those who only read cannot take SQLite's two files away. */
	snprintf(path, sizeof(path), "%s/s.db-wal", dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/s.db-shm", dir);
	unlink(path);
	return rmdir(dir) ? 1 : 0;
}
