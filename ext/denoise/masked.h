/* masked.h - sequences that the model sees in both directions, and its predictions for masks in
 * them.
 *
 * An output predicts the token of its own row: where the input holds a mask, the token that belongs
 * there.
 */
#ifndef GRPO_DENOISE_MASKED_H
#define GRPO_DENOISE_MASKED_H

#include "grad/tape.h"
#include "model/model.h"
#include "model/pack.h"

typedef struct MaskedSequence {
  const int32_t *ids; /* at least 1 token */
  int len;
} MaskedSequence;

/* One pack of n sequences in arena memory.  rows [nout] are the outputs, counted over the tokens of
 * all sequences; targets [nout] are the tokens that belong there (NULL: not known).  Both are
 * borrowed.  Errors are those of pack_groups, where a sequence is a group. */
Status masked_pack(Arena *a, const Config *c, int n, const MaskedSequence *seq, int nout,
                   const int32_t *rows, const int32_t *targets, Pack *out);

/* Receives the logits of outputs first .. first + n - 1, and may change them. */
typedef void (*LogitsFn)(void *user, int first, int n, real *logits /* [n, vocab_size] */);
/* Runs a forward without gradients; every output is visited once, in order, some at a time. */
Status masked_logits(Model *m, Tape *t, const Pack *p, LogitsFn visit, void *user);

#endif
