#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "harness/cmd/shape.h"

struct options {
	const char *host;
	struct shape_hold hold;
	bool json, measure;
	int port;
	int64_t at_ns;			/* CLOCK_REALTIME; 0: at once */
};

static const struct option longs[] = {
	{ "host", required_argument, NULL, 'H' },   { "for", required_argument, NULL, 'f' },
	{ "detach", no_argument, NULL, 'd' },	    { "socket", required_argument, NULL, 's' },
	{ "replace", no_argument, NULL, 'r' },	    { "allow-control-interface", no_argument, NULL, 'a' },
	{ "json", no_argument, NULL, 'j' },	    { "help", no_argument, NULL, 'h' },
	{ "measure-path", no_argument, NULL, 'm' }, { "at", required_argument, NULL, 'A' },
	{ "port", required_argument, NULL, 'p' },   { NULL, 0, NULL, 0 },
};

static int take_for(const char *text, struct options *o)
{
	struct bace_err e;
	int64_t ns;

	if (bace_parse_time_ns(text, &ns, &e))
		return cmd_error(&cmd_shape_apply, BACE_EXIT_INPUT, "--for: %s", e.msg);
	if (ns <= 0)
		return cmd_error(&cmd_shape_apply, BACE_EXIT_INPUT, "--for %s: must be above 0", text);
	o->hold.for_s = (double)ns / 1e9;
	return -1;
}

static int take_option(int c, struct options *o)
{
	char *end;

	switch (c) {
	case 'm':
		o->measure = true;
		return -1;
	case 'A':
		return shape_take_at(&cmd_shape_apply, optarg, &o->at_ns);
	case 'p':
		o->port = (int)strtol(optarg, &end, 10);
		return *end || o->port < 1 || o->port > 65535 ? cmd_misuse(&cmd_shape_apply, "--port %s: must be 1 to 65535", optarg) : -1;
	case 'H':
		o->host = optarg;
		return -1;
	case 'f':
		return take_for(optarg, o);
	case 'd':
		o->hold.detach = true;
		return -1;
	case 's':
		o->hold.socket = optarg;
		return -1;
	case 'r':
		o->hold.replace_foreign = true;
		return -1;
	case 'a':
		o->hold.allow_control_interface = true;
		return -1;
	case 'j':
		o->json = true;
		return -1;
	case 'h':
		return printf("usage: %s\n", cmd_shape_apply.usage) < 0 ? BACE_EXIT_FAILED : BACE_EXIT_OK;
	default:
		return cmd_misuse(&cmd_shape_apply, "unknown option");
	}
}

/* Who typed this by ssh must not cut off their own line. */
static int check_control(const struct shape_spec *s, struct bace_err *e)
{
	const char *ssh = getenv("SSH_CONNECTION");
	char addr[64];

	if (!ssh || sscanf(ssh, "%63s", addr) != 1 || shape_carries(s, addr, NULL) != 1)
		return 0;
	return bace_fail(e, EEXIST, "your ssh connection from %s comes by an interface that would be shaped: "
			 "--allow-control-interface (and --for) if that is meant", addr);
}

struct saying {
	const struct options *o;
	const struct shape_input *in;
};

static void say(void *arg, const char *how, int changes)
{
	const struct saying *s = arg;
	bool stays = !s->o->hold.detach && !strcmp(how, "applied");
	char t[BACE_FMT_MAX];

	if (s->o->json) {
		shape_print_json(json_pack("{s:s,s:i,s:i,s:f}", "state", how, "changes", changes, "links",
					   s->in->spec.n_links, "for_s", s->o->hold.for_s));
	} else {
		printf("%s: %d link%s on %s, %d change%s, read back%s", how, s->in->spec.n_links,
		       s->in->spec.n_links == 1 ? "" : "s", s->in->spec.egress, changes, changes == 1 ? "" : "s",
		       stays ? "; until Ctrl-C" : "; until `bace shape clear'");
		if (s->o->hold.for_s > 0)
			printf(" or %s have passed", bace_fmt_time(t, s->o->hold.for_s));
		putchar('\n');
	}
	fflush(stdout);
}

static void say_path(const char *region, double rtt_min_s)
{
	char rtt[BACE_FMT_MAX], half[BACE_FMT_MAX];

	fprintf(stderr, "path to %s: RTT %s, so %s each way are subtracted\n", region, bace_fmt_time(rtt, rtt_min_s),
		bace_fmt_time(half, rtt_min_s / 2));
}

/* With it the latencies to add are others. */
static int measure(const struct options *o, struct shape_input *in, struct bace_err *e)
{
	enum delay_kind delay = in->spec.delay;
	int rc = shape_measure_paths(&in->file, in->host, &in->spec, o->port, say_path, e);

	if (rc)
		return rc;
	shape_spec_free(&in->spec);
	rc = shape_spec_of(&in->file, in->host, delay, &in->spec, e);
	return rc ? rc : shape_check(&in->spec, e);
}

