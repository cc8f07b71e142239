/*
 * common: errors, diagnostics, logging, clocks, units, randomness, small
 * containers. Knows nothing about the domain; everything else may include it.
 *
 * Conventions of the whole tree: functions that can fail return 0 or a
 * negative errno and fill a struct bace_err; only main() prints. Strings
 * returned through char ** are malloc'd and owned by the caller.
 */
#ifndef BACE_COMMON_H
#define BACE_COMMON_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define BACE_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* ---- exit codes of every command ---- */
enum bace_exit {
	BACE_EXIT_OK = 0,	/* done */
	BACE_EXIT_FAILED = 1,	/* the run failed */
	BACE_EXIT_INPUT = 2,	/* bad input; nothing was changed */
	BACE_EXIT_ENV = 3,	/* the environment cannot; says what to install */
	BACE_EXIT_VERDICT = 4,	/* verdict negative */
};

/* ---- errors as values ---- */
struct bace_err {
	int errnum;		/* positive errno */
	char msg[496];		/* one line, no newline: what was tried on what */
};

/* Fills e (which may be NULL) and returns -errnum. */
int bace_fail(struct bace_err *e, int errnum, const char *fmt, ...) BACE_PRINTF(3, 4);
/* As bace_fail, with ": strerror(errnum)" appended. */
int bace_fail_errno(struct bace_err *e, int errnum, const char *fmt, ...) BACE_PRINTF(3, 4);
/* Puts "CONTEXT: " before the message that is there; returns -e->errnum. With e
 * NULL what happened is not known: -EINVAL. */
int bace_err_context(struct bace_err *e, const char *fmt, ...) BACE_PRINTF(2, 3);

/* ---- diagnostics about input: all errors of a file at once ---- */
struct bace_diag {
	char *file;
	int line;		/* 0: not about one line */
	char *text;		/* "key `x' = y: must be ..." */
};

struct bace_diags {
	struct bace_diag *v;
	size_t n;
};

void bace_diag_add(struct bace_diags *d, const char *file, int line, const char *fmt, ...)
	BACE_PRINTF(4, 5);
/* One line each: FILE:LINE: TEXT. */
void bace_diags_print(const struct bace_diags *d, FILE *to);
void bace_diags_free(struct bace_diags *d);

/* ---- cleanup attributes ---- */
void bace_cleanup_free(void *pp);	/* void ** */
void bace_cleanup_close(int *fd);
void bace_cleanup_fclose(FILE **f);
#define CLEANUP_FREE __attribute__((cleanup(bace_cleanup_free)))
#define CLEANUP_CLOSE __attribute__((cleanup(bace_cleanup_close)))
#define CLEANUP_FCLOSE __attribute__((cleanup(bace_cleanup_fclose)))
#define STEAL_PTR(p) \
	({ __typeof__(p) steal_ = (p); (p) = NULL; steal_; })
#define STEAL_FD(fd) \
	({ int steal_ = (fd); (fd) = -1; steal_; })
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* ---- log: one sink, to stderr ---- */
enum bace_level { BACE_ERROR, BACE_WARN, BACE_INFO, BACE_DEBUG };

struct bace_log_config {
	enum bace_level level;
	bool json;		/* one JSON object a line */
	const char *program;	/* borrowed for the life of the process */
	int fd;			/* where lines go; 2 by default */
};

void bace_log_setup(const struct bace_log_config *cfg);
enum bace_level bace_log_level(void);
void bace_log(enum bace_level level, const char *module, const char *fmt, ...) BACE_PRINTF(3, 4);

/* ---- what was built ---- */
const char *bace_version(void);
/* Of the source, "-dirty" behind it with changes; NULL outside a checkout. */
const char *bace_git_revision(void);

/* ---- clocks ---- */
int64_t bace_mono_ns(void);	/* CLOCK_MONOTONIC */
int64_t bace_wall_ns(void);	/* CLOCK_REALTIME */

/* ---- units: one parser for rates, times and sizes ----
 *
 * Rates are bits/s: "25gbit", "2.5mbit", "800kbit", "1500bit" (powers of 1000),
 * also "25gbit/s". Times: "38.2ms", "1.5s", "200us", "15ns", "2h", "3min",
 * "1d". Sizes are bytes: "500kB", "4MB", "1.5GB" (1000) and "64KiB", "1MiB",
 * "2GiB" (1024), "1500B". A number without a unit, "10Gb" (bits or bytes?),
 * "gbps" (bits or bytes?), inf, nan and negative values are refused, with what
 * to write instead.
 */
