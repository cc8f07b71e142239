/* Private to harness/lab: cells and results as JSON, between the outer and the
 * inner process (same build on both sides; still checked field by field). */
#ifndef BACE_LAB_CODEC_H
#define BACE_LAB_CODEC_H

#include <jansson.h>

#include "harness/control/control.h"

json_t *codec_cell(const struct tb_cell *c);
/* *out is freed with codec_cell_free, also after failure. */
int codec_cell_read(const json_t *j, struct tb_cell *out, struct bace_err *e);
void codec_cell_free(struct tb_cell *c);

json_t *codec_result(const struct tb_result *r);
int codec_result_read(const json_t *j, struct tb_result *out, struct bace_err *e);

json_t *codec_verify(int n, const struct tb_verify *v);
/* Reads exactly n entries into v. */
int codec_verify_read(const json_t *j, int n, struct tb_verify *v, struct bace_err *e);

json_t *codec_view(int n, const struct tb_view_link *v);
/* Reads exactly n entries into v. */
int codec_view_read(const json_t *j, int n, struct tb_view_link *v, struct bace_err *e);

json_t *codec_script(const struct tb_script *s);
int codec_script_read(const json_t *in, struct tb_script *out, struct bace_err *e);
void codec_script_free(struct tb_script *s);
json_t *codec_log(const struct tb_log *l);
int codec_log_read(const json_t *in, struct tb_log *out, struct bace_err *e);

#endif
