#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "harness/cmd/cmd.h"
#include "harness/cmd/trace_models.h"
#include "harness/sim/tracegen.h"

/* A language model's step is worth a hundred of the list's seconds and more. The
 * load, GPU-seconds a second, stays. */
#define SYNTHETIC_SCALE 100

#define DEFAULT_MODELS "Qwen2.5-14B,Qwen2.5-32B,Falcon-40B,FLM-101B"

struct args {
	const char *out, *csv, *import, *format, *columns, *models, *models_file;
	bool only_completed, has_jobs;
	int errors, synthetic_options;
	struct trace_skipped skipped;
	struct trace_shape shape;
	struct trace_work work;
	double scale_arrivals, scale_durations;
};

static void wrong(struct args *a, const char *fmt, ...) BACE_PRINTF(2, 3);

static void wrong(struct args *a, const char *fmt, ...)
{
	char text[640];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	cmd_error(&cmd_trace_gen, 0, "%s", text);
	a->errors++;
}

/* ---- values ---- */

static void whole(struct args *a, const char *option, const char *text, int most, int *out)
{
	if (!bace_parse_int(text, 1, most, out))
		wrong(a, "%s %s: must be a whole number from 1 to %d", option, text, most);
}

static void number(struct args *a, const char *option, const char *text, double least, double most, double *out)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || *end || !(v >= least && v <= most))
		wrong(a, "%s %s: must be a number from %g to %g", option, text, least, most);
	else
		*out = v;
}

static void duration(struct args *a, const char *option, const char *text, double *out)
{
	struct bace_err e = { 0 };
	int64_t ns;

	if (bace_parse_time_ns(text, &ns, &e))
		wrong(a, "%s %s: %s", option, text, e.msg);
	else
		*out = (double)ns / 1e9;
}

static void seed(struct args *a, const char *text)
{
	if (!bace_parse_whole(text, 0, UINT64_MAX, &a->shape.seed))
		wrong(a, "--seed %s: must be a whole number, 0 to 2^64-1", text);
}

/* "1:30,2:10": GPUs and how often. */
static void sizes(struct args *a, const char *text)
{
	struct trace_shape *s = &a->shape;

	s->n_sizes = 0;
	for (const char *p = text; *p;) {
		char *end;
		long gpus = strtol(p, &end, 10);
		double weight = 1;

		if (end != p && *end == ':')
			weight = strtod(end + 1, &end);
		if (end == p || (*end && *end != ',') || gpus < 1 || gpus > TRACE_MAX_GPUS || !(weight >= 0) ||
		    isinf(weight) || s->n_sizes == TRACE_MAX_SIZES) {
			wrong(a, "--gpus %s: must be GPUS:WEIGHT,... with 1 to %d GPUs, weights of 0 or more, at most "
			      "%d of them", text, TRACE_MAX_GPUS, TRACE_MAX_SIZES);
			return;
		}
		s->gpus[s->n_sizes] = (int)gpus;
		s->weight[s->n_sizes++] = weight;
		p = *end ? end + 1 : end;
	}
}

static void arrivals(struct args *a, const char *text)
{
	static const char *const names[] = { "poisson", "bursty", "at-once" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (!strcmp(text, names[i])) {
			a->shape.arrivals = (enum trace_arrivals)i;
			return;
		}
	}
	wrong(a, "--arrivals %s: must be poisson, bursty or at-once", text);
}

/* ---- options ---- */

enum { OPT_CSV = 256, OPT_JOBS, OPT_MODELS, OPT_MODELS_FILE, OPT_M, OPT_BETA, OPT_FLOPS, OPT_SCALE_ARRIVALS,
       OPT_SCALE_DURATIONS, OPT_IMPORT, OPT_FORMAT, OPT_COLUMNS, OPT_COMPLETED, OPT_SYNTHETIC, OPT_SEED,
       OPT_ARRIVALS, OPT_GAP, OPT_BURST, OPT_GPUS, OPT_LEAST, OPT_MEDIAN, OPT_SIGMA, OPT_MOST };

