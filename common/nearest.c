#include <ctype.h>
#include <string.h>

#include "common/common.h"

#define WORD_MAX 64

static int min3(int a, int b, int c)
{
	int m = a < b ? a : b;

	return m < c ? m : c;
}

static bool same(char a, char b)
{
	if ((a == '-' || a == '_') && (b == '-' || b == '_'))
		return true;
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Edits (insert, delete, change, swap of neighbours) that turn a into b, case
 * and dash or underscore not counting; WORD_MAX for words that are too long. */
static int distance(const char *a, const char *b)
{
	int la = strnlen(a, WORD_MAX), lb = strnlen(b, WORD_MAX);
	int d[3][WORD_MAX + 1];

	if (la == WORD_MAX || lb == WORD_MAX)
		return WORD_MAX;
	for (int j = 0; j <= lb; j++)
		d[0][j] = j;
	for (int i = 1; i <= la; i++) {
		int *row = d[i % 3], *up = d[(i + 2) % 3], *up2 = d[(i + 1) % 3];

		row[0] = i;
		for (int j = 1; j <= lb; j++) {
			row[j] = min3(up[j] + 1, row[j - 1] + 1,
				      up[j - 1] + !same(a[i - 1], b[j - 1]));
			if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) &&
			    same(a[i - 2], b[j - 1]) && up2[j - 2] + 1 < row[j])
				row[j] = up2[j - 2] + 1;
		}
	}
	return d[la % 3][lb];
}

/* latency and latency_ms, bandwidth and region_bandwidth. */
static bool contains(const char *a, const char *b)
{
	return strlen(a) >= 4 && strlen(b) >= 4 && (strcasestr(a, b) || strcasestr(b, a));
}

const char *bace_nearest(const char *word, const char *const *known, size_t n)
{
	const char *best = NULL;
	int best_d = 0;
	int allowed = (int)strnlen(word, WORD_MAX) / 3;

	if (allowed < 1)
		allowed = 1;
	for (size_t i = 0; i < n; i++) {
		int d = distance(word, known[i]);

		/* Nothing in common is not near, however short. */
		if (d >= (int)strnlen(word, WORD_MAX))
			continue;
		if (d > allowed) {
			if (!contains(word, known[i]))
				continue;
			d = allowed + 1;
		}
		if (!best || d < best_d) {
			best = known[i];
			best_d = d;
		}
	}
	return best;
}
