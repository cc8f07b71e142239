#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/common.h"

void bace_diag_add(struct bace_diags *d, const char *file, int line, const char *fmt, ...)
{
	struct bace_diag one = { .line = line };
	struct bace_diag *v;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&one.text, fmt, ap);
	va_end(ap);
	/* One diagnostic is one line, whatever a value of the file holds. */
	for (char *p = n < 0 ? NULL : one.text; p && *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = '?';
	one.file = strdup(file ? file : "");
	v = realloc(d->v, (d->n + 1) * sizeof(*v));
	/* A lost diagnostic would turn bad input into good: rather no process. */
	if (n < 0 || !one.file || !v) {
		bace_log(BACE_ERROR, "diagnostics", "out of memory");
		_exit(BACE_EXIT_FAILED);
	}
	d->v = v;
	v[d->n++] = one;
}

void bace_diags_print(const struct bace_diags *d, FILE *to)
{
	for (size_t i = 0; i < d->n; i++) {
		const struct bace_diag *g = &d->v[i];

		if (g->line > 0)
			fprintf(to, "%s:%d: %s\n", g->file, g->line, g->text);
		else if (*g->file)
			fprintf(to, "%s: %s\n", g->file, g->text);
		else
			fprintf(to, "%s\n", g->text);
	}
}

void bace_diags_free(struct bace_diags *d)
{
	for (size_t i = 0; i < d->n; i++) {
		free(d->v[i].file);
		free(d->v[i].text);
	}
	free(d->v);
	*d = (struct bace_diags){ 0 };
}
