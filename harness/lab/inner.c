#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/wire/wire.h"
#include "harness/lab/build.h"
#include "harness/lab/codec.h"
#include "harness/lab/lab.h"
#include "harness/lab/procs.h"

#define KEY_PATH "/run/bace/key"
#define SOCKET_DIR "/run/bace"
#define HELLO_TIMEOUT_S 30.0
#define SHAPERD_TIMEOUT_NS 30000000000
#define MEND_TRIES 2

/* Everything the inner process holds; one, for the life of PID 1. */
struct inner {
	FILE *out;
	int in;
	char self[PATH_MAX];
	const char *exp_path;
	enum delay_kind delay;
	struct lab_traffic traffic;
	struct experiment exp;
	struct cluster scaled;
	int n_traces;
	struct tb_trace *traces;
	struct lab_net net;
	struct lab lab;
	struct tb_topology topo;
	struct controller *controller;
	uint8_t key[WIRE_KEY_BYTES];
};

static void send_line(struct inner *in, json_t *j)
{
	if (!j || json_dumpf(j, in->out, JSON_COMPACT))
		fputs("{\"error\": \"answer could not be encoded\"}", in->out);
	fputc('\n', in->out);
	fflush(in->out);
	json_decref(j);
}

static void progress(struct inner *in, const char *text)
{
	send_line(in, json_pack("{s:s}", "progress", text));
}

static int load(struct inner *in, struct bace_err *e)
{
	struct bace_diags d = { 0 };
	int rc = experiment_load(in->exp_path, &in->exp, &d, e);

	if (rc) {
		if (d.n)
			bace_fail(e, EINVAL, "%s", d.v[0].text);
		bace_diags_free(&d);
		return rc;
	}
	const struct testbed_spec *t = &in->exp.testbed;

	in->traffic.wan = t->wan;
	in->traffic.socket_buffer_bytes = t->socket_buffer_bytes;
	memcpy(in->traffic.congestion_control, t->congestion_control,
	       sizeof(in->traffic.congestion_control));
	if (cluster_scaled(&in->exp.cluster, t->scale_bytes, t->scale_time, &in->scaled))
		return bace_fail(e, ENOMEM, "scale the cluster: out of memory");
	lab_disturb(t, &in->scaled);
	rc = lab_traces(&in->exp, &in->traces, &in->n_traces, e);
	if (rc)
		return rc;
	return lab_net_build(&in->scaled, t->hosts_per_region, &in->net, e);
}

/* By which it is known, until it ends. */
static char *name_of(const struct inner *in, const char *what, int i, char name[80])
{
	snprintf(name, 80, "%s of %s", what, in->net.hosts[i].name);
	return name;
}

static int start_shaperd(struct inner *in, int i, struct bace_err *e)
{
	const struct lab_host *h = &in->net.hosts[i];
	char path[PATH_MAX], sock[160], state[160], name[80];
	int rc = lab_find_program(in->self, "bace-shaperd", path, e);

	if (rc)
		return rc;
	snprintf(sock, sizeof(sock), SOCKET_DIR "/%s.sock", h->name);
	snprintf(state, sizeof(state), SOCKET_DIR "/%s.state", h->name);
	unlink(sock);		/* of one that died: wait_shaperds waits for its successor's */
	char *argv[] = { path, "--socket", sock, "--state", state, NULL };

	return proc_spawn(name_of(in, "shaperd", i, name), &(struct proc_spec){ .ns = &in->lab.ns[i], .path = path,
			  .argv = argv }, e);
}

static int start_agent(struct inner *in, int i, struct bace_err *e)
{
	const struct lab_host *h = &in->net.hosts[i];
	char path[PATH_MAX], worker[PATH_MAX], sock[160], to[64], name[80];
	int rc = lab_find_program(in->self, "bace-agent", path, e);

	if (!rc)
		rc = lab_find_program(in->self, "bace-worker", worker, e);
	if (rc)
		return rc;
	*strrchr(worker, '/') = '\0';
	snprintf(sock, sizeof(sock), SOCKET_DIR "/%s.sock", h->name);
	snprintf(to, sizeof(to), LAB_MGMT_ADDR ":%u", controller_port(in->controller));
	char *argv[] = { path, "--controller", to, "--key", KEY_PATH, "--name", (char *)h->name,
			 "--shaperd", sock, "--worker-dir", worker, NULL };

	return proc_spawn(name_of(in, "agent", i, name), &(struct proc_spec){ .ns = &in->lab.ns[i], .path = path,
			  .argv = argv, .drop_privilege = true }, e);
}

/* On one emulated CPU a dozen of them take seconds to begin. */
static int wait_shaperds(struct inner *in, struct bace_err *e)
{
	int64_t until = bace_mono_ns() + SHAPERD_TIMEOUT_NS;
	char sock[160];

	for (int i = 0; i < in->net.n_hosts; i++) {
		snprintf(sock, sizeof(sock), SOCKET_DIR "/%s.sock", in->net.hosts[i].name);
		while (access(sock, F_OK)) {
			if (bace_mono_ns() > until)
				return bace_fail(e, ETIMEDOUT, "shaperd of %s did not start",
						 in->net.hosts[i].name);
			usleep(20000);
		}
	}
	return 0;
}

