#include <errno.h>
#include <getopt.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "shaper/shaperd/shaperd.h"

#define CLEAR_PATIENCE_NS 3000000000LL
#define MEMORY_KEPT (64 << 20)
#define MMAP_THRESHOLD (32 << 20)	/* the most that mallopt(3) takes */

static const char usage[] =
	"usage: bace-shaperd --socket PATH [OPTIONS]\n"
	"       bace-shaperd --clear [--state DIR]\n"
	"\n"
	"Shapes links for a client on a unix socket, in the network namespace that it\n"
	"was started in. Shaping is a lease: it is undone when the connection closes.\n"
	"\n"
	"  --socket PATH        where to listen\n"
	"  --iface A,B          only these interfaces may be shaped (may be repeated)\n"
	"  --prefix P           only within these address prefixes (may be repeated)\n"
	"  --group NAME         members may connect, beside root (default: bace, if it exists)\n"
	"  --state DIR          journal of what was changed, for --clear after a crash\n"
	"  --lease-timeout S    undo when nothing is heard from the client for so long\n"
	"  --guard yes|no|auto  refuse the interface of the default route and foreign\n"
	"                       qdiscs unless the client insists (auto: unless it is sure\n"
	"                       not to be in the machine's own network namespace)\n"
	"  --clear              undo what an earlier process left, and exit; refused\n"
	"                       beside one that runs\n"
	"  --log-json, -v, -q   how to log\n";

static int add_ifaces(struct shaperd_config *c, char *list)
{
	int before = c->n_ifaces;

	for (char *save = NULL, *name = strtok_r(list, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
		if (c->n_ifaces == SHAPERD_IFACES_MAX || strlen(name) >= IFNAMSIZ)
			return -EINVAL;
		snprintf(c->ifaces[c->n_ifaces++], IFNAMSIZ, "%s", name);
	}
	/* A variable that is not set must not come to mean any interface. */
	return c->n_ifaces > before ? 0 : -EINVAL;
}

static int add_prefix(struct shaperd_config *c, const char *text, struct bace_err *e)
{
	if (c->n_prefixes == SHAPERD_PREFIXES_MAX)
		return bace_fail(e, EINVAL, "more than %d prefixes", SHAPERD_PREFIXES_MAX);
	return shape_prefix_parse(text, &c->prefixes[c->n_prefixes++], e);
}

static int parse_guard(struct shaperd_config *c, const char *text)
{
	static const char *const words[] = { [GUARD_AUTO] = "auto", [GUARD_ON] = "yes", [GUARD_OFF] = "no" };

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (!strcmp(words[i], text)) {
			c->guard = (enum guard)i;
			return 0;
		}
	}
	return -EINVAL;
}

enum { OPT_SOCKET = 256, OPT_IFACE, OPT_PREFIX, OPT_GROUP, OPT_STATE, OPT_LEASE, OPT_GUARD, OPT_CLEAR,
       OPT_LOG_JSON, OPT_VERSION };

static const struct option options[] = {
	{ "socket", required_argument, NULL, OPT_SOCKET }, { "iface", required_argument, NULL, OPT_IFACE },
	{ "prefix", required_argument, NULL, OPT_PREFIX }, { "group", required_argument, NULL, OPT_GROUP },
	{ "state", required_argument, NULL, OPT_STATE },   { "lease-timeout", required_argument, NULL, OPT_LEASE },
	{ "guard", required_argument, NULL, OPT_GUARD },   { "clear", no_argument, NULL, OPT_CLEAR },
	{ "log-json", no_argument, NULL, OPT_LOG_JSON },   { "version", no_argument, NULL, OPT_VERSION },
	{ "help", no_argument, NULL, 'h' },		   { NULL, 0, NULL, 0 },
};

static int take_option(struct shaperd_config *c, int opt, struct bace_err *e)
{
	char *end;

	switch (opt) {
	case OPT_SOCKET:
		c->socket_path = optarg;
		return 0;
	case OPT_IFACE:
		return add_ifaces(c, optarg) ? bace_fail(e, EINVAL, "--iface: names no interface, too many, or too long a name") : 0;
	case OPT_PREFIX:
		return add_prefix(c, optarg, e);
	case OPT_GROUP:
		c->group = optarg;
		return 0;
	case OPT_STATE:
		c->state_dir = optarg;
		return 0;
	case OPT_LEASE:
		c->lease_timeout_s = strtod(optarg, &end);
		return *end || end == optarg || !(c->lease_timeout_s > 0 && c->lease_timeout_s < 1e6)
			       ? bace_fail(e, EINVAL, "--lease-timeout %s: must be seconds above 0", optarg) : 0;
	case OPT_GUARD:
		return parse_guard(c, optarg) ? bace_fail(e, EINVAL, "--guard %s: must be yes, no or auto", optarg) : 0;
	case OPT_CLEAR:
		c->clear = true;
		return 0;
	default:
		return bace_fail(e, EINVAL, "unknown option");
	}
}

/* One that has been told to end may take a moment. */
static int clear(const struct shaperd_config *c, struct bace_err *e)
{
	CLEANUP_CLOSE int only_fd = -1;
	int rc = server_claim(&only_fd, CLEAR_PATIENCE_NS, e);

	return rc ? rc : shaping_clear_leftovers(c->state_dir, e);
}

static int finish(struct bace_err *e, int rc)
{
	fprintf(stderr, "bace-shaperd: %s\n", e->msg);
	if (rc == -EPERM)
		fputs("bace-shaperd: needs CAP_NET_ADMIN over this network namespace\n", stderr);
	return rc == -EINVAL ? BACE_EXIT_INPUT : rc == -EPERM ? BACE_EXIT_ENV : BACE_EXIT_FAILED;
}

int main(int argc, char **argv)
{
	struct bace_log_config log = { .level = BACE_INFO, .program = "bace-shaperd", .fd = 2 };
	static struct shaperd_config c;
	struct bace_err e = { 0 };
	int opt, kept, rc;

	while ((opt = getopt_long(argc, argv, "hvq", options, NULL)) != -1) {
		if (opt == 'h') {
			fputs(usage, stdout);
			return BACE_EXIT_OK;
		}
		if (opt == OPT_VERSION) {
			puts("bace-shaperd " BACE_VERSION);
			return BACE_EXIT_OK;
		}
		if (opt == 'v' || opt == 'q') {
			log.level = opt == 'v' ? BACE_DEBUG : BACE_ERROR;
		} else if (opt == OPT_LOG_JSON) {
			log.json = true;
		} else if (opt == '?' || (rc = take_option(&c, opt, &e))) {
			if (opt != '?')
				fprintf(stderr, "bace-shaperd: %s\n", e.msg);
			fputs(usage, stderr);
			return BACE_EXIT_INPUT;
		}
	}
	if (optind < argc || (!c.socket_path && !c.clear)) {
		fputs(usage, stderr);
		return BACE_EXIT_INPUT;
	}
	bace_log_setup(&log);
	/* Plans of thousands of links come again and again: memory that is given back in between
	 * costs a page fault for every 4 kB of the next one, half of the time that it takes. */
	kept = mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD);
	if (!mallopt(M_TRIM_THRESHOLD, MEMORY_KEPT) || !kept)
		bace_log(BACE_DEBUG, "shaperd", "memory is given back between plans: mallopt refused");
	rc = c.clear ? clear(&c, &e) : server_run(&c, &e);
	return rc ? finish(&e, rc) : BACE_EXIT_OK;
}
