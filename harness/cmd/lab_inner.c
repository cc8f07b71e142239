#include "harness/cmd/cmd.h"
#include "harness/lab/lab.h"

/* The re-executed halves of a lab; not for users, hence no summary. */

static int inner(const struct cmd_globals *g, int argc, char **argv)
{
	return lab_inner_main(argc, argv);
}

static int uml(const struct cmd_globals *g, int argc, char **argv)
{
	return lab_uml_main(argc, argv);
}

static int guest(const struct cmd_globals *g, int argc, char **argv)
{
	return lab_guest_main(argc, argv);
}

const struct command cmd_lab_inner = { .name = "lab-inner", .usage = "(internal)", .run = inner };
const struct command cmd_lab_uml = { .name = "lab-uml", .usage = "(internal)", .run = uml };
const struct command cmd_lab_guest = { .name = "lab-guest", .usage = "(internal)", .run = guest };
