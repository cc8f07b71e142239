#include "workloads/nccl/log.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#define SOCKET_PATH "NET/Socket/"

/* ---- one line ---- */

static bool skip(const char **p, const char *word)
{
	size_t n = strlen(word);

	if (strncmp(*p, word, n))
		return false;
	*p += n;
	return true;
}

static bool number(const char **p, int *out)
{
	const char *s = *p;
	int v = 0;

	for (; isdigit((unsigned char)*s); s++) {
		if (v > 100000000)
			return false;
		v = 10 * v + (*s - '0');
	}
	if (s == *p)
		return false;
	*p = s;
	if (out)
		*out = v;
	return true;
}

/* "3[0]": a rank and its device, which may be "-1" or hexadecimal. */
static bool rank(const char **p, int *out)
{
	if (!number(p, out) || !skip(p, "["))
		return false;
	*p += strspn(*p, "-0123456789abcdefx");
	return skip(p, "]");
}

static void copy_word(char *to, size_t size, const char *from)
{
	size_t n = strcspn(from, " \t\r");

	snprintf(to, size, "%.*s", (int)(n < size ? n : size - 1), from);
}

static void add_path(struct nccl_log *log, const struct nccl_path *path)
{
	for (size_t i = 0; i < log->n_paths; i++) {
		const struct nccl_path *have = &log->paths[i];

		if (have->from == path->from && have->to == path->to && have->end == path->end &&
		    !strcmp(have->via, path->via))
			return;
	}
	if (log->n_paths == NCCL_LOG_PATHS_MAX)
		log->too_many = true;
	else
		log->paths[log->n_paths++] = *path;
}

/* Behind "Channel ". Lines of rings and trees begin so too, and have no "->". */
static void take_channel(struct nccl_log *log, const char *p)
{
	struct nccl_path path = { .end = PATH_BOTH };

	if (!number(&p, NULL))
		return;
	if (skip(&p, "/") && !number(&p, NULL))
		return;
	if (!skip(&p, " : ") || !rank(&p, &path.from) || !skip(&p, " -> ") || !rank(&p, &path.to) || !skip(&p, " "))
		return;
	if (skip(&p, "[send] "))
		path.end = PATH_SEND;
	else if (skip(&p, "[receive] "))
		path.end = PATH_RECEIVE;
	if (!skip(&p, "via "))
		return;
	copy_word(path.via, sizeof(path.via), p);
	add_path(log, &path);
}

static void take_line(struct nccl_log *log)
{
	static const char network[] = " NCCL INFO Using network ", interfaces[] = " NCCL INFO NET/Socket : Using ";
	static const char channel[] = " NCCL INFO Channel ", warning[] = " NCCL WARN ";
	const char *at;

	log->line[log->len] = '\0';
	if ((at = strstr(log->line, network)))
		copy_word(log->network, sizeof(log->network), at + sizeof(network) - 1);
	else if ((at = strstr(log->line, interfaces)))
		snprintf(log->interfaces, sizeof(log->interfaces), "%.199s", at + sizeof(interfaces) - 1);
	else if ((at = strstr(log->line, channel)))
		take_channel(log, at + sizeof(channel) - 1);
	else if ((at = strstr(log->line, warning)))
		snprintf(log->warning, sizeof(log->warning), "%.255s", at + sizeof(warning) - 1);
}

void nccl_log_feed(struct nccl_log *log, const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char c = text[i];

		if (c == '\n') {
			take_line(log);
			log->len = 0;
		} else if (log->len < sizeof(log->line) - 1) {
			/* What is quoted in a message must stay one line of text. */
			log->line[log->len++] = (unsigned char)c < 0x20 || (unsigned char)c > 0x7e ? ' ' : c;
		}
	}
}

/* ---- what it says ---- */

static bool has_path(const struct nccl_log *log, int from, int to, int end)
{
	for (size_t i = 0; i < log->n_paths; i++)
		if (log->paths[i].from == from && log->paths[i].to == to && (int)log->paths[i].end == end)
			return true;
	return false;
}

/* "[0]eth0:10.1.2.3<0>", alone or first of several. */
static bool uses(const char *interfaces, const char *interface)
{
	size_t n = strlen(interface);
	const char *at;

	for (at = strstr(interfaces, interface); at; at = strstr(at + 1, interface))
		if (at > interfaces && at[-1] == ']' && at[n] == '<')
			return true;
	return false;
}

int nccl_log_check(const struct nccl_log *log, int rank_here, const int *peers, size_t n_peers,
		   const char *interface, struct bace_err *e)
{
	if (log->too_many)
		return bace_fail(e, EPROTO, "NCCL's log names more than %d paths", NCCL_LOG_PATHS_MAX);
	if (strcmp(log->network, "Socket"))
		return bace_fail(e, EPROTO, "NCCL's log says that it uses the network `%s', not Socket",
				 log->network[0] ? log->network : "nothing");
	if (!uses(log->interfaces, interface) || strstr(log->interfaces, "[1]"))
		return bace_fail(e, EPROTO, "NCCL's log says that it uses `%.80s', not %s alone",
				 log->interfaces[0] ? log->interfaces : "no interface", interface);
	for (size_t i = 0; i < log->n_paths; i++) {
		const struct nccl_path *p = &log->paths[i];

		if (strncmp(p->via, SOCKET_PATH, strlen(SOCKET_PATH)))
			return bace_fail(e, EPROTO, "NCCL's log says that rank %d reaches rank %d via %s, not over "
					 "kernel sockets: its traffic would pass the shaper by", p->from, p->to, p->via);
	}
	for (size_t i = 0; i < n_peers; i++)
		if (!has_path(log, rank_here, peers[i], PATH_SEND) || !has_path(log, peers[i], rank_here, PATH_RECEIVE))
			return bace_fail(e, EPROTO, "NCCL's log does not say how it sends to rank %d and receives from "
					 "it", peers[i]);
	return 0;
}
