#include "model/param.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/by_name.h"
#include "base/mem.h"
#include "kern/gemm.h"

enum { ALIGN_REALS = 16, BLOCK_REALS = 1 << 20 };

size_t param_padded(size_t n) { return (n + ALIGN_REALS - 1) / ALIGN_REALS * ALIGN_REALS; }

static const char experts_word[] = ".experts.", granite_word[] = ".block_sparse_moe.";

void param_stack_name(const Param *p, char *name) {
  const char *at = strstr(p->name, experts_word);
  const char *rest = at ? strchr(at + sizeof experts_word - 1, '.') : NULL;
  const int word = strstr(p->name, granite_word) ? 0 : (int)sizeof experts_word - 2;
  snprintf(name, PARAM_NAME_BYTES, "%.*s%s", rest ? (int)(at - p->name) + word : 0, p->name,
           rest ? rest : p->name);
}

bool param_first_of_stack(const char *stack, char *name) {
  const bool granite = strstr(stack, granite_word) != NULL;
  const char *word = granite ? granite_word : experts_word, *at = strstr(stack, word);
  if (!at) return false;
  at += strlen(word);
  return snprintf(name, PARAM_NAME_BYTES, "%.*s%s0.%s", (int)(at - stack), stack,
                  granite ? experts_word + 1 : "", at) < PARAM_NAME_BYTES;
}

void param_outputs_inputs(const Param *p, int *n, int *k) {
  *n = p->t.dim[p->in_out ? 1 : 0];
  *k = p->t.dim[p->in_out ? 0 : 1];
}

/* There is room for whole panels, because quant_pack_in_place may make them there. */
size_t param_room(const Param *p) {
  int n, k;
  if (p->t.ndim != 2 || p->by_head) return param_padded(p->t.n);
  param_outputs_inputs(p, &n, &k);
  return param_padded(gemm_packed_size(n, k));
}

/* ---- storage ----------------------------------------------------------------------------- */

const char *param_storage_name(Storage s) {
  static const char *const names[] = {"f32", "auto", "bf16", "int8", "nf4"};
  return names[s];
}

QuantType param_storage_type(Storage s, bool projection, QuantType stored) {
  if (s == STORE_INT8 && projection) return QUANT_INT8;
  if (s == STORE_NF4 && projection) return QUANT_NF4;
  return s == STORE_BF16 ? QUANT_BF16 : stored;
}

/* ---- values ------------------------------------------------------------------------------ */

int param_block_rows(int n, int k) {
  const int rows = BLOCK_REALS / k / 64 * 64, most = rows < 64 ? 64 : rows;
  return n < most ? n : most;
}

void param_put_columns(const real *w, int rows, int k, int at, int n, real *out) {
  for (int i = 0; i < rows; i++)
    for (int p = 0; p < k; p++)
      out[(size_t)p * (size_t)n + (size_t)(at + i)] = w[(size_t)i * (size_t)k + (size_t)p];
}

void param_rows(const Ctx *cx, const Param *p, int row, int rows, real *out) {
  int n, k;
  param_outputs_inputs(p, &n, &k);
  if (p->t.quant) {
    quant_get(cx, p->t.quant, row, rows, out);
  } else if (!p->in_out) {
    memcpy(out, p->t.data + (size_t)row * (size_t)k, (size_t)rows * (size_t)k * sizeof *out);
  } else {
    for (int c = 0; c < k; c++)
      for (int i = 0; i < rows; i++)
        out[(size_t)i * (size_t)k + (size_t)c] =
            p->t.data[(size_t)c * (size_t)n + (size_t)(row + i)];
  }
}

Status param_values(const Ctx *cx, const Param *p, real *out) {
  const QuantWeight *quant = p->t.quant;
  if (!quant) {
    memcpy(out, p->t.data, p->t.n * sizeof *out);
    return GRPO_OK;
  }
  if (!p->in_out) {
    quant_get(cx, quant, 0, quant->n, out);
    return GRPO_OK;
  }
  const int most = param_block_rows(quant->n, quant->k);
  real *w = mem_alloc_aligned((size_t)most * (size_t)quant->k * sizeof *w);
  if (!w) return fail(GRPO_ENOMEM, "%s: no memory for %d rows", p->name, most);
  for (int row = 0; row < quant->n; row += most) {
    const int rows = quant->n - row < most ? quant->n - row : most;
    quant_get(cx, quant, row, rows, w);
    param_put_columns(w, rows, quant->k, row, quant->n, out);
  }
  mem_free_aligned(w);
  return GRPO_OK;
}

bool param_is_finite(const Ctx *cx, const Param *p) {
  real *x = mem_alloc_aligned(p->t.n * sizeof *x);
  size_t i = 0;
  if (!x) return true;
  if (param_values(cx, p, x) != GRPO_OK) i = p->t.n;
  while (i < p->t.n && isfinite((double)x[i])) i++;
  mem_free_aligned(x);
  return i == p->t.n;
}

Status param_set(const Ctx *cx, Param *p, const real *values) {
  QuantWeight *quant = (QuantWeight *)(uintptr_t)p->t.quant;
  if (quant && !quant->borrowed)
    return fail(GRPO_EARG, "%s is quantised and cannot be set", p->name);
  if (quant) return quant_put(cx, quant, 0, quant->n, values);
  memcpy(p->t.data, values, p->t.n * sizeof *values);
  return GRPO_OK;
}

/* ---- names ------------------------------------------------------------------------------- */

void param_names_sort(NameRef *refs, const Param *param, int n) {
  for (int i = 0; i < n; i++) refs[i] = (NameRef){param[i].name, i};
  qsort(refs, (size_t)n, sizeof *refs, by_name);
}

int param_names_find(const NameRef *refs, int n, const char *name) {
  const NameRef key = {name, 0};
  const NameRef *r = bsearch(&key, refs, (size_t)n, sizeof key, by_name);
  return r ? r->index : -1;
}
