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
#include "text/tokenizer.h"

bool gguf_tokenizer_is_in(const Gguf *g); /* it says what its tokenizer is */
Status gguf_tokenizer_read(Tokenizer **out, const Gguf *g);

/* tokenizer.ggml.token_type */
enum { GGUF_NORMAL = 1, GGUF_UNKNOWN, GGUF_CONTROL, GGUF_USER_DEFINED, GGUF_UNUSED, GGUF_BYTE };

#endif
