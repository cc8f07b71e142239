/* The talk between the holder and the commands that ask it: a JSON text each
 * way over an abstract socket, which belongs to the network namespace and ends
 * with the process. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "harness/shape/holder.h"

#define MESSAGE_MAX (64u << 20)
#define PATIENCE_S 60		/* of who asks */
/* Of the holder, each way: it must keep the lease alive meanwhile. A call may wait
 * for so long once more. */
#define HOLDER_PATIENCE_S 2

static socklen_t address(struct sockaddr_un *sa)
{
	static const char name[] = "\0bace-shape";

	*sa = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(sa->sun_path, name, sizeof(name) - 1);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof(name) - 1);
}

static void be_patient(int fd, int seconds)
{
	const struct timeval tv = { .tv_sec = seconds };

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
}

int holder_listen(int *fd, struct bace_err *e)
{
	struct sockaddr_un sa;
	socklen_t len = address(&sa);

	*fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (*fd < 0)
		return bace_fail_errno(e, errno, "socket");
	if (bind(*fd, (struct sockaddr *)&sa, len) || listen(*fd, 8)) {
		int rc = bace_fail_errno(e, errno, "claim the shaping of this network namespace");

		close(*fd);
		return rc;
	}
	return 0;
}

static bool is_one_of_us(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) && (!peer.uid || peer.uid == geteuid());
}

static int send_json(int fd, json_t *j, int seconds)
{
	CLEANUP_FREE char *text = json_dumps(j, JSON_COMPACT);
	size_t n = text ? strlen(text) : 0, sent = 0;
	int64_t until_ns = bace_mono_ns() + seconds * 1000000000ll;

	json_decref(j);
	while (sent < n) {
		ssize_t k = send(fd, text + sent, n - sent, MSG_NOSIGNAL);

		if (k < 0)
			return -errno;
		if (bace_mono_ns() > until_ns)
			return -ETIMEDOUT;
		sent += (size_t)k;
	}
	return n && !shutdown(fd, SHUT_WR) ? 0 : -EIO;
}

static json_t *receive_json(int fd, int seconds)
{
	int64_t until_ns = bace_mono_ns() + seconds * 1000000000ll;
	struct bace_buf b = { 0 };
	json_t *j = NULL;
	char buf[65536];
	ssize_t n;

	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		if (b.len + (size_t)n > MESSAGE_MAX || bace_buf_add(&b, buf, (size_t)n) || bace_mono_ns() > until_ns)
			break;
	if (!n && b.len)
		j = json_loadb(b.p, b.len, JSON_REJECT_DUPLICATES, NULL);
	bace_buf_free(&b);
	return j;
}

json_t *holder_receive(int fd)
{
	be_patient(fd, HOLDER_PATIENCE_S);
	return is_one_of_us(fd) ? receive_json(fd, HOLDER_PATIENCE_S) : NULL;
}

void holder_answer(int fd, json_t *answer)
{
	/* Who asked and went away needs no answer. */
	if (send_json(fd, answer, HOLDER_PATIENCE_S))
		bace_log(BACE_DEBUG, "shape", "a client went away");
}

int holder_ask(json_t *request, json_t **answer, struct bace_err *e)
{
	CLEANUP_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un sa;
	socklen_t len = address(&sa);
	const char *error;
	int rc;

	*answer = NULL;
	if (fd < 0 || connect(fd, (struct sockaddr *)&sa, len)) {
		json_decref(request);
		return bace_fail(e, ENOENT, "no `bace shape apply' holds anything here");
	}
	be_patient(fd, PATIENCE_S);
	/* Abstract names have no owner: who answers must be root or us. */
	if (!is_one_of_us(fd)) {
		json_decref(request);
		return bace_fail(e, EACCES, "the process that holds the shaping here is another user's");
	}
	rc = send_json(fd, request, PATIENCE_S);
	*answer = rc ? NULL : receive_json(fd, PATIENCE_S);
	if (!*answer)
		return bace_fail(e, EIO, "the process that holds the shaping here does not answer");
	error = json_string_value(json_object_get(*answer, "error"));
	if (!error)
		return 0;
	rc = bace_fail(e, (int)json_integer_value(json_object_get(*answer, "errnum")), "%s", error);
	json_decref(*answer);
	*answer = NULL;
	return rc;
}

int shape_held(json_t **out, struct bace_err *e)
{
	return holder_ask(json_pack("{s:s}", "do", "show"), out, e);
}

int shape_release(const char *self, const char **how, struct bace_err *e)
{
	struct shape_seen seen;
	bool was;
	json_t *answer;
	int rc = holder_ask(json_pack("{s:s}", "do", "clear"), &answer, e);

	*how = "put back by the process that held it";
	if (!rc)
		json_decref(answer);
	if (rc != -ENOENT)
		return rc;
	if (daemon_is_here())
		return bace_fail(e, EBUSY, "a bace-shaperd runs here for somebody else (an agent?): what it shapes ends when they do");
	rc = shape_inspect(&seen, e);
	if (rc)
		return rc;
	was = seen.n || seen.queue_bound;
	shape_seen_free(&seen);
	rc = daemon_clear(self, e);
	*how = was ? "put back what a process left that died" : "nothing was shaped";
	return rc;
}
