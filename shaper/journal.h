/*
 * What a process changed, on disk before it changes it, so that another can
 * undo it after a crash. Private to the shaper.
 */
#ifndef SHAPER_JOURNAL_H
#define SHAPER_JOURNAL_H

#include "shaper/snapshot.h"

struct journal_entry {
	char ifname[IFNAMSIZ];
	bool tc;			/* its root qdisc is (about to be) ours */
	uint32_t gso_before;		/* 0: unchanged */
	uint32_t gso_ipv4_before;	/* 0: the kernel had none of its own for IPv4 */
	struct snapshot before;		/* n = 0: a kernel default */
	bool owed;			/* ours is gone and `before' not back yet; not on disk */
};

struct journal {
	size_t n, cap;
	struct journal_entry *v;
};

void journal_free(struct journal *j);

/* Replaces DIR/journal; durable when it returns. */
int journal_write(const char *dir, const struct journal *j, struct bace_err *e);
/* -ENOENT: there is none, or it is from before the last boot. */
int journal_read(const char *dir, struct journal *j, struct bace_err *e);
int journal_remove(const char *dir, struct bace_err *e);

/* The bytes: pure, for the above and for tests. */
int journal_encode(const struct journal *j, const char *boot_id, struct bace_buf *out);
int journal_decode(const uint8_t *p, size_t n, const char *boot_id, struct journal *j);

#endif
