/* One self-contained page: no script, no network. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/cmd/claims_summary.h"

#define STRIP_W 240
#define STRIP_LO (-1.0)
#define STRIP_HI 1.5

static const char head[] =
	"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Published figures</title>\n"
	"<meta name=\"viewport\" content=\"width=device-width\"><style>\n"
	"body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:88em;padding:0 1em;color:#222;background:#fff}\n"
	"td.w{white-space:normal;min-width:18em}"
	"table{border-collapse:collapse;margin:.6em 0 1.6em}th,td{padding:.15em .55em;text-align:right;white-space:nowrap}\n"
	"th{font-weight:600;border-bottom:1px solid #888}td.t,th.t{text-align:left}tr.f td{border-top:1px solid #ddd}\n"
	".v0{background:#cfe8cf}.v1{background:#e6efc8}.v2{background:#fbe8b8}.v3{background:#f6cccc}\n"
	".num{font-variant-numeric:tabular-nums}small,caption{color:#555}caption{text-align:left}\n"
	"@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}tr.f td{border-color:#444}"
	".v0{background:#244a24}.v1{background:#3f4a20}.v2{background:#57451a}.v3{background:#5a2626}"
	"small,caption{color:#aaa}}\n</style></head><body>\n";

static void number(FILE *f, double v)
{
	if (isnan(v))
		fputs("<td>&ndash;</td>", f);
	else
		fprintf(f, "<td>%+.1f</td>", 100 * v);
}

static void share(FILE *f, double v)
{
	/* Shade: the table is read by colour first. */
	if (isnan(v))
		fputs("<td>&ndash;</td>", f);
	else
		fprintf(f, "<td style=\"background:rgba(60,130,220,%.2f)\">%.0f</td>", 0.65 * v, 100 * v);
}

static double strip_x(double v)
{
	return STRIP_W * (fmin(fmax(v, STRIP_LO), STRIP_HI) - STRIP_LO) / (STRIP_HI - STRIP_LO);
}

/* 5 to 95 % as a bar, the median as a tick, the published range as a band. */
static void strip(FILE *f, const struct claims_figure *c, const struct spread *s)
{
	fprintf(f, "<td><svg width=\"%d\" height=\"14\" role=\"img\" aria-label=\"5 to 95 %% and median\">",
		STRIP_W);
	fprintf(f, "<rect x=\"%.1f\" y=\"0\" width=\"%.1f\" height=\"14\" fill=\"#7fbf7f\" fill-opacity=\".45\"/>",
		strip_x(c->lo), fmax(1, strip_x(c->hi) - strip_x(c->lo)));
	fprintf(f, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"0\" y2=\"14\" stroke=\"#999\"/>", strip_x(0), strip_x(0));
	if (s->n)
		fprintf(f, "<rect x=\"%.1f\" y=\"5\" width=\"%.1f\" height=\"4\" fill=\"#4a78b5\"/>"
			"<rect x=\"%.1f\" y=\"1\" width=\"2.5\" height=\"12\" fill=\"#c33\"/>",
			strip_x(s->q05), fmax(1, strip_x(s->q95) - strip_x(s->q05)), strip_x(s->q50) - 1.25);
	fputs("</svg></td>", f);
}

static void arm_row(FILE *f, const struct claims_figure *c, const struct figure_summary *r, int arm)
{
	const struct spread *s = &r->arm[arm];

	fprintf(f, "<tr%s><td class=\"t\">%s</td><td class=\"t\">%s</td>", arm ? "" : " class=\"f\"",
		arm ? "" : c->detail, claims_arm_name[arm]);
	number(f, s->q05);
	number(f, s->q50);
	number(f, s->q95);
	strip(f, c, s);
	if (isnan(s->lo))
		number(f, s->mean);
	else
		fprintf(f, "<td>%+.1f <small>[%+.1f, %+.1f]</small></td>", 100 * s->mean, 100 * s->lo, 100 * s->hi);
	number(f, s->of_sums);
	number(f, s->median_jct);
	share(f, s->direction);
	share(f, s->within);
	fprintf(f, "<td>%d</td><td class=\"t w\">", s->n);
	for (int k = 0; arm == CLAIMS_SWEPT && k < 3; k++)
		if (r->driver[k] >= 0)
			fprintf(f, "%s%s&nbsp;(%+.2f)", k ? ", " : "", claims_input_name[r->driver[k]],
				r->rho[r->driver[k]]);
	fputs("</td></tr>\n", f);
}

static void figures_section(FILE *f, const struct summary *s)
{
	for (int g = 0; g < s->n_groups; g++) {
		const struct group *gr = &s->groups[g];
		const struct claims_figure *c = &claims_figures[gr->first];

		fprintf(f, "<h3>%s <span class=\"v%d\">&nbsp;%s&nbsp;</span></h3>\n<table class=\"num\"><tr>"
			"<th class=\"t\">against</th><th class=\"t\">arm</th><th>5&nbsp;%%</th><th>50&nbsp;%%</th>"
			"<th>95&nbsp;%%</th><th>&minus;100&nbsp;%% &hellip; +150&nbsp;%%</th><th>mean [95&nbsp;%%]</th>"
			"<th>of sums</th><th>median JCT</th><th>direction</th><th>in range</th><th>n</th>"
			"<th class=\"t\">goes with (Spearman)</th></tr>\n", c->text, gr->verdict,
			verdict_text[gr->verdict]);
		for (int i = gr->first; i < gr->first + gr->n; i++)
			for (int arm = 0; arm < CLAIMS_ARMS; arm++)
				arm_row(f, &claims_figures[i], &s->figures[i], arm);
		fputs("</table>\n", f);
		if (!isnan(gr->best_within))
			fprintf(f, "<p><small>In range most often, swept, with %s = %s and %s = %s: "
				"%.0f&nbsp;%%.</small></p>\n", claims_choice_name[gr->best_choice[0]],
				claims_level_name[gr->best_choice[0]][gr->best_level[0]],
				claims_choice_name[gr->best_choice[1]],
				claims_level_name[gr->best_choice[1]][gr->best_level[1]], 100 * gr->best_within);
	}
}

