#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/common.h"

static struct bace_log_config config = { .level = BACE_INFO, .program = "bace", .fd = 2 };

static const char *const level_names[] = {
	[BACE_ERROR] = "error",
	[BACE_WARN] = "warning",
	[BACE_INFO] = "info",
	[BACE_DEBUG] = "debug",
};

void bace_log_setup(const struct bace_log_config *cfg)
{
	config = *cfg;
	if (!config.program)
		config.program = "bace";
}

enum bace_level bace_log_level(void)
{
	return config.level;
}

static int add_json_string(struct bace_buf *b, const char *s)
{
	int rc = bace_buf_add(b, "\"", 1);

	for (; !rc && *s; s++) {
		unsigned char c = *s;

		if (c == '"' || c == '\\')
			rc = bace_buf_addf(b, "\\%c", c);
		else if (c < 0x20)
			rc = bace_buf_addf(b, "\\u%04x", c);
		else
			rc = bace_buf_add(b, s, 1);
	}
	return rc ? rc : bace_buf_add(b, "\"", 1);
}

static int format_json(struct bace_buf *b, enum bace_level level, const char *module,
		       const char *text)
{
	int64_t now = bace_wall_ns();
	int rc = bace_buf_addf(b, "{\"time\":%lld.%06d,\"level\":\"%s\",\"pid\":%d,\"program\":",
			       (long long)(now / 1000000000), (int)(now % 1000000000 / 1000),
			       level_names[level], (int)getpid());

	rc = rc ? rc : add_json_string(b, config.program);
	rc = rc ? rc : bace_buf_addf(b, ",\"module\":");
	rc = rc ? rc : add_json_string(b, module);
	rc = rc ? rc : bace_buf_addf(b, ",\"message\":");
	rc = rc ? rc : add_json_string(b, text);
	return rc ? rc : bace_buf_addf(b, "}\n");
}

static int format_text(struct bace_buf *b, enum bace_level level, const char *module, char *text)
{
	for (char *c = text; *c; c++)
		if (*c == '\n' || *c == '\r')
			*c = ' ';
	if (level == BACE_INFO)
		return bace_buf_addf(b, "%s: %s: %s\n", config.program, module, text);
	return bace_buf_addf(b, "%s: %s: %s: %s\n", config.program, level_names[level], module, text);
}

void bace_log(enum bace_level level, const char *module, const char *fmt, ...)
{
	int saved = errno;
	struct bace_buf b = { 0 };
	char text[1024];
	va_list ap;
	int rc;

	if (level > config.level)
		return;
	va_start(ap, fmt);
	if (vsnprintf(text, sizeof(text), fmt, ap) < 0)
		text[0] = '\0';
	va_end(ap);
	if (!module)
		module = "-";
	rc = config.json ? format_json(&b, level, module, text) : format_text(&b, level, module, text);
	/* One write a line, so that lines of several processes do not mix. */
	if (!rc)
		bace_write_all(config.fd, b.p, b.len);
	bace_buf_free(&b);
	errno = saved;
}