static const struct option options[] = {
	{ "out", 1, NULL, 'o' }, { "csv", 1, NULL, OPT_CSV }, { "jobs", 1, NULL, OPT_JOBS },
	{ "models", 1, NULL, OPT_MODELS }, { "models-file", 1, NULL, OPT_MODELS_FILE },
	{ "micro-batches", 1, NULL, OPT_M }, { "micro-batch-size", 1, NULL, OPT_BETA },
	{ "flops-eff", 1, NULL, OPT_FLOPS }, { "scale-arrivals", 1, NULL, OPT_SCALE_ARRIVALS },
	{ "scale-durations", 1, NULL, OPT_SCALE_DURATIONS }, { "import", 1, NULL, OPT_IMPORT },
	{ "format", 1, NULL, OPT_FORMAT }, { "columns", 1, NULL, OPT_COLUMNS },
	{ "completed", 0, NULL, OPT_COMPLETED }, { "seed", 1, NULL, OPT_SEED },
	{ "arrivals", 1, NULL, OPT_ARRIVALS }, { "interarrival", 1, NULL, OPT_GAP },
	{ "burst", 1, NULL, OPT_BURST }, { "gpus", 1, NULL, OPT_GPUS }, { "duration-least", 1, NULL, OPT_LEAST },
	{ "duration-median", 1, NULL, OPT_MEDIAN }, { "duration-sigma", 1, NULL, OPT_SIGMA },
	{ "duration-most", 1, NULL, OPT_MOST }, { 0 } };

static void synthetic_option(struct args *a, int c, const char *value)
{
	a->synthetic_options++;
	switch (c) {
	case OPT_SEED: seed(a, value); break;
	case OPT_ARRIVALS: arrivals(a, value); break;
	case OPT_GAP: duration(a, "--interarrival", value, &a->shape.gap_s); break;
	case OPT_BURST: number(a, "--burst", value, 1, TRACE_MAX_JOBS, &a->shape.burst); break;
	case OPT_GPUS: sizes(a, value); break;
	case OPT_LEAST: duration(a, "--duration-least", value, &a->shape.least_s); break;
	case OPT_MEDIAN: duration(a, "--duration-median", value, &a->shape.median_s); break;
	case OPT_SIGMA: number(a, "--duration-sigma", value, 0, 10, &a->shape.sigma); break;
	case OPT_MOST: duration(a, "--duration-most", value, &a->shape.most_s); break;
	}
}

static void option(struct args *a, int c, const char *value)
{
	switch (c) {
	case 'o': a->out = value; break;
	case OPT_CSV: a->csv = value; break;
	case OPT_JOBS:
		whole(a, "--jobs", value, TRACE_MAX_JOBS, &a->shape.n_jobs);
		a->has_jobs = true;
		break;
	case OPT_MODELS: a->models = value; break;
	case OPT_MODELS_FILE: a->models_file = value; break;
	case OPT_M: whole(a, "--micro-batches", value, 1 << 20, &a->work.micro_batches); break;
	case OPT_BETA: whole(a, "--micro-batch-size", value, 1 << 16, &a->work.micro_batch_size); break;
	case OPT_FLOPS: number(a, "--flops-eff", value, 1e6, 1e18, &a->work.flops_eff); break;
	case OPT_SCALE_ARRIVALS: number(a, "--scale-arrivals", value, 0, 1e6, &a->scale_arrivals); break;
	case OPT_SCALE_DURATIONS: number(a, "--scale-durations", value, 1e-6, 1e6, &a->scale_durations); break;
	case OPT_IMPORT: a->import = value; break;
	case OPT_FORMAT: a->format = value; break;
	case OPT_COLUMNS: a->columns = value; break;
	case OPT_COMPLETED: a->only_completed = true; break;
	default: synthetic_option(a, c, value);
	}
}

