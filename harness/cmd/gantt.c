#include "harness/cmd/gantt.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define LEFT 78.0
#define RIGHT 24.0
#define TOP 84.0
#define PLOT_WIDTH 1240.0
#define LABEL_MIN_WIDTH 11.0	/* of a bar that carries its micro-batch */

static const char *const op_names[] = { "forward", "backward", "weight gradient" };
static const char *const op_classes[] = { "f", "b", "w" };
static const char *const wait_names[] = { "another stage's computation", "the link", "latency" };
static const char *const wait_classes[] = { "wc", "ws", "wl" };

struct drawing {
	FILE *f;
	const struct pipeline *p;
	const struct pipeline_result *r;
	double row, bar;		/* heights */
	double scale;			/* pixels per unit of time */
	int chunks;
};

void gantt_on_op(void *arg, const struct timeline_op *op)
{
	struct gantt *g = arg;

	if (BACE_PUSH(g->v, g->n, g->cap, *op))
		g->failed = true;
}

void gantt_free(struct gantt *g)
{
	free(g->v);
	*g = (struct gantt){ 0 };
}

static double x_of(const struct drawing *d, double t)
{
	return LEFT + t * d->scale;
}

static double y_of(const struct drawing *d, int stage)
{
	return TOP + stage * d->row + (d->row - d->bar) / 2;
}

static void head(const struct drawing *d, double width, double height)
{
	fprintf(d->f,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\">\n"
		"<style>\n"
		"svg { background: #fff; font: 12px system-ui, \"DejaVu Sans\", sans-serif; fill: #222 }\n"
		".title { font-size: 16px; font-weight: 600 } .sub, .tick { fill: #666 }\n"
		".grid { stroke: #e4e4e4; stroke-width: 1 } .end { stroke: #b3261e; stroke-dasharray: 4 3 }\n"
		".f { fill: #3b75af } .b { fill: #ef8636 } .w { fill: #519e3e } .held { fill: #7f7f7f }\n"
		".wc { fill: #f0f0f0 } .ws { fill: #f6d5d1 } .wl { fill: #fbeec2 }\n"
		".bars rect { stroke: #fff; stroke-width: .6 }\n"
		".n { font-size: 9px; fill: #fff; text-anchor: middle; pointer-events: none } .pale { fill: #222 }\n"
		"</style>\n", width, height, width, height);
}

static void title(const struct drawing *d)
{
	const struct schedule_spec *s = &d->p->schedule;

	fprintf(d->f, "<text class=\"title\" x=\"%g\" y=\"26\">%s, %d stages, %d micro-batches", LEFT,
		schedule_name(s->kind), s->stages, s->micro_batches);
	if (d->chunks > 1)
		fprintf(d->f, ", %d chunks a stage", d->chunks);
	fprintf(d->f, "</text>\n<text class=\"sub\" x=\"%g\" y=\"45\">step time %.6g, bubble %.1f %%%s</text>\n", LEFT,
		d->r->step_time, 100 * d->r->bubble, d->p->no_overlap ? ", sends hold the GPU" : "");
}

static double legend_item(const struct drawing *d, double x, const char *class, const char *text)
{
	fprintf(d->f, "<rect class=\"%s\" x=\"%.0f\" y=\"56\" width=\"13\" height=\"13\" rx=\"2\"/>"
		"<text x=\"%.0f\" y=\"67\">%s</text>\n", class, x, x + 18, text);
	/* about 6.4 pixels a letter at this size */
	for (const char *c = text; *c; c++)
		x += 6.4;
	return x + 36;
}

static void legend(const struct drawing *d)
{
	double x = LEFT;

	x = legend_item(d, x, "f", "forward");
	x = legend_item(d, x, "b", "backward");
	if (d->p->schedule.kind == SCHED_ZB_H1)
		x = legend_item(d, x, "w", "weight gradient");
	x = legend_item(d, x, "wc", "waits for a stage");
	x = legend_item(d, x, "ws", "waits for the link");
	x = legend_item(d, x, "wl", "waits for latency");
	if (d->p->no_overlap)
		legend_item(d, x, "held", "held by its send");
}

/* A step of 1, 2 or 5 times a power of ten that gives about ten ticks. */
static double tick_step(double span)
{
	double power = pow(10, floor(log10(span / 10))), times = span / 10 / power;

	return power * (times <= 1 ? 1 : times <= 2 ? 2 : times <= 5 ? 5 : 10);
}

