#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

#include "common/json.h"
#include "config.h"
#include "workloads/worker/rank.h"

#define SPEC_PATIENCE_MS 30000

static json_t *first_line(struct commands *c, struct bace_err *e)
{
	struct pollfd p = { .fd = 0, .events = POLLIN };
	json_t *spec;

	while (!(spec = command_next(c, e))) {
		if (e->errnum)
			return NULL;
		if (c->eof || poll(&p, 1, SPEC_PATIENCE_MS) == 0) {
			bace_fail(e, EPIPE, "no spec on stdin");
			return NULL;
		}
	}
	return spec;
}

static int run(const json_t *spec, struct commands *c, const struct rank_kinds *kinds, struct bace_err *e)
{
	const char *mode = json_string_value(json_object_get(spec, "mode"));

	if (mode && !strcmp(mode, "pipeline"))
		return rank_run(spec, c, kinds, e);
	if (mode && !strcmp(mode, "probe-server"))
		return probe_server(spec, c, e);
	if (mode && !strcmp(mode, "probe-client"))
		return probe_client(spec, c, e);
	return bace_fail(e, EINVAL, "`mode' = %s: must be pipeline, probe-server or probe-client",
			 mode ? mode : "nothing");
}

int worker_main(int argc, char **argv, const char *program, const struct rank_kinds *kinds)
{
	struct commands c = { 0 };
	struct bace_err e = { 0 };
	json_t *spec;
	int rc = 0;

	json_end_without_memory();
	if (argc > 1) {
		if (!strcmp(argv[1], "--version")) {
			printf("%s " BACE_VERSION "\n", program);
			return BACE_EXIT_OK;
		}
		fprintf(stderr, "%s takes no arguments: it is started by bace-agent and reads its spec on stdin\n",
			program);
		return BACE_EXIT_INPUT;
	}
	bace_log_setup(&(struct bace_log_config){ .level = BACE_INFO, .program = program, .fd = 2 });
	/* An agent that does not read any more is seen by the write that fails. */
	signal(SIGPIPE, SIG_IGN);
	/* Deadlines are kept to the nanosecond that the kernel can. */
	prctl(PR_SET_TIMERSLACK, 1);
	spec = first_line(&c, &e);
	if (spec)
		rc = run(spec, &c, kinds, &e);
	json_decref(spec);
	bace_buf_free(&c.in);
	if (!spec || rc) {
		if (!c.told)
			event_error(&e);
		return e.errnum == EINVAL || e.errnum == ENOTSUP ? BACE_EXIT_INPUT : BACE_EXIT_FAILED;
	}
	return BACE_EXIT_OK;
}
