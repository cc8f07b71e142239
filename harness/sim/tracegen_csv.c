#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "harness/sim/tracegen_internal.h"

#define FIELDS_MAX 256
#define LINE_MAX_BYTES (1 << 20)	/* what has no line ends is no table */

static const char *const keys[N_TRACE_COLUMNS] = {
	[COL_NAME] = "name", [COL_ARRIVAL] = "arrival", [COL_GPUS] = "gpus", [COL_DURATION] = "duration",
	[COL_START] = "start", [COL_END] = "end", [COL_STATE] = "state",
};

bool trace_columns_known(const char *layout, struct trace_columns *out)
{
	static const struct trace_columns own = { .name = { "name", "arrival_s", "gpus", "duration_s" } };
	static const struct trace_columns slurm = { .name = { "job_id", "submit_time", "gpu_num", "duration",
							      "start_time", "end_time", "state" } };

	if (!strcmp(layout, "csv"))
		*out = own;
	else if (!strcmp(layout, "helios") || !strcmp(layout, "acme"))
		*out = slurm;
	else
		return false;
	return true;
}

static int key_of(const char *p, size_t len)
{
	for (int k = 0; k < N_TRACE_COLUMNS; k++)
		if (strlen(keys[k]) == len && !memcmp(keys[k], p, len))
			return k;
	return -1;
}

int trace_columns_set(struct trace_columns *c, const char *mapping, struct bace_err *e)
{
	for (const char *p = mapping;;) {
		size_t len = strcspn(p, ","), key_len = strcspn(p, "=,");
		int k = key_of(p, key_len);

		if (k < 0)
			return bace_fail(e, EINVAL, "column `%.*s': must be KEY=COLUMN, KEY one of name, arrival, "
					 "gpus, duration, start, end, state", (int)len, p);
		if (key_len == len || len - key_len - 1 >= sizeof(c->name[k]))
			return bace_fail(e, EINVAL, "column `%.*s': must be KEY=COLUMN, COLUMN of at most %zu letters",
					 (int)len, p, sizeof(c->name[k]) - 1);
		memcpy(c->name[k], p + key_len + 1, len - key_len - 1);
		c->name[k][len - key_len - 1] = '\0';
		if (!p[len])
			return 0;
		p += len + 1;
	}
}

/* Splits a line in place; quotes as in RFC 4180, within one line. -1: a quote is
 * not closed. */
static int split(char *line, char **fields)
{
	int n = 0;
	char *to = line;

	for (char *p = line;; p++) {
		if (n < FIELDS_MAX)
			fields[n] = to;
		n++;
		if (*p == '"') {
			for (p++; *p && !(*p == '"' && p[1] != '"'); *to++ = *p++)
				p += *p == '"';
			if (!*p++)
				return -1;
		}
		while (*p && *p != ',')
			*to++ = *p++;
		bool last = !*p;

		*to++ = '\0';
		if (last)
			return n;
	}
}

struct csv {
	FILE *f;
	const char *path;
	char *line;
	size_t cap;
	int number;
	char *fields[FIELDS_MAX];
	int n;				/* fields of the line; -1: a quote is open */
	bool too_long, no_memory;	/* nothing after it is read */
};

/* As getline, of at most LINE_MAX_BYTES. */
static ssize_t read_line(struct csv *c)
{
	size_t len = 0;
	int ch;

	while ((ch = getc_unlocked(c->f)) != EOF) {
		if (len + 2 > c->cap && bace_grow(&c->line, &c->cap, len + 2, 1)) {
			c->no_memory = true;
			return -1;
		}
		c->line[len++] = (char)ch;
		if (ch == '\n')
			break;
		if (len > LINE_MAX_BYTES) {
			c->too_long = true;
			return -1;
		}
	}
	if (!len)
		return -1;
	c->line[len] = '\0';
	return (ssize_t)len;
}

static bool next_line(struct csv *c)
{
	ssize_t len;

	do {
		len = read_line(c);
		if (len < 0)
			return false;
		c->number++;
		while (len && (c->line[len - 1] == '\n' || c->line[len - 1] == '\r'))
			c->line[--len] = '\0';
	} while (!len);
	/* Excel's mark of UTF-8 */
	if (c->number == 1 && !strncmp(c->line, "\xef\xbb\xbf", 3))
		memmove(c->line, c->line + 3, (size_t)len - 2);
	c->n = split(c->line, c->fields);
	return true;
}

