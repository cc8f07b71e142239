#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/lab/codec.h"
#include "harness/lab/lab.h"
#include "harness/lab/sandbox.h"

#define LOG_TAIL 16384
#define LINE_MAX_BYTES (256u << 20)
#define OPEN_TIMEOUT_S 180.0
#define READY_TIMEOUT_S 60.0
#define ANSWER_SLACK_S 150.0	/* what died is started again first, twice at most; it bounds only failures */
#define VERIFY_PAIR_S 10.0

struct testbed {
	struct sandbox box;
	struct testbed_config cfg;
	struct lab_net net;
	struct bace_buf in;		/* read, not yet a line */
	char log[LOG_TAIL + 1];
	size_t log_len;
	bool broken;
};

const struct lab_net *testbed_net(const struct testbed *t)
{
	return &t->net;
}

const char *testbed_log_tail(const struct testbed *t)
{
	return t->log;
}

pid_t testbed_pid(const struct testbed *t)
{
	return t->box.pid;
}

static void keep_log(struct testbed *t, const char *p, size_t n)
{
	if (n > LOG_TAIL) {
		p += n - LOG_TAIL;
		n = LOG_TAIL;
	}
	if (t->log_len + n > LOG_TAIL) {
		size_t drop = t->log_len + n - LOG_TAIL;

		memmove(t->log, t->log + drop, t->log_len - drop);
		t->log_len -= drop;
	}
	memcpy(t->log + t->log_len, p, n);
	t->log_len += n;
	t->log[t->log_len] = '\0';
	if (bace_log_level() >= BACE_DEBUG)
		bace_write_all(2, p, n);
}

static void drain_log(struct testbed *t)
{
	char buf[4096];
	ssize_t n = read(t->box.log, buf, sizeof(buf));

	if (n > 0)
		keep_log(t, buf, (size_t)n);
	else if (n == 0)
		bace_cleanup_close(&t->box.log);
}

/* One line if there is a whole one in the buffer; malloc'd. */
static char *take_line(struct testbed *t)
{
	char *nl = t->in.len ? memchr(t->in.p, '\n', t->in.len) : NULL;
	char *line;
	size_t n;

	if (!nl)
		return NULL;
	n = (size_t)(nl - t->in.p);
	line = strndup(t->in.p, n);
	memmove(t->in.p, nl + 1, t->in.len - n - 1);
	t->in.len -= n + 1;
	return line;
}

static int fail_dead(struct testbed *t, struct bace_err *e)
{
	const char *last = t->log;

	t->broken = true;
	while (t->box.log >= 0) {
		size_t before = t->log_len;

		drain_log(t);
		if (t->log_len == before)
			break;
	}
	for (const char *p = t->log; *p; p++)
		if (*p == '\n' && p[1])
			last = p + 1;
	return bace_fail(e, EPIPE, "the lab ended by itself%s%.*s", *last ? ": " : "",
			 (int)strcspn(last, "\n"), last);
}

/* Reads what there is into the buffers; -errno when the lab is gone. */
static int pump(struct testbed *t, struct bace_err *e)
{
	struct pollfd p[2] = { { .fd = t->box.from, .events = POLLIN },
			       { .fd = t->box.log, .events = POLLIN } };
	char buf[65536];

	if (poll(p, 2, 100) < 0 && errno != EINTR)
		return bace_fail_errno(e, errno, "poll the lab");
	if (p[1].revents)
		drain_log(t);
	if (!(p[0].revents & (POLLIN | POLLHUP)))
		return 0;
	ssize_t n = read(t->box.from, buf, sizeof(buf));

	if (n <= 0)
		return fail_dead(t, e);
	if (t->in.len + (size_t)n > LINE_MAX_BYTES || bace_buf_add(&t->in, buf, (size_t)n))
		return bace_fail(e, EMSGSIZE, "the lab's answer is too large");
	return 0;
}

int testbed_idle(struct testbed *t, struct bace_err *e)
{
	return t->broken ? bace_fail(e, EPIPE, "the lab is gone") : pump(t, e);
}

