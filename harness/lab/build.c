#include "harness/lab/build.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int setup_mgmt(struct lab *l, int i, struct bace_err *e)
{
	char port[IFNAMSIZ];
	int rc;

	snprintf(port, sizeof(port), "m%d", i);
	rc = netns_veth(&l->ns[i], "mgmt0", &l->self, port, 1500, e);
	if (!rc)
		rc = netns_enslave(&l->self, port, "mgmt", e);
	if (!rc)
		rc = netns_up(&l->self, port, e);
	if (!rc)
		rc = netns_addr(&l->ns[i], "mgmt0", l->net->hosts[i].mgmt, 16, e);
	if (!rc)
		rc = netns_up(&l->ns[i], "mgmt0", e);
	return rc;
}

/* The path must not drop what the shaper admits, nor filter by return path. */
static int setup_router(struct netns *n, struct bace_err *e)
{
	int rc = netns_sysctl(n, "ipv4.ip_forward", "1", e);

	if (!rc)
		rc = netns_sysctl(n, "ipv4.conf.all.rp_filter", "0", e);
	if (!rc)
		rc = netns_sysctl(n, "ipv4.conf.default.rp_filter", "0", e);
	return rc;
}

static int setup_gateway(struct lab *l, int i, struct bace_err *e)
{
	const struct lab_host *h = &l->net->hosts[i];
	struct netns *gw = &l->ns[i];
	char port[IFNAMSIZ], ours[48], theirs[48], net[48];
	int rc;

	snprintf(port, sizeof(port), "r%d", h->region);
	snprintf(ours, sizeof(ours), "10.14.%d.2", h->region);
	snprintf(theirs, sizeof(theirs), "10.14.%d.1", h->region);
	snprintf(net, sizeof(net), "10.%d.0.0", 16 + h->region);
	if ((rc = setup_router(gw, e)) || (rc = netns_bridge(gw, "lan0", e)) ||
	    (rc = netns_addr(gw, "lan0", h->addr, 16, e)) ||
	    (rc = netns_veth(gw, "wan0", &l->core, port, l->cluster->mtu, e)) ||
	    (rc = netns_addr(gw, "wan0", ours, 30, e)) || (rc = netns_up(gw, "wan0", e)) ||
	    (rc = netns_addr(&l->core, port, theirs, 30, e)) ||
	    (rc = netns_up(&l->core, port, e)) ||
	    (rc = netns_route(gw, "0.0.0.0", 0, theirs, NULL, e)))
		return rc;
	return netns_route(&l->core, net, 16, ours, NULL, e);
}

static int set_buffers(struct netns *n, uint64_t most, struct bace_err *e)
{
	char mem[64];
	int rc;

	snprintf(mem, sizeof(mem), "4096 %llu %llu", (unsigned long long)(most < 131072 ? most : 131072),
		 (unsigned long long)most);
	rc = netns_sysctl(n, "ipv4.tcp_rmem", mem, e);
	return rc ? rc : netns_sysctl(n, "ipv4.tcp_wmem", mem, e);
}

static int set_tcp_sysctls(struct netns *n, uint64_t buffer_max, const struct lab_traffic *t, struct bace_err *e)
{
	int rc = 0;

	if (t->wan == WAN_STEADY || t->socket_buffer_bytes)
		rc = set_buffers(n, t->socket_buffer_bytes ? t->socket_buffer_bytes : buffer_max, e);
	if (t->wan != WAN_STEADY)
		return rc;
	if (!rc)
		rc = netns_sysctl(n, "ipv4.tcp_slow_start_after_idle", "0", e);
	if (!rc)
		rc = netns_sysctl(n, "ipv4.tcp_no_metrics_save", "1", e);
	return rc;
}

