/* What the hosts are, and how each reaches the others. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "harness/control/internal.h"

struct inventory_task {
	struct task task;
	struct controller *c;
	int waiting;
	char *json;
};

/* A host with ranks of that region; NULL: there is none. */
static const struct tb_host *one_of(const struct controller *c, int region)
{
	for (int i = 0; i < c->n_hosts; i++)
		if (c->hosts[i].spec->region == region && !c->hosts[i].spec->gateway)
			return c->hosts[i].spec;
	return NULL;
}

static bool is_other(const struct host *h, int region)
{
	return region != h->spec->region && one_of(h->c, region);
}

static json_t *others(const struct host *h)
{
	json_t *a = json_array();

	for (int q = 0; q < h->c->cfg.topo->n_regions; q++)
		if (is_other(h, q))
			json_array_append_new(a, json_string(one_of(h->c, q)->addr));
	return a;
}

/* One that says nothing of use, or an agent that does not know the question, has
 * no routes in the inventory. */
static json_t *take_routes(const struct host *h, const json_t *reply)
{
	struct wire_reader r = { .obj = reply, .what = "routes" };
	char control[IFNAMSIZ] = "";
	const json_t *a = wire_read_array(&r, "routes", WIRE_ROUTES_MAX);
	json_t *to = json_object();
	size_t i = 0;

	wire_read_copy(&r, "control", control, sizeof(control));
	for (int q = 0; !r.rc && q < h->c->cfg.topo->n_regions; q++) {
		struct wire_reader one = { .obj = is_other(h, q) ? json_array_get(a, i++) : NULL, .what = "route" };
		char dev[IFNAMSIZ] = "";

		if (!one.obj)
			continue;
		wire_read_copy(&one, "dev", dev, sizeof(dev));
		json_object_set_new(to, h->c->cfg.topo->region_names[q], json_pack("{s:s,s:I,s:I}", "dev", dev,
			"initcwnd", wire_read_int(&one, "initcwnd", 0, UINT32_MAX),
			"initrwnd", wire_read_int(&one, "initrwnd", 0, UINT32_MAX)));
		r.rc = one.rc;
	}
	if (!r.rc)
		return json_pack("{s:s,s:o}", "control", control, "to", to);
	json_decref(to);
	return NULL;
}

static void finish(struct inventory_task *x)
{
	struct controller *c = x->c;
	json_t *all = json_object();

	for (int i = 0; i < c->n_hosts; i++)
		if (c->hosts[i].inventory) {
			json_object_set_new(c->hosts[i].inventory, "clock", clock_describe(&c->hosts[i]));
			json_object_set(all, c->hosts[i].spec->name, c->hosts[i].inventory);
		}
	x->json = json_dumps(all, JSON_INDENT(1) | JSON_SORT_KEYS);
	json_decref(all);
	task_finish(c, &x->task, x->json ? 0 : bace_fail(&x->task.e, ENOMEM, "inventory: out of memory"));
}

static void on_routes(void *arg, struct host *h, const json_t *reply, const struct bace_err *err)
{
	struct inventory_task *x = arg;
	json_t *routes = reply ? take_routes(h, reply) : NULL;

	if (routes && h->inventory)
		json_object_set(h->inventory, "routes", routes);
	json_decref(routes);
	if (--x->waiting == 0)
		finish(x);
}

static void start_inventory(struct controller *c, struct task *t)
{
	struct inventory_task *x = (struct inventory_task *)t;

	x->waiting = 1;
	for (int i = 0; i < c->n_hosts; i++) {
		if (!host_ready(&c->hosts[i]))
			continue;
		x->waiting++;
		host_request(&c->hosts[i], json_pack("{s:s,s:o}", "type", "routes", "addrs", others(&c->hosts[i])),
			     ANSWER_S, on_routes, x);
	}
	if (--x->waiting == 0)
		finish(x);
}

int controller_inventory(struct controller *c, char **json, struct bace_err *e)
{
	struct inventory_task x = { .task.start = start_inventory, .c = c };
	int rc = task_run(c, &x.task, e);

	if (!rc)
		*json = x.json;
	return rc;
}
