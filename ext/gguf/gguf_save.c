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

enum { BLOCK_ROWS = 64 };

/* ---- metadata ------------------------------------------------------------------------- */

static uint32_t file_type(GgmlType t) {
  return t == GGML_F32 ? 0 : t == GGML_F16 ? 1 : t == GGML_Q4_0 ? 2 : t == GGML_Q8_0 ? 7 : 32;
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
  if (type == GGML_Q8_0 || type == GGML_Q4_0) gguf_put_u32(meta, "general.quantization_version", 2);
  gguf_config_write(&m->config, a, meta);
  return put_tokenizer(&m->config, t, meta);
}

/* ---- tensors ------------------------------------------------------------------------------ */

static GgmlType type_for(GgmlType type, const GgufEntry *e, unsigned change) {
  if (e->ndim == 1 || (change & (GGUF_KEEP_F32 | GGUF_FILTERS))) return GGML_F32;
  if (type == GGML_Q4_0 && (change & GGUF_VOCABULARY)) type = GGML_Q8_0;
  const bool fits = e->dim[e->ndim - 1] % (uint64_t)ggml_block_values(type) == 0;
  return fits ? type : GGML_F16;
}

/* The name in the file: all experts of a layer are in one tensor, one after the other. */
static bool name_in_file(const GgufArch *a, const Param *p, char *out, size_t cap,
                         unsigned *change) {
  char stack[PARAM_NAME_BYTES];
  if (p->is_expert) param_stack_name(p, stack);
  return gguf_arch_file_name(a, p->is_expert ? stack : p->name, out, cap, change);
}

/* Is the parameter in the tensor of the one before it? */
static bool continues(const Param *p) { return p->is_expert && p->expert > 0; }

static Status describe(const Model *m, const Param *p, const GgufArch *a, GgmlType type,
                       GgufEntry *e) {
  const int stacked = p->is_expert;
  unsigned change;
  if (!name_in_file(a, p, e->name, sizeof e->name, &change))
    return fail(GRPO_EARG, "GGUF has no name for parameter '%s'", p->name);
  e->ndim = p->t.ndim + stacked;
  if (stacked) e->dim[0] = (uint64_t)m->config.num_experts;
  for (int d = 0; d < p->t.ndim; d++)
    e->dim[d + stacked] = (uint64_t)p->t.dim[p->in_out ? 1 - d : d];
  if (change & GGUF_FILTERS) e->ndim = 2, e->dim[1] = e->dim[2];
  e->type = type_for(type, e, change);
  return GRPO_OK;
}

/* Writes a row of the file; row: memory for it. */
static Status put_row(GgufWriter *w, const GgufOrder *o, size_t cols, real *x, real *row) {
  gguf_order_encode(o, cols, x);
  if (!gguf_order_moves_columns(o)) return gguf_writer_put(w, x, cols);
  for (size_t i = 0; i < cols; i++) row[i] = x[gguf_order_column_of(o, i)];
  return gguf_writer_put(w, row, cols);
}

/* Rows come in blocks that stay together where they change their order. */
static Status put_rows(GgufWriter *w, const Ctx *cx, const Model *m, const Param *p,
                       unsigned change) {
  const GgufOrder o = gguf_order(&m->config, change);
  const int n = p->t.dim[0];
  const int most = gguf_order_moves_rows(&o) ? (int)gguf_order_block(&o) : BLOCK_ROWS;
  const size_t cols = p->t.n / (size_t)n;
  real *x = mem_alloc_aligned((size_t)(most + 1) * cols * sizeof *x);
  Status s = x ? GRPO_OK : fail(GRPO_ENOMEM, "%s: no memory for %d rows", p->name, most);
  for (int row = 0; row < n && s == GRPO_OK; row += most) {
    const int rows = n - row < most ? n - row : most;
    const uint64_t first = gguf_order_row_of(&o, (uint64_t)row);
    s = lora_merge_rows(cx, m, p, (int)first, rows, x);
    for (int i = 0; i < rows && s == GRPO_OK; i++) {
      const uint64_t at = gguf_order_row_of(&o, (uint64_t)(row + i)) - first;
      s = put_row(w, &o, cols, x + at * cols, x + (size_t)most * cols);
    }
  }
  mem_free_aligned(x);
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

static Status put_param(GgufWriter *w, const Ctx *cx, const Model *m, const GgufArch *a,
                        const Param *p) {
  char name[GGUF_NAME_MAX + 1];
  unsigned change = 0;
  name_in_file(a, p, name, sizeof name, &change);
  if (p->in_out) return put_transposed(w, cx, m, p);
  return put_rows(w, cx, m, p, change);
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
  if (gguf_config_rope_divisors(c, x->value[0])) add_extra(x, "rope_freqs.weight", c->head_dim / 2);
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
  for (int i = 0; i < m->nparams && s == GRPO_OK; i++) s = put_param(w, &cx, m, a, &m->param[i]);
  arena_free(&arena);
  return s;
}

/* ---- the file ------------------------------------------------------------------------------- */

static Status write_file(const Model *m, const GgufArch *a, const char *path, GgmlType type,
                         const GgufMeta *meta) {
  Extra x = {.n = 0};
  GgufWriter *w = NULL;
  GgufEntry *e = mem_zalloc(((size_t)m->nparams + 2) * sizeof *e);
  if (!e) return fail(GRPO_ENOMEM, "%s: no memory for its list of tensors", path);
  extra_tensors(&m->config, &x);
  memcpy(e, x.entry, sizeof x.entry);
  Status s = GRPO_OK;
  size_t n = (size_t)x.n;
  for (int i = 0; i < m->nparams && s == GRPO_OK; i++)
    if (!continues(&m->param[i])) s = describe(m, &m->param[i], a, type, &e[n++]);
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
