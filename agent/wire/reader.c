#include <errno.h>
#include <math.h>
#include <string.h>

#include "agent/wire/wire.h"

static void bad(struct wire_reader *r, const char *key, const char *must)
{
	r->rc = bace_fail(r->e, EPROTO, "%s: %s must be %s", r->what, key, must);
}

static json_t *field(struct wire_reader *r, const char *key)
{
	json_t *v;

	if (r->rc)
		return NULL;
	v = json_object_get(r->obj, key);
	if (!v)
		r->rc = bace_fail(r->e, EPROTO, "%s: no field `%s'", r->what, key);
	return v;
}

json_int_t wire_read_int(struct wire_reader *r, const char *key, json_int_t min, json_int_t max)
{
	json_t *v = field(r, key);
	json_int_t n = json_integer_value(v);
	char must[80];

	if (!v)
		return 0;
	if (!json_is_integer(v) || n < min || n > max) {
		snprintf(must, sizeof(must), "an integer from %lld to %lld", (long long)min, (long long)max);
		bad(r, key, must);
		return 0;
	}
	return n;
}

uint64_t wire_read_u64(struct wire_reader *r, const char *key, uint64_t max)
{
	return (uint64_t)wire_read_int(r, key, 0, max > INT64_MAX ? INT64_MAX : (json_int_t)max);
}

double wire_read_num(struct wire_reader *r, const char *key, double min, double max)
{
	json_t *v = field(r, key);
	double n = json_number_value(v);
	char must[80];

	if (!v)
		return 0;
	if (!json_is_number(v) || !(n >= min && n <= max)) {
		snprintf(must, sizeof(must), "a number from %g to %g", min, max);
		bad(r, key, must);
		return 0;
	}
	return n;
}

bool wire_read_bool(struct wire_reader *r, const char *key)
{
	json_t *v = field(r, key);

	if (v && !json_is_boolean(v))
		bad(r, key, "true or false");
	return json_is_true(v);
}

const char *wire_read_str(struct wire_reader *r, const char *key, size_t max_len)
{
	json_t *v = field(r, key);
	const char *s = json_string_value(v);
	char must[80];

	if (!v)
		return NULL;
	if (!s || json_string_length(v) != strlen(s) || strlen(s) > max_len) {
		snprintf(must, sizeof(must), "a string of at most %zu bytes", max_len);
		bad(r, key, must);
		return NULL;
	}
	for (const char *c = s; *c; c++) {
		if ((unsigned char)*c < 0x20 || *c == 0x7f) {
			bad(r, key, "text without control characters");
			return NULL;
		}
	}
	return s;
}

void wire_read_copy(struct wire_reader *r, const char *key, char *buf, size_t cap)
{
	const char *s = wire_read_str(r, key, cap - 1);

	snprintf(buf, cap, "%s", s ? s : "");
}

json_t *wire_read_array(struct wire_reader *r, const char *key, size_t max_items)
{
	json_t *v = field(r, key);
	char must[80];

	if (!v)
		return NULL;
	if (!json_is_array(v) || json_array_size(v) > max_items) {
		snprintf(must, sizeof(must), "an array of at most %zu items", max_items);
		bad(r, key, must);
		return NULL;
	}
	return v;
}

json_t *wire_read_object(struct wire_reader *r, const char *key)
{
	json_t *v = field(r, key);

	if (v && !json_is_object(v)) {
		bad(r, key, "an object");
		return NULL;
	}
	return v;
}

void wire_read_only(struct wire_reader *r, const char *const *keys, size_t n)
{
	static const char *const always[] = { "v", "type", "id" };
	const char *key;
	json_t *value;

	if (r->rc)
		return;
	if (!json_is_object(r->obj)) {
		r->rc = bace_fail(r->e, EPROTO, "%s: must be an object", r->what);
		return;
	}
	json_object_foreach((json_t *)r->obj, key, value) {
		bool known = false;

		for (size_t i = 0; !known && i < n; i++)
			known = !strcmp(keys[i], key);
		for (size_t i = 0; !known && i < ARRAY_LEN(always); i++)
			known = !strcmp(always[i], key);
		if (!known) {
			r->rc = bace_fail(r->e, EPROTO, "%s: unknown field `%.40s'", r->what, key);
			return;
		}
	}
}
