/* Shared by hop.c, what a hop carries, and hop_connect.c, how it comes to be. */
#ifndef BACE_WORKER_HOP_INTERNAL_H
#define BACE_WORKER_HOP_INTERNAL_H

#include "workloads/worker/hop.h"

/* Adds where it was to what went wrong. */
int hop_context(const struct hop *h, struct bace_err *e);
int hop_check(const struct hop *h, const struct header *in, struct bace_err *e);
/* Events of a lane's socket. */
int hop_on_socket(struct watch *w, uint32_t events, int64_t now, struct bace_err *e);
/* The lane's connection is there: its part of the first message goes out. */
int hop_open_lane(struct lane *l, struct bace_err *e);
/* A part is whole. */
int hop_take_part(struct lane *l, const struct header *in, int64_t first, int64_t now, struct bace_err *e);

#endif
