#include "harness/cmd/live.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define JOBS_SHOWN 6

static double seconds_since(int64_t then_ns)
{
	return (double)(bace_mono_ns() - then_ns) / 1e9;
}

void live_begin(struct live *l, bool quiet)
{
	const char *term = getenv("TERM");
	struct winsize w;

	*l = (struct live){ .on = !quiet, .begin_ns = bace_mono_ns(), .width = 80 };
	l->in_place = isatty(STDERR_FILENO) && !(term && !strcmp(term, "dumb"));
	if (l->in_place && !ioctl(STDERR_FILENO, TIOCGWINSZ, &w) && w.ws_col)
		l->width = w.ws_col;
}

static void erase(struct live *l)
{
	if (l->shown)
		fprintf(stderr, "\033[%dA\r\033[J", l->shown);
	l->shown = 0;
}

/* No line may wrap, or going up would miss the first. */
static void draw(struct live *l)
{
	for (char *p = l->block.p; p && *p;) {
		int n = (int)strcspn(p, "\n");

		fprintf(stderr, "%.*s\n", n < l->width ? n : l->width - 1, p);
		l->shown++;
		p += n + (p[n] == '\n');
	}
	fflush(stderr);
}

void live_line(struct live *l, const char *line)
{
	if (!l->on)
		return;
	erase(l);
	fprintf(stderr, "%6.1f s  %s\n", seconds_since(l->begin_ns), line);
	draw(l);
}

static void add_left(struct live *l, const struct run_status *s, struct bace_buf *b)
{
	int done = s->n_steps ? s->cell : s->cell - 1;
	char left[BACE_FMT_MAX];

	if (!done || s->cells <= done)
		return;
	bace_fmt_time(left, ceil(seconds_since(l->cells_begin_ns) / done * (s->cells - done)));
	bace_buf_addf(b, ", about %s left", left);
}

static void add_job(const struct run_status_job *j, bool ended, struct bace_buf *b)
{
	char predicted[BACE_FMT_MAX], step[BACE_FMT_MAX];

	bace_buf_addf(b, "%s: ", j->what);
	if (ended && isfinite(j->step_s))
		bace_buf_addf(b, "step %s, %+.1f %%", bace_fmt_time(step, j->step_s), 100 * (j->step_s / j->predicted_s - 1));
	else
		bace_buf_addf(b, "predicted %s", bace_fmt_time(predicted, j->predicted_s));
}

static void fill_block(struct live *l, const struct run_status *s)
{
	bool ended = s->n_steps > 0;

	l->block.len = 0;
	bace_buf_addf(&l->block, "cell %d of about %d%s, policy %s, %d ranks", s->cell, s->cells,
		      ended ? s->invalid_why ? " is invalid" : " is done" : "", s->policy, s->ranks);
	add_left(l, s, &l->block);
	for (int i = 0; i < s->n_jobs && i < JOBS_SHOWN; i++) {
		bace_buf_addf(&l->block, "\n  ");
		add_job(&s->jobs[i], ended, &l->block);
	}
	if (s->n_jobs > JOBS_SHOWN)
		bace_buf_addf(&l->block, "\n  and %d more", s->n_jobs - JOBS_SHOWN);
	if (s->link[0])
		bace_buf_addf(&l->block, "\n  busiest link: %s, %.0f %% of its rate", s->link, 100 * s->link_share);
	bace_buf_addf(&l->block, "\n");
}

/* The same on one line, once a cell begins and once it has ended. */
static void print_line(struct live *l, const struct run_status *s)
{
	bool ended = s->n_steps > 0;
	struct bace_buf b = { 0 };

	bace_buf_addf(&b, "%s%s: cell %d of about %d", ended ? "  " : "", s->policy, s->cell, s->cells);
	if (s->invalid_why)
		bace_buf_addf(&b, " is invalid: %s", s->invalid_why);
	for (int i = 0; !s->invalid_why && i < s->n_jobs; i++) {
		bace_buf_addf(&b, "%s", i ? "; " : ": ");
		add_job(&s->jobs[i], ended, &b);
	}
	if (s->link[0] && !s->invalid_why)
		bace_buf_addf(&b, "; busiest link %s %.0f %%", s->link, 100 * s->link_share);
	if (ended)
		add_left(l, s, &b);
	live_line(l, b.p ? b.p : "");
	bace_buf_free(&b);
}

void live_status(struct live *l, const struct run_status *s)
{
	if (!l->on)
		return;
	if (!l->cells_begin_ns)
		l->cells_begin_ns = bace_mono_ns();
	if (!l->in_place || s->invalid_why)
		print_line(l, s);
	if (!l->in_place)
		return;
	erase(l);
	fill_block(l, s);
	draw(l);
}

void live_end(struct live *l)
{
	erase(l);
	fflush(stderr);
	bace_buf_free(&l->block);
}
