#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"
#include "profiles/cfg.h"

void cfg_loader_free(struct cfg_loader *l)
{
	for (size_t i = 0; i < l->n_files; i++)
		free(l->files[i]);
	free(l->files);
	bace_buf_free(&l->text);
	cfg_bundle_free(&l->bundle);
	*l = (struct cfg_loader){ 0 };
}

bool cfg_no_memory(struct cfg_loader *l)
{
	l->rc = -ENOMEM;
	return false;
}

int cfg_loader_status(const struct cfg_loader *l, size_t since, struct bace_err *e)
{
	if (l->rc)
		return bace_fail_errno(e, -l->rc, "read profiles");
	if (l->diags->n > since)
		return bace_fail(e, EINVAL, "%s:%d: %s", l->diags->v[since].file,
				 l->diags->v[since].line, l->diags->v[since].text);
	return 0;
}

/* ---- where profiles are ---- */

const char *profiles_dir(void)
{
	const char *env = getenv("BACE_PROFILES");

	if (env && *env)
		return env;
	if (!access(BACE_SOURCE_ROOT "/profiles", X_OK))
		return BACE_SOURCE_ROOT "/profiles";
	return BACE_DATADIR "/profiles";
}

static bool is_path(const char *name)
{
	size_t n = strlen(name);

	return strchr(name, '/') || (n > 4 && !strcmp(name + n - 4, ".cfg"));
}

char *cfg_relative(const char *name, const char *from)
{
	const char *slash = from && *name != '/' ? strrchr(from, '/') : NULL;
	char *path;

	return asprintf(&path, "%.*s%s", slash ? (int)(slash + 1 - from) : 0, from ? from : "", name) < 0 ? NULL : path;
}

