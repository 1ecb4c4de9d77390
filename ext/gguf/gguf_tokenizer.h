/* gguf_tokenizer.h - reads a tokenizer from the metadata of a GGUF file.
 *
 * If the key `tokenizer.huggingface.json` exists, its value is the tokenizer.json.  Otherwise that
 * is made from tokenizer.ggml.*: model "gpt2" (byte-level BPE, cut as tokenizer.ggml.pre says) or
 * "llama" (SentencePiece's BPE by scores, with byte fallback).  Other models and unknown names of
 * pre-tokenizers are refused by name.
 */
#ifndef GRPO_GGUF_TOKENIZER_H
#define GRPO_GGUF_TOKENIZER_H

#include "gguf/gguf.h"
#include "text/tokenizer.h"

bool gguf_tokenizer_is_in(const Gguf *g); /* true if the file describes a tokenizer */
Status gguf_tokenizer_read(Tokenizer **out, const Gguf *g);

/* tokenizer.ggml.token_type */
enum { GGUF_NORMAL = 1, GGUF_UNKNOWN, GGUF_CONTROL, GGUF_USER_DEFINED, GGUF_UNUSED, GGUF_BYTE };

#endif
