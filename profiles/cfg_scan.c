/*
 * A look at a file's text before libconfig 1.5 parses it, for what it would
 * take for something else in silence: integers that do not fit 32 bits without
 * the suffix L (they wrap), numbers out of range, and @include (the text of the
 * experiment would not be whole). nan and inf would end parsing, so that only
 * the first error of the file were known.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "profiles/cfg.h"

struct scanner {
	struct cfg_file *f;
	char *c;
	int line;
	char key[NAME_LEN];	/* the last name before a = or : */
	char before;		/* last character that is not blank */
};

static void refuse(struct scanner *s, const char *value, int len, const char *what)
{
	struct cfg_file *f = s->f;

	bace_diag_add(f->loader->diags, f->path, s->line, "%s%s%s%.*s: %s", *s->key ? "key `" : "",
		      s->key, *s->key ? "' = " : "", len > 60 ? 60 : len, value, what);
	if (f->n_scan_lines < CFG_SCAN_LINES)
		f->scan_lines[f->n_scan_lines++] = s->line;
}

static bool skip_comment(struct scanner *s)
{
	if (*s->c == '#' || (*s->c == '/' && s->c[1] == '/')) {
		while (*s->c && *s->c != '\n')
			s->c++;
		return true;
	}
	if (*s->c == '/' && s->c[1] == '*') {
		for (s->c += 2; *s->c && !(*s->c == '*' && s->c[1] == '/'); s->c++)
			s->line += *s->c == '\n';
		if (*s->c)
			s->c += 2;
		return true;
	}
	return false;
}

static void skip_string(struct scanner *s)
{
	for (s->c++; *s->c && *s->c != '"'; s->c++) {
		if (*s->c == '\\' && s->c[1])
			s->c++;
		s->line += *s->c == '\n';
	}
	if (*s->c)
		s->c++;
	s->before = '"';
}

static bool is_value_position(const struct scanner *s)
{
	return s->before && strchr("=:,([", s->before);
}

static bool is_not_finite(const char *c, int n)
{
	static const char *const words[] = { "nan", "inf", "infinity" };

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if ((int)strlen(words[i]) == n && !strncasecmp(c, words[i], (size_t)n))
			return true;
	return false;
}

/* Something of the same length that parses. */
static void blank(char *c, int n)
{
	memset(c, ' ', (size_t)n);
	memcpy(c, "0.0", n < 3 ? 1 : 3);
}

static int word_length(const char *c)
{
	int n = 0;

	while (isalnum((unsigned char)c[n]) || c[n] == '_' || c[n] == '-' || c[n] == '*')
		n++;
	return n;
}

static void scan_word(struct scanner *s)
{
	int n = word_length(s->c);
	char *end = s->c + n;

	if (is_value_position(s)) {
		if (is_not_finite(s->c, n)) {
			refuse(s, s->c, n, "must be a finite number");
			blank(s->c, n);
		}
	} else {
		snprintf(s->key, sizeof(s->key), "%.*s", n, s->c);
	}
	s->c = end;
	s->before = 'a';
}

static bool fits_integer(const char *c, int n)
{
	bool hex = n > 2 && c[0] == '0' && (c[1] == 'x' || c[1] == 'X');
	bool is_long = c[n - 1] == 'L';
	char *end;

	errno = 0;
	if (hex) {
		unsigned long long u = strtoull(c, &end, 16);

		return errno != ERANGE && (is_long || u <= UINT32_MAX);
	}
	long long v = strtoll(c, &end, 10);

	return errno != ERANGE && (is_long || (v >= INT32_MIN && v <= INT32_MAX));
}

static void scan_number(struct scanner *s)
{
	char *start = s->c;
	int n = *start == '-' || *start == '+';
	bool integer = true;

	if (is_value_position(s) && is_not_finite(start + n, word_length(start + n))) {
		int len = n + word_length(start + n);

		refuse(s, start, len, "must be a finite number");
		blank(start, len);
		s->c = start + len;
		s->before = '0';
		return;
	}
	for (; isalnum((unsigned char)start[n]) || start[n] == '.' ||
	       ((start[n] == '-' || start[n] == '+') && (start[n - 1] == 'e' || start[n - 1] == 'E') &&
		strncasecmp(start, "0x", 2)); n++)
		if (start[n] == '.' || ((start[n] == 'e' || start[n] == 'E') && strncasecmp(start, "0x", 2)))
			integer = false;
	/* A sign alone is for the parser to refuse; it must not hold up the scan. */
	s->c = start + (n ? n : 1);
	s->before = '0';
	if (integer && n && isdigit((unsigned char)start[n > 1 && !isdigit((unsigned char)*start)]) &&
	    !fits_integer(start, n)) {
		refuse(s, start, n, "does not fit 32 bits: write it with a point or an exponent "
		       "(1e11), or as a string with a unit");
		blank(start, n);
	}
}

static void scan_at(struct scanner *s)
{
	int n = 0;

	while (s->c[n] && s->c[n] != '\n')
		n++;
	s->key[0] = '\0';
	refuse(s, s->c, n, "not allowed in profiles: name the file with a key, or copy the lines");
	memset(s->c, ' ', (size_t)n);
	s->c += n;
}

void cfg_scan(struct cfg_file *f, char *text)
{
	struct scanner s = { .f = f, .c = text, .line = 1 };

	while (*s.c) {
		unsigned char c = *s.c;

		if (skip_comment(&s))
			continue;
		if (c == '"') {
			skip_string(&s);
		} else if (isalpha(c) || c == '*') {
			scan_word(&s);
		} else if (isdigit(c) || c == '-' || c == '+' || c == '.') {
			scan_number(&s);
		} else if (c == '@') {
			scan_at(&s);
		} else {
			s.line += c == '\n';
			if (!isspace(c))
				s.before = c;
			s.c++;
		}
	}
}

void cfg_duplicate_key(const char *text, int line, char *key, size_t cap)
{
	char seen[16][NAME_LEN];
	size_t n = 0;

	*key = '\0';
	for (; line > 1 && text; line--)
		text = (text = strchr(text, '\n')) ? text + 1 : NULL;
	while (text && *text && *text != '\n') {
		int len = isalpha((unsigned char)*text) ? word_length(text) : 0;
		const char *after = text + len + strspn(text + len, " \t");

		if (len && (*after == '=' || *after == ':') && n < ARRAY_LEN(seen)) {
			snprintf(seen[n], sizeof(seen[n]), "%.*s", len, text);
			for (size_t i = 0; i < n && !*key; i++)
				if (!strcmp(seen[i], seen[n]))
					snprintf(key, cap, "%s", seen[n]);
			n++;
		}
		text += len ? len : 1;
	}
	/* One key on the line: it is the one. */
	if (!*key && n == 1)
		snprintf(key, cap, "%s", seen[0]);
}
