/* tokenizer_mask.h - adds a mask token to a tokenizer. */
#ifndef GRPO_DENOISE_TOKENIZER_MASK_H
#define GRPO_DENOISE_TOKENIZER_MASK_H

#include "base/err.h"
#include "text/tokenizer.h"

/* Makes a copy of t that has `token` as its mask token.  It has one more id at the end, unless t
 * has that token already. */
Status tokenizer_with_mask(Tokenizer **out, const Tokenizer *t, const char *token);

#endif
