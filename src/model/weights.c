/* weights.c - checkpoints in Hugging Face's layout: one file or shards with an index. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "model/impl.h"
#include "model/safetensors.h"

enum { INDEX_MAX = 256 << 20, PATH_BYTES = 4096 };

static Status join(char *path, const char *dir, const char *name) {
  if (snprintf(path, PATH_BYTES, "%s/%s", dir, name) >= PATH_BYTES)
    return fail(GRPO_EARG, "path too long: %s/%s", dir, name);
  return GRPO_OK;
}

/* ---- the files of a checkpoint --------------------------------------------------------- */

typedef struct Shards {
  Safetensors *file;
  size_t count;
} Shards;

static void shards_close(Shards *s) {
  for (size_t i = 0; i < s->count; i++) safetensors_close(&s->file[i]);
  mem_free(s->file);
  *s = (Shards){0};
}

static Status shards_reserve(Shards *s, size_t n) {
  s->file = mem_zalloc(n * sizeof *s->file);
  return s->file ? GRPO_OK : fail(GRPO_ENOMEM, "table of %zu checkpoint files", n);
}

static Status shards_add(Shards *s, const char *dir, const char *name) {
  char path[PATH_BYTES];
  try(join(path, dir, name));
  try(safetensors_open(&s->file[s->count], path));
  s->count++;
  return GRPO_OK;
}

static int by_text(const void *x, const void *y) {
  return strcmp(*(const char *const *)x, *(const char *const *)y);
}

/* Shards are files of the same folder, whatever an index says. */
static Status check_shard_name(const char *path, const char *name) {
  if (!name || !*name || strchr(name, '/') || strchr(name, '\\') || strstr(name, ".."))
    return fail(GRPO_EFORMAT, "%s: '%.200s' is not the name of a file beside it", path,
                name ? name : "(no string)");
  return GRPO_OK;
}

static Status open_listed(Shards *s, const char *dir, const char *path, const Json *map) {
  const size_t n = json_count(map);
  const char **name = mem_alloc(n * sizeof *name);
  if (!name) return fail(GRPO_ENOMEM, "%s", path);
  Status st = GRPO_OK;
  size_t k = 0;
  for (const Json *j = json_child(map); j && st == GRPO_OK; j = json_next(j)) {
    name[k++] = json_string(j);
    st = check_shard_name(path, json_string(j));
  }
  if (st == GRPO_OK) {
    qsort(name, k, sizeof *name, by_text);
    st = shards_reserve(s, k);
  }
  for (size_t i = 0; i < k && st == GRPO_OK; i++)
    if (i == 0 || strcmp(name[i - 1], name[i]) != 0) st = shards_add(s, dir, name[i]);
  mem_free(name);
  return st;
}

static Status open_index(Shards *s, const char *dir, const char *path) {
  Json *j;
  try(json_read_file(path, INDEX_MAX, &j));
  const Json *map = json_get(j, "weight_map");
  Status st = map && json_type(map) == JSON_OBJECT && json_child(map)
                  ? open_listed(s, dir, path, map)
                  : fail(GRPO_EFORMAT, "%s: no weight_map", path);
  json_free(j);
  return st;
}

static Status shards_open(Shards *s, const char *dir) {
  char path[PATH_BYTES];
  try(join(path, dir, "model.safetensors"));
  if (file_exists(path)) {
    try(shards_reserve(s, 1));
    return shards_add(s, dir, "model.safetensors");
  }
  try(join(path, dir, "model.safetensors.index.json"));
  if (file_exists(path)) return open_index(s, dir, path);
  return fail(GRPO_ENOENT, "%s: neither model.safetensors nor model.safetensors.index.json", dir);
}

/* ---- matching tensors with parameters ----------------------------------------------------- */

static bool ends_with(const char *s, const char *end) {
  const size_t n = strlen(s), k = strlen(end);
  return n >= k && strcmp(s + n - k, end) == 0;
}

static bool starts_with(const char *s, const char *begin) {
  return strncmp(s, begin, strlen(begin)) == 0;
}

/* Parts of a multimodal checkpoint that are no decoder. */
static bool is_vision(const Config *c, const char *name) {
  if (c->family != FAMILY_GEMMA3) return false;
  if (starts_with(name, "model.")) name += strlen("model.");
  return starts_with(name, "vision_tower.") || starts_with(name, "multi_modal_projector.");
}

/* Buffers that older checkpoints hold beside the weights, and a tied head stored once more. */
static bool ignored(const Config *c, const char *name) {
  if (c->tie_word_embeddings && ends_with(name, "lm_head.weight")) return true;
  if (is_vision(c, name)) return true;
  return config_traits(c) & TRAIT_CONV1D
             ? ends_with(name, ".attn.bias") || ends_with(name, ".attn.masked_bias")
             : ends_with(name, ".rotary_emb.inv_freq");
}

