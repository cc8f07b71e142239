#include <string.h>

#include "agent/monitor/internal.h"

/* Twenty times as fast as printf, which would be the agent's main work. */
int row_u64(struct bace_buf *b, uint64_t v, char after)
{
	char text[24];
	size_t at = sizeof(text);

	text[--at] = after;
	do {
		text[--at] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	return bace_buf_add(b, text + at, sizeof(text) - at);
}

/* Blanks and semicolons would be separators. */
int row_str(struct bace_buf *b, const char *s, char after)
{
	for (; *s; s++) {
		char c = *s == ' ' || *s == ';' || (unsigned char)*s < 0x21 || (unsigned char)*s > 0x7e ? '_' : *s;

		if (bace_buf_add(b, &c, 1))
			return -1;
	}
	return bace_buf_add(b, &after, 1);
}
