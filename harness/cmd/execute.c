#include "harness/cmd/execute.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/cmd/live.h"
#include "harness/cmd/signals.h"
#include "harness/cmd/stored.h"

static void on_progress(void *arg, const char *line)
{
	live_line(arg, line);
}

static void on_status(void *arg, const struct run_status *status)
{
	live_status(arg, status);
}

static int write_report(const struct cmd_globals *g, const struct execution *x, struct store *s, const char *id,
			struct bace_err *e)
{
	CLEANUP_FREE char *path = x->report ? strdup(x->report) : output_beside(x->o.store_path, id, ".html");
	int rc;

	rc = path ? results_write_report(s, id, path, e) : bace_fail(e, ENOMEM, "report: out of memory");
	if (!rc && !g->quiet)
		fprintf(g->json || x->no_tables ? stderr : stdout, "\nreport: %s\n", path);
	return rc;
}

/* The run's tables on stdout, its report beside the store. */
static int present(const struct cmd_globals *g, const struct execution *x, const char *id)
{
	struct store *s = NULL;
	struct bace_err e = { 0 };
	int rc = store_open_readonly(x->o.store_path, &s, &e);

	if (!rc && !x->no_tables)
		rc = g->json ? results_print_run_json(s, id, stdout, &e) :
			results_print_run(s, id, stdout, output_color(g), output_width(g), &e);
	if (!rc && !x->no_report)
		rc = write_report(g, x, s, id, &e);
	store_close(s);
	return rc ? cmd_error(x->command, BACE_EXIT_FAILED, "%s", e.msg) : 0;
}

int execute(const struct cmd_globals *g, struct execution *x, struct experiment *exp, char id[32])
{
	CLEANUP_FREE char *store = g->store ? strdup(g->store) : store_default_path();
	struct bace_err e = { 0 };
	struct live live;
	int rc, shown = 0;

	id[0] = '\0';
	x->o.self = g->self;
	x->o.command = g->line;
	x->o.store_path = store;
	x->o.on_progress = on_progress;
	x->o.on_status = on_status;
	x->o.cancelled = signals_caught;
	x->o.arg = &live;
	live_begin(&live, g->quiet);
	signals_catch();
	rc = store ? run_experiment(exp, &x->o, id, &e) : bace_fail(&e, ENOMEM, "out of memory");
	live_end(&live);
	if (id[0] && (!rc || rc == -EBADMSG || rc == -ENOMSG || rc == -ENOTEMPTY))
		shown = present(g, x, id);
	if (rc)
		return cmd_error(x->command, cmd_exit_of(rc, id[0]), "%s", e.msg);
	return shown;
}
