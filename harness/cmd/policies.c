#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cmd/cmd.h"
#include "harness/policy/policy.h"

static int print_json(int n, const char *const *names, const char *const *descriptions)
{
	json_t *list = json_array();
	char *text;

	for (int i = 0; i < n; i++) {
		struct policy_defaults d = policy_defaults(i);

		json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:b}", "name", names[i], "description",
						      descriptions[i], "order", order_name(d.order),
						      "backfill", d.backfill));
	}
	text = json_dumps(list, JSON_INDENT(2));
	json_decref(list);
	if (!text)
		return cmd_error(&cmd_policies, BACE_EXIT_FAILED, "out of memory");
	puts(text);
	free(text);
	return BACE_EXIT_OK;
}

static void print_table(int n, const char *const *names, const char *const *descriptions)
{
	printf("%-10s  %-5s  %-9s  %s\n", "policy", "order", "head", "placement");
	for (int i = 0; i < n; i++) {
		struct policy_defaults d = policy_defaults(i);

		printf("%-10s  %-5s  %-9s  %s\n", names[i], order_name(d.order),
		       d.backfill ? "backfills" : "blocks", descriptions[i]);
	}
	puts("\norder and head are defaults: any policy takes order = \"fcfs\", \"sjf\", \"srtf\", \"las\" or\n"
	     "\"bace\", backfill = true or false, and start = \"k_min\" or \"k_star\". Without preemption\n"
	     "srtf is sjf and las is fcfs.");
}

static int run(const struct cmd_globals *g, int argc, char **argv)
{
	const char *const *names, *const *descriptions;
	int n = policy_list(&names, &descriptions);

	if (argc > 1)
		return cmd_misuse(&cmd_policies, "unknown argument `%s'", argv[1]);
	if (g->json)
		return print_json(n, names, descriptions);
	print_table(n, names, descriptions);
	return BACE_EXIT_OK;
}

const struct command cmd_policies = {
	.name = "policies",
	.summary = "list the scheduling policies",
	.usage = "bace policies [--json]\n\n"
		 "Lists every policy that an experiment may name, what it does, and the order of the\n"
		 "queue it uses unless the experiment says otherwise.",
	.run = run,
};