static void levels_section(FILE *f, const struct summary *s, bool within)
{
	fprintf(f, "<h3>%s, by open choice</h3>\n<table class=\"num\"><tr><th></th>",
		within ? "Share within the published range, %" : "Share with the published direction, %");
	for (int c = 0; c < CLAIMS_CHOICES; c++)
		fprintf(f, "<th colspan=\"%d\" class=\"t\">%s</th>", claims_levels((enum claims_choice)c),
			claims_choice_name[c]);
	fputs("</tr><tr><th></th>", f);
	for (int c = 0; c < CLAIMS_CHOICES; c++)
		for (int l = 0; l < claims_levels((enum claims_choice)c); l++)
			fprintf(f, "<th>%s</th>", claims_level_name[c][l]);
	fputs("</tr>\n", f);
	for (int g = 0; g < s->n_groups; g++) {
		const struct group *gr = &s->groups[g];

		fprintf(f, "<tr><td class=\"t\">%s</td>", claims_figures[gr->first].text);
		for (int c = 0; c < CLAIMS_CHOICES; c++)
			for (int l = 0; l < claims_levels((enum claims_choice)c); l++)
				share(f, within ? gr->level_within[c][l] : gr->level_direction[c][l]);
		fputs("</tr>\n", f);
	}
	fputs("</table>\n", f);
}

static void correlation_section(FILE *f, const struct summary *s)
{
	fputs("<h3>Rank correlations (Spearman), swept arm</h3>\n<table class=\"num\"><tr><th></th><th></th>", f);
	for (int i = 0; i < CLAIMS_INPUTS; i++)
		fprintf(f, "<th style=\"white-space:normal;max-width:6em\">%s</th>", claims_input_name[i]);
	fputs("</tr>\n", f);
	for (int k = 0; k < n_claims_figures; k++) {
		fprintf(f, "<tr><td class=\"t\">%s</td><td class=\"t\">%s</td>", claims_figures[k].text,
			claims_figures[k].detail);
		for (int i = 0; i < CLAIMS_INPUTS; i++) {
			double rho = s->figures[k].rho[i];

			if (isnan(rho))
				fputs("<td>&ndash;</td>", f);
			else
				fprintf(f, "<td style=\"background:rgba(%s,%.2f)\">%+.2f</td>",
					rho > 0 ? "60,130,220" : "220,90,60", 0.8 * fabs(rho), rho);
		}
		fputs("</tr>\n", f);
	}
	fputs("</table>\n", f);
}

static void intro(FILE *f, const struct summary *s)
{
	fprintf(f, "<h1>Published figures beside %d drawn scenarios</h1>\n<p>Figures as public summaries of BACE-Pipe "
		"(arXiv&nbsp;2605.25375) state them. First seed %llu. Draws in which a job fitted on no number of "
		"GPUs were drawn again: %.1f&nbsp;%% of scenarios, %.1f&nbsp;%% of choices.</p>\n", s->claims->n,
		(unsigned long long)s->claims->seed, 100 * s->redraw_share, 100 * s->choice_redraw_share);
	fputs("<p><b>Drawn in every scenario:</b> 16, 32, 64 or 128 GPUs and 25 to 100 Gbit/s a region, a link as fast "
	      "as the mean of its ends, 0.156 to 0.295 USD/kWh, eight jobs (each model once, the rest at random, "
	      "in random order), a data set of 50 MB, 0.5 GB or 38 GB each. Latencies and PUE are those of the "
	      "six regions.</p>\n"
	      "<p><b>Arms.</b> <i>k_min</i>, <i>k_star</i>: the default choices (closed form, stages up to the "
	      "layers, 60&middot;10<sup>12</sup> FLOP/s, m = 64, all arrivals at 0, &alpha; from the view), with "
	      "either start rule. <i>swept</i>: one draw of all open choices a scenario; with event simulation, "
	      "the schedule is what it says, and Poisson arrivals offer a load of 1.</p>\n"
	      "<p>gain = 1 &minus; bace/baseline, advantage = baseline/bace &minus; 1, ablation = variant/bace &minus; "
	      "1, of the JCT summed over a scenario's jobs, or of the electricity cost. All in percent. n: "
	      "scenarios in which both policies placed every job. For a single published number, the range is "
	      "half to one and a half times it. <i>of sums</i>: the same of sums over all scenarios. Green band: "
	      "published; bar: 5 to 95&nbsp;%; red: median.</p>\n"
	      "<p><span class=\"v0\">holds</span>: with one of the start rules every row's median is in the "
	      "published range and at least 3/4 of the scenarios have its direction; <span class=\"v1\">holds in part</span>: some row's; <span class=\"v2\">direction "
	      "only</span>: every median has the published sign; <span class=\"v3\">not seen</span>: none of "
	      "these.</p>\n", f);
}

int claims_write_html(const struct summary *s, const char *path, struct bace_err *err)
{
	struct bace_outfile out;
	int rc = bace_outfile_open(path, &out, err);

	if (rc)
		return rc;
	fputs(head, out.f);
	intro(out.f, s);
	figures_section(out.f, s);
	levels_section(out.f, s, true);
	levels_section(out.f, s, false);
	correlation_section(out.f, s);
	fputs("</body></html>\n", out.f);
	return bace_outfile_close(&out, 0, err);
}
