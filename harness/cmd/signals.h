/* Ctrl-C and its like, for commands that end in order. */
#ifndef BACE_CMD_SIGNALS_H
#define BACE_CMD_SIGNALS_H

#include <stdbool.h>

/* From here on SIGINT, SIGTERM and SIGHUP make signals_caught true; SIGPIPE is none. */
void signals_catch(void);
bool signals_caught(void *arg);		/* arg: not used */

#endif
