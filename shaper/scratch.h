/* A network namespace to try things in. Private to the shaper. */
#ifndef SHAPER_SCRATCH_H
#define SHAPER_SCRATCH_H

/* For a forked child that is about to end: moves it into a new, empty network
 * namespace, with a user namespace around it where that is needed. */
int scratch_namespace_enter(void);

#endif