static int start_control(struct inner *in, struct bace_err *e)
{
	int rc;

	if (mkdir(SOCKET_DIR, 0700) && errno != EEXIST)
		return bace_fail_errno(e, errno, "create " SOCKET_DIR);
	rc = wire_key_generate(KEY_PATH, e);
	if (!rc)
		rc = wire_key_load(KEY_PATH, in->key, e);
	if (!rc)
		rc = controller_open(&(struct controller_config){ .listen_addr = LAB_MGMT_ADDR,
			.master_key = in->key, .topo = &in->topo, .heartbeat_dead_s = 3 },
			&in->controller, e);
	if (!rc)
		controller_traces(in->controller, in->n_traces, in->traces);
	return rc;
}

static int bring_up(struct inner *in, struct bace_err *e)
{
	char line[160];
	int rc = load(in, e);

	if (rc)
		return rc;
	snprintf(line, sizeof(line), "%d regions: %d network namespaces, links by %s", in->net.n_regions,
		 in->net.n_hosts + 1, in->delay == DELAY_NETEM ? "HTB and netem" :
		 "HTB and an NFQUEUE delay line");
	progress(in, line);
	rc = lab_build(&in->scaled, &in->net, &in->traffic, &in->lab, e);
	if (!rc)
		rc = lab_topology_build(&in->scaled, &in->net, in->delay, &in->traffic, &in->topo, e);
	if (!rc)
		rc = start_control(in, e);
	for (int i = 0; !rc && i < in->net.n_hosts; i++)
		rc = start_shaperd(in, i, e);
	for (int i = 0; !rc && i < in->net.n_hosts; i++)
		rc = start_agent(in, i, e);
	if (rc)
		return rc;
	snprintf(line, sizeof(line), "%d agents and %d shaperds started", in->net.n_hosts,
		 in->net.n_hosts);
	progress(in, line);
	rc = wait_shaperds(in, e);
	if (!rc)
		rc = controller_wait_hosts(in->controller, HELLO_TIMEOUT_S, e);
	if (!rc)
		rc = controller_plan(in->controller, e);
	return rc;
}

static int start_again(struct inner *in, const char *what, int i, struct bace_err *e)
{
	char name[80], line[160];

	snprintf(line, sizeof(line), "the %s is gone; starting it again", name_of(in, what, i, name));
	progress(in, line);
	return strcmp(what, "agent") ? start_shaperd(in, i, e) : start_agent(in, i, e);
}

/* What died since the last request is started again: that cell was invalid, the next
 * need not be. */
static int mend(struct inner *in, struct bace_err *e)
{
	static const char *const kinds[] = { "shaperd", "agent" };
	bool any = false;
	char name[80];
	int rc = 0;

	for (size_t k = 0; k < ARRAY_LEN(kinds); k++)
		for (int i = 0; !rc && i < in->net.n_hosts; i++) {
			if (proc_lives(name_of(in, kinds[k], i, name)))
				continue;
			any = true;
			rc = start_again(in, kinds[k], i, e);
		}
	if (!any || rc)
		return rc;
	rc = wait_shaperds(in, e);
	if (rc)
		return rc;
	/* An agent that is gone is there until its connection ends. */
	for (int t = 0; !t || (t < MEND_TRIES && (rc == -ECONNRESET || rc == -ENOTCONN)); t++) {
		rc = controller_wait_hosts(in->controller, HELLO_TIMEOUT_S, e);
		if (!rc)
			rc = controller_plan(in->controller, e);
	}
	return rc;
}

static json_t *serve_run(struct inner *in, const json_t *req, struct bace_err *e)
{
	struct tb_cell cell;
	struct tb_result result = { 0 };
	json_t *answer = NULL;
	int rc = codec_cell_read(json_object_get(req, "cell"), &cell, e);

	if (!rc)
		rc = controller_run(in->controller, &cell, &result, e);
	if (!rc)
		answer = json_pack("{s:o}", "result", codec_result(&result));
	tb_result_free(&result);
	codec_cell_free(&cell);
	return answer;
}

static json_t *serve_verify(struct inner *in, const json_t *req, struct bace_err *e)
{
	const json_t *pairs = json_object_get(req, "pairs");
	int n = (int)json_array_size(pairs);
	CLEANUP_FREE struct tb_verify *v = calloc((size_t)(n ? n : 1), sizeof(*v));
	int rc;

	if (!v) {
		bace_fail(e, ENOMEM, "verify: out of memory");
		return NULL;
	}
	rc = codec_verify_read(pairs, n, v, e);
	if (!rc)
		rc = controller_verify(in->controller, n, v,
				       json_number_value(json_object_get(req, "goodput_s")), e);
	return rc ? NULL : json_pack("{s:o}", "pairs", codec_verify(n, v));
}

