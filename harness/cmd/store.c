#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "harness/cmd/stored.h"

static int check(const struct cmd_globals *g, int argc, char **argv)
{
	struct bace_err e = { 0 };
	struct store *s = NULL;
	int problems = 0, rc;

	if (argc > 1)
		return cmd_misuse(&cmd_store, "check: `%s': no argument is taken", argv[1]);
	rc = stored_open(&cmd_store, g, false, &s);
	if (rc)
		return rc;
	rc = store_check(s, stdout, g->json, &problems, &e);
	store_close(s);
	if (rc)
		return stored_fail(&cmd_store, rc, &e);
	return problems ? BACE_EXIT_FAILED : BACE_EXIT_OK;
}

static int dictionary(const struct cmd_globals *g, int argc, char **argv)
{
	struct bace_err e = { 0 };
	struct store *s = NULL;
	struct output o;
	int rc;

	if (argc > 1)
		return cmd_misuse(&cmd_store, "dictionary: `%s': no argument is taken", argv[1]);
	/* The schema of this bace needs no store: an empty one in memory has it. */
	rc = g->store ? stored_open(&cmd_store, g, false, &s) : store_open(":memory:", &s, &e);
	if (rc)
		return g->store ? rc : stored_fail(&cmd_store, rc, &e);
	output_begin(g, &o);
	rc = results_print_dictionary(s, o.to, g->json, o.color, o.width, &e);
	if (output_end(&o) && !rc)
		rc = bace_fail(&e, EIO, "write failed");
	store_close(s);
	return rc ? stored_fail(&cmd_store, rc, &e) : BACE_EXIT_OK;
}

/* ---- gc ---- */

static int parse_gc(struct gc_options *o, int argc, char **argv)
{
	static const struct option options[] = { { "run", 1, NULL, 'r' }, { "status", 1, NULL, 's' },
		{ "older", 1, NULL, 'o' }, { "timelines", 0, NULL, 't' }, { "dry-run", 0, NULL, 'n' }, { 0 } };
	static const char *const statuses[] = { "done", "failed", "interrupted", "killed" };
	struct bace_err e;
	bool known = false;
	int64_t ns;
	int c;

	*o = (struct gc_options){ .older_s = NAN };
	optind = 1;
	while ((c = getopt_long(argc, argv, "n", options, NULL)) != -1) {
		switch (c) {
		case 'r': o->run = optarg; break;
		case 's':
			for (size_t i = 0; i < ARRAY_LEN(statuses); i++)
				known |= !strcmp(optarg, statuses[i]);
			if (!known)
				return cmd_misuse(&cmd_store, "--status %s: must be done, failed, interrupted or "
						  "killed", optarg);
			o->status = optarg;
			break;
		case 'o':
			if (bace_parse_time_ns(optarg, &ns, &e))
				return cmd_misuse(&cmd_store, "--older %s", e.msg);
			o->older_s = (double)ns / 1e9;
			break;
		case 't': o->timelines = true; break;
		case 'n': o->dry_run = true; break;
		default: return cmd_misuse(&cmd_store, "bad options");
		}
	}
	if (optind != argc)
		return cmd_misuse(&cmd_store, "gc: `%s': no argument is taken", argv[optind]);
	if (o->timelines && !o->run && !o->status && isnan(o->older_s))
		return cmd_misuse(&cmd_store, "--timelines needs --run, --status or --older: whose?");
	return 0;
}

static void print_gc(const struct cmd_globals *g, const struct gc_options *o, const struct gc_result *r)
{
	char before[BACE_FMT_MAX], after[BACE_FMT_MAX];

	if (g->json) {
		json_t *ids = json_array();

		for (size_t i = 0; i < r->n; i++)
			json_array_append_new(ids, json_string(r->ids[i]));
		json_t *root = json_pack("{s:b, s:b, s:o, s:I, s:I, s:b}", "dry_run", o->dry_run, "timelines",
					 o->timelines, "runs", ids, "bytes_before", (json_int_t)r->bytes_before,
					 "bytes_after", (json_int_t)r->bytes_after, "compact",
					 !o->dry_run && !r->not_compact.errnum);
		json_dumpf(root, stdout, JSON_INDENT(2));
		putchar('\n');
		json_decref(root);
		return;
	}
	for (size_t i = 0; i < r->n; i++)
		printf("%s%s %s\n", o->dry_run ? "would remove " : "removed ",
		       o->timelines ? "the timelines of run" : "run", r->ids[i]);
	if (!o->dry_run && !g->quiet)
		printf("%s before, %s now\n", bace_fmt_size(before, (double)r->bytes_before),
		       bace_fmt_size(after, (double)r->bytes_after));
	else if (!r->n)
		puts("nothing would be removed");
}

static int gc(const struct cmd_globals *g, int argc, char **argv)
{
	struct gc_result result;
	struct gc_options o;
	struct bace_err e = { 0 };
	struct store *s = NULL;
	int rc = parse_gc(&o, argc, argv);

	if (!rc)
		rc = stored_open(&cmd_store, g, true, &s);
	if (rc)
		return rc;
	rc = store_gc(s, &o, &result, &e);
	store_close(s);
	if (rc)
		return stored_fail(&cmd_store, rc, &e);
	print_gc(g, &o, &result);
	rc = result.not_compact.errnum;
	e = result.not_compact;
	gc_result_free(&result);
	return rc ? cmd_error(&cmd_store, BACE_EXIT_FAILED, "removed, but the space was not given back: %s", e.msg) :
		    BACE_EXIT_OK;
}

static int run(const struct cmd_globals *g, int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(const struct cmd_globals *g, int argc, char **argv);
	} actions[] = { { "check", check }, { "gc", gc }, { "dictionary", dictionary } };

	for (size_t i = 0; argc > 1 && i < ARRAY_LEN(actions); i++)
		if (!strcmp(argv[1], actions[i].name))
			return actions[i].run(g, argc - 1, argv + 1);
	return argc > 1 ? cmd_misuse(&cmd_store, "`%s': must be check, gc or dictionary", argv[1]) :
			  cmd_misuse(&cmd_store, "check, gc or dictionary?");
}

const struct command cmd_store = {
	.name = "store",
	.summary = "look after the store: check it, remove runs, explain its columns",
	.usage = "bace store check\n"
		 "       bace store gc [--run RUN] [--status S] [--older TIME] [--timelines] [-n]\n"
		 "       bace store dictionary\n\n"
		 "check       every page, index and reference; rows a table. Status 1: damaged\n"
		 "gc          removes the runs that all options mean, never one that is running,\n"
		 "            and gives the space back; without options only the latter\n"
		 "  --run        the only way for one that `bace runs' calls running?: its process\n"
		 "               is in another container, and may be gone\n"
		 "  --status     done, failed, interrupted or killed\n"
		 "  --older      began longer ago than this, e.g. 30d\n"
		 "  --timelines  only the operations of those runs, by far the most rows\n"
		 "  -n           --dry-run: only say what would go\n"
		 "dictionary  every table and column, with unit and meaning",
	.run = run,
};
