#include "shaper/delay/line.h"

#include <errno.h>
#include <linux/if_ether.h>
#include <linux/netfilter.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shaper/delay/lateness.h"
#include "shaper/delay/link_set.h"
#include "shaper/delay/nfqueue.h"
#include "shaper/prefix.h"

#define PACKETS_PER_READ 64
#define MESSAGE_BYTES 1024
#define READS_PER_TURN 8
#define FIFO_PRIORITY 10
#define LATENESS_WEIGHT (1.0 / 64)
#define LATENESS_CORRECTION_MAX_NS 500000.0
#define ARRIVAL_AGE_MAX_NS 60000000000LL
/* For a while after the wall clock was set: what is older may be of before. */
#define ARRIVAL_AGE_DOUBT_NS 200000000LL
#define CLOCK_STEP_NS 5000000LL
#define CLOCK_DOUBT_NS 2000000000LL

struct delay_line {
	struct nfqueue queue;
	pthread_t thread;
	int wake_fd;		/* an update or the end is wanted */
	int dead_fd;
	atomic_bool stop;
	bool realtime;
	double wake_late_ns;	/* running mean, subtracted from deadlines */
	int64_t wall_offset_ns;	/* wall less monotonic clock, at the last read; 0: none yet */
	int64_t doubt_until_ns;	/* monotonic: stamps may be of before the wall clock was set */

	pthread_mutex_t lock;	/* everything below */
	struct link_set *links;
	struct lateness lateness;
	double lateness_sum_ns;
	uint64_t unmatched;
	bool alive;
	char why_dead[200];
};

/* ---- the thread ---- */
struct clock_pair {
	int64_t mono_ns, real_ns;
};

/* The wall clock first: a thread that is held up between the two takes packets for
 * younger than they are, and is late with them, never early. */
static struct clock_pair read_clocks(void)
{
	struct clock_pair now = { .real_ns = bace_wall_ns() };

	now.mono_ns = bace_mono_ns();
	return now;
}

static int link_of(const struct link_set *ls, const struct nfqueue_packet *p)
{
	if (p->protocol == ETH_P_IP && p->len >= 20)
		return prefix_lookup(ls->owners, ls->n_owners, AF_INET, p->data + 12);
	if (p->protocol == ETH_P_IPV6 && p->len >= 40)
		return prefix_lookup(ls->owners, ls->n_owners, AF_INET6, p->data + 8);
	return -1;
}

/* Slewing looks like a step after a long rest; then stamps are doubted, no more. */
static void watch_clock(struct delay_line *d, const struct clock_pair *now)
{
	int64_t offset = now->real_ns - now->mono_ns;

	if (d->wall_offset_ns && llabs(offset - d->wall_offset_ns) > CLOCK_STEP_NS)
		d->doubt_until_ns = now->mono_ns + CLOCK_DOUBT_NS;
	d->wall_offset_ns = offset;
}

static int64_t arrival_ns(const struct delay_line *d, const struct nfqueue_packet *p, const struct clock_pair *now)
{
	int64_t age = now->real_ns - p->arrival_real_ns;
	int64_t most = now->mono_ns < d->doubt_until_ns ? ARRIVAL_AGE_DOUBT_NS : ARRIVAL_AGE_MAX_NS;

	/* A stamp that is missing, from the future or old is a clock that was set. */
	return p->arrival_real_ns && age > 0 && age < most ? now->mono_ns - age : now->mono_ns;
}

static int take_packet(struct delay_line *d, const struct nlmsghdr *nlh, const struct clock_pair *now)
{
	struct link_set *ls = d->links;
	struct nfqueue_packet p;
	int rc = nfqueue_parse(nlh, &p), link;
	int64_t delay_ns;

	if (rc == 1) {
		return nfqueue_take_error(&d->queue, nlh);
	}
	if (rc)
		return rc;
	link = link_of(ls, &p);
	if (link < 0) {
		d->unmatched++;
		return nfqueue_verdict(&d->queue, p.id, NF_ACCEPT);
	}
	ls->stats[link].packets++;
	if (fate_lost(&ls->fates[link])) {
		ls->stats[link].lost++;
		return nfqueue_verdict(&d->queue, p.id, NF_DROP);
	}
	delay_ns = fate_delay_ns(&ls->fates[link]);
	if (!delay_ns && (ls->fates[link].impair.reorder > 0 || !ls->schedule.links[link].n))
		return nfqueue_verdict(&d->queue, p.id, NF_ACCEPT);
	if (delay_schedule_push(&ls->schedule, link, arrival_ns(d, &p, now) + delay_ns, p.id)) {
		ls->stats[link].overflowed++;
		return nfqueue_verdict(&d->queue, p.id, NF_DROP);
	}
	return 0;
}