static json_t *serve_script(struct inner *in, const json_t *req, struct bace_err *e)
{
	struct tb_script script;
	struct tb_log log = { 0 };
	json_t *answer = NULL;
	int rc = codec_script_read(json_object_get(req, "script"), &script, e);

	if (!rc)
		rc = controller_script(in->controller, &script, &log, e);
	if (!rc)
		answer = json_pack("{s:o}", "log", codec_log(&log));
	tb_log_free(&log);
	codec_script_free(&script);
	return answer;
}

static json_t *serve_look(struct inner *in, const json_t *req, struct bace_err *e)
{
	int n = in->net.n_regions * in->net.n_regions;
	CLEANUP_FREE struct tb_view_link *v = calloc((size_t)n + 1, sizeof(*v));

	if (!v) {
		bace_fail(e, ENOMEM, "look: out of memory");
		return NULL;
	}
	if (controller_look(in->controller, json_number_value(json_object_get(req, "seconds")), v, e))
		return NULL;
	return json_pack("{s:o}", "view", codec_view(n, v));
}

static json_t *serve(struct inner *in, const char *op, const json_t *req, struct bace_err *e)
{
	if (!strcmp(op, "open"))
		return bring_up(in, e) ? NULL : json_pack("{s:b}", "ok", 1);
	if (!in->controller) {
		bace_fail(e, EPROTO, "%s before open", op);
		return NULL;
	}
	if (mend(in, e))
		return NULL;
	if (!strcmp(op, "mend"))
		return json_pack("{s:b}", "ok", 1);
	if (!strcmp(op, "run"))
		return serve_run(in, req, e);
	if (!strcmp(op, "script"))
		return serve_script(in, req, e);
	if (!strcmp(op, "verify"))
		return serve_verify(in, req, e);
	if (!strcmp(op, "look"))
		return serve_look(in, req, e);
	if (!strcmp(op, "inventory")) {
		CLEANUP_FREE char *text = NULL;

		if (controller_inventory(in->controller, &text, e))
			return NULL;
		return json_pack("{s:s}", "inventory", text);
	}
	bace_fail(e, EPROTO, "unknown request `%s'", op);
	return NULL;
}

static int serve_all(struct inner *in)
{
	FILE *requests = fdopen(in->in, "r");
	char *line = NULL;
	size_t cap = 0;
	bool done = false;

	send_line(in, json_pack("{s:b}", "ready", 1));
	while (requests && !done && getline(&line, &cap, requests) > 0) {
		struct bace_err e = { 0 };
		json_error_t je;
		json_t *req = json_loads(line, 0, &je), *answer = NULL;
		const char *op = json_string_value(json_object_get(req, "op"));

		if (op && !strcmp(op, "close")) {
			done = true;
			answer = json_pack("{s:b}", "ok", 1);
		} else if (!op) {
			bace_fail(&e, EPROTO, "request: %s", req ? "no `op'" : je.text);
		} else {
			answer = serve(in, op, req, &e);
		}
		if (!answer)
			answer = json_pack("{s:s,s:i}", "error", e.msg, "errno", e.errnum);
		send_line(in, answer);
		json_decref(req);
	}
	free(line);
	controller_close(in->controller);
	return 0;
}

static int parse_args(struct inner *in, int argc, char **argv)
{
	static const struct option options[] = {
		{ "experiment", 1, NULL, 'e' }, { "delay", 1, NULL, 'd' },
		{ "message", 1, NULL, 'm' }, { "min-message", 1, NULL, 's' },
		{ "jobs-on-link", 1, NULL, 'j' }, { "in", 1, NULL, 'i' }, { "out", 1, NULL, 'o' },
		{ 0 } };
	int c, out = -1;

	in->in = -1;
	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'e': in->exp_path = optarg; break;
		case 'd': in->delay = strcmp(optarg, "netem") ? DELAY_NFQUEUE : DELAY_NETEM; break;
		case 'm': in->traffic.message_bytes = strtoull(optarg, NULL, 10); break;
		case 's': in->traffic.min_message_bytes = strtoull(optarg, NULL, 10); break;
		case 'j': in->traffic.jobs_on_link = atoi(optarg); break;
		case 'i': in->in = atoi(optarg); break;
		case 'o': out = atoi(optarg); break;
		default: return -EINVAL;
		}
	}
	if (!in->exp_path || in->in < 0 || out < 0)
		return -EINVAL;
	fcntl(in->in, F_SETFD, FD_CLOEXEC);
	fcntl(out, F_SETFD, FD_CLOEXEC);
	in->out = fdopen(out, "w");
	return in->out ? 0 : -errno;
}

int lab_inner_main(int argc, char **argv)
{
	static struct inner in;
	struct bace_err e = { 0 };
	ssize_t n;

	if (parse_args(&in, argc, argv)) {
		fprintf(stderr, "bace lab-inner: not meant to be called by hand\n");
		return BACE_EXIT_INPUT;
	}
	n = readlink("/proc/self/exe", in.self, sizeof(in.self) - 1);
	if (n <= 0 || proc_reaper_start(&e) || proc_watch_life(in.in, &e)) {
		fprintf(stderr, "bace lab-inner: %s\n", e.msg[0] ? e.msg : "cannot read /proc/self/exe");
		return BACE_EXIT_FAILED;
	}
	return serve_all(&in);
}