/* The next answer; progress lines go to the caller's function. */
static int read_answer(struct testbed *t, double timeout_s, json_t **out, struct bace_err *e)
{
	int64_t until = bace_mono_ns() + (int64_t)(timeout_s * 1e9);

	for (;;) {
		CLEANUP_FREE char *line = take_line(t);
		const char *text;
		json_t *j;

		if (!line) {
			int rc = pump(t, e);

			if (rc)
				return rc;
			if (t->cfg.cancelled && t->cfg.cancelled(t->cfg.arg))
				return bace_fail(e, ECANCELED, "interrupted");
			if (bace_mono_ns() > until) {
				t->broken = true;
				return bace_fail(e, ETIMEDOUT, "the lab did not answer in %.0f s", timeout_s);
			}
			continue;
		}
		j = json_loads(line, 0, NULL);
		if (!j)
			return bace_fail(e, EPROTO, "the lab's answer is not JSON: %.80s", line);
		text = json_string_value(json_object_get(j, "progress"));
		if (text) {
			if (t->cfg.on_progress)
				t->cfg.on_progress(t->cfg.arg, text);
			json_decref(j);
			continue;
		}
		*out = j;
		return 0;
	}
}

/* Steals req. */
static int request(struct testbed *t, json_t *req, double timeout_s, json_t **out,
		   struct bace_err *e)
{
	CLEANUP_FREE char *text = req ? json_dumps(req, JSON_COMPACT) : NULL;
	const char *error;
	int rc;

	json_decref(req);
	if (!text)
		return bace_fail(e, ENOMEM, "request to the lab: cannot be encoded");
	if (t->broken)
		return bace_fail(e, EPIPE, "the lab is gone");
	rc = bace_write_all(t->box.to, text, strlen(text));
	if (!rc)
		rc = bace_write_all(t->box.to, "\n", 1);
	if (rc)
		return fail_dead(t, e);
	rc = read_answer(t, timeout_s, out, e);
	if (rc)
		return rc;
	error = json_string_value(json_object_get(*out, "error"));
	if (error) {
		int errnum = (int)json_integer_value(json_object_get(*out, "errno"));

		rc = bace_fail(e, errnum > 0 ? errnum : EIO, "%s", error);
		json_decref(*out);
		*out = NULL;
	}
	return rc;
}

static int start_box(struct testbed *t, struct bace_err *e)
{
	const struct testbed_config *c = &t->cfg;
	char message[32], least[32], jobs[16];
	CLEANUP_FREE char *path = realpath(c->exp_path, NULL);
	bool uml = c->backend == BACKEND_UML;

	if (!path)
		return bace_fail_errno(e, errno, "%s", c->exp_path);
	if (uml && (strpbrk(path, " \t\"") || strpbrk(c->self, " \t\"")))
		return bace_fail(e, EINVAL, "%s: User-Mode Linux takes no path with spaces or quotes", path);
	snprintf(message, sizeof(message), "%llu", (unsigned long long)c->traffic.message_bytes);
	snprintf(least, sizeof(least), "%llu", (unsigned long long)c->traffic.min_message_bytes);
	snprintf(jobs, sizeof(jobs), "%d", c->traffic.jobs_on_link);
	char *argv[24] = { (char *)c->self, uml ? "lab-uml" : "lab-inner", "--experiment", path, "--delay",
		c->backend == BACKEND_NFQUEUE ? "nfqueue" : "netem", "--message", message,
		"--min-message", least, "--jobs-on-link", jobs };

	if (!uml) {
		argv[12] = "--in";
		argv[13] = "3";
		argv[14] = "--out";
		argv[15] = "4";
	}
	return sandbox_start(argv, &t->box, e);
}

static int load_net(struct testbed *t, struct bace_err *e)
{
	struct experiment exp;
	struct bace_diags d = { 0 };
	int rc = experiment_load(t->cfg.exp_path, &exp, &d, e);

	bace_diags_free(&d);
	if (rc)
		return rc;
	rc = lab_net_build(&exp.cluster, exp.testbed.hosts_per_region, &t->net, e);
	experiment_free(&exp);
	return rc;
}