static int release_due(struct delay_line *d, int64_t now_ns)
{
	int64_t ahead = (int64_t)d->wake_late_ns;
	struct held_packet p;
	int rc = 0;

	while (!rc && delay_schedule_pop(&d->links->schedule, now_ns + ahead, &p)) {
		/* How late this process woke for the moment that it had set itself. */
		double wake_late = (double)(now_ns + ahead - p.due_ns);

		lateness_add(&d->lateness, now_ns - p.due_ns);
		d->lateness_sum_ns += (double)(now_ns - p.due_ns);
		d->wake_late_ns += (wake_late - d->wake_late_ns) * LATENESS_WEIGHT;
		if (d->wake_late_ns > LATENESS_CORRECTION_MAX_NS)
			d->wake_late_ns = LATENESS_CORRECTION_MAX_NS;
		rc = nfqueue_verdict(&d->queue, p.id, NF_ACCEPT);
	}
	return rc ? rc : nfqueue_flush(&d->queue);
}

struct reader {
	struct mmsghdr msgs[PACKETS_PER_READ];
	struct iovec iov[PACKETS_PER_READ];
	_Alignas(NLMSG_ALIGNTO) char bytes[PACKETS_PER_READ][MESSAGE_BYTES];
};

static void reader_init(struct reader *r)
{
	memset(r->msgs, 0, sizeof(r->msgs));
	for (int i = 0; i < PACKETS_PER_READ; i++) {
		r->iov[i] = (struct iovec){ r->bytes[i], MESSAGE_BYTES };
		r->msgs[i].msg_hdr.msg_iov = &r->iov[i];
		r->msgs[i].msg_hdr.msg_iovlen = 1;
	}
}

/* Reads once; how many messages, 0 when there was none, -errno. */
static int read_packets(struct delay_line *d, struct reader *r, struct clock_pair *now)
{
	int n = recvmmsg(nfqueue_fd(&d->queue), r->msgs, PACKETS_PER_READ, MSG_DONTWAIT, NULL);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR || errno == ENOBUFS ? 0 : -errno;
	*now = read_clocks();
	watch_clock(d, now);
	for (int i = 0; i < n; i++) {
		int left = (int)r->msgs[i].msg_len;

		for (const struct nlmsghdr *nlh = (void *)r->bytes[i]; mnl_nlmsg_ok(nlh, left);
		     nlh = mnl_nlmsg_next(nlh, &left)) {
			int rc = take_packet(d, nlh, now);

			if (rc)
				return rc;
		}
	}
	return n;
}

static int turn(struct delay_line *d, struct reader *r)
{
	int rc = 0;

	pthread_mutex_lock(&d->lock);
	for (int i = 0; i < READS_PER_TURN; i++) {
		struct clock_pair now = { .mono_ns = 0 };
		int n = read_packets(d, r, &now);

		rc = n < 0 ? n : release_due(d, now.mono_ns ? now.mono_ns : bace_mono_ns());
		if (rc || n < PACKETS_PER_READ)
			break;
	}
	pthread_mutex_unlock(&d->lock);
	return rc;
}

