/* pipeline.h - reads a tokenizer.json into a Tokenizer.  Private to src/text. */
#ifndef GRPO_TEXT_PIPELINE_H
#define GRPO_TEXT_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "formats/json.h"
#include "text/tokenizer.h"

/* Fails, naming the component, if tokenizer.json holds one that is not supported. */
Status pipeline_read(Tokenizer *t, const Json *root);

/* Adds an entry of added_tokens or added_tokens_decoder, or changes the entry of that text: the
 * members of `flags` (may be NULL) override what it has.  `special` makes it a special token in
 * any case. */
Status pipeline_add_token(Tokenizer *t, int64_t id, const char *content, const Json *flags,
                          bool special);

/* Once all tokens are added: normalizes the text of those that are found in normalized text, and
 * sorts them. */
Status pipeline_finish_added(Tokenizer *t);

#endif
