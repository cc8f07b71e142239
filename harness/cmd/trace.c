#include "harness/cmd/stored.h"

static int write_file(struct store *s, const char *const *runs, size_t n, const char *path, struct bace_err *e)
{
	struct bace_outfile out;
	int rc = bace_outfile_open(path, &out, e);

	return rc ? rc : bace_outfile_close(&out, results_write_trace(s, runs[0], out.f, e), e);
}

static int run(const struct cmd_globals *g, int argc, char **argv)
{
	static const struct stored_file f = { .cmd = &cmd_trace, .noun = "trace", .suffix = ".trace.json",
					      .hint = " (open it in https://ui.perfetto.dev)", .write = write_file };

	return stored_write(&f, g, argc, argv);
}

const struct command cmd_trace = {
	.name = "trace",
	.summary = "write a run's timeline for Perfetto",
	.usage = "bace trace RUN [-o FILE.json]\n\n"
		 "Chrome trace-event JSON: a process a region's host, a thread a stage, a flow a\n"
		 "message, counters the messages on every link. It is written beside the store, as\n"
		 "RUN.trace.json, unless -o says where.",
	.run = run,
};
