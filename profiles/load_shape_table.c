/* Distributions of jitter from files of their own. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profiles/load_shape.h"

#define TABLE_FILE_MAX (1u << 20)

static int bad(const char *path, int line, const char *token, size_t len, struct bace_err *e)
{
	return bace_fail(e, EINVAL, "%s:%d: `%.*s\': must be a whole number from -32768 to 32767", path, line,
			 len > 32 ? 32 : (int)len, token);
}

/* One number that ends where the token does. */
static bool take_number(const char *token, size_t len, long *v)
{
	char text[16], *end;

	if (!len || len >= sizeof(text))
		return false;
	memcpy(text, token, len);
	text[len] = '\0';
	*v = strtol(text, &end, 10);
	return end == text + len && *v >= INT16_MIN && *v <= INT16_MAX;
}

static void name_of(const char *path, char name[NAME_LEN])
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	size_t n = strlen(base);

	if (n > 5 && !strcmp(base + n - 5, ".dist"))
		n -= 5;
	snprintf(name, NAME_LEN, "%.*s", (int)n, base);
}

int jitter_table_parse(const char *text, size_t len, const char *path, struct jitter_table *out, struct bace_err *e)
{
	int line = 1;
	size_t i = 0;
	long v;

	*out = (struct jitter_table){ 0 };
	name_of(path, out->name);
	while (i < len) {
		size_t from = i;

		if (text[i] == '#') {
			while (i < len && text[i] != '\n')
				i++;
			continue;
		}
		if (isspace((unsigned char)text[i])) {
			line += text[i++] == '\n';
			continue;
		}
		while (i < len && !isspace((unsigned char)text[i]) && text[i] != '#')
			i++;
		if (!take_number(text + from, i - from, &v))
			return bad(path, line, text + from, i - from, e);
		if (out->n == JITTER_TABLE_MAX)
			return bace_fail(e, EINVAL, "%s:%d: a table has %d to %d numbers, this one more", path, line,
					 JITTER_TABLE_MIN, JITTER_TABLE_MAX);
		out->v[out->n++] = (int16_t)v;
	}
	if (out->n < JITTER_TABLE_MIN)
		return bace_fail(e, EINVAL, "%s: a table has %d to %d numbers, this one %d", path, JITTER_TABLE_MIN,
				 JITTER_TABLE_MAX, out->n);
	return 0;
}

/* Takes the path over. */
static int add_table(struct shape_building *b, config_setting_t *s, char *path)
{
	CLEANUP_FREE char *kept = path, *text = NULL;
	size_t n = (size_t)b->out->n_tables, len;
	struct bace_err e;

	if (n == JITTER_TABLES_MAX) {
		cfg_error(s, "is one table more than the %d that a file can name", JITTER_TABLES_MAX);
		return -1;
	}
	if (bace_grow(&b->out->tables, &b->cap_tables, n + 1, sizeof(*b->out->tables)) ||
	    bace_grow(&b->table_paths, &b->cap_table_paths, n + 1, sizeof(*b->table_paths))) {
		cfg_no_memory(b->l);
		return -1;
	}
	if (bace_read_file(kept, TABLE_FILE_MAX, &text, &len, &e) ||
	    jitter_table_parse(text, len, kept, &b->out->tables[n], &e)) {
		cfg_error(s, "%s", e.msg);
		return -1;
	}
	b->table_paths[n] = STEAL_PTR(kept);
	return b->out->n_tables++;
}

int load_shape_table(struct shape_building *b, config_setting_t *s)
{
	const char *name = config_setting_get_string(s);
	char *path;

	if (!name || !*name) {
		cfg_error(s, "must be a string: the path of a table such as tc's normal.dist");
		return -1;
	}
	path = cfg_relative(name, b->out->path);
	if (!path) {
		cfg_no_memory(b->l);
		return -1;
	}
	for (int i = 0; i < b->out->n_tables; i++) {
		if (!strcmp(b->table_paths[i], path)) {
			free(path);
			return i;
		}
	}
	return add_table(b, s, path);
}

void load_shape_tables_done(struct shape_building *b)
{
	for (int i = 0; i < b->out->n_tables; i++)
		free(b->table_paths[i]);
	free(b->table_paths);
}
