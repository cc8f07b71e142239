#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "harness/cmd/load.h"
#include "harness/cmd/signals.h"
#include "harness/overhead/overhead.h"
#include "results/results.h"

#define METHODS_MAX 16
#define PERIODS_MAX 16

struct args {
	const char *experiment, *plot;
	struct overhead_options o;
	struct overhead_method methods[METHODS_MAX];
	int periods_ms[PERIODS_MAX];
};

static void on_progress(void *arg, const char *line)
{
	const int64_t *start = arg;

	fprintf(stderr, "%6.1f s  %s\n", (double)(bace_mono_ns() - *start) / 1e9, line);
}

/* ---- arguments ---- */

static int parse_methods(struct args *a, const char *text)
{
	CLEANUP_FREE char *copy = strdup(text);
	struct bace_err e = { 0 };

	a->o.n_methods = 0;
	for (char *save = NULL, *p = strtok_r(copy, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
		if (a->o.n_methods == METHODS_MAX)
			return cmd_misuse(&cmd_overhead, "--methods: at most %d", METHODS_MAX);
		if (overhead_method_parse(p, &a->methods[a->o.n_methods++], &e))
			return cmd_misuse(&cmd_overhead, "--methods: %s", e.msg);
	}
	return a->o.n_methods ? 0 : cmd_misuse(&cmd_overhead, "--methods: none is given");
}

static int parse_periods(struct args *a, const char *text)
{
	CLEANUP_FREE char *copy = strdup(text);
	struct bace_err e = { 0 };
	int64_t ns;

	a->o.n_periods = 0;
	for (char *save = NULL, *p = strtok_r(copy, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
		if (a->o.n_periods == PERIODS_MAX)
			return cmd_misuse(&cmd_overhead, "--periods: at most %d", PERIODS_MAX);
		if (bace_parse_time_ns(p, &ns, &e))
			return cmd_misuse(&cmd_overhead, "--periods: %s", e.msg);
		if (ns < 10000000 || ns > 600000000000)
			return cmd_misuse(&cmd_overhead, "--periods %s: must be from 10ms to 10min", p);
		a->periods_ms[a->o.n_periods++] = (int)(ns / 1000000);
	}
	return a->o.n_periods ? 0 : cmd_misuse(&cmd_overhead, "--periods: none is given");
}

/* "0.5%" */
static int parse_inject(struct args *a, const char *text)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || strcmp(end, "%") || !(v >= 0 && v <= 100))
		return cmd_misuse(&cmd_overhead, "--inject %s: must be 0%% to 100%%, e.g. 0.5%%", text);
	a->o.inject_ppm = (int)lround(v * 1e4);
	return 0;
}

static int parse_int(const char *option, const char *text, int least, int most, int *out)
{
	return bace_parse_int(text, least, most, out) ? 0 :
		cmd_misuse(&cmd_overhead, "%s %s: must be %d to %d", option, text, least, most);
}

static int parse_one(struct args *a, int c)
{
	switch (c) {
	case 'm': return parse_methods(a, optarg);
	case 'p': return parse_periods(a, optarg);
	case 'n': return parse_int("--pairs", optarg, 2, 10000, &a->o.pairs);
	case 's': return parse_int("--block-steps", optarg, 2, 10000, &a->o.block_steps);
	case 'i': return parse_inject(a, optarg);
	case 'b': return cmd_backend(&cmd_overhead, optarg, &a->o.has_backend, &a->o.backend);
	case 'd': a->o.detection = false; return 0;
	case 'o': a->plot = optarg; return 0;
	default: return cmd_misuse(&cmd_overhead, "bad options");
	}
}

static int parse(struct args *a, int argc, char **argv)
{
	static const struct option options[] = {
		{ "methods", 1, NULL, 'm' }, { "periods", 1, NULL, 'p' }, { "pairs", 1, NULL, 'n' },
		{ "block-steps", 1, NULL, 's' }, { "inject", 1, NULL, 'i' }, { "backend", 1, NULL, 'b' },
		{ "no-detection", 0, NULL, 'd' }, { "plot", 1, NULL, 'o' }, { 0 } };
	int c, rc;

	a->o = (struct overhead_options){ .pairs = 8, .block_steps = 4, .detection = true,
					  .methods = a->methods, .periods_ms = a->periods_ms };
	rc = parse_methods(a, "off,counters,tcp_info,probe:24kB,probe:96kB");
	if (!rc)
		rc = parse_periods(a, "10ms,100ms,1s,10s");
	optind = 1;
	while (!rc && (c = getopt_long(argc, argv, "o:", options, NULL)) != -1)
		rc = parse_one(a, c);
	if (!rc && optind != argc - 1)
		rc = cmd_misuse(&cmd_overhead, "one experiment file is needed");
	a->experiment = argv[optind];
	return rc;
}

