/* Traces that are taken: public layouts, any columns, bad files. */
#include <errno.h>

#include "tests/unit/tracegen/support.h"

static int read_text(const char *text, const char *layout, bool only_completed, struct trace *t,
		     struct trace_skipped *skipped, struct bace_diags *d)
{
	struct file f = file_of(text);
	struct trace_columns c;
	struct bace_err e = { 0 };
	int rc;

	*d = (struct bace_diags){ 0 };
	if (trace_columns_known(layout, &c)) {
		rc = trace_read_csv(f.path, &c, only_completed, t, skipped, d, &e);
	} else {
		assert_string_equal(layout, "philly");
		rc = trace_read_philly(f.path, only_completed, t, skipped, d, &e);
	}
	unlink(f.path);
	return rc;
}

/* The example rows of HeliosData's README; quotes, a CPU job, CRLF. */
static const char helios[] =
	"job_id,user,vc,jobname,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\r\n"
	"1425513,uzqls,vcpDC,x,1,1,1,CANCELLED,2020-06-09 18:41:28,2020-06-09 18:41:28,2020-06-17 14:15:21,675233,0\r\n"
	"1425511,uXBbc,vcJkd,x,1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-10 04:55:09,36848,0\r\n"
	"\r\n"
	"1425512,uVMrF,vchbv,\"a, \"\"b\"\"\",4,16,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:27,"
	"2020-06-09 18:45:36,249,0\r\n"
	"1425514,u,v,x,0,16,1,COMPLETED,2020-06-09 18:41:29,2020-06-09 18:41:29,2020-06-09 18:45:36,249,0\r\n"
	"1425515,u,v,x,8,16,1,CANCELLED,2020-06-09 18:41:29,None,2020-06-09 18:45:36,0,0\r\n";

static void helios_rows(void **state)
{
	struct trace t;
	struct trace_skipped s;
	struct bace_diags d;

	assert_int_equal(read_text(helios, "helios", false, &t, &s, &d), 0);
	assert_int_equal(t.n, 3);
	assert_job(&t.v[0], "1425511", 0, 1, 36848);
	assert_job(&t.v[1], "1425512", 26, 4, 249);
	assert_job(&t.v[2], "1425513", 27, 1, 675233);
	assert_true(s.no_gpu == 1 && s.never_ran == 1 && s.not_completed == 0);
	trace_free(&t);
	assert_int_equal(read_text(helios, "helios", true, &t, &s, &d), 0);
	assert_int_equal(t.n, 1);
	assert_int_equal(s.not_completed, 2);
	trace_free(&t);
}

/* The example rows of AcmeTrace's README (Seren and Kalos): zones, and a
 * duration column that includes the queue. */
static void acme_rows(void **state)
{
	struct trace t;
	struct trace_skipped s;
	struct bace_diags d;

	assert_int_equal(read_text(
		"job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time\n"
		"5778432,u5907,1,8,128,Other,FAILED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,"
		"2023-03-01 00:20:51+08:00,117,32,936.0\n"
		"5778469,u5907,1,8,128,Other,COMPLETED,2023-03-01 00:23:58+08:00,2023-03-01 00:24:11+08:00,"
		"2023-03-01 01:09:04+08:00,2693,13,21544.0\n", "acme", false, &t, &s, &d), 0);
	assert_int_equal(t.n, 2);
	assert_job(&t.v[0], "5778432", 0, 8, 117);
	assert_job(&t.v[1], "5778469", 336, 8, 2693);
	trace_free(&t);
	assert_int_equal(read_text(
		"job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,"
		"start_time,end_time,fail_time,stop_time,duration,queue,gpu_time\n"
		"dlctk696s0jbvitv,uf794,8,64,960,1000,100.0,Other,FAILED,2023-05-17 11:00:58+00:00,"
		"2023-05-17 11:01:08+00:00,2023-05-17 11:01:16+00:00,2023-05-17 11:01:16+00:00,,18,10.0,1152.0\n",
		"acme", false, &t, &s, &d), 0);
	assert_job(&t.v[0], "dlctk696s0jbvitv", 0, 64, 8);
	trace_free(&t);
}