static int wait_for_work(struct delay_line *d)
{
	struct pollfd fds[] = { { .fd = nfqueue_fd(&d->queue), .events = POLLIN },
				{ .fd = d->wake_fd, .events = POLLIN } };
	struct timespec ts, *timeout = NULL;
	int64_t next;
	uint64_t ignored;

	pthread_mutex_lock(&d->lock);
	next = delay_schedule_next_ns(&d->links->schedule);
	pthread_mutex_unlock(&d->lock);
	if (next != INT64_MAX) {
		int64_t wait = next - (int64_t)d->wake_late_ns - bace_mono_ns();

		wait = wait > 0 ? wait : 0;
		ts = (struct timespec){ wait / 1000000000, wait % 1000000000 };
		timeout = &ts;
	}
	if (ppoll(fds, 2, timeout, NULL) < 0)
		return errno == EINTR ? 0 : -errno;
	if (fds[1].revents && read(d->wake_fd, &ignored, sizeof(ignored)) < 0 && errno != EAGAIN)
		return -errno;
	return 0;
}

static void let_all_go(struct delay_line *d)
{
	struct held_packet p;

	while (delay_schedule_pop(&d->links->schedule, INT64_MAX - 1, &p))
		nfqueue_verdict(&d->queue, p.id, NF_ACCEPT);
	nfqueue_flush(&d->queue);
}

static void *run(void *arg)
{
	struct delay_line *d = arg;
	struct reader *r = malloc(sizeof(*r));
	const struct sched_param fifo = { .sched_priority = FIFO_PRIORITY };
	uint64_t one = 1;
	int rc = r ? 0 : -ENOMEM;

	prctl(PR_SET_NAME, "bace-delay");
	prctl(PR_SET_TIMERSLACK, 1UL);
	d->realtime = !pthread_setschedparam(pthread_self(), SCHED_FIFO, &fifo);
	if (r)
		reader_init(r);
	while (!rc && !atomic_load(&d->stop)) {
		rc = wait_for_work(d);
		if (!rc)
			rc = turn(d, r);
	}
	pthread_mutex_lock(&d->lock);
	if (!rc)
		let_all_go(d);
	d->alive = false;
	if (rc) {
		/* A queue that is bound and not read fills up and drops, --queue-bypass or not. */
		nfqueue_close(&d->queue);
		snprintf(d->why_dead, sizeof(d->why_dead), "the delay line stopped: %s", strerror(-rc));
	}
	pthread_mutex_unlock(&d->lock);
	free(r);
	if (rc && write(d->dead_fd, &one, sizeof(one)) < 0)
		return NULL;
	return NULL;
}

/* ---- its owner ---- */
static void wake(struct delay_line *d)
{
	uint64_t one = 1;

	if (write(d->wake_fd, &one, sizeof(one)) < 0)
		bace_log(BACE_ERROR, "delay", "wake the delay line: %s", strerror(errno));
}

static int start_thread(struct delay_line *d, struct bace_err *e)
{
	sigset_t all, before;
	int rc;

	/* Signals are the main thread's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&d->thread, NULL, run, d);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc ? bace_fail_errno(e, rc, "start the delay line's thread") : 0;
}

static void line_free(struct delay_line *d)
{
	nfqueue_close(&d->queue);
	link_set_free(d->links);
	pthread_mutex_destroy(&d->lock);
	bace_cleanup_close(&d->wake_fd);
	bace_cleanup_close(&d->dead_fd);
	free(d);
}

int delay_line_start(const struct shape_spec *s, uint32_t max_pkts, struct delay_line **out,
		     struct bace_err *e)
{
	struct delay_line *d = calloc(1, sizeof(*d));
	pthread_mutexattr_t inherit;
	int rc = 0;

	if (!d)
		return bace_fail(e, ENOMEM, "delay line: out of memory");
	d->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	d->dead_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (d->wake_fd < 0 || d->dead_fd < 0) {
		rc = bace_fail_errno(e, errno, "delay line: eventfd");
		bace_cleanup_close(&d->wake_fd);
		bace_cleanup_close(&d->dead_fd);
		free(d);
		return rc;
	}
	/* A reader of statistics must not hold up the real-time thread. */
	pthread_mutexattr_init(&inherit);
	pthread_mutexattr_setprotocol(&inherit, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&d->lock, &inherit);
	pthread_mutexattr_destroy(&inherit);
	d->alive = true;
	d->links = link_set_new(s, e);
	if (!d->links)
		rc = -e->errnum;
	else if (link_set_carry_over(NULL, d->links, s))
		rc = bace_fail(e, ENOMEM, "delay line: out of memory");
	else
		rc = nfqueue_open(&d->queue, max_pkts, e);
	if (!rc)
		rc = start_thread(d, e);
	if (rc) {
		line_free(d);
		return rc;
	}
	*out = d;
	return 0;
}

