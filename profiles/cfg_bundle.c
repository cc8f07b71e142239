/*
 * A bundle: an experiment and every file that it reads, one after the other,
 * each under a line "#### PATH, N bytes". It is what a run keeps, and loads as
 * the experiment that it was made of, wherever the files are by now.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiles/cfg.h"

#define MARK "#### "

/* Its path among the profiles: the text, and so its hash, must not depend on
 * where they are installed. */
static const char *portable_path(const char *path)
{
	const char *dir = profiles_dir();
	size_t n = strlen(dir);

	return !strncmp(path, dir, n) && path[n] == '/' ? path + n + 1 : path;
}

int cfg_bundle_add(struct bace_buf *b, const char *path, const char *text, size_t len)
{
	int rc = bace_buf_addf(b, MARK "%s, %zu bytes\n", portable_path(path), len);

	if (!rc)
		rc = bace_buf_add(b, text, len);
	return rc ? rc : bace_buf_add(b, "\n", !len || text[len - 1] != '\n');
}

/* "#### PATH, N bytes\n": moves *p behind it. */
static bool read_mark(char **p, struct cfg_part *out)
{
	char *line = *p, *end = strchr(line, '\n'), *comma, *after;

	if (strncmp(line, MARK, strlen(MARK)) || !end)
		return false;
	*end = '\0';
	comma = strrchr(line, ',');
	out->len = comma ? strtoull(comma + 1, &after, 10) : 0;
	*end = '\n';
	if (!comma || comma == line + strlen(MARK) || strncmp(after, " bytes\n", 7))
		return false;
	*comma = '\0';
	out->path = line + strlen(MARK);
	out->text = *p = end + 1;
	return true;
}

/* The size of the first file tells a bundle from a file with such a comment. */
bool cfg_bundle_is(const char *text, size_t len)
{
	CLEANUP_FREE char *copy = strndup(text, len < 8192 ? len : 8192);
	struct cfg_part part;
	char *p = copy;

	return copy && read_mark(&p, &part) && (size_t)(part.text - copy) + part.len <= len;
}

bool cfg_bundle_take(struct cfg_loader *l, const char *path, char *text, size_t len)
{
	struct cfg_bundle *b = &l->bundle;
	char *p = text;

	b->text = text;
	while (*p) {
		struct cfg_part part = { 0 };

		if (!read_mark(&p, &part) || part.len > len - (size_t)(p - text)) {
			bace_diag_add(l->diags, path, 0, "is a bundle of files and damaged behind %s",
				      b->n ? b->v[b->n - 1].path : "its beginning");
			return false;
		}
		if (BACE_PUSH(b->v, b->n, b->cap, part))
			return cfg_no_memory(l);
		p += part.len;
		p += *p == '\n' && (!part.len || p[-1] != '\n');
	}
	return true;
}

void cfg_bundle_free(struct cfg_bundle *b)
{
	free(b->v);
	free(b->text);
	*b = (struct cfg_bundle){ 0 };
}

static const struct cfg_part *find(const struct cfg_loader *l, const char *path)
{
	for (size_t i = 0; i < l->bundle.n; i++)
		if (!strcmp(l->bundle.v[i].path, portable_path(path)))
			return &l->bundle.v[i];
	errno = ENOENT;
	return NULL;
}

bool cfg_readable(const struct cfg_loader *l, const char *path)
{
	return l->bundle.n ? find(l, path) != NULL : !access(path, R_OK);
}

int cfg_read_text(const struct cfg_loader *l, const char *path, char **text, size_t *len, struct bace_err *e)
{
	const struct cfg_part *part;

	if (!l->bundle.n)
		return bace_read_file(path, CFG_FILE_MAX, text, len, e);
	part = find(l, path);
	if (!part)
		return bace_fail(e, ENOENT, "read %s: not in the bundle", path);
	*len = part->len;
	*text = malloc(part->len + 1);
	if (!*text)
		return bace_fail(e, ENOMEM, "read %s: out of memory", path);
	memcpy(*text, part->text, part->len);
	(*text)[part->len] = '\0';
	return 0;
}
