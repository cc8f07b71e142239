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

int nl_dump(struct mnl_socket *s, struct nlmsghdr *req, mnl_cb_t cb, void *arg, struct bace_err *e)
{
	static uint32_t seq;
	char buf[32768];
	ssize_t n;
	int rc;

	req->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	req->nlmsg_seq = ++seq;
	if (mnl_socket_sendto(s, req, req->nlmsg_len) < 0)
		return bace_fail_errno(e, errno, "ask the kernel");
	do {
		n = mnl_socket_recvfrom(s, buf, sizeof(buf));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return bace_fail_errno(e, errno, "hear from the kernel");
		rc = mnl_cb_run(buf, (size_t)n, req->nlmsg_seq, mnl_socket_get_portid(s), cb, arg);
	} while (rc > 0);
	/* Interrupted: something changed meanwhile; the next sample is whole again. */
	if (rc < 0 && errno != EINTR)
		return bace_fail_errno(e, errno, "the kernel's answer");
	return 0;
}
