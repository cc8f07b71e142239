#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "harness/cmd/shape.h"

#define RTT_TOLERANCE_S 0.5e-3	/* beside 1 %: the delay line's and the probe's own lateness */
#define RTT_TOLERANCE 0.01
#define UDP_MAX_BPS 20e6
#define UDP_SHARE 0.5		/* of the rate: nothing is lost for want of room */
#define UDP_PPS 2000		/* by smaller packets on slow links: losses are counted in packets */
#define UDP_BYTES_LEAST 100
#define UDP_BYTES_MOST 1000
#define UDP_SECONDS_MOST 10	/* or --seconds */
#define SECONDS_MOST 120
#define RTT_BUDGET_S 2.0

struct options {
	const char *host, *only;
	int port, connections;
	double seconds, tolerance;
	bool json;
};

static const struct option longs[] = {
	{ "host", required_argument, NULL, 'H' },	 { "to", required_argument, NULL, 't' },
	{ "port", required_argument, NULL, 'p' },	 { "connections", required_argument, NULL, 'n' },
	{ "seconds", required_argument, NULL, 's' }, { "tolerance", required_argument, NULL, 'T' },
	{ "json", no_argument, NULL, 'j' },	 { "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static bool number(const char *text, double low, double high, double *out)
{
	char *end;

	*out = strtod(text, &end);
	return end != text && !*end && *out >= low && *out <= high;
}

static int take_option(int c, struct options *o)
{
	double v;

	switch (c) {
	case 'H':
		o->host = optarg;
		return -1;
	case 't':
		o->only = optarg;
		return -1;
	case 'j':
		o->json = true;
		return -1;
	case 'p':
		if (!number(optarg, 1, 65535, &v))
			return cmd_misuse(&cmd_shape_verify, "--port %s: must be 1 to 65535", optarg);
		o->port = (int)v;
		return -1;
	case 'n':
		if (!number(optarg, 1, 64, &v))
			return cmd_misuse(&cmd_shape_verify, "--connections %s: must be 1 to 64", optarg);
		o->connections = (int)v;
		return -1;
	case 's':
		return number(optarg, 1, SECONDS_MOST, &o->seconds) ? -1
			: cmd_misuse(&cmd_shape_verify, "--seconds %s: must be 1 to %d", optarg, SECONDS_MOST);
	case 'T':
		return number(optarg, 0, 1, &o->tolerance) ? -1
			: cmd_misuse(&cmd_shape_verify, "--tolerance %s: must be a fraction, 0 to 1", optarg);
	case 'h':
		return printf("usage: %s\n", cmd_shape_verify.usage) < 0 ? BACE_EXIT_FAILED : BACE_EXIT_OK;
	default:
		return cmd_misuse(&cmd_shape_verify, "unknown option");
	}
}

/* ---- one check: what was planned, what was seen, within what ---- */
struct check {
	const char *what, *unit;
	double planned;
	struct shape_interval seen;
	double low, high;		/* allowed */
	const char *not_judged;		/* why; NULL: it is */
	enum shape_verdict verdict;
};

static void judge(struct check *c)
{
	c->verdict = c->not_judged ? SHAPE_WITHIN : shape_judge(&c->seen, c->low, c->high);
}

/* Of its rate, what the host that is measured from, or the one that answers, has. */
static double part_of_rate(const struct shape_path *p, const struct shape_file *f)
{
	return (double)p->link.rate_bps / shape_hosts_sharing(f, p->from);
}

/* TCP over IPv4 with timestamps, or over IPv6: 20 bytes of header more. */
static double expected_goodput(const struct shape_path *p, const struct shape_file *f, const char *addr)
{
	double v4 = goodput_bps(part_of_rate(p, f), f->mtu);

	return strchr(addr, ':') ? v4 * (f->mtu - 72.0) / (f->mtu - 52.0) : v4;
}

static bool loses(const struct shape_path *p)
{
	return p && (p->link.loss > 0 || p->impair.loss_model != LOSS_RANDOM || p->impair.corrupt > 0 || p->impair.reorder > 0);
}

static struct check check_rtt(const struct shape_path *out, const struct shape_path *in, const struct shape_measured *m)
{
	double planned = ((double)(out ? out->link.latency_ns : 0) + (double)(in ? in->link.latency_ns : 0)) / 1e9;
	double jitter = ((double)(out ? out->link.jitter_ns : 0) + (double)(in ? in->link.jitter_ns : 0)) / 1e9;
	double slack = RTT_TOLERANCE * planned + RTT_TOLERANCE_S + jitter / 2;
	struct check c = { .what = "RTT", .unit = "s", .planned = planned, .seen = m->rtt_median_s, .low = planned - slack,
			   .high = planned + slack, .not_judged = planned > 0 ? NULL : "no latency is planned" };

	judge(&c);
	return c;
}

static struct check check_goodput(const struct shape_path *p, const struct shape_path *other, const struct shape_file *f, const char *addr,
				  struct shape_interval seen, double tolerance)
{
	double planned = expected_goodput(p, f, addr);
	struct check c = { .what = "TCP goodput", .unit = "bit/s", .planned = planned, .seen = seen,
			   .low = planned * (1 - tolerance), .high = planned * (1 + tolerance),
			   .not_judged = !p->link.rate_bps ? "no rate is planned"
					 : loses(p) || loses(other) ? "the link loses, corrupts or reorders: TCP slows down" : NULL };

	judge(&c);
	return c;
}

static struct check check_loss(const struct shape_path *p, uint64_t sent, uint64_t received)
{
	double planned = shape_planned_loss(p);
	struct shape_interval allowed = shape_loss_allowed(planned);
	struct check c = { .what = "UDP loss", .unit = "", .planned = planned, .seen = shape_loss_interval(p, sent, received),
			   .low = allowed.low, .high = allowed.high,
			   .not_judged = p->impair.loss_corr > 0 ? "correlated loss has no simple mean"
					 : p->impair.duplicate > 0 ? "duplicates make up for losses"
					 : p->impair.corrupt > 0 ? "corrupt packets are dropped as well" : NULL };

	c.verdict = c.not_judged ? SHAPE_WITHIN : shape_judge_loss(&c.seen, planned, sent);
	return c;
}

/* ---- in words ---- */
static void format(const struct check *c, double v, char buf[BACE_FMT_MAX])
{
	if (!strcmp(c->unit, "s"))
		snprintf(buf, BACE_FMT_MAX, "%.2f ms", v * 1e3);
	else if (!strcmp(c->unit, "bit/s"))
		snprintf(buf, BACE_FMT_MAX, "%.4g Mbit/s", v / 1e6);
	else
		snprintf(buf, BACE_FMT_MAX, "%.3f %%", v * 100);
}

static void print_check(const char *from, const char *to, const struct check *c, const char *more)
{
	static const char *const words[] = { [SHAPE_WITHIN] = "ok", [SHAPE_OUT] = "OUT OF TOLERANCE",
					     [SHAPE_UNDECIDED] = "UNDECIDED" };
	char planned[BACE_FMT_MAX], seen[BACE_FMT_MAX], low[BACE_FMT_MAX], high[BACE_FMT_MAX], path[2 * NAME_LEN + 8];

	format(c, c->planned, planned);
	format(c, c->seen.value, seen);
	format(c, c->seen.low, low);
	format(c, c->seen.high, high);
	snprintf(path, sizeof(path), "%s -> %s", from, to);
	printf("%-28s %-12s %14s %14s  [%s, %s]  %s%s%s\n", path, c->what, planned, seen, low, high,
	       c->not_judged ? "not judged: " : words[c->verdict], c->not_judged ? c->not_judged : "", more);
}

static json_t *check_json(const char *from, const char *to, const struct check *c)
{
	return json_pack("{s:s,s:s,s:s,s:f,s:f,s:f,s:f,s:f,s:f,s:b,s:b,s:b,s:s?}", "from", from, "to", to, "what", c->what, "planned",
			 c->planned, "measured", c->seen.value, "ci_low", c->seen.low, "ci_high", c->seen.high, "allowed_low", c->low,
			 "allowed_high", c->high, "ok", c->verdict == SHAPE_WITHIN, "undecided",
			 c->verdict == SHAPE_UNDECIDED, "judged", !c->not_judged, "not_judged", c->not_judged);
}

struct verdict {
	const struct options *o;
	json_t *checks;
	int n, bad, undecided;
	double needed_s;		/* by an undecided loss that was given too little time; 0: by none */
};

static void tell(struct verdict *v, const char *from, const char *to, const struct check *c, const char *more)
{
	v->n++;
	v->bad += c->verdict == SHAPE_OUT;
	v->undecided += c->verdict == SHAPE_UNDECIDED;
	if (v->o->json)
		json_array_append_new(v->checks, check_json(from, to, c));
	else
		print_check(from, to, c, more);
}

/* ---- one region ---- */
static double udp_rate(const struct shape_path *p, const struct shape_file *f)
{
	if (!p)
		return 0;
	return p->link.rate_bps ? fmin(UDP_MAX_BPS, UDP_SHARE * part_of_rate(p, f)) : UDP_MAX_BPS;
}

/* As large as a link of this rate needs them to have UDP_PPS of them a second. */
static int udp_bytes(double bps)
{
	return (int)fmin(UDP_BYTES_MOST, fmax(UDP_BYTES_LEAST, bps / 8 / UDP_PPS));
}

/* Until as many were sent as the verdict needs. */
static double udp_seconds_needed(const struct shape_path *p, double bps)
{
	return fmax(1, shape_loss_packets(p) * udp_bytes(bps) * 8 / bps);
}

/* If that does not take too long. */
static double udp_seconds(const struct options *o, const struct shape_path *p, double bps)
{
	if (!(bps > 0))
		return 0;
	return fmin(udp_seconds_needed(p, bps), fmax(UDP_SECONDS_MOST, o->seconds));
}

static int rtt_samples(const struct shape_path *out, const struct shape_path *in)
{
	double rtt = (double)((out ? out->link.latency_ns : 0) + (in ? in->link.latency_ns : 0)) / 1e9;

	return (int)fmin(100, fmax(15, RTT_BUDGET_S / fmax(rtt, 1e-3)));
}

static int verify_region(struct verdict *v, const struct shape_input *in, int remote, struct bace_err *e)
{
	const struct shape_file *f = &in->file;
	int here = f->hosts[in->host].region;
	const struct shape_path *paths[2] = { shape_file_path(f, here, remote), shape_file_path(f, remote, here) };
	const char *names[2] = { f->regions[here].name, f->regions[remote].name };
	const char *addr = f->regions[remote].probe;
	const double bps[2] = { udp_rate(paths[0], f), udp_rate(paths[1], f) };
	const struct shape_probe p = { .addr = addr, .port = v->o->port, .rtt_samples = rtt_samples(paths[0], paths[1]),
				       .connections = v->o->connections, .seconds = v->o->seconds,
				       .udp_bps = { bps[0], bps[1] }, .udp_bytes = { udp_bytes(bps[0]), udp_bytes(bps[1]) },
				       .udp_seconds = { udp_seconds(v->o, paths[0], bps[0]), udp_seconds(v->o, paths[1], bps[1]) } };
	struct shape_measured m;
	struct check c;
	char more[96];
	int rc = shape_probe_run(&p, &m, e);

	if (rc)
		return rc;
	c = check_rtt(paths[0], paths[1], &m);
	snprintf(more, sizeof(more), "  (min %.2f, p99 %.2f ms, n = %d)", m.rtt_min_s * 1e3, m.rtt_p99_s * 1e3, m.rtt_received);
	tell(v, names[0], names[1], &c, more);
	for (int d = 0; d < 2; d++) {
		if (!paths[d])
			continue;
		c = check_goodput(paths[d], paths[!d], f, addr, m.goodput_bps[d], v->o->tolerance);
		snprintf(more, sizeof(more), "  (n = %d connection%s)", v->o->connections, v->o->connections == 1 ? "" : "s");
		tell(v, names[d], names[!d], &c, more);
		c = check_loss(paths[d], m.udp_sent[d], m.udp_received[d]);
		snprintf(more, sizeof(more), "  (n = %llu, %llu out of order)", (unsigned long long)m.udp_sent[d],
			 (unsigned long long)m.udp_reordered[d]);
		tell(v, names[d], names[!d], &c, more);
		if (c.verdict == SHAPE_UNDECIDED && udp_seconds_needed(paths[d], bps[d]) > p.udp_seconds[d])
			v->needed_s = fmax(v->needed_s, udp_seconds_needed(paths[d], bps[d]));
	}
	return 0;
}

static void print_sum(const struct verdict *v)
{
	printf("%s: %d of %d checks are out of tolerance", v->bad ? "NOT AS PLANNED" : v->undecided ? "UNDECIDED" : "as planned",
	       v->bad, v->n);
	if (v->undecided)
		printf(", %d undecided: measure longer (--seconds", v->undecided);
	if (v->needed_s > SECONDS_MOST)
		printf("; the UDP loss would take %.0f s, and %d are the most", ceil(v->needed_s), SECONDS_MOST);
	else if (v->needed_s > 0)
		printf(" %.0f for the UDP loss", ceil(v->needed_s));
	puts(v->undecided ? ")" : "");
}

static int find_only(const struct shape_input *in, const char *name, struct bace_err *e)
{
	for (int r = 0; r < in->file.n_regions; r++)
		if (!strcmp(in->file.regions[r].name, name))
			return in->file.regions[r].probe[0] ? r : bace_fail(e, EINVAL, "region %s has no `probe' in the file", name);
	return bace_fail(e, EINVAL, "%s has no region `%s'", in->file.path, name);
}

static int verify(const struct options *o, const struct shape_input *in)
{
	struct verdict v = { .o = o, .checks = json_array() };
	struct bace_err e = { 0 };
	int only = o->only ? find_only(in, o->only, &e) : -1, rc = o->only && only < 0 ? only : 0, regions = 0;

	if (!rc && !o->json)
		printf("%-28s %-12s %14s %14s  %s\n", "link", "what", "planned", "measured", "[95 %; loss 99 %]  verdict");
	for (int i = 0; i < in->spec.n_links && !rc; i++) {
		int r = in->spec.links[i].region;

		if (!in->file.regions[r].probe[0] || (only >= 0 && r != only))
			continue;
		regions++;
		rc = verify_region(&v, in, r, &e);
	}
	if (!rc && !regions)
		rc = bace_fail(&e, EINVAL, "%s: no region has a `probe': the address of a host that runs `bace shape respond'", in->file.path);
	if (rc) {
		json_decref(v.checks);
		return cmd_error(&cmd_shape_verify, rc == -EINVAL ? BACE_EXIT_INPUT : BACE_EXIT_FAILED, "%s", e.msg);
	}
	if (o->json)
		shape_print_json(json_pack("{s:s,s:i,s:i,s:i,s:o}", "verdict", v.bad ? "out of tolerance" : v.undecided ? "undecided" :
					   "as planned", "checks_n", v.n, "out_of_tolerance", v.bad, "undecided", v.undecided,
					   "checks", v.checks));
	else
		print_sum(&v);
	if (!o->json)
		json_decref(v.checks);
	return v.bad || v.undecided ? BACE_EXIT_VERDICT : BACE_EXIT_OK;
}

static void print_notes(const struct shape_spec *s)
{
	struct shape_notes n = { 0 };

	shape_preflight(s, &n);
	for (size_t i = 0; i < n.n; i++)
		fprintf(stderr, "note: %s\n", n.v[i]);
	shape_notes_free(&n);
}

static int run_verify(const struct cmd_globals *g, int argc, char **argv)
{
	struct options o = { .json = g->json, .port = SHAPE_PORT, .connections = 4, .seconds = 5, .tolerance = 0.02 };
	struct shape_input in = { 0 };
	int c, rc = -1;

	optind = 1;
	while (rc < 0 && (c = getopt_long(argc, argv, "h", longs, NULL)) != -1)
		rc = take_option(c, &o);
	if (rc >= 0)
		return rc;
	if (optind + 1 != argc)
		return cmd_misuse(&cmd_shape_verify, optind < argc ? "more than one file" : "which file?");
	/* It may run on a host behind the gateway. */
	rc = shape_input_read(&cmd_shape_verify, argv[optind], o.host, true, &in);
	if (!rc && !g->quiet)
		print_notes(&in.spec);
	if (!rc)
		rc = verify(&o, &in);
	shape_input_free(&in);
	return rc;
}

const struct command cmd_shape_verify = {
	.name = "shape verify",
	.summary = "measure the links and compare with the plan (exit 4: not as planned, or undecided)",
	.usage = "bace shape verify [--host NAME] [--to REGION] [--port N] [--connections N]\n"
		 "                         [--seconds S] [--tolerance F] [--json] FILE\n"
		 "\n"
		 "From a host of this region to the `probe' of each other one, where `bace shape\n"
		 "respond' runs: round-trip time, TCP goodput and UDP loss, both ways, with intervals.\n"
		 "--host names the region's shaping host. As planned: the interval of the RTT's median is\n"
		 "within 1 % + 0.5 ms (+ half the jitter), that of the goodput within F (0.02) of rate x\n"
		 "MSS / frame (of a host's part, in mode host), and the planned loss is in the interval of\n"
		 "the loss, which is narrow enough: half of it at most half of the loss, or 0.1 %. Undecided:\n"
		 "a part of the interval is within, or it is too wide. Exit 4 if not as planned.",
	.run = run_verify,
};

/* ---- respond ---- */
static int run_respond(const struct cmd_globals *g, int argc, char **argv)
{
	static const struct option respond_longs[] = {
		{ "listen", required_argument, NULL, 'l' }, { "port", required_argument, NULL, 'p' },
		{ "help", no_argument, NULL, 'h' },	    { NULL, 0, NULL, 0 },
	};
	const char *addr = NULL;
	double port = SHAPE_PORT;
	struct bace_err e = { 0 };
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "h", respond_longs, NULL)) != -1) {
		if (c == 'l')
			addr = optarg;
		else if (c == 'h')
			return printf("usage: %s\n", cmd_shape_respond.usage) < 0 ? BACE_EXIT_FAILED : BACE_EXIT_OK;
		else if (c != 'p' || !number(optarg, 1, 65535, &port))
			return cmd_misuse(&cmd_shape_respond, "--listen ADDRESS and --port 1 to 65535");
	}
	if (optind < argc)
		return cmd_misuse(&cmd_shape_respond, "it takes no arguments");
	if (shape_respond(addr, (int)port, g->quiet, &e))
		return cmd_error(&cmd_shape_respond, e.errnum == EINVAL ? BACE_EXIT_INPUT : BACE_EXIT_FAILED, "%s", e.msg);
	return BACE_EXIT_OK;
}

const struct command cmd_shape_respond = {
	.name = "shape respond",
	.summary = "answer the probes of verify, on a host of the other region",
	.usage = "bace shape respond [--listen ADDRESS] [--port N]\n"
		 "\n"
		 "Needs no privilege; port 7411, TCP and UDP. Until Ctrl-C.",
	.run = run_respond,
};
