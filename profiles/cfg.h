/*
 * Reading of checked libconfig files: every file of one load goes through one
 * cfg_loader, which keeps the text of all and every error of all. A group is
 * read by a table (key, type, range), so that each key is stated once.
 */
#ifndef BACE_PROFILES_CFG_H
#define BACE_PROFILES_CFG_H

#include <libconfig.h>

#include "profiles/profiles.h"

#define CFG_FILE_MAX (8u << 20)
#define CFG_SCAN_LINES 32

/* Files in one text, when the experiment came as such; else n = 0. */
struct cfg_bundle {
	size_t n, cap;
	struct cfg_part {
		const char *path, *text;
		size_t len;
	} *v;
	char *text;
};

struct cfg_loader {
	struct bace_diags *diags;	/* borrowed */
	struct cfg_bundle bundle;	/* read from here and nowhere else, if there is one */
	struct bace_buf text;		/* every file read, each under a header line */
	size_t n_files, cap_files;
	char **files;			/* paths; diagnostics and policies borrow them */
	int rc;				/* a failure that is not bad input, else 0 */
};

void cfg_loader_free(struct cfg_loader *l);
/* -EINVAL after any diagnostic since `since`, l->rc after a failure, else 0. */
int cfg_loader_status(const struct cfg_loader *l, size_t since, struct bace_err *e);
/* Records that memory ran out; always returns false. */
bool cfg_no_memory(struct cfg_loader *l);

bool cfg_bundle_is(const char *text, size_t len);
/* Takes text over; false with a diagnostic if it is damaged. */
bool cfg_bundle_take(struct cfg_loader *l, const char *path, char *text, size_t len);
void cfg_bundle_free(struct cfg_bundle *b);
int cfg_bundle_add(struct bace_buf *b, const char *path, const char *text, size_t len);
/* From the bundle, or the file system; false leaves errno. */
bool cfg_readable(const struct cfg_loader *l, const char *path);
int cfg_read_text(const struct cfg_loader *l, const char *path, char **text, size_t *len, struct bace_err *e);

/* A file that is not libconfig's: read and kept as every other; malloc'd. */
int cfg_keep_text(struct cfg_loader *l, const char *path, char **text, size_t *len, struct bace_err *e);

struct cfg_file {
	config_t cfg;			/* first: settings lead back here */
	struct cfg_loader *loader;
	const char *path;		/* owned by the loader */
	int n_scan_lines;		/* lines that already have an error about their text */
	int scan_lines[CFG_SCAN_LINES];
};

/* Reads and parses; false with a diagnostic otherwise. Close in either case. */
bool cfg_open(struct cfg_loader *l, const char *path, struct cfg_file *f);
void cfg_close(struct cfg_file *f);
static inline config_setting_t *cfg_root(const struct cfg_file *f)
{
	return config_root_setting(&f->cfg);
}

/* What the path `name' means in the file `from' (NULL: on the command line): from
 * that one's folder, unless it says all of it. malloc'd. */
char *cfg_relative(const char *name, const char *from);
/* Path of the profile that `name` means in the file `from` (NULL: on the command
 * line): bare names are DIR/KIND/NAME.cfg, others relative to `from`. malloc'd. */
char *cfg_resolve(const char *kind, const char *name, const char *from);
/* The profile that key `key` of `group` names, or `fallback` if it is not there;
 * NULL with a diagnostic if it is missing or not to be read. malloc'd. */
char *cfg_reference(config_setting_t *group, const char *key, const char *kind,
		    const char *fallback);
#define CFG_SUGGEST_MAX 400
/* Nearest name among the profiles of a kind, "; did you mean `x'?", or if none is near those
 * that there are, "; there are x, y"; "" for a path, or where there are none. */
void cfg_suggest_profile(const char *kind, const char *name, char buf[CFG_SUGGEST_MAX]);

/* Checks the text for what libconfig would silently take for something else,
 * and blanks it there. */
void cfg_scan(struct cfg_file *f, char *text);
/* Has the line such an error? */
bool cfg_scanned(const struct cfg_file *f, int line);
/* The key that a duplicate on this line is about, or "". */
void cfg_duplicate_key(const char *text, int line, char *key, size_t cap);

enum cfg_type {
	CFG_NAME,	/* char[NAME_LEN]: letters, digits, . _ + - */
	CFG_TEXT,	/* char[max] */
	CFG_STRING,	/* char *, malloc'd */
	CFG_INT,	/* int */
	CFG_SEED,	/* uint64_t */
	CFG_NUMBER,	/* double */
	CFG_BOOL,	/* bool */
	CFG_RATE,	/* uint64_t, bits/s */
	CFG_RATE_D,	/* double, bits/s */
	CFG_TIME_NS,	/* int64_t */
	CFG_TIME_S,	/* double */
	CFG_SIZE,	/* uint64_t, bytes */
	CFG_SIZE_D,	/* double, bytes */
	CFG_CHOICE,	/* an enum, by position in `choices` */
	CFG_FILE,	/* a string for cfg_reference: not stored */
	CFG_GROUP,	/* { }: read by the caller */
	CFG_LIST,	/* ( ), not empty: read by the caller */
	CFG_ANY,	/* read by the caller */
};

enum cfg_flag {
	CFG_REQUIRED = 1,
	CFG_ABOVE = 2,	/* min itself is not allowed */
};

struct cfg_key {
	const char *key;
	enum cfg_type type;
	unsigned flags;
	size_t offset;
	double min, max;	/* numbers, and rates, times, sizes in bits/s, s, bytes */
	const char *const *choices;	/* NULL-terminated */
};

#define CFG_NO_MAX 1e300

/* Fills *out from a group: unknown keys, missing keys, types and ranges are
 * diagnosed. What is not given is left as it is. True if nothing was wrong. */
bool cfg_read(config_setting_t *group, const struct cfg_key *keys, size_t n, void *out);
/* One setting that is not a member of a read group (an array's element). */
bool cfg_read_value(config_setting_t *s, const struct cfg_key *key, void *out);

/* FILE:LINE: key `PATH' = VALUE: MESSAGE. */
void cfg_error(const config_setting_t *s, const char *fmt, ...) BACE_PRINTF(2, 3);
/* The same about a key that is not there. */
void cfg_missing(const config_setting_t *group, const char *key, const char *fmt, ...)
	BACE_PRINTF(3, 4);
struct cfg_file *cfg_file_of(const config_setting_t *s);

/* Index of the first of n items with this name, or -1. */
int cfg_find_name(const void *v, size_t n, size_t item_size, size_t name_offset, const char *name);

#endif
