/*
 * A line that an external program answers: refused with a reason, or a list of
 * placements each of which is refused with a reason or keeps every constraint.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "harness/policy/answer.h"
#include "tests/unit/policy/fixture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct fixture *three_regions(void)
{
	static struct fixture f;

	if (f.q.n)
		return &f;
	fix_init(&f, 3);
	fix_region(&f, 0, "a", 6, 0.1, 1e12);
	fix_region(&f, 1, "b", 4, 0.2, 1e12);
	fix_region(&f, 2, "c", 2, 0.3, 1e9);
	fix_link(&f, 0, 1, 10e9, 0.01);
	fix_link_one_way(&f, 1, 2, 1e9, 0.02);
	fix_model(&f, "net", 4, 4, 8, 1e6, 1e9);
	fix_job(&f, "j1", 0, 4, 10, 0);
	fix_job(&f, "j2", 0, 4, 10, 0);
	fix_ready(&f);
	return &f;
}

static void check_placement(const struct fixture *f, const struct placement *p)
{
	int gpus = 0, taken[FIX_REGIONS] = { 0 };

	for (int i = 0; i < p->n_parts; i++) {
		int r = p->parts[i].region;

		if (r < 0 || r >= 3 || p->parts[i].gpus < 1)
			abort();
		gpus += p->parts[i].gpus;
		taken[r] += p->parts[i].gpus;
		if (taken[r] > f->free_gpus[r])
			abort();
	}
	if (p->job < 0 || p->job > 1 || gpus != p->n_gpus || !gpus)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP_FREE char *line = strndup((const char *)data, size);
	const struct fixture *f = three_regions();
	char why[256] = "";
	json_t *list, *entry;
	size_t i;

	if (!line)
		abort();
	list = answer_parse(line, why);
	if (!list && !why[0])
		abort();
	json_array_foreach(list, i, entry) {
		struct bace_err e = { 0 };
		struct placement p;
		int rc = answer_placement("x", &f->v, &f->q, entry, &p, &e);

		if (rc == 1) {
			check_placement(f, &p);
			placement_free(&p);
		} else if (rc != -EINVAL || !e.msg[0]) {
			abort();
		}
	}
	json_decref(list);
	return 0;
}
