/* gguf_tokenizer_write.h - writes a tokenizer into the metadata of a GGUF file.
 *
 * It writes tokenizer.ggml.*, which other programs read, and tokenizer.huggingface.json, so that
 * nothing is lost when the file is read again.  A tokenizer that tokenizer.ggml.* cannot describe
 * is refused.
 */
#ifndef GRPO_GGUF_TOKENIZER_WRITE_H
#define GRPO_GGUF_TOKENIZER_WRITE_H

#include <stdint.h>

#include "base/err.h"
#include "gguf/gguf_write.h"
#include "text/tokenizer.h"

/* `rows` of the model's embedding: ids without a token are written as [PADn].  bos, eos and pad of
 * the model's configuration are used if the tokenizer has none (-1: none). */
typedef struct GgufTokens {
  int32_t rows, bos, eos, pad;
} GgufTokens;
Status gguf_tokenizer_write(const Tokenizer *t, const GgufTokens *model, GgufMeta *out);

#endif
