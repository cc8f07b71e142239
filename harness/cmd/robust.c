#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cmd/cmd.h"
#include "harness/cmd/heap.h"
#include "harness/cmd/progress.h"
#include "harness/cmd/robust.h"

#define DEFAULT_EXPERIMENT "six-regions-paper"
#define MAX_SEEDS 100000

struct args {
	const char *experiment;
	struct robust_options o;
	struct robust_testbed testbed;	/* n_views = 0: simulate */
	bool verdict, has_seeds, reports;
};

static bool real(const char *text, double lo, double hi, double *out)
{
	char *end;

	*out = strtod(text, &end);
	return end != text && !*end && *out >= lo && *out <= hi;
}

/* ---- lists: "0,10ms,1h", "0,10,20" (percent), "static,fast" ---- */

typedef bool item_fn(void *arg, const char *word);

static bool each(const char *list, item_fn *fn, void *arg)
{
	CLEANUP_FREE char *copy = strdup(list);
	char *save = NULL;

	if (!copy || !*copy)
		return false;
	for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save))
		if (!fn(arg, w))
			return false;
	return true;
}

struct numbers {
	int n;
	double *v;
};

static bool ascends(struct numbers *l, double v)
{
	if (l->n == ROBUST_MAX_AXIS || (l->n && v <= l->v[l->n - 1]))
		return false;
	l->v[l->n++] = v;
	return true;
}

static bool add_delay(void *arg, const char *word)
{
	int64_t ns = 0;
	struct bace_err e;

	return (!strcmp(word, "0") || !bace_parse_time_ns(word, &ns, &e)) && ascends(arg, (double)ns / 1e9);
}

static bool add_percent(void *arg, const char *word)
{
	double v;

	return real(word, -100, 1000, &v) && ascends(arg, v / 100);
}

struct choices {
	const char *const *names;
	int n;
	bool *on;
};

static bool choose(void *arg, const char *word)
{
	struct choices *c = arg;

	for (int i = 0; i < c->n; i++)
		if (!strcmp(word, c->names[i]))
			return c->on[i] = true;
	return false;
}

static int bad_value(const char *option, const char *value, const char *allowed)
{
	return cmd_misuse(&cmd_robust, "--%s %s: must be %s", option, value, allowed);
}

static int parse_delays(struct robust_options *o, const char *list)
{
	struct numbers l = { 0, o->delays_s };
	bool ok = each(list, add_delay, &l) && l.v[0] == 0;

	o->n_delays = l.n;
	return ok ? 0 : bad_value("delays", list, "ascending times from 0, e.g. 0,10ms,1min");
}

static int parse_noises(struct robust_options *o, const char *list)
{
	struct numbers l = { 0, o->noises };
	bool ok = each(list, add_percent, &l) && l.v[0] == 0;

	o->n_noises = l.n;
	return ok ? 0 : bad_value("noise", list, "ascending percentages from 0, e.g. 0,10,30");
}

static int parse_biases(struct robust_options *o, const char *list)
{
	struct numbers l = { 0, o->biases };
	bool ok = each(list, add_percent, &l);

	o->n_biases = l.n;
	return ok ? 0 : bad_value("bias", list, "ascending percentages, e.g. -20,20");
}

/* "20ms:30": late by 20 ms, noise of 30 %. */
static bool add_view(void *arg, const char *word)
{
	struct robust_testbed *t = arg;
	CLEANUP_FREE char *delay = strdup(word);
	char *colon = delay ? strchr(delay, ':') : NULL;
	double at = 0, noise;
	struct numbers l = { 0, &at };

	if (!colon || t->n_views == ROBUST_MAX_AXIS)
		return false;
	*colon = '\0';
	if (!add_delay(&l, delay) || !real(colon + 1, 0, 1000, &noise))
		return false;
	t->views[t->n_views++] = (struct view_spec){ .delay_s = at, .bandwidth_noise = noise / 100,
		.price_noise = noise / 100 };
	return true;
}

static int parse_choices(const char *option, const char *list, const char *const *names, int n, bool *on,
			 const char *allowed)
{
	struct choices c = { names, n, on };

	memset(on, 0, (size_t)n * sizeof(*on));
	return each(list, choose, &c) ? 0 : bad_value(option, list, allowed);
}

/* ---- options ---- */

static const char *const regime_words[ROBUST_REGIMES] = { "given", "binding" };

