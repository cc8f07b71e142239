#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cmd/cmd.h"
#include "harness/cmd/gantt.h"

#define STAGES_MAX 65536
#define MICRO_BATCHES_MAX (1 << 24)
#define OPS_MAX 2000000000.0	/* some twenty seconds */

/* ---- arguments: all of what is wrong is said at once ---- */

struct series {
	double *v;
	int n;
};

struct args {
	const char *schedule, *stages, *micro_batches, *chunks, *max_activations, *gantt;
	const char *tf, *tb, *tw, *latency, *serialisation, *rev_latency, *rev_serialisation;
	bool no_overlap;
	int errors;
};

static void wrong(struct args *a, const char *fmt, ...) BACE_PRINTF(2, 3);

static void wrong(struct args *a, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	cmd_error(&cmd_pipeline, 0, "%s", text);
	a->errors++;
}

/* Sums of any schedule stay finite, and exact to more digits than are printed. */
#define TIME_MAX 1e15

static int whole(struct args *a, const char *option, const char *text, int least, int most, int otherwise)
{
	int v;

	if (!text)
		return otherwise;
	if (bace_parse_int(text, least, most, &v))
		return v;
	wrong(a, "%s %s: must be a whole number from %d to %d", option, text, least, most);
	return otherwise;
}

/* "1.5" or "1,2,3": n times, once each. Not given: zeros. */
static double *numbers(struct args *a, const char *option, const char *text, int n, const char *per)
{
	double *v = calloc((size_t)n + 1, sizeof(*v));
	int count = 0;

	for (const char *p = text; v && p; count++) {
		size_t len = strcspn(p, ",");
		char *end;
		double x = strtod(p, &end);

		if (end == p || end != p + len || !(x >= 0 && x <= TIME_MAX)) {
			wrong(a, "%s: `%.*s': must be a number, 0 to %g", option, (int)len, p, TIME_MAX);
			return v;
		}
		if (count < n)
			v[count] = x;
		p = p[len] ? p + len + 1 : NULL;
	}
	if (v && text && count != 1 && count != n)
		wrong(a, "%s: %d numbers: must be one, or one per %s: %d", option, count, per, n);
	for (int i = 1; v && count == 1 && i < n; i++)
		v[i] = v[0];
	return v;
}

static double *copy(const double *from, int n)
{
	double *v = from ? malloc(((size_t)n + 1) * sizeof(*v)) : NULL;

	return v ? memcpy(v, from, (size_t)n * sizeof(*v)) : NULL;
}

static const struct option options[] = {
	{ "schedule", 1, NULL, 's' }, { "stages", 1, NULL, 'p' }, { "micro-batches", 1, NULL, 'm' },
	{ "tf", 1, NULL, 'f' }, { "tb", 1, NULL, 'b' }, { "tw", 1, NULL, 'w' }, { "chunks", 1, NULL, 'v' },
	{ "latency", 1, NULL, 'l' }, { "serialisation", 1, NULL, 'x' }, { "serialization", 1, NULL, 'x' },
	{ "reverse-latency", 1, NULL, 'L' }, { "reverse-serialisation", 1, NULL, 'X' },
	{ "max-activations", 1, NULL, 'a' }, { "no-overlap", 0, NULL, 'n' },
	{ "gantt", 1, NULL, 'g' }, { 0 } };

static int parse(struct args *a, int argc, char **argv)
{
	int c;

	optind = 1;
	opterr = 0;
	while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		switch (c) {
		case 's': a->schedule = optarg; break;
		case 'p': a->stages = optarg; break;
		case 'm': a->micro_batches = optarg; break;
		case 'f': a->tf = optarg; break;
		case 'b': a->tb = optarg; break;
		case 'w': a->tw = optarg; break;
		case 'v': a->chunks = optarg; break;
		case 'l': a->latency = optarg; break;
		case 'x': a->serialisation = optarg; break;
		case 'L': a->rev_latency = optarg; break;
		case 'X': a->rev_serialisation = optarg; break;
		case 'a': a->max_activations = optarg; break;
		case 'n': a->no_overlap = true; break;
		case 'g': a->gantt = optarg; break;
		case ':': return cmd_misuse(&cmd_pipeline, "%s needs a value", argv[optind - 1]);
		default: return cmd_misuse(&cmd_pipeline, "unknown option %s", argv[optind - 1]);
		}
	}
	if (optind < argc)
		return cmd_misuse(&cmd_pipeline, "unexpected argument `%s'", argv[optind]);
	return 0;
}

