/* What works on this host, what does not, and what to do about it. */
#include "harness/cmd/doctor.h"

#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <libgen.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "harness/cmd/stored.h"
#include "harness/lab/lab.h"
#include "harness/run/run.h"

enum state { WORKS, LIMITED, MISSING };
static const char *const state_names[] = { "works", "limited", "missing" };

struct finding {
	const char *what, *for_what;
	enum state state;
	enum remedy remedy;
	char detail[300];
};

struct findings {
	struct finding v[24];
	size_t n;
};

static void add(struct findings *f, const char *what, const char *for_what, enum state state, enum remedy remedy,
		const char *fmt, ...) BACE_PRINTF(6, 7);

static void add(struct findings *f, const char *what, const char *for_what, enum state state, enum remedy remedy,
		const char *fmt, ...)
{
	struct finding *x = &f->v[f->n++];
	va_list ap;

	*x = (struct finding){ .what = what, .for_what = for_what, .state = state,
			       .remedy = state == WORKS ? REMEDY_NONE : remedy };
	va_start(ap, fmt);
	vsnprintf(x->detail, sizeof(x->detail), fmt, ap);
	va_end(ap);
}

static bool on_path(const char *program, char found[300])
{
	const char *path = getenv("PATH");

	for (const char *p = path ? path : "/usr/bin:/bin"; *p;) {
		int n = (int)strcspn(p, ":");

		snprintf(found, 300, "%.*s/%s", n, p, program);
		if (!access(found, X_OK))
			return true;
		p += n + (p[n] == ':');
	}
	return false;
}

/* ---- the lab ---- */

static bool check_backend(struct findings *f, enum backend_kind k, enum remedy remedy)
{
	static const char *const texts[] = { [BACKEND_NETEM] = "links by the kernel's netem: the most exact",
		[BACKEND_NFQUEUE] = "links where the kernel has no netem", [BACKEND_UML] = "links inside User-Mode Linux: "
		"without root and without anything of this kernel's" };
	CLEANUP_FREE char *why = NULL;
	enum backend_kind chosen;
	struct bace_err e = { 0 };
	struct utsname u;
	int rc = lab_choose_backend(k, &chosen, &why, &e);

	uname(&u);
	add(f, backend_name(k), texts[k], rc ? MISSING : WORKS, remedy, rc ? "%s" : "kernel %s", rc ? e.msg : u.release);
	return !rc;
}

static void check_namespaces(struct findings *f)
{
	static const struct {
		const char *path, *bad;
	} settings[] = { { "/proc/sys/kernel/unprivileged_userns_clone", "0" }, { "/proc/sys/user/max_user_namespaces", "0" },
		{ "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1" } };

	if (!geteuid()) {
		add(f, "namespaces", "a lab of hosts and gateways", WORKS, REMEDY_NONE, "root makes them");
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
		CLEANUP_FREE char *text = NULL;

		if (bace_read_file(settings[i].path, 64, &text, NULL, NULL))
			continue;
		text[strcspn(text, "\n")] = '\0';
		if (!strcmp(text, settings[i].bad)) {
			add(f, "namespaces", "a lab of hosts and gateways", MISSING, REMEDY_USERNS, "%s is %s",
			    settings[i].path, text);
			return;
		}
	}
	add(f, "namespaces", "a lab of hosts and gateways", WORKS, REMEDY_NONE, "user namespaces, without root");
}

static void check_programs(struct findings *f, const char *self)
{
	static const char *const names[] = { "bace-agent", "bace-shaperd", "bace-worker" };
	char missing[128] = "", path[4096];

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct bace_err e;
		size_t n = strlen(missing);

		if (lab_find_program(self, names[i], path, &e))
			snprintf(missing + n, sizeof(missing) - n, "%s%s", n ? ", " : "", names[i]);
	}
	add(f, "programs", "hosts of a testbed", missing[0] ? MISSING : WORKS, REMEDY_PROGRAMS,
	    missing[0] ? "not beside bace: %s" : "agent, shaper and worker are beside bace%s", missing);
}

static void check_realtime(struct findings *f)
{
	struct rlimit r = { 0 };
	bool may = !geteuid() || (!getrlimit(RLIMIT_RTPRIO, &r) && r.rlim_cur);

	add(f, "real time", "a delay line that other processes do not hold up", may ? WORKS : LIMITED, REMEDY_RTPRIO,
	    may ? "SCHED_FIFO is allowed" : "SCHED_FIFO is not allowed: delays may be late on a busy host");
}

static void check_cores(struct findings *f)
{
	cpu_set_t set;
	int n = sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);

	add(f, "processors", "ranks that compute at once", n < 2 ? LIMITED : WORKS, REMEDY_CORES,
	    "%d: about %d packets a second in all", n, n * RUN_PACKETS_PER_PROCESSOR);
}

/* ---- everything else ---- */

static void check_tool(struct findings *f, const char *program, const char *for_what, enum state without,
		       enum remedy remedy)
{
	char path[300];

	if (on_path(program, path))
		add(f, program, for_what, WORKS, remedy, "%s", path);
	else
		add(f, program, for_what, without, remedy, "not on the PATH");
}

static void check_gpu(struct findings *f, const char *self)
{
	bool device = !access("/dev/nvidia0", F_OK), worker;
	char path[4096];
	struct bace_err e;

	worker = !lab_find_program(self, "bace-worker-nccl", path, &e);
	add(f, "GPU and NCCL", "real computation and NCCL's transfers", device && worker ? WORKS : LIMITED, REMEDY_NCCL,
	    "%s, %s", device ? "an NVIDIA GPU" : "no NVIDIA GPU: computation is timed",
	    worker ? "bace-worker-nccl is there" : "built without NCCL");
}

