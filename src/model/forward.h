/* forward.h - the forward pass of a model, in training and in decoding. */
#ifndef GRPO_MODEL_FORWARD_H
#define GRPO_MODEL_FORWARD_H

#include "grad/tape.h"
#include "kern/attention.h"
#include "model/model.h"
#include "model/pack.h"

/* The rows of one forward.  Training: `pack` spans.  Decoding: rows continue sequences whose keys
 * and values are in cache segments; span[i].own and .prefix point at layer 0's segment, and the
 * next layer's segment is the next in memory. */
typedef struct Rows {
  int n;
  const int32_t *ids, *pos; /* [n] */
  const int32_t *length;    /* [n] as in Pack; NULL: n */
  int npack;
  const PackSpan *pack; /* NULL: decoding */
  int nspans;
  AttnSpan *spans;       /* moved on to the next layer after each */
  const RngKey *dropout; /* this and the next two as in Pack */
  Replay *replay;
  bool bidirectional;
} Rows;

/* The residual stream after the last layer, before the final norm: [n, hidden_size]. */
Status forward_layers(Model *m, Tape *t, const Rows *r, Tensor **out);
Status forward_final_norm(Model *m, Tape *t, Tensor *x, Tensor **out);
/* Training: hidden [nrows, hidden_size] after the final norm. */
Status forward_hidden(Model *m, Tape *t, const Pack *p, Tensor **hidden);

#endif
