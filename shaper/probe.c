#include <errno.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shaper/delay/nfqueue.h"
#include "shaper/delay/rules.h"
#include "shaper/kernel.h"
#include "shaper/scratch.h"

#define LOOPBACK 1

static bool has_netem(void)
{
	struct netlink nl;
	struct netlink_batch b = { 0 };
	struct tcobj o = { .type = TCOBJ_QDISC, .parent = TC_H_ROOT, .handle = 1u << 16,
			   .kind = &kind_netem, .kind_name = "netem",
			   .u.netem = { .latency_ns = 1000000, .limit_pkts = 1000 } };
	const struct plan_step step = { .verb = PLAN_REPLACE_ROOT, .o = &o };
	bool yes;

	if (netlink_open(&nl, NETLINK_ROUTE, NULL))
		return false;
	yes = !kernel_put_step(&b, LOOPBACK, &step) && !netlink_batch_send(&nl, &b);
	netlink_batch_free(&b);
	netlink_close(&nl);
	return yes;
}

/* The queue and the rule that feeds it. */
static bool has_nfqueue(void)
{
	struct shape_link link = {
		.name = "probe", .latency_ns = 1, .n_prefixes = 1,
		.prefixes = { { .family = AF_INET, .len = 8, .addr = { 10 } } } };
	const struct shape_spec spec = { .egress = "lo", .delay = DELAY_NFQUEUE, .n_links = 1, .links = &link };
	struct delay_rules rules = { 0 };
	struct nfqueue q;
	bool yes;

	if (nfqueue_open(&q, 1000, NULL))
		return false;
	yes = !delay_rules_install(&rules, &spec, NULL, NULL);
	nfqueue_close(&q);
	return yes;
}

static enum delay_kind probe_here(void)
{
	return has_netem() ? DELAY_NETEM : has_nfqueue() ? DELAY_NFQUEUE : DELAY_NONE;
}

/* In a child: a namespace that is entered cannot be left without privilege. */
static int probe_in_scratch(enum delay_kind *kind)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (!pid)
		_exit(scratch_namespace_enter() ? 100 : (int)probe_here());
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (!WIFEXITED(status) || WEXITSTATUS(status) > DELAY_NFQUEUE)
		return -EPERM;
	*kind = (enum delay_kind)WEXITSTATUS(status);
	return 0;
}

enum delay_kind shape_probe_delay(const char **why)
{
	enum delay_kind kind = DELAY_NONE;

	if (probe_in_scratch(&kind)) {
		*why = "no scratch network namespace could be made to try netem and NFQUEUE in";
		return DELAY_NONE;
	}
	*why = kind == DELAY_NETEM ? "the kernel has sch_netem"
	       : kind == DELAY_NFQUEUE ? "the kernel has no sch_netem; NFQUEUE and its iptables target work"
	       : "the kernel has no sch_netem, and NFQUEUE or its iptables target does not work";
	return kind;
}

/* Two links delayed on one interface, of which one duplicates: as a plan lays them. */
static int duplicate_here(const void *ignored, struct bace_err *e)
{
	struct shape_link links[2];
	struct shape_spec spec = { .egress = "none", .ingress = "lo", .delay = DELAY_NETEM, .mtu = 1500, .n_links = 2, .links = links };
	struct shape_plan plan;
	struct netlink nl;
	int rc;

	for (int i = 0; i < 2; i++)
		links[i] = (struct shape_link){ .name = "probe", .region = (uint16_t)i, .latency_ns = 1000000, .n_prefixes = 1,
						.prefixes = { { .family = AF_INET, .len = 16, .addr = { 10, (uint8_t)i } } } };
	links[1].impair.duplicate = 0.5;
	rc = netlink_open(&nl, NETLINK_ROUTE, e);
	if (rc)
		return rc;
	rc = plan_build(&spec, &plan, e);
	if (!rc) {
		rc = kernel_apply(&nl, &plan.ingress, NULL, e);
		plan_free(&plan);
	}
	netlink_close(&nl);
	return rc;
}

int scratch_try_duplicate(struct bace_err *e)
{
	return scratch_run(duplicate_here, NULL, e);
}
