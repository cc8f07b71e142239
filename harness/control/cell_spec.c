#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "harness/control/cell.h"

#define RANKS_MAX 4096
#define CONNECT_TIMEOUT_MS 20000
#define PEER_TIMEOUT_MS 2000

static bool is_replicated(const struct tb_job *j)
{
	return j->replicas > 1;
}

int cell_next_replica(const struct cell_run *r, int job)
{
	const struct tb_job *j = &r->cell->jobs[job];

	return is_replicated(j) ? job - j->replica + (j->replica + 1) % j->replicas : job;
}

static int first_replica(const struct cell_run *r, int job)
{
	const struct tb_job *j = &r->cell->jobs[job];

	return is_replicated(j) ? job - j->replica : job;
}

static int check_replicas(const struct cell_run *r, int job, struct bace_err *e)
{
	const struct tb_job *j = &r->cell->jobs[job], *first;
	int at = job - j->replica;

	if (!is_replicated(j))
		return 0;
	first = at >= 0 ? &r->cell->jobs[at] : NULL;
	if (!first || j->replica < 0 || j->replica >= j->replicas || at + j->replicas > r->cell->n_jobs ||
	    first->replica || first->replicas != j->replicas || first->n_stages != j->n_stages || !j->rings)
		return bace_fail(e, EINVAL, "cell: job %s: replica %d of %d: they must follow each other and be alike",
				 j->name, j->replica, j->replicas);
	if (r->cell->transport == TRANSPORT_NCCL)
		return bace_fail(e, ENOTSUP, "cell: job %s: replicas need transport \"tcp\"", j->name);
	return 0;
}

static int check_job(const struct cell_run *r, int j, struct bace_err *e)
{
	const struct tb_job *job = &r->cell->jobs[j];
	const struct tb_topology *t = r->c->cfg.topo;

	if (job->n_stages < 1)
		return bace_fail(e, EINVAL, "cell: job %s has no stages", job->name);
	if (check_replicas(r, j, e))
		return -e->errnum;
	for (int i = 0; i < job->n_stages; i++) {
		const struct tb_stage *s = &job->stages[i];

		if (s->host < 0 || s->host >= t->n_hosts)
			return bace_fail(e, EINVAL, "cell: %s stage %d: no host %d", job->name, i, s->host);
		if (t->hosts[s->host].gateway)
			return bace_fail(e, EINVAL, "cell: %s stage %d: %s is a gateway and runs no ranks",
					 job->name, i, t->hosts[s->host].name);
		if (s->region < 0 || s->region >= t->n_regions || s->region != t->hosts[s->host].region)
			return bace_fail(e, EINVAL, "cell: %s stage %d: host %s is not in region %d", job->name,
					 i, t->hosts[s->host].name, s->region);
	}
	return 0;
}

static struct cell_rank *find_rank(struct cell_run *r, int job, int worker)
{
	for (int i = r->n_ranks - 1; i >= 0 && r->ranks[i].job == job; i--)
		if (r->ranks[i].worker == worker)
			return &r->ranks[i];
	return NULL;
}

static struct cell_rank *add_rank(struct cell_run *r, int job, int stage)
{
	const struct tb_job *j = &r->cell->jobs[job];
	const struct tb_stage *s = &j->stages[stage];
	struct cell_rank *k = &r->ranks[r->n_ranks];

	*k = (struct cell_rank){ .run = r, .job = job, .worker = s->worker, .host = s->host,
				 .region = s->region, .first_stage = stage };
	k->proc.host = &r->c->hosts[s->host];
	k->proc.rank = r->n_ranks++;
	return k;
}

static int place_stages(struct cell_run *r, int job, struct bace_err *e)
{
	const struct tb_job *j = &r->cell->jobs[job];
	struct cell_job *out = &r->jobs[job];

	for (int i = 0; i < j->n_stages; i++) {
		struct cell_rank *k = find_rank(r, job, j->stages[i].worker);

		if (!k)
			k = add_rank(r, job, i);
		if (k->host != j->stages[i].host)
			return bace_fail(e, EINVAL, "cell: %s: worker %d would be on two hosts, %s and %s", j->name,
					 j->stages[i].worker, k->proc.host->spec->name,
					 r->c->hosts[j->stages[i].host].spec->name);
		k->n_stages++;
		out->rank_of_stage[i] = k->proc.rank;
	}
	for (int h = 0; h < tb_hops(j); h++) {
		out->hops[h] = (struct cell_hop){ .from = out->rank_of_stage[h], .to = out->rank_of_stage[(h + 1) % j->n_stages] };
		if (out->hops[h].from != out->hops[h].to)
			r->ranks[out->hops[h].to].n_listening++;
	}
	return 0;
}

