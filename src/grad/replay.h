/* replay.h - recording a forward's results row by row, for a later forward over the same rows.
 *
 * Forwards are row-invariant (kern.h): an operation computes the same bits for a row while
 * decoding and in training.  With a Replay on a tape, the operations that are worth it
 * (OpDef.replay: products and attention) either record their results for each row in a store, or
 * take them from there instead of computing.  All others compute as always.
 *
 * Both forwards must run the same operations in the same order, because an operation's columns
 * in the store follow those of the operation before it.  The store checks this.  Its owner
 * guarantees that the weights are the same and that rows are recorded before they are taken.
 */
#ifndef GRPO_GRAD_REPLAY_H
#define GRPO_GRAD_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "grad/ops.h"

/* How an operation is recorded. */
typedef struct OpReplay {
  /* How many reals a row at the beginning of `saved`, [rows, n], are recorded beside the result;
   * NULL: none. */
  int (*saved)(const Node *nd);
  /* Computes the rest of `saved` once the recorded parts are back; NULL: there is none. */
  Status (*rebuild)(const Ctx *cx, Node *nd);
} OpReplay;

typedef struct ReplayStore {
  real *data; /* [columns, rows], an operation's columns side by side: [rows, width] */
  size_t rows, columns;
  uint64_t operations; /* of the recorded forwards; 0: none yet */
} ReplayStore;

/* Rows row .. row + n - 1 of a forward are rows at .. of the store. */
typedef struct ReplayRun {
  int row, n;
  size_t at;
} ReplayRun;

typedef struct Replay {
  ReplayStore *store;
  bool take; /* take results from the store; false: record them */
  int nruns;
  const ReplayRun *run; /* they cover the forward's rows */
  size_t column;        /* the next operation's */
  uint64_t operations;  /* those so far */
} Replay;

void replay_begin(Replay *r); /* a forward starts */
Status replay_end(Replay *r); /* EARG when its operations were not those of the store */

/* For the tape: records what a node has computed, or takes its results instead of computing.
 * ELIMIT when the store has too few columns. */
Status replay_record(const Ctx *cx, Replay *r, const Node *nd);
Status replay_take(const Ctx *cx, Replay *r, Node *nd);

#endif
