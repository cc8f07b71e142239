#include "results/plot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SVG_MAX (8u << 20)
#define NAME_MAX_PLOT 64

/* Okabe and Ito: told apart also by readers who see few colours. */
static const char *const colors[] = { "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9",
				      "#000000" };

static const char preamble[] =
	"set terminal svg size 720,460 dynamic font 'sans-serif,13' background '#ffffff'\n"
	"set border 3 lc rgb '#555555'\nset tics nomirror textcolor rgb '#333333'\n"
	"set grid lc rgb '#dddddd' lw 0.5\nset key outside right top vertical samplen 1\n";

static int run_gnuplot(int script, int out)
{
	char path[32];
	pid_t pid = fork();
	int status;

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, 0);
		dup2(out, 1);
		dup2(null, 2);
		dup2(script, 3);
		snprintf(path, sizeof(path), "/dev/fd/3");
		execlp("gnuplot", "gnuplot", path, NULL);
		_exit(127);
	}
	if (waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
		return -EIO;
	return WEXITSTATUS(status) == 127 ? -ENOENT : WEXITSTATUS(status) ? -EIO : 0;
}

static int gnuplot(const struct bace_buf *script, char **svg, struct bace_err *e)
{
	CLEANUP_CLOSE int in = memfd_create("script", 0);
	CLEANUP_CLOSE int out = memfd_create("svg", 0);
	char *text, *start;
	off_t size;
	int rc;

	if (in < 0 || out < 0 || bace_write_all(in, script->p, script->len) || lseek(in, 0, SEEK_SET))
		return bace_fail_errno(e, errno, "gnuplot script");
	rc = run_gnuplot(in, out);
	if (rc == -ENOENT)
		return bace_fail(e, ENOENT, "gnuplot is not installed (Debian package gnuplot-nox)");
	size = lseek(out, 0, SEEK_END);
	if (rc || size <= 0 || size > SVG_MAX)
		return bace_fail(e, EIO, "gnuplot failed");
	text = calloc((size_t)size + 1, 1);
	if (!text || pread(out, text, (size_t)size, 0) != size) {
		free(text);
		return bace_fail(e, ENOMEM, "plot of %lld bytes: out of memory", (long long)size);
	}
	start = strstr(text, "<svg");
	if (!start) {
		free(text);
		return bace_fail(e, EIO, "gnuplot made no SVG");
	}
	memmove(text, start, strlen(start) + 1);
	*svg = text;
	return 0;
}

/* A name as a single-quoted gnuplot string without escapes or markup. */
static void add_name(struct bace_buf *b, const char *name)
{
	bace_buf_add(b, "'", 1);
	for (; *name; name++) {
		char c = strchr("'\\{}^_@&~\n", *name) ? '-' : *name;

		bace_buf_add(b, &c, 1);
	}
	bace_buf_add(b, "'", 1);
}

/* One data block a policy from rows (policy, then numbers...); returns how many. */
static int add_blocks(struct store *s, const char *run, const char *sql, struct bace_buf *b,
		      char names[][NAME_MAX_PLOT], int most, struct bace_err *e)
{
	sqlite3_stmt *q;
	int n = 0, rc = store_query(s, sql, run, &q, e);

	if (rc)
		return rc;
	while (sqlite3_step(q) == SQLITE_ROW) {
		const char *name = (const char *)sqlite3_column_text(q, 0);

		if (!n || strcmp(names[n - 1], name)) {
			if (n == most)
				break;
			bace_buf_addf(b, "%s$d%d << EOD\n", n ? "EOD\n" : "", n);
			snprintf(names[n++], NAME_MAX_PLOT, "%s", name);
		}
		for (int c = 1; c < sqlite3_column_count(q); c++)
			bace_buf_addf(b, "%.9g ", sqlite3_column_double(q, c));
		bace_buf_add(b, "\n", 1);
	}
	sqlite3_finalize(q);
	if (n)
		bace_buf_addf(b, "EOD\n");
	return n;
}

int plot_measured_vs_predicted(struct store *s, const char *run, char **svg, struct bace_err *e)
{
	char names[ARRAY_LEN(colors)][NAME_MAX_PLOT];
	struct bace_buf b = { 0 };
	int n, rc;

	bace_buf_addf(&b, "%s", preamble);
	n = add_blocks(s, run, "SELECT policy, event_sim_s, measured_median_s, measured_median_s, "
		       "coalesce(measured_p95_s, measured_median_s) FROM placement WHERE run_id = ? AND valid "
		       "AND measured_median_s IS NOT NULL ORDER BY policy, id", &b, names,
		       ARRAY_LEN(colors), e);
	if (n <= 0) {
		bace_buf_free(&b);
		return n ? n : bace_fail(e, ENODATA, "the run has no measured placements");
	}
	bace_buf_addf(&b, "set xlabel 'predicted step time, event simulation (s)'\n"
		      "set ylabel 'measured step time: median, bar to p95 (s)'\nplot x with lines lc rgb "
		      "'#999999' dt 2 title 'equal'");
	for (int i = 0; i < n; i++) {
		bace_buf_addf(&b, ", $d%d using 1:2:3:4 with yerrorbars pt 7 ps 0.8 lc rgb '%s' title ", i,
			      colors[i]);
		add_name(&b, names[i]);
	}
	bace_buf_addf(&b, "\n");
	rc = gnuplot(&b, svg, e);
	bace_buf_free(&b);
	return rc;
}

int plot_cost_vs_jct(struct store *s, const char *run, char **svg, struct bace_err *e)
{
	char names[ARRAY_LEN(colors)][NAME_MAX_PLOT];
	struct bace_buf b = { 0 };
	int n, rc;

	bace_buf_addf(&b, "%s", preamble);
	n = add_blocks(s, run, "SELECT policy, avg(jct_s) / 3600, sum(cost_usd), CASE oracle WHEN "
		       "'measured' THEN 7 WHEN 'event-sim' THEN 6 ELSE 2 END FROM job_outcome WHERE run_id = ? "
		       "AND finished GROUP BY policy, oracle ORDER BY policy, min(rowid)", &b, names,
		       ARRAY_LEN(colors), e);
	if (n <= 0) {
		bace_buf_free(&b);
		return n ? n : bace_fail(e, ENODATA, "the run has no finished jobs");
	}
	bace_buf_addf(&b, "set xlabel 'mean job completion time (h)'\nset ylabel 'cost of all jobs (USD)'\n"
		      "set offsets graph 0.1, graph 0.1, graph 0.1, graph 0.1\nplot ");
	for (int i = 0; i < n; i++) {
		bace_buf_addf(&b, "%s$d%d using 1:2:3 with points pt variable ps 1.4 lw 1.5 lc rgb '%s' "
			      "title ", i ? ", " : "", i, colors[i]);
		add_name(&b, names[i]);
	}
	bace_buf_addf(&b, ", keyentry with points pt 2 lc rgb '#555555' title 'closed form', keyentry with "
		      "points pt 6 lc rgb '#555555' title 'event sim', keyentry with points pt 7 lc rgb "
		      "'#555555' title 'measured'\n");
	rc = gnuplot(&b, svg, e);
	bace_buf_free(&b);
	return rc;
}
