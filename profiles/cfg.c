#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profiles/cfg.h"

struct cfg_file *cfg_file_of(const config_setting_t *s)
{
	return (struct cfg_file *)s->config;
}

/* ---- messages ---- */

/* regions[2].pue */
static void add_path(const config_setting_t *s, struct bace_buf *b)
{
	const config_setting_t *parent = config_setting_parent(s);

	if (!parent)
		return;
	add_path(parent, b);
	if (config_setting_name(s))
		bace_buf_addf(b, "%s%s", b->len ? "." : "", config_setting_name(s));
	else
		bace_buf_addf(b, "[%d]", config_setting_index(s));
}

static void format_value(const config_setting_t *s, char *buf, size_t cap)
{
	switch (config_setting_type(s)) {
	case CONFIG_TYPE_INT:
		snprintf(buf, cap, "%d", config_setting_get_int(s));
		break;
	case CONFIG_TYPE_INT64:
		snprintf(buf, cap, "%lldL", config_setting_get_int64(s));
		break;
	case CONFIG_TYPE_FLOAT:
		snprintf(buf, cap, "%.10g", config_setting_get_float(s));
		break;
	case CONFIG_TYPE_STRING:
		snprintf(buf, cap, "\"%.60s\"", config_setting_get_string(s));
		break;
	case CONFIG_TYPE_BOOL:
		snprintf(buf, cap, "%s", config_setting_get_bool(s) ? "true" : "false");
		break;
	case CONFIG_TYPE_GROUP:
		snprintf(buf, cap, "{ ... }");
		break;
	case CONFIG_TYPE_ARRAY:
		snprintf(buf, cap, config_setting_length(s) ? "[ ... ]" : "[ ]");
		break;
	default:
		snprintf(buf, cap, config_setting_length(s) ? "( ... )" : "( )");
	}
}

bool cfg_scanned(const struct cfg_file *f, int line)
{
	for (int i = 0; i < f->n_scan_lines; i++)
		if (f->scan_lines[i] == line)
			return true;
	return false;
}

void cfg_error(const config_setting_t *s, const char *fmt, ...)
{
	struct cfg_file *f = cfg_file_of(s);
	int line = config_setting_source_line(s);
	struct bace_buf path = { 0 };
	char value[80], text[512];
	va_list ap;

	/* The value stands for text that has been refused already. */
	if (cfg_scanned(f, line))
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	add_path(s, &path);
	format_value(s, value, sizeof(value));
	if (path.len)
		bace_diag_add(f->loader->diags, f->path, line, "key `%s' = %s: %s", path.p, value, text);
	else
		bace_diag_add(f->loader->diags, f->path, line, "%s", text);
	bace_buf_free(&path);
}

void cfg_missing(const config_setting_t *group, const char *key, const char *fmt, ...)
{
	struct cfg_file *f = cfg_file_of(group);
	struct bace_buf path = { 0 };
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	add_path(group, &path);
	/* The root has no line of its own. */
	bace_diag_add(f->loader->diags, f->path, path.len ? (int)config_setting_source_line(group) : 1,
		      "key `%s%s%s' is missing: %s", path.len ? path.p : "", path.len ? "." : "", key,
		      text);
	bace_buf_free(&path);
}

/* ---- ranges ---- */

static bool in_range(const struct cfg_key *k, double v)
{
	if (!isfinite(v) || v > k->max)
		return false;
	return k->flags & CFG_ABOVE ? v > k->min : v >= k->min;
}

static void format_bound(const struct cfg_key *k, double v, char buf[BACE_FMT_MAX])
{
	switch (k->type) {
	case CFG_RATE:
	case CFG_RATE_D:
		bace_fmt_rate(buf, v);
		break;
	case CFG_TIME_NS:
	case CFG_TIME_S:
		bace_fmt_time(buf, v);
		break;
	case CFG_SIZE:
	case CFG_SIZE_D:
		bace_fmt_size(buf, v);
		break;
	default:
		snprintf(buf, BACE_FMT_MAX, "%.10g", v);
	}
}

/* "a number above 0 and at most 1" */
static void format_allowed(const struct cfg_key *k, char *buf, size_t cap)
{
	const char *what = k->type == CFG_INT ? "a whole number" :
			   k->type == CFG_NUMBER ? "a finite number" : "";
	char lo[BACE_FMT_MAX], hi[BACE_FMT_MAX];
	bool below = k->min > -CFG_NO_MAX, above = k->max < CFG_NO_MAX;

	format_bound(k, k->min, lo);
	format_bound(k, k->max, hi);
	if (below && above && !(k->flags & CFG_ABOVE))
		snprintf(buf, cap, "%s%sfrom %s to %s", what, *what ? " " : "", lo, hi);
	else
		snprintf(buf, cap, "%s%s%s%s%s%s%s", what, *what && (below || above) ? " " : "",
			 !below ? "" : k->flags & CFG_ABOVE ? "above " : "at least ", below ? lo : "",
			 below && above ? " and " : "", above ? "at most " : "", above ? hi : "");
}

