#include "checkpoint/save.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/progress.h"
#include "checkpoint/bnb.h"
#include "model/config_write.h"
#include "model/layout.h"
#include "model/lora_merge.h"
#include "os/file.h"

enum { BLOCK_ROWS = 64 };

static const StType st_types[] = {
    [WEIGHT_F32] = ST_F32, [WEIGHT_F16] = ST_F16, [WEIGHT_BF16] = ST_BF16, [WEIGHT_NF4] = ST_BF16};

/* transformers leaves experts as they are, and reads no packed ones. */
static bool is_packed(const Model *m, int i, WeightType type) {
  return type == WEIGHT_NF4 && layout_is_projection(m, i) && !m->param[i].is_expert;
}

/* Is the parameter in the tensor of the one before it? */
static bool continues(const Param *p) { return p->stacked && p->expert > 0; }

static uint64_t bytes_of(const Model *m, int i, WeightType type) {
  int n, k;
  param_outputs_inputs(&m->param[i], &n, &k);
  if (is_packed(m, i, type)) return bnb_bytes(n, k);
  const bool f32 = type == WEIGHT_F32 || m->param[i].saved_f32;
  return (uint64_t)m->param[i].t.n * (f32 ? 4 : 2);
}

/* The end of the shard that begins with parameter `from` and has at least one. */
static int shard_end(const Model *m, int from, WeightType type, uint64_t shard_bytes) {
  uint64_t used = 0;
  int i = from;
  for (; i < m->nparams; i++) {
    used += bytes_of(m, i, type);
    if (shard_bytes && i > from && used > shard_bytes && !continues(&m->param[i])) break;
  }
  return i;
}

/* ---- values ------------------------------------------------------------------------ */

/* The whole parameter in its own layout, with the adapter merged. */
static Status whole(const Ctx *cx, const Model *m, const Param *p, real **out) {
  real *x = mem_alloc_aligned(p->t.n * sizeof *x);
  if (!x) return fail(GRPO_ENOMEM, "%s: no memory for it in float32", p->name);
  const Status s = lora_merge_values(cx, m, p, x);
  if (s == GRPO_OK)
    *out = x;
  else
    mem_free_aligned(x);
  return s;
}

/* A copy of a parameter as NF4. */
static Status quantised(const Ctx *cx, const Param *p, QuantWeight **out) {
  QuantWeight *m;
  int n, k;
  param_outputs_inputs(p, &n, &k);
  const int most = param_block_rows(n, k);
  try(quant_new(&m, QUANT_NF4, n, k));
  real *w = mem_alloc_aligned((size_t)most * (size_t)k * sizeof *w);
  Status s = w ? GRPO_OK : fail(GRPO_ENOMEM, "%s: no memory for %d rows", p->name, most);
  for (int row = 0; row < n && s == GRPO_OK; row += most) {
    const int rows = n - row < most ? n - row : most;
    param_rows(cx, p, row, rows, w);
    s = quant_put(cx, m, row, rows, w);
  }
  mem_free_aligned(w);
  if (s == GRPO_OK) {
    s = quant_done(cx, m);
    if (s == GRPO_EFORMAT) err_context(s, "%s", p->name);
  }
  if (s != GRPO_OK) {
    quant_free(m);
    return s;
  }
  *out = m;
  return GRPO_OK;
}

static Status put_packed(StWriter *w, const Ctx *cx, const Model *m, const Param *p) {
  Param merged = *p;
  QuantWeight *q = NULL;
  real *x = NULL;
  if (lora_merge_changes(m, p)) {
    try(whole(cx, m, p, &x));
    merged.t.data = x;
    merged.t.quant = NULL;
  } else if (p->t.quant && p->t.quant->type == QUANT_NF4) {
    return bnb_put(w, p->t.quant);
  }
  Status s = quantised(cx, &merged, &q);
  if (s == GRPO_OK) s = bnb_put(w, q);
  quant_free(q);
  mem_free_aligned(x);
  return s;
}

static Status put_whole(StWriter *w, const Ctx *cx, const Model *m, const Param *p) {
  real *x;
  try(whole(cx, m, p, &x));
  const Status s = st_writer_put(w, x, p->t.n);
  mem_free_aligned(x);
  return s;
}

/* Writes a few rows at a time, in the parameter's own layout. */
static Status put_rows(StWriter *w, const Ctx *cx, const Model *m, const Param *p) {
  const int n = p->t.dim[0], most = n < BLOCK_ROWS ? n : BLOCK_ROWS;
  const size_t cols = (size_t)p->t.dim[1];
  real *x = mem_alloc_aligned((size_t)most * cols * sizeof *x);
  Status s = x ? GRPO_OK : fail(GRPO_ENOMEM, "%s: no memory for %d rows", p->name, most);
  for (int row = 0; row < n && s == GRPO_OK; row += most) {
    const int rows = n - row < most ? n - row : most;
    s = lora_merge_rows(cx, m, p, row, rows, x);
    if (s == GRPO_OK) s = st_writer_put(w, x, (uint64_t)rows * cols);
  }
  mem_free_aligned(x);
  return s;
}

