/* attention.h - attention of packed sequences that share a prefix. */
#ifndef GRPO_KERN_ATTENTION_H
#define GRPO_KERN_ATTENTION_H

#include "base/err.h"
#include "base/minmax.h"
#include "kern/kv.h"

/* A run of consecutive query rows that sees the whole prefix segment and its own segment,
 * causally or (AttnShape.bidirectional) whole. */
typedef struct AttnSpan {
  const KvSeg *prefix; /* NULL: none */
  const KvSeg *own;    /* query i sees own keys 0 .. own_at + i, or all */
  int row, n;          /* query rows row .. row + n - 1 of q and o */
  /* Own keys before this span's first row.  Row i has the logical position
   * (prefix ? prefix->len : 0) + own_at + i. */
  int own_at;
} AttnSpan;

/* The keys [lo, hi) that position pos sees of a sequence of `keys`. */
static inline void attn_sees(const AttnShape *s, int pos, int keys, int *lo, int *hi) {
  const int w = s->window;
  *lo = w > 0 ? max_int(0, pos - w + 1) : 0;
  *hi = !s->bidirectional ? pos + 1 : w > 0 && w < keys - pos ? pos + w : keys;
}

/* o[rows, heads * attn_value_dim]; lse[rows, heads] = log sum exp of the scaled scores, or NULL.
 * Row-invariant. */
Status attn_forward(const Ctx *cx, const AttnShape *s, int nspans, const AttnSpan *spans,
                    const real *q, int ldq, real *o, int ldo, real *lse);
/* Gradients for training spans, whose segments have row0 >= 0 and own_at == 0.  dq, dk and dv
 * are added to; any may be NULL.  With v_dim dk and dv may be one array, which gets what keys
 * get in both roles. */
Status attn_backward(const Ctx *cx, const AttnShape *s, int nspans, const AttnSpan *spans,
                     const real *q, int ldq, const real *o, int ldo, const real *lse,
                     const real *dout, int lddo, real *dq, int lddq, real *dk, real *dv, int lddkv);

#endif
