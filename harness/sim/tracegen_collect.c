#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/sim/tracegen_internal.h"

#define SECONDS_MAX 5e9	/* dates as seconds fit, as milliseconds they do not */

void trace_complain(struct trace_collector *c, const struct trace_row *row, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (row->what)
		bace_diag_add(c->d, c->path, 0, "%s %d: %s", row->what, row->place, text);
	else
		bace_diag_add(c->d, c->path, row->place, "%s", text);
}

static bool is_given(const char *text)
{
	return text && *text && strcmp(text, "None") && strcmp(text, "NULL");
}

/* ---- names ---- */

static bool is_name(const char *text)
{
	size_t n = strlen(text);

	return n && n < NAME_LEN &&
	       n == strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-");
}

static struct name_slot *slot_of(struct trace_collector *c, const char *name)
{
	size_t i = bace_hash64(name, strlen(name), 0) & (c->n_slots - 1);

	while (*c->slots[i].name && strcmp(c->slots[i].name, name))
		i = (i + 1) & (c->n_slots - 1);
	return &c->slots[i];
}

static bool make_room(struct trace_collector *c)
{
	struct name_slot *old = c->slots;
	size_t n = c->n_slots;

	if (2 * (c->n_names + 1) <= n)
		return true;
	c->n_slots = n ? 2 * n : 256;
	c->slots = calloc(c->n_slots, sizeof(*c->slots));
	if (!c->slots) {
		c->slots = old;
		c->n_slots = n;
		return false;
	}
	for (size_t i = 0; i < n; i++)
		if (*old[i].name)
			*slot_of(c, old[i].name) = old[i];
	free(old);
	return true;
}

static bool take_name(struct trace_collector *c, const struct trace_row *row)
{
	struct name_slot *s;

	if (!is_given(row->name) || !is_name(row->name)) {
		trace_complain(c, row, "name `%s': must be 1 to %d letters, digits, . _ + or -",
			       row->name ? row->name : "", NAME_LEN - 1);
		return false;
	}
	if (!make_room(c)) {
		c->no_memory = true;
		return false;
	}
	s = slot_of(c, row->name);
	if (*s->name) {
		trace_complain(c, row, "name `%s' is there before, at %s %d: must be unique", row->name,
			       row->what ? row->what : "line", s->place);
		return false;
	}
	strcpy(s->name, row->name);
	s->place = row->place;
	c->n_names++;
	return true;
}

/* ---- numbers ---- */

static bool number(const char *text, double *out)
{
	char *end;

	*out = strtod(text, &end);
	return end != text && !*end;
}

static bool take_time(struct trace_collector *c, const struct trace_row *row, const char *key, const char *text,
		      double *out, bool *is_date)
{
	if (trace_parse_time(text, out, is_date) && (*is_date || (*out >= 0 && *out <= SECONDS_MAX)))
		return true;
	trace_complain(c, row, "%s `%s': must be seconds, 0 to %g, or a date like 2020-06-09 18:41:01", key, text,
		       SECONDS_MAX);
	return false;
}

static bool take_arrival(struct trace_collector *c, const struct trace_row *row, double *out)
{
	bool is_date;

	if (!is_given(row->arrival)) {
		trace_complain(c, row, "arrival is missing");
		return false;
	}
	if (!take_time(c, row, "arrival", row->arrival, out, &is_date))
		return false;
	if (c->any_time && is_date != c->dates) {
		trace_complain(c, row, "arrival `%s': must be %s, as before", row->arrival,
			       c->dates ? "a date" : "seconds");
		return false;
	}
	c->any_time = true;
	c->dates = is_date;
	return true;
}

static bool take_gpus(struct trace_collector *c, const struct trace_row *row, int *out)
{
	double v = NAN;

	if (is_given(row->gpus) && number(row->gpus, &v) && v >= 0 && v <= TRACE_MAX_GPUS && v == floor(v)) {
		*out = (int)v;
		return true;
	}
	trace_complain(c, row, "gpus `%s': must be a whole number, 0 to %d", row->gpus ? row->gpus : "",
		       TRACE_MAX_GPUS);
	return false;
}

/* 0: it never ran. */
static bool take_duration(struct trace_collector *c, const struct trace_row *row, double *out)
{
	double start, end;
	bool is_date;

	*out = 0;
	if (is_given(row->start) && is_given(row->end)) {
		if (!take_time(c, row, "start", row->start, &start, &is_date) ||
		    !take_time(c, row, "end", row->end, &end, &is_date))
			return false;
		*out = end - start;
		if (*out >= 0)
			return true;
		trace_complain(c, row, "ends (`%s') before it starts (`%s')", row->end, row->start);
		return false;
	}
	if (!is_given(row->duration))
		return true;
	if (number(row->duration, out) && *out >= 0 && *out <= SECONDS_MAX)
		return true;
	trace_complain(c, row, "duration `%s': must be seconds, 0 to %g", row->duration, SECONDS_MAX);
	return false;
}

static bool is_completed(const char *state)
{
	return is_given(state) && (!strcasecmp(state, "completed") || !strcasecmp(state, "pass"));
}

bool trace_collect(struct trace_collector *c, const struct trace_row *row)
{
	struct trace_job j = { 0 };
	bool ok = take_name(c, row);

	ok &= take_arrival(c, row, &j.arrival_s);
	ok &= take_gpus(c, row, &j.gpus);
	ok &= take_duration(c, row, &j.duration_s);
	if (!ok)
		return !c->no_memory && c->d->n < TRACE_MAX_DIAGS;
	if (!(j.duration_s > 0)) {
		c->skipped->never_ran++;
	} else if (!j.gpus) {
		c->skipped->no_gpu++;
	} else if (c->only_completed && !is_completed(row->state)) {
		c->skipped->not_completed++;
	} else {
		strcpy(j.name, row->name);
		c->no_memory = BACE_PUSH(c->out->v, c->out->n, c->out->cap, j);
	}
	return !c->no_memory;
}

int trace_collected(struct trace_collector *c, struct bace_err *e)
{
	int rc = 0;

	free(c->slots);
	if (c->no_memory)
		rc = bace_fail(e, ENOMEM, "%s: out of memory", c->path);
	else if (c->d->n)
		rc = bace_fail(e, EINVAL, "%s: not a trace", c->path);
	else if (!c->out->n)
		rc = bace_fail(e, EINVAL, "%s: no job in it that used a GPU", c->path);
	if (rc && rc != -ENOMEM && !c->d->n)
		bace_diag_add(c->d, c->path, 0, "no job in it that used a GPU (%zu without one, %zu never ran, "
			      "%zu not completed)", c->skipped->no_gpu, c->skipped->never_ran,
			      c->skipped->not_completed);
	if (rc)
		trace_free(c->out);
	else
		trace_normalise(c->out, 0);
	return rc;
}
