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

/* A weight of the checkpoint, which may be in two tensors of the file. */
typedef struct Entry {
  const GgufTensor *part[GGUF_PARTS];
  GgufOrder order;
  uint64_t rows, cols;   /* of the weight, or of each one in a stack */
  char name[NAME_BYTES]; /* Hugging Face's, or the file's where it has none */
} Entry;

typedef struct GgufFile {
  Gguf g;
  Entry *entry; /* [number of tensors] */
} GgufFile;

static const Entry *entry_of(const WeightSource *s, const SourceTensor *t) {
  return &((const GgufFile *)s->impl)->entry[t->place];
}

/* Values from .. from + n - 1 of the keys of a head, whose rows and columns are exchanged in the
 * file. */
static Status read_transposed(const GgufTensor *t, uint64_t head, uint64_t rows, uint64_t cols,
                              uint64_t from, uint64_t n, float *out) {
  float *x = mem_alloc(rows * cols * sizeof *x);
  if (!x) return fail(GRPO_ENOMEM, "no memory for the keys of a head of '%s'", t->name);
  const Status s = gguf_read(t, head * rows * cols, rows * cols, x);
  for (uint64_t i = 0; i < n && s == GRPO_OK; i++)
    out[i] = x[(from + i) % cols * rows + (from + i) / cols];
  mem_free(x);
  return s;
}

/* Reads up to n values from column `at` of a row on, as many as are together.  *done: how many. */
static Status read_piece(const Entry *e, uint64_t row, uint64_t at, uint64_t n, float *out,
                         uint64_t *done) {
  const GgufOrder *o = &e->order;
  const GgufPlace to = gguf_order_place(o, row % e->rows);
  const GgufTensor *t = e->part[to.part];
  const uint64_t cols = e->cols, together = gguf_order_moves_columns(o) ? o->size : cols;
  if (gguf_order_transposes(o, to.part)) {
    const uint64_t rows = o->segment[0].rows, from = to.row % rows * cols + at;
    *done = rows * cols - from < n ? rows * cols - from : n;
    return read_transposed(t, to.row / rows, rows, cols, from, *done, out);
  }
  const uint64_t left = together - at % together;
  const uint64_t first = row / e->rows * gguf_order_part_rows(o, to.part, e->rows);
  *done = left < n ? left : n;
  return gguf_read(t, (first + to.row) * cols + gguf_order_column(o, at), *done, out);
}