/* Other names that the same parameter goes by: without gpt2's prefix, within a multimodal model. */
static int parameter_of(const Model *m, const char *name) {
  static const struct {
    Family family;
    const char *from, *to;
  } renames[] = {{FAMILY_GPT2, "", "transformer."},
                 {FAMILY_GEMMA3, "language_model.", ""},
                 {FAMILY_GEMMA3, "model.language_model.", "model."}};
  char full[128];
  int i = model_index(m, name);
  for (size_t k = 0; i < 0 && k < sizeof renames / sizeof *renames; k++) {
    const char *from = renames[k].from;
    if (renames[k].family != m->config.family || !starts_with(name, from)) continue;
    const int n = snprintf(full, sizeof full, "%s%s", renames[k].to, name + strlen(from));
    if (n < (int)sizeof full) i = model_index(m, full);
  }
  return i;
}

static Status check_shape(const char *path, const StTensor *t, const Tensor *want) {
  bool same = t->ndim == want->ndim;
  for (int d = 0; same && d < want->ndim; d++) same = t->dim[d] == (uint64_t)want->dim[d];
  if (same) return GRPO_OK;
  char has[96] = "";
  for (int d = 0, at = 0; d < t->ndim && d < ST_DIMS; d++)
    at += snprintf(has + at, sizeof has - (size_t)at, "%s%llu", d ? ", " : "",
                   (unsigned long long)t->dim[d]);
  if (want->ndim == 1)
    return fail(GRPO_EFORMAT, "%s: tensor '%s' has shape [%s], config.json wants [%d]", path,
                t->name, has, want->dim[0]);
  return fail(GRPO_EFORMAT, "%s: tensor '%s' has shape [%s], config.json wants [%d, %d]", path,
              t->name, has, want->dim[0], want->dim[1]);
}

static Status match_file(const Model *m, const Safetensors *f, const StTensor **found) {
  for (size_t k = 0; k < f->count; k++) {
    const StTensor *t = &f->tensor[k];
    if (ignored(&m->config, t->name)) continue;
    const int i = parameter_of(m, t->name);
    if (i < 0)
      return fail(GRPO_EFORMAT, "%s: tensor '%.200s' does not belong to this kind of model",
                  f->path, t->name);
    if (found[i])
      return fail(GRPO_EFORMAT, "%s: tensor '%s' occurs twice in the checkpoint", f->path, t->name);
    if (!st_type_is_float(t->type))
      return fail(GRPO_EFORMAT, "%s: tensor '%s' is %s; F32, F16 and BF16 are supported", f->path,
                  t->name, st_type_name(t->type));
    try(check_shape(f->path, t, &m->param[i].t));
    found[i] = t;
  }
  return GRPO_OK;
}

static Status match_all(const Model *m, const Shards *s, const char *dir, const StTensor **found) {
  int missing = 0, first = 0;
  for (size_t i = 0; i < s->count; i++) try(match_file(m, &s->file[i], found));
  for (int i = m->nparams; i-- > 0;)
    if (!found[i]) {
      missing++;
      first = i;
    }
  if (!missing) return GRPO_OK;
  return fail(GRPO_EFORMAT, "%s: tensor '%s' is missing (%d of %d are)", dir, m->param[first].name,
              missing, m->nparams);
}

/* ---- loading ---------------------------------------------------------------------- */

typedef struct Reading {
  Model *m;
  const StTensor **found;
} Reading;

static void read_param(void *arg, int chunk, int worker) {
  (void)worker;
  const Reading *r = arg;
  Tensor *t = &r->m->param[chunk].t;
  st_read(r->found[chunk], 0, t->n, t->data);
}

/* Shapes are checked before memory is taken: a lying config.json costs nothing. */
static Status read_weights(Model *m, const Shards *s, const char *dir) {
  const StTensor **found = mem_zalloc((size_t)m->nparams * sizeof *found);
  if (!found) return fail(GRPO_ENOMEM, "%s", dir);
  Status st = match_all(m, s, dir, found);
  if (st == GRPO_OK) st = model_allocate(m);
  if (st == GRPO_OK) pool_run(m->pool, m->nparams, read_param, &(Reading){m, found});
  mem_free(found);
  return st;
}

Status model_load(Model **out, Pool *pool, const char *dir) {
  Config c;
  Model *m;
  Shards s = {0};
  try(config_load(&c, dir));
  try(model_layout(&m, pool, &c));
  Status st = shards_open(&s, dir);
  if (st == GRPO_OK) st = read_weights(m, &s, dir);
  shards_close(&s);
  if (st != GRPO_OK) {
    model_destroy(m);
    return st;
  }
  *out = m;
  return GRPO_OK;
}

/* ---- saving ---------------------------------------------------------------------- */

static const StType st_types[] = {
    [WEIGHT_F32] = ST_F32, [WEIGHT_F16] = ST_F16, [WEIGHT_BF16] = ST_BF16};

