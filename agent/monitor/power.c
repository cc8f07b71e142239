/* Power and energy where there is a counter: GPUs by NVML, packages by RAPL. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/monitor/internal.h"

/* ---- gpu ---- */

static int gpu_read(struct source *s, bool full, struct bace_buf *rows, struct bace_err *e)
{
	int n = nvml_count(NULL);

	for (int i = 0; i < n; i++) {
		struct gpu_reading r;

		if (!nvml_read(i, &r))
			continue;
		row_u64(rows, (uint64_t)i, ' ');
		row_u64(rows, r.power_mw, ' ');
		row_u64(rows, r.energy_mj, ' ');
		row_u64(rows, r.busy_percent, ';');
	}
	return 0;
}

static const struct source_ops gpu_ops = { .name = "gpu", .read = gpu_read, .destroy = source_free };

int source_gpu(struct monitor *m, struct source **out, struct bace_err *e)
{
	*out = source_new(m, &gpu_ops, sizeof(**out), e);
	return *out ? 0 : -ENOMEM;
}

/* ---- rapl ---- */

#define ZONES_MAX 16

struct rapl_source {
	struct source base;
	int n;
	struct zone {
		char name[32];
		int fd;
	} zones[ZONES_MAX];
};

static void add_zone(struct rapl_source *s, const char *dir)
{
	char path[128];
	CLEANUP_FREE char *name = NULL;
	size_t n;
	int fd;

	if (s->n == ZONES_MAX || strlen(dir) > 40)
		return;
	snprintf(path, sizeof(path), "/sys/class/powercap/%s/energy_uj", dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);	/* root's alone on most systems */
	if (fd < 0)
		return;
	snprintf(path, sizeof(path), "/sys/class/powercap/%s/name", dir);
	if (!bace_read_file(path, 64, &name, &n, NULL))
		name[strcspn(name, "\n")] = '\0';
	snprintf(s->zones[s->n].name, sizeof(s->zones[0].name), "%.31s", name && *name ? name : dir);
	s->zones[s->n++].fd = fd;
}

static int rapl_read(struct source *base, bool full, struct bace_buf *rows, struct bace_err *e)
{
	struct rapl_source *s = (struct rapl_source *)base;
	char text[32];

	for (int i = 0; i < s->n; i++) {
		ssize_t n = pread(s->zones[i].fd, text, sizeof(text) - 1, 0);

		if (n <= 0)
			continue;
		text[n] = '\0';
		row_str(rows, s->zones[i].name, ' ');
		row_u64(rows, strtoull(text, NULL, 10), ';');
	}
	return 0;
}

static void rapl_destroy(struct source *base)
{
	struct rapl_source *s = (struct rapl_source *)base;

	for (int i = 0; i < s->n; i++)
		close(s->zones[i].fd);
	free(s);
}

static const struct source_ops rapl_ops = { .name = "rapl", .read = rapl_read, .destroy = rapl_destroy };

int source_rapl(struct monitor *m, struct source **out, struct bace_err *e)
{
	struct rapl_source *s = source_new(m, &rapl_ops, sizeof(*s), e);
	DIR *d = opendir("/sys/class/powercap");
	struct dirent *f;

	if (!s) {
		if (d)
			closedir(d);
		return -ENOMEM;
	}
	while (d && (f = readdir(d)))
		if (strstr(f->d_name, "rapl:"))
			add_zone(s, f->d_name);
	if (d)
		closedir(d);
	*out = &s->base;
	return 0;
}
