/* gnuplot as a child: a script in, SVG for a web page out. */
#include "results/plot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "results/table.h"

#define SVG_MAX (8u << 20)

/* Readable on light and on dark; neighbours differ in lightness as well. */
static const char *const colors[PLOT_SERIES_MAX] = { "#2f7ebc", "#d9702b", "#2a9d6f", "#b9549a", "#c49a1a",
	"#3aa6c4", "#7d6bc4", "#808a94" };

void plot_begin(struct plot *p, int width, int height)
{
	*p = (struct plot){ .width = width, .height = height };
	bace_buf_addf(&p->script, "set terminal svg size %d,%d dynamic enhanced font 'system-ui,14' rounded "
		      "background rgb '#fffffe'\nset encoding utf8\nset border 3 lw 1 lc rgb '#808080'\n"
		      "set tics nomirror out scale 0.5 textcolor rgb 'black'\nset grid lc rgb '#808080' lw 0.5 dt 3\n"
		      "set key top left Left reverse samplen 1 spacing 1.1\nset offsets graph 0.06, graph "
		      "0.06, graph 0.06, graph 0.06\n", width, height);
	for (int i = 0; i < PLOT_SERIES_MAX; i++)
		bace_buf_addf(&p->script, "set linetype %d lc rgb '%s' lw 1.5 pt %d\n", i + 1, colors[i],
			      plot_point(i, true));
}

int plot_point(int series, bool filled)
{
	static const int hollow[] = { 6, 4, 8, 12, 10, 14 };

	return hollow[series % (int)ARRAY_LEN(hollow)] + filled;
}

void plot_text(struct plot *p, const char *text)
{
	/* In "enhanced" text these are markup; after a backslash they are not. */
	bace_buf_add(&p->script, "\"", 1);
	for (; *text; text++) {
		if ((unsigned char)*text < 32)
			continue;
		if (*text == '"' || *text == '`' || *text == '$')
			bace_buf_addf(&p->script, "\\%c", *text);
		else if (strchr("\\{}^_@&~", *text))
			bace_buf_addf(&p->script, "\\\\%s%c", *text == '\\' ? "\\" : "", *text);
		else
			bace_buf_add(&p->script, text, 1);
	}
	bace_buf_add(&p->script, "\"", 1);
}

static int run_gnuplot(int script, int out, int err)
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);

		setenv("LC_ALL", "C.UTF-8", 1);
		if (dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0 || dup2(script, 3) < 0)
			_exit(126);
		execlp("gnuplot", "gnuplot", "-d", "/dev/fd/3", NULL);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (!WIFEXITED(status))
		return -EIO;
	return WEXITSTATUS(status) == 127 ? -ENOENT : WEXITSTATUS(status) ? -EIO : 0;
}

static char *file_text(int fd)
{
	off_t size = lseek(fd, 0, SEEK_END);
	char *text = size >= 0 && size <= SVG_MAX ? calloc((size_t)size + 1, 1) : NULL;

	if (text && pread(fd, text, (size_t)size, 0) == size)
		return text;
	free(text);
	return NULL;
}

static int gnuplot(const struct bace_buf *script, char **text, struct bace_err *e)
{
	CLEANUP_CLOSE int in = memfd_create("script", MFD_CLOEXEC);
	CLEANUP_CLOSE int out = memfd_create("svg", MFD_CLOEXEC);
	CLEANUP_CLOSE int err = memfd_create("messages", MFD_CLOEXEC);
	int rc;

	if (in < 0 || out < 0 || err < 0 || bace_write_all(in, script->p, script->len) ||
	    lseek(in, 0, SEEK_SET))
		return bace_fail_errno(e, errno, "script for gnuplot");
	rc = run_gnuplot(in, out, err);
	if (rc == -ENOENT)
		return bace_fail(e, ENOENT, "gnuplot is not installed (Debian package gnuplot-nox)");
	if (rc) {
		CLEANUP_FREE char *said = file_text(err);

		return bace_fail(e, EIO, "gnuplot failed: %.300s", said ? said : "it said nothing");
	}
	*text = file_text(out);
	return *text ? 0 : bace_fail(e, ENOMEM, "plot: out of memory");
}

