/* replay.h - a forward's results kept row by row, and taken by a later forward over the same rows.
 *
 * Forwards are row-invariant (kern.h): what an operation gives for a row while decoding is, bit for
 * bit, what it gives for that row in training.  With a Replay on a tape, the operations that are
 * worth it (OpDef.replay: products and attention) either put their results for each row into a
 * store, or take them from there instead of computing.  All others compute as always.
 *
 * Both forwards run the same operations in the same order: an operation's place in the store is what
 * those before it have taken.  The store checks that, and its owner answers for the rest: the same
 * weights, and rows that were kept before they are taken.
 */
#ifndef GRPO_GRAD_REPLAY_H
#define GRPO_GRAD_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "grad/ops.h"

/* What an operation says about itself. */
typedef struct OpReplay {
  /* reals a row that stand at the beginning of `saved`, [rows, that many], and are kept beside the
   * result; NULL: none */
  int (*saved)(const Node *nd);
  /* Makes the rest of `saved`, once the result and what was kept are back; NULL: nothing to do. */
  Status (*rebuild)(const Ctx *cx, Node *nd);
} OpReplay;

typedef struct ReplayStore {
  real *data; /* [columns, rows], an operation's columns side by side: [rows, width] */
  size_t rows, columns;
  uint64_t operations; /* of the forwards that were kept; 0: none yet */
} ReplayStore;

/* Rows row .. row + n - 1 of a forward are rows at .. of the store. */
typedef struct ReplayRun {
  int row, n;
  size_t at;
} ReplayRun;

typedef struct Replay {
  ReplayStore *store;
  bool take; /* else keep */
  int nruns;
  const ReplayRun *run; /* they cover the forward's rows */
  size_t column;        /* the next operation's */
  uint64_t operations;  /* those so far */
} Replay;

void replay_begin(Replay *r); /* a forward starts */
Status replay_end(Replay *r); /* EARG when its operations were not those of the store */

/* For the tape: keep what a node has computed, or take its results in place of computing.  ELIMIT
 * when the store is too narrow. */
Status replay_keep(const Ctx *cx, Replay *r, const Node *nd);
Status replay_take(const Ctx *cx, Replay *r, Node *nd);

#endif
