/* tokenizer_mask.h - adds a mask token to a tokenizer. */
#ifndef GRPO_TEXT_TOKENIZER_MASK_H
#define GRPO_TEXT_TOKENIZER_MASK_H

#include "base/err.h"
#include "text/tokenizer.h"

/* The same tokenizer with `token` as its mask token: one id more at the end, unless there is such a
 * token already. */
Status tokenizer_with_mask(Tokenizer **out, const Tokenizer *t, const char *token);

#endif
