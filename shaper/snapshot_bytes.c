/* Snapshots to and from bytes, for the journal. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shaper/snapshot.h"

#define OPTIONS_MAX 60000

int snapshot_encode(const struct snapshot *s, struct bace_buf *out)
{
	uint64_t n = s->n;
	int rc = bace_buf_add(out, s->ifname, sizeof(s->ifname));

	if (!rc)
		rc = bace_buf_add(out, &s->n_tx_queues, sizeof(s->n_tx_queues));
	if (!rc)
		rc = bace_buf_add(out, &n, sizeof(n));
	for (size_t i = 0; i < s->n && !rc; i++) {
		struct snapshot_object o = s->v[i];

		o.options = NULL;
		rc = bace_buf_add(out, &o, sizeof(o));
		if (!rc && o.n_options)
			rc = bace_buf_add(out, s->v[i].options, o.n_options);
	}
	return rc;
}

static bool take_bytes(const uint8_t **p, const uint8_t *end, void *to, size_t n)
{
	if ((size_t)(end - *p) < n)
		return false;
	memcpy(to, *p, n);
	*p += n;
	return true;
}

static int take_object(const uint8_t **p, const uint8_t *end, struct snapshot *to)
{
	struct snapshot_object o;

	if (!take_bytes(p, end, &o, sizeof(o)) || o.n_options > OPTIONS_MAX || o.type > TCOBJ_FILTER ||
	    !memchr(o.kind, '\0', sizeof(o.kind)) || (size_t)(end - *p) < o.n_options)
		return -EBADMSG;
	o.options = o.n_options ? malloc(o.n_options) : NULL;
	if (o.n_options && !o.options)
		return -ENOMEM;
	if (o.n_options)
		take_bytes(p, end, o.options, o.n_options);
	if (!BACE_PUSH(to->v, to->n, to->cap, o))
		return 0;
	free(o.options);
	return -ENOMEM;
}

int snapshot_decode(const uint8_t **p, const uint8_t *end, struct snapshot *out)
{
	uint64_t n;
	int rc = 0;

	*out = (struct snapshot){ 0 };
	if (!take_bytes(p, end, out->ifname, sizeof(out->ifname)) || !memchr(out->ifname, '\0', sizeof(out->ifname)) ||
	    !take_bytes(p, end, &out->n_tx_queues, sizeof(out->n_tx_queues)) || !take_bytes(p, end, &n, sizeof(n)))
		return -EBADMSG;
	for (uint64_t i = 0; i < n && !rc; i++)
		rc = take_object(p, end, out);
	if (rc)
		snapshot_free(out);
	return rc;
}