static void axes(const struct drawing *d)
{
	double bottom = TOP + d->p->schedule.stages * d->row, step = tick_step(d->r->step_time);
	double end = x_of(d, d->r->step_time);

	for (int i = 0; i * step <= d->r->step_time * (1 + 1e-9); i++) {
		double x = x_of(d, i * step);

		fprintf(d->f, "<line class=\"grid\" x1=\"%.2f\" y1=\"%g\" x2=\"%.2f\" y2=\"%.1f\"/>"
			"<text class=\"tick\" x=\"%.2f\" y=\"%.1f\" text-anchor=\"middle\">%.6g</text>\n", x, TOP, x,
			bottom + 4, x, bottom + 18, i * step);
	}
	fprintf(d->f, "<line class=\"end\" x1=\"%.2f\" y1=\"%g\" x2=\"%.2f\" y2=\"%.1f\"/>\n", end, TOP - 4, end,
		bottom + 4);
	for (int i = 0; i < d->p->schedule.stages; i++)
		fprintf(d->f, "<text x=\"%g\" y=\"%.1f\" text-anchor=\"end\">stage %d</text>\n", LEFT - 8,
			y_of(d, i) + d->bar / 2 + 4, i);
}

static void rect(const struct drawing *d, const char *class, int stage, double from, double to)
{
	fprintf(d->f, "<rect class=\"%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\"", class, x_of(d, from),
		y_of(d, stage), (to - from) * d->scale, d->bar);
}

static void bar(const struct drawing *d, const struct timeline_op *t)
{
	double width = (t->end - t->start) * d->scale;
	bool wide = width >= LABEL_MIN_WIDTH && d->bar >= 10;

	rect(d, op_classes[t->kind], t->stage, t->start, t->end);
	/* Later chunks are paler. */
	if (t->chunk)
		fprintf(d->f, " fill-opacity=\"%.2f\"", 1 - 0.55 * t->chunk / (d->chunks - 1));
	fprintf(d->f, "><title>stage %d, %s %d", t->stage, op_names[t->kind], t->micro_batch);
	if (d->chunks > 1)
		fprintf(d->f, ", chunk %d", t->chunk);
	fprintf(d->f, ": %.6g to %.6g</title></rect>", t->start, t->end);
	if (wide)
		fprintf(d->f, "<text class=\"n%s\" x=\"%.2f\" y=\"%.1f\">%d</text>",
			2 * t->chunk > d->chunks - 1 ? " pale" : "", x_of(d, t->start) + width / 2,
			y_of(d, t->stage) + d->bar / 2 + 3, t->micro_batch);
	fputc('\n', d->f);
	if (t->held > 0) {
		rect(d, "held", t->stage, t->end, t->end + t->held);
		fprintf(d->f, "><title>held by its send: %.6g</title></rect>\n", t->held);
	}
}

/* First for the sender, then for the link, then for latency: in that order. */
static void wait(const struct drawing *d, const struct timeline_op *t)
{
	const double parts[] = { t->split.compute, t->split.serialisation, t->split.latency };
	double from = t->start - t->waited;

	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		if (parts[i] <= 0)
			continue;
		rect(d, wait_classes[i], t->stage, from, from + parts[i]);
		fprintf(d->f, "><title>stage %d waits for %s: %.6g</title></rect>\n", t->stage, wait_names[i],
			parts[i]);
		from += parts[i];
	}
}

static void draw(const struct drawing *d, const struct gantt *g)
{
	double width = LEFT + PLOT_WIDTH + RIGHT, height = TOP + d->p->schedule.stages * d->row + 34;

	head(d, width, height);
	title(d);
	legend(d);
	axes(d);
	fputs("<g>\n", d->f);
	for (size_t i = 0; i < g->n; i++)
		wait(d, &g->v[i]);
	fputs("</g>\n<g class=\"bars\">\n", d->f);
	for (size_t i = 0; i < g->n; i++)
		bar(d, &g->v[i]);
	fputs("</g>\n</svg>\n", d->f);
}

int gantt_write(const struct gantt *g, const struct pipeline *p, const struct pipeline_result *r,
		const char *path, struct bace_err *e)
{
	struct drawing d = { .p = p, .r = r, .scale = PLOT_WIDTH / r->step_time,
		.row = p->schedule.stages <= 16 ? 30 : p->schedule.stages <= 48 ? 20 : 12,
		.chunks = p->schedule.kind == SCHED_INTERLEAVED_1F1B ? p->schedule.chunks : 1 };
	struct bace_outfile out;
	int rc;

	if (g->failed)
		return bace_fail(e, ENOMEM, "%s: out of memory", path);
	rc = bace_outfile_open(path, &out, e);
	if (rc)
		return rc;
	d.bar = d.row * 0.8;
	d.f = out.f;
	draw(&d, g);
	return bace_outfile_close(&out, 0, e);
}
