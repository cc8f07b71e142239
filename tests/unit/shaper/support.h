/* What the shaper's unit tests share. */
#ifndef TESTS_UNIT_SHAPER_SUPPORT_H
#define TESTS_UNIT_SHAPER_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first. */
#include <cmocka.h>
#include <string.h>

#include "shaper/plan.h"

/* n links, region i with 10.(16+i).0.0/16, 100 Mbit/s, 20 ms each way. */
static inline struct shape_spec test_spec(struct shape_link *links, int n)
{
	memset(links, 0, (size_t)n * sizeof(*links));
	for (int i = 0; i < n; i++) {
		links[i] = (struct shape_link){
			.region = (uint16_t)i, .n_prefixes = 1,
			.prefixes = { { .family = AF_INET, .len = 16, .addr = { 10, (uint8_t)(16 + i) } } },
			.rate_bps = 100000000, .reverse_rate_bps = 100000000,
			.latency_ns = 20000000, .rtt_ns = 40000000 };
		snprintf(links[i].name, sizeof(links[i].name), "region-%d", i);
	}
	return (struct shape_spec){ .egress = "wan0", .ingress = "lan0", .delay = DELAY_NETEM, .mtu = 1500,
				    .n_links = n, .links = links };
}

static inline const struct tcobj *find_object(const struct if_state *s, enum tcobj_type type, uint32_t handle)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].type == type && s->v[i].handle == handle)
			return &s->v[i];
	return NULL;
}

#endif
