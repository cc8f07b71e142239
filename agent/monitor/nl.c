#include <errno.h>

#include "agent/monitor/internal.h"

int nl_open(int bus, struct mnl_socket **out, struct bace_err *e)
{
	struct mnl_socket *s = mnl_socket_open2(bus, SOCK_CLOEXEC);

	if (!s || mnl_socket_bind(s, 0, MNL_SOCKET_AUTOPID)) {
		int saved = errno;

		if (s)
			mnl_socket_close(s);
		return bace_fail_errno(e, saved, "open a netlink socket");
	}
	*out = s;
	return 0;
}

void nl_drain(struct mnl_socket *s)
{
	char buf[8192];

	while (recv(mnl_socket_get_fd(s), buf, sizeof(buf), MSG_DONTWAIT | MSG_TRUNC) > 0)
		;
}

/* Something changed meanwhile: the kernel says so in every datagram from then on,
 * and mnl_cb_run would leave off at the first. What is there is taken, and the
 * next sample is whole again. */
int nl_take(void *buf, size_t len, uint32_t seq, uint32_t portid, mnl_cb_t cb, void *arg)
{
	int left = (int)len, rc;

	for (struct nlmsghdr *h = buf; mnl_nlmsg_ok(h, left); h = mnl_nlmsg_next(h, &left))
		h->nlmsg_flags &= (uint16_t)~NLM_F_DUMP_INTR;
	rc = mnl_cb_run(buf, len, seq, portid, cb, arg);
	return rc < 0 ? -errno : rc > 0;
}

int nl_dump(struct mnl_socket *s, struct nlmsghdr *req, mnl_cb_t cb, void *arg, struct bace_err *e)
{
	static uint32_t seq;
	char buf[32768];

	req->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	req->nlmsg_seq = ++seq;
	if (mnl_socket_sendto(s, req, req->nlmsg_len) < 0)
		return bace_fail_errno(e, errno, "ask the kernel");
	for (;;) {
		ssize_t n = mnl_socket_recvfrom(s, buf, sizeof(buf));
		int rc, saved;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			saved = errno;
			nl_drain(s);
			return bace_fail_errno(e, saved, "hear from the kernel");
		}
		rc = nl_take(buf, (size_t)n, req->nlmsg_seq, mnl_socket_get_portid(s), cb, arg);
		if (!rc)
			return 0;
		if (rc < 0) {
			saved = -rc;
			nl_drain(s);
			return bace_fail_errno(e, saved, "the kernel's answer");
		}
	}
}
