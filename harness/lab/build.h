/* Private to harness/lab: the namespaces of a lab, joined.
 *
 *   host eth0 -- lan0 (bridge, gateway) wan0 -- core (router) -- wan0 ... lan0 -- eth0 host
 *
 * and mgmt0 of every host and gateway on the supervisor's bridge `mgmt`.
 */
#ifndef BACE_LAB_BUILD_H
#define BACE_LAB_BUILD_H

#include "harness/lab/lab.h"
#include "harness/lab/netns.h"

#define LAB_MGMT_ADDR "10.15.0.1"
#define LAB_HOSTS_PATH "/run/hosts"	/* as /etc/hosts, for who enters the lab */

struct lab {
	const struct cluster *cluster;	/* scaled, borrowed */
	const struct lab_net *net;	/* borrowed */
	struct netns self;		/* the supervisor's */
	struct netns core;
	struct netns *ns;		/* [net->n_hosts] */
};

int lab_build(const struct cluster *scaled, const struct lab_net *net,
	      const struct lab_traffic *traffic, struct lab *out, struct bace_err *e);
void lab_unbuild(struct lab *l);	/* closes; the namespaces go with the supervisor */

#endif