static Status put_param(StWriter *w, const Ctx *cx, const Model *m, int i, WeightType type) {
  const Param *p = &m->param[i];
  if (is_packed(m, i, type)) return put_packed(w, cx, m, p);
  if (!p->t.quant && !lora_merge_changes(m, p)) return st_writer_put(w, p->t.data, p->t.n);
  return p->t.quant && p->in_out ? put_whole(w, cx, m, p) : put_rows(w, cx, m, p);
}

static Status put_params(StWriter *w, const Model *m, WeightType type, int from, int end) {
  Arena arena = {0};
  const Ctx cx = {.pool = m->pool, .arena = &arena};
  Status s = GRPO_OK;
  for (int i = from; i < end && s == GRPO_OK; i++) {
    s = progress_reached("save", i, m->nparams);
    if (s == GRPO_OK) s = put_param(w, &cx, m, i, type);
  }
  arena_free(&arena);
  return s;
}

/* ---- files ------------------------------------------------------------------------- */

static void add_entry(const Model *m, const Param *p, StType type, char *stack_name, StEntry *e) {
  const int stacked = p->stacked;
  *e = (StEntry){.name = p->name, .type = type, .ndim = p->t.ndim + stacked};
  for (int d = 0; d < p->t.ndim; d++) e->dim[d + stacked] = (uint64_t)p->t.dim[d];
  if (!stacked) return;
  param_stack_name(p, stack_name);
  e->name = stack_name;
  e->dim[0] = (uint64_t)m->config.num_experts;
}

/* Lists the tensors of parameters from .. end - 1; `parts` is memory for the names of packed ones,
 * and `names` for those of stacks. */
static size_t list_entries(const Model *m, WeightType type, int from, int end, StEntry *e,
                           BnbParts *parts, char (*names)[PARAM_NAME_BYTES]) {
  size_t count = 0;
  for (int i = from; i < end; i++) {
    const Param *p = &m->param[i];
    if (is_packed(m, i, type)) {
      int n, k;
      param_outputs_inputs(p, &n, &k);
      bnb_parts(p->name, n, k, parts);
      memcpy(e + count, parts->entry, sizeof parts->entry);
      count += BNB_PARTS;
      parts++;
      continue;
    }
    if (continues(p)) continue;
    add_entry(m, p, p->saved_f32 ? ST_F32 : st_types[type], names[i - from], e + count++);
  }
  return count;
}

static Status write_file(const Model *m, const char *path, WeightType type, int from, int end) {
  const size_t n = (size_t)(end - from), most = type == WEIGHT_NF4 ? n * BNB_PARTS : n;
  StEntry *e = mem_zalloc(most * sizeof *e);
  BnbParts *parts = type == WEIGHT_NF4 ? mem_alloc(n * sizeof *parts) : NULL;
  char(*names)[PARAM_NAME_BYTES] = mem_alloc(n * sizeof *names);
  StWriter *w = NULL;
  Status s = e && names && (parts || type != WEIGHT_NF4)
                 ? GRPO_OK
                 : fail(GRPO_ENOMEM, "%s: no memory for its list of tensors", path);
  if (s == GRPO_OK)
    s = st_writer_open(&w, path, list_entries(m, type, from, end, e, parts, names), e, NULL);
  mem_free(e);
  mem_free(parts);
  mem_free(names);
  try(s);
  s = put_params(w, m, type, from, end);
  if (s == GRPO_OK) return st_writer_commit(w);
  st_writer_abort(w);
  return s;
}

static void shard_name(char *name, size_t cap, int i, int count) {
  if (count == 1)
    snprintf(name, cap, "model.safetensors");
  else
    snprintf(name, cap, "model-%05d-of-%05d.safetensors", i + 1, count);
}

static void put_mapped(Buf *map, const Model *m, int i, WeightType type, const char *file) {
  const Param *p = &m->param[i];
  char stack[PARAM_NAME_BYTES];
  BnbParts parts;
  if (continues(p)) return;
  if (p->stacked) param_stack_name(p, stack);
  const char *comma = i ? "," : "";
  const bool packed = is_packed(m, i, type);
  if (packed) bnb_parts(m->param[i].name, 1, 1, &parts);
  for (int k = 0; k < (packed ? BNB_PARTS : 1); k++, comma = ",")
    buf_printf(map, "%s\n    \"%s\": \"%s\"", comma,
               packed       ? parts.name[k]
               : p->stacked ? stack
                            : p->name,
               file);
}

static Status write_shards(const Model *m, const char *dir, WeightType type, uint64_t shard_bytes,
                           int count, Buf *map) {
  char path[FILE_PATH_BYTES], name[64];
  for (int i = 0, from = 0; i < count; i++) {
    const int end = shard_end(m, from, type, shard_bytes);
    shard_name(name, sizeof name, i, count);
    try(file_join(path, dir, name));
    try(write_file(m, path, type, from, end));
    for (; from < end; from++) put_mapped(map, m, from, type, name);
  }
  return buf_status(map);
}

