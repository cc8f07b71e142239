#include "harness/run/run.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "config.h"
#include "harness/run/internal.h"

#define RTT_TOLERANCE 0.05
#define RTT_TOLERANCE_S 0.001	/* the path's own delay and the host's timers */
#define GOODPUT_TOLERANCE 0.05

void run_progress(const struct run *r, const char *fmt, ...)
{
	char line[512];
	va_list ap;

	if (!r->o->on_progress)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	r->o->on_progress(r->o->arg, line);
}

/* ---- the testbed ---- */

static int open_testbed(struct run *r, struct bace_err *e)
{
	CLEANUP_FREE char *inventory = NULL;
	int rc = bed_open(&(struct bed_config){ .lab = { .self = r->o->self,
		.exp_path = r->exp->path, .backend = r->backend, .traffic = r->traffic,
		.on_progress = r->o->on_progress, .arg = r->o->arg, .cancelled = r->o->cancelled },
		.exp = r->exp, .launch = r->o->launch }, &r->bed, e);

	if (!rc)
		rc = bed_inventory(r->bed, &inventory, e);
	if (!rc)
		rc = store_run_set_inventory(r->store, r->id, inventory, e);
	/* Else its report would look like a lab's. */
	for (size_t i = 0; !rc && bed_lacks(r->bed, i); i++)
		rc = record_skip(r, "", "wan = steady is not in force", bed_lacks(r->bed, i), e);
	return rc;
}

static int used_pairs(const struct run *r, struct tb_verify **out, struct bace_err *e)
{
	const struct cluster *c = &r->exp->cluster;
	const struct testbed_spec *t = &r->exp->testbed;
	int n = c->n_regions, k = 0;

	*out = calloc((size_t)(n * n), sizeof(**out));
	if (!*out)
		return bace_fail(e, ENOMEM, "verify: out of memory");
	for (int i = 0; i < n * n; i++) {
		const struct link *there = &c->links[i], *back = cluster_link(c, i % n, i / n);

		if (!r->used[i])
			continue;
		(*out)[k++] = (struct tb_verify){ .src = i / n, .dst = i % n,
			.planned_rtt_s = (double)(there->latency_ns + back->latency_ns) / 1e9 *
				t->scale_time,
			.planned_goodput_bps = goodput_bps((double)there->rate_bps, c->mtu) *
				t->scale_bytes / t->scale_time };
	}
	return k;
}

bool link_as_planned(const struct experiment *exp, const struct tb_verify *v)
{
	double off_s = fabs(v->rtt_median_s - v->planned_rtt_s), jitter_s = 0;
	double rate = exp->testbed.verify_s > 0 ? v->goodput_bps / v->planned_goodput_bps - 1 : 0;
	bool lossy = false;

	/* Jitter and loss that the cluster or the testbed asks for are as planned. */
	for (int back = 0; back < 2; back++) {
		int src = back ? v->dst : v->src, dst = back ? v->src : v->dst;
		const struct disturbance *d = disturbance_of(exp, src, dst);
		const struct link *l = cluster_link(&exp->cluster, src, dst);

		jitter_s += (double)(d && d->jitter_ns ? d->jitter_ns : l->jitter_ns) / 1e9 * exp->testbed.scale_time;
		lossy |= l->loss > 0 || (d && d->loss > 0);
	}
	return (off_s <= RTT_TOLERANCE * v->planned_rtt_s || off_s <= RTT_TOLERANCE_S + jitter_s) &&
	       (fabs(rate) <= GOODPUT_TOLERANCE || lossy || jitter_s > 0);
}

static int judge_link(struct run *r, const struct tb_verify *v, struct bace_err *e)
{
	const struct region *reg = r->exp->cluster.regions;
	double rtt = v->rtt_median_s / v->planned_rtt_s - 1;
	double rate = r->exp->testbed.verify_s > 0 ? v->goodput_bps / v->planned_goodput_bps - 1 : 0;
	char what[128], why[160];

	if (link_as_planned(r->exp, v))
		return 0;
	snprintf(what, sizeof(what), "link %.40s to %.40s", reg[v->src].name, reg[v->dst].name);
	snprintf(why, sizeof(why), "out of tolerance: RTT %+.1f %%, goodput %+.1f %%", 100 * rtt,
		 100 * rate);
	run_progress(r, "%s %s", what, why);
	r->n_bad++;
	return record_skip(r, "", what, why, e);
}