static void out_of_range(const config_setting_t *s, const struct cfg_key *k)
{
	char allowed[128];

	format_allowed(k, allowed, sizeof(allowed));
	cfg_error(s, "must be %s", allowed);
}

/* ---- values ---- */

static bool get_number(const config_setting_t *s, double *v)
{
	switch (config_setting_type(s)) {
	case CONFIG_TYPE_INT:
		*v = config_setting_get_int(s);
		return true;
	case CONFIG_TYPE_INT64:
		*v = config_setting_get_int64(s);
		return true;
	case CONFIG_TYPE_FLOAT:
		*v = config_setting_get_float(s);
		return true;
	default:
		return false;
	}
}

static bool read_number(config_setting_t *s, const struct cfg_key *k, void *out)
{
	double v;

	if (!get_number(s, &v) || !in_range(k, v)) {
		out_of_range(s, k);
		return false;
	}
	*(double *)out = v;
	return true;
}

static bool read_int(config_setting_t *s, const struct cfg_key *k, void *out)
{
	double v;

	if (config_setting_type(s) == CONFIG_TYPE_FLOAT || !get_number(s, &v) || !in_range(k, v)) {
		out_of_range(s, k);
		return false;
	}
	*(int *)out = (int)v;
	return true;
}

static bool read_seed(config_setting_t *s, void *out)
{
	long long v = -1;

	if (config_setting_type(s) == CONFIG_TYPE_INT)
		v = config_setting_get_int(s);
	else if (config_setting_type(s) == CONFIG_TYPE_INT64)
		v = config_setting_get_int64(s);
	if (v < 0) {
		cfg_error(s, "must be a whole number from 0 to 9223372036854775807L");
		return false;
	}
	*(uint64_t *)out = (uint64_t)v;
	return true;
}

static bool is_name(const char *s)
{
	size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+-");

	return n && !s[n] && n < NAME_LEN;
}

static bool read_string(config_setting_t *s, const struct cfg_key *k, void *out)
{
	const char *v = config_setting_get_string(s);

	if (k->type == CFG_NAME) {
		if (!v || !is_name(v)) {
			cfg_error(s, "must be a string of 1 to %d letters, digits and . _ + -",
				  NAME_LEN - 1);
			return false;
		}
		snprintf(out, NAME_LEN, "%s", v);
		return true;
	}
	if (!v || !*v) {
		cfg_error(s, "must be a string that is not empty");
		return false;
	}
	if (k->type == CFG_STRING) {
		char *copy = strdup(v);

		if (!copy)
			return cfg_no_memory(cfg_file_of(s)->loader);
		free(*(char **)out);
		*(char **)out = copy;
		return true;
	}
	if (strlen(v) >= (size_t)k->max) {
		cfg_error(s, "must be shorter than %d bytes", (int)k->max);
		return false;
	}
	snprintf(out, (size_t)k->max, "%s", v);
	return true;
}

static bool read_bool(config_setting_t *s, void *out)
{
	if (config_setting_type(s) != CONFIG_TYPE_BOOL) {
		cfg_error(s, "must be true or false");
		return false;
	}
	*(bool *)out = config_setting_get_bool(s);
	return true;
}

static bool read_choice(config_setting_t *s, const struct cfg_key *k, void *out)
{
	const char *v = config_setting_get_string(s);
	struct bace_buf all = { 0 };
	size_t n = 0;

	for (; k->choices[n]; n++) {
		if (v && !strcmp(v, k->choices[n])) {
			*(int *)out = (int)n;
			bace_buf_free(&all);
			return true;
		}
		bace_buf_addf(&all, "%s\"%s\"", n ? ", " : "", k->choices[n]);
	}
	const char *near = v ? bace_nearest(v, k->choices, n) : NULL;

	cfg_error(s, "must be one of %s%s%s%s", all.p ? all.p : "", near ? "; did you mean \"" : "",
		  near ? near : "", near ? "\"?" : "");
	bace_buf_free(&all);
	return false;
}

