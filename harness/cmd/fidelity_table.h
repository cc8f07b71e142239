/* How `bace fidelity' prints what it measured. */
#ifndef BACE_CMD_FIDELITY_TABLE_H
#define BACE_CMD_FIDELITY_TABLE_H

#include "harness/run/run.h"

struct fidelity_limits {
	double median, worst;		/* fractions */
};

struct fidelity_summary {
	int n, n_invalid;
	double median, worst;		/* |measured / simulated - 1| of the valid ones; NAN: none */
	int worst_at;
};

double fidelity_error(const struct fidelity_point *p);	/* signed; NAN: not valid */
struct fidelity_summary fidelity_summarise(const struct fidelity *f);
void fidelity_print_matrix(const struct fidelity *f, FILE *to);
/* Errors of each schedule. */
void fidelity_print_schedules(const struct fidelity *f, FILE *to);
void fidelity_print_curve(const struct fidelity *f, FILE *to);
void fidelity_print_summary(const struct fidelity *f, const struct fidelity_summary *s,
			    const struct fidelity_limits *l, FILE *to);
int fidelity_json(const struct fidelity *f, const struct fidelity_summary *s, FILE *to);

#endif
