#include "shaper/delay/nfqueue.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define COPY_BYTES 64
#define RECEIVE_BUFFER (64 << 20)
#define VERDICTS_MAX 512
#define VERDICT_BYTES 32
#define SEQ_SET_MAX 1	/* verdicts have 0 */

struct verdict_message {
	struct nlmsghdr nlh;
	struct nfgenmsg nfg;
	struct nlattr attr;
	struct nfqnl_msg_verdict_hdr hdr;
};
_Static_assert(sizeof(struct verdict_message) == VERDICT_BYTES, "verdicts are packed without padding");

/* Into a buffer of zeros: libmnl 1.0.4 leaves what pads an attribute as it is. */
static struct nlmsghdr *config_header(char *buf, uint8_t family)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct nfgenmsg *nfg;

	nlh->nlmsg_type = NFNL_SUBSYS_QUEUE << 8 | NFQNL_MSG_CONFIG;
	nfg = mnl_nlmsg_put_extra_header(nlh, sizeof(*nfg));
	nfg->nfgen_family = family;
	nfg->version = NFNETLINK_V0;
	nfg->res_id = htons(NFQUEUE_NUMBER);
	return nlh;
}

static int bind_queue(struct nfqueue *q, struct bace_err *e)
{
	const struct nfqnl_msg_config_cmd bind = { .command = NFQNL_CFG_CMD_BIND };
	_Alignas(NLMSG_ALIGNTO) char buf[128] = { 0 };
	struct nlmsghdr *nlh = config_header(buf, AF_UNSPEC);

	mnl_attr_put(nlh, NFQA_CFG_CMD, sizeof(bind), &bind);
	if (netlink_ask(&q->nl, nlh, NULL, NULL, e))
		return bace_err_context(e, "bind nfqueue %u", NFQUEUE_NUMBER);
	return 0;
}

static int configure(struct nfqueue *q, uint32_t max_pkts, struct bace_err *e)
{
	const struct nfqnl_msg_config_params params = {
		.copy_range = htonl(COPY_BYTES), .copy_mode = NFQNL_COPY_PACKET };
	_Alignas(NLMSG_ALIGNTO) char buf[256] = { 0 };
	struct nlmsghdr *nlh = config_header(buf, AF_UNSPEC);

	mnl_attr_put(nlh, NFQA_CFG_PARAMS, sizeof(params), &params);
	mnl_attr_put_u32(nlh, NFQA_CFG_FLAGS, htonl(NFQA_CFG_F_GSO));
	mnl_attr_put_u32(nlh, NFQA_CFG_MASK, htonl(NFQA_CFG_F_GSO));
	mnl_attr_put_u32(nlh, NFQA_CFG_QUEUE_MAXLEN, htonl(max_pkts));
	if (netlink_ask(&q->nl, nlh, NULL, NULL, e))
		return bace_err_context(e, "configure nfqueue %u", NFQUEUE_NUMBER);
	return 0;
}

int nfqueue_open(struct nfqueue *q, uint32_t max_pkts, struct bace_err *e)
{
	int one = 1, size = RECEIVE_BUFFER, fd, rc;

	*q = (struct nfqueue){ 0 };
	rc = netlink_open(&q->nl, NETLINK_NETFILTER, e);
	if (rc)
		return rc;
	q->verdicts = malloc((size_t)VERDICTS_MAX * VERDICT_BYTES);
	if (!q->verdicts) {
		nfqueue_close(q);
		return bace_fail(e, ENOMEM, "out of memory");
	}
	fd = nfqueue_fd(q);
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)))
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	mnl_socket_setsockopt(q->nl.sock, NETLINK_NO_ENOBUFS, &one, sizeof(one));
	/* Makes the kernel stamp packets on arrival, so that the time they wait
	 * for this process counts towards their delay. */
	setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof(one));
	rc = bind_queue(q, e);
	if (!rc)
		rc = configure(q, max_pkts, e);
	if (rc)
		nfqueue_close(q);
	return rc;
}

int nfqueue_set_max(struct nfqueue *q, uint32_t max_pkts, struct bace_err *e)
{
	_Alignas(NLMSG_ALIGNTO) char buf[128] = { 0 };
	struct nlmsghdr *nlh = config_header(buf, AF_UNSPEC);
	int rc;

	/* Only the socket that bound the queue may configure it, and packets
	 * are in flight on it: ask for no answer. */
	mnl_attr_put_u32(nlh, NFQA_CFG_QUEUE_MAXLEN, htonl(max_pkts));
	nlh->nlmsg_flags = NLM_F_REQUEST;
	nlh->nlmsg_seq = SEQ_SET_MAX;
	rc = mnl_socket_sendto(q->nl.sock, nlh, nlh->nlmsg_len) < 0 ? -errno : 0;
	return rc ? bace_fail_errno(e, -rc, "set the length of nfqueue %u", NFQUEUE_NUMBER) : 0;
}