int delay_line_update(struct delay_line *d, const struct shape_spec *s, uint32_t max_pkts,
		      struct bace_err *e)
{
	struct link_set *next = link_set_new(s, e), *old = NULL;
	int rc;

	if (!next)
		return -e->errnum;
	pthread_mutex_lock(&d->lock);
	rc = d->alive ? link_set_carry_over(d->links, next, s) : -EPIPE;
	if (!rc) {
		/* What is left in the old set belongs to links that are gone. */
		for (int i = 0; i < d->links->n_links; i++)
			if (link_set_find(next, d->links->regions[i]) >= 0)
				d->links->schedule.links[i].n = 0;
		old = d->links;
		d->links = next;
		rc = nfqueue_set_max(&d->queue, max_pkts, e);
	} else {
		bace_fail(e, -rc, "%s", d->why_dead[0] ? d->why_dead : strerror(-rc));
		link_set_free(next);
	}
	for (int i = 0; old && i < old->n_links; i++) {
		struct held_fifo *f = &old->schedule.links[i];

		for (size_t k = 0; k < f->n; k++)
			nfqueue_verdict(&d->queue, f->ring[(f->head + k) & (f->cap - 1)].id, NF_ACCEPT);
	}
	nfqueue_flush(&d->queue);
	pthread_mutex_unlock(&d->lock);
	link_set_free(old);
	wake(d);
	return rc;
}

void delay_line_change(struct delay_line *d, const struct shape_link *l)
{
	int i;

	pthread_mutex_lock(&d->lock);
	i = link_set_find(d->links, l->region);
	if (i >= 0)
		link_set_configure(d->links, i, l, false);
	pthread_mutex_unlock(&d->lock);
}

int delay_line_set_max(struct delay_line *d, uint32_t max_pkts, struct bace_err *e)
{
	int rc;

	pthread_mutex_lock(&d->lock);
	rc = d->alive ? nfqueue_set_max(&d->queue, max_pkts, e) : bace_fail(e, EPIPE, "%s", d->why_dead);
	pthread_mutex_unlock(&d->lock);
	return rc;
}

int delay_line_stats(struct delay_line *d, bool reset, struct delay_line_stats *out)
{
	int rc = 0;

	*out = (struct delay_line_stats){ 0 };
	pthread_mutex_lock(&d->lock);
	out->links = calloc((size_t)d->links->n_links + 1, sizeof(*out->links));
	if (out->links) {
		out->n_links = d->links->n_links;
		memcpy(out->links, d->links->stats, (size_t)out->n_links * sizeof(*out->links));
		for (int i = 0; i < out->n_links; i++)
			out->links[i].held = d->links->schedule.links[i].n;
	} else {
		rc = -ENOMEM;
	}
	out->alive = d->alive;
	memcpy(out->why_dead, d->why_dead, sizeof(out->why_dead));
	out->realtime = d->realtime;
	out->unmatched = d->unmatched;
	out->packets_timed = d->lateness.n;
	out->lateness_p99_ns = lateness_quantile_ns(&d->lateness, 0.99);
	out->lateness_max_ns = d->lateness.max_ns;
	out->lateness_mean_ns = d->lateness.n ? (int64_t)(d->lateness_sum_ns / (double)d->lateness.n) : 0;
	out->stale_verdicts = d->queue.stale_verdicts;
	if (reset) {
		memset(&d->lateness, 0, sizeof(d->lateness));
		d->lateness_sum_ns = 0;
	}
	pthread_mutex_unlock(&d->lock);
	nfqueue_read_drops(&out->queue_drops, &out->user_drops);
	return rc;
}

void delay_line_stop(struct delay_line *d)
{
	if (!d)
		return;
	atomic_store(&d->stop, true);
	wake(d);
	pthread_join(d->thread, NULL);
	line_free(d);
}

int delay_line_fd(const struct delay_line *d)
{
	return d->dead_fd;
}