char *cfg_resolve(const char *kind, const char *name, const char *from)
{
	char *path;

	if (is_path(name))
		return cfg_relative(name, from);
	return asprintf(&path, "%s/%s/%s.cfg", profiles_dir(), kind, name) < 0 ? NULL : path;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void list_names(char **names, size_t n, char buf[CFG_SUGGEST_MAX])
{
	size_t len = (size_t)snprintf(buf, CFG_SUGGEST_MAX, "; there are");

	qsort(names, n, sizeof(*names), by_name);
	for (size_t i = 0; i < n; i++) {
		if (len + strlen(names[i]) + sizeof(", and more") > CFG_SUGGEST_MAX) {
			snprintf(buf + len, CFG_SUGGEST_MAX - len, " and more");
			return;
		}
		len += (size_t)snprintf(buf + len, CFG_SUGGEST_MAX - len, " %s%s", names[i], i + 1 < n ? "," : "");
	}
}

void cfg_suggest_profile(const char *kind, const char *name, char buf[CFG_SUGGEST_MAX])
{
	char *names[256];
	size_t n = 0;
	char dir[4096];
	struct dirent *d;

	*buf = '\0';
	if (is_path(name))
		return;
	snprintf(dir, sizeof(dir), "%s/%s", profiles_dir(), kind);
	DIR *handle = opendir(dir);
	if (!handle)
		return;
	while (n < ARRAY_LEN(names) && (d = readdir(handle))) {
		size_t len = strlen(d->d_name);

		if (len > 4 && !strcmp(d->d_name + len - 4, ".cfg") &&
		    (names[n] = strndup(d->d_name, len - 4)))
			n++;
	}
	closedir(handle);
	const char *near = bace_nearest(name, (const char *const *)names, n);

	/* One that is there and could not be read is no slip of the pen. */
	if (near && strcmp(near, name))
		snprintf(buf, CFG_SUGGEST_MAX, "; did you mean `%.64s'?", near);
	else if (!near && n)
		list_names(names, n, buf);
	for (size_t i = 0; i < n; i++)
		free(names[i]);
}

char *cfg_reference(config_setting_t *group, const char *key, const char *kind,
		    const char *fallback)
{
	config_setting_t *s = config_setting_get_member(group, key);
	struct cfg_file *f = cfg_file_of(group);
	const char *name = s ? config_setting_get_string(s) : fallback;
	char near[CFG_SUGGEST_MAX];
	char *path;

	if (!s && !fallback) {
		cfg_missing(group, key, "names a file of profiles/%s, or its path", kind);
		return NULL;
	}
	/* Of the wrong type: said by cfg_read. */
	if (!name || !*name)
		return NULL;
	path = cfg_resolve(kind, name, f->path);
	if (!path) {
		cfg_no_memory(f->loader);
		return NULL;
	}
	if (!cfg_readable(f->loader, path)) {
		int rc = errno;

		cfg_suggest_profile(kind, name, near);
		if (s)
			cfg_error(s, "cannot read %s: %s%s", path, strerror(rc), near);
		else
			cfg_missing(group, key, "its default %s cannot be read: %s", path, strerror(rc));
		free(path);
		return NULL;
	}
	return path;
}

/* ---- one file ---- */

static bool keep_file(struct cfg_loader *l, const char *path, const char *text, size_t len)
{
	char *copy = strdup(path);

	if (!copy || BACE_PUSH(l->files, l->n_files, l->cap_files, copy)) {
		free(copy);
		return cfg_no_memory(l);
	}
	if (cfg_bundle_add(&l->text, path, text, len))
		return cfg_no_memory(l);
	return true;
}

int cfg_keep_text(struct cfg_loader *l, const char *path, char **text, size_t *len, struct bace_err *e)
{
	int rc = cfg_read_text(l, path, text, len, e);

	if (rc)
		return rc;
	if (memchr(*text, '\0', *len))
		rc = bace_fail(e, EINVAL, "%s has a zero byte: not a text file", path);
	else if (!keep_file(l, path, *text, *len))
		rc = bace_fail(e, ENOMEM, "read %s: out of memory", path);
	if (rc) {
		free(*text);
		*text = NULL;
	}
	return rc;
}

static void syntax_error(struct cfg_file *f, const char *text)
{
	const char *what = config_error_text(&f->cfg);
	int line = config_error_line(&f->cfg);
	char key[NAME_LEN];

	/* What was refused there already may be what the parser stumbles over. */
	if (cfg_scanned(f, line))
		return;
	if (what && !strncmp(what, "mismatched", 10)) {
		bace_diag_add(f->loader->diags, f->path, line, "numbers with and without a point in "
			      "one array: write [1.0, 2.5], or a list (1, 2.5)");
		return;
	}
	if (!what || strncmp(what, "duplicate", 9)) {
		bace_diag_add(f->loader->diags, f->path, line,
			      "%s: settings are `key = value;' with strings in quotes, lists in ( ), "
			      "groups in { }", what ? what : "cannot be parsed");
		return;
	}
	cfg_duplicate_key(text, line, key, sizeof(key));
	bace_diag_add(f->loader->diags, f->path, line, "key `%s' is given twice: each key once a group",
		      *key ? key : "?");
}

bool cfg_open(struct cfg_loader *l, const char *path, struct cfg_file *f)
{
	CLEANUP_FREE char *text = NULL;
	struct bace_err e;
	size_t len;

	*f = (struct cfg_file){ .loader = l };
	config_init(&f->cfg);
	if (cfg_read_text(l, path, &text, &len, &e)) {
		if (e.errnum == ENOMEM)
			return cfg_no_memory(l);
		bace_diag_add(l->diags, path, 0, "%s", e.msg);
		return false;
	}
	if (!keep_file(l, path, text, len))
		return false;
	f->path = l->files[l->n_files - 1];
	if (memchr(text, '\0', len)) {
		bace_diag_add(l->diags, f->path, 0, "has a zero byte: not a text file");
		return false;
	}
	cfg_scan(f, text);
	if (config_read_string(&f->cfg, text))
		return true;
	syntax_error(f, text);
	return false;
}

void cfg_close(struct cfg_file *f)
{
	config_destroy(&f->cfg);
}
