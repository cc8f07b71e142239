/*
 * profiles: typed loaders for the libconfig files under profiles/ (regions,
 * links, prices, models, gpus, clusters, jobs, experiments), checked whole:
 * every error of every file read is reported at once, each with file, line,
 * key, value and what is allowed.
 *
 * Units are in every name. Rates are L2 bits/s, latencies are one-way. All
 * strings and arrays inside belong to the struct that holds them and are freed
 * with experiment_free / cluster_free.
 */
#ifndef BACE_PROFILES_H
#define BACE_PROFILES_H

#include "common/common.h"

#define NAME_LEN 48		/* of regions, jobs, models, policies; [A-Za-z0-9._+-] */

/* Piecewise-constant; usd_per_kwh[i] holds from start_s[i] to start_s[i+1].
 * start_s[0] = 0. period_s > 0: repeats; else the last value holds for ever.
 * Values may be negative. */
struct price_series {
	size_t n;
	double *start_s;
	double *usd_per_kwh;
	double period_s;
	double *sum;		/* [n] integral from 0 to start_s[i]; NULL: summed at each look */
};

/* The price at time t_s >= 0, and (until_s, may be NULL) when it next changes
 * (INFINITY: never). */
double price_at(const struct price_series *p, double t_s, double *until_s);
/* Fills `sum`. -ENOMEM. */
int price_sum(struct price_series *p);
/* Integral of the price from a_s to b_s, in USD/kWh * s. */
double price_integral(const struct price_series *p, double a_s, double b_s);

struct gpu_type {
	char name[NAME_LEN];
	double active_w;	/* drawn while computing (default: TDP) */
	double idle_ctx_w;	/* drawn with a job resident and not computing */
	double memory_bytes;
	double flops_eff;	/* achieved FLOP/s of training */
};

/* ---- address prefixes ---- */
#define SHAPE_PREFIXES_MAX 16	/* of one region: hosts without a common prefix, both families */

struct shape_prefix {
	uint8_t family;		/* AF_INET or AF_INET6 */
	uint8_t len;		/* bits */
	uint8_t addr[16];	/* network order; IPv4 in the first four bytes */
};

int shape_prefix_parse(const char *s, struct shape_prefix *p, struct bace_err *e);
const char *shape_prefix_format(const struct shape_prefix *p, char buf[64]);
/* Family, length and no bits beyond the length. */
int shape_prefix_check(const struct shape_prefix *p, struct bace_err *e);
/* A name that the kernel takes for an interface? */
bool shape_is_ifname(const char *s);

struct region {
	char name[NAME_LEN];
	char location[64];
	int n_gpus;
	int gpu;		/* index into cluster.gpus */
	double pue;
	double bandwidth_bps;	/* the region's own, L2: nominal, and of intra-region hops */
	int64_t intra_latency_ns;	/* of intra-region hops, 0 unless given */
	struct price_series price;
	int n_prefixes;		/* addresses of its hosts on a real cluster, or 0 */
	struct shape_prefix prefixes[SHAPE_PREFIXES_MAX];
};

/* A machine of a real cluster. A lab makes its own. */
#define CLUSTER_SHAPERD "/run/bace/shaperd.sock"

struct cluster_host {
	char name[NAME_LEN];	/* its agent's */
	int region;
	bool gateway;		/* all traffic of its region with others goes through it; runs no ranks */
	char address[46];	/* where ranks listen, on the network that is shaped */
	char egress[16];	/* interface towards the other regions; "": bace shapes nothing there */
	char ingress[16];	/* towards its region's hosts; "": none, of a host that shapes itself */
	char login[128];	/* for ssh ("user@machine"), or the Slurm node; "": the name */
	char shaperd[108];	/* socket of its bace-shaperd */
};

/* JITTER_TABLE: of a file; only shape files have it. */
enum jitter_dist { JITTER_NONE, JITTER_UNIFORM, JITTER_NORMAL, JITTER_PARETO, JITTER_PARETONORMAL, JITTER_TABLE };

