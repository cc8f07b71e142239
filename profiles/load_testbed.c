#include <string.h>

#include "profiles/load.h"
#include "profiles/names.h"

#define V(f) offsetof(struct view_spec, f)
#define T(f) offsetof(struct testbed_spec, f)

static const char *const noise_kind_names[] = { "additive", "multiplicative", NULL };

struct raw_view {
	struct view_spec v;
	int noise;
};

static const struct cfg_key view_keys[] = {
	{ "delay", CFG_TIME_S, 0, V(delay_s), .min = 0, .max = CFG_NO_MAX },
	{ "period", CFG_TIME_S, 0, V(period_s), .min = 0, .max = CFG_NO_MAX },
	{ "bandwidth_noise", CFG_NUMBER, 0, V(bandwidth_noise), .min = 0, .max = 10 },
	{ "price_noise", CFG_NUMBER, 0, V(price_noise), .min = 0, .max = 10 },
	{ "noise", CFG_CHOICE, 0, offsetof(struct raw_view, noise), .choices = noise_kind_names },
	{ "distribution", CFG_CHOICE, 0, V(dist), .choices = noise_names },
	{ "bandwidth_bias", CFG_NUMBER, 0, V(bias_bandwidth), .min = -1, .max = 10 },
	{ "price_bias", CFG_NUMBER, 0, V(bias_price), .min = -1, .max = 10 },
	{ "correlation", CFG_NUMBER, 0, V(correlation), .min = 0, .max = 1 },
};

void load_view(config_setting_t *group, struct view_spec *out)
{
	struct raw_view raw = { .v = *out };

	if (!group || !config_setting_is_group(group))
		return;
	cfg_read(group, view_keys, ARRAY_LEN(view_keys), &raw);
	raw.v.multiplicative = raw.noise == 1;
	*out = raw.v;
}

static const char *const compute_names[] = { "timed", "cpu", "cuda", NULL };
static const char *const transport_names[] = { "tcp", "nccl", NULL };
static const char *const timeline_names[] = { "ops", "full", NULL };

static const struct cfg_key testbed_keys[] = {
	{ "backend", CFG_CHOICE, 0, T(backend), .choices = backend_names },
	{ "ranks", CFG_CHOICE, 0, T(ranks), .choices = rank_names },
	{ "max_ranks", CFG_INT, 0, T(max_ranks), .min = 1, .max = 100000 },
	{ "scale", CFG_GROUP },
	{ "steady", CFG_GROUP },
	{ "warmup_steps", CFG_INT, 0, T(warmup_steps), .min = 0, .max = 1000 },
	{ "steps", CFG_INT, 0, T(steps), .min = 1, .max = 1000000 },
	{ "verify_s", CFG_INT, 0, T(verify_s), .min = 0, .max = 3600 },
	{ "wan", CFG_CHOICE, 0, T(wan), .choices = wan_names },
	{ "congestion_control", CFG_TEXT, 0, T(congestion_control),
	  .max = sizeof(((struct testbed_spec *)0)->congestion_control) },
	{ "hosts_per_region", CFG_INT, 0, T(hosts_per_region), .min = 1, .max = 64 },
	{ "transport", CFG_CHOICE, 0, T(transport), .choices = transport_names },
	{ "compute", CFG_CHOICE, 0, T(compute), .choices = compute_names },
	{ "timeline", CFG_CHOICE, 0, T(timeline), .choices = timeline_names },
	{ "disturb", CFG_LIST },
	{ "socket_buffer", CFG_SIZE, 0, T(socket_buffer_bytes), .min = 4096, .max = 2e9 },
	{ "sockets_per_hop", CFG_INT, 0, T(sockets_per_hop), .min = 1, .max = SOCKETS_PER_HOP_MAX },
};

static const struct cfg_key scale_keys[] = {
	{ "bytes", CFG_NUMBER, CFG_ABOVE, T(scale_bytes), .min = 0, .max = 1000 },
	{ "time", CFG_NUMBER, CFG_ABOVE, T(scale_time), .min = 0, .max = 1000 },
};

static const struct cfg_key steady_keys[] = {
	{ "within", CFG_NUMBER, CFG_REQUIRED | CFG_ABOVE, T(steady_within), .min = 0, .max = 1 },
	{ "steps", CFG_INT, 0, T(steady_steps), .min = 2, .max = 64 },
};

static void load_steady(config_setting_t *group, struct testbed_spec *out)
{
	config_setting_t *s = config_setting_get_member(group, "steady");

	if (!s || !config_setting_is_group(s))
		return;
	cfg_read(s, steady_keys, ARRAY_LEN(steady_keys), out);
	/* It is step times that are compared, so one more step than that is made. */
	if (out->steady_steps >= out->warmup_steps)
		cfg_error(s, "warmup_steps = %d is the most that the warm-up takes: must be above the %d steps that "
			  "are compared", out->warmup_steps, out->steady_steps);
	if (out->transport == TRANSPORT_NCCL)
		cfg_error(s, "needs transport = \"tcp\": the order of NCCL's calls is fixed beforehand");
}

/* It goes into a route attribute and into file names of the kernel. */
static void check_congestion_control(config_setting_t *group, const char *name)
{
	config_setting_t *s = config_setting_get_member(group, "congestion_control");

	if (s && name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-")])
		cfg_error(s, "must be the kernel's name of one: \"cubic\", \"reno\", \"bbr\"");
}

/* A GPU, and NCCL's one order of calls, are a single stage's. */
static void check_gpu(config_setting_t *group, const struct testbed_spec *t)
{
	if (t->ranks != RANKS_REGION)
		return;
	if (t->transport == TRANSPORT_NCCL)
		cfg_error(config_setting_get_member(group, "transport"), "must be \"tcp\" with ranks = \"region\"");
	if (t->compute == COMPUTE_ON_GPU)
		cfg_error(config_setting_get_member(group, "compute"), "must be \"timed\" with ranks = \"region\"");
}

void load_testbed(config_setting_t *group, struct testbed_spec *out)
{
	config_setting_t *scale;

	if (!group || !config_setting_is_group(group))
		return;
	cfg_read(group, testbed_keys, ARRAY_LEN(testbed_keys), out);
	check_congestion_control(group, out->congestion_control);
	check_gpu(group, out);
	load_steady(group, out);
	scale = config_setting_get_member(group, "scale");
	if (scale && config_setting_is_group(scale))
		cfg_read(scale, scale_keys, ARRAY_LEN(scale_keys), out);
}
