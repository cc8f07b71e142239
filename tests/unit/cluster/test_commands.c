/* bace sim, bace merge, bace claims: exit status, and what they print. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "config.h"
#include "harness/cmd/cmd.h"

#define EXPERIMENTS BACE_SOURCE_ROOT "/profiles/experiments/"
#define SIX EXPERIMENTS "six-regions-paper.cfg"

int cmd_error(const struct command *c, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	return code;
}

int cmd_misuse(const struct command *c, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	return BACE_EXIT_INPUT;
}

static char dir[] = "/tmp/bace-test-commands-XXXXXX";
static char *out, *err;

static char *read_back(FILE *f)
{
	long n;
	char *text;

	fflush(f);
	n = ftell(f);
	text = calloc(1, (size_t)n + 1);
	assert_non_null(text);
	rewind(f);
	assert_int_equal(fread(text, 1, (size_t)n, f), n);
	fclose(f);
	return text;
}

/* The words of the line, as a shell would pass them; @ is the test's directory. */
static int run(const struct command *c, const char *fmt)
{
	struct cmd_globals g = { 0 };
	char line[1024], *argv[32], *save = NULL;
	FILE *to[] = { tmpfile(), tmpfile() };
	int saved[2], argc = 0, code;

	snprintf(line, sizeof(line), "%s ", c->name);
	for (size_t n = strlen(line); *fmt; fmt++) {
		if (*fmt == '@')
			n += (size_t)snprintf(line + n, sizeof(line) - n, "%s", dir);
		else
			line[n++] = *fmt;
		line[n] = '\0';
	}
	for (char *w = strtok_r(line, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
		/* main takes it out of the line */
		if (!strcmp(w, "--json"))
			g.json = true;
		else
			argv[argc++] = w;
	}
	argv[argc] = NULL;
	fflush(NULL);
	for (int i = 0; i < 2; i++) {
		saved[i] = dup(i + 1);
		assert_true(dup2(fileno(to[i]), i + 1) >= 0);
	}
	code = c->run(&g, argc, argv);
	fflush(NULL);
	for (int i = 0; i < 2; i++) {
		dup2(saved[i], i + 1);
		close(saved[i]);
		fseek(to[i], 0, SEEK_END);
	}
	free(out);
	free(err);
	out = read_back(to[0]);
	err = read_back(to[1]);
	return code;
}

static void assert_says(const char *where, const char *what)
{
	if (!strstr(where, what))
		fail_msg("`%s' does not say `%s'", where, what);
}

static void sim_table(void **state)
{
	assert_int_equal(run(&cmd_sim, SIX " --oracle closed-form"), BACE_EXIT_OK);
	assert_says(out, "8 jobs, 1 seed, step times by closed-form");
	assert_says(out, "\nbace-patient ");
	assert_says(out, "against bace, paired over jobs");
	assert_says(out, "no policy can run these jobs for less than ");
	assert_null(strstr(out, "event-sim"));
	assert_string_equal(err, "");
}

static void sim_json(void **state)
{
	json_t *j, *rows, *row, *jct;

	assert_int_equal(run(&cmd_sim, SIX " --seeds 5 --poisson 1h --json"), BACE_EXIT_OK);
	j = json_loads(out, 0, NULL);
	assert_non_null(j);
	rows = json_object_get(j, "rows");
	assert_int_equal(json_array_size(rows), 20);
	for (size_t i = 0; i < json_array_size(rows); i++)
		assert_true(json_real_value(json_object_get(json_object_get(json_array_get(rows, i), "cost_usd"), "value")) >
			    json_real_value(json_object_get(j, "cost_bound_usd")));
	assert_true(json_real_value(json_object_get(j, "cost_bound_usd")) > 0);
	row = json_array_get(rows, 1);
	assert_string_equal(json_string_value(json_object_get(row, "policy")), "lcf");
	assert_string_equal(json_string_value(json_object_get(row, "oracle")), "closed-form");
	assert_int_equal(json_integer_value(json_object_get(row, "failed")), 0);
	jct = json_object_get(row, "mean_jct_s");
	assert_int_equal(json_integer_value(json_object_get(jct, "n")), 5);
	assert_true(json_real_value(json_object_get(jct, "lo")) <= json_real_value(json_object_get(jct, "value")));
	assert_true(json_real_value(json_object_get(jct, "hi")) >= json_real_value(json_object_get(jct, "value")));
	assert_non_null(json_object_get(row, "jct_difference"));
	assert_null(json_object_get(json_array_get(rows, 0), "jct_difference"));
	json_decref(j);
}

/* Three shards, merged in any order, print what one run prints. */
static void shards(void **state)
{
	for (int one_seed = 0; one_seed < 2; one_seed++) {
		CLEANUP_FREE char *whole = NULL;

		assert_int_equal(run(&cmd_sim, one_seed ? SIX : SIX " --seeds 7 --resample --threads 1"), 0);
		whole = strdup(out);
		for (int i = 1; i <= 3; i++) {
			char line[256];

			snprintf(line, sizeof(line), "%s --shard %d/3 -o @/%d.json",
				 one_seed ? SIX : SIX " --seeds 7 --resample --threads 2", i, i);
			assert_int_equal(run(&cmd_sim, line), 0);
			assert_string_equal(out, "");
		}
		assert_int_equal(run(&cmd_merge, "@/3.json @/1.json @/2.json -o @/all.json"), 0);
		assert_string_equal(out, whole);
		assert_int_equal(run(&cmd_merge, "@/all.json"), 0);
		assert_string_equal(out, whole);
	}
	assert_int_equal(run(&cmd_merge, "@/3.json @/1.json"), BACE_EXIT_INPUT);
	assert_says(err, "cells are missing");
	assert_int_equal(run(&cmd_merge, "@/3.json @/1.json @/3.json"), BACE_EXIT_INPUT);
	assert_says(err, "shard 3/3 is there twice");
	assert_int_equal(run(&cmd_merge, "@/4.json"), BACE_EXIT_INPUT);
	assert_says(err, "4.json");
	assert_int_equal(run(&cmd_merge, SIX), BACE_EXIT_INPUT);
	assert_says(err, "must be a file that `bace sim --shard' wrote");
}

static void misuse(void **state)
{
	static const struct {
		const struct command *c;
		const char *line, *says;
	} bad[] = {
		{ &cmd_sim, "", "one experiment file is needed" },
		{ &cmd_sim, SIX " --seeds 0", "--seeds 0: must be 1 to" },
		{ &cmd_sim, SIX " --seeds 3x", "--seeds 3x" },
		{ &cmd_sim, SIX " --threads -1", "--threads -1" },
		{ &cmd_sim, SIX " --shard 3/2 -o @/x", "I from 1 to N" },
		{ &cmd_sim, SIX " --shard 0/2 -o @/x", "I from 1 to N" },
		{ &cmd_sim, SIX " --shard 2 -o @/x", "I/N" },
		{ &cmd_sim, SIX " --shard 1/2", "needs -o FILE" },
		{ &cmd_sim, SIX " --poisson 10", "--poisson 10" },
		{ &cmd_sim, SIX " --oracle measured", "closed-form or event-sim" },
		{ &cmd_sim, "no-such-experiment", "no-such-experiment" },
		{ &cmd_merge, "", "files of all shards" },
		{ &cmd_claims, "--scenarios 0", "--scenarios 0" },
		{ &cmd_claims, "--seed -1", "--seed -1" },
		{ &cmd_claims, "a b", "one experiment at most" },
		{ &cmd_claims, "no-such-experiment", "no-such-experiment" },
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(run(bad[i].c, bad[i].line), BACE_EXIT_INPUT);
		assert_says(err, bad[i].says);
		assert_string_equal(out, "");
	}
}

static void equal_seeds(void **state)
{
	assert_int_equal(run(&cmd_sim, SIX " --seeds 2 --oracle closed-form"), 0);
	assert_says(err, "nothing in this experiment depends on the seed");
}

static void claims(void **state)
{
	CLEANUP_FREE char *text = NULL, *html = NULL;
	struct bace_err e;
	char path[64];
	json_t *j, *first;

	assert_int_equal(run(&cmd_claims, "--scenarios 6 --threads 1"), 0);
	assert_says(out, "JCT gain 27.9 to 64.7 %");
	text = strdup(out);
	assert_int_equal(run(&cmd_claims, "--scenarios 6 --threads 3 -o @/c.html"), 0);
	assert_string_equal(out, text);
	snprintf(path, sizeof(path), "%s/c.html", dir);
	assert_int_equal(bace_read_file(path, 1 << 24, &html, NULL, &e), 0);
	assert_true(!strncmp(html, "<!DOCTYPE html>", 15));
	assert_says(html, "</html>");
	assert_null(strstr(html, "nan"));
	assert_null(strstr(html, "http"));
	/* Of one there is no interval. */
	assert_int_equal(run(&cmd_claims, "--scenarios 1 -o @/c.html"), 0);
	assert_null(strstr(out, "nan"));
	free(html);
	html = NULL;
	assert_int_equal(bace_read_file(path, 1 << 24, &html, NULL, &e), 0);
	assert_null(strstr(html, "nan"));
	/* six scenarios do not bear out seventeen figures */
	assert_int_equal(run(&cmd_claims, "--scenarios 6 --verdict --json"), BACE_EXIT_VERDICT);
	j = json_loads(out, 0, NULL);
	assert_non_null(j);
	assert_int_equal(json_array_size(json_object_get(j, "figures")), 44);
	assert_int_equal(json_array_size(json_object_get(j, "verdicts")), 17);
	first = json_array_get(json_object_get(j, "figures"), 0);
	assert_true(json_real_value(json_object_get(first, "lo")) == 0.279);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(json_object_get(first, "arms"),
		"k_min"), "n")) + json_integer_value(json_object_get(json_object_get(json_object_get(first,
		"arms"), "k_min"), "undefined")), 6);
	json_decref(j);
}

static int setup(void **state)
{
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	static const char *const names[] = { "1.json", "2.json", "3.json", "all.json", "c.html" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char path[64];

		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		unlink(path);
	}
	free(out);
	free(err);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sim_table),
		cmocka_unit_test(sim_json),
		cmocka_unit_test(shards),
		cmocka_unit_test(misuse),
		cmocka_unit_test(equal_seeds),
		cmocka_unit_test(claims),
	};

	setenv("BACE_PROFILES", BACE_SOURCE_ROOT "/profiles", 1);
	return cmocka_run_group_tests(tests, setup, teardown);
}