static void list_columns(const struct csv *c, struct bace_buf *b)
{
	for (int i = 0; i < c->n && i < 24; i++)
		bace_buf_addf(b, "%s%s", i ? ", " : "", c->fields[i]);
	if (c->n > 24)
		bace_buf_addf(b, ", ...");
}

/* at[key]: the field's index, -1: none. */
static bool find_columns(const struct csv *c, const struct trace_columns *want, int *at, struct bace_diags *d)
{
	struct bace_buf there = { 0 };
	size_t before = d->n;
	bool span;

	list_columns(c, &there);
	for (int k = 0; k < N_TRACE_COLUMNS; k++) {
		at[k] = -1;
		for (int i = 0; *want->name[k] && i < c->n && i < FIELDS_MAX; i++)
			if (!strcmp(c->fields[i], want->name[k]))
				at[k] = i;
	}
	span = at[COL_START] >= 0 && at[COL_END] >= 0;
	for (int k = 0; k < N_TRACE_COLUMNS; k++) {
		bool needed = k <= COL_GPUS || (k == COL_DURATION && !span);

		if (at[k] < 0 && needed)
			bace_diag_add(d, c->path, c->number, "no column `%s' (%s); there are: %s",
				      *want->name[k] ? want->name[k] : keys[k], keys[k], there.p ? there.p : "none");
	}
	bace_buf_free(&there);
	return d->n == before;
}

static void read_rows(struct csv *c, const int *at, int n_header, struct trace_collector *col)
{
	while (next_line(c)) {
		const char *f[N_TRACE_COLUMNS];
		struct trace_row row = { .place = c->number };

		if (c->n != n_header) {
			if (c->n < 0)
				trace_complain(col, &row, "a quote is not closed");
			else
				trace_complain(col, &row, "%d fields: must be %d, as in the first line", c->n,
					       n_header);
			if (col->d->n >= TRACE_MAX_DIAGS)
				return;
			continue;
		}
		for (int k = 0; k < N_TRACE_COLUMNS; k++)
			f[k] = at[k] >= 0 ? c->fields[at[k]] : NULL;
		row.name = f[COL_NAME];
		row.arrival = f[COL_ARRIVAL];
		row.gpus = f[COL_GPUS];
		row.duration = f[COL_DURATION];
		row.start = f[COL_START];
		row.end = f[COL_END];
		row.state = f[COL_STATE];
		if (!trace_collect(col, &row))
			return;
	}
}

static bool read_header(struct csv *c, const struct trace_columns *columns, bool only_completed, int *at,
			struct bace_diags *d)
{
	if (!next_line(c)) {
		if (!ferror(c->f) && !c->too_long)
			bace_diag_add(d, c->path, 0, "empty: must begin with a line of column names");
		return false;
	}
	if (c->n < 0) {
		bace_diag_add(d, c->path, c->number, "a quote is not closed");
		return false;
	}
	if (c->n > FIELDS_MAX) {
		bace_diag_add(d, c->path, c->number, "%d columns: at most %d", c->n, FIELDS_MAX);
		return false;
	}
	if (!find_columns(c, columns, at, d))
		return false;
	if (only_completed && at[COL_STATE] < 0) {
		bace_diag_add(d, c->path, c->number, "no column for the state: which jobs completed is not known");
		return false;
	}
	return true;
}

int trace_read_csv(const char *path, const struct trace_columns *columns, bool only_completed, struct trace *out,
		   struct trace_skipped *skipped, struct bace_diags *d, struct bace_err *e)
{
	CLEANUP_FCLOSE FILE *f = fopen(path, "re");
	struct csv c = { .f = f, .path = path };
	struct trace_collector col = { .path = path, .d = d, .out = out, .skipped = skipped,
				       .only_completed = only_completed };
	int at[N_TRACE_COLUMNS];

	*out = (struct trace){ 0 };
	*skipped = (struct trace_skipped){ 0 };
	if (!f)
		return bace_fail_errno(e, errno, "%s: open", path);
	errno = 0;
	if (read_header(&c, columns, only_completed, at, d))
		read_rows(&c, at, c.n, &col);
	free(c.line);
	if (c.too_long)
		bace_diag_add(d, path, c.number + 1, "longer than %d bytes: no line of a table is", LINE_MAX_BYTES);
	if (ferror(f) || c.no_memory) {
		int rc = c.no_memory ? ENOMEM : errno ? errno : EIO;

		trace_free(out);
		free(col.slots);
		return bace_fail_errno(e, rc, "%s: read", path);
	}
	return trace_collected(&col, e);
}