static int parse_time(const char *option, const char *text, double *out)
{
	struct bace_err e;
	int64_t ns;

	if (bace_parse_time_ns(text, &ns, &e) || ns <= 0)
		return bad_value(option, text, "a time above 0, e.g. 6h");
	*out = (double)ns / 1e9;
	return 0;
}

static int parse_number(const char *option, const char *text, double lo, double hi, double unit, double *out)
{
	double v;

	if (!real(text, lo, hi, &v))
		return cmd_misuse(&cmd_robust, "--%s %s: must be %g to %g", option, text, lo, hi);
	*out = v * unit;
	return 0;
}

enum { OPT_DELAYS = 256, OPT_NOISE, OPT_BIAS, OPT_REGIMES, OPT_LINKS, OPT_PRICES, OPT_DRAWN, OPT_LOAD, OPT_HOLD,
       OPT_FLOPS, OPT_BANDWIDTH, OPT_PERIOD, OPT_HOURLY, OPT_JCT, OPT_COST, OPT_ORACLE, OPT_KINDS,
       OPT_VERDICT, OPT_TESTBED, OPT_REPORTS };

static int parse_axis(struct args *a, int c)
{
	struct robust_options *o = &a->o;

	switch (c) {
	case OPT_DELAYS: return parse_delays(o, optarg);
	case OPT_NOISE: return parse_noises(o, optarg);
	case OPT_BIAS: return parse_biases(o, optarg);
	case OPT_REGIMES: return parse_choices("regimes", optarg, regime_words, ROBUST_REGIMES, o->regimes,
					       "given, binding or both");
	case OPT_LINKS: return parse_choices("links", optarg, robust_links_name, ROBUST_LINKS, o->links,
					     "some of static, slow, adverse, fast");
	case OPT_PRICES: return parse_choices("prices", optarg, robust_prices_name, ROBUST_PRICES, o->prices,
					      "flat, hourly or both");
	default: return -1;
	}
}

static int parse_world(struct args *a, int c)
{
	struct robust_options *o = &a->o;

	switch (c) {
	case OPT_DRAWN: o->drawn = true; return 0;
	case OPT_LOAD: return parse_number("load", optarg, 0, 1000, 1, &o->load);
	case OPT_HOLD: return parse_time("hold", optarg, &o->hold_s);
	case OPT_FLOPS: return parse_number("flops", optarg, 1, 1e18, 1, &o->binding_flops);
	case OPT_BANDWIDTH: return parse_number("bandwidth", optarg, 0.001, 1000, 1, &o->binding_bandwidth);
	case OPT_PERIOD: return parse_time("period", optarg, &o->period_s);
	case OPT_HOURLY: o->hourly = optarg; return 0;
	case OPT_JCT: return parse_number("jct-threshold", optarg, -100, 100, 0.01, &o->jct_threshold);
	case OPT_COST: return parse_number("cost-threshold", optarg, -100, 100, 0.01, &o->cost_threshold);
	default: return -1;
	}
}

static int parse_one(struct args *a, int c)
{
	int rc = parse_axis(a, c);

	if (rc == -1)
		rc = parse_world(a, c);
	if (rc != -1)
		return rc;
	switch (c) {
	case 'n':
		a->has_seeds = true;
		return bace_parse_int(optarg, 2, MAX_SEEDS, &a->o.n_seeds) ? 0 : bad_value("seeds", optarg, "2 to 100000");
	case 't':
		return bace_parse_int(optarg, 1, 4096, &a->o.n_threads) ? 0 : bad_value("threads", optarg, "1 to 4096");
	case OPT_ORACLE:
		a->o.event_sim = !strcmp(optarg, "event-sim");
		return a->o.event_sim || !strcmp(optarg, "closed-form") ? 0 :
			bad_value("oracle", optarg, "closed-form or event-sim");
	case OPT_KINDS:
		a->o.crossed = !strcmp(optarg, "crossed");
		return a->o.crossed || !strcmp(optarg, "once") ? 0 : bad_value("kinds", optarg, "crossed or once");
	case OPT_VERDICT: a->verdict = true; return 0;
	case OPT_REPORTS: a->reports = true; return 0;
	case OPT_TESTBED:
		return each(optarg, add_view, &a->testbed) ? 0 :
			bad_value("testbed", optarg, "views as DELAY:NOISE, e.g. 20ms:30,1h:0");
	default: return cmd_misuse(&cmd_robust, "bad options");
	}
}