static void check_schedule(struct args *a, struct schedule_spec *s)
{
	const char *const names[] = { "gpipe", "1f1b", "eager-1f1b", "interleaved-1f1b", "zb-h1" };

	if (a->schedule && schedule_from_name(a->schedule, &s->kind)) {
		const char *near = bace_nearest(a->schedule, names, ARRAY_LEN(names));

		wrong(a, "--schedule %s: must be gpipe, 1f1b, eager-1f1b, interleaved-1f1b or zb-h1%s%s%s",
		      a->schedule, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
		return;
	}
	if (s->kind == SCHED_INTERLEAVED_1F1B && !a->chunks)
		wrong(a, "--chunks is missing: interleaved-1f1b needs the chunks a stage, 2 to 255");
	if (s->kind == SCHED_ZB_H1 && !a->tw)
		wrong(a, "--tw is missing: zb-h1 does the gradient of the weights apart; --tb is without it");
	if (s->kind != SCHED_ZB_H1 && a->tw)
		wrong(a, "--tw: only zb-h1 does it apart; with %s add it to --tb", schedule_name(s->kind));
}

/* p's arrays are malloc'd and freed by release(). */
static void read_pipeline(struct args *a, struct pipeline *p)
{
	struct schedule_spec *s = &p->schedule;
	struct bace_err e = { 0 };
	int hops;

	*s = (struct schedule_spec){ .kind = SCHED_1F1B };
	check_schedule(a, s);
	for (size_t i = 0; i < 4; i++) {
		const char *const given[] = { a->stages, a->micro_batches, a->tf, a->tb };

		if (!given[i])
			wrong(a, "--%s is missing", (const char *[]){ "stages", "micro-batches", "tf", "tb" }[i]);
	}
	s->stages = whole(a, "--stages", a->stages, 1, STAGES_MAX, 1);
	s->micro_batches = whole(a, "--micro-batches", a->micro_batches, 1, MICRO_BATCHES_MAX, 1);
	s->chunks = whole(a, "--chunks", a->chunks, 1, 255, 1);
	p->max_activations = whole(a, "--max-activations", a->max_activations, 1, 1 << 30, 0);
	p->no_overlap = a->no_overlap;
	hops = s->kind == SCHED_INTERLEAVED_1F1B ? s->stages : s->stages - 1;
	p->tf = numbers(a, "--tf", a->tf, s->stages, "stage");
	p->tb = numbers(a, "--tb", a->tb, s->stages, "stage");
	p->tw = numbers(a, "--tw", a->tw, s->stages, "stage");
	p->fwd_latency = numbers(a, "--latency", a->latency, hops, "hop");
	p->fwd_serialisation = numbers(a, "--serialisation", a->serialisation, hops, "hop");
	p->rev_latency = a->rev_latency ? numbers(a, "--reverse-latency", a->rev_latency, hops, "hop") :
					  copy(p->fwd_latency, hops);
	p->rev_serialisation = a->rev_serialisation ?
		numbers(a, "--reverse-serialisation", a->rev_serialisation, hops, "hop") :
		copy(p->fwd_serialisation, hops);
	if (a->errors)
		return;
	if (schedule_check(s, &e))
		wrong(a, "%s", e.msg);
	else if ((double)schedule_n_ops(s, 0) * s->stages > OPS_MAX)
		wrong(a, "%.3g operations: at most %.3g are simulated; fewer stages or micro-batches",
		      (double)schedule_n_ops(s, 0) * s->stages, OPS_MAX);
	else if (a->gantt && (double)schedule_n_ops(s, 0) * s->stages > GANTT_MAX_OPS)
		wrong(a, "--gantt: %.0f operations: at most %d can be drawn; fewer stages or micro-batches",
		      (double)schedule_n_ops(s, 0) * s->stages, GANTT_MAX_OPS);
}

static void release(struct pipeline *p)
{
	const double *const v[] = { p->tf, p->tb, p->tw, p->fwd_latency, p->fwd_serialisation, p->rev_latency,
				    p->rev_serialisation };

	for (size_t i = 0; i < ARRAY_LEN(v); i++)
		free((void *)v[i]);
}

static bool is_complete(const struct pipeline *p)
{
	return p->tf && p->tb && p->tw && p->fwd_latency && p->fwd_serialisation && p->rev_latency &&
	       p->rev_serialisation;
}

/* ---- what comes of it ---- */

struct answer {
	const struct pipeline *p;
	const struct pipeline_result *r;
	double ideal;			/* the busiest stage without any wait */
	double closed_form;		/* communication hidden; NAN: not for interleaved */
};

static int closed_form(const struct pipeline *p, double *out)
{
	size_t n = (size_t)p->schedule.stages;
	CLEANUP_FREE struct stage_cost *stages = calloc(n, sizeof(*stages));
	CLEANUP_FREE struct hop_cost *fwd = calloc(n, sizeof(*fwd));
	CLEANUP_FREE struct hop_cost *rev = calloc(n, sizeof(*rev));

	*out = NAN;
	if (!stages || !fwd || !rev)
		return -ENOMEM;
	if (p->schedule.kind == SCHED_INTERLEAVED_1F1B)
		return 0;
	for (size_t i = 0; i < n; i++) {
		stages[i] = (struct stage_cost){ .fwd_s = p->tf[i], .bwd_s = p->tb[i] + p->tw[i] };
		if (i + 1 == n)
			break;
		fwd[i] = (struct hop_cost){ p->fwd_serialisation[i], p->fwd_latency[i] };
		rev[i] = (struct hop_cost){ p->rev_serialisation[i], p->rev_latency[i] };
	}
	*out = step_time_closed_form((int)n, p->schedule.micro_batches, stages, fwd, rev);
	return 0;
}

static void print_text(const struct answer *a)
{
	const struct pipeline *p = a->p;
	const struct pipeline_result *r = a->r;
	double step = r->step_time > 0 ? r->step_time : 1;

	printf("%s, %d stages, %d micro-batches", schedule_name(p->schedule.kind), p->schedule.stages,
	       p->schedule.micro_batches);
	if (p->schedule.chunks > 1)
		printf(", %d chunks a stage", p->schedule.chunks);
	printf("%s\n\n", p->no_overlap ? ", sends hold the GPU" : "");
	printf("step time       %.9g\n", r->step_time);
	printf("bubble          %.2f %%   (idle share of the step, mean over stages)\n", 100 * r->bubble);
	printf("without bubble  %.9g   (the busiest stage)\n", a->ideal);
	if (a->closed_form > 0)
		printf("closed form     %.9g   (communication hidden; the simulation is %+.2f %%)\n",
		       a->closed_form, 100 * (r->step_time / a->closed_form - 1));
	printf("\n%5s  %12s  %6s  %12s  %12s  %12s  %12s  %12s%s  %s\n", "stage", "busy", "busy %", "waiting",
	       "for a stage", "for the link", "for latency", "at the end", p->no_overlap ? "          held" : "",
	       "activations");
	for (int i = 0; i < p->schedule.stages; i++) {
		const struct stage_times *t = &r->stages[i];
		const struct wait_split *w = &t->waiting;

		printf("%5d  %12.6g  %5.1f%%  %12.6g  %12.6g  %12.6g  %12.6g  %12.6g", i, t->busy, 100 * t->busy / step,
		       w->compute + w->serialisation + w->latency, w->compute, w->serialisation, w->latency,
		       t->drained);
		if (p->no_overlap)
			printf("  %12.6g", t->held);
		printf("  %d\n", schedule_live_activations(&p->schedule, i));
	}
	puts("\nAll times are in the unit of the times given.");
}

static json_t *stage_json(const struct pipeline *p, const struct stage_times *t, int i)
{
	return json_pack("{s:i, s:f, s:f, s:{s:f, s:f, s:f}, s:f, s:f, s:i}", "stage", i, "busy", t->busy,
			 "waiting", t->waiting.compute + t->waiting.serialisation + t->waiting.latency,
			 "waiting_for", "compute", t->waiting.compute, "serialisation", t->waiting.serialisation,
			 "latency", t->waiting.latency, "held", t->held, "drained", t->drained,
			 "activations", schedule_live_activations(&p->schedule, i));
}

static int print_json(const struct answer *a)
{
	const struct schedule_spec *s = &a->p->schedule;
	json_t *stages = json_array(), *root;
	char *text;

	for (int i = 0; i < s->stages; i++)
		json_array_append_new(stages, stage_json(a->p, &a->r->stages[i], i));
	root = json_pack("{s:s, s:i, s:i, s:i, s:b, s:f, s:f, s:f, s:o*, s:o}", "schedule", schedule_name(s->kind),
			 "stages", s->stages, "micro_batches", s->micro_batches, "chunks", s->chunks, "overlap",
			 !a->p->no_overlap, "step_time", a->r->step_time, "bubble", a->r->bubble,
			 "without_bubble", a->ideal, "closed_form",
			 isnan(a->closed_form) ? NULL : json_real(a->closed_form), "per_stage", stages);
	text = root ? json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) : NULL;
	json_decref(root);
	if (!text)
		return cmd_error(&cmd_pipeline, BACE_EXIT_FAILED, "out of memory");
	puts(text);
	free(text);
	return BACE_EXIT_OK;
}

