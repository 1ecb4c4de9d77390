#include "gguf/gguf_source.h"

#include <string.h>

#include "base/mem.h"
#include "gguf/ggml.h"
#include "gguf/gguf.h"
#include "gguf/gguf_arch.h"
#include "gguf/gguf_config.h"

enum { NAME_BYTES = 96 };

typedef struct Entry {
  const GgufTensor *t;
  unsigned change;
  char name[NAME_BYTES]; /* Hugging Face's, or the file's where it has none */
} Entry;

typedef struct GgufFile {
  Gguf g;
  Entry *entry; /* [number of tensors] */
  uint64_t head_dim, heads;
} GgufFile;

static const Entry *entry_of(const WeightSource *s, const SourceTensor *t) {
  return &((const GgufFile *)s->impl)->entry[t->place];
}

/* Reads values in Hugging Face's order of rows. */
static Status read_rows(const GgufFile *f, const Entry *e, uint64_t from, uint64_t n, float *out) {
  if (!(e->change & (GGUF_PERMUTED | GGUF_BY_HEAD))) return gguf_read(e->t, from, n, out);
  const uint64_t cols = e->t->ndim == 2 ? e->t->dim[1] : 1;
  while (n) {
    const uint64_t row = gguf_arch_row(e->change, from / cols, f->head_dim, f->heads);
    const uint64_t at = from % cols;
    const uint64_t k = cols - at < n ? cols - at : n;
    try(gguf_read(e->t, row * cols + at, k, out));
    from += k;
    out += k;
    n -= k;
  }
  return GRPO_OK;
}

static Status read_values(const WeightSource *s, const SourceTensor *t, uint64_t from, uint64_t n,
                          float *out) {
  const Entry *e = entry_of(s, t);
  try(read_rows(s->impl, e, from, n, out));
  for (uint64_t i = 0; e->change & GGUF_PLUS_ONE && i < n; i++) out[i] -= 1;
  return GRPO_OK;
}

static void close_file(WeightSource *s) {
  GgufFile *f = s->impl;
  gguf_close(&f->g);
  mem_free(f->entry);
  mem_free(f);
}

static SourceType type_of(GgmlType t) {
  switch (t) {
  case GGML_F32:
    return SOURCE_F32;
  case GGML_F16:
    return SOURCE_F16;
  case GGML_BF16:
    return SOURCE_BF16;
  default:
    return ggml_is_read(t) ? SOURCE_BLOCKS : SOURCE_OTHER;
  }
}

/* Tensors that belong to the configuration (gguf_config.c). */
static bool is_metadata(const char *name) {
  return strcmp(name, "rope_freqs.weight") == 0 || strncmp(name, "rope_factors_", 13) == 0;
}

static void list_tensor(WeightSource *s, GgufFile *f, const GgufArch *a, const GgufTensor *t) {
  Entry *e = &f->entry[s->count];
  *e = (Entry){.t = t};
  if (!gguf_arch_hf_name(a, t->name, e->name, NAME_BYTES, &e->change))
    memcpy(e->name, t->name, strlen(t->name) + 1);
  SourceTensor *x = &s->tensor[s->count];
  *x = (SourceTensor){.name = e->name,
                      .file = f->g.path,
                      .type_name = ggml_name(t->type),
                      .type = type_of(t->type),
                      .ndim = t->ndim,
                      .out_in = true,
                      .place = s->count++};
  memcpy(x->dim, t->dim, sizeof x->dim);
}

static Status list_tensors(WeightSource *s, GgufFile *f) {
  Config c;
  try(gguf_config_read(&c, &f->g));
  const GgufArch *a = gguf_arch_of(config_model_type(&c));
  f->head_dim = (uint64_t)c.head_dim;
  f->heads = (uint64_t)c.num_attention_heads;
  s->tensor = mem_alloc((f->g.ntensors + 1) * sizeof *s->tensor);
  f->entry = mem_alloc((f->g.ntensors + 1) * sizeof *f->entry);
  if (!s->tensor || !f->entry)
    return fail(GRPO_ENOMEM, "%s: no memory for a table of %zu tensors", f->g.path, f->g.ntensors);
  for (size_t i = 0; i < f->g.ntensors; i++) {
    const GgufTensor *t = &f->g.tensor[i];
    if (!is_metadata(t->name)) list_tensor(s, f, a, t);
  }
  return GRPO_OK;
}

Status gguf_source_open(WeightSource *out, const char *path) {
  GgufFile *f = mem_zalloc(sizeof *f);
  *out = (WeightSource){0};
  if (!f) return fail(GRPO_ENOMEM, "%s: no memory to open it", path);
  *out = (WeightSource){.impl = f, .read = read_values, .close = close_file};
  Status s = gguf_open(&f->g, path);
  if (s == GRPO_OK) s = list_tensors(out, f);
  if (s != GRPO_OK) source_close(out);
  return s;
}
