#include "tests/unit/agent/fixture.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

struct told told;

void session_event(struct agent *a, json_t *msg)
{
	assert_true(told.n_events < TOLD_MAX);
	told.events[told.n_events++] = msg;
}

void session_answer(struct agent *a, uint32_t session, json_int_t id, json_t *body, const struct bace_err *e)
{
	json_decref(body);
	if (session != a->session)
		return;
	assert_true(told.n_answers < TOLD_MAX);
	told.answers[told.n_answers].id = id;
	told.answers[told.n_answers++].errnum = e ? e->errnum : 0;
}

void told_clear(void)
{
	for (int i = 0; i < told.n_events; i++)
		json_decref(told.events[i]);
	told = (struct told){ 0 };
}

int told_answer(json_int_t id)
{
	for (int i = 0; i < told.n_answers; i++)
		if (told.answers[i].id == id)
			return told.answers[i].errnum;
	return -1;
}

void agent_begin(struct agent *a)
{
	*a = (struct agent){ .accepted = true, .base = event_base_new() };
	assert_non_null(a->base);
}

void agent_over(struct agent *a)
{
	event_base_loop(a->base, EVLOOP_NONBLOCK);
	event_base_free(a->base);
	told_clear();
}

bool spin(struct agent *a, bool (*done)(void *arg), void *arg)
{
	int64_t until = bace_mono_ns() + 20000000000;
	struct timeval tick = { .tv_usec = 5000 };

	while (!done(arg) && bace_mono_ns() < until) {
		event_base_loopexit(a->base, &tick);
		event_base_dispatch(a->base);
	}
	return done(arg);
}
