/* tokenizer_files.h - loads and saves a tokenizer: the files in a model's directory. */
#ifndef GRPO_TEXT_TOKENIZER_FILES_H
#define GRPO_TEXT_TOKENIZER_FILES_H

#include <stdbool.h>

#include "base/err.h"
#include "text/tokenizer.h"

/* Loads a directory in Hugging Face layout, or a tokenizer.json in one: tokenizer_config.json,
 * special_tokens_map.json, added_tokens.json, chat_template.jinja and the directory
 * additional_chat_templates are read if they lie beside it.
 *
 * `path` may also be a tiktoken rank file, recognised by its content, or a directory that has one
 * instead of a tokenizer.json: "rank_file" of its encoding.json, or tokenizer.model.  The pattern
 * and the special tokens come from encoding.json, {"pattern": regex, "special_tokens": {token:
 * id}}, or else from the number of ranks: 50256 r50k, 50280 p50k, 100256 cl100k, 199998 o200k,
 * 128000 Llama 3.
 *
 * Or `path` is a file that an extension reads (formats/model_format.h). */
Status tokenizer_load(Tokenizer **out, const char *path);
/* True for such a file with a tokenizer, and for a directory with a tokenizer.json. */
bool tokenizer_is_in(const char *path);

/* Writes tokenizer.json, tokenizer_config.json and special_tokens_map.json, and the files of chat
 * templates if there were any, for Hugging Face tokenizers; makes the directory.  Files that were
 * loaded are written back byte for byte. */
Status tokenizer_save(const Tokenizer *t, const char *dir);

#endif