static int parse(struct args *a, int argc, char **argv)
{
	int c;

	optind = 1;
	opterr = 0;
	while ((c = getopt_long(argc, argv, ":o:", options, NULL)) != -1) {
		if (c == ':')
			return cmd_misuse(&cmd_trace_gen, "%s needs a value", argv[optind - 1]);
		if (c == '?')
			return cmd_misuse(&cmd_trace_gen, "unknown option %s", argv[optind - 1]);
		option(a, c, optarg);
	}
	if (optind < argc)
		return cmd_misuse(&cmd_trace_gen, "unexpected argument `%s'", argv[optind]);
	if (a->import && a->synthetic_options)
		wrong(a, "--import: takes neither --seed nor the options of what is drawn");
	if (!a->import && (a->format || a->columns || a->only_completed))
		wrong(a, "--format, --columns and --completed: only with --import");
	if (isnan(a->scale_arrivals))
		a->scale_arrivals = a->import ? 1 : SYNTHETIC_SCALE;
	if (isnan(a->scale_durations))
		a->scale_durations = a->import ? 1 : SYNTHETIC_SCALE;
	return a->errors ? BACE_EXIT_INPUT : 0;
}

/* ---- work ---- */

static void describe_shape(const struct args *a, const struct trace *t, struct bace_buf *b)
{
	static const char *const names[] = { "Poisson arrivals", "bursty arrivals", "all at once" };
	const struct trace_shape *s = &a->shape;

	bace_buf_addf(b, "%zu synthetic jobs, seed %llu. %s", t->n, (unsigned long long)s->seed, names[s->arrivals]);
	if (s->arrivals != ARRIVALS_AT_ONCE)
		bace_buf_addf(b, ", mean gap %g s times %g", s->gap_s, a->scale_arrivals);
	if (s->arrivals == ARRIVALS_BURSTY)
		bace_buf_addf(b, ", mean burst %g", s->burst);
	bace_buf_addf(b, ".\nDurations: %g s + log-normal, median %g s in all, sigma %g, at most %g s; times %g.\n"
		      "GPUs:weight", s->least_s, s->median_s, s->sigma, s->most_s, a->scale_durations);
	for (int i = 0; i < s->n_sizes; i++)
		bace_buf_addf(b, " %d:%g", s->gpus[i], s->weight[i]);
	bace_buf_addf(b, ".\nThe defaults have the shape of the 60-job list of SymbioticLab's Tiresias simulator.\n");
}

static void describe(const struct args *a, const struct trace *t, struct bace_buf *b)
{
	if (a->import)
		bace_buf_addf(b, "%zu jobs of the trace %s (%s). Arrivals times %g, durations times %g.\n", t->n,
			      strrchr(a->import, '/') ? strrchr(a->import, '/') + 1 : a->import,
			      a->format ? a->format : "csv", a->scale_arrivals, a->scale_durations);
	else
		describe_shape(a, t, b);
	bace_buf_addf(b, "\nModel by the GPUs that the trace gives a job:");
	for (int i = 0; i < a->work.n_models; i++)
		bace_buf_addf(b, "%s %s%d: %s", i ? "," : "", i + 1 == a->work.n_models && i ? "from " : i > 1 ? "to " : "",
			      i + 1 == a->work.n_models && i ? (1 << (i - 1)) + 1 : 1 << i, a->work.models[i].name);
	bace_buf_addf(b, ".\nSteps: as many as its GPU-seconds are worth at %.4g FLOP/s a GPU.\n", a->work.flops_eff);
}