static void name_rank(struct cell_run *r, struct cell_rank *k)
{
	const char *job = r->cell->jobs[k->job].name, *host = k->proc.host->spec->name;

	if (k->n_stages == 1)
		snprintf(k->proc.what, sizeof(k->proc.what), "rank %d (%s, stage %d) on %s", k->proc.rank, job,
			 k->first_stage, host);
	else
		snprintf(k->proc.what, sizeof(k->proc.what), "rank %d (%s, %d stages from %d) on %s",
			 k->proc.rank, job, k->n_stages, k->first_stage, host);
}

bool host_same_machine(const struct host *a, const struct host *b)
{
	const char *x = json_string_value(json_object_get(a->inventory, "boot_id"));
	const char *y = json_string_value(json_object_get(b->inventory, "boot_id"));

	return a == b || (x && y && x[0] && !strcmp(x, y));
}

/* Ranks of one host are spread over its cores. Where several agents share a
 * machine, as in the lab, its scheduler knows better. */
void cell_give_slots(struct cell_run *r)
{
	for (int i = 0; i < r->n_ranks; i++) {
		struct proc *p = &r->ranks[i].proc;
		bool shared = false;

		for (int k = 0; k < r->c->n_hosts && !shared; k++)
			shared = &r->c->hosts[k] != p->host && host_same_machine(&r->c->hosts[k], p->host);
		if (shared)
			continue;
		for (int k = 0; k < r->n_ranks; k++) {
			if (r->ranks[k].host != r->ranks[i].host)
				continue;
			p->slot += k < i;
			p->slots++;
		}
	}
}

static int place_rings(struct cell_run *r, int job, struct bace_err *e)
{
	const struct tb_job *j = &r->cell->jobs[job];
	const struct cell_job *next = &r->jobs[cell_next_replica(r, job)];

	if (!is_replicated(j))
		return 0;
	r->jobs[job].rings = calloc((size_t)j->n_stages, sizeof(struct cell_hop));
	if (!r->jobs[job].rings)
		return bace_fail(e, ENOMEM, "cell: out of memory");
	for (int i = 0; i < j->n_stages; i++) {
		r->jobs[job].rings[i] = (struct cell_hop){ .from = r->jobs[job].rank_of_stage[i], .to = next->rank_of_stage[i] };
		r->ranks[next->rank_of_stage[i]].n_listening++;
	}
	return 0;
}

struct cell_hop *cell_hop_at(const struct cell_run *r, const struct cell_rank *k, int number, bool listens)
{
	const struct tb_job *j = &r->cell->jobs[k->job];
	int before = is_replicated(j) ? k->job - j->replica + (j->replica + j->replicas - 1) % j->replicas : k->job;
	struct cell_hop *h = NULL;

	if (number >= 0 && number < tb_hops(j))
		h = &r->jobs[k->job].hops[number];
	else if (is_replicated(j) && number >= j->n_stages && number < 2 * j->n_stages)
		h = &r->jobs[listens ? before : k->job].rings[number - j->n_stages];
	return h && h->from != h->to && (listens ? h->to : h->from) == k->proc.rank ? h : NULL;
}

int cell_ranks_build(struct cell_run *r, struct bace_err *e)
{
	size_t stages = 0;

	r->jobs = calloc((size_t)r->cell->n_jobs + 1, sizeof(*r->jobs));
	if (!r->jobs || r->cell->n_jobs < 1)
		return bace_fail(e, r->jobs ? EINVAL : ENOMEM, "cell: no jobs, or out of memory");
	for (int j = 0; j < r->cell->n_jobs; j++) {
		int rc = check_job(r, j, e);

		if (rc)
			return rc;
		stages += (size_t)r->cell->jobs[j].n_stages;
	}
	r->ranks = calloc(stages, sizeof(*r->ranks));
	if (!r->ranks)
		return bace_fail(e, ENOMEM, "cell of %zu stages: out of memory", stages);
	for (int j = 0; j < r->cell->n_jobs; j++) {
		size_t n = (size_t)r->cell->jobs[j].n_stages;
		int rc;

		r->jobs[j].rank_of_stage = calloc(n, sizeof(int));
		r->jobs[j].hops = calloc(n, sizeof(struct cell_hop));
		if (!r->jobs[j].rank_of_stage || !r->jobs[j].hops)
			return bace_fail(e, ENOMEM, "cell of %zu stages: out of memory", stages);
		rc = place_stages(r, j, e);
		if (rc)
			return rc;
	}
	for (int j = 0; j < r->cell->n_jobs; j++) {
		int rc = place_rings(r, j, e);

		if (rc)
			return rc;
	}
	if (r->n_ranks > RANKS_MAX)
		return bace_fail(e, E2BIG, "cell: %d ranks, at most %d", r->n_ranks, RANKS_MAX);
	for (int i = 0; i < r->n_ranks; i++)
		name_rank(r, &r->ranks[i]);
	cell_nccl_prepare(r);
	r->token = random_token();
	return 0;
}

