#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/common.h"

int bace_grow(void *pp, size_t *cap, size_t need, size_t item_size)
{
	size_t want = *cap ? *cap : 8;
	size_t bytes;
	void *p;

	while (want < need)
		if (__builtin_mul_overflow(want, 2, &want))
			return -ENOMEM;
	if (__builtin_mul_overflow(want, item_size, &bytes))
		return -ENOMEM;
	memcpy(&p, pp, sizeof(p));
	p = realloc(p, bytes);
	if (!p)
		return -ENOMEM;
	memcpy(pp, &p, sizeof(p));
	*cap = want;
	return 0;
}

static int reserve(struct bace_buf *b, size_t more)
{
	size_t need;

	if (__builtin_add_overflow(b->len, more, &need) || __builtin_add_overflow(need, 1, &need))
		return -ENOMEM;
	return need <= b->cap ? 0 : bace_grow(&b->p, &b->cap, need, 1);
}

int bace_buf_add(struct bace_buf *b, const void *data, size_t n)
{
	int rc = reserve(b, n);

	if (rc)
		return rc;
	if (n)
		memcpy(b->p + b->len, data, n);
	b->len += n;
	b->p[b->len] = '\0';
	return 0;
}

int bace_buf_addf(struct bace_buf *b, const char *fmt, ...)
{
	va_list ap;
	int n, rc;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		return -EINVAL;
	rc = reserve(b, n);
	if (rc)
		return rc;
	va_start(ap, fmt);
	vsnprintf(b->p + b->len, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->len += n;
	return 0;
}

void bace_buf_free(struct bace_buf *b)
{
	free(b->p);
	*b = (struct bace_buf){ 0 };
}

uint64_t bace_hash64(const void *p, size_t n, uint64_t seed)
{
	const unsigned char *c = p;
	uint64_t h = UINT64_C(0xcbf29ce484222325) ^ seed;

	for (size_t i = 0; i < n; i++)
		h = (h ^ c[i]) * UINT64_C(0x100000001b3);
	return h;
}