static bool read_quantity(config_setting_t *s, const struct cfg_key *k, void *out)
{
	const char *v = config_setting_get_string(s);
	struct bace_err e;
	uint64_t u = 0;
	int64_t ns = 0;
	double number;
	int rc;

	if (!v) {
		bool given = get_number(s, &number);

		cfg_error(s, "must be a string with a unit, like %s%s",
			  k->type == CFG_RATE || k->type == CFG_RATE_D ? "\"25gbit\"" :
			  k->type == CFG_TIME_NS || k->type == CFG_TIME_S ? "\"38.2ms\"" : "\"500kB\"",
			  given ? "; a bare number has none" : "");
		return false;
	}
	if (k->type == CFG_RATE || k->type == CFG_RATE_D)
		rc = bace_parse_rate_bps(v, &u, &e);
	else if (k->type == CFG_SIZE || k->type == CFG_SIZE_D)
		rc = bace_parse_size_bytes(v, &u, &e);
	else
		rc = bace_parse_time_ns(v, &ns, &e);
	if (rc) {
		cfg_error(s, "%s", e.msg);
		return false;
	}
	number = k->type == CFG_TIME_NS || k->type == CFG_TIME_S ? ns / 1e9 : (double)u;
	if (!in_range(k, number)) {
		out_of_range(s, k);
		return false;
	}
	if (k->type == CFG_RATE || k->type == CFG_SIZE)
		*(uint64_t *)out = u;
	else if (k->type == CFG_TIME_NS)
		*(int64_t *)out = ns;
	else
		*(double *)out = number;
	return true;
}

static bool check_compound(config_setting_t *s, const struct cfg_key *k)
{
	const char *name = config_setting_get_string(s);

	if (k->type == CFG_FILE && (!name || !*name)) {
		cfg_error(s, "must be a string: the name of a profile, or a path");
		return false;
	}
	if (k->type == CFG_GROUP && !config_setting_is_group(s)) {
		cfg_error(s, "must be a group { key = value; ... }");
		return false;
	}
	if (k->type == CFG_LIST && (!config_setting_is_list(s) || !config_setting_length(s))) {
		cfg_error(s, "must be a list ( ... ) that is not empty");
		return false;
	}
	return true;
}

bool cfg_read_value(config_setting_t *s, const struct cfg_key *k, void *out)
{
	switch (k->type) {
	case CFG_NAME:
	case CFG_TEXT:
	case CFG_STRING:
		return read_string(s, k, out);
	case CFG_INT:
		return read_int(s, k, out);
	case CFG_SEED:
		return read_seed(s, out);
	case CFG_NUMBER:
		return read_number(s, k, out);
	case CFG_BOOL:
		return read_bool(s, out);
	case CFG_CHOICE:
		return read_choice(s, k, out);
	case CFG_RATE:
	case CFG_RATE_D:
	case CFG_TIME_NS:
	case CFG_TIME_S:
	case CFG_SIZE:
	case CFG_SIZE_D:
		return read_quantity(s, k, out);
	case CFG_FILE:
	case CFG_GROUP:
	case CFG_LIST:
	case CFG_ANY:
		break;
	}
	return check_compound(s, k);
}

/* ---- groups ---- */

#define KEYS_MAX 40

static bool refuse_unknown(config_setting_t *s, const struct cfg_key *keys, size_t n)
{
	const char *known[KEYS_MAX];
	struct bace_buf all = { 0 };

	for (size_t i = 0; i < n && i < KEYS_MAX; i++) {
		known[i] = keys[i].key;
		bace_buf_addf(&all, "%s%s", i ? ", " : "", keys[i].key);
	}
	const char *near = bace_nearest(config_setting_name(s), known, n < KEYS_MAX ? n : KEYS_MAX);

	if (near)
		cfg_error(s, "unknown key; did you mean `%s'?", near);
	else
		cfg_error(s, "unknown key; the keys here are %s", all.p ? all.p : "");
	bace_buf_free(&all);
	return false;
}

bool cfg_read(config_setting_t *group, const struct cfg_key *keys, size_t n, void *out)
{
	bool ok = true;

	if (!config_setting_is_group(group)) {
		cfg_error(group, "must be a group { key = value; ... }");
		return false;
	}
	for (int i = 0; i < config_setting_length(group); i++) {
		config_setting_t *s = config_setting_get_elem(group, (unsigned)i);
		const struct cfg_key *k = NULL;

		for (size_t j = 0; j < n && !k; j++)
			if (!strcmp(keys[j].key, config_setting_name(s)))
				k = &keys[j];
		if (!k)
			ok = refuse_unknown(s, keys, n);
		else if (!cfg_read_value(s, k, out ? (char *)out + k->offset : NULL))
			ok = false;
	}
	for (size_t j = 0; j < n; j++) {
		if (!(keys[j].flags & CFG_REQUIRED) || config_setting_get_member(group, keys[j].key))
			continue;
		cfg_missing(group, keys[j].key, "every entry of this kind has one");
		ok = false;
	}
	return ok;
}

int cfg_find_name(const void *v, size_t n, size_t item_size, size_t name_offset, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp((const char *)v + i * item_size + name_offset, name))
			return (int)i;
	return -1;
}