/* A directed path between two regions. present = false: no path. */
struct link {
	bool present;
	uint64_t rate_bps;	/* L2 */
	int64_t latency_ns;	/* one-way */
	int64_t jitter_ns;
	enum jitter_dist jitter_dist;
	double loss;		/* fraction, 0..1 */
	uint64_t buffer_bytes;	/* 0: computed (design section 7) */
	double usd_per_byte;	/* egress price, 0 unless given */
};

/* What else a path does to packets, beyond rate, latency, jitter and loss. All
 * zero: nothing. Probabilities and correlations are 0..1. A delay backend that
 * cannot do what is asked refuses it, with the reason. */
enum loss_model { LOSS_RANDOM, LOSS_GILBERT_ELLIOTT, LOSS_4STATE };

struct shape_impair {
	double jitter_corr;
	enum loss_model loss_model;
	double loss_corr;		/* LOSS_RANDOM: of the loss */
	double loss_p[5];		/* LOSS_GILBERT_ELLIOTT: p, r, 1-h, 1-k; LOSS_4STATE: p13, p31, p32, p14, p23 */
	double duplicate, duplicate_corr;
	double corrupt, corrupt_corr;
	double reorder, reorder_corr;	/* this fraction is sent at once; 0: order is kept even with jitter */
	uint32_t reorder_gap;		/* 0: 1 */
	bool ecn;			/* mark instead of dropping */
	uint64_t seed;			/* of this link's random numbers; 0: the backend's own */
};

struct cluster {
	char name[NAME_LEN];
	int n_regions;
	struct region *regions;
	struct link *links;	/* n_regions x n_regions, [src * n_regions + dst]; diagonal absent */
	int n_gpus;
	struct gpu_type *gpus;
	unsigned mtu;		/* of the emulated links, bytes; 1500 */
	int n_hosts;
	struct cluster_host *hosts;	/* of a real cluster, or none */
};

static inline const struct link *cluster_link(const struct cluster *c, int src, int dst)
{
	return &c->links[src * c->n_regions + dst];
}

/* Goodput of an L2 rate for TCP over IPv4 with timestamps: b * MSS / (MTU + 14),
 * MSS = MTU - 52. */
double goodput_bps(double l2_rate_bps, unsigned mtu);
double l2_rate_bps(double goodput_bps, unsigned mtu);

struct model {
	char name[NAME_LEN];
	double params;			/* count */
	int layers;
	int hidden;
	int seq;			/* tokens a sequence */
	double bytes_per_element;	/* of an activation, 2 */
	double state_bytes_per_param;	/* weights, gradients, optimizer; 16 */
	bool recompute;			/* full activation recomputation */
	/* Measured per-stage profile instead of the FLOP model; 0 = not given.
	 * Seconds for the WHOLE model on one GPU, per micro-batch. */
	double measured_fwd_s, measured_bwd_s;
	double measured_boundary_bytes;
};

enum schedule_kind { SCHED_GPIPE, SCHED_1F1B, SCHED_EAGER_1F1B, SCHED_INTERLEAVED_1F1B, SCHED_ZB_H1 };

/* What a model's memory on k stages depends on, beside the model and k. */
struct pipeline_shape {
	enum schedule_kind schedule;
	int interleave;			/* chunks a stage, 1 unless interleaved */
	bool equal_split;		/* stages are equal fractions, k may exceed the layers */
	int micro_batches, micro_batch_size;
};

/* ---- memory (design section 4; after Korthikanti et al., arXiv 2205.05198) ---- */

/* A: bytes that cross a hop per micro-batch of beta sequences. */
double model_boundary_bytes(const struct model *m, int micro_batch_size);
/* Layers on stage i of k: as even as whole layers allow, odd ones first. */
double model_stage_layers(const struct model *m, bool equal_split, int k, int i);
/* Micro-batches whose activations stage i of k holds at its peak; interleaved
 * counts in whole-stage units (Megatron's warm-up over v chunks, each 1/v). */