static void wait_until(int64_t real_ns)
{
	const struct timespec at = { .tv_sec = real_ns / 1000000000, .tv_nsec = real_ns % 1000000000 };

	while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &at, NULL) == EINTR)
		;
}

static int apply(const struct options *o, struct shape_input *in, bool quiet)
{
	struct saying s = { o, in };
	struct shape_notes notes = { 0 };
	struct bace_err e = { 0 };
	int rc = o->hold.allow_control_interface ? 0 : check_control(&in->spec, &e);

	if (!rc)
		rc = shape_check_modules(&in->spec, &e);
	if (!rc && o->measure)
		rc = measure(o, in, &e);
	if (!rc && !quiet && !o->json) {
		shape_preflight(&in->spec, &notes);
		for (size_t i = 0; i < notes.n; i++)
			fprintf(stderr, "note: %s\n", notes.v[i]);
		shape_notes_free(&notes);
	}
	if (!rc && o->at_ns)
		wait_until(o->at_ns);
	if (!rc)
		rc = shape_hold(&o->hold, &in->spec, say, &s, &e);
	return rc ? cmd_error(&cmd_shape_apply, shape_exit(&e), "%s", e.msg) : BACE_EXIT_OK;
}

static int run_apply(const struct cmd_globals *g, int argc, char **argv)
{
	struct options o = { .json = g->json, .hold.self = g->self, .port = SHAPE_PORT };
	struct shape_input in = { 0 };
	int c, rc = -1;

	optind = 1;
	while (rc < 0 && (c = getopt_long(argc, argv, "h", longs, NULL)) != -1)
		rc = take_option(c, &o);
	if (rc >= 0)
		return rc;
	if (optind + 1 != argc)
		return cmd_misuse(&cmd_shape_apply, optind < argc ? "more than one file" : "which file?");
	if (o.hold.detach && o.hold.allow_control_interface && !(o.hold.for_s > 0))
		return cmd_misuse(&cmd_shape_apply, "--detach with --allow-control-interface needs --for: what cuts you off must end by itself");
	rc = shape_input_read(&cmd_shape_apply, argv[optind], o.host, false, &in);
	if (!rc)
		rc = apply(&o, &in, g->quiet);
	shape_input_free(&in);
	return rc;
}

const struct command cmd_shape_apply = {
	.name = "shape apply",
	.summary = "shape this host's links, until Ctrl-C, a deadline or clear",
	.usage = "bace shape apply [--host NAME] [--for TIME] [--detach] [--replace]\n"
		 "                        [--allow-control-interface] [--socket PATH] [--json]\n"
		 "                        [--measure-path [--port N]] [--at TIME] FILE\n"
		 "\n"
		 "Applies the plan by bace-shaperd (one that runs here, else it starts one), reads it\n"
		 "back and holds it: when this process ends, however it ends, all is as it was before.\n"
		 "Where `bace shape apply' runs already it is changed in place.\n"
		 "\n"
		 "  --for TIME   revert after so long (\"10m\" is \"10min\")\n"
		 "  --detach     hold it in the background\n"
		 "  --replace    save, replace and later restore a qdisc that somebody made\n"
		 "  --allow-control-interface  also the interface of the default route or of your ssh\n"
		 "  --measure-path  first measure the RTT to each region's `probe' (where `bace shape respond'\n"
		 "               runs) and subtract half of it from both latencies; a latency below it is\n"
		 "               refused. Neither end may be shaped yet: start both with one --at\n"
		 "  --at TIME    when to shape: 2026-11-30T10:00:00Z, Unix seconds, or +5s from now",
	.run = run_apply,
};

/* ---- clear ---- */
static int run_clear(const struct cmd_globals *g, int argc, char **argv)
{
	struct bace_err e = { 0 };
	const char *how;

	if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")))
		return printf("usage: %s\n", cmd_shape_clear.usage) < 0 ? BACE_EXIT_FAILED : BACE_EXIT_OK;
	if (argc > 1)
		return cmd_misuse(&cmd_shape_clear, "it takes no arguments");
	if (shape_release(g->self, &how, &e))
		return cmd_error(&cmd_shape_clear, shape_exit(&e), "%s", e.msg);
	if (g->json)
		shape_print_json(json_pack("{s:s}", "cleared", how));
	else if (!g->quiet)
		puts(how);
	return BACE_EXIT_OK;
}

const struct command cmd_shape_clear = {
	.name = "shape clear",
	.summary = "put everything back, also after a crash",
	.usage = "bace shape clear\n"
		 "\n"
		 "Ends the `bace shape apply' of this network namespace, or undoes what one that was\n"
		 "killed left behind: by its journal what was there before, and whatever has the handle bace:.",
	.run = run_clear,
};
