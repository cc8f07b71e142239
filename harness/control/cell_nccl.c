#include <errno.h>
#include <string.h>

#include "harness/control/cell.h"

#define ID_HEX 256
#define GPUS_MAX 256

static bool over_network(const struct cell_run *r, int job, int hop)
{
	const struct cell_hop *h = &r->jobs[job].hops[hop];

	return !r->cell->jobs[job].hops[hop].local && h->from != h->to;
}

bool cell_is_nccl(const struct cell_run *r, int job)
{
	if (r->cell->transport != TRANSPORT_NCCL)
		return false;
	for (int h = 0; h < tb_hops(&r->cell->jobs[job]); h++)
		if (over_network(r, job, h))
			return true;
	return false;
}

/* NCCL's hops listen at no port of ours; instead the first stage says the id. */
void cell_nccl_prepare(struct cell_run *r)
{
	for (int i = 0; i < r->n_ranks; i++)
		if (cell_is_nccl(r, r->ranks[i].job) || r->cell->compute == COMPUTE_ON_GPU)
			r->ranks[i].proc.program = "worker-nccl";
	for (int j = 0; j < r->cell->n_jobs; j++) {
		if (!cell_is_nccl(r, j))
			continue;
		for (int h = 0; h < tb_hops(&r->cell->jobs[j]); h++)
			if (over_network(r, j, h))
				r->ranks[r->jobs[j].hops[h].to].n_listening--;
		r->ranks[r->jobs[j].rank_of_stage[0]].n_listening++;
	}
}

/* Ranks of one machine take its GPUs in turn; the worker knows how many there are. */
static int gpu_of(const struct cell_run *r, const struct cell_rank *k)
{
	int n = 0;

	for (int i = 0; i < k->proc.rank; i++)
		n += host_same_machine(r->ranks[i].proc.host, k->proc.host);
	return n % GPUS_MAX;
}

static bool is_nccl_hop(const struct cell_run *r, const struct cell_rank *k, const json_t *hop)
{
	return over_network(r, k->job, (int)json_integer_value(json_object_get(hop, "hop")));
}

json_t *cell_nccl_config(const struct cell_run *r, const struct cell_rank *k, json_t *config)
{
	json_t *hop;
	size_t i;

	if (!cell_is_nccl(r, k->job))
		return config;
	json_array_foreach(json_object_get(config, "hops"), i, hop)
		if (is_nccl_hop(r, k, hop))
			json_object_set_new(hop, "kind", json_string("nccl"));
	json_object_set_new(config, "nccl", json_pack("{s:s,s:i,s:i}", "addr", k->proc.host->spec->addr, "gpu",
		gpu_of(r, k), "threads", r->cell->sockets_per_hop > 1 ? r->cell->sockets_per_hop : 1));
	return config;
}

json_t *cell_nccl_connects(const struct cell_run *r, const struct cell_rank *k, json_t *command)
{
	json_t *hops = json_object_get(command, "hops"), *peers = json_array();

	if (!cell_is_nccl(r, k->job)) {
		json_decref(peers);
		return command;
	}
	for (size_t i = json_array_size(hops); i-- > 0;)
		if (is_nccl_hop(r, k, json_array_get(hops, i)))
			json_array_remove(hops, i);
	for (int h = 0; h < tb_hops(&r->cell->jobs[k->job]); h++) {
		const struct cell_hop *hop = &r->jobs[k->job].hops[h];
		int other = hop->from == k->proc.rank ? hop->to : hop->from;

		if (over_network(r, k->job, h) && (hop->from == k->proc.rank || hop->to == k->proc.rank))
			json_array_append_new(peers, json_pack("{s:i,s:s}", "hop", h, "addr",
				r->ranks[other].proc.host->spec->addr));
	}
	json_object_set_new(command, "nccl_id", json_string(r->jobs[k->job].nccl_id));
	json_object_set_new(command, "nccl_peers", peers);
	return command;
}

int cell_nccl_take_id(struct cell_rank *k, const json_t *line, struct bace_err *e)
{
	const char *id = json_string_value(json_object_get(line, "id"));
	struct cell_job *job = &k->run->jobs[k->job];

	if (!id || strlen(id) != ID_HEX || job->nccl_id[0] || job->rank_of_stage[0] != k->proc.rank ||
	    !cell_is_nccl(k->run, k->job))
		return bace_fail(e, EPROTO, "%s: says an NCCL id that was not asked for", k->proc.what);
	memcpy(job->nccl_id, id, ID_HEX + 1);
	k->n_ports++;
	return 0;
}
