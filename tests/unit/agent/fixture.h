/* Parts of bace-agent without a controller: what would go to it is kept here. */
#ifndef TEST_AGENT_FIXTURE_H
#define TEST_AGENT_FIXTURE_H

#include "agent/agent.h"

#define TOLD_MAX 256

struct told {
	json_t *events[TOLD_MAX];	/* session_event's */
	int n_events;
	struct {
		json_int_t id;
		int errnum;		/* 0: ok */
	} answers[TOLD_MAX];		/* session_answer's */
	int n_answers;
};

extern struct told told;
void told_clear(void);
/* Of that id; -1: not answered. */
int told_answer(json_int_t id);

/* An agent with an event loop and nothing else. */
void agent_begin(struct agent *a);
void agent_over(struct agent *a);
/* Runs the loop until done(arg), for some seconds at most; what done said. */
bool spin(struct agent *a, bool (*done)(void *arg), void *arg);

#endif
