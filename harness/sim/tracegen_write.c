#include <errno.h>
#include <limits.h>
#include <string.h>

#include "harness/sim/tracegen.h"

static int finish(FILE *to, struct bace_err *e)
{
	if (fflush(to) || ferror(to))
		return bace_fail_errno(e, errno ? errno : EIO, "write the trace");
	return 0;
}

int trace_write_cfg(const struct trace *t, const struct trace_work *w, const char *about, FILE *to,
		    struct bace_err *e)
{
	for (const char *p = about; *p;) {
		size_t len = strcspn(p, "\n");

		fprintf(to, "#%s%.*s\n", len ? " " : "", (int)len, p);
		p += len + (p[len] == '\n');
	}
	fputs("\njobs = (\n", to);
	for (size_t i = 0; i < t->n; i++) {
		const struct trace_job *j = &t->v[i];

		/* libconfig takes whole numbers beyond 32 bits for others */
		fprintf(to, "  { name = \"%s\"; model = \"%s\"; micro_batches = %d; micro_batch_size = %d; "
			"steps = %.*f; arrival = \"%.3fs\"; }%s\n", j->name, w->models[j->model].name,
			w->micro_batches, w->micro_batch_size, j->steps > INT_MAX ? 1 : 0, j->steps, j->arrival_s,
			i + 1 < t->n ? "," : "");
	}
	fputs(");\n", to);
	return finish(to, e);
}

int trace_write_csv(const struct trace *t, const struct trace_work *w, FILE *to, struct bace_err *e)
{
	fputs("name,arrival_s,gpus,duration_s,model,micro_batches,micro_batch_size,steps\n", to);
	for (size_t i = 0; i < t->n; i++) {
		const struct trace_job *j = &t->v[i];

		fprintf(to, "%s,%.3f,%d,%.3f,%s,%d,%d,%.0f\n", j->name, j->arrival_s, j->gpus, j->duration_s,
			w->models[j->model].name, w->micro_batches, w->micro_batch_size, j->steps);
	}
	return finish(to, e);
}