int testbed_open(const struct testbed_config *cfg, struct testbed **out, struct bace_err *e)
{
	struct testbed *t = calloc(1, sizeof(*t));
	json_t *answer = NULL;
	int rc;

	if (!t)
		return bace_fail(e, ENOMEM, "testbed: out of memory");
	t->cfg = *cfg;
	t->box = (struct sandbox){ .pid = -1, .to = -1, .from = -1, .log = -1 };
	rc = load_net(t, e);
	if (!rc)
		rc = start_box(t, e);
	if (!rc)
		rc = read_answer(t, READY_TIMEOUT_S, &answer, e);	/* {"ready": true} */
	json_decref(answer);
	answer = NULL;
	if (!rc)
		rc = request(t, json_pack("{s:s}", "op", "open"), OPEN_TIMEOUT_S, &answer, e);
	json_decref(answer);
	if (rc) {
		testbed_close(t);
		return rc;
	}
	*out = t;
	return 0;
}

void testbed_close(struct testbed *t)
{
	if (!t)
		return;
	if (!t->broken && t->box.to >= 0) {
		static const char text[] = "{\"op\":\"close\"}\n";

		bace_write_all(t->box.to, text, sizeof(text) - 1);
	}
	/* Its namespaces end with it, gracefully or not: nothing is lost by haste. */
	sandbox_end(&t->box, t->broken ? 0 : 2.0);
	lab_net_free(&t->net);
	bace_buf_free(&t->in);
	free(t);
}

int testbed_mend(struct testbed *t, struct bace_err *e)
{
	json_t *answer;
	int rc = request(t, json_pack("{s:s}", "op", "mend"), OPEN_TIMEOUT_S, &answer, e);

	if (!rc)
		json_decref(answer);
	return rc;
}

int testbed_run(struct testbed *t, const struct tb_cell *cell, struct tb_result *out,
		struct bace_err *e)
{
	json_t *answer;
	int rc = request(t, json_pack("{s:s,s:o}", "op", "run", "cell", codec_cell(cell)),
			 cell->timeout_s + ANSWER_SLACK_S, &answer, e);

	if (rc)
		return rc;
	rc = codec_result_read(json_object_get(answer, "result"), out, e);
	json_decref(answer);
	return rc;
}

int testbed_verify(struct testbed *t, int n, struct tb_verify *pairs, double goodput_s,
		   struct bace_err *e)
{
	json_t *answer;
	int rc = request(t, json_pack("{s:s,s:f,s:o}", "op", "verify", "goodput_s", goodput_s, "pairs",
				      codec_verify(n, pairs)),
			 ANSWER_SLACK_S + n * (goodput_s + VERIFY_PAIR_S), &answer, e);

	if (rc)
		return rc;
	rc = codec_verify_read(json_object_get(answer, "pairs"), n, pairs, e);
	json_decref(answer);
	return rc;
}

int testbed_script(struct testbed *t, const struct tb_script *s, struct tb_log *out, struct bace_err *e)
{
	double last_s = s->n ? s->actions[s->n - 1].at_s : 0;
	json_t *answer;
	int rc = request(t, json_pack("{s:s,s:o}", "op", "script", "script", codec_script(s)),
			 last_s + 2 * ANSWER_SLACK_S, &answer, e);

	if (rc)
		return rc;
	rc = codec_log_read(json_object_get(answer, "log"), out, e);
	json_decref(answer);
	return rc;
}

int testbed_look(struct testbed *t, double seconds, struct tb_view_link *out, struct bace_err *e)
{
	json_t *answer;
	int rc = request(t, json_pack("{s:s,s:f}", "op", "look", "seconds", seconds), seconds + ANSWER_SLACK_S, &answer, e);

	if (rc)
		return rc;
	rc = codec_view_read(json_object_get(answer, "view"), t->net.n_regions * t->net.n_regions, out, e);
	json_decref(answer);
	return rc;
}

int testbed_inventory(struct testbed *t, char **json, struct bace_err *e)
{
	json_t *answer;
	int rc = request(t, json_pack("{s:s}", "op", "inventory"), ANSWER_SLACK_S, &answer, e);
	const char *text;

	if (rc)
		return rc;
	text = json_string_value(json_object_get(answer, "inventory"));
	*json = strdup(text ? text : "{}");
	json_decref(answer);
	return *json ? 0 : bace_fail(e, ENOMEM, "inventory: out of memory");
}
