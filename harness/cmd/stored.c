#include "harness/cmd/stored.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/json.h"

void output_path(const char *key, const char *path)
{
	json_t *j = json_pack("{s:o}", key, json_text(path));

	json_dumpf(j, stdout, 0);
	putchar('\n');
	json_decref(j);
}

char *output_beside(const char *store, const char *id, const char *suffix)
{
	CLEANUP_FREE char *path = store ? strdup(store) : store_default_path();
	const char *slash = path ? strrchr(path, '/') : NULL;
	char *out = NULL;

	if (!path || asprintf(&out, "%.*s%s%s", slash ? (int)(slash - path) + 1 : 0, path, id, suffix) < 0)
		return NULL;
	return out;
}

int stored_beside(const struct command *c, const struct cmd_globals *g, struct store *s, const char *run,
		  const char *suffix, char **out)
{
	struct bace_err e = { 0 };
	char id[32];
	int rc = store_find_run(s, run, id, &e);

	if (rc)
		return stored_fail(c, rc, &e);
	*out = output_beside(g->store, id, suffix);
	return *out ? 0 : cmd_error(c, BACE_EXIT_FAILED, "out of memory");
}

int stored_fail(const struct command *c, int rc, const struct bace_err *e)
{
	switch (rc) {
	case -ENOENT:
	case -EINVAL:
	case -EUCLEAN:
	case -EPROTO:
	case -ENODATA: return cmd_error(c, BACE_EXIT_INPUT, "%s", e->msg);
	case -EACCES:
	case -EROFS:
	case -ENOSPC: return cmd_error(c, BACE_EXIT_ENV, "%s", e->msg);
	default: return cmd_error(c, BACE_EXIT_FAILED, "%s", e->msg);
	}
}

int stored_open(const struct command *c, const struct cmd_globals *g, bool write, struct store **out)
{
	CLEANUP_FREE char *path = g->store ? strdup(g->store) : store_default_path();
	struct bace_err e = { 0 };
	int rc;

	if (!path)
		return cmd_error(c, BACE_EXIT_FAILED, "out of memory");
	if (access(path, F_OK) && errno == ENOENT)
		return cmd_error(c, BACE_EXIT_INPUT, "no store at %s yet: `bace run` makes it, --store FILE names "
				 "another", path);
	rc = write ? store_open(path, out, &e) : store_open_readonly(path, out, &e);
	return rc ? stored_fail(c, rc, &e) : 0;
}

bool output_color(const struct cmd_globals *g)
{
	const char *none = getenv("NO_COLOR");

	return isatty(STDOUT_FILENO) && !g->json && !(none && *none);
}

int output_width(const struct cmd_globals *g)
{
	struct winsize w;

	if (!isatty(STDOUT_FILENO) || g->json)
		return 0;
	return !ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) && w.ws_col ? w.ws_col : 80;
}

/* NULL: none is wanted and less is not here. */
static const char *pager_command(void)
{
	const char *wanted = getenv("PAGER");

	if (wanted && *wanted)
		return wanted;
	return access("/usr/bin/less", X_OK) ? NULL : "less";
}

static void exec_pager(int in, const char *pager)
{
	/* F: not for what fits; R: colours; X: leave it on the screen. */
	setenv("LESS", "FRX", 0);
	dup2(in, STDIN_FILENO);
	execl("/bin/sh", "sh", "-c", pager, (char *)NULL);
	_exit(127);
}

void output_begin(const struct cmd_globals *g, struct output *o)
{
	const char *pager = pager_command();
	int fds[2];

	*o = (struct output){ .to = stdout };
	if (!isatty(STDOUT_FILENO) || g->json)
		return;
	o->color = output_color(g);
	o->width = output_width(g);
	if (!pager)
		return;
	fflush(stdout);
	if (pipe(fds))
		return;
	o->pager = fork();
	if (o->pager == 0) {
		close(fds[1]);
		exec_pager(fds[0], pager);
	}
	close(fds[0]);
	o->to = o->pager > 0 ? fdopen(fds[1], "w") : NULL;
	if (o->to) {
		/* Whoever leaves the pager early has read enough. */
		signal(SIGPIPE, SIG_IGN);
		return;
	}
	close(fds[1]);
	o->pager = o->pager > 0 ? o->pager : 0;
	o->to = stdout;
}

int output_end(struct output *o)
{
	int rc = 0;

	if (fflush(o->to) || ferror(o->to))
		rc = o->pager ? 0 : -EIO;
	if (!o->pager)
		return rc;
	if (o->to != stdout)
		fclose(o->to);
	while (waitpid(o->pager, NULL, 0) < 0 && errno == EINTR)
		;
	return rc;
}

static int take_path(const struct stored_file *f, int argc, char **argv, const char **path)
{
	static const struct option options[] = { { "output", 1, NULL, 'o' }, { 0 } };
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "o:", options, NULL)) != -1) {
		if (c != 'o')
			return cmd_misuse(f->cmd, "bad options");
		*path = optarg;
	}
	if (optind == argc || (!f->many && optind + 1 < argc))
		return cmd_misuse(f->cmd, f->many ? "at least one run is needed" : "one run is needed");
	if (!*path && optind + 1 < argc)
		return cmd_misuse(f->cmd, "-o FILE%s is needed for more than one run", f->suffix);
	return BACE_EXIT_OK;
}

int stored_write(const struct stored_file *f, const struct cmd_globals *g, int argc, char **argv)
{
	CLEANUP_FREE char *beside = NULL;
	const char *path = NULL;
	struct store *s = NULL;
	struct bace_err e = { 0 };
	int rc = take_path(f, argc, argv, &path);

	if (!rc)
		rc = stored_open(f->cmd, g, false, &s);
	if (!rc && !path)
		rc = stored_beside(f->cmd, g, s, argv[optind], f->suffix, &beside);
	path = path ? path : beside;
	if (!rc && (rc = f->write(s, (const char *const *)argv + optind, (size_t)(argc - optind), path, &e)))
		rc = stored_fail(f->cmd, rc, &e);
	store_close(s);
	if (rc)
		return rc;
	if (g->json)
		output_path(f->noun, path);
	else if (!g->quiet)
		printf("%s: %s%s\n", f->noun, path, f->hint);
	return BACE_EXIT_OK;
}