/* ---- gnuplot's SVG made fit for a page ---- */

static const struct {
	const char *from, *to;
} renamed[] = {
	/* Longest first. An id must be one of a kind in the page. */
	{ "xlink:href='#", NULL },
	{ "href='#", NULL }, { "id='", NULL }, { "id=\"", NULL }, { "url(#", NULL },
	{ "stroke=\"black\"", "stroke=\"currentColor\"" }, { "stroke='black'", "stroke='currentColor'" },
	{ "fill=\"black\"", "fill=\"currentColor\"" }, { "fill = 'black'", "fill='currentColor'" },
	{ "stroke='rgb(  0,   0,   0)'", "stroke='currentColor'" },
	{ "fill=\"rgb(0,0,0)\"", "fill=\"currentColor\"" }, { " color=\"black\"", "" }, { " color=\"gray\"", "" },
	{ "color='#FFFFFE'", "color='transparent'" }, { "fill=\"#fffffe\"", "fill=\"none\"" },
	{ " font-family=\"system-ui\" ", "" }, { "font-family=\"system-ui\"", "" },
};

static size_t rename_at(const char *p, const char *prefix, struct bace_buf *out)
{
	for (size_t i = 0; i < ARRAY_LEN(renamed); i++) {
		size_t n = strlen(renamed[i].from);

		if (strncmp(p, renamed[i].from, n))
			continue;
		if (renamed[i].to)
			bace_buf_addf(out, "%s", renamed[i].to);
		else
			bace_buf_addf(out, "%s%s-", renamed[i].from, prefix);
		return n;
	}
	bace_buf_add(out, p, 1);
	return 1;
}

static void add_escaped(struct bace_buf *b, const char *s)
{
	for (; *s; s++) {
		switch (*s) {
		case '<': bace_buf_addf(b, "&lt;"); break;
		case '>': bace_buf_addf(b, "&gt;"); break;
		case '&': bace_buf_addf(b, "&amp;"); break;
		default: bace_buf_add(b, s, 1);
		}
	}
}

/* Groups that draw nothing are half of what gnuplot writes. */
static const char *skip_empty_group(const char *p)
{
	const char *q;

	if (strncmp(p, "<g fill=", 8))
		return p;
	q = strchr(p, '>');
	if (!q)
		return p;
	q += 1 + strspn(q + 1, "\n\t ");
	if (strncmp(q, "</g>", 4))
		return p;
	q += 4;
	return q + strspn(q, "\n");
}

static int clean(const struct plot *p, const char *text, const char *prefix, const char *title,
		 const char *alt, char **svg)
{
	const char *body = strstr(text, "</desc>");
	struct bace_buf b = { 0 };

	if (!body)
		return -EIO;
	bace_buf_addf(&b, "<svg viewBox=\"0 0 %d %d\" xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink="
		      "\"http://www.w3.org/1999/xlink\" role=\"img\" aria-labelledby=\"%s-title %s-desc\">\n"
		      "<title id=\"%s-title\">", p->width, p->height, prefix, prefix, prefix);
	add_escaped(&b, title);
	bace_buf_addf(&b, "</title><desc id=\"%s-desc\">", prefix);
	add_escaped(&b, alt);
	bace_buf_addf(&b, "</desc>");
	for (body += strlen("</desc>"); *body;) {
		const char *next = skip_empty_group(body);

		body = next != body ? next : body + rename_at(body, prefix, &b);
	}
	*svg = b.p;
	return b.p ? 0 : -ENOMEM;
}

int plot_finish(struct plot *p, const char *prefix, const char *title, const char *alt, char **svg,
		struct bace_err *e)
{
	CLEANUP_FREE char *text = NULL;
	int rc = p->script.p ? gnuplot(&p->script, &text, e) : bace_fail(e, ENOMEM, "plot: out of memory");

	bace_buf_free(&p->script);
	if (rc)
		return rc;
	rc = clean(p, text, prefix, title, alt, svg);
	return rc ? bace_fail(e, -rc, "gnuplot made no SVG") : 0;
}
