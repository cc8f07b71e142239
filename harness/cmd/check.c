#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "harness/cmd/cmd.h"
#include "harness/policy/policy.h"
#include "harness/run/run.h"

/* ---- what the profiles cannot know: policies by name ---- */

static int check_policies(const struct experiment *e, struct bace_diags *d, struct bace_err *err)
{
	for (int i = 0; i < e->n_policies; i++) {
		const struct policy_spec *s = &e->policies[i];
		struct policy *p = NULL;
		int rc = policy_create(s, e->seed, &p, err);

		if (rc == -ENOMEM)
			return rc;
		if (rc)
			bace_diag_add(d, s->file, s->line, "key `name' = \"%s\": %s", s->name, err->msg);
		else
			policy_destroy(p);
	}
	return 0;
}

/* ---- what is allowed and yet may surprise ---- */

static int largest_region(const struct cluster *c)
{
	int most = 0;

	for (int r = 0; r < c->n_regions; r++)
		if (c->regions[r].n_gpus > most)
			most = c->regions[r].n_gpus;
	return most;
}

static bool has_single_region_policy(const struct experiment *e)
{
	for (int i = 0; i < e->n_policies; i++)
		if (!strcmp(e->policies[i].name, "lcf") || !strcmp(e->policies[i].name, "ldf") ||
		    !e->policies[i].pathfinder)
			return true;
	return false;
}

struct noting {
	const char *path;
	struct bace_diags *notes;
};

static void add_note(void *arg, const char *text)
{
	const struct noting *n = arg;

	bace_diag_add(n->notes, n->path, 0, "%s", text);
}

static void add_notes(const struct experiment *e, const struct job_models *m, struct bace_diags *notes)
{
	int most = largest_region(&e->cluster);

	for (int j = 0; j < m->n && has_single_region_policy(e); j++)
		if (m->v[j].k_min > most)
			bace_diag_add(notes, e->path, 0,
				      "job %s needs at least %d GPUs and no region has more than %d: a policy "
				      "that stays in one region never places it", e->jobs[j].name,
				      m->v[j].k_min, most);
	if (e->oracle_measured && e->testbed.steps < 3)
		bace_diag_add(notes, e->path, 0, "the testbed runs %d steps a cell: a median of at least 3 "
			      "says more", e->testbed.steps);
	if (e->oracle_measured)
		run_notes(e, add_note, &(struct noting){ e->path, notes });
}

/* ---- summary ---- */

static int n_links(const struct cluster *c, double *least_bps, double *most_bps, double *latency_s)
{
	int n = 0;

	*least_bps = INFINITY;
	*most_bps = *latency_s = 0;
	for (int i = 0; i < c->n_regions * c->n_regions; i++) {
		const struct link *l = &c->links[i];

		if (!l->present)
			continue;
		n++;
		*least_bps = fmin(*least_bps, (double)l->rate_bps);
		*most_bps = fmax(*most_bps, (double)l->rate_bps);
		*latency_s = fmax(*latency_s, (double)l->latency_ns / 1e9);
	}
	return n;
}

static void print_cluster(const struct cluster *c)
{
	char a[BACE_FMT_MAX], b[BACE_FMT_MAX], l[BACE_FMT_MAX];
	double least, most, latency;
	int n = n_links(c, &least, &most, &latency);

	printf("cluster %s: %d regions, %d links", c->name, c->n_regions, n);
	if (n)
		printf(" of %s to %s (L2), one-way latency up to %s", bace_fmt_rate(a, least),
		       bace_fmt_rate(b, most), bace_fmt_time(l, latency));
	printf(", MTU %u\n", c->mtu);
	printf("  %-16s %5s %-16s %12s %14s %5s\n", "region", "GPUs", "type", "bandwidth",
	       "USD/kWh at 0", "PUE");
	for (int r = 0; r < c->n_regions; r++) {
		const struct region *g = &c->regions[r];

		printf("  %-16s %5d %-16s %12s %14.4f %5.2f%s\n", g->name, g->n_gpus,
		       c->gpus[g->gpu].name, bace_fmt_rate(a, g->bandwidth_bps),
		       price_at(&g->price, 0, NULL), g->pue,
		       g->price.n > 1 ? "  price changes with time" : "");
	}
}

