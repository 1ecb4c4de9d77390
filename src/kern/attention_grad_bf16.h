/* attention_grad_bf16.h - attention's backward of a piece in bf16.
 *
 * attention_grad.c cuts spans into pieces, adds up their results, and computes a piece in float32.
 */
#ifndef GRPO_KERN_ATTENTION_GRAD_BF16_H
#define GRPO_KERN_ATTENTION_GRAD_BF16_H

#include "kern/dispatch.h"
#include "kern/kernels.h"
#include "kern/kv_impl.h"
#include "kern/scratch.h"

/* Rows from .. to - 1 of a span.  `at`: where its partial dk and dv start, [copied, padded_hd]
 * each, per kv head. */
typedef struct Piece {
  const AttnSpan *span;
  int from, to, copied;
  size_t at;
} Piece;

typedef struct Grad {
  const KernelClass *cpu;
  const AttnShape *s;
  const AttnSpan *spans;
  /* bf16: segments hold bf16 pairs; tiles: pieces are computed in bf16 */
  bool bf16, tiles;
  int nspans, group, units, max_keys; /* units of a tile, in whole groups */
  int padded_hd, vd;                  /* channels of a key, in whole groups; of a value */
  const real *q, *o, *lse, *dout;
  ptrdiff_t ldq, ldo, lddo, lddq, lddkv;
  real *dq, *dk, *dv;
  Piece *piece; /* the pieces of this wave */
  int npieces;
  int span, row; /* where the next piece starts */
  real *parts;
  Scratch scratch;
} Grad;

/* The number of own keys that some row of the piece sees, at most. */
static inline int piece_keys(const Grad *g, const Piece *pc) {
  return g->s->bidirectional ? pc->span->n : pc->to;
}

/* Can pieces be computed in bf16?  Then: the units of a tile at most, the reals of scratch, and one
 * kv head of a piece. */
bool grad_in_bf16(const AttnShape *s);
int grad_bf16_units(int group);
size_t grad_bf16_size(const Grad *g);
void grad_bf16(const Grad *g, const Piece *pc, int kvh, int worker);

#endif
