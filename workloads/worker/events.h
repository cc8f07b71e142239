/* What a worker says on stdout and hears on stdin. */
#ifndef BACE_WORKER_EVENTS_H
#define BACE_WORKER_EVENTS_H

#include <jansson.h>

#include "common/common.h"

/* One line; takes over the reference. */
void event_send(json_t *event);
void event_listening(int hop, uint16_t port);
/* {"event": "error"}, and the same line on stderr. */
void event_error(const struct bace_err *e);

/* Lines of stdin. */
struct commands {
	struct bace_buf in;
	bool eof;
	bool told;			/* the error that ends this worker has been sent */
};

/* The next command, or NULL: none yet, or (c->eof) never again. */
json_t *command_next(struct commands *c, struct bace_err *e);

#endif
