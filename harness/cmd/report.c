#include "harness/cmd/stored.h"

static int run(const struct cmd_globals *g, int argc, char **argv)
{
	static const struct stored_file f = { .cmd = &cmd_report, .noun = "report", .suffix = ".html", .hint = "", .many = true,
					      .write = results_write_reports };

	return stored_write(&f, g, argc, argv);
}

const struct command cmd_report = {
	.name = "report",
	.summary = "write one or several runs as a self-contained HTML page",
	.usage = "bace report RUN... [-o FILE.html]\n\n"
		 "RUN is an id, the beginning of one, or `last'. The page needs no network and no\n"
		 "scripts; plots are drawn by gnuplot. It is written beside the store, as RUN.html,\n"
		 "unless -o says where; that of several runs needs it.",
	.run = run,
};
