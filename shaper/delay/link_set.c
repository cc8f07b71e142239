#include "shaper/delay/link_set.h"

#include <errno.h>
#include <stdlib.h>

#include "shaper/jitter.h"

void link_set_free(struct link_set *ls)
{
	if (!ls)
		return;
	delay_schedule_free(&ls->schedule);
	free(ls->regions);
	free(ls->fates);
	free(ls->stats);
	free(ls->owners);
	shape_spec_free(&ls->tables);
	free(ls);
}

void link_set_configure(struct link_set *ls, int i, const struct shape_link *l, bool fresh)
{
	int n;
	const int16_t *table = jitter_of_link(&ls->tables, l, &n);

	fate_configure(&ls->fates[i], l, table, n, fresh);
}

int link_set_find(const struct link_set *ls, uint16_t region)
{
	for (int i = 0; ls && i < ls->n_links; i++)
		if (ls->regions[i] == region)
			return i;
	return -1;
}

int link_set_carry_over(struct link_set *from, struct link_set *to, const struct shape_spec *s)
{
	for (int i = 0; i < s->n_links; i++) {
		int old = link_set_find(from, s->links[i].region);
		int rc;

		to->regions[i] = to->stats[i].region = s->links[i].region;
		if (old >= 0) {
			to->fates[i] = from->fates[old];
			to->stats[i] = from->stats[old];
			rc = delay_schedule_move(&from->schedule, old, &to->schedule, i);
			if (rc)
				return rc;
		}
		link_set_configure(to, i, &s->links[i], old < 0);
	}
	return 0;
}

struct link_set *link_set_new(const struct shape_spec *s, struct bace_err *e)
{
	const struct shape_spec tables = { .n_tables = s->n_tables, .tables = s->tables };
	struct link_set *ls = calloc(1, sizeof(*ls));
	size_t n = (size_t)s->n_links + 1;

	if (!ls)
		goto nomem;
	ls->n_links = s->n_links;
	ls->regions = calloc(n, sizeof(*ls->regions));
	ls->fates = calloc(n, sizeof(*ls->fates));
	ls->stats = calloc(n, sizeof(*ls->stats));
	if (!ls->regions || !ls->fates || !ls->stats || shape_spec_copy(&ls->tables, &tables) || delay_schedule_init(&ls->schedule, s->n_links))
		goto nomem;
	for (int i = 0; i < s->n_links; i++)
		if (fate_check(&s->links[i], e))
			goto fail;
	if (prefix_owners(s, &ls->owners, &ls->n_owners, e))
		goto fail;
	return ls;
nomem:
	bace_fail(e, ENOMEM, "delay line: out of memory");
fail:
	link_set_free(ls);
	return NULL;
}
