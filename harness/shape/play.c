/* A trace on a link that is held: the holder has it played by bace-shaperd. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/wire/wire.h"
#include "harness/shape/holder.h"

static const struct shape_link *find_link(const struct shape_spec *s, const char *region)
{
	for (int i = 0; region && i < s->n_links; i++)
		if (!strcmp(s->links[i].name, region))
			return &s->links[i];
	return NULL;
}

int holder_play(struct shaperd_client *c, const struct shape_spec *s, const json_t *request, struct bace_err *e)
{
	const char *region = json_string_value(json_object_get(request, "region"));
	const struct shape_link *l = find_link(s, region);
	struct wire_trace head;
	struct shape_trace t;
	int rc;

	if (!l)
		return bace_fail(e, ENOENT, "no link to `%s' is shaped here", region ? region : "");
	rc = wire_decode_trace(json_object_get(request, "trace"), &head, &t, e);
	if (rc)
		return rc;
	rc = shaperd_trace(c, l->region, &t, head.loop, head.start_real_ns, e);
	shape_trace_free(&t);
	return rc;
}

int shape_play(const char *region, const struct shape_trace *t, bool loop, int64_t start_real_ns, struct bace_err *e)
{
	const struct wire_trace head = { .loop = loop, .start_real_ns = start_real_ns };
	json_t *answer;
	int rc;

	if (t->n > WIRE_TRACE_POINTS_MAX)
		return bace_fail(e, EINVAL, "a trace of %zu changes: at most %d", t->n, WIRE_TRACE_POINTS_MAX);
	rc = holder_ask(json_pack("{s:s,s:s,s:o}", "do", "trace", "region", region, "trace", wire_encode_trace(&head, t)),
			&answer, e);
	if (!rc)
		json_decref(answer);
	return rc;
}