static int simulate(const struct args *a, const struct pipeline *p, bool json)
{
	CLEANUP_FREE struct stage_times *stages = calloc((size_t)p->schedule.stages, sizeof(*stages));
	struct gantt g = { 0 };
	struct pipeline_result r = { .stages = stages, .on_op = a->gantt ? gantt_on_op : NULL, .arg = &g };
	struct answer answer = { .p = p, .r = &r };
	struct bace_err e = { 0 };
	int rc;

	if (!stages || closed_form(p, &answer.closed_form))
		return cmd_error(&cmd_pipeline, BACE_EXIT_FAILED, "out of memory");
	rc = pipeline_simulate(p, &r, &e);
	if (!rc && a->gantt)
		rc = r.step_time > 0 ? gantt_write(&g, p, &r, a->gantt, &e) :
				       bace_fail(&e, EINVAL, "--gantt: the step takes no time");
	gantt_free(&g);
	if (rc)
		return cmd_error(&cmd_pipeline, rc == -EINVAL || rc == -E2BIG ? BACE_EXIT_INPUT : BACE_EXIT_FAILED,
				 "%s", e.msg);
	for (int i = 0; i < p->schedule.stages; i++)
		answer.ideal = fmax(answer.ideal, stages[i].busy);
	if (json)
		return print_json(&answer);
	print_text(&answer);
	return BACE_EXIT_OK;
}

