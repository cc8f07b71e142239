/* Which kernel modules plans need and this kernel lacks: tried, never guessed. */
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shaper/inspect.h"
#include "shaper/kernel.h"
#include "shaper/scratch.h"

#define LOOPBACK 1
#define NO_ANSWER 0x80		/* no namespace, or no word from the kernel */

enum { LACKS_HTB = 1, LACKS_FIFO = 2, LACKS_NETEM = 4, LACKS_U32 = 8 };

static const char *const module_names[] = { "sch_htb", "sch_fifo", "sch_netem", "cls_u32" };

/* 0, or `lack' when the kernel does not know it; that it could not be asked says nothing. */
static int try(struct netlink *nl, const struct tcobj *o, int lack)
{
	const struct plan_step step = { .verb = o->parent == TC_H_ROOT ? PLAN_REPLACE_ROOT : PLAN_ADD, .o = o };
	struct netlink_batch b = { 0 };
	int rc = kernel_put_step(&b, LOOPBACK, &step);

	if (!rc)
		rc = netlink_batch_send(nl, &b);
	/* An answer comes with an index, a call that failed has none. */
	lack = rc && b.n_failed ? lack : rc ? NO_ANSWER : 0;
	netlink_batch_free(&b);
	return lack;
}

/* A handle keeps its kind, so each has its own. Without HTB there is nothing for a filter to stand on, and the rest still counts. */
static int lacks_here(enum delay_kind delay)
{
	const struct tcobj htb = { .parent = TC_H_ROOT, .handle = 1u << 16, .kind = &kind_htb_root, .kind_name = "htb" };
	const struct tcobj fifo = { .parent = TC_H_ROOT, .handle = 2u << 16, .kind = &kind_bfifo, .kind_name = "bfifo",
				    .u.fifo.limit = 10000 };
	const struct tcobj netem = { .parent = TC_H_ROOT, .handle = 3u << 16, .kind = &kind_netem, .kind_name = "netem",
				     .u.netem = { .latency_ns = 1000000, .limit_pkts = 1000 } };
	const struct tcobj u32 = { .type = TCOBJ_FILTER, .parent = 1u << 16, .handle = TC_U32_ROOT | 1, .prio = 1, .protocol = ETH_P_IP,
				   .kind = &kind_u32, .kind_name = "u32",
				   .u.u32 = { .classid = 1u << 16 | 1, .n_keys = 1, .keys = { { .off = 16 } } } };
	struct netlink nl;
	int lacks;

	if (netlink_open(&nl, NETLINK_ROUTE, NULL))
		return NO_ANSWER;
	lacks = try(&nl, &fifo, LACKS_FIFO);
	if (delay == DELAY_NETEM)
		lacks |= try(&nl, &netem, LACKS_NETEM);
	/* The last root is what the filter stands on. */
	lacks |= try(&nl, &htb, LACKS_HTB);
	if (!(lacks & LACKS_HTB))
		lacks |= try(&nl, &u32, LACKS_U32);
	netlink_close(&nl);
	return lacks;
}

int shape_missing_modules(enum delay_kind delay, char *buf, size_t cap)
{
	int status, lacks;
	pid_t pid = fork();

	*buf = '\0';
	if (pid < 0)
		return -errno;
	if (!pid)
		_exit(scratch_namespace_enter() ? NO_ANSWER : lacks_here(delay));
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	lacks = WIFEXITED(status) ? WEXITSTATUS(status) : NO_ANSWER;
	if (lacks & NO_ANSWER)
		return -EPERM;
	for (size_t i = 0; i < ARRAY_LEN(module_names); i++)
		if (lacks & 1 << i)
			snprintf(buf + strlen(buf), cap - strlen(buf), "%s%s", *buf ? " " : "", module_names[i]);
	return 0;
}