/* Reads values in Hugging Face's order of rows and columns. */
static Status read_in_order(const Entry *e, uint64_t from, uint64_t n, float *out) {
  const GgufOrder *o = &e->order;
  uint64_t done;
  if (!gguf_order_moves_columns(o) && !gguf_order_moves_rows(o))
    return gguf_read(e->part[0], from, n, out);
  for (; n; from += done, out += done, n -= done)
    try(read_piece(e, from / e->cols, from % e->cols, n, out, &done));
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
  case GGML_MXFP4:
    return SOURCE_MXFP4;
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

typedef struct Shape {
  uint64_t items, rows, cols;
} Shape;

/* Weights of a stack, and rows and columns of each, in a tensor of the file. */
static Shape shape_of(const GgufTensor *t, unsigned change) {
  const uint64_t *d = t->dim;
  if (change & GGUF_STACK && t->ndim > 1) return (Shape){d[0], d[1], t->ndim > 2 ? d[2] : 1};
  if (change & GGUF_LATENT && t->ndim == 3)
    return change & GGUF_SECOND ? (Shape){1, d[0] * d[1], d[2]} : (Shape){1, d[0] * d[2], d[1]};
  if (change & GGUF_VECTOR && t->ndim == 1) return (Shape){1, 1, d[0]};
  return (Shape){1, d[0], d[0] ? t->n / d[0] : 0};
}

/* The shape in Hugging Face's checkpoints, where a weight of all parts has `rows`. */
static void put_shape(const GgufTensor *t, unsigned change, uint64_t rows, SourceTensor *x) {
  const Shape one = shape_of(t, change);
  x->ndim = t->ndim;
  memcpy(x->dim, t->dim, sizeof x->dim);
  if (change & GGUF_STACK && t->ndim > 1) {
    x->dim[1] = rows;
  } else if (change & GGUF_FILTERS && t->ndim == 2) {
    x->ndim = 3;
    x->dim[1] = 1, x->dim[2] = t->dim[1];
  } else if (change & (GGUF_LATENT | GGUF_VECTOR)) {
    x->ndim = 2;
    x->dim[0] = rows, x->dim[1] = one.cols;
  } else {
    x->dim[0] = rows;
  }
}

/* The other tensor of a weight that is in two; NULL: the file has none. */
static const GgufTensor *other_part(const Gguf *g, const Config *c, const char *hf, int part) {
  char name[GGUF_NAME_MAX + 1];
  unsigned change;
  const GgufArch *a = gguf_arch_of(config_model_type(c));
  if (!gguf_arch_file_name(a, hf, part, name, sizeof name, &change)) return NULL;
  return gguf_tensor(g, name);
}

static Status check_parts(const Gguf *g, const Entry *e, unsigned change) {
  const GgufTensor *t = e->part[0], *u = e->part[1];
  const Shape a = shape_of(t, change), b = shape_of(u, change | GGUF_SECOND);
  const bool heads =
      !(change & GGUF_LATENT) || (t->dim[0] == e->order.groups && u->dim[0] == e->order.groups);
  if (heads && t->ndim == u->ndim && a.items == b.items && a.cols == b.cols &&
      gguf_order_part_rows(&e->order, 0, e->rows) == a.rows &&
      gguf_order_part_rows(&e->order, 1, e->rows) == b.rows)
    return GRPO_OK;
  return fail(GRPO_EFORMAT, "%s: tensors '%s' and '%s' do not have the shapes of %s", g->path,
              t->name, u->name, e->name);
}

static Status half_is_missing(const Gguf *g, const Entry *e, const GgufTensor *t) {
  return fail(GRPO_EFORMAT, "%s: tensor '%s' is one half of %s, and the other half is missing",
              g->path, t->name, e->name);
}

/* Finds the tensors of a weight, the first of which is t. */
static Status find_parts(const Gguf *g, const Config *c, const GgufTensor *t, unsigned change,
                         Entry *e) {
  const Shape first = shape_of(t, change);
  const GgufTensor *u = change & GGUF_READ_ONLY ? NULL : other_part(g, c, e->name, 1);
  e->part[0] = t, e->part[1] = u;
  e->rows = first.rows + (u ? shape_of(u, change | GGUF_SECOND).rows : 0);
  e->cols = first.cols;
  e->order = gguf_order(c, change, e->rows);
  if (gguf_order_parts(&e->order) == 1) return GRPO_OK;
  return u ? check_parts(g, e, change) : half_is_missing(g, e, t);
}

/* Parts of two types are read as float32. */
static SourceType type_of_parts(const Entry *e) {
  const SourceType a = type_of(e->part[0]->type);
  const SourceType b = e->part[1] ? type_of(e->part[1]->type) : a;
  return a == b ? a : a == SOURCE_OTHER || b == SOURCE_OTHER ? SOURCE_OTHER : SOURCE_BLOCKS;
}

static Status list_tensor(WeightSource *s, GgufFile *f, const Config *c, const GgufTensor *t) {
  Entry *e = &f->entry[s->count];
  *e = (Entry){.part = {t}};
  const unsigned change = put_name(&f->g, c, t, e->name);
  if (change & GGUF_SECOND) /* listed with the first */
    return other_part(&f->g, c, e->name, 0) ? GRPO_OK : half_is_missing(&f->g, e, t);
  try(find_parts(&f->g, c, t, change, e));
  SourceTensor *x = &s->tensor[s->count];
  *x = (SourceTensor){.name = e->name,
                      .file = f->g.path,
                      .type_name = ggml_name(t->type),
                      .type = type_of_parts(e),
                      .out_in = true,
                      .place = s->count++};
  put_shape(t, change, e->rows, x);
  return GRPO_OK;
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
    if (!is_metadata(t->name)) try(list_tensor(s, f, &c, t));
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
