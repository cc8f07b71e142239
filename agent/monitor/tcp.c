/* tcp_info of the workers' sockets, by sock_diag. */
#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/monitor/internal.h"

#define DIAG_ESTABLISHED (1u << 1)	/* TCP_ESTABLISHED of the kernel's enum */
#define DIAG_CLOSE_WAIT (1u << 8)

struct owned {
	uint32_t inode;
	bool ours;			/* else somebody else's: looked up once */
};

struct seen {				/* the last row of a socket: compared whole */
	uint64_t v[11];
};

struct tcp_source {
	struct source base;
	struct mnl_socket *nl;
	struct bace_buf *rows;
	bool full, unknown, any_v6;
	int n_workers;			/* when owners were looked up */
	struct owned *owned;		/* by inode */
	size_t n_owned, cap_owned;
	struct seen *before;
	size_t n, n_before, cap;
};

static int by_inode(const void *a, const void *b)
{
	uint32_t x = ((const struct owned *)a)->inode, y = ((const struct owned *)b)->inode;

	return (x > y) - (x < y);
}

static const struct owned *find_owner(const struct tcp_source *s, uint32_t inode)
{
	return s->n_owned ? bsearch(&(struct owned){ .inode = inode }, s->owned, s->n_owned, sizeof(*s->owned),
				    by_inode) : NULL;
}

static void add_owner(struct tcp_source *s, uint32_t inode, bool ours)
{
	BACE_PUSH(s->owned, s->n_owned, s->cap_owned, ((struct owned){ .inode = inode, .ours = ours }));
}

/* Sockets of one worker, from its open files. */
static void add_worker(void *arg, pid_t pid)
{
	struct tcp_source *s = arg;
	char path[64], target[64];
	struct dirent *f;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	d = opendir(path);
	while (d && (f = readdir(d))) {
		ssize_t n = isdigit((unsigned char)f->d_name[0]) ?
			    readlinkat(dirfd(d), f->d_name, target, sizeof(target) - 1) : -1;

		target[n > 0 ? n : 0] = '\0';
		if (n > 0 && !strncmp(target, "socket:[", 8))
			add_owner(s, (uint32_t)strtoul(target + 8, NULL, 10), true);
	}
	if (d)
		closedir(d);
}

/* Copies what both the kernel's tcp_info and this header's have. */
static void copy_info(const struct nlattr *a, struct tcp_info *t)
{
	size_t n = mnl_attr_get_payload_len(a);

	memset(t, 0, sizeof(*t));
	memcpy(t, mnl_attr_get_payload(a), n < sizeof(*t) ? n : sizeof(*t));
}

static void add_row(struct tcp_source *s, const struct inet_diag_msg *d, const struct tcp_info *t)
{
	struct seen now = { { d->idiag_inode, t->tcpi_bytes_acked, t->tcpi_bytes_sent, 8 * t->tcpi_delivery_rate,
		t->tcpi_delivery_rate_app_limited, t->tcpi_rtt, t->tcpi_min_rtt, t->tcpi_bytes_retrans,
		t->tcpi_snd_cwnd, t->tcpi_unacked, t->tcpi_notsent_bytes } };
	size_t i = s->n++;
	bool same = !s->full && i < s->n_before && !memcmp(&s->before[i], &now, sizeof(now));
	char addr[INET6_ADDRSTRLEN];

	if (i >= s->cap && bace_grow(&s->before, &s->cap, i + 1, sizeof(*s->before)))
		return;
	s->before[i] = now;
	if (same || !inet_ntop(d->idiag_family, d->id.idiag_dst, addr, sizeof(addr)))
		return;
	row_str(s->rows, addr, ' ');
	for (size_t k = 0; k < ARRAY_LEN(now.v); k++)
		row_u64(s->rows, now.v[k], k + 1 < ARRAY_LEN(now.v) ? ' ' : ';');
}

