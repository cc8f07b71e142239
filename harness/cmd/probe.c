#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "harness/cmd/cmd.h"
#include "harness/shape/shape.h"

#define SECONDS_MAX 60.0
#define SAMPLES_MAX 10000
#define CONNECTIONS_MAX 64

static int number(const char *option, const char *text, double low, double high, double *out)
{
	char *end;

	*out = strtod(text, &end);
	if (end != text && !*end && *out >= low && *out <= high)
		return 0;
	return cmd_misuse(&cmd_probe, "--%s %s: must be %g to %g", option, text, low, high);
}

static int parse(struct shape_probe *p, bool *respond, int argc, char **argv)
{
	static const struct option options[] = {
		{ "respond", 0, NULL, 'r' }, { "port", 1, NULL, 'p' }, { "samples", 1, NULL, 's' },
		{ "seconds", 1, NULL, 't' }, { "connections", 1, NULL, 'n' }, { 0 } };
	int c, rc = 0;
	double v;

	optind = 1;
	while (!rc && (c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'r': *respond = true; break;
		case 'p':
			rc = number("port", optarg, 1, 65535, &v);
			p->port = (int)v;
			break;
		case 's':
			rc = number("samples", optarg, 1, SAMPLES_MAX, &v);
			p->rtt_samples = (int)v;
			break;
		case 't': rc = number("seconds", optarg, 0, SECONDS_MAX, &p->seconds); break;
		case 'n':
			rc = number("connections", optarg, 1, CONNECTIONS_MAX, &v);
			p->connections = (int)v;
			break;
		default: rc = cmd_misuse(&cmd_probe, "bad options");
		}
	}
	if (!rc && optind < argc - 1)
		rc = cmd_misuse(&cmd_probe, "one address at most");
	p->addr = optind < argc ? argv[optind] : NULL;
	if (!rc && !p->addr && !*respond)
		rc = cmd_misuse(&cmd_probe, "the address of a host is needed, on which `bace probe --respond' runs");
	return rc;
}

static void print_text(const struct shape_probe *p, const struct shape_measured *m)
{
	static const char *const way[] = { "goodput to", "goodput from" };

	printf("%-14s %-20s median %9.3f ms  [%.3f, %.3f]  min %.3f  p99 %.3f  n = %d of %d\n", "RTT to", p->addr,
	       m->rtt_median_s.value * 1e3, m->rtt_median_s.low * 1e3, m->rtt_median_s.high * 1e3, m->rtt_min_s * 1e3,
	       m->rtt_p99_s * 1e3, m->rtt_received, m->rtt_sent);
	for (int d = 0; p->seconds > 0 && d < 2; d++)
		printf("%-14s %-20s mean   %9.2f Mbit/s  [%.2f, %.2f]  %d connection%s\n", way[d], p->addr,
		       m->goodput_bps[d].value / 1e6, m->goodput_bps[d].low / 1e6, m->goodput_bps[d].high / 1e6,
		       p->connections, p->connections > 1 ? "s" : "");
}

static json_t *interval(const struct shape_interval *i)
{
	return json_pack("{s:f,s:f,s:f}", "value", i->value, "low", i->low, "high", i->high);
}

static int print_json(const struct shape_probe *p, const struct shape_measured *m)
{
	json_t *j = json_pack("{s:s,s:i,s:i,s:f,s:f,s:o}", "addr", p->addr, "rtt_sent", m->rtt_sent, "rtt_received",
			      m->rtt_received, "rtt_min_s", m->rtt_min_s, "rtt_p99_s", m->rtt_p99_s, "rtt_median_s",
			      interval(&m->rtt_median_s));
	int rc;

	if (j && p->seconds > 0) {
		json_object_set_new(j, "goodput_to_bps", interval(&m->goodput_bps[0]));
		json_object_set_new(j, "goodput_from_bps", interval(&m->goodput_bps[1]));
	}
	rc = j && !json_dumpf(j, stdout, JSON_INDENT(2)) ? 0 : -ENOMEM;
	putchar('\n');
	json_decref(j);
	return rc ? cmd_error(&cmd_probe, BACE_EXIT_FAILED, "out of memory") : BACE_EXIT_OK;
}

static int run(const struct cmd_globals *g, int argc, char **argv)
{
	struct shape_probe p = { .port = SHAPE_PORT, .rtt_samples = 50, .connections = 1, .seconds = 3 };
	struct shape_measured m = { 0 };
	struct bace_err e = { 0 };
	bool respond = false;
	int rc = parse(&p, &respond, argc, argv);

	if (rc)
		return rc;
	rc = respond ? shape_respond(p.addr, p.port, g->quiet, &e) : shape_probe_run(&p, &m, &e);
	if (rc)
		return cmd_error(&cmd_probe, rc == -EINVAL ? BACE_EXIT_INPUT : BACE_EXIT_FAILED, "%s", e.msg);
	if (respond)
		return BACE_EXIT_OK;
	if (!g->json)
		print_text(&p, &m);
	return g->json ? print_json(&p, &m) : BACE_EXIT_OK;
}

const struct command cmd_probe = {
	.name = "probe",
	.summary = "round-trip time and goodput between two hosts, as they are",
	.usage = "bace probe ADDRESS [--seconds S] [--samples N] [--connections N] [--port P]\n"
		 "bace probe --respond [ADDRESS] [--port P]\n\n"
		 "What the path to a host gives, shaped or not: round trips of small datagrams, and TCP\n"
		 "goodput there and back, counted by the receiver, each with its 95 % interval. On that\n"
		 "host runs `bace probe --respond' (or `bace shape respond', which is the same), without\n"
		 "privilege, until Ctrl-C. `bace shape verify' compares with a plan; `bace p2p' measures\n"
		 "by message size.\n\n"
		 "  --seconds       of goodput each way (default 3; 0: none)\n"
		 "  --samples       round trips (default 50)\n"
		 "  --connections   that share the goodput (default 1)\n"
		 "  --port          default 7411",
	.run = run,
};
