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

/* Another root for tests: few machines let anybody read theirs. */
static const char *powercap(void)
{
	const char *dir = getenv("BACE_POWERCAP");

	return dir ? dir : "/sys/class/powercap";
}

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
	char path[512];
	CLEANUP_FREE char *name = NULL;
	size_t n;
	int fd;

	if (s->n == ZONES_MAX || strlen(dir) > 40)
		return;
	snprintf(path, sizeof(path), "%s/%s/energy_uj", powercap(), dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);	/* root's alone on most systems */
	if (fd < 0)
		return;
	snprintf(path, sizeof(path), "%s/%s/name", powercap(), dir);
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
	DIR *d = opendir(powercap());
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

/* ---- counters of energy, once ---- */

static bool zone_file(const char *zone, const char *file, char **text)
{
	char path[512];
	size_t n;

	snprintf(path, sizeof(path), "%s/%s/%s", powercap(), zone, file);
	if (bace_read_file(path, 64, text, &n, NULL))
		return false;
	(*text)[strcspn(*text, "\n")] = '\0';
	return true;
}

static void add_rapl(json_t *a, const char *zone)
{
	CLEANUP_FREE char *uj = NULL;
	CLEANUP_FREE char *range = NULL;
	CLEANUP_FREE char *name = NULL;
	char device[64];

	if (!zone_file(zone, "energy_uj", &uj))
		return;
	/* Parts of packages have the same names in each. */
	snprintf(device, sizeof(device), "%.40s %.20s", zone, zone_file(zone, "name", &name) ? name : "");
	json_array_append_new(a, json_pack("[s,s,I,I]", "rapl", device, (json_int_t)strtoll(uj, NULL, 10),
		zone_file(zone, "max_energy_range_uj", &range) ? (json_int_t)strtoll(range, NULL, 10) : (json_int_t)0));
}

json_t *power_energy(void)
{
	DIR *d = opendir(powercap());
	json_t *a = json_array();
	struct dirent *f;

	for (int i = 0; i < nvml_count(NULL); i++) {
		struct gpu_reading r;
		char device[16];

		snprintf(device, sizeof(device), "GPU %d", i);
		if (nvml_read(i, &r) && r.has_energy)
			json_array_append_new(a, json_pack("[s,s,I,I]", "nvml", device,
							   (json_int_t)r.energy_mj * 1000, (json_int_t)0));
	}
	while (d && (f = readdir(d)))
		if (strstr(f->d_name, "rapl:"))
			add_rapl(a, f->d_name);
	if (d)
		closedir(d);
	return a;
}
