#include "shaper/netlink.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define MESSAGES_PER_SEND 128
#define BYTES_PER_SEND (64 << 10)
#define RECEIVE_BYTES (64 << 10)
#define DUMP_TRIES 8

int netlink_open(struct netlink *nl, int bus, struct bace_err *e)
{
	int one = 1, size = 4 << 20;

	*nl = (struct netlink){ .sock = mnl_socket_open2(bus, SOCK_CLOEXEC) };
	if (!nl->sock)
		return bace_fail_errno(e, errno, "open a netlink socket");
	if (mnl_socket_bind(nl->sock, 0, MNL_SOCKET_AUTOPID) < 0) {
		int err = errno;

		netlink_close(nl);
		return bace_fail_errno(e, err, "bind a netlink socket");
	}
	nl->portid = mnl_socket_get_portid(nl->sock);
	nl->seq = 1;
	/* Best effort: without them messages are poorer, not wrong. */
	mnl_socket_setsockopt(nl->sock, NETLINK_EXT_ACK, &one, sizeof(one));
	mnl_socket_setsockopt(nl->sock, NETLINK_CAP_ACK, &one, sizeof(one));
	mnl_socket_setsockopt(nl->sock, NETLINK_GET_STRICT_CHK, &one, sizeof(one));
	setsockopt(mnl_socket_get_fd(nl->sock), SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	setsockopt(mnl_socket_get_fd(nl->sock), SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	return 0;
}

void netlink_close(struct netlink *nl)
{
	if (nl->sock)
		mnl_socket_close(nl->sock);
	nl->sock = NULL;
}

static ssize_t receive(struct netlink *nl, char *buf, size_t cap)
{
	ssize_t n;

	do
		n = mnl_socket_recvfrom(nl->sock, buf, cap);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static const char *error_text(const struct nlmsghdr *nlh, char *to, size_t cap)
{
	const struct nlmsgerr *err = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *tb[NLMSGERR_ATTR_MAX + 1];
	size_t skip = sizeof(*err);

	to[0] = '\0';
	if (!(nlh->nlmsg_flags & NLM_F_ACK_TLVS))
		return to;
	if (!(nlh->nlmsg_flags & NLM_F_CAPPED)) {
		if (err->msg.nlmsg_len < sizeof(err->msg))
			return to;
		skip += MNL_ALIGN(err->msg.nlmsg_len) - sizeof(err->msg);
	}
	if (!attrs_parse_msg(nlh, skip, tb, NLMSGERR_ATTR_MAX) && tb[NLMSGERR_ATTR_MSG])
		attr_str(tb[NLMSGERR_ATTR_MSG], to, cap);
	return to;
}

/* 0: go on; 1: the end; -errno. */
static int dump_message(const struct nlmsghdr *nlh, netlink_cb cb, void *arg, bool *interrupted)
{
	const struct nlmsgerr *err = mnl_nlmsg_get_payload(nlh);
	int status;

	if (nlh->nlmsg_flags & NLM_F_DUMP_INTR)
		*interrupted = true;
	switch (nlh->nlmsg_type) {
	case NLMSG_NOOP:
	case NLMSG_OVERRUN:
		return 0;
	case NLMSG_DONE:
		if (mnl_nlmsg_get_payload_len(nlh) < sizeof(status))
			return 1;
		memcpy(&status, mnl_nlmsg_get_payload(nlh), sizeof(status));
		return status < 0 ? status : 1;
	case NLMSG_ERROR:
		if (mnl_nlmsg_get_payload_len(nlh) < sizeof(*err))
			return -EBADMSG;
		return err->error ? err->error : 1;
	default:
		return cb ? cb(nlh, arg) : 0;
	}
}

/* Reads until the dump or request `seq` has ended. */
static int read_answers(struct netlink *nl, uint32_t seq, netlink_cb cb, void *arg, bool *interrupted,
			char *text, size_t text_cap)
{
	CLEANUP_FREE char *buf = malloc(RECEIVE_BYTES);
	int rc = 0, first_error = 0;

	text[0] = '\0';
	if (!buf)
		return -ENOMEM;
	while (!rc) {
		ssize_t n = receive(nl, buf, RECEIVE_BYTES);
		int left = (int)n;

		if (n < 0)
			return (int)n;
		for (const struct nlmsghdr *nlh = (void *)buf; !rc && mnl_nlmsg_ok(nlh, left);
		     nlh = mnl_nlmsg_next(nlh, &left)) {
			if (nlh->nlmsg_seq != seq)
				continue;
			if (nlh->nlmsg_type == NLMSG_ERROR)
				error_text(nlh, text, text_cap);
			rc = dump_message(nlh, cb, arg, interrupted);
			/* A callback's error must not leave answers in the socket. */
			if (rc < 0 && nlh->nlmsg_type >= NLMSG_MIN_TYPE) {
				first_error = first_error ? first_error : rc;
				rc = 0;
			}
		}
	}
	return first_error ? first_error : rc < 0 ? rc : 0;
}

static int request(struct netlink *nl, struct nlmsghdr *req, netlink_cb cb, void *arg, bool *interrupted,
		   struct bace_err *e)
{
	char text[160];
	int rc;

	req->nlmsg_seq = nl->seq++;
	req->nlmsg_pid = nl->portid;
	if (mnl_socket_sendto(nl->sock, req, req->nlmsg_len) < 0)
		return bace_fail_errno(e, errno, "send a netlink request");
	rc = read_answers(nl, req->nlmsg_seq, cb, arg, interrupted, text, sizeof(text));
	if (rc)
		return text[0] ? bace_fail(e, -rc, "%s (%s)", strerror(-rc), text)
			       : bace_fail(e, -rc, "%s", strerror(-rc));
	return 0;
}

int netlink_dump(struct netlink *nl, struct nlmsghdr *req, netlink_cb cb, void (*reset)(void *),
		 void *arg, struct bace_err *e)
{
	req->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	for (int i = 0; i < DUMP_TRIES; i++) {
		bool interrupted = false;
		int rc;

		if (reset)
			reset(arg);
		rc = request(nl, req, cb, arg, &interrupted, e);
		if (rc || !interrupted)
			return rc;
	}
	return bace_fail(e, EAGAIN, "a dump was interrupted by changes %d times", DUMP_TRIES);
}

int netlink_ask(struct netlink *nl, struct nlmsghdr *req, netlink_cb cb, void *arg, struct bace_err *e)
{
	bool interrupted = false;

	req->nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
	return request(nl, req, cb, arg, &interrupted, e);
}

void netlink_batch_free(struct netlink_batch *b)
{
	free(b->buf);
	*b = (struct netlink_batch){ 0 };
}

struct nlmsghdr *netlink_batch_add(struct netlink_batch *b, uint16_t type, uint16_t flags, size_t room)
{
	size_t need = b->len + MNL_ALIGN(sizeof(struct nlmsghdr) + room);
	struct nlmsghdr *nlh;

	if (need > b->cap && bace_grow(&b->buf, &b->cap, need, 1))
		return NULL;
	memset(b->buf + b->len, 0, need - b->len);
	nlh = mnl_nlmsg_put_header(b->buf + b->len);
	nlh->nlmsg_type = type;
	nlh->nlmsg_flags = (uint16_t)(flags | NLM_F_REQUEST | (b->on_echo ? NLM_F_ECHO : 0));
	return nlh;
}

void netlink_batch_commit(struct netlink_batch *b, const struct nlmsghdr *nlh)
{
	b->len += MNL_ALIGN(nlh->nlmsg_len);
	b->n++;
}

static void note_failure(struct netlink_batch *b, const struct nlmsghdr *nlh, uint32_t first_seq, int error)
{
	size_t index = nlh->nlmsg_seq - first_seq;

	if (!b->n_failed++ || index < b->first.index) {
		b->first.index = index;
		b->first.errnum = -error;
		error_text(nlh, b->first.text, sizeof(b->first.text));
	}
}

/* Reads acknowledgements and errors until the message `last_seq` is answered. */
static int read_acks(struct netlink *nl, struct netlink_batch *b, uint32_t first_seq, uint32_t last_seq)
{
	_Alignas(8) char buf[8192];

	for (;;) {
		ssize_t n = receive(nl, buf, sizeof(buf));
		int left = (int)n;

		if (n < 0)
			return (int)n;
		for (const struct nlmsghdr *nlh = (void *)buf; mnl_nlmsg_ok(nlh, left);
		     nlh = mnl_nlmsg_next(nlh, &left)) {
			const struct nlmsgerr *err = mnl_nlmsg_get_payload(nlh);

			if (nlh->nlmsg_seq - first_seq >= b->n)
				continue;
			if (nlh->nlmsg_type >= NLMSG_MIN_TYPE && b->on_echo)
				b->on_echo(nlh, nlh->nlmsg_seq - first_seq, b->echo_arg);
			if (nlh->nlmsg_type != NLMSG_ERROR || mnl_nlmsg_get_payload_len(nlh) < sizeof(*err))
				continue;
			if (err->error)
				note_failure(b, nlh, first_seq, err->error);
			if (nlh->nlmsg_seq == last_seq)
				return 0;
		}
	}
}

int netlink_batch_send(struct netlink *nl, struct netlink_batch *b)
{
	uint32_t first_seq = nl->seq;
	size_t at = 0;

	b->n_failed = 0;
	while (at < b->len) {
		size_t end = at;
		struct nlmsghdr *last = NULL;

		for (int i = 0; i < MESSAGES_PER_SEND && end < b->len; i++) {
			struct nlmsghdr *nlh = (void *)(b->buf + end);

			if (last && end + nlh->nlmsg_len - at > BYTES_PER_SEND)
				break;
			nlh->nlmsg_seq = nl->seq++;
			nlh->nlmsg_pid = nl->portid;
			end += MNL_ALIGN(nlh->nlmsg_len);
			last = nlh;
		}
		last->nlmsg_flags |= NLM_F_ACK;
		if (mnl_socket_sendto(nl->sock, b->buf + at, end - at) < 0)
			return -errno;
		int rc = read_acks(nl, b, first_seq, last->nlmsg_seq);
		if (rc)
			return rc;
		at = end;
	}
	return b->n_failed ? -b->first.errnum : 0;
}
