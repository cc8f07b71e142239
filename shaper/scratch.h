/* A network namespace to try things in. Private to the shaper. */
#ifndef SHAPER_SCRATCH_H
#define SHAPER_SCRATCH_H

#include "common/common.h"

/* For a forked child that is about to end: moves it into a new, empty network
 * namespace, with a user namespace around it where that is needed. */
int scratch_namespace_enter(void);
/* Runs f in a child in such a namespace, and answers as it does. -EPERM: there is none. */
int scratch_run(int (*f)(const void *arg, struct bace_err *e), const void *arg, struct bace_err *e);
/* Does this kernel's netem duplicate packets beside another netem of the same interface?
 * Some take that for a loop. -EINVAL: no, err has its words. */
int scratch_try_duplicate(struct bace_err *e);

#endif
