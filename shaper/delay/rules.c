#include "shaper/delay/rules.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "shaper/delay/nfqueue.h"
#include "shaper/plan.h"
#include "shaper/process.h"

#define CHAIN "BACE-DELAY"
#define RULES_MAX 64	/* more prefixes than this are told apart by the delay line alone */

struct tools {
	const char *const *restore, *const *save;
};

static const char *const restore4[] = { "iptables-legacy-restore", "iptables-restore", NULL };
static const char *const restore6[] = { "ip6tables-legacy-restore", "ip6tables-restore", NULL };
static const char *const save4[] = { "iptables-legacy-save", "iptables-save", NULL };
static const char *const save6[] = { "ip6tables-legacy-save", "ip6tables-save", NULL };

static struct tools tools_of(uint8_t family)
{
	return family == AF_INET ? (struct tools){ restore4, save4 } : (struct tools){ restore6, save6 };
}

static int count_prefixes(const struct shape_spec *s, uint8_t family)
{
	int n = 0;

	for (int i = 0; i < s->n_links; i++)
		for (int j = 0; j < s->links[i].n_prefixes; j++)
			n += s->links[i].prefixes[j].family == family && plan_link_is_delayed(&s->links[i]);
	return n;
}

static int queue_rule(const struct shape_spec *s, const char *match, struct bace_buf *out)
{
	return bace_buf_addf(out, "-A " CHAIN "%s -j NFQUEUE --queue-num %u%s\n", match, NFQUEUE_NUMBER,
			     s->fail_closed ? "" : " --queue-bypass");
}

int delay_rules_text(const struct shape_spec *s, uint8_t family, bool jump, struct bace_buf *out)
{
	int rc = bace_buf_addf(out, "*mangle\n:" CHAIN " - [0:0]\n");

	if (!rc && jump)
		rc = bace_buf_addf(out, "-A PREROUTING -i %s -j " CHAIN "\n", s->egress);
	if (!rc && count_prefixes(s, family) > RULES_MAX) {
		rc = queue_rule(s, "", out);
		return rc ? rc : bace_buf_addf(out, "COMMIT\n");
	}
	for (int i = 0; i < s->n_links && !rc; i++) {
		for (int j = 0; j < s->links[i].n_prefixes && !rc; j++) {
			const struct shape_prefix *p = &s->links[i].prefixes[j];
			char text[64], match[80];

			if (p->family != family || !plan_link_is_delayed(&s->links[i]))
				continue;
			snprintf(match, sizeof(match), " -s %s", shape_prefix_format(p, text));
			rc = queue_rule(s, match, out);
		}
	}
	return rc ? rc : bace_buf_addf(out, "COMMIT\n");
}

static int restore(uint8_t family, const char *text, struct bace_err *e)
{
	struct bace_buf output = { 0 };
	const char *const args[] = { "--noflush", "-w", "5", NULL };
	int rc = process_run(tools_of(family).restore, args, text, &output, e);

	bace_buf_free(&output);
	if (rc == -ENOENT && e)
		return bace_fail(e, ENOENT, "%s (Debian package iptables)", e->msg);
	return rc;
}

/* Is the mangle table in use at all? Reading it would create it. */
static bool table_exists(uint8_t family)
{
	CLEANUP_FREE char *names = NULL;
	size_t n;

	if (bace_read_file(family == AF_INET ? "/proc/thread-self/net/ip_tables_names"
					     : "/proc/thread-self/net/ip6_tables_names",
			   4096, &names, &n, NULL))
		return true;
	return strstr(names, "mangle");
}

/* Without the kernel's part legacy rules cannot stand; the tool then fails. */
static bool no_legacy_tables(uint8_t family)
{
	return access(family == AF_INET ? "/proc/thread-self/net/ip_tables_names"
					: "/proc/thread-self/net/ip6_tables_names", F_OK) != 0;
}

