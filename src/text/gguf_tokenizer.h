/* gguf_tokenizer.h - tokenizers out of and into the metadata of GGUF files.
 *
 * Reading: `tokenizer.huggingface.json`, where there is one, is the tokenizer.json.  Otherwise it
 * is made from tokenizer.ggml.*: model "gpt2" (byte-level BPE, cut as tokenizer.ggml.pre says) or
 * "llama" (SentencePiece's BPE by scores, with byte fallback).  Other models and unknown names of
 * pre-tokenizers are refused by name.
 *
 * Writing: both forms, so that other programs have what they look for and nothing is lost on the
 * way back.  A tokenizer that tokenizer.ggml.* cannot describe is refused.
 */
#ifndef GRPO_TEXT_GGUF_TOKENIZER_H
#define GRPO_TEXT_GGUF_TOKENIZER_H

#include "formats/gguf.h"
#include "formats/gguf_write.h"
#include "text/tokenizer.h"

bool tokenizer_in_gguf(const Gguf *g); /* it says what its tokenizer is */
Status tokenizer_from_gguf(Tokenizer **out, const Gguf *g);

/* `rows`: of the model's embedding; ids without a token become [PADn].  bos, eos, pad: what the
 * model's configuration says, for a tokenizer that has none (-1: none). */
typedef struct GgufTokens {
  int32_t rows, bos, eos, pad;
} GgufTokens;
Status tokenizer_put_gguf(const Tokenizer *t, const GgufTokens *model, GgufMeta *out);

/* tokenizer.ggml.token_type */
enum { GGUF_NORMAL = 1, GGUF_UNKNOWN, GGUF_CONTROL, GGUF_USER_DEFINED, GGUF_UNUSED, GGUF_BYTE };

#endif
