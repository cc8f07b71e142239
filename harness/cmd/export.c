#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "harness/cmd/stored.h"

static int parse(struct export_options *o, int argc, char **argv)
{
	static const struct option options[] = { { "format", 1, NULL, 'f' }, { "output", 1, NULL, 'o' },
		{ "table", 1, NULL, 't' }, { 0 } };
	static const char *const formats[] = { "csv", "json", "ndjson" };
	bool chosen = false;
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "f:o:t:", options, NULL)) != -1) {
		switch (c) {
		case 'f':
			for (int i = 0; i < 3; i++)
				if (!strcmp(optarg, formats[i])) {
					o->format = (enum export_format)i;
					chosen = true;
				}
			if (!chosen)
				return cmd_misuse(&cmd_export, "--format %s: must be csv, json or ndjson", optarg);
			break;
		case 'o': o->dir = optarg; break;
		case 't': o->table = optarg; break;
		default: return cmd_misuse(&cmd_export, "bad options");
		}
	}
	if (optind != argc - 1)
		return cmd_misuse(&cmd_export, "one run is needed");
	if (!chosen)
		return cmd_misuse(&cmd_export, "--format csv, json or ndjson is needed");
	return 0;
}

static int run(const struct cmd_globals *g, int argc, char **argv)
{
	struct export_options o = { 0 };
	CLEANUP_FREE char *beside = NULL;
	struct store *s = NULL;
	struct bace_err e = { 0 };
	int rc = parse(&o, argc, argv);

	if (!rc)
		rc = stored_open(&cmd_export, g, false, &s);
	/* Csv is one file a table: all of them need a folder. */
	if (!rc && o.format == EXPORT_CSV && !o.dir && !o.table)
		rc = stored_beside(&cmd_export, g, s, argv[optind], "", &beside);
	if (beside)
		o.dir = beside;
	if (!rc && (rc = results_export(s, argv[optind], &o, stdout, &e)))
		rc = stored_fail(&cmd_export, rc, &e);
	store_close(s);
	if (!rc && beside && g->json)
		output_path("rows", beside);
	else if (!rc && beside && !g->quiet)
		printf("rows: %s\n", beside);
	return rc;
}

const struct command cmd_export = {
	.name = "export",
	.summary = "write a run's rows as CSV, JSON or NDJSON",
	.usage = "bace export RUN --format csv|json|ndjson [-o DIR] [--table NAME]\n\n"
		 "Column names carry their units. csv and ndjson write one file a table into DIR,\n"
		 "json one file in all; without -o everything goes to standard output, of csv the\n"
		 "table that --table names, or all into the folder RUN beside the store.",
	.run = run,
};
