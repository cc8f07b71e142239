/* Runs one short-lived tool. Private to the shaper. */
#ifndef SHAPER_PROCESS_H
#define SHAPER_PROCESS_H

#include "common/common.h"

/* Runs the first of `names` (NULL-terminated) that exists, looked for in the
 * system's folders alone and never in PATH, since it runs with privilege, with
 * `args` (NULL-terminated, without argv[0]) and `input` on its standard input;
 * appends what it prints to *output. -ENOENT: none exists; the message has the
 * tool's own words when it fails. */
int process_run(const char *const *names, const char *const *args, const char *input,
		struct bace_buf *output, struct bace_err *e);

#endif