/* The example of philly-traces' README (two attempts), a job without any and one
 * whose end was not recorded. */
static void philly_jobs(void **state)
{
	struct trace t;
	struct trace_skipped s;
	struct bace_diags d;

	assert_int_equal(read_text(
		"[{\"status\": \"Pass\", \"vc\": \"ee9e8c\", \"jobid\": \"application_1506638472019_14199\","
		"\"attempts\": [{\"start_time\": \"2017-10-07 01:12:09\", \"end_time\": \"2017-10-07 01:13:23\","
		"\"detail\": [{\"ip\": \"m47\", \"gpus\": [\"gpu0\", \"gpu1\"]}]},"
		"{\"start_time\": \"2017-10-07 01:13:30\", \"end_time\": \"2017-10-09 06:53:12\", \"detail\":"
		"[{\"ip\": \"m412\", \"gpus\": [\"gpu0\", \"gpu1\", \"gpu2\"]}, {\"ip\": \"m1\", \"gpus\": [\"gpu0\"]}]}],"
		"\"submitted_time\": \"2017-10-07 01:11:39\", \"user\": \"ce2f4c\"},"
		"{\"status\": \"Killed\", \"jobid\": \"b\", \"attempts\": [], \"submitted_time\": \"2017-10-07 01:11:40\"},"
		"{\"status\": \"Killed\", \"jobid\": \"c\", \"attempts\": [{\"start_time\": \"2017-10-07 01:12:09\","
		"\"end_time\": null, \"detail\": [{\"gpus\": [\"gpu0\"]}]}], \"submitted_time\": \"2017-10-07 01:11:40\"}]",
		"philly", false, &t, &s, &d), 0);
	assert_int_equal(t.n, 1);
	/* 74 s + 2 days 5 h 39 min 42 s */
	assert_job(&t.v[0], "application_1506638472019_14199", 0, 4, 74 + 193182);
	assert_int_equal(s.never_ran, 2);
	trace_free(&t);
}

static void any_columns(void **state)
{
	struct file f = file_of("\xef\xbb\xbfn,when,who,secs\n2,10,x,5\n1,4,y,7\n");
	struct trace_columns c;
	struct trace_skipped s;
	struct bace_diags d = { 0 };
	struct bace_err e = { 0 };
	struct trace t;

	assert_true(trace_columns_known("csv", &c));
	assert_int_equal(trace_columns_set(&c, "name=who,arrival=when,gpus=n,duration=secs", &e), 0);
	assert_int_equal(trace_read_csv(f.path, &c, false, &t, &s, &d, &e), 0);
	assert_job(&t.v[0], "y", 0, 1, 7);
	assert_job(&t.v[1], "x", 6, 2, 5);
	trace_free(&t);
	assert_int_equal(trace_columns_set(&c, "foo=bar", &e), -EINVAL);
	assert_non_null(strstr(e.msg, "foo=bar"));
	assert_int_equal(trace_columns_set(&c, "name", &e), -EINVAL);
	assert_int_equal(trace_columns_set(&c, "", &e), -EINVAL);
	assert_false(trace_columns_known("slurm", &c));
	unlink(f.path);
}

static void assert_bad(const char *text, const char *layout, int line, const char *part)
{
	struct trace t;
	struct trace_skipped s;
	struct bace_diags d;

	assert_int_equal(read_text(text, layout, false, &t, &s, &d), -EINVAL);
	assert_int_equal(d.n, 1);
	if (d.v[0].line != line || !strstr(d.v[0].text, part))
		fail_msg("line %d: `%s'; want line %d: `%s'", d.v[0].line, d.v[0].text, line, part);
	assert_null(t.v);
	bace_diags_free(&d);
}

#define HEAD "name,arrival_s,gpus,duration_s\na,0,1,100\n"

