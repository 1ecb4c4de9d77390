/* tokenizer_files.h - loads and saves a tokenizer: the files in a model's directory. */
#ifndef GRPO_TEXT_TOKENIZER_FILES_H
#define GRPO_TEXT_TOKENIZER_FILES_H

#include <stdbool.h>

#include "base/err.h"
#include "text/tokenizer.h"

/* `path`: a directory in Hugging Face layout, or a tokenizer.json in one.  Beside it
 * tokenizer_config.json, special_tokens_map.json and chat_template.jinja are read when there.
 * Or a tiktoken rank file, known by its content (a directory without a tokenizer.json may hold
 * one: encoding.json's "rank_file", or tokenizer.model).  Regex and special tokens come from
 * encoding.json beside it, {"pattern": regex, "special_tokens": {token: id}}, or else from the
 * number of ranks: 50256 r50k, 50280 p50k, 100256 cl100k, 199998 o200k, 128000 Llama 3.
 * Or a GGUF file (gguf_tokenizer.h). */
Status tokenizer_load(Tokenizer **out, const char *path);
/* A GGUF file that has one, a directory with a tokenizer.json. */
bool tokenizer_is_in(const char *path);

/* Writes tokenizer.json, tokenizer_config.json, special_tokens_map.json (and chat_template.jinja
 * if it came in one), readable by Hugging Face tokenizers; makes the directory.  Files that
 * were loaded are written back byte for byte. */
Status tokenizer_save(const Tokenizer *t, const char *dir);

#endif
