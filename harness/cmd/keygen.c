#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

#include "agent/wire/wire.h"
#include "harness/cmd/stored.h"

static const struct option options[] = {
	{ "host", required_argument, NULL, 'H' },
	{ "from", required_argument, NULL, 'f' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static int host_key(const char *host, const char *master_path, const char *path, struct bace_err *e)
{
	uint8_t master[WIRE_KEY_BYTES];
	int rc = wire_key_load(master_path, master, e);

	if (!rc)
		rc = wire_key_write_host(path, master, host, e);
	OPENSSL_cleanse(master, sizeof(master));
	return rc;
}

static int run(const struct cmd_globals *g, int argc, char **argv)
{
	const char *host = NULL, *from = NULL;
	struct bace_err e = { 0 };
	int c, rc;

	optind = 1;
	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (c == 'H')
			host = optarg;
		else if (c == 'f')
			from = optarg;
		else if (c == 'h')
			return printf("usage: %s\n", cmd_keygen.usage) < 0 ? BACE_EXIT_FAILED : BACE_EXIT_OK;
		else
			return cmd_misuse(&cmd_keygen, "unknown option");
	}
	if (optind + 1 != argc)
		return cmd_misuse(&cmd_keygen, optind < argc ? "more than one file" : "which file?");
	if (!host != !from)
		return cmd_misuse(&cmd_keygen, "--host and --from go together");
	rc = host ? host_key(host, from, argv[optind], &e) : wire_key_generate(argv[optind], &e);
	if (rc)
		return cmd_error(&cmd_keygen, BACE_EXIT_INPUT, "%s", e.msg);
	if (g->json)
		output_path("key", argv[optind]);
	else if (!g->quiet && host)
		printf("%s: the key of host %s; copy it there, mode 0600, for bace-agent --key\n", argv[optind],
		       host);
	else if (!g->quiet)
		printf("%s: a new master key; it stays with the controller, `bace keygen --host NAME --from %s "
		       "FILE' makes each host's own\n", argv[optind], argv[optind]);
	return BACE_EXIT_OK;
}

const struct command cmd_keygen = {
	.name = "keygen",
	.summary = "make the keys with which agents and controller know each other",
	.usage = "bace keygen FILE\n"
		 "       bace keygen --host NAME --from MASTER FILE\n"
		 "\n"
		 "Writes a new random master key to FILE, mode 0600; or the key of one host,\n"
		 "derived from a master key (HKDF-SHA256). Never overwrites.",
	.run = run,
};