double model_live_micro_batches(const struct pipeline_shape *s, int k, int i);
double model_stage_bytes(const struct model *m, const struct pipeline_shape *s, int k, int i);
/* Does every stage of k fit, and can the schedule run on k stages? */
bool model_fits(const struct model *m, const struct pipeline_shape *s, int k, double memory_bytes);
/* Least k <= k_max that fits; 0: none does. */
int model_k_min(const struct model *m, const struct pipeline_shape *s, int k_max,
		double memory_bytes);

struct job {
	char name[NAME_LEN];
	int model;			/* index into experiment.models */
	double arrival_s;
	int micro_batches;		/* m, per step */
	int micro_batch_size;		/* beta, sequences */
	double dataset_bytes;
	double epochs;
	double steps;			/* N = ceil(epochs * tokens / (m * beta * s)), tokens = bytes/4;
					   or given */
};

enum order_kind { ORDER_FCFS, ORDER_SJF, ORDER_SRTF, ORDER_LAS, ORDER_BACE };
enum start_kind { START_K_MIN, START_K_STAR };
enum stall_rule { STALL_FORWARD, STALL_SLOT, STALL_LATENCY, STALL_NONE };
enum grow_kind { GROW_PATH, GROW_TREE };
enum prefer_kind { PREFER_GPUS, PREFER_JCT, PREFER_COST };

/* One policy of an experiment: which placement rule, and every named parameter
 * of design section 5. `name` is resolved by harness/policy. */
struct policy_spec {
	char label[NAME_LEN];	/* unique in the experiment; defaults to name */
	char name[NAME_LEN];	/* bace, bace+, lcf, ldf, cr-lcf, cr-ldf, atlas-dc, dtfm, random, optimal, external, ... */
	bool has_order;		/* else the policy's own default */
	enum order_kind order;
	enum start_kind start;
	enum stall_rule stall_rule;
	enum grow_kind grow;
	enum prefer_kind prefer;
	double alpha;		/* constant in [0,1], or NAN: from the view */
	double alpha_gain;	/* 1 */
	double aging_s;		/* 0: off */
	bool has_backfill;	/* else the policy's own default */
	bool backfill;
	bool pathfinder;	/* false: single region (ablation) */
	bool cost_min;		/* false: fill in path order (ablation) */
	bool elastic;		/* bace+: grow with checkpoint and restart */
	double restart_s;	/* bace+: cost of a checkpoint and restart */
	char *command;		/* external: program and arguments, run by /bin/sh -c; or NULL */
	double timeout_s;	/* external, per decision */
	const char *file;	/* where it stands, for messages */
	int line;
};

enum k_limit_kind { K_LIMIT_LAYERS, K_LIMIT_N };
enum noise_dist { NOISE_UNIFORM, NOISE_GAUSSIAN };

/* What the policy is told of the truth (design section 5). All 0: exact. */
struct view_spec {
	double delay_s;
	double period_s;	/* how often noise is redrawn; 0: once per change of truth */
	double bandwidth_noise;	/* fraction */
	double price_noise;	/* fraction */
	bool multiplicative;	/* else additive: fraction of the mean over links */
	enum noise_dist dist;
	double bias_bandwidth, bias_price;	/* fraction added to the mean */
	double correlation;	/* of noise between links, 0..1 */
};

enum rank_mode { RANKS_STAGE, RANKS_REGION };
enum compute_mode { COMPUTE_AS_TIMED, COMPUTE_ON_CPU, COMPUTE_ON_GPU };	/* wait so long; work so long */
enum transport_mode { TRANSPORT_TCP, TRANSPORT_NCCL };	/* of hops between regions */
enum timeline_mode { TIMELINE_WITHOUT_SENDS, TIMELINE_WITH_SENDS };
enum wan_mode { WAN_STEADY, WAN_STOCK };
enum backend_kind { BACKEND_AUTO, BACKEND_NETEM, BACKEND_NFQUEUE, BACKEND_UML };

