/*
 * slurm: inside an allocation (salloc, sbatch). One job step a host, as the
 * user, in the job's cgroup; so the job's end, or scancel, is the agent's end,
 * and the lease of bace-shaperd, a service of the node, undoes the shaping.
 * Hosts of the cluster file are nodes: by `login', or by their name.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "harness/launch/internal.h"

static const char *node_of(const struct cluster_host *h)
{
	return *h->login ? h->login : h->name;
}

/* The allocation's nodes, one a line; malloc'd. */
static char *read_nodes(const char *list, struct bace_err *e)
{
	struct bace_buf b = { 0 };
	char chunk[4096];
	size_t n;
	FILE *p;

	/* Slurm wrote the list; still, nothing of it is for a shell. */
	if (list[strspn(list, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-[],")]) {
		bace_fail(e, EINVAL, "SLURM_JOB_NODELIST=%.80s: not a list of nodes", list);
		return NULL;
	}
	setenv("BACE_NODES", list, 1);
	p = popen("exec scontrol show hostnames \"$BACE_NODES\"", "re");
	unsetenv("BACE_NODES");
	while (p && (n = fread(chunk, 1, sizeof(chunk), p)) > 0)
		bace_buf_add(&b, chunk, n);
	if (!p || pclose(p) || !b.len) {
		bace_buf_free(&b);
		bace_fail(e, ENOSYS, "scontrol show hostnames %.80s: failed: is Slurm's scontrol in PATH?", list);
		return NULL;
	}
	return b.p;
}

static bool has_line(const char *text, const char *line)
{
	size_t n = strlen(line);

	for (const char *p = text; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL)
		if (!strncmp(p, line, n) && (p[n] == '\n' || !p[n]))
			return true;
	return false;
}

static int check(const struct launch_options *o, const struct cluster *c, struct bace_err *e)
{
	const char *list = getenv("SLURM_JOB_NODELIST");
	CLEANUP_FREE char *nodes = NULL;
	struct bace_buf missing = { 0 };
	int n = 0;

	if (!getenv("SLURM_JOB_ID") || !list)
		return bace_fail(e, ENOSYS, "--launcher slurm: not inside a Slurm allocation; e.g. "
				 "`salloc -N %d bace run ...'", c->n_hosts);
	nodes = read_nodes(list, e);
	if (!nodes)
		return -e->errnum;
	for (int i = 0; i < c->n_hosts; i++)
		if (!has_line(nodes, node_of(&c->hosts[i])))
			bace_buf_addf(&missing, "%s%s", n++ ? ", " : "", node_of(&c->hosts[i]));
	if (n)
		bace_fail(e, EINVAL, "--launcher slurm: %d of the cluster's hosts are not in this allocation (%.80s): "
			  "%.200s", n, list, missing.p ? missing.p : "");
	bace_buf_free(&missing);
	return n ? -EINVAL : 0;
}

static void command(struct launch_args *a, const struct launch_options *o, const struct cluster_host *h)
{
	args_add(a, "srun");
	args_add(a, "--nodes=1");
	args_add(a, "--ntasks=1");
	args_add(a, "--nodelist=%s", node_of(h));
	args_add(a, "--job-name=bace-%s", h->name);
	/* the node is the agent's and its workers', whatever other steps there are */
	args_add(a, "--overlap");
	args_add(a, "--cpu-bind=none");
	args_add(a, "--mem=0");
	args_add(a, "--unbuffered");
	args_add(a, "--quiet");
	args_agent(a, o, h, "-");
	args_add(a, "--leash");
}

const struct launcher launcher_slurm = { .name = "slurm", .wait_s = 60, .check = check, .command = command };