static void bad_files(void **state)
{
	assert_bad(HEAD "b,-3,1,100\n", "csv", 3, "arrival `-3': must be seconds, 0 to 5e+09, or a date");
	assert_bad(HEAD "b,nan,1,100\n", "csv", 3, "arrival `nan'");
	assert_bad(HEAD "b,,1,100\n", "csv", 3, "arrival is missing");
	assert_bad(HEAD "b,1600000000000,1,100\n", "csv", 3, "arrival `1600000000000'");
	assert_bad(HEAD "b,2020-01-01 00:00:00,1,100\n", "csv", 3, "must be seconds, as before");
	assert_bad(HEAD "b,1,1,100\na,5,1,100\n", "csv", 4, "name `a' is there before, at line 2");
	assert_bad(HEAD "b c,1,1,100\n", "csv", 3, "name `b c'");
	assert_bad(HEAD "b,1,2.5,100\n", "csv", 3, "gpus `2.5': must be a whole number, 0 to 65536");
	assert_bad(HEAD "b,1,NaN,100\n", "csv", 3, "gpus `NaN'");
	assert_bad(HEAD "b,1,1000000,100\n", "csv", 3, "gpus `1000000'");
	assert_bad(HEAD "b,1,1,nan\n", "csv", 3, "duration `nan'");
	assert_bad(HEAD "b,1,1,-1\n", "csv", 3, "duration `-1'");
	assert_bad(HEAD "b,1,1\n", "csv", 3, "3 fields: must be 4");
	assert_bad(HEAD "b,\"1,1,5\n", "csv", 3, "a quote is not closed");
	assert_bad("", "csv", 0, "empty");
	assert_bad("name,arrival_s,gpus\n", "csv", 1, "no column `duration_s' (duration); there are: name, arrival_s");
	assert_bad("name,arrival_s,gpus,duration_s\n", "csv", 0, "no job in it");
	assert_bad("{\n\"a\": }", "philly", 2, "not JSON");
	assert_bad("{}", "philly", 1, "must be an array");
	assert_bad("[1]", "philly", 0, "job 1: must be an object");
	assert_bad("[{\"jobid\": \"a\", \"submitted_time\": \"2017-10-07 01:11:39\", \"attempts\": [{\"start_time\": "
		   "\"2017-10-07 01:12:09\", \"end_time\": \"2017-10-06 01:12:09\"}]}]", "philly", 0, "in order");
}

/* Reading stops at twenty. */
static void many_errors(void **state)
{
	struct bace_buf b = { 0 };
	struct trace t;
	struct trace_skipped s;
	struct bace_diags d;

	bace_buf_addf(&b, HEAD);
	for (int i = 0; i < 1000; i++)
		bace_buf_addf(&b, "b%d,nan,1,1\n", i);
	assert_int_equal(read_text(b.p, "csv", false, &t, &s, &d), -EINVAL);
	assert_int_equal(d.n, TRACE_MAX_DIAGS);
	bace_diags_free(&d);
	bace_buf_free(&b);
}

static void no_file(void **state)
{
	struct trace_columns c;
	struct trace t;
	struct trace_skipped s;
	struct bace_diags d = { 0 };
	struct bace_err e = { 0 };

	trace_columns_known("csv", &c);
	assert_int_equal(trace_read_csv("/nonexistent/t.csv", &c, false, &t, &s, &d, &e), -ENOENT);
	assert_int_equal(trace_read_philly("/nonexistent/t", false, &t, &s, &d, &e), -ENOENT);
	assert_int_equal(trace_read_csv("/tmp", &c, false, &t, &s, &d, &e), -EISDIR);
	assert_int_equal(d.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(helios_rows), cmocka_unit_test(acme_rows), cmocka_unit_test(philly_jobs),
		cmocka_unit_test(any_columns), cmocka_unit_test(bad_files), cmocka_unit_test(many_errors),
		cmocka_unit_test(no_file),
	};

	return cmocka_run_group_tests_name("tracegen-import", tests, NULL, NULL);
}
