#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "harness/cmd/lab.h"

#define STATE_MAX (4u << 20)
#define SOCKETS_MAX (64u << 20)
#define ANSWER_TIMEOUT_MS 10000
#define LABS_MAX 256

static bool is_name(const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)name[i]) && name[i] != '-' && name[i] != '_')
			return false;
	return n > 0 && n <= LAB_NAME_MAX;
}

int lab_check_name(const struct command *c, const char *name)
{
	return is_name(name) ? 0
		: cmd_misuse(c, "%s: a lab's name must be 1 to %d letters, digits, - or _", name, LAB_NAME_MAX);
}

/* As /proc/net/unix writes it, whose @ is the NUL of an abstract name. */
static void prefix_of(char buf[64])
{
	snprintf(buf, 64, "@bace-lab-%u-", geteuid());
}

static socklen_t address_of(const char *name, struct sockaddr_un *sa)
{
	char prefix[64];
	int n;

	prefix_of(prefix);
	*sa = (struct sockaddr_un){ .sun_family = AF_UNIX };
	n = snprintf(sa->sun_path, sizeof(sa->sun_path), "%s%s", prefix, name);
	sa->sun_path[0] = '\0';
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n);
}

int lab_claim(const char *name, int *out, struct bace_err *e)
{
	struct sockaddr_un sa;
	socklen_t len = address_of(name, &sa);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return bace_fail_errno(e, errno, "socket");
	if (bind(fd, (struct sockaddr *)&sa, len)) {
		int errnum = errno;

		close(fd);
		return errnum == EADDRINUSE ? bace_fail(e, EEXIST, "a lab `%s' is up already; `bace lab down %s' ends it", name, name)
					    : bace_fail_errno(e, errnum, "take the name %s", name);
	}
	*out = fd;
	return 0;
}

int lab_listen(int fd, struct bace_err *e)
{
	return listen(fd, 64) ? bace_fail_errno(e, errno, "listen") : 0;
}

/* The same user, or root. */
static bool peer_of(int fd, struct ucred *peer)
{
	socklen_t len = sizeof(*peer);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &len) && (peer->uid == geteuid() || peer->uid == 0);
}

void lab_answer(int fd, const json_t *state)
{
	CLEANUP_FREE char *text = NULL;
	int peer;

	while ((peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		const struct timeval patience = { .tv_sec = 1 };
		struct ucred who;

		if (!text)
			text = json_dumps(state, JSON_COMPACT);
		setsockopt(peer, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
		if (text && peer_of(peer, &who))
			bace_write_all(peer, text, strlen(text));
		close(peer);
	}
}

static int read_all(int fd, struct bace_buf *b)
{
	char buf[4096];

	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		ssize_t n;

		if (poll(&p, 1, ANSWER_TIMEOUT_MS) <= 0)
			return -ETIMEDOUT;
		n = read(fd, buf, sizeof(buf));
		if (n <= 0)
			return n ? -errno : 0;
		if (b->len + (size_t)n > STATE_MAX || bace_buf_add(b, buf, (size_t)n))
			return -EMSGSIZE;
	}
}

/* Its pid is taken while it still has to answer, so it is its own. */
static int ask(int fd, struct lab_found *out, struct bace_err *e)
{
	struct bace_buf b = { 0 };
	struct ucred holder;
	int rc;

	if (!peer_of(fd, &holder))
		return bace_fail(e, EPERM, "another user has the name of this lab");
	out->holder = (int)syscall(SYS_pidfd_open, holder.pid, 0);
	if (out->holder < 0)
		return bace_fail_errno(e, errno, "the lab's holder, pid %d", (int)holder.pid);
	rc = read_all(fd, &b);
	out->state = rc ? NULL : json_loadb(b.p ? b.p : "", b.len, 0, NULL);
	bace_buf_free(&b);
	if (out->state)
		return 0;
	lab_found_free(out);
	return bace_fail(e, rc == -ETIMEDOUT ? ETIMEDOUT : ECONNRESET, rc == -ETIMEDOUT ? "the lab's holder does not answer"
			 : "the lab has just ended");
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names that are taken, malloc'd; -errno. */
static int names_of(char *v[LABS_MAX], struct bace_err *e)
{
	CLEANUP_FREE char *text = NULL;
	char prefix[64], *save = NULL;
	int n = 0, rc = bace_read_file("/proc/net/unix", SOCKETS_MAX, &text, NULL, e);

	if (rc)
		return rc;
	prefix_of(prefix);
	for (char *line = strtok_r(text, "\n", &save); line && n < LABS_MAX; line = strtok_r(NULL, "\n", &save)) {
		char *at = strstr(line, prefix);
		/* Anybody may take any name. */
		bool known = !at || !is_name(at + strlen(prefix));

		/* Who is connected to it has its name, too. */
		for (int i = 0; i < n && !known; i++)
			known = !strcmp(v[i], at + strlen(prefix));
		if (!known && (v[n] = strdup(at + strlen(prefix))))
			n++;
	}
	qsort(v, (size_t)n, sizeof(v[0]), compare_names);
	return n;
}

static int not_there(const char *name, struct bace_err *e)
{
	struct bace_buf others = { 0 };
	char *v[LABS_MAX];
	int n = names_of(v, e);
	bool here = false;

	for (int i = 0; i < n; i++) {
		here |= !strcmp(v[i], name);
		bace_buf_addf(&others, "%s%s", others.len ? ", " : "", v[i]);
		free(v[i]);
	}
	if (!here)
		bace_fail(e, ENOENT, others.len ? "no lab `%s' is up; there is %s" : "no lab `%s' is up; `bace lab up' makes one",
			  name, others.p);
	bace_buf_free(&others);
	return here ? 0 : -ENOENT;
}

int lab_find(const char *name, struct lab_found *out, struct bace_err *e)
{
	struct sockaddr_un sa;
	socklen_t len = address_of(name, &sa);
	CLEANUP_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*out = (struct lab_found){ .holder = -1 };
	if (fd < 0)
		return bace_fail_errno(e, errno, "socket");
	if (!connect(fd, (struct sockaddr *)&sa, len))
		return ask(fd, out, e);
	/* Bound, and nobody listens yet: it comes up. */
	return errno == ECONNREFUSED ? not_there(name, e) : bace_fail_errno(e, errno, "ask lab %s", name);
}

void lab_found_free(struct lab_found *f)
{
	json_decref(f->state);
	bace_cleanup_close(&f->holder);
	f->state = NULL;
}

int lab_list(json_t **array, struct bace_err *e)
{
	char *v[LABS_MAX];
	int n = names_of(v, e);

	if (n < 0)
		return n;
	*array = json_array();
	for (int i = 0; i < n; i++) {
		struct lab_found f;

		if (!lab_find(v[i], &f, e))
			json_array_append_new(*array, f.state ? json_incref(f.state) : json_pack("{s:s}", "name", v[i]));
		lab_found_free(&f);
		free(v[i]);
	}
	return *array ? 0 : bace_fail(e, ENOMEM, "lab: out of memory");
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