void nfqueue_close(struct nfqueue *q)
{
	netlink_close(&q->nl);
	free(q->verdicts);
	q->verdicts = NULL;
	q->n_verdicts = 0;
}

int nfqueue_fd(const struct nfqueue *q)
{
	return mnl_socket_get_fd(q->nl.sock);
}

int nfqueue_take_error(struct nfqueue *q, const struct nlmsghdr *nlh)
{
	const struct nlmsgerr *err = mnl_nlmsg_get_payload(nlh);

	if (nlh->nlmsg_type != NLMSG_ERROR || mnl_nlmsg_get_payload_len(nlh) < sizeof(*err) || !err->error)
		return 0;
	/* With its old length the queue would drop what is to wait in it. */
	if (nlh->nlmsg_seq == SEQ_SET_MAX)
		return err->error;
	q->stale_verdicts++;
	return 0;
}

static int64_t timestamp_ns(const struct nlattr *a)
{
	/* Two 64-bit words, which netlink aligns to four bytes only. */
	const char *t = attr_struct(a, sizeof(struct nfqnl_msg_packet_timestamp));
	uint64_t sec, usec;

	if (!t)
		return 0;
	memcpy(&sec, t, sizeof(sec));
	memcpy(&usec, t + sizeof(sec), sizeof(usec));
	return (int64_t)(__builtin_bswap64(sec) * 1000000000ULL + __builtin_bswap64(usec) * 1000ULL);
}

int nfqueue_parse(const struct nlmsghdr *nlh, struct nfqueue_packet *p)
{
	const struct nlattr *tb[NFQA_MAX + 1];
	const struct nfqnl_msg_packet_hdr *hdr;

	if (nlh->nlmsg_type != (NFNL_SUBSYS_QUEUE << 8 | NFQNL_MSG_PACKET))
		return 1;
	if (mnl_nlmsg_get_payload_len(nlh) < sizeof(struct nfgenmsg) ||
	    attrs_parse_msg(nlh, sizeof(struct nfgenmsg), tb, NFQA_MAX) ||
	    !(hdr = attr_struct(tb[NFQA_PACKET_HDR], sizeof(*hdr))))
		return -EBADMSG;
	p->id = ntohl(hdr->packet_id);
	p->protocol = ntohs(hdr->hw_protocol);
	p->arrival_real_ns = timestamp_ns(tb[NFQA_TIMESTAMP]);
	p->data = tb[NFQA_PAYLOAD] ? mnl_attr_get_payload(tb[NFQA_PAYLOAD]) : NULL;
	p->len = tb[NFQA_PAYLOAD] ? mnl_attr_get_payload_len(tb[NFQA_PAYLOAD]) : 0;
	return 0;
}

int nfqueue_flush(struct nfqueue *q)
{
	ssize_t n;

	if (!q->n_verdicts)
		return 0;
	do
		n = mnl_socket_sendto(q->nl.sock, q->verdicts, q->n_verdicts * VERDICT_BYTES);
	while (n < 0 && errno == EINTR);
	q->n_verdicts = 0;
	return n < 0 ? -errno : 0;
}

int nfqueue_verdict(struct nfqueue *q, uint32_t id, uint32_t verdict)
{
	const struct verdict_message m = {
		.nlh = { .nlmsg_len = sizeof(m), .nlmsg_type = NFNL_SUBSYS_QUEUE << 8 | NFQNL_MSG_VERDICT,
			 .nlmsg_flags = NLM_F_REQUEST },
		.nfg = { .nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0, .res_id = htons(NFQUEUE_NUMBER) },
		.attr = { .nla_len = sizeof(m.attr) + sizeof(m.hdr), .nla_type = NFQA_VERDICT_HDR },
		.hdr = { .verdict = htonl(verdict), .id = htonl(id) } };

	memcpy(q->verdicts + q->n_verdicts++ * VERDICT_BYTES, &m, sizeof(m));
	return q->n_verdicts == VERDICTS_MAX ? nfqueue_flush(q) : 0;
}

int nfqueue_read_drops(uint64_t *queue_drops, uint64_t *user_drops)
{
	CLEANUP_FCLOSE FILE *f = fopen("/proc/thread-self/net/netfilter/nfnetlink_queue", "re");
	unsigned queue;
	unsigned long long dropped, user;

	*queue_drops = *user_drops = 0;
	if (!f)
		return -errno;
	while (fscanf(f, " %u %*u %*u %*u %*u %llu %llu %*u %*u", &queue, &dropped, &user) == 3) {
		if (queue != NFQUEUE_NUMBER)
			continue;
		*queue_drops = dropped;
		*user_drops = user;
		return 0;
	}
	return -ENOENT;
}
