/* completion_bytes.h - the results of sampling a completion as bytes, for processes that share a
 * batch.  Equal results are equal bytes. */
#ifndef GRPO_RL_COMPLETION_BYTES_H
#define GRPO_RL_COMPLETION_BYTES_H

#include "base/buf.h"
#include "model/decode.h"

/* target_len: of the prompt's target, as in Request. */
void completion_put(Buf *to, Completion *c, int target_len);

/* The completions that there can be. */
typedef struct CompletionLimits {
  int vocab, max_new;
  int target_len;
} CompletionLimits;

/* Reads the completion at *at, which moves behind it, into the arrays of c.  EFORMAT: the bytes end
 * before, or no model within these limits samples such a completion; c then has no tokens. */
Status completion_take(const char **at, const char *end, const CompletionLimits *l, Completion *c);

#endif
