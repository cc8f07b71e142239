/* Why messages were slower than planned, as a table. */
#include <math.h>

#include "results/compare.h"

int why_table(const struct placement_ref *v, const struct gap *gaps, size_t n, struct table *t)
{
	static const struct column columns[] = { { "policy", TEXT }, { "job", TEXT }, { "placement\n(region:GPUs)", FLEX },
		{ "messages\nslower", PERCENT, 'p' }, { "cwnd", PERCENT, 'p' }, { "buffer", PERCENT, 'p' },
		{ "conten-\ntion", PERCENT, 'p' }, { "retrans-\nmission", PERCENT, 'p' }, { "other", PERCENT, 'p' },
		{ "mostly", TEXT }, { "steps", COUNT } };
	int rc = 0;

	*t = (struct table){ .title = "Why messages were slower than planned", .note = "Shares of the event simulation; "
		"they add up. From tcp_info by hop and step and from what else the link carried: cwnd, the congestion "
		"window was too small; buffer, the receiver's window or the sender's buffer; contention, other flows, "
		"beyond those planned; other, none of it.", .columns = columns, .n_columns = ARRAY_LEN(columns) };
	for (size_t i = 0; i < n; i++) {
		const struct gap *g = &gaps[i];
		enum slow_cause main_cause = slow_main_cause(g->why_s);

		if (!g->n_steps)
			continue;
		rc |= table_text(t, v[i].policy);
		rc |= table_text(t, v[i].job);
		rc |= table_text(t, v[i].placement);
		rc |= table_number(t, g->transfer_s / g->event_sim_s);
		for (int k = 0; k < SLOW_CAUSES; k++)
			rc |= table_number(t, g->why_s[k] / g->event_sim_s);
		rc |= table_text(t, g->transfer_s > 0 && main_cause < SLOW_CAUSES ? slow_cause_name[main_cause] : "-");
		rc |= table_number(t, g->n_steps);
	}
	return rc;
}
