#include "gguf/gguf_save.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "gguf/gguf_config_write.h"
#include "gguf/gguf_order.h"
#include "gguf/gguf_tokenizer_write.h"
#include "gguf/gguf_write.h"
#include "model/lora_merge.h"
#include "model/model_struct.h"

/* ---- metadata ------------------------------------------------------------------------- */

static uint32_t file_type(GgmlType t) {
  return t == GGML_F32     ? 0
         : t == GGML_F16   ? 1
         : t == GGML_Q4_0  ? 2
         : t == GGML_Q8_0  ? 7
         : t == GGML_MXFP4 ? 38
                           : 32;
}

/* Writes the ids that end a text, except for the one that the tokenizer part writes. */
static void put_ends(const Config *c, int32_t eos, GgufMeta *m) {
  static const char *const keys[] = {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
  int n = 0;
  for (int i = 0; i < c->num_eos; i++) {
    if (c->eos_token_id[i] == eos) continue;
    if (n == 2)
      log_message(LOG_WARNING, "GGUF has no room for end-of-text id %d", c->eos_token_id[i]);
    else
      gguf_put_u32(m, keys[n++], (uint32_t)c->eos_token_id[i]);
  }
}

static Status put_tokenizer(const Config *c, const Tokenizer *t, GgufMeta *m) {
  const int32_t first = c->num_eos ? c->eos_token_id[0] : -1;
  const GgufTokens tokens = {c->vocab_size, c->bos_token_id, first, c->pad_token_id};
  if (!t) {
    gguf_put_string(m, "tokenizer.ggml.model", "none", 4);
    if (tokens.bos >= 0) gguf_put_u32(m, "tokenizer.ggml.bos_token_id", (uint32_t)tokens.bos);
    if (tokens.eos >= 0) gguf_put_u32(m, "tokenizer.ggml.eos_token_id", (uint32_t)tokens.eos);
    if (tokens.pad >= 0) gguf_put_u32(m, "tokenizer.ggml.padding_token_id", (uint32_t)tokens.pad);
    put_ends(c, first, m);
    return GRPO_OK;
  }
  try(gguf_tokenizer_write(t, &tokens, m));
  put_ends(c, tokenizer_eos(t) >= 0 ? tokenizer_eos(t) : first, m);
  return GRPO_OK;
}

static Status put_metadata(const Model *m, const Tokenizer *t, const GgufArch *a, GgmlType type,
                           GgufMeta *meta) {
  const char *name = gguf_arch_name(a);
  gguf_put_string(meta, "general.architecture", name, strlen(name));
  gguf_put_string(meta, "general.type", "model", 5);
  gguf_put_u32(meta, "general.file_type", file_type(type));
  if (ggml_block_values(type) > 1) gguf_put_u32(meta, "general.quantization_version", 2);
  gguf_config_write(&m->config, a, meta);
  return put_tokenizer(&m->config, t, meta);
}

/* ---- tensors ------------------------------------------------------------------------------ */

/* A part of a parameter in the file; of a stack, of the parameter of every expert. */
typedef struct Part {
  const Param *p;
  int part;
  uint64_t rows, cols; /* of the whole parameter */
  GgufOrder order;
} Part;

static GgmlType type_for(GgmlType type, const GgufEntry *e, unsigned change) {
  if (e->ndim == 1 || (change & (GGUF_KEEP_F32 | GGUF_FILTERS))) return GGML_F32;
  if (type == GGML_Q4_0 && (change & GGUF_VOCABULARY)) type = GGML_Q8_0;
  if (type == GGML_MXFP4 && !(change & GGUF_STACK)) type = GGML_Q8_0;
  const bool fits = e->dim[e->ndim - 1] % (uint64_t)ggml_block_values(type) == 0;
  return fits ? type : GGML_F16;
}

/* The name in the file: all experts of a layer are in one tensor, one after the other. */
static bool name_in_file(const GgufArch *a, const Param *p, int part, char *out, size_t cap,
                         unsigned *change) {
  char stack[PARAM_NAME_BYTES];
  if (p->is_expert) param_stack_name(p, stack);
  return gguf_arch_file_name(a, p->is_expert ? stack : p->name, part, out, cap, change);
}

/* Is the parameter in the tensor of the one before it? */
static bool continues(const Param *p) { return p->is_expert && p->expert > 0; }

static int stacked(const Model *m, const Param *p) {
  return p->is_expert ? m->config.num_experts : 1;
}

static Part part_of(const Model *m, const Param *p, int part, unsigned change) {
  const uint64_t rows = (uint64_t)p->t.dim[p->in_out ? 1 : 0];
  return (Part){p, part, rows, p->t.n / rows, gguf_order(&m->config, change, rows)};
}

/* The shape of a part in the file. */
static void put_shape(const Model *m, const Part *x, GgufEntry *e) {
  const uint64_t rows = gguf_order_part_rows(&x->order, x->part, x->rows);
  const unsigned change = x->order.change;
  if (x->p->is_expert) e->dim[e->ndim++] = (uint64_t)m->config.num_experts;
  if (change & GGUF_LATENT) {
    const uint64_t heads = x->order.groups;
    const bool transposed = gguf_order_transposes(&x->order, x->part);
    e->ndim = 3, e->dim[0] = heads;
    e->dim[1] = transposed ? x->cols : rows / heads,
    e->dim[2] = transposed ? rows / heads : x->cols;
    return;
  }
  if (!(change & GGUF_VECTOR)) e->dim[e->ndim++] = rows;
  if (x->p->t.ndim > 1) e->dim[e->ndim++] = x->cols;
}

static Status describe(const Model *m, const Param *p, const GgufArch *a, GgmlType type,
                       GgufEntry *e, size_t *n) {
  int parts = 1;
  for (int i = 0; i < parts; i++) {
    unsigned change;
    GgufEntry *one = &e[(*n)++];
    if (!name_in_file(a, p, i, one->name, sizeof one->name, &change))
      return fail(GRPO_EARG, "GGUF has no name for parameter '%s'", p->name);
    const Part x = part_of(m, p, i, change);
    put_shape(m, &x, one);
    one->type = type_for(type, one, change);
    parts = gguf_order_parts(&x.order);
  }
  return GRPO_OK;
}

/* Writes a row of the file; row: memory for it. */
static Status put_row(GgufWriter *w, const GgufOrder *o, size_t cols, real *x, real *row) {
  gguf_order_encode(o, cols, x);
  if (!gguf_order_moves_columns(o)) return gguf_writer_put(w, x, cols);
  for (size_t i = 0; i < cols; i++) row[i] = x[gguf_order_column_of(o, i)];
  return gguf_writer_put(w, row, cols);
}

/* Outputs row .. row + n - 1 of a parameter.  Experts take no adapter. */
static Status get_rows(const Ctx *cx, const Model *m, const Param *p, uint64_t row, uint64_t n,
                       real *x) {
  if (!p->in_out) return lora_merge_rows(cx, m, p, (int)row, (int)n, x);
  param_rows(cx, p, (int)row, (int)n, x);
  return GRPO_OK;
}

/* Writes x [rows, cols] as [cols, rows]. */
static Status put_heads_transposed(GgufWriter *w, size_t rows, size_t cols, const real *x,
                                   real *row) {
  for (size_t c = 0; c < cols; c++) {
    for (size_t r = 0; r < rows; r++) row[r] = x[r * cols + c];
    try(gguf_writer_put(w, row, rows));
  }
  return GRPO_OK;
}

/* Writes n rows of a part from row `at` on, which are among `span` rows of the parameter; x: memory
 * for these and one more. */
static Status put_run(GgufWriter *w, const Ctx *cx, const Model *m, const Part *part, uint64_t at,
                      uint64_t n, uint64_t span, real *x) {
  const GgufOrder *o = &part->order;
  const size_t cols = part->cols;
  real *row = x + span * cols;
  const uint64_t first = gguf_order_row_of(o, part->part, at);
  try(get_rows(cx, m, part->p, first, span, x));
  if (gguf_order_transposes(o, part->part)) return put_heads_transposed(w, n, cols, x, row);
  for (uint64_t i = 0; i < n; i++) {
    const uint64_t r = gguf_order_row_of(o, part->part, at + i) - first;
    try(put_row(w, o, cols, x + r * cols, row));
  }
  return GRPO_OK;
}

/* Rows come in runs that stay together where they change their order. */
static Status put_rows(GgufWriter *w, const Ctx *cx, const Model *m, const Part *part) {
  const GgufOrder *o = &part->order;
  const uint64_t all = gguf_order_part_rows(o, part->part, part->rows);
  uint64_t n;
  Status s = GRPO_OK;
  for (uint64_t at = 0; at < all && s == GRPO_OK; at += n) {
    n = gguf_order_run(o, part->part, at);
    if (n > all - at) n = all - at;
    const uint64_t span = o->change & GGUF_IN_TURN ? 2 * n - 1 : n;
    const uint64_t room = (span + 1) * part->cols + n;
    real *x = mem_alloc_aligned(room * sizeof *x);
    s = x ? put_run(w, cx, m, part, at, n, span, x)
          : fail(GRPO_ENOMEM, "%s: no memory for %llu rows", part->p->name, (unsigned long long)n);
    mem_free_aligned(x);
  }
  return s;
}

/* Writes a parameter that is stored [in, out]. */
static Status put_transposed(GgufWriter *w, const Ctx *cx, const Model *m, const Param *p) {
  const int in = p->t.dim[0], out = p->t.dim[1];
  real *x = mem_alloc_aligned(p->t.n * sizeof *x), *row = mem_alloc((size_t)in * sizeof *row);
  Status s = x && row ? lora_merge_values(cx, m, p, x)
                      : fail(GRPO_ENOMEM, "%s: no memory for it in float32", p->name);
  for (int o = 0; o < out && s == GRPO_OK; o++) {
    for (int i = 0; i < in; i++) row[i] = x[(size_t)i * (size_t)out + (size_t)o];
    s = gguf_writer_put(w, row, (uint64_t)in);
  }
  mem_free_aligned(x);
  mem_free(row);
  return s;
}

/* Writes all parts of a parameter, or of the same one of every expert. */
static Status put_param(GgufWriter *w, const Ctx *cx, const Model *m, const GgufArch *a,
                        const Param *p) {
  int parts = 1;
  if (p->in_out && !p->is_expert) return put_transposed(w, cx, m, p);
  for (int part = 0; part < parts; part++) {
    char name[GGUF_NAME_MAX + 1];
    unsigned change = 0;
    name_in_file(a, p, part, name, sizeof name, &change);
    for (int i = 0; i < stacked(m, p); i++) {
      const Part x = part_of(m, p + i, part, change);
      try(put_rows(w, cx, m, &x));
      parts = gguf_order_parts(&x.order);
    }
  }
  return GRPO_OK;
}

/* Divisors of rotary frequencies, which are tensors beside the parameters. */
typedef struct Extra {
  GgufEntry entry[2];
  float value[2][512];
  int n;
} Extra;

static void add_extra(Extra *x, const char *name, int n) {
  GgufEntry *e = &x->entry[x->n++];
  *e = (GgufEntry){.type = GGML_F32, .ndim = 1, .dim = {(uint64_t)n}};
  snprintf(e->name, sizeof e->name, "%s", name);
}

static void extra_tensors(const Config *c, Extra *x) {
  const int divisors = gguf_config_rope_divisors(c, x->value[0]);
  if (divisors) add_extra(x, "rope_freqs.weight", divisors);
  if (c->rope_scaling != ROPE_LONG) return;
  for (int i = 0; i < c->rope_nfactors; i++) {
    x->value[0][i] = (float)c->rope_long[i];
    x->value[1][i] = (float)c->rope_short[i];
  }
  add_extra(x, "rope_factors_long.weight", c->rope_nfactors);
  add_extra(x, "rope_factors_short.weight", c->rope_nfactors);
}

static Status put_tensors(GgufWriter *w, const Model *m, const GgufArch *a, const Extra *x) {
  Arena arena = {0};
  const Ctx cx = {.pool = m->pool, .arena = &arena};
  Status s = GRPO_OK;
  for (int i = 0; i < x->n && s == GRPO_OK; i++)
    s = gguf_writer_put(w, x->value[i], x->entry[i].dim[0]);
  for (int i = 0; i < m->nparams && s == GRPO_OK; i++)
    if (!continues(&m->param[i])) s = put_param(w, &cx, m, a, &m->param[i]);
  arena_free(&arena);
  return s;
}

/* ---- the file ------------------------------------------------------------------------------- */

static Status write_file(const Model *m, const GgufArch *a, const char *path, GgmlType type,
                         const GgufMeta *meta) {
  Extra x = {.n = 0};
  GgufWriter *w = NULL;
  GgufEntry *e = mem_zalloc(((size_t)m->nparams * GGUF_PARTS + 2) * sizeof *e);
  if (!e) return fail(GRPO_ENOMEM, "%s: no memory for its list of tensors", path);
  extra_tensors(&m->config, &x);
  memcpy(e, x.entry, sizeof x.entry);
  Status s = GRPO_OK;
  size_t n = (size_t)x.n;
  for (int i = 0; i < m->nparams && s == GRPO_OK; i++)
    if (!continues(&m->param[i])) s = describe(m, &m->param[i], a, type, e, &n);
  if (s == GRPO_OK) s = gguf_writer_open(&w, path, meta, n, e);
  mem_free(e);
  try(s);
  s = put_tensors(w, m, a, &x);
  if (s == GRPO_OK) return gguf_writer_commit(w);
  gguf_writer_abort(w);
  return s;
}

Status gguf_save(const Model *m, const Tokenizer *t, const char *path, GgmlType type) {
  const GgufArch *a = gguf_arch_of(config_model_type(&m->config));
  GgufMeta meta = {0};
  if (!a)
    return fail(GRPO_EARG, "%s: writing '%s' models as GGUF is not supported", path,
                config_model_type(&m->config));
  try(gguf_config_check(&m->config, a, path));
  Status s = put_metadata(m, t, a, type, &meta);
  if (s == GRPO_OK) s = write_file(m, a, path, type, &meta);
  gguf_meta_free(&meta);
  return s;
}