void cell_ranks_free(struct cell_run *r)
{
	for (int j = 0; r->jobs && j < r->cell->n_jobs; j++) {
		free(r->jobs[j].rank_of_stage);
		free(r->jobs[j].hops);
		free(r->jobs[j].rings);
	}
	free(r->jobs);
	free(r->ranks);
}

static json_t *stages_json(const struct cell_run *r, const struct cell_rank *k)
{
	const struct tb_job *j = &r->cell->jobs[k->job];
	json_t *a = json_array();

	for (int i = 0; i < j->n_stages; i++) {
		if (r->jobs[k->job].rank_of_stage[i] != k->proc.rank)
			continue;
		json_array_append_new(a, json_pack("{s:i,s:I,s:I,s:I}", "stage", i, "fwd_ns",
			(json_int_t)j->stages[i].fwd_ns, "bwd_ns", (json_int_t)j->stages[i].bwd_ns, "w_ns",
			(json_int_t)j->stages[i].w_ns));
	}
	return a;
}

static json_t *hop_json(const struct cell_rank *k, int number, const char *role, const struct tb_hop *spec)
{
	json_t *o = json_pack("{s:i,s:s,s:s,s:I,s:s}", "hop", number, "kind", spec->local ? "local" : "tcp",
			      "role", role, "bytes", (json_int_t)spec->bytes, "addr", k->proc.host->spec->addr);

	if (spec->local) {
		json_object_set_new(o, "rate_bps", json_integer((json_int_t)spec->local_rate_bps));
		json_object_set_new(o, "latency_ns", json_integer((json_int_t)spec->local_latency_ns));
		return o;
	}
	json_object_set_new(o, "rate_bps", json_integer((json_int_t)spec->rate_bps));
	json_object_set_new(o, "reverse_rate_bps", json_integer((json_int_t)spec->reverse_rate_bps));
	json_object_set_new(o, "latency_ns", json_integer((json_int_t)spec->latency_ns));
	json_object_set_new(o, "reverse_latency_ns", json_integer((json_int_t)spec->reverse_latency_ns));
	return o;
}

/* Both ends of the ring of each stage here: to the next replica, from the one before. */
static void add_rings(const struct cell_run *r, const struct cell_rank *k, json_t *a)
{
	const struct tb_job *j = &r->cell->jobs[k->job];
	const struct tb_job *before = j - j->replica + (j->replica + j->replicas - 1) % (is_replicated(j) ? j->replicas : 1);

	for (int i = 0; is_replicated(j) && i < j->n_stages; i++) {
		if (r->jobs[k->job].rank_of_stage[i] != k->proc.rank)
			continue;
		json_array_append_new(a, hop_json(k, j->n_stages + i, "connect", &j->rings[i]));
		json_array_append_new(a, hop_json(k, j->n_stages + i, "listen", &before->rings[i]));
	}
}

static json_t *hops_json(const struct cell_run *r, const struct cell_rank *k)
{
	const struct tb_job *j = &r->cell->jobs[k->job];
	json_t *a = json_array();

	for (int h = 0; h < tb_hops(j); h++) {
		const struct cell_hop *hop = &r->jobs[k->job].hops[h];
		const char *role = hop->from == hop->to ? "internal" : hop->to == k->proc.rank ? "listen" : "connect";

		if (hop->from == k->proc.rank || hop->to == k->proc.rank)
			json_array_append_new(a, hop_json(k, h, role, &j->hops[h]));
	}
	add_rings(r, k, a);
	return a;
}

bool cell_shares_clock(const struct cell_run *r, int job)
{
	const struct host *first = NULL;

	for (int i = 0; i < r->n_ranks; i++) {
		if (first_replica(r, r->ranks[i].job) != first_replica(r, job))
			continue;
		if (!first)
			first = r->ranks[i].proc.host;
		if (!host_same_machine(first, r->ranks[i].proc.host))
			return false;
	}
	return true;
}

/* A packet may be that long on its way, repeated a few times, before silence
 * means anything. */