static int parse(struct args *a, int argc, char **argv)
{
	static const struct option options[] = {
		{ "seeds", 1, NULL, 'n' }, { "threads", 1, NULL, 't' }, { "delays", 1, NULL, OPT_DELAYS },
		{ "noise", 1, NULL, OPT_NOISE }, { "bias", 1, NULL, OPT_BIAS },
		{ "regimes", 1, NULL, OPT_REGIMES }, { "links", 1, NULL, OPT_LINKS },
		{ "prices", 1, NULL, OPT_PRICES }, { "drawn", 0, NULL, OPT_DRAWN },
		{ "load", 1, NULL, OPT_LOAD }, { "hold", 1, NULL, OPT_HOLD }, { "flops", 1, NULL, OPT_FLOPS },
		{ "bandwidth", 1, NULL, OPT_BANDWIDTH }, { "period", 1, NULL, OPT_PERIOD },
		{ "hourly", 1, NULL, OPT_HOURLY }, { "jct-threshold", 1, NULL, OPT_JCT },
		{ "cost-threshold", 1, NULL, OPT_COST }, { "oracle", 1, NULL, OPT_ORACLE },
		{ "kinds", 1, NULL, OPT_KINDS },
		{ "verdict", 0, NULL, OPT_VERDICT },
		{ "testbed", 1, NULL, OPT_TESTBED }, { "reports", 0, NULL, OPT_REPORTS }, { 0 } };
	int c, rc = 0;

	robust_defaults(&a->o);
	optind = 1;
	while (!rc && (c = getopt_long(argc, argv, "", options, NULL)) != -1)
		rc = parse_one(a, c);
	if (!rc && argc - optind > 1)
		rc = cmd_misuse(&cmd_robust, "one experiment at most");
	if (!rc && a->reports && !a->testbed.n_views)
		rc = cmd_misuse(&cmd_robust, "--reports: only with --testbed");
	if (!rc && a->verdict && a->testbed.n_views)
		rc = cmd_misuse(&cmd_robust, "--verdict: not with --testbed, which measures and does not judge");
	a->experiment = optind < argc ? argv[optind] : DEFAULT_EXPERIMENT;
	return rc;
}

/* ---- the command ---- */

static int bad_input(const struct bace_diags *d, const struct bace_err *e, int rc)
{
	bace_diags_print(d, stderr);
	if (!d->n)
		cmd_error(&cmd_robust, 0, "%s", e->msg);
	return d->n || rc == -EINVAL ? BACE_EXIT_INPUT : BACE_EXIT_FAILED;
}

static bool all_hold(const struct robust_judgement *j)
{
	const struct robust *r = j->r;

	for (int w = 0; w < r->n_worlds; w++)
		for (int v = 0; v < r->n_views; v++)
			for (int p = 0; p < r->n_pairs; p++)
				if (robust_has(r, w, v) && robust_cell_at(j, w, v, p)->verdict != ROBUST_HOLDS)
					return false;
	return true;
}

static int keep(const struct cmd_globals *g, const struct robust_judgement *j, struct bace_err *e)
{
	struct store *s = NULL;
	char id[32];
	int rc = store_open(g->store, &s, e);

	if (!rc)
		rc = robust_keep(s, g->line, j, id, e);
	fflush(stdout);	/* not into the middle of a table, where both go to one place */
	if (!rc && !g->quiet)
		fprintf(stderr, "run %s, store %s; `bace --store %s report %s' draws it\n", id, g->store, g->store, id);
	store_close(s);
	return rc;
}

static int present(const struct cmd_globals *g, const struct args *a, const struct robust *r)
{
	struct robust_judgement j;
	struct bace_err e = { 0 };
	int rc = robust_judge(r, &j, &e);

	if (rc)
		return cmd_error(&cmd_robust, BACE_EXIT_FAILED, "%s", e.msg);
	if (g->json)
		rc = robust_print_json(&j, stdout, &e);
	else
		robust_print(&j, stdout);
	if (!rc && g->store)
		rc = keep(g, &j, &e);
	if (rc)
		rc = cmd_error(&cmd_robust, BACE_EXIT_FAILED, "%s", e.msg);
	else if (a->verdict && !all_hold(&j))
		rc = BACE_EXIT_VERDICT;
	robust_judgement_free(&j);
	return rc;
}

static void say(void *arg, const char *line)
{
	fprintf(stderr, "%s\n", line);
}

