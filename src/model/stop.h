/* stop.h - does a completion's text end it?
 *
 * The text is the tokens' bytes, special tokens included.  A stop string can only end inside the
 * newest token, so only that much text is searched; a pattern is tried on the whole text, within
 * the limits of regex.h.
 */
#ifndef GRPO_MODEL_STOP_H
#define GRPO_MODEL_STOP_H

#include "base/err.h"
#include "model/sampler.h"
#include "text/tokenizer.h"

typedef struct StopText {
  const Tokenizer *tok; /* NULL: stops cannot be used */
  size_t longest_piece;
  char *text; /* [max_new_tokens * longest_piece] */
} StopText;

Status stop_init(StopText *t, const Tokenizer *tok, int max_new_tokens);
void stop_free(StopText *t);                             /* a zeroed one is fine */
Status stop_check(const StopText *t, const Sampling *s); /* may these stops be used? */
/* *hit: ids[len - 1], the newest token, completes a stop. */
Status stop_reached(const StopText *t, const Sampling *s, const int32_t *ids, int len, bool *hit);

#endif