static Status put_text(const char *dir, const char *name, const Buf *b) {
  char path[FILE_PATH_BYTES];
  try(buf_status(b));
  try(file_join(path, dir, name));
  return file_replace(path, b->data, b->len);
}

static Status write_index(const Model *m, const char *dir, WeightType type, const Buf *map) {
  uint64_t total = 0;
  Buf b = {0};
  for (int i = 0; i < m->nparams; i++) total += bytes_of(m, i, type);
  buf_printf(&b, "{\n  \"metadata\": {\"total_size\": %llu},\n  \"weight_map\": {",
             (unsigned long long)total);
  buf_put(&b, map->data, map->len);
  buf_puts(&b, "\n  }\n}\n");
  Status s = put_text(dir, "model.safetensors.index.json", &b);
  buf_free(&b);
  return s;
}

/* Removes files of an earlier save in the other form, which would be read instead of the new
 * ones. */
static Status remove_other_form(const char *dir, int count) {
  char path[FILE_PATH_BYTES];
  try(file_join(path, dir, count == 1 ? "model.safetensors.index.json" : "model.safetensors"));
  return file_exists(path) ? file_remove_tree(path) : GRPO_OK;
}

static Status write_weights(const Model *m, const char *dir, WeightType type,
                            uint64_t shard_bytes) {
  int count = 0;
  Buf map = {0};
  for (int from = 0; from < m->nparams; count++) from = shard_end(m, from, type, shard_bytes);
  Status s = write_shards(m, dir, type, shard_bytes, count, &map);
  if (s == GRPO_OK && count > 1) s = write_index(m, dir, type, &map);
  if (s == GRPO_OK) s = remove_other_form(dir, count);
  buf_free(&map);
  return s;
}

static void put_generation_config(Buf *b, const Config *c) {
  buf_puts(b, "{\n  \"_from_model_config\": true");
  if (c->bos_token_id >= 0) buf_printf(b, ",\n  \"bos_token_id\": %d", c->bos_token_id);
  if (c->num_eos == 1) buf_printf(b, ",\n  \"eos_token_id\": %d", c->eos_token_id[0]);
  for (int i = 0; c->num_eos > 1 && i < c->num_eos; i++)
    buf_printf(b, "%s%d", i ? ", " : ",\n  \"eos_token_id\": [", c->eos_token_id[i]);
  if (c->num_eos > 1) buf_putc(b, ']');
  if (c->pad_token_id >= 0) buf_printf(b, ",\n  \"pad_token_id\": %d", c->pad_token_id);
  buf_puts(b, "\n}\n");
}

/* Appends the head and the modules of layers that stay as they are and look to transformers like
 * packed ones; "null" if there are none. */
static void put_plain_modules(Buf *b, const Model *m) {
  for (int i = 0; i < m->nparams; i++) {
    const Param *p = &m->param[i];
    char word[PARAM_NAME_BYTES];
    const char *name = p->by_head || p->is_router ? strstr(p->name, "layers.") : NULL;
    if (!name) continue;
    name += strcspn(name, "0123456789");
    name += strspn(name, "0123456789.");
    snprintf(word, sizeof word, ", \"%.*s\"", (int)(strlen(name) - strlen(".weight")), name);
    if (!b->len) buf_puts(b, "[\"lm_head\"");
    if (!strstr(b->data, word)) buf_puts(b, word);
  }
  buf_puts(b, b->len ? "]" : "null");
}

/* Appends to the object that config_write wrote how the weights are stored; float32 is what readers
 * take where nothing is said. */
static void add_storage(Buf *b, const Model *m, WeightType type) {
  Buf plain = {0};
  if (type == WEIGHT_F32) return;
  if (b->len > 3) b->len -= strlen("\n}\n");
  buf_printf(b, ",\n  \"torch_dtype\": \"%s\"", type == WEIGHT_F16 ? "float16" : "bfloat16");
  if (type == WEIGHT_NF4) {
    buf_puts(b, ",\n  \"quantization_config\": ");
    put_plain_modules(&plain, m);
    bnb_put_config(b, plain.data ? plain.data : "null");
    buf_free(&plain);
  }
  buf_puts(b, "\n}\n");
}

Status save_model(const Model *m, const char *dir, WeightType type, uint64_t shard_bytes) {
  Buf b = {0};
  if (m->lora) try(lora_merge_check(m));
  try(file_mkdirs(dir));
  try(write_weights(m, dir, type, shard_bytes));
  put_generation_config(&b, &m->config);
  Status s = put_text(dir, "generation_config.json", &b);
  buf_clear(&b);
  config_write(&b, &m->config);
  add_storage(&b, m, type);
  if (s == GRPO_OK) s = put_text(dir, "config.json", &b);
  buf_free(&b);
  return s;
}
