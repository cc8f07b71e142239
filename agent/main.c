#include <errno.h>
#include <getopt.h>
#include <libgen.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <openssl/ssl.h>

#include "agent/monitor/monitor.h"
#include "common/json.h"
#include "config.h"

static const char usage[] =
	"usage: bace-agent --controller HOST:PORT --key FILE [OPTIONS]\n"
	"\n"
	"Connects to the controller (`bace run', `bace shape') and does what it asks of\n"
	"this host: shape links through bace-shaperd, run workers, report. Needs no\n"
	"privilege, and should be given none.\n"
	"\n"
	"  --controller HOST:PORT  where the controller listens; [ADDR]:PORT for IPv6\n"
	"  --key FILE              of `bace keygen', mode 0600; -: one line on standard input\n"
	"  --name NAME             this host's name in the cluster file (default: hostname)\n"
	"  --shaperd SOCKET        of bace-shaperd; without it this host shapes nothing\n"
	"  --worker-dir DIR        where bace-worker is (default: beside this program)\n"
	"  --metrics [ADDR:]PORT   Prometheus metrics at /metrics; on 127.0.0.1 by default\n"
	"  --leash                 end when standard input does\n"
	"  --log-json, -v, -q      how to log\n"
	"  --version\n";

static int parse_controller(struct agent_config *c, const char *text, struct bace_err *e)
{
	const char *colon = strrchr(text, ':');
	size_t n = colon ? (size_t)(colon - text) : 0;
	char *end;
	unsigned long port;

	if (!n)
		return bace_fail(e, EINVAL, "--controller %s: must be HOST:PORT", text);
	if (text[0] == '[' && text[n - 1] == ']') {
		text++;
		n -= 2;
	}
	port = strtoul(colon + 1, &end, 10);
	if (!n || n >= sizeof(c->host) || *end || end == colon + 1 || !port || port > 65535)
		return bace_fail(e, EINVAL, "--controller %s: must be HOST:PORT, with a port from 1 to 65535",
				 text);
	memcpy(c->host, text, n);
	c->host[n] = '\0';
	c->port = (uint16_t)port;
	return 0;
}

static int default_name(struct agent_config *c, struct bace_err *e)
{
	char name[256] = "";

	if (gethostname(name, sizeof(name) - 1))
		return bace_fail_errno(e, errno, "read this host's name");
	name[strcspn(name, ".")] = '\0';
	if (!wire_name_ok(name))
		return bace_fail(e, EINVAL, "this host's name `%.64s' is no name for an agent; give --name", name);
	snprintf(c->name, sizeof(c->name), "%.*s", WIRE_NAME_MAX, name);
	return 0;
}

static const char *own_directory(void)
{
	static char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	path[n > 0 ? n : 0] = '\0';
	return n > 0 ? dirname(path) : BACE_BINDIR;
}

static void on_term(evutil_socket_t sig, short what, void *arg)
{
	struct agent *a = arg;

	event_base_loopbreak(a->base);
}

/* Who started us holds the other end; what he says is nothing to us. */
static void on_leash(evutil_socket_t fd, short what, void *arg)
{
	struct agent *a = arg;
	char buf[256];
	ssize_t n = read(fd, buf, sizeof(buf));

	if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
		event_base_loopbreak(a->base);
}

static int take_leash(struct agent *a, struct bace_err *e)
{
	if (!a->cfg.leash)
		return 0;
	a->on_leash = event_new(a->base, STDIN_FILENO, EV_READ | EV_PERSIST, on_leash, a);
	return a->on_leash && !event_add(a->on_leash, NULL) ? 0 : bace_fail(e, EINVAL,
		"--leash: standard input cannot be watched: it must be a pipe, a socket or a terminal");
}

static int watch_signals(struct agent *a, struct bace_err *e)
{
	static const int sigs[] = { SIGTERM, SIGINT };

	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < ARRAY_LEN(sigs); i++) {
		a->on_term[i] = evsignal_new(a->base, sigs[i], on_term, a);
		if (!a->on_term[i] || event_add(a->on_term[i], NULL))
			return bace_fail(e, ENOMEM, "watch signals: out of memory");
	}
	return 0;
}

static void finish(struct agent *a)
{
	/* Workers may take a moment to end; the links need not wait for that. */
	if (a->lease)
		lease_drop(a->lease, 0);
	workers_end(a);
	if (a->conn)
		wire_free(a->conn);
	a->conn = NULL;
	requests_forget(a);
	monitor_close(a->monitor);
	metrics_close(a->metrics);
	lease_close(a->lease);
	binder_close(a->binder);
	for (size_t i = 0; i < ARRAY_LEN(a->on_term); i++)
		if (a->on_term[i])
			event_free(a->on_term[i]);
	if (a->on_leash)
		event_free(a->on_leash);
	if (a->reconnect)
		event_free(a->reconnect);
	if (a->base) {
		event_base_loop(a->base, EVLOOP_NONBLOCK);	/* what was freed is finalised in the loop */
		event_base_free(a->base);
	}
	OPENSSL_cleanse(a->cfg.key, sizeof(a->cfg.key));
}

static int run(struct agent *a, struct bace_err *e)
{
	int rc;

	a->base = event_base_new();
	if (!a->base)
		return bace_fail(e, ENOMEM, "event loop: out of memory");
	rc = binder_open(&a->binder, e);
	if (!rc)
		rc = watch_signals(a, e);
	if (!rc)
		rc = take_leash(a, e);
	if (!rc)
		rc = workers_init(a, e);
	if (!rc)
		rc = lease_open(a, &a->lease, e);
	if (!rc)
		rc = monitor_open(a, &a->monitor, e);
	if (!rc && a->cfg.has_metrics)
		rc = metrics_open(a, a->cfg.metrics_addr, a->cfg.metrics_port, &a->metrics, e);
	if (!rc) {
		inventory_probe();
		session_start(a);
		event_base_dispatch(a->base);
	}
	finish(a);
	return rc;
}