static json_int_t peer_timeout_ms(const struct tb_job *j)
{
	int64_t longest = 0;

	for (int h = 0; h < tb_hops(j); h++) {
		int64_t rtt = j->hops[h].latency_ns + j->hops[h].reverse_latency_ns;

		longest = rtt > longest ? rtt : longest;
	}
	for (int i = 0; j->rings && i < j->n_stages; i++) {
		int64_t rtt = j->rings[i].latency_ns + j->rings[i].reverse_latency_ns;

		longest = rtt > longest ? rtt : longest;
	}
	return PEER_TIMEOUT_MS + 8 * longest / 1000000;
}

json_t *cell_rank_config(const struct cell_run *r, const struct cell_rank *k)
{
	static const char *const compute_word[] = {
		[COMPUTE_AS_TIMED] = "timed", [COMPUTE_ON_CPU] = "cpu", [COMPUTE_ON_GPU] = "cuda",
	};
	const struct tb_job *j = &r->cell->jobs[k->job];

	json_t *config = json_pack("{s:s,s:i,s:I,s:s,s:i,s:s,s:b,s:s,s:i,s:i,s:i,s:b,s:o,s:o,s:i,s:i,s:s,s:s,s:i,s:i,s:I,s:I,s:i,s:i}",
		"mode", "pipeline", "job", first_replica(r, k->job), "token", r->token, "name", j->name, "rank", k->proc.rank, "host", k->proc.host->spec->name,
		"shared_clock", cell_shares_clock(r, k->job), "schedule", schedule_name(j->schedule), "chunks", j->chunks,
		"micro_batches", j->micro_batches, "n_stages", j->n_stages, "overlap", j->overlap,
		"stages", stages_json(r, k), "hops", hops_json(r, k), "warmup_steps", r->cell->warmup_steps,
		"steps", r->cell->steps, "congestion_control", r->cell->congestion_control,
		"compute", compute_word[r->cell->compute],
		"sockets", r->cell->sockets_per_hop > 1 ? r->cell->sockets_per_hop : 1,
		"connect_timeout_ms", CONNECT_TIMEOUT_MS, "peer_timeout_ms", peer_timeout_ms(j),
		"step_timeout_ms", (json_int_t)(r->cell->timeout_s * 1e3),
		"replicas", is_replicated(j) ? j->replicas : 1, "replica", is_replicated(j) ? j->replica : 0);

	json_object_set_new(config, "hidden", json_integer(j->hidden));
	if (r->cell->timeline_sends)
		json_object_set_new(config, "timeline", json_string("full"));
	if (r->cell->steady_ppm > 0)
		json_object_set_new(config, "steady", json_pack("{s:i,s:i}", "ppm", r->cell->steady_ppm, "steps",
				    r->cell->steady_steps));
	return cell_nccl_config(r, k, config);
}

json_t *cell_rank_connects(const struct cell_run *r, const struct cell_rank *k)
{
	const struct tb_job *j = &r->cell->jobs[k->job];
	json_t *a = json_array();

	for (int h = 0; h < 2 * j->n_stages; h++) {
		const struct cell_hop *hop = cell_hop_at(r, k, h, false);

		if (!hop)
			continue;
		json_array_append_new(a, json_pack("{s:i,s:s,s:i}", "hop", h, "addr",
			r->ranks[hop->to].proc.host->spec->addr, "port", hop->port));
	}
	return cell_nccl_connects(r, k, json_pack("{s:s,s:o}", "cmd", "connect", "hops", a));
}

static bool region_on_network(const struct cell_run *r, int region)
{
	for (int j = 0; j < r->cell->n_jobs; j++) {
		const struct tb_job *job = &r->cell->jobs[j];

		for (int h = 0; h < tb_hops(job); h++) {
			int a = job->stages[h].region, b = job->stages[(h + 1) % job->n_stages].region;

			if (a != b && !job->hops[h].local && (a == region || b == region))
				return true;
		}
		for (int i = 0; job->rings && i < job->n_stages; i++) {
			int a = job->stages[i].region, b = r->cell->jobs[cell_next_replica(r, j)].stages[i].region;

			if (a != b && !job->rings[i].local && (a == region || b == region))
				return true;
		}
	}
	return false;
}

bool cell_reads(const struct cell_run *r, const struct host *h)
{
	return r->c->plan_wanted && h->spec->shape.n_links > 0 && region_on_network(r, h->spec->region);
}

void cell_mark_needed(struct cell_run *r)
{
	for (int i = 0; i < r->n_ranks; i++)
		r->needed[r->ranks[i].host] = true;
	for (int i = 0; i < r->c->n_hosts; i++)
		if (cell_reads(r, &r->c->hosts[i]))
			r->needed[i] = true;
}
