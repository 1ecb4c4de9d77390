/* masked.h - sequences that the model sees both ways, and what it predicts at some of their places.
 *
 * A token predicts its own place: where the input holds a mask, what belongs there.
 */
#ifndef GRPO_MODEL_MASKED_H
#define GRPO_MODEL_MASKED_H

#include "grad/tape.h"
#include "model/model.h"
#include "model/pack.h"

typedef struct MaskedSequence {
  const int32_t *ids; /* at least 1 token */
  int len;
} MaskedSequence;

/* One pack of n sequences in arena memory; rows [nout] count the tokens of all of them, targets
 * [nout] is what belongs there (NULL: not known).  Both are borrowed.  Errors as of pack_groups,
 * a sequence being a group. */
Status masked_pack(Arena *a, const Config *c, int n, const MaskedSequence *seq, int nout,
                   const int32_t *rows, const int32_t *targets, Pack *out);

/* The logits of outputs first .. first + n - 1; they may be changed. */
typedef void (*LogitsFn)(void *user, int first, int n, real *logits /* [n, vocab_size] */);
/* A forward without gradients; every output is visited once, in order, some at a time. */
Status masked_logits(Model *m, Tape *t, const Pack *p, LogitsFn visit, void *user);

#endif