int bace_parse_rate_bps(const char *s, uint64_t *bps, struct bace_err *e);
int bace_parse_time_ns(const char *s, int64_t *ns, struct bace_err *e);
int bace_parse_size_bytes(const char *s, uint64_t *bytes, struct bace_err *e);
/* Digits only, from lo to hi; false otherwise, and *out is as it was. */
bool bace_parse_whole(const char *s, uint64_t lo, uint64_t hi, uint64_t *out);
bool bace_parse_int(const char *s, int lo, int hi, int *out);	/* lo: not below 0 */

#define BACE_FMT_MAX 32
/* Shortest exact-enough form, e.g. "4.24 Gbit/s", "38.2 ms", "500 kB". Return buf. */
const char *bace_fmt_rate(char buf[BACE_FMT_MAX], double bps);
const char *bace_fmt_time(char buf[BACE_FMT_MAX], double seconds);
const char *bace_fmt_size(char buf[BACE_FMT_MAX], double bytes);

/* ---- randomness: one seeded generator that the run records ---- */
struct bace_rng {
	uint64_t s[4];
};

/* Same seed and stream: same numbers on every machine. */
void bace_rng_init(struct bace_rng *r, uint64_t seed, uint64_t stream);
uint64_t bace_rng_u64(struct bace_rng *r);
uint64_t bace_rng_below(struct bace_rng *r, uint64_t n);	/* unbiased, n > 0 */
double bace_rng_uniform(struct bace_rng *r);			/* [0, 1) */
double bace_rng_normal(struct bace_rng *r);			/* mean 0, sd 1 */
double bace_rng_exponential(struct bace_rng *r, double mean);

/* ---- growable string ---- */
struct bace_buf {
	char *p;		/* always NUL-terminated once non-NULL */
	size_t len, cap;
};

int bace_buf_add(struct bace_buf *b, const void *data, size_t n);
int bace_buf_addf(struct bace_buf *b, const char *fmt, ...) BACE_PRINTF(2, 3);
void bace_buf_free(struct bace_buf *b);

/* ---- growable arrays: BACE_PUSH(v, n, cap, item), -ENOMEM or 0 ---- */
int bace_grow(void *pp, size_t *cap, size_t need, size_t item_size);
#define BACE_PUSH(v, n, cap, item)                                                   \
	({                                                                           \
		int rc_ = (n) < (cap) ? 0 : bace_grow(&(v), &(cap), (n) + 1, sizeof(*(v))); \
		if (!rc_)                                                            \
			(v)[(n)++] = (item);                                         \
		rc_;                                                                 \
	})

/* ---- nearest known word, for "did you mean" (NULL if none is near) ---- */
const char *bace_nearest(const char *word, const char *const *known, size_t n);

/* ---- files ---- */
/* The whole file, malloc'd and with a NUL behind it; len may be NULL. -EFBIG: longer
 * than max_bytes; -EISDIR; others of open and read. */
int bace_read_file(const char *path, size_t max_bytes, char **text, size_t *len, struct bace_err *e);
/* Goes on after signals and short writes. */
int bace_write_all(int fd, const void *p, size_t n);

/* A file written whole or not at all: into a new file beside it, renamed when
 * it is closed. A pipe, a character device and what standard output leads to
 * are written into as they are and never replaced; folders, disks and sockets
 * are refused. Symbolic links stay. */
struct bace_outfile {
	FILE *f;		/* write here; NULL: not open */
	char *target, *part;	/* private */
	char *buffer;
	char path[256];
};
int bace_outfile_open(const char *path, struct bace_outfile *o, struct bace_err *e);
/* Closes and puts it in place if rc is 0, else throws it away. Returns rc, or
 * -errno if what was written did not arrive; e has what happened first. */
int bace_outfile_close(struct bace_outfile *o, int rc, struct bace_err *e);

/* 64-bit FNV-1a, for digests of canonical keys (not for security). */
uint64_t bace_hash64(const void *p, size_t n, uint64_t seed);

/* For qsort: doubles, ascending. */
int bace_by_double(const void *a, const void *b);
/* Quantile of type 7, as R and numpy have it; by selection, which reorders v.
 * NAN: n is 0, or q not in 0..1. */
double bace_quantile(double *v, size_t n, double q);

#endif