static void check_store(struct findings *f, const struct cmd_globals *g)
{
	CLEANUP_FREE char *path = g->store ? strdup(g->store) : store_default_path();
	CLEANUP_FREE char *dir = path ? strdup(path) : NULL;
	char *at = dir;

	/* The nearest folder that is there: the others will be made. */
	do
		at = at ? dirname(at) : NULL;
	while (at && access(at, F_OK) && strcmp(at, "/") && strcmp(at, "."));
	bool may = at && !access(at, W_OK) && (access(path, F_OK) || !access(path, W_OK));

	add(f, "store", "keeping results", may ? WORKS : MISSING, REMEDY_STORE, "%s%s", path ? path : "?",
	    may ? "" : ": no permission to write");
}

static void check_profiles(struct findings *f)
{
	CLEANUP_FREE char *path = NULL;
	bool there = asprintf(&path, "%s/clusters", profiles_dir()) > 0 && !access(path, R_OK);

	add(f, "profiles", "clusters, jobs and experiments by name", there ? WORKS : MISSING, REMEDY_PROFILES, "%s",
	    profiles_dir());
}

/* ---- out ---- */

static void print_fixes(const struct finding *x, enum distro here)
{
	if (here < N_DISTROS) {
		const char *t = remedy_text(x->remedy, here);

		printf("%26s%s\n", "", t ? t : "not packaged for this system");
		return;
	}
	for (int d = 0; d < N_DISTROS; d++)
		if (remedy_text(x->remedy, (enum distro)d))
			printf("%26s%s: %s\n", "", distro_names[d], remedy_text(x->remedy, (enum distro)d));
}

static void print_text(const struct findings *f, bool usable, bool color, bool all)
{
	static const char *const colors[] = { "\033[32m", "\033[33m", "\033[31m" };
	enum distro here = all ? N_DISTROS : distro_here();

	for (size_t i = 0; i < f->n; i++) {
		const struct finding *x = &f->v[i];

		printf("%s%-8s%s %-16s %s\n", color ? colors[x->state] : "", state_names[x->state],
		       color ? "\033[0m" : "", x->what, x->detail);
		if (x->state == WORKS)
			continue;
		printf("%26sfor %s\n", "", x->for_what);
		print_fixes(x, here);
	}
	puts(usable ? "\n`bace run' works here." : "\n`bace run' cannot measure here: one of netem, nfqueue and uml is "
	     "needed. Simulation works.");
}

static int print_json(const struct findings *f, bool usable)
{
	json_t *all = json_array(), *root;
	int rc;

	for (size_t i = 0; i < f->n; i++) {
		const struct finding *x = &f->v[i];
		json_t *fixes = json_object();

		for (int d = 0; x->remedy && d < N_DISTROS; d++) {
			const char *t = remedy_text(x->remedy, (enum distro)d);

			json_object_set_new(fixes, distro_names[d], t ? json_string(t) : json_null());
		}
		json_array_append_new(all, json_pack("{s:s, s:s, s:s, s:s, s:o}", "what", x->what, "for", x->for_what,
			"state", state_names[x->state], "detail", x->detail, "fixes", fixes));
	}
	root = json_pack("{s:b, s:o}", "can_run", usable, "findings", all);
	rc = root && !json_dumpf(root, stdout, JSON_INDENT(2)) && putchar('\n') == '\n' ? 0 : -EIO;
	json_decref(root);
	return rc;
}

static int run(const struct cmd_globals *g, int argc, char **argv)
{
	static const struct option options[] = { { "all", 0, NULL, 'a' }, { 0 } };
	struct findings f = { 0 };
	bool usable = false, all = false;
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c != 'a')
			return cmd_misuse(&cmd_doctor, "bad options");
		all = true;
	}
	if (optind != argc)
		return cmd_misuse(&cmd_doctor, "`%s': no argument is taken", argv[optind]);
	check_namespaces(&f);
	usable |= check_backend(&f, BACKEND_NETEM, REMEDY_NETEM);
	usable |= check_backend(&f, BACKEND_NFQUEUE, REMEDY_NFQUEUE);
	usable |= check_backend(&f, BACKEND_UML, REMEDY_UML);
	check_programs(&f, g->self);
	check_realtime(&f);
	check_cores(&f);
	check_gpu(&f, g->self);
	check_store(&f, g);
	check_profiles(&f);
	check_tool(&f, "gnuplot", "plots in reports", MISSING, REMEDY_GNUPLOT);
	check_tool(&f, "less", "reading long tables on a terminal", LIMITED, REMEDY_LESS);
	check_tool(&f, "ssh", "agents on other hosts", LIMITED, REMEDY_SSH);
	check_tool(&f, "srun", "agents in a Slurm job", LIMITED, REMEDY_SLURM);
	if (!g->json)
		print_text(&f, usable, output_color(g), all);
	else if (print_json(&f, usable))
		return cmd_error(&cmd_doctor, BACE_EXIT_FAILED, "write failed");
	return usable ? BACE_EXIT_OK : BACE_EXIT_ENV;
}

const struct command cmd_doctor = {
	.name = "doctor",
	.summary = "what works on this host, what does not, and what to install",
	.usage = "bace doctor [--all]\n\n"
		 "Tries each way to emulate links and looks for every program and permission that\n"
		 "some command wants. What is missing stands with the package or setting of this\n"
		 "host's system. Exit status 3: `bace run' cannot measure here.\n\n"
		 "  --all   packages and settings of Debian, Ubuntu, Fedora/RHEL and Arch",
	.run = run,
};
