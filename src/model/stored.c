#include "model/stored.h"

#include <string.h>

#include "base/crc32c.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "model/frozen.h"
#include "model/layout.h"

enum { PIECE = 1 << 20 };

/* ---- one parameter ------------------------------------------------------------------------- */

static bool packed_in_place(const Param *p) { return p->t.quant && p->t.quant->borrowed; }

const char *stored_type(const Param *p) {
  static const char *const names[] = {[QUANT_F32] = "f32 packed",
                                      [QUANT_BF16] = "bf16",
                                      [QUANT_F16] = "f16",
                                      [QUANT_INT8] = "int8"};
  const QuantWeight *w = p->t.quant;
  if (!w || w->borrowed) return "f32";
  if (w->type != QUANT_NF4) return names[w->type];
  return w->plain_absmax ? "nf4 plain" : "nf4";
}

static int parts_of(const Param *p, QuantPart *out) {
  if (p->t.quant && !packed_in_place(p))
    return quant_parts((QuantWeight *)(uintptr_t)p->t.quant, out);
  out[0] = (QuantPart){p->t.data, p->t.n * sizeof *p->t.data};
  return 1;
}

size_t stored_bytes(const Param *p) {
  QuantPart part[QUANT_PARTS];
  size_t n = 0;
  for (int i = parts_of(p, part); i-- > 0;) n += part[i].bytes;
  return n;
}

/* A weight that is packed in place gives its rows. */
static Status read_packed(const Ctx *cx, const Param *p, size_t from, size_t n, char *out) {
  const size_t row = (size_t)p->t.dim[1] * sizeof(real);
  const int first = (int)(from / row), end = (int)((from + n + row - 1) / row);
  real *rows = mem_alloc_aligned((size_t)(end - first) * row);
  if (!rows) return fail(GRPO_ENOMEM, "%s: no memory for %d rows", p->name, end - first);
  param_rows(cx, p, first, end - first, rows);
  memcpy(out, (const char *)rows + (from - (size_t)first * row), n);
  mem_free_aligned(rows);
  return GRPO_OK;
}

/* Copies n bytes of the parts from `from` on: to `out`, or from `in`. */
static void move(const QuantPart *part, int parts, size_t from, size_t n, char *out,
                 const char *in) {
  for (int i = 0; i < parts && n; i++) {
    if (from >= part[i].bytes) {
      from -= part[i].bytes;
      continue;
    }
    const size_t some = min_size(n, part[i].bytes - from);
    char *at = (char *)part[i].data + from;
    if (out) memcpy(out, at, some), out += some;
    if (in) memcpy(at, in, some), in += some;
    n -= some;
    from = 0;
  }
}

static Status check_range(const Param *p, size_t from, size_t n) {
  const size_t all = stored_bytes(p);
  if (from <= all && n <= all - from) return GRPO_OK;
  return fail(GRPO_EFORMAT, "%s: bytes %zu to %zu of %zu", p->name, from, from + n, all);
}

Status stored_read(const Ctx *cx, const Param *p, size_t from, size_t n, char *out) {
  QuantPart part[QUANT_PARTS];
  try(check_range(p, from, n));
  if (n && packed_in_place(p)) return read_packed(cx, p, from, n, out);
  move(part, parts_of(p, part), from, n, out, NULL);
  return GRPO_OK;
}

Status stored_write(Param *p, size_t from, size_t n, const char *bytes) {
  QuantPart part[QUANT_PARTS];
  try(check_range(p, from, n));
  if (packed_in_place(p)) return fail(GRPO_EARG, "%s is packed in place", p->name);
  move(part, parts_of(p, part), from, n, NULL, bytes);
  return GRPO_OK;
}

Status stored_sum(const Ctx *cx, const Param *p, uint32_t *out) {
  const size_t all = stored_bytes(p);
  char *piece = mem_alloc(PIECE);
  if (!piece) return fail(GRPO_ENOMEM, "%s: no memory to read it", p->name);
  Status s = GRPO_OK;
  *out = 0;
  for (size_t at = 0; at < all && s == GRPO_OK; at += PIECE) {
    const size_t n = min_size(PIECE, all - at);
    s = stored_read(cx, p, at, n, piece);
    if (s == GRPO_OK) *out = crc32c(*out, piece, n);
  }
  mem_free(piece);
  return s;
}

/* ---- an empty model ------------------------------------------------------------------------ */

static void zero(const Param *p) {
  QuantPart part[QUANT_PARTS];
  for (int i = parts_of(p, part); i-- > 0;) memset(part[i].data, 0, part[i].bytes);
}

static Status set_type(Model *m, int i, const char *type) {
  static const struct {
    const char *name;
    QuantType type;
  } types[] = {{"f32 packed", QUANT_F32}, {"bf16", QUANT_BF16}, {"f16", QUANT_F16},
               {"int8", QUANT_INT8},      {"nf4", QUANT_NF4},   {"nf4 plain", QUANT_NF4}};
  if (strcmp(type, "f32") == 0) return GRPO_OK;
  for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
    if (strcmp(type, types[k].name) != 0) continue;
    if (!layout_is_matrix(m, i)) break;
    try(frozen_quantise(m, i, types[k].type));
    if (strcmp(type, "nf4") == 0) quant_nf4_nest(m->quant[i]);
    zero(&m->param[i]);
    return GRPO_OK;
  }
  return fail(GRPO_EFORMAT, "%s cannot be stored as '%.20s'", m->param[i].name, type);
}

static Status build(Model *m, Compute compute, int ntypes, const char *const *types) {
  if (ntypes != m->nparams)
    return fail(GRPO_EFORMAT, "%d types for %d parameters", ntypes, m->nparams);
  m->compute = compute;
  for (int i = 0; i < m->nparams; i++) {
    if (strcmp(types[i], "f32") != 0) m->storage = STORE_AUTO;
    try(set_type(m, i, types[i]));
  }
  try(model_allocate(m));
  memset(m->weights, 0, m->weight_reals * sizeof *m->weights);
  return GRPO_OK;
}

Status stored_new(Model **out, Pool *pool, const Config *c, Compute compute, int ntypes,
                  const char *const *types) {
  Model *m;
  try(model_layout(&m, pool, c));
  const Status s = build(m, compute, ntypes, types);
  if (s == GRPO_OK)
    *out = m;
  else
    model_release(m);
  return s;
}

/* ---- the trained numbers ------------------------------------------------------------------- */

size_t stored_trained(const Model *m) {
  size_t n = 0;
  for (int i = 0; i < model_num_params(m); i++)
    if (model_trains(m, i)) n += model_param((Model *)(uintptr_t)m, i)->t.n;
  return n;
}

static void move_numbers(Model *m, size_t from, size_t n, float *out, const float *in) {
  for (int i = 0; i < model_num_params(m) && n; i++) {
    if (!model_trains(m, i)) continue;
    const Tensor *t = &model_param(m, i)->t;
    if (from >= t->n) {
      from -= t->n;
      continue;
    }
    const size_t some = min_size(n, t->n - from);
    if (out) memcpy(out, t->data + from, some * sizeof *out), out += some;
    if (in) memcpy(t->data + from, in, some * sizeof *in), in += some;
    n -= some;
    from = 0;
  }
}

void stored_get(const Model *m, size_t from, size_t n, float *out) {
  move_numbers((Model *)(uintptr_t)m, from, n, out, NULL);
}

void stored_set(Model *m, size_t from, size_t n, const float *values) {
  move_numbers(m, from, n, NULL, values);
}
