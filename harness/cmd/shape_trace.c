#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "harness/cmd/shape.h"

struct options {
	const char *host, *src, *dst;
	bool loop, stop, json, dry_run;
	int64_t start_real_ns;		/* 0: now */
	int64_t bin_ns;
};

static const struct option longs[] = {
	{ "host", required_argument, NULL, 'H' }, { "link", required_argument, NULL, 'l' },
	{ "loop", no_argument, NULL, 'L' },	  { "at", required_argument, NULL, 'a' },
	{ "bin", required_argument, NULL, 'b' },  { "stop", no_argument, NULL, 'S' },
	{ "dry-run", no_argument, NULL, 'n' },	  { "json", no_argument, NULL, 'j' },
	{ "help", no_argument, NULL, 'h' },	  { NULL, 0, NULL, 0 },
};

static int misuse(const char *text)
{
	return cmd_misuse(&cmd_shape_trace, "%s", text);
}

static int take_bin(const char *text, int64_t *bin_ns)
{
	struct bace_err e;

	if (bace_parse_time_ns(text, bin_ns, &e))
		return cmd_error(&cmd_shape_trace, BACE_EXIT_INPUT, "--bin: %s", e.msg);
	return *bin_ns < 1000000 ? cmd_error(&cmd_shape_trace, BACE_EXIT_INPUT, "--bin %s: must be 1 ms or longer", text) : -1;
}

static int take_option(int c, int argc, char **argv, struct options *o)
{
	switch (c) {
	case 'H':
		o->host = optarg;
		return -1;
	case 'l':
		if (optind >= argc || *argv[optind] == '-')
			return misuse("--link needs two regions: from and to");
		o->src = optarg;
		o->dst = argv[optind++];
		return -1;
	case 'L':
		o->loop = true;
		return -1;
	case 'a':
		return shape_take_at(&cmd_shape_trace, optarg, &o->start_real_ns);
	case 'b':
		return take_bin(optarg, &o->bin_ns);
	case 'S':
		o->stop = true;
		return -1;
	case 'n':
		o->dry_run = true;
		return -1;
	case 'j':
		o->json = true;
		return -1;
	case 'h':
		return printf("usage: %s\n", cmd_shape_trace.usage) < 0 ? BACE_EXIT_FAILED : BACE_EXIT_OK;
	default:
		return misuse("unknown option");
	}
}

static int find_region(const struct shape_file *f, const char *name)
{
	for (int i = 0; i < f->n_regions; i++)
		if (!strcmp(f->regions[i].name, name))
			return i;
	return -1;
}

/* Of a directed link, the sender's side has the rate, the receiver's the rest. */
static int my_part(const struct options *o, const struct shape_input *in, unsigned *sets, const char **other)
{
	int src = find_region(&in->file, o->src), dst = find_region(&in->file, o->dst);
	int mine = in->file.hosts[in->host].region;

	if (src < 0 || dst < 0)
		return cmd_error(&cmd_shape_trace, BACE_EXIT_INPUT, "--link %s %s: no region `%s' in %s", o->src, o->dst,
				 src < 0 ? o->src : o->dst, in->file.path);
	if (src == dst || (mine != src && mine != dst))
		return cmd_error(&cmd_shape_trace, BACE_EXIT_INPUT, "--link %s %s: this host is in %s, at neither end of it",
				 o->src, o->dst, in->file.regions[mine].name);
	*sets = mine == src ? SHAPE_SET_RATE : SHAPE_SET_LATENCY | SHAPE_SET_LOSS;
	*other = mine == src ? o->dst : o->src;
	return BACE_EXIT_OK;
}

static void keep_part(struct shape_trace *t, unsigned sets)
{
	size_t kept = 0;

	for (size_t i = 0; i < t->n; i++) {
		t->v[i].to.set &= (uint16_t)sets;
		if (t->v[i].to.set)
			t->v[kept++] = t->v[i];
	}
	t->n = kept;
}