/* Done to a link on the testbed, and to nothing else: neither policies nor
 * simulations are told. Unscaled. */
struct disturbance {
	int from, to;			/* regions */
	int64_t jitter_ns;		/* 0: the link's own */
	enum jitter_dist jitter_dist;
	double loss;			/* fraction; 0: the link's own */
	char *trace_path, *trace;	/* CSV or Mahimahi, its text; NULL: none */
	bool loop;
};

struct testbed_spec {
	enum backend_kind backend;
	enum rank_mode ranks;
	int max_ranks;			/* worker processes at once; a larger moment is refused, with the number */
	double scale_bytes;		/* multiplies every bandwidth and every A */
	double scale_time;		/* multiplies every duration and latency, divides every bandwidth */
	int warmup_steps;
	int steps;
	double steady_within;		/* > 0: the warm-up ends when the last steady_steps steps are so close */
	int steady_steps;		/* to their median, as a fraction; warmup_steps is then the most; 3 */
	int verify_s;			/* seconds of goodput probing per link, 0: RTT only */
	enum wan_mode wan;
	char congestion_control[16];	/* "cubic" */
	int hosts_per_region;
	enum transport_mode transport;
	enum compute_mode compute;
	int sockets_per_hop;		/* TCP connections that a hop's messages are striped over; 1 */
	enum timeline_mode timeline;
	uint64_t socket_buffer_bytes;	/* to which sockets grow in a lab; 0: as the links need (steady), or stock */
	int n_disturb;
	struct disturbance *disturb;	/* owned by the experiment */
};

struct experiment {
	char name[NAME_LEN];
	char *path;			/* of the file */
	char *text;			/* every file read, concatenated, for the store */
	uint64_t text_hash;
	uint64_t seed;
	struct cluster cluster;
	int n_models;
	struct model *models;
	int n_jobs;
	struct job *jobs;		/* in file order */
	int n_policies;
	struct policy_spec *policies;
	enum schedule_kind schedule;
	int interleave;			/* v, chunks a stage; 1 */
	bool overlap;			/* communication beside computation; true */
	enum k_limit_kind k_limit;
	int k_limit_n;
	bool bill_idle;
	bool oracle_closed_form, oracle_event_sim, oracle_measured;
	struct view_spec view;
	struct testbed_spec testbed;
	int n_files;			/* the names that policy_spec.file borrows */
	char **files;
};

bool shape_prefix_bit(const struct shape_prefix *p, unsigned bit);
/* By family, address, length: a covering prefix sorts before what it covers. */
int shape_prefix_cmp(const struct shape_prefix *a, const struct shape_prefix *b);
bool shape_prefix_covers(const struct shape_prefix *p, uint8_t family, const uint8_t *addr);

#define SOCKETS_PER_HOP_MAX 16

/* ---- shapes: what is done to the links of a group of hosts, by hand ---- */
#define SHAPE_REGIONS_MAX 16384	/* one class each on an interface */

enum shape_mode { SHAPE_GATEWAY, SHAPE_HOST };
enum shape_delay { SHAPE_DELAY_AUTO, SHAPE_DELAY_NETEM, SHAPE_DELAY_NFQUEUE };
enum buffer_kind { BUFFER_COMPUTED, BUFFER_BYTES, BUFFER_SECONDS, BUFFER_BDP };

struct shape_region {
	char name[NAME_LEN];
	int n_prefixes;
	struct shape_prefix prefixes[SHAPE_PREFIXES_MAX];
	char probe[64];			/* address at which `bace shape respond' answers; "": none */
};

/* A host that shapes: a region's gateway, or every host of it. */
struct shape_host {
	char name[NAME_LEN];		/* "": the file is for whatever host reads it */
	int region;
	char egress[16];		/* towards the other regions */
	char ingress[16];		/* towards this region's hosts; in host mode the egress */
};