static int on_socket(const struct nlmsghdr *nlh, void *arg)
{
	struct tcp_source *s = arg;
	const struct inet_diag_msg *d = mnl_nlmsg_get_payload(nlh);
	const struct owned *o = find_owner(s, d->idiag_inode);
	const struct nlattr *a;
	struct tcp_info t;

	if (!o)
		s->unknown = true;
	if (!o || !o->ours)
		return MNL_CB_OK;
	mnl_attr_for_each(a, nlh, sizeof(*d)) {
		if (mnl_attr_get_type(a) != INET_DIAG_INFO)
			continue;
		copy_info(a, &t);
		add_row(s, d, &t);
		s->any_v6 |= d->idiag_family == AF_INET6;
	}
	return MNL_CB_OK;
}

static int on_unknown(const struct nlmsghdr *nlh, void *arg)
{
	struct tcp_source *s = arg;
	const struct inet_diag_msg *d = mnl_nlmsg_get_payload(nlh);
	bool ours = false;

	for (size_t i = 0; i < s->n_owned && !ours; i++)
		ours = s->owned[i].inode == d->idiag_inode;
	if (!ours)
		add_owner(s, d->idiag_inode, false);
	s->any_v6 |= ours && d->idiag_family == AF_INET6;
	return MNL_CB_OK;
}

static int dump(struct tcp_source *s, int family, mnl_cb_t cb, struct bace_err *e)
{
	char buf[512];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct inet_diag_req_v2 *req;

	nlh->nlmsg_type = SOCK_DIAG_BY_FAMILY;
	req = mnl_nlmsg_put_extra_header(nlh, sizeof(*req));
	req->sdiag_family = (uint8_t)family;
	req->sdiag_protocol = IPPROTO_TCP;
	req->idiag_ext = cb == on_socket ? 1 << (INET_DIAG_INFO - 1) : 0;
	req->idiag_states = DIAG_ESTABLISHED | DIAG_CLOSE_WAIT;
	return nl_dump(s->nl, nlh, cb, s, e);
}

/* Whose is which: again only when a socket turns up that was not known. */
static int look_up_owners(struct tcp_source *s, struct bace_err *e)
{
	int rc;

	s->n_owned = 0;
	s->any_v6 = false;
	s->n_workers = monitor_agent(s->base.monitor)->n_workers;
	workers_each(monitor_agent(s->base.monitor), add_worker, s);
	rc = dump(s, AF_INET, on_unknown, e);
	if (!rc)
		rc = dump(s, AF_INET6, on_unknown, e);
	if (s->n_owned)
		qsort(s->owned, s->n_owned, sizeof(*s->owned), by_inode);
	return rc;
}

static int tcp_read(struct source *base, bool full, struct bace_buf *rows, struct bace_err *e)
{
	struct tcp_source *s = (struct tcp_source *)base;
	int rc;

	if (!monitor_agent(base->monitor)->n_workers)
		return 0;
	s->rows = rows;
	s->full = full;
	s->n_before = s->n;
	s->n = 0;
	s->unknown = false;
	rc = dump(s, AF_INET, on_socket, e);
	if (!rc && s->any_v6)
		rc = dump(s, AF_INET6, on_socket, e);
	if (!rc && (s->unknown || s->n_workers != monitor_agent(base->monitor)->n_workers))
		rc = look_up_owners(s, e);
	return rc;
}

static void tcp_destroy(struct source *base)
{
	struct tcp_source *s = (struct tcp_source *)base;

	if (s->nl)
		mnl_socket_close(s->nl);
	free(s->owned);
	free(s->before);
	free(s);
}

static const struct source_ops ops = { .name = "tcp", .read = tcp_read, .destroy = tcp_destroy };

int source_tcp(struct monitor *m, struct source **out, struct bace_err *e)
{
	struct tcp_source *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return bace_fail(e, ENOMEM, "sample: out of memory");
	s->base = (struct source){ .ops = &ops, .monitor = m };
	rc = nl_open(NETLINK_SOCK_DIAG, &s->nl, e);
	if (rc)
		tcp_destroy(&s->base);
	else
		*out = &s->base;
	return rc;
}
