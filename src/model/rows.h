/* rows.h - the rows that a forward pass runs over. */
#ifndef GRPO_MODEL_ROWS_H
#define GRPO_MODEL_ROWS_H

#include "grad/replay.h"
#include "kern/attention.h"
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
  const RngKey *dropout; /* this and what follows as in Pack */
  Replay *replay;
  bool bidirectional;
  struct Balance *balance;
} Rows;

#endif