/* ---- output ---- */

static const char *cell(char buf[32], const char *format, double v)
{
	if (isnan(v))
		return "-";
	snprintf(buf, 32, format, v);
	return buf;
}

static void print_row(const struct overhead_row *r)
{
	bool off = r->method->kind == OVERHEAD_OFF;
	char t[12][32], seen[24] = "-", idle[24] = "-", period[BACE_FMT_MAX];

	if (r->n_changes)
		snprintf(seen, sizeof(seen), "%d/%d", r->n_detected, r->n_changes);
	if (r->n_idle_changes)
		snprintf(idle, sizeof(idle), "%d/%d", r->n_idle_detected, r->n_idle_changes);
	bace_fmt_time(period, r->period_ms / 1e3);
	printf("%-15s %8s %8s %8s %8s %4d %8s %9s %9s %8s %6s %7s %8s %6s %7s%s\n", r->method->name,
	       off ? "-" : period, cell(t[0], "%+.2f", 100 * r->inflation), cell(t[1], "%+.2f", 100 * r->lo),
	       cell(t[2], "%+.2f", 100 * r->hi), r->n_pairs, cell(t[3], "%.3f", 100 * r->agent_cpu),
	       cell(t[4], "%.2f", r->wire_bytes_ps / 1e3), cell(t[5], "%.2f", r->probe_bytes_ps / 1e3),
	       cell(t[6], "%.2f", r->detect_s), seen, cell(t[7], "%.1f", 100 * r->error),
	       cell(t[8], "%.2f", r->idle_detect_s), idle, cell(t[9], "%.1f", 100 * r->idle_error),
	       r->valid ? "" : "  !");
}

static void print_text(const struct overhead_result *r, const struct args *a)
{
	printf("%s on %s, %d agents, step %.3f s on the testbed; backend %s\nrun %s\n", r->job, r->placement,
	       r->hosts, r->predicted_step_s, r->backend, r->run);
	if (a->o.inject_ppm)
		printf("injected: B's compute %+.3f %%, which is %+.3f %% of the step by event simulation\n",
		       a->o.inject_ppm / 1e4, 100 * r->injected);
	printf("\nInflation of the step time: median over pairs of adjacent blocks, one monitored, one not, with\n"
	       "95 %% bootstrap interval (of 6 pairs and more). CPU: of a core, mean over agents, while monitored. Seen: time from the\n"
	       "change of %s to half its rate, or back, until the estimate is within 10 %% of the truth and\n"
	       "stays so; error: median |estimate / truth - 1| after that.\n\n", r->link);
	printf("%-15s %8s %26s %4s %8s %9s %9s   loaded: link changed    idle: link changed\n", "", "",
	       "inflation %  95 % interval", "", "agent", "to ctrl.", "probes");
	printf("%-15s %8s %8s %8s %8s %4s %8s %9s %9s %8s %6s %7s %8s %6s %7s\n", "method", "period", "median", "from",
	       "to", "n", "CPU %", "kB/s", "kB/s", "seen s", "seen", "error %", "seen s", "seen", "error %");
	for (int i = 0; i < r->n; i++)
		print_row(&r->rows[i]);
	for (int i = 0; i < r->n; i++)
		if (!r->rows[i].valid)
			printf("! %s every %d ms: %s\n", r->rows[i].method->name, r->rows[i].period_ms, r->rows[i].why);
}

static json_t *row_json(const struct overhead_row *r)
{
	return json_pack("{s:s,s:f,s:b,s:s,s:i,s:i,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:I,s:i,s:i,s:o,s:o,s:i,s:i,"
		"s:o,s:o,s:f}", "method", r->method->name, "period_s", r->period_ms / 1e3, "valid", r->valid, "why",
		r->why, "n_pairs", r->n_pairs, "n_steps", r->n_steps, "inflation", json_number(r->inflation), "lo",
		json_number(r->lo), "hi", json_number(r->hi), "step_s", json_number(r->step_s), "agent_cpu_cores",
		json_number(r->agent_cpu), "agent_cpu_off_cores", json_number(r->agent_cpu_off), "agent_rss_bytes",
		json_number(r->agent_rss_bytes), "wire_bytes_per_s", json_number(r->wire_bytes_ps), "probe_bytes_per_s",
		json_number(r->probe_bytes_ps), "dropped_samples", (json_int_t)r->dropped, "n_changes", r->n_changes,
		"n_detected", r->n_detected, "detection_s", json_number(r->detect_s), "error", json_number(r->error),
		"n_idle_changes", r->n_idle_changes, "n_idle_detected", r->n_idle_detected, "idle_detection_s",
		json_number(r->idle_detect_s), "idle_error", json_number(r->idle_error), "dwell_s", r->dwell_s);
}