static int draw_or_read(struct args *a, struct trace *t, struct bace_diags *d, struct bace_err *e)
{
	const char *format = a->format ? a->format : "csv";
	struct trace_columns columns;
	int rc;

	if (!a->import)
		return trace_draw(&a->shape, t, e);
	if (!strcmp(format, "philly")) {
		if (a->columns)
			return bace_fail(e, EINVAL, "--columns: Philly's log is JSON, it has none");
		rc = trace_read_philly(a->import, a->only_completed, t, &a->skipped, d, e);
	} else {
		if (!trace_columns_known(format, &columns))
			return bace_fail(e, EINVAL, "--format %s: must be csv, philly, helios or acme", format);
		if (a->columns && trace_columns_set(&columns, a->columns, e))
			return bace_err_context(e, "--columns");
		rc = trace_read_csv(a->import, &columns, a->only_completed, t, &a->skipped, d, e);
	}
	if (rc)
		return rc;
	fprintf(stderr, "%s: %zu jobs; left out: %zu without a GPU, %zu that never ran", a->import, t->n,
		a->skipped.no_gpu, a->skipped.never_ran);
	if (a->only_completed)
		fprintf(stderr, ", %zu not completed", a->skipped.not_completed);
	fputc('\n', stderr);
	if (a->has_jobs)
		trace_normalise(t, (size_t)a->shape.n_jobs);
	if (t->n > TRACE_MAX_JOBS)
		return bace_fail(e, EINVAL, "%s: %zu jobs: at most %d; --jobs N takes the first N", a->import, t->n,
				 TRACE_MAX_JOBS);
	return 0;
}

static int scale(const struct args *a, struct trace *t, struct bace_err *e)
{
	for (size_t i = 0; i < t->n; i++) {
		struct trace_job *j = &t->v[i];

		j->arrival_s *= a->scale_arrivals;
		j->duration_s *= a->scale_durations;
		/* nanoseconds in 64 bits end at 292 years */
		if (j->arrival_s > 5e9 || j->duration_s > 1e15)
			return bace_fail(e, EINVAL, "job %s: arrives %g s after the first and runs %g s: at most 5e+09 "
					 "and 1e+15", j->name, j->arrival_s, j->duration_s);
	}
	return 0;
}

static size_t n_small(const struct trace *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++)
		n += t->v[i].is_small;
	return n;
}

static void warn_small(const struct trace *t)
{
	size_t n = n_small(t);

	if (n)
		fprintf(stderr, "%zu of %zu jobs are worth less than half a step, and do one: raise --scale-durations, "
			"or name smaller --models\n", n, t->n);
}

static bool is_stdout(const char *path)
{
	return !path || !strcmp(path, "-");
}

static int print_json(const struct args *a, const struct trace *t, struct bace_err *e)
{
	json_t *j = json_pack("{s:I, s:I, s:{s:I, s:I, s:I}}", "jobs", (json_int_t)t->n, "small", (json_int_t)n_small(t),
			      "left_out", "no_gpu", (json_int_t)a->skipped.no_gpu, "never_ran",
			      (json_int_t)a->skipped.never_ran, "not_completed", (json_int_t)a->skipped.not_completed);
	int rc = j && !json_dumpf(j, stdout, JSON_INDENT(1)) && putchar('\n') == '\n' ? 0 :
		 bace_fail(e, EIO, "write to standard output");

	json_decref(j);
	return rc;
}

static int write_to(const char *path, const struct args *a, const struct trace *t, const char *about,
		    struct bace_err *e)
{
	struct bace_outfile out = { 0 };
	int rc = is_stdout(path) ? 0 : bace_outfile_open(path, &out, e);
	FILE *f = is_stdout(path) ? stdout : out.f;

	if (rc)
		return rc;
	rc = about ? trace_write_cfg(t, &a->work, about, f, e) : trace_write_csv(t, &a->work, f, e);
	return bace_outfile_close(&out, rc, e);
}

static int write_out(const struct args *a, const struct trace *t, struct bace_err *e)
{
	struct bace_buf about = { 0 };
	int rc = 0;

	describe(a, t, &about);
	if (a->out || !a->csv)
		rc = write_to(a->out, a, t, about.p ? about.p : "", e);
	if (!rc && a->csv)
		rc = write_to(a->csv, a, t, NULL, e);
	bace_buf_free(&about);
	return rc;
}

