/* What only netem does to packets: a group of tests for packets.c. */
#ifndef TESTS_NETNS_SHAPER_IMPAIR_H
#define TESTS_NETNS_SHAPER_IMPAIR_H

/* How many failed. */
int impair_tests(void);

#endif
