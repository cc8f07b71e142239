/* Stands in for bace-worker, and misbehaves as the job's name in its first line
 * of input says. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int flood(void)
{
	static char junk[65536];

	memset(junk, 'x', sizeof(junk));
	while (write(1, junk, sizeof(junk)) > 0)
		;
	return 1;
}

/* As much as a pipe holds, of what takes twice the room in JSON; then the end. */
static int burst(void)
{
	static char quotes[65536];

	memset(quotes, '"', sizeof(quotes));
	return write(1, quotes, sizeof(quotes)) == sizeof(quotes) ? 0 : 1;
}

/* A daemon, in the manner of those that mean to outlive their parent. */
static int leave_a_daemon(void)
{
	if (fork() == 0) {
		setsid();
		signal(SIGTERM, SIG_IGN);
		signal(SIGHUP, SIG_IGN);
		if (fork() == 0) {
			FILE *f = fopen(getenv("BACE_TEST_PIDFILE"), "w");

			if (f) {
				fprintf(f, "%d\n", (int)getpid());
				fclose(f);
			}
			pause();
		}
		_exit(0);
	}
	sleep(1);
	return 3;
}

int main(void)
{
	static char line[1 << 20];

	if (!fgets(line, sizeof(line), stdin))
		return 1;
	if (strstr(line, "\"silent\""))
		pause();
	if (strstr(line, "\"garbage\""))
		puts("this is not JSON");
	if (strstr(line, "\"array\""))
		puts("[1, 2]");
	if (strstr(line, "\"deep\""))
		puts("{\"event\":[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]}");
	if (strstr(line, "\"unknown\""))
		puts("{\"event\":\"surprise\"}");
	if (strstr(line, "\"binary\""))
		puts("\xff\xfe");
	if (strstr(line, "\"nul\""))
		fwrite("a\0b\n", 1, 4, stdout);
	if (strstr(line, "\"early-done\""))
		puts("{\"event\":\"done\"}");
	if (strstr(line, "\"foreign-port\""))
		puts("{\"event\":\"listening\",\"hop\":0,\"port\":70000}");
	fflush(stdout);
	if (strstr(line, "\"flood\""))
		return flood();
	if (strstr(line, "\"burst\""))
		return burst();
	if (strstr(line, "\"daemon\""))
		return leave_a_daemon();
	/* The first rank at once, the others a little later for another reason. */
	if (strstr(line, "\"dies-first\"")) {
		bool first = strstr(line, "\"rank\":0") || strstr(line, "\"rank\": 0");

		usleep(first ? 0 : 1000000);
		return first ? 13 : 7;
	}
	if (strstr(line, "\"dies\"")) {
		fputs("out of luck\n", stderr);
		return 7;
	}
	if (strstr(line, "\"dies-badly\"")) {
		fputs("out of \xff luck\n", stderr);
		return 7;
	}
	pause();
	return 0;
}