static int run(const struct cmd_globals *g, int argc, char **argv)
{
	struct args a = { 0 };
	struct pipeline p = { 0 };
	int rc = parse(&a, argc, argv);

	if (rc)
		return rc;
	read_pipeline(&a, &p);
	if (!is_complete(&p))
		rc = cmd_error(&cmd_pipeline, BACE_EXIT_FAILED, "out of memory");
	else if (a.errors)
		rc = BACE_EXIT_INPUT;
	else
		rc = simulate(&a, &p, g->json);
	release(&p);
	return rc;
}

const struct command cmd_pipeline = {
	.name = "pipeline",
	.summary = "simulate one training step of one pipeline, operation by operation",
	.usage = "bace pipeline --stages P --micro-batches M --tf T --tb T [--schedule S] [--tw T]\n"
		 "           [--chunks V] [--latency L0,L1,...] [--serialisation S0,S1,...]\n"
		 "           [--reverse-latency ...] [--reverse-serialisation ...]\n"
		 "           [--max-activations N] [--no-overlap] [--json] [--gantt FILE.svg]\n\n"
		 "Step time, bubble, and where the time goes on each stage. Times are plain numbers\n"
		 "in any one unit: one for all, or one per stage (--tf, --tb, --tw) or hop, with\n"
		 "commas between.\n\n"
		 "  --schedule         gpipe, 1f1b (default), eager-1f1b, interleaved-1f1b, zb-h1\n"
		 "  --tf, --tb         forward and backward of one micro-batch on one stage\n"
		 "  --tw               zb-h1: the gradient of the weights; --tb is then without it\n"
		 "  --chunks           interleaved-1f1b: model chunks a stage; a hop more, from the\n"
		 "                     last stage to the first\n"
		 "  --latency          one-way, per hop\n"
		 "  --serialisation    message size / bandwidth, per hop\n"
		 "  --reverse-...      of gradients, where they differ from activations\n"
		 "  --max-activations  refuse a schedule that holds more on some stage\n"
		 "  --no-overlap       a stage cannot compute while it sends\n"
		 "  --gantt            draw the timeline",
	.run = run,
};