static void print_jobs(const struct experiment *e, const struct job_models *m)
{
	char t[BACE_FMT_MAX], d[BACE_FMT_MAX];

	printf("%d job%s, schedule %s\n", e->n_jobs, e->n_jobs == 1 ? "" : "s",
	       schedule_name(e->schedule));
	printf("  %-16s %-20s %10s %4s %9s %6s %6s %12s %12s\n", "job", "model", "arrival", "m",
	       "steps", "k_min", "K*", "step at K*", "in all");
	for (int j = 0; j < e->n_jobs; j++) {
		const struct job *job = &e->jobs[j];
		char a[BACE_FMT_MAX];

		printf("  %-16s %-20s %10s %4d %9.0f %6d %6d %12s %12s\n", job->name,
		       e->models[job->model].name, bace_fmt_time(a, job->arrival_s),
		       job->micro_batches, job->steps, m->v[j].k_min, m->v[j].k_star,
		       bace_fmt_time(t, m->v[j].step_star_s),
		       bace_fmt_time(d, m->v[j].step_star_s * job->steps));
	}
}

static void print_summary(const struct experiment *e, const struct job_models *m,
			  const struct bace_diags *notes)
{
	printf("experiment %s (%s): no errors in %d files\n", e->name, e->path, e->n_files);
	print_cluster(&e->cluster);
	print_jobs(e, m);
	printf("policies:");
	for (int i = 0; i < e->n_policies; i++)
		printf(" %s", e->policies[i].label);
	printf("\noracles:%s%s%s\n", e->oracle_closed_form ? " closed-form" : "",
	       e->oracle_event_sim ? " event-sim" : "", e->oracle_measured ? " measured" : "");
	if (e->oracle_measured)
		printf("testbed: backend %s, bytes x %g, time x %g, %d + %d steps a cell\n",
		       backend_name(e->testbed.backend), e->testbed.scale_bytes,
		       e->testbed.scale_time, e->testbed.warmup_steps, e->testbed.steps);
	for (size_t i = 0; i < notes->n; i++)
		printf("note: %s\n", notes->v[i].text);
}

/* ---- for machines ---- */

static json_t *diags_json(const struct bace_diags *d)
{
	json_t *list = json_array();

	for (size_t i = 0; i < d->n; i++)
		json_array_append_new(list, json_pack("{s:o, s:i, s:o}", "file", json_text(d->v[i].file),
						      "line", d->v[i].line, "message",
						      json_text(d->v[i].text)));
	return list;
}

static json_t *regions_json(const struct cluster *c)
{
	json_t *list = json_array();

	for (int r = 0; r < c->n_regions; r++) {
		const struct region *g = &c->regions[r];

		json_array_append_new(list, json_pack(
			"{s:s, s:i, s:s, s:f, s:f, s:f}", "name", g->name, "gpus", g->n_gpus, "gpu",
			c->gpus[g->gpu].name, "bandwidth_bps", g->bandwidth_bps, "pue", g->pue,
			"usd_per_kwh_at_0", price_at(&g->price, 0, NULL)));
	}
	return list;
}

static json_t *jobs_json(const struct experiment *e, const struct job_models *m)
{
	json_t *list = json_array();

	for (int j = 0; j < e->n_jobs; j++) {
		const struct job *job = &e->jobs[j];

		json_array_append_new(list, json_pack(
			"{s:s, s:s, s:f, s:i, s:f, s:i, s:i, s:f}", "name", job->name, "model",
			e->models[job->model].name, "arrival_s", job->arrival_s, "micro_batches",
			job->micro_batches, "steps", job->steps, "k_min", m->v[j].k_min, "k_star",
			m->v[j].k_star, "step_at_k_star_s", m->v[j].step_star_s));
	}
	return list;
}

static json_t *policies_json(const struct experiment *e)
{
	json_t *list = json_array();

	for (int i = 0; i < e->n_policies; i++)
		json_array_append_new(list, json_string(e->policies[i].label));
	return list;
}

