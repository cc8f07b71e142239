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
#include <sys/socket.h>
#include <unistd.h>

#include "agent/monitor/internal.h"

#define DIAG_ESTABLISHED (1u << 1)	/* TCP_ESTABLISHED of the kernel's enum */
#define DIAG_CLOSE_WAIT (1u << 8)

#define LOOK_AGAIN_NS 2000000000	/* for sockets that came since */
#define LOOK_SOON_NS 250000000		/* while they come and go */
#define ASK_AT_ONCE 64
#define ANSWER_MAX 1024

struct owned {				/* a worker's socket */
	struct inet_diag_req_v2 req;	/* asks for it alone */
};

struct seen {				/* the last row of a socket: compared whole */
	uint64_t v[11];
};

/* A dump walks the machine's whole hash table of connections, milliseconds where
 * it is large, whatever is in it: it is used to find sockets, now and then; those
 * that are known are asked for one by one, which is a look-up each. */
struct tcp_source {
	struct source base;
	struct mnl_socket *nl;
	struct bace_buf *rows;
	bool full, gone;
	int n_workers;			/* when sockets were looked for */
	int64_t looked_ns;
	bool settled;			/* the last look found what the one before had */
	uint32_t *inodes;		/* of the workers' sockets, by number */
	size_t n_inodes, cap_inodes;
	struct owned *owned;
	size_t n_owned, cap_owned;
	struct seen *before;		/* in the order of owned */
	size_t n, n_before, cap;
	uint32_t seq;
};

static int by_inode(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
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
			BACE_PUSH(s->inodes, s->n_inodes, s->cap_inodes,
				  (uint32_t)strtoul(target + 8, NULL, 10));
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
	const struct nlattr *a;
	struct tcp_info t;

	mnl_attr_for_each(a, nlh, sizeof(*d)) {
		if (mnl_attr_get_type(a) != INET_DIAG_INFO)
			continue;
		copy_info(a, &t);
		add_row(s, d, &t);
	}
	return MNL_CB_OK;
}

/* ---- finding them ---- */

static int on_found(const struct nlmsghdr *nlh, void *arg)
{
	struct tcp_source *s = arg;
	const struct inet_diag_msg *d = mnl_nlmsg_get_payload(nlh);

	if (!bsearch(&d->idiag_inode, s->inodes, s->n_inodes, sizeof(*s->inodes), by_inode))
		return MNL_CB_OK;
	BACE_PUSH(s->owned, s->n_owned, s->cap_owned, ((struct owned){ .req = {
		.sdiag_family = d->idiag_family, .sdiag_protocol = IPPROTO_TCP,
		.idiag_ext = 1 << (INET_DIAG_INFO - 1), .idiag_states = UINT32_MAX, .id = d->id } }));
	return MNL_CB_OK;
}

static int find_family(struct tcp_source *s, int family, struct bace_err *e)
{
	char buf[512];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct inet_diag_req_v2 *req;

	nlh->nlmsg_type = SOCK_DIAG_BY_FAMILY;
	req = mnl_nlmsg_put_extra_header(nlh, sizeof(*req));
	req->sdiag_family = (uint8_t)family;
	req->sdiag_protocol = IPPROTO_TCP;
	req->idiag_states = DIAG_ESTABLISHED | DIAG_CLOSE_WAIT;
	return nl_dump(s->nl, nlh, on_found, s, e);
}

static int find_sockets(struct tcp_source *s, int64_t now_ns, struct bace_err *e)
{
	size_t before = s->n_owned;
	int rc;

	s->n_owned = s->n_inodes = 0;
	s->n_workers = monitor_agent(s->base.monitor)->n_workers;
	s->looked_ns = now_ns;
	s->gone = false;
	workers_each(monitor_agent(s->base.monitor), add_worker, s);
	if (!s->n_inodes)
		return 0;
	qsort(s->inodes, s->n_inodes, sizeof(*s->inodes), by_inode);
	/* IPv6 sockets are in the same table, and a dump of it as dear. */
	rc = find_family(s, AF_INET, e);
	if (!rc && !s->n_owned)
		rc = find_family(s, AF_INET6, e);
	s->settled = s->n_owned && s->n_owned == before;
	return rc;
}

static bool must_look(const struct tcp_source *s, int64_t now_ns)
{
	bool changing = !s->settled || s->gone || s->n_workers != monitor_agent(s->base.monitor)->n_workers;

	return now_ns - s->looked_ns >= (changing ? LOOK_SOON_NS : LOOK_AGAIN_NS);
}

