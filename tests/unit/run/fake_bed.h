/* A testbed that only says so: every step takes a second, cells that are to be
 * spoilt do not count. While it is open BACE_TEST_MEASURING is in the environment.
 * Takes the place of harness/run/bed.c. */
#ifndef TEST_RUN_FAKE_BED_H
#define TEST_RUN_FAKE_BED_H

#define FAKE_DELAY_LATE_NS 700000

struct fake_bed {
	int runs;			/* cells, so far */
	int spoil_from, spoil_to;	/* of them, from 1; 0: none */
	const char *lacks;		/* of a host's wan; NULL: nothing */
	int slow_from;			/* from this many cells on agents report a hundredth of every link; 0: nothing */
};
extern struct fake_bed fake_bed;

#endif
