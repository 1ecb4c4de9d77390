/* gguf_tokenizer_write.h - puts a tokenizer into the metadata of a GGUF file. */
#ifndef GRPO_TEXT_GGUF_TOKENIZER_WRITE_H
#define GRPO_TEXT_GGUF_TOKENIZER_WRITE_H

#include <stdint.h>

#include "base/err.h"
#include "formats/gguf_write.h"
#include "text/tokenizer.h"

/* `rows`: of the model's embedding; ids without a token become [PADn].  bos, eos, pad: what the
 * model's configuration says, for a tokenizer that has none (-1: none). */
typedef struct GgufTokens {
  int32_t rows, bos, eos, pad;
} GgufTokens;
Status gguf_tokenizer_write(const Tokenizer *t, const GgufTokens *model, GgufMeta *out);

#endif
