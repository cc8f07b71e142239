#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "harness/cmd/shape.h"

static const struct command *const subcommands[] = {
	&cmd_shape_plan, &cmd_shape_apply, &cmd_shape_show, &cmd_shape_diff, &cmd_shape_verify, &cmd_shape_respond,
	&cmd_shape_trace, &cmd_shape_clear, NULL,
};

/* ---- shared by the subcommands ---- */
int shape_exit(const struct bace_err *e)
{
	return cmd_exit_of(e->errnum, true);
}

int shape_take_at(const struct command *c, const char *text, int64_t *at_ns)
{
	struct tm tm = { 0 };
	struct bace_err e;
	char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	double s;

	if (*text == '+') {
		if (bace_parse_time_ns(text + 1, at_ns, &e))
			return cmd_error(c, BACE_EXIT_INPUT, "--at: %s", e.msg);
		*at_ns += bace_wall_ns();
		return -1;
	}
	if (end && !strcmp(end, "Z")) {
		*at_ns = (int64_t)timegm(&tm) * 1000000000;
		return -1;
	}
	s = strtod(text, &end);
	if (end == text || *end || !(s > 0 && s < 9e9))
		return cmd_error(c, BACE_EXIT_INPUT,
				 "--at %s: must be a time such as 2026-11-30T10:00:00Z, Unix seconds, or +5s", text);
	*at_ns = llround(s * 1e9);
	return -1;
}

void shape_print_json(json_t *j)
{
	json_dumpf(j, stdout, JSON_INDENT(1));
	putchar('\n');
	json_decref(j);
}

static int no_backend(const struct command *c, const struct shape_input *in)
{
	CLEANUP_FREE char *os = NULL;
	char hint[400];

	bace_read_file("/etc/os-release", 65536, &os, NULL, NULL);
	shape_module_hint("sch_netem", os, hint, sizeof(hint));
	return cmd_error(c, BACE_EXIT_ENV, "no way to delay packets: %s; %s", in->why, hint);
}

int shape_input_read(const struct command *c, const char *file, const char *host, bool offline, struct shape_input *in)
{
	struct bace_diags d = { 0 };
	struct bace_err e = { 0 };
	int rc = shape_file_load(file, &in->file, &d, &e);

	if (rc) {
		if (d.n)
			bace_diags_print(&d, stderr);
		bace_diags_free(&d);
		return d.n || rc == -EINVAL ? BACE_EXIT_INPUT : cmd_error(c, BACE_EXIT_FAILED, "%s", e.msg);
	}
	bace_diags_free(&d);
	rc = shape_find_host(&in->file, host, &in->host, &e);
	if (!rc) {
		enum delay_kind delay = shape_choose_delay(&in->file, in->host, &in->why);

		rc = shape_spec_of(&in->file, in->host, delay == DELAY_NONE ? DELAY_NETEM : delay, &in->spec, &e);
		if (!rc && delay == DELAY_NONE && !offline)
			rc = no_backend(c, in);
	}
	if (!rc)
		rc = shape_check(&in->spec, &e);
	if (!rc && !offline)
		rc = shape_check_interfaces(&in->spec, &e);
	if (rc > 0)
		return rc;
	return rc ? cmd_error(c, shape_exit(&e), "%s", e.msg) : BACE_EXIT_OK;
}

void shape_input_free(struct shape_input *in)
{
	shape_spec_free(&in->spec);
	shape_file_free(&in->file);
}

static int run(const struct cmd_globals *g, int argc, char **argv)
{
	return cmd_sub(&cmd_shape, g, argc, argv);
}

const struct command cmd_shape = {
	.name = "shape",
	.summary = "make this host's links look like links between regions, and put them back",
	.usage = "bace shape SUBCOMMAND ...",
	.run = run,
	.subcommands = subcommands,
};