static uint64_t bytes_of(const Param *p, WeightType type) {
  return (uint64_t)p->t.n * (type == WEIGHT_F32 ? 4 : 2);
}

/* The shard after `from`: parameters from .. end - 1; at least one. */
static int shard_end(const Model *m, int from, WeightType type, uint64_t shard_bytes) {
  uint64_t used = 0;
  int i = from;
  for (; i < m->nparams; i++) {
    used += bytes_of(&m->param[i], type);
    if (shard_bytes && i > from && used > shard_bytes) break;
  }
  return i;
}

enum { MERGE_ROWS = 64 };

/* A weight with the adapter in it, made a few rows at a time. */
static Status put_merged(StWriter *w, const Model *m, const Param *p) {
  const size_t cols = (size_t)p->t.dim[1];
  real *some = mem_alloc(MERGE_ROWS * cols * sizeof *some);
  Status s = some ? GRPO_OK : fail(GRPO_ENOMEM, "%s", p->name);
  for (int row = 0; row < p->t.dim[0] && s == GRPO_OK; row += MERGE_ROWS) {
    const int rows = p->t.dim[0] - row < MERGE_ROWS ? p->t.dim[0] - row : MERGE_ROWS;
    memcpy(some, p->t.data + (size_t)row * cols, (size_t)rows * cols * sizeof *some);
    s = lora_merge_rows(m, p, row, rows, some);
    if (s == GRPO_OK) s = st_writer_put(w, some, (size_t)rows * cols);
  }
  mem_free(some);
  return s;
}

static Status put_params(StWriter *w, const Model *m, int from, int end) {
  for (int i = from; i < end; i++) {
    const Param *p = &m->param[i];
    if (m->lora && p->t.ndim == 2)
      try(put_merged(w, m, p));
    else
      try(st_writer_put(w, p->t.data, p->t.n));
  }
  return GRPO_OK;
}

static Status write_file(const Model *m, const char *path, WeightType type, int from, int end) {
  StEntry *e = mem_zalloc((size_t)(end - from) * sizeof *e);
  StWriter *w;
  if (!e) return fail(GRPO_ENOMEM, "%s", path);
  for (int i = from; i < end; i++) {
    const Tensor *t = &m->param[i].t;
    e[i - from] = (StEntry){.name = m->param[i].name, .type = st_types[type], .ndim = t->ndim};
    for (int d = 0; d < t->ndim; d++) e[i - from].dim[d] = (uint64_t)t->dim[d];
  }
  Status s = st_writer_open(&w, path, (size_t)(end - from), e, NULL);
  mem_free(e);
  try(s);
  s = put_params(w, m, from, end);
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

static Status write_shards(const Model *m, const char *dir, WeightType type, uint64_t shard_bytes,
                           int count, Buf *map) {
  char path[PATH_BYTES], name[64];
  for (int i = 0, from = 0; i < count; i++) {
    const int end = shard_end(m, from, type, shard_bytes);
    shard_name(name, sizeof name, i, count);
    try(join(path, dir, name));
    try(write_file(m, path, type, from, end));
    for (; from < end; from++)
      buf_printf(map, "%s\n    \"%s\": \"%s\"", from ? "," : "", m->param[from].name, name);
  }
  return buf_status(map);
}

static Status put_text(const char *dir, const char *name, const Buf *b) {
  char path[PATH_BYTES];
  try(buf_status(b));
  try(join(path, dir, name));
  return file_replace(path, b->data, b->len);
}

static Status write_index(const Model *m, const char *dir, WeightType type, const Buf *map) {
  uint64_t total = 0;
  Buf b = {0};
  for (int i = 0; i < m->nparams; i++) total += bytes_of(&m->param[i], type);
  buf_printf(&b, "{\n  \"metadata\": {\"total_size\": %llu},\n  \"weight_map\": {",
             (unsigned long long)total);
  buf_put(&b, map->data, map->len);
  buf_puts(&b, "\n  }\n}\n");
  Status s = put_text(dir, "model.safetensors.index.json", &b);
  buf_free(&b);
  return s;
}

/* Files of an earlier save in the other form would be read instead of, or beside, the new ones. */
static Status remove_other_form(const char *dir, int count) {
  char path[PATH_BYTES];
  try(join(path, dir, count == 1 ? "model.safetensors.index.json" : "model.safetensors"));
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

Status model_save(const Model *m, const char *dir, WeightType type, uint64_t shard_bytes) {
  Buf b = {0};
  if (m->lora) try(lora_check_merge(m));
  try(file_mkdirs(dir));
  try(write_weights(m, dir, type, shard_bytes));
  put_generation_config(&b, &m->config);
  Status s = put_text(dir, "generation_config.json", &b);
  buf_clear(&b);
  config_put_json(&b, &m->config);
  if (s == GRPO_OK) s = put_text(dir, "config.json", &b);
  buf_free(&b);
  return s;
}
