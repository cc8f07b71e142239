/* make-store FILE POLICIES STEPS: a store with a made-up run, to look at. */
#include <stdlib.h>

#include "fixture.h"

int main(int argc, char **argv)
{
	struct store *s;
	struct bace_err e;
	char id[32];

	if (argc != 4) {
		fprintf(stderr, "usage: %s FILE POLICIES STEPS\n", argv[0]);
		return 2;
	}
	if (store_open(argv[1], &s, &e)) {
		fprintf(stderr, "%s\n", e.msg);
		return 1;
	}
	fixture_run(s, 1, (struct fixture_size){ atoi(argv[2]), atoi(argv[3]), true, true }, id);
	store_close(s);
	puts(id);
	return 0;
}