/* Jumps to our chain that stand in a saved table, as the lines that delete them. */
static int removal_text(const char *saved, struct bace_buf *out)
{
	bool chain = strstr(saved, ":" CHAIN " ");
	int rc = 0;

	if (!chain)
		return 0;
	rc = bace_buf_addf(out, "*mangle\n");
	for (const char *line = saved; line && !rc; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		size_t n = strcspn(line, "\n");

		if (!strncmp(line, "-A PREROUTING ", 14) && n > 14 && memmem(line, n, "-j " CHAIN, strlen("-j " CHAIN)))
			rc = bace_buf_addf(out, "-D%.*s\n", (int)n - 2, line + 2);
	}
	return rc ? rc : bace_buf_addf(out, "-F " CHAIN "\n-X " CHAIN "\nCOMMIT\n");
}

static int clear_family(uint8_t family, struct bace_err *e)
{
	const char *const args[] = { "-t", "mangle", NULL };
	struct bace_buf saved = { 0 }, text = { 0 };
	int rc = 0;

	/* A rule of ours would be a legacy one where that tool is: no process for it. */
	if (!table_exists(family) ||
	    (no_legacy_tables(family) && !access("/usr/sbin/iptables-legacy-save", X_OK)))
		return 0;
	rc = process_run(tools_of(family).save, args, NULL, &saved, e);
	/* Without the tool there can be no rule of ours. */
	if (rc == -ENOENT || (rc && no_legacy_tables(family)))
		rc = 0;
	else if (!rc && removal_text(saved.p ? saved.p : "", &text))
		rc = bace_fail(e, ENOMEM, "out of memory");
	if (!rc && text.len)
		rc = restore(family, text.p, e);
	bace_buf_free(&saved);
	bace_buf_free(&text);
	return rc;
}

int delay_rules_clear_leftovers(struct bace_err *e)
{
	struct bace_err later;
	int rc = clear_family(AF_INET, e);
	int rc6 = clear_family(AF_INET6, rc ? &later : e);

	return rc ? rc : rc6;
}

/* ---- do they stand? ---- */

/* Without a process for it where that can be: somebody else's change of the table
 * is seen by its size. */
static bool unchanged(const struct delay_family *f, uint8_t family)
{
	struct rules_mark now;

	return f->mark.entries && !no_legacy_tables(family) && table_exists(family) && !rules_mark_read(family, &now) &&
	       now.entries == f->mark.entries && now.bytes == f->mark.bytes;
}

static void take_mark(struct delay_family *f, uint8_t family)
{
	f->mark = (struct rules_mark){ 0 };
	if (!no_legacy_tables(family) && table_exists(family))
		rules_mark_read(family, &f->mark);
}

/* The jump, the chain and as many rules in it as we put there. */
bool delay_rules_in(const char *saved, const char *ifname, int n_rules)
{
	static const char rule[] = "-A " CHAIN " ";
	bool jumps = false;
	char jump[80];
	int n = 0;

	snprintf(jump, sizeof(jump), "-A PREROUTING -i %s -j " CHAIN, ifname);
	for (const char *line = saved; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		size_t len = strcspn(line, "\n");

		jumps |= len == strlen(jump) && !memcmp(line, jump, len);
		n += !strncmp(line, rule, strlen(rule)) && memmem(line, len, "-j NFQUEUE", strlen("-j NFQUEUE"));
	}
	return jumps && n == n_rules;
}

static int family_stands(struct delay_family *f, uint8_t family, const char *ifname, struct bace_err *e)
{
	const char *const args[] = { "-t", "mangle", NULL };
	struct bace_buf saved = { 0 };
	int rc;

	if (!f->installed || unchanged(f, family))
		return 1;
	rc = process_run(tools_of(family).save, args, NULL, &saved, e);
	if (!rc)
		rc = delay_rules_in(saved.p ? saved.p : "", ifname, f->n_rules);
	bace_buf_free(&saved);
	if (rc > 0)
		take_mark(f, family);
	else if (!rc)
		f->installed = false;
	return rc < 0 ? bace_err_context(e, "look for the NFQUEUE rule") : rc;
}