/* A directed path, with all that is done to it. */
struct shape_path {
	int from, to;			/* regions */
	struct link link;		/* rate 0: not limited; its buffer is below */
	struct shape_impair impair;
	enum buffer_kind buffer;
	double buffer_value;		/* bytes, seconds at the rate, or BDPs */
	uint64_t message_bytes;		/* largest message on it, for the buffer; 0: unknown */
	int jitter_table;		/* JITTER_TABLE: index in the file's tables */
	int64_t own_latency_ns;		/* of the path before it is shaped; counts towards the latency */
	int line;			/* in the shape file; 0: from the cluster or links file */
};

struct shape_file {
	char name[NAME_LEN];
	char *path;
	enum shape_mode mode;
	enum shape_delay delay;
	unsigned mtu;
	uint64_t gso_max_bytes;		/* set on the egress; 0: left as it is */
	int n_regions, n_hosts, n_paths;
	struct shape_region *regions;
	struct shape_host *hosts;
	struct shape_path *paths;	/* by (from, to) */
	int n_tables;
	struct jitter_table *tables;
};

/* A distribution of jitter as tc's *.dist files have it: each entry is as likely
 * as the others, and stands for entry / 8192 times the jitter. */
#define JITTER_TABLE_MIN 2
#define JITTER_TABLE_MAX 16384	/* netem's */
#define JITTER_TABLES_MAX 64	/* of one file */

struct jitter_table {
	char name[NAME_LEN];		/* the file's, without folder and .dist */
	int n;
	int16_t v[JITTER_TABLE_MAX];
};

/* Integers separated by blanks; from # to the end of the line is a comment.
 * `path` names it in messages, FILE:LINE: why. */
int jitter_table_parse(const char *text, size_t len, const char *path, struct jitter_table *out, struct bace_err *e);

/* As experiment_load. */
int shape_file_load(const char *name_or_path, struct shape_file *out, struct bace_diags *diags,
		    struct bace_err *err);
void shape_file_free(struct shape_file *f);
/* NULL: there is no such path. */
const struct shape_path *shape_file_path(const struct shape_file *f, int from, int to);

#define K_LIMIT_MAX 65536
#define REGIONS_MAX 200		/* a lab numbers them in one byte of an address */

/* Directory that bare profile names ("six-regions") are looked up in:
 * $BACE_PROFILES, else profiles/ beside the source (uninstalled) or
 * PREFIX/share/bace/profiles. A name with a slash or ending in .cfg is a path
 * relative to the file that names it. */
const char *profiles_dir(void);

/* Reads and checks an experiment with everything it names. On bad input
 * returns -EINVAL with every error in diags; on other failure -errno and err. */
int experiment_load(const char *path, struct experiment *out, struct bace_diags *diags,
		    struct bace_err *err);
void experiment_free(struct experiment *e);

/* A cluster with the regions, links, prices and GPUs that it names, checked alike. */
int cluster_load(const char *name_or_path, struct cluster *out, struct bace_diags *diags,
		 struct bace_err *err);
void cluster_free(struct cluster *c);
/* The series of every region of the cluster, in its order, from a price profile
 * ("wholesale-2024-week"): out[n_regions], each price_series_free'd, also after
 * a failure. A region that the profile lacks is bad input. */
int cluster_prices_load(const char *name_or_path, const struct cluster *c, struct price_series *out,
			struct bace_diags *diags, struct bace_err *err);
void price_series_free(struct price_series *p);

/* The models of a catalogue ("models", or a path); *out is malloc'd. */
int models_load(const char *name_or_path, struct model **out, size_t *n, struct bace_diags *diags,
		struct bace_err *err);

/* Stages, at most, of a job of this model in this experiment (k_limit), and the
 * shape of its pipelines, both by the experiment's rules. */
int experiment_k_limit(const struct experiment *e, const struct model *m);
struct pipeline_shape experiment_shape(const struct experiment *e, const struct job *j);

const char *schedule_name(enum schedule_kind s);
const char *order_name(enum order_kind o);
const char *start_name(enum start_kind s);
const char *backend_name(enum backend_kind b);
int schedule_from_name(const char *name, enum schedule_kind *out);

#endif
