/* tokenizer_make.h - tokenizers of bytes and of characters, which need no training. */
#ifndef GRPO_TEXT_TOKENIZER_MAKE_H
#define GRPO_TEXT_TOKENIZER_MAKE_H

#include <stddef.h>

#include "base/err.h"
#include "text/tokenizer.h"

/* Ids 0..255 are the bytes, 256 is <|endoftext|>, 257 is <|pad|>. */
Status tokenizer_bytes(Tokenizer **out);

/* Each distinct code point of `text` has an id, in ascending order; <|endoftext|> and <|pad|>
 * follow.  Encoding any other character is an error that names it. */
Status tokenizer_chars(Tokenizer **out, const char *text, size_t n);
/* tokenizer_chars() without special tokens, so that only its length ends a completion. */
Status tokenizer_chars_only(Tokenizer **out, const char *text, size_t n);

#endif
