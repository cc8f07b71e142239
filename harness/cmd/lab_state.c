#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/cmd/lab.h"

#define PATH_LEN 320
#define STATE_MAX (1 << 20)
#define SUFFIX ".json"

int lab_check_name(const struct command *c, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)name[i]) && name[i] != '-' && name[i] != '_')
			n = 0;
	return n > 0 && n <= LAB_NAME_MAX ? 0
		: cmd_misuse(c, "%s: a lab's name must be 1 to %d letters, digits, - or _", name, LAB_NAME_MAX);
}

static int path_of(const char *name, char path[PATH_LEN], struct bace_err *e)
{
	char dir[256];
	int rc = bace_runtime_dir("labs", dir, sizeof(dir), e);

	if (!rc)
		snprintf(path, PATH_LEN, "%s/%s" SUFFIX, dir, name);
	return rc;
}

/* Whoever finds a stale file removes it, perhaps between open and lock. */
static bool is_at(int fd, const char *path)
{
	struct stat a, b;

	return !fstat(fd, &a) && !stat(path, &b) && a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

int lab_state_claim(const char *name, int *out, struct bace_err *e)
{
	char path[PATH_LEN];
	int rc = path_of(name, path, e);

	while (!rc) {
		int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

		if (fd < 0)
			return bace_fail_errno(e, errno, "%s", path);
		if (flock(fd, LOCK_EX | LOCK_NB)) {
			rc = errno == EWOULDBLOCK ? bace_fail(e, EEXIST, "a lab `%s' is up already; `bace lab down %s' ends it", name, name)
						  : bace_fail_errno(e, errno, "lock %s", path);
		} else if (is_at(fd, path)) {
			*out = fd;
			return ftruncate(fd, 0) ? bace_fail_errno(e, errno, "%s", path) : 0;
		}
		close(fd);
	}
	return rc;
}

int lab_state_write(int fd, const json_t *state, struct bace_err *e)
{
	CLEANUP_FREE char *text = json_dumps(state, JSON_COMPACT);

	if (!text)
		return bace_fail(e, ENOMEM, "lab: out of memory");
	if (ftruncate(fd, 0) || pwrite(fd, text, strlen(text), 0) != (ssize_t)strlen(text))
		return bace_fail_errno(e, errno, "write down the lab");
	return 0;
}

void lab_state_remove(const char *name)
{
	char path[PATH_LEN];

	if (!path_of(name, path, NULL))
		unlink(path);
}

static json_t *empty_state(const char *name)
{
	return json_pack("{s:s}", "name", name);
}

/* NULL: nobody holds it. */
static json_t *read_held(const char *name, const char *path)
{
	CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	CLEANUP_FREE char *text = NULL;
	json_t *state;

	if (fd < 0)
		return NULL;
	if (!flock(fd, LOCK_SH | LOCK_NB)) {
		if (is_at(fd, path))
			unlink(path);
		return NULL;
	}
	/* Not yet written, or just being. */
	if (bace_read_file(path, STATE_MAX, &text, NULL, NULL))
		return empty_state(name);
	state = json_loads(text, 0, NULL);
	return state ? state : empty_state(name);
}

int lab_state_list(json_t **array, struct bace_err *e)
{
	struct dirent **v = NULL;
	char dir[256], path[sizeof(dir) + 1 + sizeof(v[0]->d_name)];
	int n, rc = bace_runtime_dir("labs", dir, sizeof(dir), e);

	if (rc)
		return rc;
	n = scandir(dir, &v, NULL, alphasort);
	if (n < 0)
		return bace_fail_errno(e, errno, "%s", dir);
	*array = json_array();
	for (int i = 0; i < n; i++) {
		char *end = strstr(v[i]->d_name, SUFFIX);

		if (end && end > v[i]->d_name && !end[strlen(SUFFIX)]) {
			snprintf(path, sizeof(path), "%s/%s", dir, v[i]->d_name);
			*end = '\0';
			json_t *state = read_held(v[i]->d_name, path);

			if (state)
				json_array_append_new(*array, state);
		}
		free(v[i]);
	}
	free(v);
	return *array ? 0 : bace_fail(e, ENOMEM, "lab: out of memory");
}

static int no_such_lab(const char *name, struct bace_err *e)
{
	json_t *all = NULL, *state;
	struct bace_buf names = { 0 };
	size_t i;

	if (!lab_state_list(&all, e))
		json_array_foreach(all, i, state)
			bace_buf_addf(&names, "%s%s", i ? ", " : "", json_string_value(json_object_get(state, "name")));
	bace_fail(e, ENOENT, names.len ? "no lab `%s' is up; there is %s" : "no lab `%s' is up; `bace lab up' makes one", name, names.p);
	bace_buf_free(&names);
	json_decref(all);
	return -ENOENT;
}

int lab_state_read(const char *name, json_t **out, struct bace_err *e)
{
	char path[PATH_LEN];
	int rc = path_of(name, path, e);

	if (rc)
		return rc;
	*out = read_held(name, path);
	return *out ? 0 : no_such_lab(name, e);
}

void lab_print_hosts(const json_t *state)
{
	const json_t *hosts = json_object_get(state, "hosts"), *h;
	size_t i;

	json_array_foreach(hosts, i, h)
		printf("  %-20s %-16s %s%s\n", json_string_value(json_object_get(h, "name")),
		       json_string_value(json_object_get(h, "region")), json_string_value(json_object_get(h, "address")),
		       json_is_true(json_object_get(h, "gateway")) ? "  (gateway)" : "");
}
