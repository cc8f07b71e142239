/*
 * prices: a constant (`usd_per_kwh = 0.2`), or a series in equal steps
 * (`usd_per_kwh = [ ... ]; every = "1h"`) or with its own starts
 * (`start = [ "0h", "7h" ]`). A series repeats after its last step, or with
 * `start` after `period`, unless `repeat = false`.
 */
#include <math.h>
#include <stdlib.h>

#include "profiles/load.h"

struct raw {
	char region[NAME_LEN];
	char source[160];
	double every_s, period_s;
	bool repeat;
};

#define O(f) offsetof(struct raw, f)

static const struct cfg_key price_keys[] = {
	{ "region", CFG_NAME, CFG_REQUIRED, O(region) },
	{ "usd_per_kwh", CFG_ANY, CFG_REQUIRED },
	{ "every", CFG_TIME_S, CFG_ABOVE, O(every_s), .min = 0, .max = CFG_NO_MAX },
	{ "start", CFG_ANY },
	{ "period", CFG_TIME_S, CFG_ABOVE, O(period_s), .min = 0, .max = CFG_NO_MAX },
	{ "repeat", CFG_BOOL, 0, O(repeat) },
	{ "source", CFG_TEXT, 0, O(source), .max = sizeof(((struct raw *)0)->source) },
};

static const struct cfg_key value_key = { "usd_per_kwh", CFG_NUMBER, 0, 0, .min = -100, .max = 100 };
static const struct cfg_key start_key = { "start", CFG_TIME_S, 0, 0, .min = 0, .max = CFG_NO_MAX };

static const char *const kind_names[] = {
	[PRICE_RETAIL] = "retail", [PRICE_WHOLESALE] = "wholesale",
	[PRICE_SYNTHETIC] = "synthetic", NULL,
};

static const struct cfg_key file_keys[] = {
	{ "kind", CFG_CHOICE, CFG_REQUIRED, offsetof(struct price_table, kind), .choices = kind_names },
	{ "prices", CFG_LIST, CFG_REQUIRED },
};

struct reading {
	struct cfg_loader *l;
	struct price_table *out;
};

static bool read_array(config_setting_t *s, const struct cfg_key *key, double **out, size_t *n)
{
	int len = config_setting_length(s);
	bool ok = true;

	if ((!config_setting_is_array(s) && !config_setting_is_list(s)) || !len) {
		cfg_error(s, "must be an array [ ... ] that is not empty");
		return false;
	}
	*out = calloc((size_t)len, sizeof(**out));
	if (!*out)
		return cfg_no_memory(cfg_file_of(s)->loader);
	*n = (size_t)len;
	for (int i = 0; i < len; i++)
		ok &= cfg_read_value(config_setting_get_elem(s, (unsigned)i), key, &(*out)[i]);
	return ok;
}

static void constant(config_setting_t *entry, config_setting_t *value, struct price_series *p)
{
	static const char *const series_only[] = { "every", "start", "period", "repeat" };
	double v = 0;

	cfg_read_value(value, &value_key, &v);
	p->n = 1;
	p->start_s = calloc(1, sizeof(double));
	p->usd_per_kwh = calloc(1, sizeof(double));
	if (!p->start_s || !p->usd_per_kwh) {
		cfg_no_memory(cfg_file_of(entry)->loader);
		return;
	}
	p->usd_per_kwh[0] = v;
	for (size_t i = 0; i < ARRAY_LEN(series_only); i++) {
		config_setting_t *s = config_setting_get_member(entry, series_only[i]);

		if (s)
			cfg_error(s, "only where usd_per_kwh is an array");
	}
}

static bool equal_steps(config_setting_t *entry, const struct raw *raw, struct price_series *p)
{
	config_setting_t *period = config_setting_get_member(entry, "period");

	if (!config_setting_get_member(entry, "every")) {
		cfg_missing(entry, "every", "an array of prices needs the length of its steps "
			    "(\"1h\"), or a `start' for each");
		return false;
	}
	if (period)
		cfg_error(period, "only beside `start'; with `every' the period is the array's length");
	p->start_s = calloc(p->n, sizeof(double));
	if (!p->start_s)
		return cfg_no_memory(cfg_file_of(entry)->loader);
	for (size_t i = 0; i < p->n; i++)
		p->start_s[i] = (double)i * raw->every_s;
	p->period_s = raw->repeat ? (double)p->n * raw->every_s : 0;
	return true;
}

static bool given_starts(config_setting_t *entry, config_setting_t *start, const struct raw *raw,
			 struct price_series *p)
{
	config_setting_t *every = config_setting_get_member(entry, "every");
	size_t n = 0;

	if (every)
		cfg_error(every, "either `every' or `start', not both");
	if (!read_array(start, &start_key, &p->start_s, &n))
		return false;
	if (n != p->n) {
		cfg_error(start, "has %zu times for %zu prices: one each", n, p->n);
		return false;
	}
	if (p->start_s[0] != 0)
		cfg_error(start, "must begin with \"0s\"");
	for (size_t i = 1; i < n; i++)
		if (p->start_s[i] <= p->start_s[i - 1])
			cfg_error(config_setting_get_elem(start, (unsigned)i), "must be after the one before");
	if (raw->period_s > 0 && raw->period_s <= p->start_s[n - 1])
		cfg_error(config_setting_get_member(entry, "period"), "must be after the last start");
	if (raw->repeat && !(raw->period_s > 0))
		cfg_missing(entry, "period", "a series with `start' repeats after it, unless "
			    "repeat = false");
	p->period_s = raw->repeat ? raw->period_s : 0;
	return true;
}

static bool read_series(config_setting_t *entry, const struct raw *raw, struct price_series *p)
{
	config_setting_t *value = config_setting_get_member(entry, "usd_per_kwh");
	config_setting_t *start = config_setting_get_member(entry, "start");

	if (!value)
		return false;
	if (!config_setting_is_aggregate(value)) {
		constant(entry, value, p);
		return p->start_s && p->usd_per_kwh;
	}
	if (!read_array(value, &value_key, &p->usd_per_kwh, &p->n))
		return false;
	return start ? given_starts(entry, start, raw, p) : equal_steps(entry, raw, p);
}

static bool read_price(config_setting_t *s, void *arg)
{
	struct reading *r = arg;
	struct price_table *t = r->out;
	struct price_entry e = { 0 };
	struct raw raw = { .repeat = true };

	cfg_read(s, price_keys, ARRAY_LEN(price_keys), &raw);
	if (!*raw.region || !config_setting_is_group(s))
		return false;
	snprintf(e.region, sizeof(e.region), "%s", raw.region);
	load_unique(s, "region", "price", t->v, t->n, sizeof(e), offsetof(struct price_entry, region),
		    e.region);
	if (read_series(s, &raw, &e.series)) {
		if (!BACE_PUSH(t->v, t->n, t->cap, e))
			return true;
		cfg_no_memory(r->l);
	}
	price_series_free(&e.series);
	return false;
}

void load_prices(struct cfg_loader *l, const char *path, struct price_table *out)
{
	struct reading r = { l, out };

	out->complete = load_list_file(l, path, file_keys, ARRAY_LEN(file_keys), out, "prices",
				       read_price, &r);
}

void price_table_free(struct price_table *t)
{
	for (size_t i = 0; i < t->n; i++)
		price_series_free(&t->v[i].series);
	free(t->v);
	*t = (struct price_table){ 0 };
}