int delay_rules_stand(struct delay_rules *r, struct bace_err *e)
{
	int rc = family_stands(&r->v4, AF_INET, r->ifname, e), rc6;

	if (rc < 0)
		return rc;
	rc6 = family_stands(&r->v6, AF_INET6, r->ifname, e);
	if (!rc || !rc6)
		r->digest = 0;
	return rc6 < 0 ? rc6 : rc && rc6;
}

/* ---- installing ---- */
static int install_family(struct delay_family *f, uint8_t family, const struct shape_spec *s, struct bace_err *e)
{
	struct bace_buf text = { 0 };
	int n = count_prefixes(s, family), rc = 0;

	if (!f->installed && !n)
		return 0;
	if (!f->installed)
		rc = clear_family(family, e);
	if (!rc && delay_rules_text(s, family, !f->installed, &text))
		rc = bace_fail(e, ENOMEM, "out of memory");
	if (!rc)
		rc = restore(family, text.p, e);
	if (!rc) {
		f->installed = true;
		f->n_rules = n > RULES_MAX ? 1 : n;
		take_mark(f, family);
	}
	bace_buf_free(&text);
	return rc ? bace_err_context(e, "install the NFQUEUE rule") : 0;
}

static int text_digest(const struct shape_spec *s, uint64_t *digest)
{
	struct bace_buf text = { 0 };
	int rc = delay_rules_text(s, AF_INET, true, &text);

	if (!rc)
		rc = delay_rules_text(s, AF_INET6, true, &text);
	*digest = rc ? 0 : bace_hash64(text.p, text.len, 0);
	bace_buf_free(&text);
	return rc;
}

int delay_rules_install(struct delay_rules *r, const struct shape_spec *s, size_t *n_changes, struct bace_err *e)
{
	uint64_t digest;
	int rc = text_digest(s, &digest), stand = 0;

	if (rc)
		return bace_fail(e, -rc, "out of memory");
	if (delay_rules_installed(r))
		stand = delay_rules_stand(r, e);
	if (stand < 0 || (stand && r->digest == digest))
		return stand < 0 ? stand : 0;

	/* A jump from another interface cannot be edited in place. */
	if (delay_rules_installed(r) && strcmp(r->ifname, s->egress))
		rc = delay_rules_remove(r, e);
	if (rc)
		return rc;
	snprintf(r->ifname, sizeof(r->ifname), "%s", s->egress);
	rc = install_family(&r->v4, AF_INET, s, e);
	if (!rc)
		rc = install_family(&r->v6, AF_INET6, s, e);
	r->digest = rc ? 0 : digest;
	if (!rc && n_changes)
		++*n_changes;
	return rc;
}

static int remove_family(struct delay_family *f, uint8_t family, const char *ifname, struct bace_err *e)
{
	char text[256];
	int rc;

	if (!f->installed)
		return 0;
	snprintf(text, sizeof(text),
		 "*mangle\n-D PREROUTING -i %s -j " CHAIN "\n-F " CHAIN "\n-X " CHAIN "\nCOMMIT\n", ifname);
	rc = restore(family, text, e);
	/* Where others have taken some of it, what stands has to be looked up. */
	if (rc)
		rc = clear_family(family, e);
	if (!rc)
		f->installed = false;
	return rc ? bace_err_context(e, "remove the NFQUEUE rule") : 0;
}

int delay_rules_remove(struct delay_rules *r, struct bace_err *e)
{
	struct bace_err later;
	int rc = remove_family(&r->v4, AF_INET, r->ifname, e);
	int rc6 = remove_family(&r->v6, AF_INET6, r->ifname, rc ? &later : e);

	return rc ? rc : rc6;
}