/* ---- asking for them ---- */

static int send_requests(struct tcp_source *s, size_t from, size_t n, struct bace_err *e)
{
	char buf[ASK_AT_ONCE * NLMSG_SPACE(sizeof(struct inet_diag_req_v2))];
	size_t used = 0;

	for (size_t i = from; i < from + n; i++) {
		struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf + used);

		nlh->nlmsg_type = SOCK_DIAG_BY_FAMILY;
		nlh->nlmsg_flags = NLM_F_REQUEST;
		nlh->nlmsg_seq = ++s->seq;
		memcpy(mnl_nlmsg_put_extra_header(nlh, sizeof(s->owned[i].req)), &s->owned[i].req,
		       sizeof(s->owned[i].req));
		used += NLMSG_ALIGN(nlh->nlmsg_len);
	}
	return mnl_socket_sendto(s->nl, buf, used) < 0 ? bace_fail_errno(e, errno, "ask for sockets") : 0;
}

/* One answer for each; an error for one that is gone. */
static int take_answers(struct tcp_source *s, size_t n, struct bace_err *e)
{
	char buf[ASK_AT_ONCE][ANSWER_MAX];
	struct mmsghdr m[ASK_AT_ONCE] = { 0 };
	struct iovec io[ASK_AT_ONCE];
	uint32_t first = s->seq - (uint32_t)n + 1;
	size_t left = n;

	for (size_t i = 0; i < ASK_AT_ONCE; i++) {
		io[i] = (struct iovec){ buf[i], sizeof(buf[i]) };
		m[i].msg_hdr = (struct msghdr){ .msg_iov = &io[i], .msg_iovlen = 1 };
	}
	while (left > 0) {
		int got = recvmmsg(mnl_socket_get_fd(s->nl), m, (unsigned)left, MSG_WAITFORONE, NULL);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			int saved = errno;

			nl_drain(s->nl);
			return bace_fail_errno(e, saved, "hear of sockets");
		}
		for (int i = 0; i < got && left > 0; i++) {
			const struct nlmsghdr *nlh = (const void *)buf[i];

			if (!mnl_nlmsg_ok(nlh, (int)m[i].msg_len) || nlh->nlmsg_seq - first >= n)
				continue;
			left--;
			if (nlh->nlmsg_type == SOCK_DIAG_BY_FAMILY)
				on_socket(nlh, s);
			else
				s->gone = true;
		}
	}
	return 0;
}

static int tcp_read(struct source *base, bool full, struct bace_buf *rows, struct bace_err *e)
{
	struct tcp_source *s = (struct tcp_source *)base;
	int64_t now_ns = bace_mono_ns();
	int rc = 0;

	if (!monitor_agent(base->monitor)->n_workers)
		return 0;
	s->rows = rows;
	s->full = full;
	if (must_look(s, now_ns)) {
		rc = find_sockets(s, now_ns, e);
		s->n = 0;		/* another order: all rows anew */
	}
	s->n_before = s->n;
	s->n = 0;
	for (size_t i = 0; i < s->n_owned && !rc; i += ASK_AT_ONCE) {
		size_t n = s->n_owned - i < ASK_AT_ONCE ? s->n_owned - i : ASK_AT_ONCE;

		rc = send_requests(s, i, n, e);
		if (!rc)
			rc = take_answers(s, n, e);
	}
	return rc;
}

static void tcp_destroy(struct source *base)
{
	struct tcp_source *s = (struct tcp_source *)base;

	if (s->nl)
		mnl_socket_close(s->nl);
	free(s->inodes);
	free(s->owned);
	free(s->before);
	free(s);
}

static const struct source_ops ops = { .name = "tcp", .read = tcp_read, .destroy = tcp_destroy };

int source_tcp(struct monitor *m, struct source **out, struct bace_err *e)
{
	struct tcp_source *s = source_new(m, &ops, sizeof(*s), e);
	struct timeval patience = { .tv_usec = 100000 };
	int rc;

	if (!s)
		return -ENOMEM;
	rc = nl_open(NETLINK_SOCK_DIAG, &s->nl, e);
	if (!rc)
		setsockopt(mnl_socket_get_fd(s->nl), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (rc)
		tcp_destroy(&s->base);
	else
		*out = &s->base;
	return rc;
}
