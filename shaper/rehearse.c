#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shaper/scratch.h"
#include "shaper/snapshot.h"

/* A veth with as many queues as the real interface, so that mq has its leaves. */
static int add_device(struct netlink *nl, const struct snapshot *s, struct bace_err *e)
{
	_Alignas(NLMSG_ALIGNTO) char buf[512];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct nlattr *info;

	nlh->nlmsg_type = RTM_NEWLINK;
	nlh->nlmsg_flags = NLM_F_CREATE | NLM_F_EXCL;
	struct ifinfomsg *ifi = mnl_nlmsg_put_extra_header(nlh, sizeof(*ifi));
	ifi->ifi_flags = ifi->ifi_change = IFF_UP;
	mnl_attr_put_strz(nlh, IFLA_IFNAME, "rehearse0");
	if (s->n_tx_queues > 1)
		mnl_attr_put_u32(nlh, IFLA_NUM_TX_QUEUES, s->n_tx_queues);
	info = mnl_attr_nest_start(nlh, IFLA_LINKINFO);
	mnl_attr_put_strz(nlh, IFLA_INFO_KIND, "veth");
	mnl_attr_nest_end(nlh, info);
	return netlink_ask(nl, nlh, NULL, NULL, e);
}

static int rehearse_here(const struct snapshot *s, struct bace_err *e)
{
	struct netlink nl;
	int rc = netlink_open(&nl, NETLINK_ROUTE, e);

	if (rc)
		return rc;
	rc = add_device(&nl, s, e);
	if (!rc)
		rc = snapshot_build_on(&nl, s, "rehearse0", e);
	netlink_close(&nl);
	return rc;
}

int snapshot_rehearse(const struct snapshot *s, struct bace_err *e)
{
	struct bace_err inner = { 0 };
	int status, pipe_fd[2];
	ssize_t n;
	pid_t pid;

	if (snapshot_hides_something(s))
		return bace_fail(e, ENOTSUP, "the netem qdisc of `%s' has a jitter, whose distribution the kernel does not show: it could not be put back, so remove it yourself first",
				 s->ifname);
	if (s->incomplete)
		return bace_fail(e, ENOTSUP, "the %s qdisc of `%s' has more than bace can keep (a size table, a shared block, a class of a kind that Linux has given up): it could not be put back, so remove it yourself first",
				 snapshot_root_kind(s), s->ifname);
	if (pipe2(pipe_fd, O_CLOEXEC))
		return bace_fail_errno(e, errno, "pipe");
	pid = fork();
	if (pid < 0) {
		close(pipe_fd[0]);
		close(pipe_fd[1]);
		return bace_fail_errno(e, errno, "fork");
	}
	if (!pid) {
		if (scratch_namespace_enter())
			_exit(2);
		if (!rehearse_here(s, &inner))
			_exit(0);
		_exit(write(pipe_fd[1], &inner, sizeof(inner)) == sizeof(inner) ? 1 : 2);
	}
	close(pipe_fd[1]);
	n = read(pipe_fd[0], &inner, sizeof(inner));
	close(pipe_fd[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	return bace_fail(e, ENOTSUP, "the %s qdisc of `%s' could not be put back exactly afterwards (%s): remove it yourself first",
			 snapshot_root_kind(s), s->ifname,
			 n == sizeof(inner) ? inner.msg : "no scratch namespace to try it in");
}
