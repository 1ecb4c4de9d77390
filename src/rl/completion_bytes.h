/* completion_bytes.h - the results of sampling a completion as bytes, for processes that share a
 * batch.  Equal results are equal bytes. */
#ifndef GRPO_RL_COMPLETION_BYTES_H
#define GRPO_RL_COMPLETION_BYTES_H

#include "base/buf.h"
#include "model/decode.h"

/* target_len: of the prompt's target, as in Request. */
void completion_put(Buf *to, Completion *c, int target_len);

/* Reads the completion at *at, which moves behind it, into the arrays of c, which have room for
 * max_new tokens.  EFORMAT: the bytes end before, or there is no room; c then has no tokens. */
Status completion_take(const char **at, const char *end, int max_new, int target_len,
                       Completion *c);

#endif
