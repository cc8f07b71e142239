#include "harness/run/bed.h"

#include <errno.h>
#include <stdlib.h>

struct bed_ops {
	void (*close)(void *p);
	int (*run)(void *p, const struct tb_cell *cell, struct tb_result *out, struct bace_err *e);
	int (*verify)(void *p, int n, struct tb_verify *pairs, double goodput_s, struct bace_err *e);
	int (*look)(void *p, double seconds, struct tb_view_link *out, struct bace_err *e);
	int (*inventory)(void *p, char **json, struct bace_err *e);
	const struct lab_net *(*net)(const void *p);
	const char *(*log_tail)(const void *p);
	const char *(*lacks)(const void *p, size_t i);
};

struct bed {
	const struct bed_ops *ops;
	void *p;
};

/* ---- a lab ---- */

static void lab_close(void *p)
{
	testbed_close(p);
}

static int lab_run(void *p, const struct tb_cell *cell, struct tb_result *out, struct bace_err *e)
{
	return testbed_run(p, cell, out, e);
}

static int lab_verify(void *p, int n, struct tb_verify *pairs, double goodput_s, struct bace_err *e)
{
	return testbed_verify(p, n, pairs, goodput_s, e);
}

static int lab_look(void *p, double seconds, struct tb_view_link *out, struct bace_err *e)
{
	return testbed_look(p, seconds, out, e);
}

static int lab_inventory(void *p, char **json, struct bace_err *e)
{
	return testbed_inventory(p, json, e);
}

static const struct lab_net *lab_net(const void *p)
{
	return testbed_net(p);
}

static const char *lab_log(const void *p)
{
	return testbed_log_tail(p);
}

static const char *lab_lacks(const void *p, size_t i)
{
	return NULL;
}

static const struct bed_ops lab_ops = { lab_close, lab_run, lab_verify, lab_look, lab_inventory, lab_net, lab_log,
					lab_lacks };

/* ---- real hosts ---- */

static void hosts_close(void *p)
{
	launched_close(p);
}

static int hosts_run(void *p, const struct tb_cell *cell, struct tb_result *out, struct bace_err *e)
{
	return launched_run(p, cell, out, e);
}

static int hosts_verify(void *p, int n, struct tb_verify *pairs, double goodput_s, struct bace_err *e)
{
	return launched_verify(p, n, pairs, goodput_s, e);
}

static int hosts_look(void *p, double seconds, struct tb_view_link *out, struct bace_err *e)
{
	return launched_look(p, seconds, out, e);
}

static int hosts_inventory(void *p, char **json, struct bace_err *e)
{
	return launched_inventory(p, json, e);
}

static const struct lab_net *hosts_net(const void *p)
{
	return launched_net(p);
}

static const char *hosts_log(const void *p)
{
	return "";
}

static const char *hosts_lacks(const void *p, size_t i)
{
	return launched_lacks(p, i);
}

static const struct bed_ops hosts_ops = { hosts_close, hosts_run, hosts_verify, hosts_look, hosts_inventory, hosts_net,
					  hosts_log, hosts_lacks };

static int open_hosts(const struct bed_config *cfg, struct bed *b, struct bace_err *e)
{
	const struct testbed_config *t = &cfg->lab;
	struct launched *l = NULL;
	int rc = launched_open(&(struct launch_config){ .o = cfg->launch, .exp = cfg->exp, .cluster = &cfg->exp->cluster,
		.scale_bytes = cfg->exp->testbed.scale_bytes, .scale_time = cfg->exp->testbed.scale_time,
		.traffic = t->traffic, .backend = t->backend, .on_progress = t->on_progress,
		.cancelled = t->cancelled, .arg = t->arg }, &l, e);

	b->ops = &hosts_ops;
	b->p = l;
	return rc;
}

static int open_lab(const struct bed_config *cfg, struct bed *b, struct bace_err *e)
{
	struct testbed *t = NULL;
	int rc = testbed_open(&cfg->lab, &t, e);

	b->ops = &lab_ops;
	b->p = t;
	return rc;
}

int bed_open(const struct bed_config *cfg, struct bed **out, struct bace_err *e)
{
	struct bed *b = calloc(1, sizeof(*b));
	int rc;

	if (!b)
		return bace_fail(e, ENOMEM, "testbed: out of memory");
	rc = cfg->launch ? open_hosts(cfg, b, e) : open_lab(cfg, b, e);
	if (rc)
		free(b);
	else
		*out = b;
	return rc;
}

void bed_close(struct bed *b)
{
	if (!b)
		return;
	b->ops->close(b->p);
	free(b);
}

int bed_run(struct bed *b, const struct tb_cell *cell, struct tb_result *out, struct bace_err *e)
{
	return b->ops->run(b->p, cell, out, e);
}

int bed_verify(struct bed *b, int n, struct tb_verify *pairs, double goodput_s, struct bace_err *e)
{
	return b->ops->verify(b->p, n, pairs, goodput_s, e);
}

int bed_look(struct bed *b, double seconds, struct tb_view_link *out, struct bace_err *e)
{
	return b->ops->look(b->p, seconds, out, e);
}

int bed_inventory(struct bed *b, char **json, struct bace_err *e)
{
	return b->ops->inventory(b->p, json, e);
}

const struct lab_net *bed_net(const struct bed *b)
{
	return b->ops->net(b->p);
}

const char *bed_log_tail(const struct bed *b)
{
	return b->ops->log_tail(b->p);
}

const char *bed_lacks(const struct bed *b, size_t i)
{
	return b->ops->lacks(b->p, i);
}