static int verify(struct run *r, struct bace_err *e)
{
	CLEANUP_FREE struct tb_verify *v = NULL;
	int n = used_pairs(r, &v, e), rc = 0;

	if (n <= 0)
		return n;
	run_progress(r, "verifying %d directed links: RTT%s", n,
		     r->exp->testbed.verify_s ? " and TCP goodput" : "");
	/* One emulated CPU carries one probe at a time. */
	int at_once = r->backend == BACKEND_UML ? 1 : n;

	for (int i = 0; !rc && i < n; i += at_once)
		rc = bed_verify(r->bed, at_once, v + i, r->exp->testbed.verify_s, e);
	if (!rc)
		rc = record_verify(r, n, v, e);
	for (int i = 0; !rc && i < n; i++)
		rc = judge_link(r, &v[i], e);
	return rc;
}

static int measure_all(struct run *r, struct bace_err *e)
{
	struct oracle *o = NULL;
	int rc = open_testbed(r, e);

	if (!rc)
		rc = verify(r, e);
	if (!rc && r->o->reports)
		rc = reports_look(r, e);
	if (!rc)
		rc = measured_oracle(r, &o, e);
	if (!rc)
		rc = simulate_all(r, o, e);
	oracle_destroy(o);
	if (rc && rc != -ECANCELED && r->bed && bed_log_tail(r->bed)[0])
		bace_log(BACE_WARN, "lab", "last lines of the lab's log:\n%s",
			 bed_log_tail(r->bed));
	bed_close(r->bed);
	r->bed = NULL;
	return rc;
}

/* ---- the whole ---- */

static void say_note(void *arg, const char *text)
{
	run_progress(arg, "note: %s", text);
}

/* Hosts are not asked what they can: NFQUEUE needs no module, and a host without
 * it says so when it is shaped. */
static int choose_backend(struct run *r, struct bace_err *e)
{
	enum backend_kind wanted = r->o->has_backend ? r->o->backend : r->exp->testbed.backend;

	if (!r->o->launch)
		return lab_choose_backend(wanted, &r->backend, &r->backend_why, e);
	if (wanted == BACKEND_UML)
		return bace_fail(e, EINVAL, "backend uml: only a lab has it, not hosts by --launcher %s",
				 launcher_name(r->o->launch->kind));
	r->backend = wanted == BACKEND_NETEM ? BACKEND_NETEM : BACKEND_NFQUEUE;
	if (asprintf(&r->backend_why, "%d hosts by %s", r->exp->cluster.n_hosts,
		     launcher_name(r->o->launch->kind)) < 0) {
		r->backend_why = NULL;
		return bace_fail(e, ENOMEM, "run: out of memory");
	}
	return launch_check(r->o->launch, &r->exp->cluster, e);
}

static int prepare(struct run *r, struct bace_err *e)
{
	const struct experiment *exp = r->exp;
	int rc = job_models_build(exp, &r->models, e);

	if (rc)
		return rc;
	r->used = calloc((size_t)(exp->cluster.n_regions * exp->cluster.n_regions), 1);
	if (!r->used)
		return bace_fail(e, ENOMEM, "run: out of memory");
	rc = oracle_closed_form(&r->closed_form, e);
	if (!rc)
		rc = oracle_event_sim(exp->schedule, exp->interleave, exp->overlap, &r->event_sim, e);
	if (!rc && r->o->reports && !exp->oracle_measured)
		rc = bace_fail(e, EINVAL, "--reports: %s does not name `measured' among its oracles", exp->name);
	if (rc || !exp->oracle_measured)
		return rc;
	traffic_of(exp, &r->models, &r->traffic);
	rc = check_message_sizes(exp, &r->traffic, e);
	if (!rc)
		rc = disturb_check(exp, e);
	if (!rc)
		rc = choose_backend(r, e);
	if (rc)
		return rc;
	preflight_buffers(exp, &r->traffic, say_note, r);
	r->settings = run_settings(r);
	run_progress(r, "backend %s: %s", backend_name(r->backend), r->backend_why);
	return r->settings ? 0 : bace_fail(e, ENOMEM, "run: out of memory");
}

int run_check(const struct experiment *exp, struct bace_err *e)
{
	struct job_models models;
	struct lab_traffic traffic;
	int rc = job_models_build(exp, &models, e);

	if (rc)
		return rc;
	traffic_of(exp, &models, &traffic);
	rc = check_message_sizes(exp, &traffic, e);
	if (!rc)
		rc = disturb_check(exp, e);
	job_models_free(&models);
	return rc;
}

/* Only the same experiment can be gone on with: its files unchanged, to the byte. */
static int check_resume(struct run *r, struct bace_err *e)
{
	char *id = r->resumed;
	uint64_t hash = 0;
	int rc = store_find_run(r->store, r->o->resume, id, e);

	if (!rc)
		rc = store_run_config_hash(r->store, id, &hash, e);
	if (rc == -ENOENT) {
		bace_err_context(e, "--resume");
		rc = -(e->errnum = EINVAL);
	}
	if (rc)
		return rc;
	if (hash != r->exp->text_hash)
		return bace_fail(e, EINVAL, "--resume: run %s is of another experiment, or its files have changed since", id);
	rc = settings_check_resumed(r, e);
	if (rc)
		return rc;
	run_progress(r, "resuming run %s: what it measured is not run again", id);
	return 0;
}

