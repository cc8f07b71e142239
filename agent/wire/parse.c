#include <errno.h>
#include <string.h>

#include "agent/wire/wire.h"

/* Depth and number of values, before anything is allocated: a parser would
 * turn 4 MiB of "[[[[" or "0,0,0," into hundreds. */
static int scan(const char *p, size_t len, size_t max_values, struct bace_err *e)
{
	size_t depth = 0, values = 1;
	bool in_string = false;

	for (size_t i = 0; i < len; i++) {
		char ch = p[i];

		if (in_string) {
			if (ch == '\\')
				i++;
			else if (ch == '"')
				in_string = false;
			continue;
		}
		if (ch == '"')
			in_string = true;
		else if (ch == '[' || ch == '{')
			depth++;
		else if ((ch == ']' || ch == '}') && depth)
			depth--;
		if (ch == '[' || ch == '{' || ch == ',')
			values++;
		if (depth > WIRE_MAX_DEPTH)
			return bace_fail(e, EPROTO, "sent JSON nested more than %d deep", WIRE_MAX_DEPTH);
		if (values > max_values)
			return bace_fail(e, EPROTO, "sent more than %zu JSON values in a message", max_values);
	}
	return 0;
}

static int check_envelope(const json_t *j, struct bace_err *e)
{
	const json_t *v = json_object_get(j, "v"), *id = json_object_get(j, "id");

	if (!json_is_object(j))
		return bace_fail(e, EPROTO, "sent a message that is not a JSON object");
	if (!json_is_integer(v))
		return bace_fail(e, EPROTO, "sent a message without protocol version");
	if (json_integer_value(v) != WIRE_VERSION)
		return bace_fail(e, EPROTONOSUPPORT, "protocol version %lld, this end speaks version %d: "
				 "install the same version of bace on both", (long long)json_integer_value(v),
				 WIRE_VERSION);
	if (!json_is_string(json_object_get(j, "type")) || !json_is_integer(id) ||
	    json_integer_value(id) < 0)
		return bace_fail(e, EPROTO, "sent a message without type and id");
	return 0;
}

int wire_parse(const char *text, size_t len, const struct wire_limits *l, json_t **out,
	       struct bace_err *e)
{
	size_t max_values = l && l->max_values ? l->max_values : WIRE_MAX_FRAME / 4;
	json_error_t je;
	int rc = scan(text, len, max_values, e);

	if (rc)
		return rc;
	*out = json_loadb(text, len, JSON_REJECT_DUPLICATES, &je);
	if (!*out)
		return bace_fail(e, EPROTO, "sent what is not JSON: %s", je.text);
	rc = check_envelope(*out, e);
	if (rc) {
		json_decref(*out);
		*out = NULL;
	}
	return rc;
}
