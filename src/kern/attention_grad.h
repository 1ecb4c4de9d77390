/* attention_grad.h - what the ways of computing attention's backward share: attention_grad.c
 * cuts pieces and adds copies, and does a piece in reals; attention_grad_bf16.c does one in
 * words.
 */
#ifndef GRPO_KERN_ATTENTION_GRAD_H
#define GRPO_KERN_ATTENTION_GRAD_H

#include "kern/attention.h"
#include "kern/kernels.h"
#include "kern/kv_impl.h"
#include "kern/scratch.h"

/* Rows from .. to - 1 of a span; where its copies start: per kv head dk then dv, [copied,
 * padded_hd] */
typedef struct Piece {
  const AttnSpan *span;
  int from, to, copied;
  size_t at;
} Piece;

typedef struct Grad {
  const AttnShape *s;
  const AttnSpan *spans;
  bool bf16, tiles;                   /* keys and values are in words; and so is all computed */
  int nspans, group, units, max_keys; /* units: of a tile, whole groups */
  int padded_hd, vd;                  /* of a key in whole groups, of a value */
  const real *q, *o, *lse, *dout;
  ptrdiff_t ldq, ldo, lddo, lddq, lddkv;
  real *dq, *dk, *dv;
  Piece *piece; /* of this wave */
  int npieces;
  int span, row; /* where the next piece starts */
  real *parts;
  Scratch scratch;
} Grad;

/* Own keys that some row of the piece sees, at most. */
static inline int piece_keys(const Grad *g, const Piece *pc) {
  return g->s->bidirectional ? pc->span->n : pc->to;
}

/* Can pieces be done in words?  Units of a tile then, at most; reals of scratch; a piece's kv
 * head. */
bool grad_in_bf16(const AttnShape *s);
int grad_bf16_units(int group);
size_t grad_bf16_size(const Grad *g);
void grad_bf16(const Grad *g, const Piece *pc, int kvh, int worker);

#endif