static int begin(struct run *r, struct bace_err *e)
{
	const struct experiment *exp = r->exp;
	struct utsname u;
	int rc;

	uname(&u);
	rc = store_open(r->o->store_path, &r->store, e);
	if (!rc && r->o->resume)
		rc = check_resume(r, e);
	if (rc)
		return rc;
	rc = store_run_begin(r->store, &(struct run_info){ .command = r->o->command,
		.git_revision = bace_git_revision(),
		.experiment = exp->name, .config_text = exp->text, .config_hash = exp->text_hash,
		.seed = exp->seed, .version = BACE_VERSION, .kernel = u.release,
		.backend = exp->oracle_measured ? backend_name(r->backend) : NULL,
		.backend_why = r->backend_why, .schedule = schedule_name(exp->schedule),
		.scale_bytes = exp->testbed.scale_bytes, .scale_time = exp->testbed.scale_time },
		r->id, e);
	if (rc)
		return rc;
	run_progress(r, "run %s, store %s", r->id, r->o->store_path);
	/* It may be cut short, too, and gone on with. */
	if (r->resumed[0] && r->settings)
		rc = store_copy_moments(r->store, r->resumed, r->id, r->settings, e);
	if (!rc)
		rc = record_truth(r, e);
	return rc ? rc : record_disturbances(r, e);
}

static int simulate_counting(struct run *r, struct bace_err *e)
{
	struct oracle *o = NULL;
	int rc = counting_oracle(r, &o, e);

	if (!rc)
		rc = simulate_all(r, o, e);
	oracle_destroy(o);
	return rc;
}

static int execute(struct run *r, struct bace_err *e)
{
	int rc = 0;

	run_progress(r, "predicting %d policies on %d jobs", r->exp->n_policies, r->exp->n_jobs);
	if (r->exp->oracle_closed_form)
		rc = simulate_all(r, r->closed_form, e);
	/* Also without `event-sim` asked for: the testbed must know which links to prove. */
	if (!rc && (r->exp->oracle_event_sim || r->exp->oracle_measured))
		rc = simulate_counting(r, e);
	if (!rc && r->exp->oracle_measured && !r->o->launch)
		preflight_packets(r, r->backend, say_note, r);
	if (!rc && r->exp->oracle_measured)
		rc = measure_all(r, e);
	return rc;
}

static void cleanup(struct run *r)
{
	measured_moments_free(r);
	oracle_destroy(r->closed_form);
	oracle_destroy(r->event_sim);
	job_models_free(&r->models);
	store_close(r->store);
	free(r->used);
	free(r->decisions);
	free(r->reports.over_truth);
	free(r->settings);
	free(r->backend_why);
}

static int fail_bad(const struct run *r, struct bace_err *e)
{
	char more[128] = "";

	if (r->n_spoilt)
		snprintf(more, sizeof(more), "; `bace run ... --resume %s' runs only the cells that are missing",
			 r->id);
	return bace_fail(e, EBADMSG, "%d of the links or policies failed; see `bace show %s'%s", r->n_bad, r->id, more);
}

int run_experiment(const struct experiment *exp, const struct run_options *o, char id[32],
		   struct bace_err *e)
{
	struct run r = { .exp = exp, .o = o, .began_ns = bace_mono_ns() };
	struct bace_err end = { 0 };
	int rc = prepare(&r, e);

	if (!rc)
		rc = begin(&r, e);
	if (!rc)
		rc = execute(&r, e);
	if (!rc && !r.n_bad && r.n_unanswered)
		rc = bace_fail(e, ENOMSG, "policies did not answer under %d of the policies and oracles; see `bace show %s'",
			       r.n_unanswered, r.id);
	if (!rc && !r.n_bad && r.n_unfinished)
		rc = bace_fail(e, ENOTEMPTY, "jobs did not finish under %d of the policies and oracles; see `bace show %s'",
			       r.n_unfinished, r.id);
	if (!rc && r.n_bad)
		rc = fail_bad(&r, e);
	if (r.store && r.id[0] &&
	    store_run_end(r.store, r.id, !rc ? "done" : rc == -ECANCELED ? "interrupted" : "failed", &end) && !rc) {
		/* Kept, but nobody could tell that it was whole. */
		*e = end;
		rc = -end.errnum;
	}
	memcpy(id, r.id, sizeof(r.id));
	cleanup(&r);
	return rc;
}
