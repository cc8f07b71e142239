#include "shaper/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x626a6f75726e616cULL
#define VERSION ((uint32_t)sizeof(struct snapshot_object) << 8 | 2)
#define BOOT_ID_BYTES 40
#define FILE_MAX (64u << 20)

void journal_free(struct journal *j)
{
	for (size_t i = 0; i < j->n; i++)
		snapshot_free(&j->v[i].before);
	free(j->v);
	*j = (struct journal){ 0 };
}

struct header {
	uint64_t magic;
	uint32_t version;
	uint32_t n;
	char boot_id[BOOT_ID_BYTES];
};

struct fixed {
	char ifname[IFNAMSIZ];
	uint32_t tc, gso_before, gso_ipv4_before;
};

int journal_encode(const struct journal *j, const char *boot_id, struct bace_buf *out)
{
	struct header h = { .magic = MAGIC, .version = VERSION, .n = (uint32_t)j->n };
	uint64_t sum;
	int rc;

	snprintf(h.boot_id, sizeof(h.boot_id), "%s", boot_id);
	rc = bace_buf_add(out, &h, sizeof(h));
	for (size_t i = 0; i < j->n && !rc; i++) {
		struct fixed f = { .tc = j->v[i].tc, .gso_before = j->v[i].gso_before,
				   .gso_ipv4_before = j->v[i].gso_ipv4_before };

		memcpy(f.ifname, j->v[i].ifname, sizeof(f.ifname));
		rc = bace_buf_add(out, &f, sizeof(f));
		if (!rc)
			rc = snapshot_encode(&j->v[i].before, out);
	}
	if (rc)
		return rc;
	sum = bace_hash64(out->p, out->len, 0);
	return bace_buf_add(out, &sum, sizeof(sum));
}

static int decode_entries(const uint8_t *p, const uint8_t *end, uint32_t n, struct journal *j)
{
	for (uint32_t i = 0; i < n; i++) {
		struct journal_entry entry = { 0 };
		struct fixed f;
		int rc;

		if ((size_t)(end - p) < sizeof(f))
			return -EBADMSG;
		memcpy(&f, p, sizeof(f));
		p += sizeof(f);
		if (!memchr(f.ifname, '\0', sizeof(f.ifname)))
			return -EBADMSG;
		memcpy(entry.ifname, f.ifname, sizeof(f.ifname));
		entry.tc = f.tc;
		entry.gso_before = f.gso_before;
		entry.gso_ipv4_before = f.gso_ipv4_before;
		rc = snapshot_decode(&p, end, &entry.before);
		if (rc)
			return rc;
		if (BACE_PUSH(j->v, j->n, j->cap, entry)) {
			snapshot_free(&entry.before);
			return -ENOMEM;
		}
	}
	return p == end ? 0 : -EBADMSG;
}

int journal_decode(const uint8_t *p, size_t n, const char *boot_id, struct journal *j)
{
	struct header h;
	uint64_t sum;
	int rc;

	*j = (struct journal){ 0 };
	if (n < sizeof(h) + sizeof(sum))
		return -EBADMSG;
	memcpy(&h, p, sizeof(h));
	memcpy(&sum, p + n - sizeof(sum), sizeof(sum));
	if (h.magic != MAGIC || h.version != VERSION || !memchr(h.boot_id, '\0', sizeof(h.boot_id)) ||
	    sum != bace_hash64(p, n - sizeof(sum), 0))
		return -EBADMSG;
	/* Qdiscs do not survive a reboot, so what it says is no longer true. */
	if (strcmp(h.boot_id, boot_id))
		return -ENOENT;
	rc = decode_entries(p + sizeof(h), p + n - sizeof(sum), h.n, j);
	if (rc)
		journal_free(j);
	return rc;
}

/* ---- the file ---- */
static void read_boot_id(char to[BOOT_ID_BYTES])
{
	CLEANUP_FREE char *text = NULL;
	size_t n;

	to[0] = '\0';
	if (!bace_read_file("/proc/sys/kernel/random/boot_id", BOOT_ID_BYTES, &text, &n, NULL))
		snprintf(to, BOOT_ID_BYTES, "%.*s", (int)strcspn(text, "\n"), text);
}

static void path_of(const char *dir, const char *name, char *to, size_t cap)
{
	snprintf(to, cap, "%s/%s", dir, name);
}

static int write_file(const char *path, const struct bace_buf *b)
{
	CLEANUP_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	if (bace_write_all(fd, b->p, b->len) || fsync(fd))
		return -errno;
	return 0;
}

static int sync_dir(const char *dir)
{
	CLEANUP_CLOSE int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 || fsync(fd) ? -errno : 0;
}

int journal_write(const char *dir, const struct journal *j, struct bace_err *e)
{
	char boot_id[BOOT_ID_BYTES], path[4096], next[4096];
	struct bace_buf b = { 0 };
	int rc;

	read_boot_id(boot_id);
	path_of(dir, "journal", path, sizeof(path));
	path_of(dir, "journal.new", next, sizeof(next));
	rc = journal_encode(j, boot_id, &b);
	if (!rc && mkdir(dir, 0700) && errno != EEXIST)
		rc = -errno;
	if (!rc)
		rc = write_file(next, &b);
	if (!rc && rename(next, path))
		rc = -errno;
	if (!rc)
		rc = sync_dir(dir);
	bace_buf_free(&b);
	return rc ? bace_fail_errno(e, -rc, "write the journal %s", path) : 0;
}

int journal_read(const char *dir, struct journal *j, struct bace_err *e)
{
	char boot_id[BOOT_ID_BYTES], path[4096];
	CLEANUP_FREE char *text = NULL;
	size_t n;
	int rc;

	*j = (struct journal){ 0 };
	read_boot_id(boot_id);
	path_of(dir, "journal", path, sizeof(path));
	rc = bace_read_file(path, FILE_MAX, &text, &n, e);
	if (rc)
		return rc;
	rc = journal_decode((const uint8_t *)text, n, boot_id, j);
	if (rc == -EBADMSG)
		return bace_fail(e, EBADMSG, "the journal %s is damaged, or of another version", path);
	return rc ? bace_fail_errno(e, -rc, "read the journal %s", path) : 0;
}

int journal_remove(const char *dir, struct bace_err *e)
{
	char path[4096];

	path_of(dir, "journal", path, sizeof(path));
	if (unlink(path) && errno != ENOENT)
		return bace_fail_errno(e, errno, "remove the journal %s", path);
	return 0;
}