static int on_testbed(const struct cmd_globals *g, struct args *a, const struct experiment *exp)
{
	CLEANUP_FREE char *store = g->store ? strdup(g->store) : store_default_path();
	struct bace_err e = { 0 };
	bool began = false;
	int rc;

	a->testbed.n_seeds = a->has_seeds ? a->o.n_seeds : 1;
	rc = store ? robust_on_testbed(exp, &a->testbed, &(struct run_options){ .self = g->self, .command = g->line,
		.store_path = store, .reports = a->reports, .on_progress = g->quiet ? NULL : say }, g->json, stdout, &began, &e) :
		bace_fail(&e, ENOMEM, "out of memory");
	if (!rc)
		return BACE_EXIT_OK;
	return cmd_error(&cmd_robust, cmd_exit_of(rc, began), "%s", e.msg);
}

static int run(const struct cmd_globals *g, int argc, char **argv)
{
	struct args a = { 0 };
	struct experiment exp;
	struct bace_diags d = { 0 };
	struct bace_err e = { 0 };
	struct robust r;
	struct progress bar;
	int rc = parse(&a, argc, argv);

	if (rc)
		return rc;
	rc = experiment_load(a.experiment, &exp, &d, &e);
	if (!rc && a.testbed.n_views) {
		rc = on_testbed(g, &a, &exp);
		experiment_free(&exp);
		return rc;
	}
	if (!rc) {
		heap_keep();
		progress_begin(&bar, "seeds of worlds", g->quiet);
		a.o.on_progress = progress_show;
		a.o.arg = &bar;
		rc = robust_run(&exp, &a.o, &r, &d, &e);
		progress_end(&bar);
		if (!rc) {
			rc = present(g, &a, &r);
			robust_free(&r);
			experiment_free(&exp);
			return rc;
		}
		experiment_free(&exp);
	}
	rc = bad_input(&d, &e, rc);
	bace_diags_free(&d);
	return rc;
}

const struct command cmd_robust = {
	.name = "robust",
	.summary = "whether gains survive a view that is late, noisy and biased",
	.usage = "bace robust [EXPERIMENT] [options]\n\n"
		 "Runs every policy of the experiment on many seeds in worlds that differ in how\n"
		 "links and prices change, under views of them that are delayed, noisy and biased,\n"
		 "and says for each baseline whether the first policy's gains hold. All policies\n"
		 "of a seed see the same truth, jobs and noise.\n\n"
		 "  EXPERIMENT            default: six-regions-paper\n"
		 "  --seeds N             default 100\n"
		 "  --delays LIST         default 0,5ms,10ms,20ms,1s,1min,1h\n"
		 "  --noise LIST          of bandwidths and prices, in %; default 0,10,20,30\n"
		 "  --bias LIST           likewise; default -30,-20,-10,10,20,30\n"
		 "  --kinds crossed|once  uniform and gaussian, additive and multiplicative,\n"
		 "                        independent and correlated noise with every delay\n"
		 "                        (default), or all but the first kind with none\n"
		 "  --regimes LIST        given,binding: as the experiment has it; with GPUs of\n"
		 "                        --flops (310e12) and links of --bandwidth (0.3) times\n"
		 "  --links LIST          static,slow,adverse,fast: how links change: never; at\n"
		 "                        gaps of --hold (6h); just before every arrival; every\n"
		 "                        10 ms under jobs that are cut to seconds\n"
		 "  --prices LIST         flat,hourly; --hourly PROFILE (wholesale-2024-week)\n"
		 "  --drawn               GPUs, bandwidths, prices and data sets of every seed\n"
		 "                        from the published ranges, not the experiment's\n"
		 "  --load L              Poisson arrivals that would keep this share of the GPUs\n"
		 "                        busy (1); 0: the experiment's arrivals\n"
		 "  --period TIME         noise is redrawn (6h)\n"
		 "  --oracle O            step times: closed-form (default) or event-sim\n"
		 "  --jct-threshold P, --cost-threshold P   in %, default 20 and 10\n"
		 "  --threads N           results do not depend on it\n"
		 "  --verdict             exit 4 unless every cell holds\n"
		 "  --testbed LIST        views as DELAY:NOISE, e.g. 20ms:30,1h:0: what the policies decide\n"
		 "                        under each, and under the exact one, is measured as `bace run'\n"
		 "                        does (noise uniform, additive; --seeds: 1)\n"
		 "  --reports             with --testbed: delay and noise are put into what the agents\n"
		 "                        measure of the links (probes), not into what is true of them\n\n"
		 "With `bace --store FILE robust' the gains are kept there, too, for `bace report'.",
	.run = run,
};