static int setup_host_routes(struct lab *l, int i, const struct lab_traffic *t, struct bace_err *e)
{
	const struct lab_host *h = &l->net->hosts[i];
	char gw[48], net[48];
	int rc;

	snprintf(gw, sizeof(gw), "10.%d.0.1", 16 + h->region);
	rc = netns_route(&l->ns[i], "0.0.0.0", 0, gw, NULL, e);
	for (int q = 0; !rc && q < l->net->n_regions; q++) {
		if (q == h->region || !cluster_link(l->cluster, h->region, q)->present)
			continue;
		struct route_tcp tcp = { 0 };

		if (t->wan == WAN_STEADY) {
			tcp.congestion_control = t->congestion_control;
			tcp.initcwnd = lab_initial_window(l->cluster, h->region, q, t);
			tcp.initrwnd = tcp.initcwnd;
		}
		snprintf(net, sizeof(net), "10.%d.0.0", 16 + q);
		rc = netns_route(&l->ns[i], net, 16, gw, &tcp, e);
	}
	return rc;
}

static int setup_host(struct lab *l, int i, const struct lab_traffic *t, struct bace_err *e)
{
	const struct lab_host *h = &l->net->hosts[i];
	struct netns *gw = &l->ns[h->region];
	char port[IFNAMSIZ];
	int rc;

	snprintf(port, sizeof(port), "h%d", i);
	if ((rc = netns_veth(&l->ns[i], "eth0", gw, port, l->cluster->mtu, e)) ||
	    (rc = netns_enslave(gw, port, "lan0", e)) || (rc = netns_up(gw, port, e)) ||
	    (rc = netns_addr(&l->ns[i], "eth0", h->addr, 16, e)) ||
	    (rc = netns_up(&l->ns[i], "eth0", e)) || (rc = setup_host_routes(l, i, t, e)))
		return rc;
	return set_tcp_sysctls(&l->ns[i], lab_socket_buffer_max(l->cluster, t), t, e);
}

static int write_hosts(const struct lab_net *net, struct bace_err *e)
{
	CLEANUP_FCLOSE FILE *f = fopen(LAB_HOSTS_PATH, "we");

	if (!f)
		return bace_fail_errno(e, errno, LAB_HOSTS_PATH);
	fputs("127.0.0.1 localhost\n::1 localhost\n", f);
	for (int i = 0; i < net->n_hosts; i++)
		fprintf(f, "%s %s\n", net->hosts[i].addr, net->hosts[i].name);
	/* Also for others than root, whatever the umask. */
	fchmod(fileno(f), 0644);
	return fflush(f) ? bace_fail_errno(e, errno, LAB_HOSTS_PATH) : 0;
}

int lab_build(const struct cluster *scaled, const struct lab_net *net,
	      const struct lab_traffic *t, struct lab *out, struct bace_err *e)
{
	int rc;

	*out = (struct lab){ .cluster = scaled, .net = net };
	out->ns = calloc((size_t)net->n_hosts, sizeof(*out->ns));
	if (!out->ns)
		return bace_fail(e, ENOMEM, "lab of %d hosts: out of memory", net->n_hosts);
	if ((rc = netns_current(&out->self, e)) || (rc = netns_up(&out->self, "lo", e)) ||
	    (rc = netns_bridge(&out->self, "mgmt", e)) ||
	    (rc = netns_addr(&out->self, "mgmt", LAB_MGMT_ADDR, 16, e)) ||
	    (rc = netns_create("core", &out->core, e)) || (rc = setup_router(&out->core, e)))
		goto fail;
	for (int i = 0; i < net->n_hosts; i++) {
		if ((rc = netns_create(net->hosts[i].name, &out->ns[i], e)) ||
		    (rc = setup_mgmt(out, i, e)))
			goto fail;
		rc = net->hosts[i].gateway ? setup_gateway(out, i, e) : setup_host(out, i, t, e);
		if (rc)
			goto fail;
	}
	rc = write_hosts(net, e);
	if (!rc)
		return 0;
fail:
	lab_unbuild(out);
	return rc;
}

void lab_unbuild(struct lab *l)
{
	for (int i = 0; l->ns && i < l->net->n_hosts; i++)
		netns_close(&l->ns[i]);
	free(l->ns);
	netns_close(&l->core);
	netns_close(&l->self);
	*l = (struct lab){ 0 };
}