static void print_json(const struct overhead_result *r, const struct args *a)
{
	json_t *rows = json_array(), *o;

	for (int i = 0; i < r->n; i++)
		json_array_append_new(rows, row_json(&r->rows[i]));
	o = json_pack("{s:s,s:s,s:s,s:s,s:s,s:i,s:f,s:f,s:f,s:o}", "run", r->run, "job", r->job, "placement",
		r->placement, "link", r->link, "backend", r->backend, "hosts", r->hosts, "predicted_step_s",
		r->predicted_step_s, "injected_compute", a->o.inject_ppm / 1e6, "injected_step", r->injected, "rows",
		rows);
	json_dumpf(o, stdout, JSON_INDENT(1));
	fputc('\n', stdout);
	json_decref(o);
}

static int write_plot(const struct args *a, const struct overhead_result *r)
{
	struct bace_err e = { 0 };
	struct store *s;
	int rc = store_open_readonly(a->o.store_path, &s, &e);

	if (!rc) {
		rc = results_write_overhead_plot(s, r->run, a->plot, &e);
		store_close(s);
	}
	return rc ? cmd_error(&cmd_overhead, BACE_EXIT_FAILED, "--plot %s: %s", a->plot, e.msg) : 0;
}

static int n_invalid(const struct overhead_result *r)
{
	int n = 0;

	for (int i = 0; i < r->n; i++)
		n += !r->rows[i].valid;
	return n;
}

static int run(const struct cmd_globals *g, int argc, char **argv)
{
	struct args a = { 0 };
	struct experiment exp;
	struct overhead_result r = { 0 };
	struct bace_err e = { 0 };
	CLEANUP_FREE char *store = NULL;
	int64_t start = bace_mono_ns();
	int rc = parse(&a, argc, argv), shown = 0, bad;
	bool began;

	if (!rc)
		rc = load_experiment(&cmd_overhead, a.experiment, &exp);
	if (rc)
		return rc;
	store = g->store ? strdup(g->store) : store_default_path();
	a.o.self = g->self;
	a.o.command = g->line;
	a.o.store_path = store;
	a.o.on_progress = g->quiet ? NULL : on_progress;
	a.o.cancelled = signals_caught;
	a.o.arg = &start;
	signals_catch();
	rc = store ? overhead_run(&exp, &a.o, &r, &e) : bace_fail(&e, ENOMEM, "out of memory");
	if (r.n)
		(g->json ? print_json : print_text)(&r, &a);
	if (!rc && a.plot)
		shown = write_plot(&a, &r);
	bad = n_invalid(&r);
	began = r.run[0];
	if (!rc && !shown && bad)
		shown = cmd_error(&cmd_overhead, BACE_EXIT_FAILED, "%d of %d rows %s not valid", bad, r.n, bad == 1 ? "is" : "are");
	overhead_result_free(&r);
	experiment_free(&exp);
	return rc ? cmd_error(&cmd_overhead, cmd_exit_of(rc, began), "%s", e.msg) : shown;
}

const struct command cmd_overhead = {
	.name = "overhead",
	.summary = "what monitoring costs a step, and how soon it sees a change",
	.usage = "bace overhead EXPERIMENT.cfg [--methods LIST] [--periods LIST] [--pairs N]\n"
		 "           [--block-steps N] [--inject P%] [--no-detection] [--backend B]\n"
		 "           [-o PLOT.svg]\n\n"
		 "Runs the experiment's first pipeline that crosses a link and switches monitoring\n"
		 "on and off between its steps, in pairs of blocks whose order is drawn; then\n"
		 "changes the link's rate, with the pipeline running and without, and sees how\n"
		 "long the view takes to follow. Rows go to the store.\n\n"
		 "  --methods      off, counters, tcp_info, probe:SIZE (bytes of one train)\n"
		 "                 (default off,counters,tcp_info,probe:24kB,probe:96kB)\n"
		 "  --periods      10ms to 10min (default 10ms,100ms,1s,10s)\n"
		 "  --pairs        pairs of blocks for each (default 8; an interval needs 6)\n"
		 "  --block-steps  steps a block, at least; the first does not count (default 4)\n"
		 "  --inject P%    lengthen the compute of monitored steps: what is measured must\n"
		 "                 say so\n"
		 "  --no-detection only the cost\n"
		 "  -o, --plot     inflation against detection delay, a curve a method, as SVG",
	.run = run,
};
