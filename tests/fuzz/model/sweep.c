/* A shard's file: refused with a reason and nothing left, or a sweep that is
 * written again as it was read and merges with itself at most by a refusal. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "harness/sim/sim.h"
#include "tests/fuzz/memory_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Else the compiler leaves out the reading that is to be watched. */
extern volatile double read_all;
volatile double read_all;

static void check(const struct sweep *s)
{
	if (s->n_cells != s->n_seeds * s->n_policies * s->n_oracles)
		abort();
	for (int i = 0; i < s->n_cells; i++) {
		const struct sweep_cell *c = &s->cells[i];
		double sum = 0;

		if (!c->done && (c->jct_s || c->error))
			abort();
		for (int k = 0; c->jct_s && k < s->n_jobs; k++)
			sum += c->jct_s[k] + c->cost_usd[k];
		read_all = sum;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bace_err e = { 0 };
	struct sweep s, again;
	char path[32];
	int fd = memory_file(data, size, path), rc = sweep_read(path, &s, &e);

	if (rc) {
		if (!e.msg[0] || s.cells || s.policies)
			abort();
	} else {
		check(&s);
		if (sweep_read(path, &again, &e))
			abort();
		rc = sweep_merge(&s, &again, &e);
		if (rc && (rc != -EINVAL || !e.msg[0]))
			abort();
		check(&s);
		sweep_free(&again);
		sweep_free(&s);
	}
	close(fd);
	return 0;
}