static int say(const struct options *o, const struct shape_trace *t, unsigned sets, const char *state)
{
	const char *what = sets == SHAPE_SET_RATE ? "rate" : "latency and loss";

	if (o->json)
		shape_print_json(json_pack("{s:s,s:s,s:s,s:s,s:I,s:f,s:b,s:f,s:I}", "state", state, "src", o->src, "dst", o->dst,
			"part", what, "changes", (json_int_t)t->n, "round_s", (double)t->period_ns / 1e9, "loop", o->loop,
			"at_unix_s", (double)o->start_real_ns / 1e9, "outages", (json_int_t)t->outages));
	else
		printf("%s: %s of %s -> %s, %zu changes%s\n", state, what, o->src, o->dst, t->n, o->loop ? " a round" : "");
	if (!o->json && t->outages)
		printf("%zu outage%s: a rate cannot be 0, so one packet passes in each, which takes all of it\n", t->outages,
		       t->outages == 1 ? "" : "s");
	return BACE_EXIT_OK;
}

static int play(const struct options *o, const struct shape_input *in, struct shape_trace *t)
{
	struct bace_err e = { 0 };
	const char *other = NULL;
	unsigned sets = 0;
	int rc = my_part(o, in, &sets, &other);

	if (rc)
		return rc;
	keep_part(t, sets);
	if (!t->n && !o->stop)
		return say(o, t, sets, "nothing to do here");
	if (o->loop && !t->period_ns)
		return cmd_error(&cmd_shape_trace, BACE_EXIT_INPUT, "--loop: a trace of one line has no length");
	if (o->dry_run)
		return say(o, t, sets, "would play");
	if (shape_play(other, t, o->loop, o->start_real_ns, &e))
		return cmd_error(&cmd_shape_trace, shape_exit(&e), "%s", e.msg);
	return say(o, t, sets, o->stop ? "stopped" : "playing");
}

static int run_trace(const struct cmd_globals *g, int argc, char **argv)
{
	struct options o = { .json = g->json };
	struct shape_input in = { 0 };
	struct shape_trace t = { 0 };
	struct bace_err e = { 0 };
	int c, rc = -1;

	optind = 1;
	while (rc < 0 && (c = getopt_long(argc, argv, "h", longs, NULL)) != -1)
		rc = take_option(c, argc, argv, &o);
	if (rc >= 0)
		return rc;
	if (!o.src)
		return misuse("which link? (--link SRC DST)");
	if (argc - optind != (o.stop ? 1 : 2))
		return misuse(o.stop ? "with --stop: one shape file" : "a shape file and a trace, please");
	/* The trace first: what is wrong with it needs no look at this machine. */
	if (!o.stop && shape_trace_read(argv[optind + 1], o.bin_ns, &t, &e))
		return cmd_error(&cmd_shape_trace, BACE_EXIT_INPUT, "%s", e.msg);
	rc = shape_input_read(&cmd_shape_trace, argv[optind], o.host, o.dry_run, &in);
	if (!rc)
		rc = play(&o, &in, &t);
	shape_input_free(&in);
	shape_trace_free(&t);
	return rc;
}

const struct command cmd_shape_trace = {
	.name = "shape trace",
	.summary = "change a link over time, from a file",
	.usage = "bace shape trace [--host NAME] [--loop] [--at TIME] [--bin TIME] [--dry-run] [--json]\n"
		 "                        FILE --link SRC DST TRACE\n"
		 "       bace shape trace [--host NAME] --stop FILE --link SRC DST\n"
		 "\n"
		 "Plays TRACE on the link from region SRC to region DST, inside bace-shaperd: changes in\n"
		 "place, each at its time, no packet lost by them. Run it at both ends: SRC's host has the\n"
		 "rate, DST's host the latency and loss. `bace shape apply' must hold the plan there; a new\n"
		 "plan, or its end, ends the trace.\n"
		 "\n"
		 "TRACE is CSV with a line of names: t_s (seconds, rising) and any of rate, latency (with\n"
		 "units: 20mbit, 38.2ms), rate_bps, rate_mbit, latency_s, latency_ms (plain numbers), loss\n"
		 "(0..1 or 1.5%); an empty field leaves the value as it was. Or a Mahimahi trace: a time in\n"
		 "ms a line at which a packet of 1500 bytes leaves.\n"
		 "\n"
		 "  --at TIME   when it starts, the same on all hosts (2026-11-30T10:00:00Z, Unix seconds, or\n"
		 "              +5s from now); in the middle if that is past. Default: at once\n"
		 "  --loop      again and again; a round of CSV lasts as long after its last line as between\n"
		 "              its last two, one of Mahimahi until its last time\n"
		 "  --bin TIME  of a Mahimahi trace's mean rates (100ms)\n"
		 "  --stop      end it; the link keeps its last values\n"
		 "  --dry-run   read and check only",
	.run = run_trace,
};
