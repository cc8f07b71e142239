#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cmd/shape.h"

struct options {
	const char *host;
	bool json, tc, offline;
};

static const struct option longs[] = {
	{ "host", required_argument, NULL, 'H' }, { "json", no_argument, NULL, 'j' },
	{ "tc", no_argument, NULL, 't' },	  { "offline", no_argument, NULL, 'o' },
	{ "help", no_argument, NULL, 'h' },	  { NULL, 0, NULL, 0 },
};

/* -1: go on, else an exit status. */
static int read_options(const struct command *cmd, int argc, char **argv, struct options *o)
{
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		if (c == 'H')
			o->host = optarg;
		else if (c == 'j')
			o->json = true;
		else if (c == 't')
			o->tc = true;
		else if (c == 'o')
			o->offline = true;
		else if (c == 'h')
			return printf("usage: %s\n", cmd->usage) < 0 ? BACE_EXIT_FAILED : BACE_EXIT_OK;
		else
			return cmd_misuse(cmd, "unknown option");
	}
	return -1;
}

static int no_memory(const struct command *c)
{
	return cmd_error(c, BACE_EXIT_FAILED, "out of memory");
}

/* ---- plan ---- */
static int print_notes(const struct shape_input *in, bool offline)
{
	struct shape_notes n = { 0 };

	if (!offline)
		shape_preflight(&in->spec, &n);
	for (size_t i = 0; i < n.n; i++)
		printf("%snote: %s\n", i ? "" : "\n", n.v[i]);
	shape_notes_free(&n);
	return BACE_EXIT_OK;
}

static json_t *with_notes(json_t *plan, const struct shape_input *in, bool offline)
{
	json_t *a = json_array();
	struct shape_notes n = { 0 };

	if (!offline)
		shape_preflight(&in->spec, &n);
	for (size_t i = 0; i < n.n; i++)
		json_array_append_new(a, json_string(n.v[i]));
	shape_notes_free(&n);
	json_object_set_new(plan, "notes", a);
	return plan;
}

static int print_plan(const struct shape_input *in, const struct options *o)
{
	struct bace_buf b = { 0 };
	struct bace_err e;
	int rc;

	if (o->json) {
		shape_print_json(with_notes(shape_plan_json(&in->file, in->host, &in->spec, in->why), in, o->offline));
		return BACE_EXIT_OK;
	}
	rc = o->tc ? shape_render_tc(&in->spec, &b, &e) : shape_plan_text(&in->file, in->host, &in->spec, in->why, &b);
	if (!rc)
		fputs(b.p ? b.p : "", stdout);
	bace_buf_free(&b);
	if (rc)
		return no_memory(&cmd_shape_plan);
	return o->tc ? BACE_EXIT_OK : print_notes(in, o->offline);
}

static int run_plan(const struct cmd_globals *g, int argc, char **argv)
{
	struct options o = { .json = g->json };
	struct shape_input in = { 0 };
	int rc = read_options(&cmd_shape_plan, argc, argv, &o);

	if (rc >= 0)
		return rc;
	if (optind + 1 != argc)
		return cmd_misuse(&cmd_shape_plan, optind < argc ? "more than one file" : "which file?");
	rc = shape_input_read(&cmd_shape_plan, argv[optind], o.host, o.offline, &in);
	if (!rc)
		rc = print_plan(&in, &o);
	shape_input_free(&in);
	return rc;
}

const struct command cmd_shape_plan = {
	.name = "shape plan",
	.summary = "print what would be done, also as tc commands",
	.usage = "bace shape plan [--host NAME] [--json | --tc] [--offline] FILE\n"
		 "\n"
		 "FILE is a file of profiles/shapes/ or a path. --tc: a script of tc commands that\n"
		 "sets up the same. --offline: for another machine; do not look at this one.",
	.run = run_plan,
};

/* ---- diff ---- */
static int print_diff(const struct shape_input *in, bool json)
{
	struct bace_buf b = { 0 };
	struct bace_err e;
	size_t n;
	int rc = shape_diff(&in->spec, &b, &n, &e);

	if (rc) {
		bace_buf_free(&b);
		return cmd_error(&cmd_shape_diff, shape_exit(&e), "%s", e.msg);
	}
	if (json) {
		json_t *a = json_array();

		for (char *save = NULL, *l = strtok_r(b.p ? b.p : (char[]){ "" }, "\n", &save); l; l = strtok_r(NULL, "\n", &save))
			json_array_append_new(a, json_string(l));
		shape_print_json(json_pack("{s:I,s:o}", "differences", (json_int_t)n, "steps", a));
	} else {
		fputs(n ? b.p : "the kernel is as the plan says\n", stdout);
	}
	bace_buf_free(&b);
	return n ? BACE_EXIT_VERDICT : BACE_EXIT_OK;
}

static int run_diff(const struct cmd_globals *g, int argc, char **argv)
{
	struct options o = { .json = g->json };
	struct shape_input in = { 0 };
	int rc = read_options(&cmd_shape_diff, argc, argv, &o);

	if (rc >= 0)
		return rc;
	if (optind + 1 != argc || o.tc || o.offline)
		return cmd_misuse(&cmd_shape_diff, "one file, and --host and --json");
	rc = shape_input_read(&cmd_shape_diff, argv[optind], o.host, false, &in);
	if (!rc)
		rc = print_diff(&in, o.json);
	shape_input_free(&in);
	return rc;
}

const struct command cmd_shape_diff = {
	.name = "shape diff",
	.summary = "how the running kernel differs from the plan (exit 4 if it does)",
	.usage = "bace shape diff [--host NAME] [--json] FILE\n"
		 "\n"
		 "One line for each kernel object that would have to change: link, and the tc step.",
	.run = run_diff,
};

/* ---- show ---- */
static int print_show(const struct shape_file *f, bool json)
{
	struct shape_seen seen;
	struct bace_buf b = { 0 };
	struct bace_err e;
	json_t *held = NULL;
	int rc = shape_inspect(&seen, &e);

	if (rc)
		return cmd_error(&cmd_shape_show, BACE_EXIT_FAILED, "%s", e.msg);
	shape_held(&held, &e);
	if (json)
		shape_print_json(shape_show_json(&seen, f, held));
	else if ((rc = shape_show_text(&seen, f, held, &b)))
		rc = no_memory(&cmd_shape_show);
	else
		fputs(b.p, stdout);
	bace_buf_free(&b);
	json_decref(held);
	shape_seen_free(&seen);
	return rc;
}

static int run_show(const struct cmd_globals *g, int argc, char **argv)
{
	struct options o = { .json = g->json };
	struct shape_input in = { 0 };
	int rc = read_options(&cmd_shape_show, argc, argv, &o);

	if (rc >= 0)
		return rc;
	if (optind + 1 < argc || o.tc || o.offline)
		return cmd_misuse(&cmd_shape_show, "at most one file, and --host and --json");
	rc = optind < argc ? shape_input_read(&cmd_shape_show, argv[optind], o.host, true, &in) : 0;
	if (!rc)
		rc = print_show(optind < argc ? &in.file : NULL, o.json);
	shape_input_free(&in);
	return rc;
}

const struct command cmd_shape_show = {
	.name = "shape show",
	.summary = "the links that are shaped here, with counters",
	.usage = "bace shape show [--json] [FILE]\n"
		 "\n"
		 "What the kernel has under the handle bace:, whoever set it up. FILE gives the\n"
		 "regions their names where no `bace shape apply' runs.",
	.run = run_show,
};