enum { OPT_CONTROLLER = 256, OPT_KEY, OPT_NAME, OPT_SHAPERD, OPT_WORKER_DIR, OPT_LOG_JSON, OPT_VERSION,
       OPT_METRICS, OPT_LEASH };

static const struct option options[] = {
	{ "controller", required_argument, NULL, OPT_CONTROLLER }, { "key", required_argument, NULL, OPT_KEY },
	{ "name", required_argument, NULL, OPT_NAME },		   { "shaperd", required_argument, NULL, OPT_SHAPERD },
	{ "worker-dir", required_argument, NULL, OPT_WORKER_DIR }, { "log-json", no_argument, NULL, OPT_LOG_JSON },
	{ "metrics", required_argument, NULL, OPT_METRICS },
	{ "version", no_argument, NULL, OPT_VERSION },		   { "help", no_argument, NULL, 'h' },
	{ "leash", no_argument, NULL, OPT_LEASH },		   { NULL, 0, NULL, 0 },
};

struct args {
	struct agent_config *cfg;
	struct bace_log_config log;
	const char *key_path;
	bool has_controller;
};

static int take_option(struct args *g, int opt, struct bace_err *e)
{
	switch (opt) {
	case OPT_CONTROLLER:
		g->has_controller = true;
		return parse_controller(g->cfg, optarg, e);
	case OPT_KEY:
		g->key_path = optarg;
		return 0;
	case OPT_NAME:
		if (!wire_name_ok(optarg))
			return bace_fail(e, EINVAL, "--name %.80s: must be 1 to %d of letters, digits and ._+-",
					 optarg, WIRE_NAME_MAX);
		snprintf(g->cfg->name, sizeof(g->cfg->name), "%s", optarg);
		return 0;
	case OPT_SHAPERD:
		g->cfg->shaperd_path = optarg;
		return 0;
	case OPT_WORKER_DIR:
		g->cfg->worker_dir = optarg;
		return 0;
	case OPT_METRICS:
		g->cfg->has_metrics = true;
		return metrics_parse(optarg, g->cfg->metrics_addr, &g->cfg->metrics_port, e);
	case OPT_LEASH:
		g->cfg->leash = true;
		return 0;
	case OPT_LOG_JSON:
		g->log.json = true;
		return 0;
	case 'v':
		g->log.level = BACE_DEBUG;
		return 0;
	case 'q':
		g->log.level = BACE_ERROR;
		return 0;
	default:
		return bace_fail(e, EINVAL, "unknown option");
	}
}

static int check_args(struct args *g, struct bace_err *e)
{
	int rc;

	if (!g->has_controller || !g->key_path)
		return bace_fail(e, EINVAL, "--controller and --key are needed");
	rc = g->cfg->name[0] ? 0 : default_name(g->cfg, e);
	if (!rc && !strcmp(g->key_path, "-"))
		rc = wire_key_read_host(0, g->cfg->name, g->cfg->key, e);
	else if (!rc)
		rc = wire_key_load_host(g->key_path, g->cfg->name, g->cfg->key, e);
	if (!g->cfg->worker_dir)
		g->cfg->worker_dir = own_directory();
	return rc;
}

int main(int argc, char **argv)
{
	static struct agent a;
	struct args g = { .cfg = &a.cfg,
			  .log = { .level = BACE_INFO, .program = "bace-agent", .fd = 2 } };
	struct bace_err e = { 0 };
	int opt;

	json_end_without_memory();
	/* Nothing of the system's settings applies to one fixed cipher and no
	 * certificates; they, and the texts of all errors, cost memory for good. */
	OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_LOAD_SSL_STRINGS |
			 OPENSSL_INIT_NO_LOAD_CRYPTO_STRINGS, NULL);
	/* Two threads, and one of them hardly allocates. */
	mallopt(M_ARENA_MAX, 1);
	/* Nobody of the same user reads the key out of this process's memory. */
	prctl(PR_SET_DUMPABLE, 0);
	while ((opt = getopt_long(argc, argv, "hvq", options, NULL)) != -1) {
		if (opt == 'h') {
			fputs(usage, stdout);
			return BACE_EXIT_OK;
		}
		if (opt == OPT_VERSION) {
			puts("bace-agent " BACE_VERSION);
			return BACE_EXIT_OK;
		}
		if (opt == '?' || take_option(&g, opt, &e)) {
			if (opt != '?')
				fprintf(stderr, "bace-agent: %s\n", e.msg);
			fputs(usage, stderr);
			return BACE_EXIT_INPUT;
		}
	}
	bace_log_setup(&g.log);
	if (optind < argc)
		bace_fail(&e, EINVAL, "unexpected argument `%s'", argv[optind]);
	if (optind < argc || check_args(&g, &e)) {
		fprintf(stderr, "bace-agent: %s\n", e.msg);
		return BACE_EXIT_INPUT;
	}
	spawn_raise_files();
	srandom((unsigned)(bace_mono_ns() ^ getpid()));
	if (run(&a, &e)) {
		fprintf(stderr, "bace-agent: %s\n", e.msg);
		return BACE_EXIT_FAILED;
	}
	return BACE_EXIT_OK;
}
