/*
 * Figures of the benchmarks: ours, the peer's of the same run, their ratio, and
 * what is asked. With BACE_BENCH_ROWS=FILE each row goes there too, a JSON object
 * a line: tests/bench/run makes one table of all.
 */
#ifndef TESTS_BENCH_TABLE_H
#define TESTS_BENCH_TABLE_H

struct figure {
	double median, least, most;
	int n;			/* 0: there is none */
};

struct figure figure_of(double *v, int n);	/* sorts */
struct figure figure_one(double x);

/* Of ours, of ours / peer, or of ours - peer. */
enum asked_kind {
	ASKED_NOTHING, ASKED_MOST, ASKED_LEAST, ASKED_RATIO_MOST, ASKED_RATIO_LEAST,
	ASKED_RATIO_WITHIN,	/* of 1 */
	ASKED_WITHIN,		/* of the peer, either way */
	ASKED_ABOVE_MOST,	/* so much above the peer */
};

struct asked {
	enum asked_kind kind;
	double value;
};

void table_head(const char *title);
void table_row(const char *what, const char *unit, struct figure ours, struct figure peer, struct asked a);
/* What a size of something costs; `what` names the curve, `axis` what grows. */
void table_growth(const char *what, const char *axis, double size, double cost, const char *unit);

double now_ms(void);

#endif
