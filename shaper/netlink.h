/*
 * rtnetlink and nfnetlink over libmnl: one socket, dumps, and batches whose
 * errors are told apart by message. Private to the shaper.
 */
#ifndef SHAPER_NETLINK_H
#define SHAPER_NETLINK_H

#include <libmnl/libmnl.h>

#include "common/common.h"

struct netlink {
	struct mnl_socket *sock;
	unsigned portid;
	uint32_t seq;
};

/* In the network namespace of the calling thread. */
int netlink_open(struct netlink *nl, int bus, struct bace_err *e);
void netlink_close(struct netlink *nl);

/* Sends one dump request (header and payload built by the caller; sequence and
 * flags are set here) and calls cb for each answer; an interrupted dump is
 * started again after reset(arg). cb returns 0 or -errno. */
typedef int (*netlink_cb)(const struct nlmsghdr *nlh, void *arg);
int netlink_dump(struct netlink *nl, struct nlmsghdr *req, netlink_cb cb, void (*reset)(void *),
		 void *arg, struct bace_err *e);
/* One request, one answer (cb may be NULL: only the acknowledgement). */
int netlink_ask(struct netlink *nl, struct nlmsghdr *req, netlink_cb cb, void *arg,
		struct bace_err *e);

/* ---- batches ---- */
struct netlink_failure {
	size_t index;		/* of the message in the batch */
	int errnum;
	char text[160];		/* the kernel's own words, or "" */
};

struct netlink_batch {
	char *buf;
	size_t len, cap;
	size_t n;		/* messages */
	size_t n_failed;
	struct netlink_failure first;	/* the first failure, if n_failed */
	/* Set before anything is added: called with each object as the kernel has
	 * it after the change that message number `index` made. */
	void (*on_echo)(const struct nlmsghdr *nlh, size_t index, void *arg);
	void *echo_arg;
};

void netlink_batch_free(struct netlink_batch *b);
/* A zeroed message of the given type at the end, with room for `room` bytes of
 * payload; NULL: no memory. End it with netlink_batch_commit. */
struct nlmsghdr *netlink_batch_add(struct netlink_batch *b, uint16_t type, uint16_t flags, size_t room);
void netlink_batch_commit(struct netlink_batch *b, const struct nlmsghdr *nlh);
/* Sends everything, in sends of at most 128 messages with one acknowledgement
 * each. Not a transaction: failed messages leave the others applied. Returns 0
 * when all were accepted, else -errno of the first that was not. */
int netlink_batch_send(struct netlink *nl, struct netlink_batch *b);

/* ---- attributes; all lengths are checked ---- */
int attrs_parse(const struct nlattr *nest, const struct nlattr **tb, uint16_t max);
int attrs_parse_at(const struct nlattr *nest, size_t skip, const struct nlattr **tb, uint16_t max);
int attrs_parse_msg(const struct nlmsghdr *nlh, size_t skip, const struct nlattr **tb, uint16_t max);
/* Payload of at least `size` bytes, or NULL. */
const void *attr_struct(const struct nlattr *a, size_t size);
int attr_u32(const struct nlattr *a, uint32_t *v);
int attr_u64(const struct nlattr *a, uint64_t *v);
/* NUL-terminated within the attribute, shorter than cap; copies. */
int attr_str(const struct nlattr *a, char *to, size_t cap);

#endif
