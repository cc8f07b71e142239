#include "harness/cmd/progress.h"

#include <unistd.h>

#define WIDTH 30

void progress_begin(struct progress *p, const char *what, bool quiet)
{
	*p = (struct progress){ .on = !quiet && isatty(2), .what = what, .begin_ns = bace_mono_ns() };
}

void progress_show(void *arg, int done, int total)
{
	static const char full[WIDTH + 1] = "##############################";
	static const char none[WIDTH + 1] = "..............................";
	struct progress *p = arg;
	char left[BACE_FMT_MAX] = "?";
	double spent_s = (double)(bace_mono_ns() - p->begin_ns) * 1e-9;
	int filled = total ? (int)((int64_t)WIDTH * done / total) : WIDTH;

	if (!p->on)
		return;
	if (done)
		bace_fmt_time(left, spent_s / done * (total - done));
	fprintf(stderr, "\r[%.*s%.*s] %d of %d %s, %s left\033[K", filled, full, WIDTH - filled, none, done,
		total, p->what, left);
	fflush(stderr);
}

void progress_end(struct progress *p)
{
	if (p->on)
		fputs("\r\033[K", stderr);
}
