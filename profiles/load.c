#include <stdlib.h>
#include <string.h>

#include "profiles/load.h"

bool load_each(config_setting_t *list, load_entry_fn fn, void *arg)
{
	bool ok = true;

	for (int i = 0; i < config_setting_length(list); i++)
		ok &= fn(config_setting_get_elem(list, (unsigned)i), arg);
	return ok;
}

bool load_list_file(struct cfg_loader *l, const char *path, const struct cfg_key *keys, size_t n_keys,
		    void *out, const char *list_key, load_entry_fn fn, void *arg)
{
	struct cfg_file f;
	config_setting_t *list = NULL;
	bool complete = false;

	if (cfg_open(l, path, &f)) {
		cfg_read(cfg_root(&f), keys, n_keys, out);
		list = config_setting_get_member(cfg_root(&f), list_key);
	}
	if (list && config_setting_is_list(list) && config_setting_length(list))
		complete = load_each(list, fn, arg);
	cfg_close(&f);
	return complete;
}

bool load_unique(config_setting_t *entry, const char *key, const char *what, const void *v, size_t n,
		 size_t item_size, size_t name_offset, const char *name)
{
	config_setting_t *s = config_setting_get_member(entry, key);

	if (cfg_find_name(v, n, item_size, name_offset, name) < 0)
		return true;
	cfg_error(s ? s : entry, "there is a %s of this name before: each name once", what);
	return false;
}

void load_suggest(const char *name, const void *v, size_t n, size_t item_size, size_t name_offset,
		  char *buf, size_t cap)
{
	const char **names = calloc(n + 1, sizeof(*names));
	const char *near = NULL;
	struct bace_buf all = { 0 };

	*buf = '\0';
	if (!names)
		return;
	for (size_t i = 0; i < n; i++) {
		names[i] = (const char *)v + i * item_size + name_offset;
		if (i < 12)
			bace_buf_addf(&all, "%s%s", i ? ", " : "", names[i]);
	}
	near = bace_nearest(name, names, n);
	if (near)
		snprintf(buf, cap, "; did you mean `%s'?", near);
	else if (n)
		snprintf(buf, cap, "; there are %s%s", all.p ? all.p : "", n > 12 ? ", ..." : "");
	free(names);
	bace_buf_free(&all);
}

void load_default_name(const char *path, char name[NAME_LEN])
{
	const char *base = strrchr(path, '/');
	size_t n;

	base = base ? base + 1 : path;
	n = strlen(base);
	if (n > 4 && !strcmp(base + n - 4, ".cfg"))
		n -= 4;
	snprintf(name, NAME_LEN, "%.*s", (int)n, base);
}
