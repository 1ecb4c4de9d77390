#include "gguf/gguf_adapter.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "gguf/gguf_config_write.h"
#include "gguf/gguf_order.h"
#include "gguf/gguf_write.h"
#include "model/model_struct.h"

/* A reader scales each pair by alpha / rank, with one alpha for the file: that of the first pair.
 * B of a pair with another one is multiplied on the way. */
static double alpha_of(const LoraModule *mod) { return mod->scale * mod->a->t.dim[0]; }
static double file_alpha(const Lora *l) {
  for (int i = 0; i < l->nmodules; i++)
    if (alpha_of(&l->module[i]) != 0) return alpha_of(&l->module[i]);
  return 1;
}

static void put_metadata(const Lora *l, const GgufArch *a, GgufMeta *meta) {
  const char *name = gguf_arch_name(a);
  gguf_put_string(meta, "general.architecture", name, strlen(name));
  gguf_put_string(meta, "general.type", "adapter", 7);
  gguf_put_u32(meta, "general.file_type", 0);
  gguf_put_string(meta, "adapter.type", "lora", 4);
  gguf_put_f32(meta, "adapter.lora.alpha", (float)file_alpha(l));
}

static GgufOrder order_of(const Model *m, const LoraModule *mod, unsigned change) {
  return gguf_order(&m->config, change, (uint64_t)mod->b->t.dim[0]);
}

static Status describe_part(const LoraModule *mod, const char *name, uint64_t rows, GgufEntry *e) {
  const Tensor *pair[] = {&mod->a->t, &mod->b->t};
  for (int i = 0; i < 2; i++) {
    e[i] = (GgufEntry){.type = GGML_F32, .ndim = 2};
    e[i].dim[0] = i ? rows : (uint64_t)pair[i]->dim[0], e[i].dim[1] = (uint64_t)pair[i]->dim[1];
    if (snprintf(e[i].name, sizeof e[i].name, "%s.lora_%c", name, "ab"[i]) >= (int)sizeof e->name)
      return fail(GRPO_EARG, "the GGUF name of parameter '%s' is too long", mod->base->name);
  }
  return GRPO_OK;
}

/* A weight that is in two tensors of a file has an adapter for each, with the same A. */
static Status describe(const Model *m, const LoraModule *mod, const GgufArch *a, GgufEntry *e,
                       size_t *n, unsigned *change) {
  const Lora *l = m->lora;
  char name[GGUF_NAME_MAX + 1];
  int parts = 1;
  if (mod == l->embedding || (mod == l->head && m->config.tie_word_embeddings))
    return fail(GRPO_EARG,
                "an adapter on the embedding, or on an output projection that is tied to it, is "
                "not written as GGUF, because llama.cpp would use it in one of the two places "
                "only; use PEFT's format");
  for (int part = 0; part < parts; part++) {
    if (!gguf_arch_file_name(a, mod->base->name, part, name, sizeof name, change))
      return fail(GRPO_EARG, "GGUF has no name for parameter '%s'", mod->base->name);
    if (*change & GGUF_UNADAPTED)
      return fail(GRPO_EARG,
                  "an adapter on '%s' is not written as GGUF, because llama.cpp ignores it there; "
                  "export the model with --merge, or use PEFT's format",
                  mod->base->name);
    const GgufOrder o = order_of(m, mod, *change);
    parts = gguf_order_parts(&o);
    const uint64_t rows = gguf_order_part_rows(&o, part, (uint64_t)mod->b->t.dim[0]);
    try(describe_part(mod, name, rows, &e[*n]));
    *n += 2;
  }
  return GRPO_OK;
}

/* A's columns and B's rows are in the order of those of the base's weight in its file. */
static Status put_pair(GgufWriter *w, const LoraModule *mod, const GgufOrder *o, int part,
                       double alpha, float *row) {
  const Tensor *a = &mod->a->t, *b = &mod->b->t;
  const uint64_t r = (uint64_t)a->dim[0], in = (uint64_t)a->dim[1];
  const uint64_t n = gguf_order_part_rows(o, part, (uint64_t)b->dim[0]);
  const double k = alpha_of(mod) / alpha;
  for (uint64_t i = 0; i < r; i++) {
    for (uint64_t j = 0; j < in; j++) row[j] = a->data[i * in + gguf_order_column_of(o, j)];
    try(gguf_writer_put(w, row, in));
  }
  for (uint64_t i = 0; i < n; i++) {
    const real *from = b->data + gguf_order_row_of(o, part, i) * r;
    for (uint64_t j = 0; j < r; j++) row[j] = (float)(k * from[j]);
    try(gguf_writer_put(w, row, r));
  }
  return GRPO_OK;
}

static Status put_tensors(GgufWriter *w, const Model *m, const unsigned *change) {
  const Lora *l = m->lora;
  for (int i = 0; i < l->nmodules; i++) {
    const LoraModule *mod = &l->module[i];
    const int r = mod->a->t.dim[0], in = mod->a->t.dim[1];
    const GgufOrder o = order_of(m, mod, change[i]);
    float *row = mem_alloc((size_t)(r > in ? r : in) * sizeof *row);
    Status s = row ? GRPO_OK : fail(GRPO_ENOMEM, "no memory for a row of an adapter");
    for (int part = 0; part < gguf_order_parts(&o) && s == GRPO_OK; part++)
      s = put_pair(w, mod, &o, part, file_alpha(l), row);
    mem_free(row);
    try(s);
  }
  return GRPO_OK;
}

static Status write_file(const Model *m, const GgufArch *a, const char *path,
                         const GgufMeta *meta) {
  const Lora *l = m->lora;
  const size_t modules = (size_t)l->nmodules;
  size_t n = 0;
  GgufWriter *w = NULL;
  GgufEntry *e = mem_zalloc(2 * GGUF_PARTS * modules * sizeof *e);
  unsigned *change = mem_zalloc(modules * sizeof *change);
  Status s =
      e && change ? GRPO_OK : fail(GRPO_ENOMEM, "%s: no memory for its list of tensors", path);
  for (size_t i = 0; i < modules && s == GRPO_OK; i++)
    s = describe(m, &l->module[i], a, e, &n, &change[i]);
  if (s == GRPO_OK) s = gguf_writer_open(&w, path, meta, n, e);
  mem_free(e);
  if (s == GRPO_OK) s = put_tensors(w, m, change);
  mem_free(change);
  if (s == GRPO_OK) return gguf_writer_commit(w);
  gguf_writer_abort(w);
  return s;
}

Status gguf_adapter_save(const Model *m, const char *path) {
  const GgufArch *a = gguf_arch_of(config_model_type(&m->config));
  GgufMeta meta = {0};
  if (!m->lora) return fail(GRPO_EARG, "%s: the model has no adapter to save", path);
  if (!a)
    return fail(GRPO_EARG, "%s: writing '%s' models as GGUF is not supported", path,
                config_model_type(&m->config));
  try(gguf_config_check(&m->config, a, path));
  put_metadata(m->lora, a, &meta);
  const Status s = write_file(m, a, path, &meta);
  gguf_meta_free(&meta);
  return s;
}
