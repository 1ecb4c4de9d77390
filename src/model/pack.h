/* pack.h - a packed batch of rows, which one training forward works on.
 *
 * Rows are tokens.  A group is laid out as prompt, completion 1, ... completion G.  The last token
 * of a completion predicts nothing and is not a row.  Outputs are the completions' tokens, in
 * order.  A critic also wants a value of the state after the last token: `end_below` makes that
 * token a row.
 */
#ifndef GRPO_MODEL_PACK_H
#define GRPO_MODEL_PACK_H

#include "base/arena.h"
#include "base/rng.h"
#include "grad/attrs.h"
#include "grad/replay.h"
#include "model/config.h"

typedef struct Pack {
  int nrows;
  const int32_t *ids, *pos; /* [nrows]; pos: logical */
  /* [nrows] the most tokens that the row's sequence can have, from which longrope's factors follow;
   * NULL: nrows */
  const int32_t *length;
  const int32_t *sequences; /* [nrows] that have the row in common; NULL: 1 */
  int nspans;
  const PackSpan *spans;
  int nout;
  const int32_t *out_rows; /* [nout] the row that predicts output i */
  const int32_t *targets;  /* [nout] */
  const uint32_t *const
      *token_sets; /* [nout] the tokens that were not filtered out (attrs.h); or NULL */
  /* With end_below: the states that a critic judges, before each token of a completion, and after
   * the last one where that is a row. */
  int nvalues;
  const int32_t *value_rows; /* [nvalues], completion after completion */
  /* An adapter's dropout is on: seed, step and prompt (the unit) are the caller's, sample holds the
   * iteration.  NULL: off. */
  const RngKey *dropout;
  /* The gradient sent back through forward_logp does not depend on its result: one product with the
   * output projection is saved, and backward fills the result in (attrs.h). */
  bool one_pass;
  ReferenceRows ref_rows;       /* a reference that looks at the token before only */
  const Divergence *divergence; /* from the reference (attrs.h) */
  /* Results of these rows that were recorded while decoding; NULL: none.  Not with gradient
   * checkpointing. */
  Replay *replay;
  bool bidirectional;      /* a token sees the rest of its span too; excludes replay */
  struct Balance *balance; /* counts what routers choose (balance.h); NULL: nobody does */
} Pack;

typedef struct PackGroup {
  const int32_t *prompt; /* at least 1 token */
  int prompt_len;
  int n; /* completions; each at least 1 token */
  const int32_t *const *completion;
  const int *completion_len;
  int end_below; /* the last token of a shorter completion is a row too; 0: of none */
  int longest;   /* the most tokens that a sequence could have had; 0: the longest one's */
} PackGroup;

/* One pack of several groups, in arena memory.  Refuses ids outside the vocabulary and sequences
 * past max_position_embeddings, naming the group. */
Status pack_groups(Arena *a, const Config *c, int ngroups, const PackGroup *groups, Pack *out);

#endif