static int print_json(const struct experiment *e, const struct job_models *m,
		      const struct bace_diags *errors, const struct bace_diags *notes)
{
	json_t *root = json_pack("{s:b, s:o}", "ok", !errors->n, "errors", diags_json(errors));
	int rc;

	if (e) {
		char hash[17];

		snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)e->text_hash);
		json_object_set_new(root, "experiment", json_string(e->name));
		json_object_set_new(root, "path", json_string(e->path));
		json_object_set_new(root, "config_hash", json_string(hash));
		json_object_set_new(root, "cluster", json_string(e->cluster.name));
		json_object_set_new(root, "regions", regions_json(&e->cluster));
		json_object_set_new(root, "jobs", jobs_json(e, m));
		json_object_set_new(root, "policies", policies_json(e));
		json_object_set_new(root, "notes", diags_json(notes));
	}
	rc = json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
	putchar('\n');
	json_decref(root);
	return rc ? -EIO : 0;
}

/* ---- the command ---- */

struct checking {
	struct experiment e;
	struct job_models m;
	struct bace_diags errors, notes;
};

/* What is wrong with the whole, not with one line of a file. */
static int refuse(const char *path, bool json, int code, const char *why)
{
	json_t *root;

	if (!json)
		return cmd_error(&cmd_check, code, "%s", why);
	root = json_pack("{s:b, s:[{s:o, s:i, s:o}]}", "ok", 0, "errors", "file", json_text(path), "line", 0, "message",
			 json_text(why));
	json_dumpf(root, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(root);
	return code;
}

static int check(const char *path, bool json, struct checking *c)
{
	struct bace_err err;
	int rc = experiment_load(path, &c->e, &c->errors, &err);

	if (!rc && check_policies(&c->e, &c->errors, &err) == -ENOMEM)
		return refuse(path, json, BACE_EXIT_FAILED, err.msg);
	if (rc && !c->errors.n)
		return refuse(path, json, BACE_EXIT_FAILED, err.msg);
	if (c->errors.n) {
		if (json)
			print_json(NULL, NULL, &c->errors, &c->notes);
		else
			bace_diags_print(&c->errors, stderr);
		return BACE_EXIT_INPUT;
	}
	rc = job_models_build(&c->e, &c->m, &err);
	if (rc)
		bace_err_context(&err, "%s", path);
	if (rc)
		return refuse(path, json, rc == -EINVAL ? BACE_EXIT_INPUT : BACE_EXIT_FAILED, err.msg);
	/* What `bace run' would refuse before it begins. */
	if (c->e.oracle_measured && run_check(&c->e, &err))
		return refuse(path, json, err.errnum == EINVAL ? BACE_EXIT_INPUT : BACE_EXIT_FAILED, err.msg);
	add_notes(&c->e, &c->m, &c->notes);
	if (!json)
		print_summary(&c->e, &c->m, &c->notes);
	else if (print_json(&c->e, &c->m, &c->errors, &c->notes))
		return cmd_error(&cmd_check, BACE_EXIT_FAILED, "write JSON to standard output failed");
	return BACE_EXIT_OK;
}

static int run(const struct cmd_globals *g, int argc, char **argv)
{
	struct checking c = { 0 };
	const char *path = NULL;
	int code;

	for (int i = 1; i < argc; i++) {
		if (argv[i][0] == '-')
			return cmd_misuse(&cmd_check, "unknown option `%s'", argv[i]);
		else if (path)
			return cmd_misuse(&cmd_check, "one experiment at a time");
		else
			path = argv[i];
	}
	if (!path)
		return cmd_misuse(&cmd_check, "which experiment?");
	code = check(path, g->json, &c);
	job_models_free(&c.m);
	experiment_free(&c.e);
	bace_diags_free(&c.errors);
	bace_diags_free(&c.notes);
	return code;
}

const struct command cmd_check = {
	.name = "check",
	.summary = "check an experiment and everything it names; print what it says",
	.usage = "bace check [--json] EXPERIMENT\n\n"
		 "EXPERIMENT is a file, or the bare name of one of the profiles. Prints a summary,\n"
		 "or every error of every file: FILE:LINE: key `KEY' = VALUE: what is allowed.\n"
		 "Exit status: 0 no errors, 2 errors.",
	.run = run,
};
