#include "gguf/gguf_source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gguf/ggml.h"
#include "gguf/gguf.h"
#include "gguf/gguf_arch.h"
#include "gguf/gguf_config.h"
#include "gguf/gguf_order.h"

enum { NAME_BYTES = 96 };

typedef struct Entry {
  const GgufTensor *t;
  GgufOrder order;
  char name[NAME_BYTES]; /* Hugging Face's, or the file's where it has none */
} Entry;

typedef struct GgufFile {
  Gguf g;
  Entry *entry; /* [number of tensors] */
} GgufFile;

static const Entry *entry_of(const WeightSource *s, const SourceTensor *t) {
  return &((const GgufFile *)s->impl)->entry[t->place];
}

/* Reads values in Hugging Face's order of rows and columns. */
static Status read_in_order(const Entry *e, uint64_t from, uint64_t n, float *out) {
  const GgufOrder *o = &e->order;
  const bool columns = gguf_order_moves_columns(o);
  if (!columns && !gguf_order_moves_rows(o)) return gguf_read(e->t, from, n, out);
  const uint64_t cols = e->t->ndim == 2 ? e->t->dim[1] : 1, together = columns ? o->size : cols;
  while (n) {
    const uint64_t row = gguf_order_row(o, from / cols), at = from % cols;
    const uint64_t left = together - at % together, k = left < n ? left : n;
    try(gguf_read(e->t, row * cols + gguf_order_column(o, at), k, out));
    from += k;
    out += k;
    n -= k;
  }
  return GRPO_OK;
}

static Status read_values(const WeightSource *s, const SourceTensor *t, uint64_t from, uint64_t n,
                          float *out) {
  const Entry *e = entry_of(s, t);
  try(read_in_order(e, from, n, out));
  gguf_order_decode(&e->order, n, out);
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

/* Is this of a layer behind those of the decoder, which predicts several tokens at once? */
static bool is_beside(const Gguf *g, const Config *c, const char *name) {
  return strncmp(name, "blk.", 4) == 0 && gguf_config_beside(g, c) &&
         strtol(name + 4, NULL, 10) >= c->num_hidden_layers;
}

/* Its name in Hugging Face's checkpoints; where there is none, its own. */
static unsigned put_name(const Gguf *g, const Config *c, const GgufTensor *t, char *name) {
  const GgufArch *a = gguf_arch_of(config_model_type(c));
  unsigned change = 0;
  if (is_beside(g, c, t->name))
    snprintf(name, NAME_BYTES, "mtp.%s", t->name);
  else if (!gguf_arch_hf_name(a, t->name, name, NAME_BYTES, &change))
    memcpy(name, t->name, strlen(t->name) + 1);
  return change;
}

/* Filters are [channels, 1, taps] in Hugging Face's checkpoints. */
static void put_shape(const GgufTensor *t, unsigned change, SourceTensor *x) {
  x->ndim = t->ndim;
  memcpy(x->dim, t->dim, sizeof x->dim);
  if (!(change & GGUF_FILTERS) || t->ndim != 2) return;
  x->ndim = 3;
  x->dim[1] = 1, x->dim[2] = t->dim[1];
}

static void list_tensor(WeightSource *s, GgufFile *f, const Config *c, const GgufTensor *t) {
  Entry *e = &f->entry[s->count];
  *e = (Entry){.t = t};
  const unsigned change = put_name(&f->g, c, t, e->name);
  e->order = gguf_order(c, change);
  SourceTensor *x = &s->tensor[s->count];
  *x = (SourceTensor){.name = e->name,
                      .file = f->g.path,
                      .type_name = ggml_name(t->type),
                      .type = type_of(t->type),
                      .out_in = true,
                      .place = s->count++};
  put_shape(t, change, x);
}

static Status list_tensors(WeightSource *s, GgufFile *f) {
  Config c;
  try(gguf_config_read(&c, &f->g));
  s->tensor = mem_alloc((f->g.ntensors + 1) * sizeof *s->tensor);
  f->entry = mem_alloc((f->g.ntensors + 1) * sizeof *f->entry);
  if (!s->tensor || !f->entry)
    return fail(GRPO_ENOMEM, "%s: no memory for a table of %zu tensors", f->g.path, f->g.ntensors);
  for (size_t i = 0; i < f->g.ntensors; i++) {
    const GgufTensor *t = &f->g.tensor[i];
    if (!is_metadata(t->name)) list_tensor(s, f, &c, t);
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
