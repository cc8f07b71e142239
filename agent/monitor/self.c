/* What this very process uses. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/monitor/internal.h"

static uint64_t rss_bytes(void)
{
	CLEANUP_CLOSE int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	char text[96], *end;
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n <= 0)
		return 0;
	text[n] = '\0';
	strtoull(text, &end, 10);
	return strtoull(end, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

void monitor_self(uint64_t *cpu_ns, uint64_t *rss)
{
	struct rusage u = { 0 };

	getrusage(RUSAGE_SELF, &u);
	*cpu_ns = (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000ull +
		  (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000ull;
	*rss = rss_bytes();
}

static int self_read(struct source *s, bool full, struct bace_buf *rows, struct bace_err *e)
{
	uint64_t cpu_ns, rss;

	monitor_self(&cpu_ns, &rss);
	row_u64(rows, cpu_ns, ' ');
	return row_u64(rows, rss, ';');
}

static const struct source_ops ops = { .name = "self", .read = self_read, .destroy = source_free };

int source_self(struct monitor *m, struct source **out, struct bace_err *e)
{
	*out = source_new(m, &ops, sizeof(**out), e);
	return *out ? 0 : -ENOMEM;
}
