/* Measured energy of the hosts with ranks, where they have counters of it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "harness/control/cell.h"

static void on_energy(void *arg, struct host *h, const json_t *reply, const struct bace_err *err)
{
	struct cell_run *r = arg;
	json_t **to = r->phase == PHASE_START ? r->energy[0] : r->energy[1];

	if (r->phase != PHASE_START && r->phase != PHASE_AFTER)
		return;
	/* One that fails has no energy in the result, and is no reason to lose the cell. */
	if (!err && !to[h->index])
		to[h->index] = json_incref((json_t *)reply);
	cell_counted(r);
}

void cell_energy_ask(struct cell_run *r)
{
	for (int i = 0; i < r->c->n_hosts; i++) {
		struct host *h = &r->c->hosts[i];
		bool has_ranks = false;

		for (int k = 0; k < r->n_ranks && !has_ranks; k++)
			has_ranks = r->ranks[k].host == i;
		if (!has_ranks || json_integer_value(json_object_get(h->inventory, "energy_counters")) < 1)
			continue;
		r->waiting++;
		host_request(h, json_pack("{s:s}", "type", "energy"), ANSWER_S, on_energy, r);
	}
}

/* The same counter in the answer before; false: there is none. */
static bool before_of(const json_t *before, const char *source, const char *device, json_int_t *uj)
{
	const json_t *a = json_object_get(before, "readings");

	for (size_t i = 0; i < json_array_size(a); i++) {
		const json_t *row = json_array_get(a, i);
		const char *s = json_string_value(json_array_get(row, 0)), *d = json_string_value(json_array_get(row, 1));

		*uj = json_integer_value(json_array_get(row, 2));
		if (s && d && !strcmp(s, source) && !strcmp(d, device))
			return true;
	}
	return false;
}

static int add_row(struct cell_run *r, int host, const json_t *row, size_t *cap)
{
	const json_t *before = r->energy[0][host], *after = r->energy[1][host];
	const char *source = json_string_value(json_array_get(row, 0));
	const char *device = json_string_value(json_array_get(row, 1));
	json_int_t uj = json_integer_value(json_array_get(row, 2)), range = json_integer_value(json_array_get(row, 3));
	struct tb_energy e = { 0 };
	size_t n = (size_t)r->out->n_energy;
	json_int_t was;

	if (!source || !device || !before_of(before, source, device, &was))
		return 0;
	/* RAPL's counters begin anew every few minutes to hours. */
	if (uj < was)
		uj += range;
	if (uj < was)
		return 0;
	snprintf(e.host, sizeof(e.host), "%s", r->c->hosts[host].spec->name);
	snprintf(e.source, sizeof(e.source), "%s", source);
	snprintf(e.device, sizeof(e.device), "%s", device);
	e.energy_j = (double)(uj - was) / 1e6;
	e.seconds = (double)(json_integer_value(json_object_get(after, "at_ns")) -
			     json_integer_value(json_object_get(before, "at_ns"))) / 1e9;
	if (BACE_PUSH(r->out->energy, n, *cap, e))
		return -ENOMEM;
	r->out->n_energy = (int)n;
	return 0;
}

int cell_energy_finish(struct cell_run *r, struct bace_err *e)
{
	size_t cap = 0;

	for (int h = 0; h < r->c->n_hosts; h++) {
		const json_t *a = r->energy[0][h] ? json_object_get(r->energy[1][h], "readings") : NULL;

		for (size_t i = 0; i < json_array_size(a); i++)
			if (add_row(r, h, json_array_get(a, i), &cap))
				return bace_fail(e, ENOMEM, "energy: out of memory");
	}
	return 0;
}