static int run(const struct cmd_globals *g, int argc, char **argv)
{
	struct args a = { .models = DEFAULT_MODELS, .models_file = "models", .shape = trace_shape_default(),
		.work = { .micro_batches = 64, .micro_batch_size = 1, .flops_eff = 60e12 },
		.scale_arrivals = NAN, .scale_durations = NAN };
	struct bace_diags d = { 0 };
	struct bace_err e = { 0 };
	struct model *models = NULL;
	struct trace t = { 0 };
	int rc = parse(&a, argc, argv);

	if (rc)
		return rc;
	if (g->json && (a.csv ? a.out && is_stdout(a.out) : is_stdout(a.out)))
		return cmd_misuse(&cmd_trace_gen, "--json says what was made: -o FILE for the jobs themselves");
	rc = trace_models(a.models_file, a.models, &models, &a.work.n_models, &d, &e);
	a.work.models = models;
	if (!rc)
		rc = draw_or_read(&a, &t, &d, &e);
	if (!rc)
		rc = scale(&a, &t, &e);
	if (!rc)
		rc = trace_assign(&t, &a.work, &e);
	if (!rc)
		warn_small(&t);
	if (!rc)
		rc = write_out(&a, &t, &e);
	if (!rc && g->json)
		rc = print_json(&a, &t, &e);
	bace_diags_print(&d, stderr);
	if (rc)
		rc = d.n ? BACE_EXIT_INPUT :
			   cmd_error(&cmd_trace_gen, rc == -EINVAL || rc == -ENOENT ? BACE_EXIT_INPUT : BACE_EXIT_FAILED,
				     "%s", e.msg);
	bace_diags_free(&d);
	trace_free(&t);
	free(models);
	return rc;
}

const struct command cmd_trace_gen = {
	.name = "trace-gen",
	.summary = "make a jobs file: synthetic, or of a public trace",
	.usage = "bace trace-gen [-o JOBS.cfg] [--csv FILE.csv] [--jobs N] [--seed S]\n"
		 "           [--arrivals poisson|bursty|at-once] [--interarrival T] [--burst N]\n"
		 "           [--gpus N:WEIGHT,...] [--duration-least T] [--duration-median T]\n"
		 "           [--duration-sigma X] [--duration-most T]\n"
		 "       bace trace-gen --import FILE [--format csv|philly|helios|acme]\n"
		 "           [--columns KEY=COLUMN,...] [--completed] [--jobs N] [-o ...] [--csv ...]\n"
		 "    both:  [--models A,B,...] [--models-file FILE] [--micro-batches M]\n"
		 "           [--micro-batch-size B] [--flops-eff X] [--scale-arrivals X]\n"
		 "           [--scale-durations X]\n\n"
		 "Writes a jobs file for an experiment (to stdout, as `-', unless -o or --csv is given).\n"
		 "A job gets the model for as many GPUs as the trace gives it (--models: for 1, 2, up\n"
		 "to 4, up to 8, ...) and as many steps as its GPU-seconds are worth at --flops-eff.\n\n"
		 "Synthetic: GPUs, durations (--duration-least + log-normal) and gaps have the shape\n"
		 "of the 60-job list of the Tiresias simulator unless told otherwise. Times have\n"
		 "units: 30s, 2h; arrivals and durations are then multiplied by 100 unless --scale-...\n"
		 "say otherwise, for a step of a language model is long.\n\n"
		 "  --import     a trace: philly is cluster_job_log (JSON), helios cluster_log.csv, acme\n"
		 "               trace_seren.csv or trace_kalos.csv, csv what --csv writes or any other\n"
		 "               with --columns; keys name, arrival, gpus, duration, start, end, state;\n"
		 "               times are seconds or dates\n"
		 "  --completed  only jobs that completed\n"
		 "  --jobs       how many are drawn (60), or taken from the beginning (all); at most 50000\n\n"
		 "With `bace --json trace-gen' how many jobs were written and left out is on standard\n"
		 "output, the jobs in the files of -o and --csv.",
	.run = run,
};
