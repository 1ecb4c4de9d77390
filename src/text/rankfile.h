/* rankfile.h - makes a tokenizer.json of tiktoken's rank files.  Private to src/text.
 *
 * Each line of a rank file holds the base64 of a token's bytes, a space and the token's rank.  The
 * ids are the ranks, and the neighbours whose join has the lowest rank are merged first.  The
 * pattern that cuts text and the special tokens are not in the file: they come from an
 * encoding.json beside it, {"pattern": regex, "special_tokens": {token: id}}, or from the number
 * of ranks, which identifies r50k_base, p50k_base, cl100k_base, o200k_base and Llama 3.
 */
#ifndef GRPO_TEXT_RANKFILE_H
#define GRPO_TEXT_RANKFILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "text/tokenizer.h"

bool rankfile_is(const char *text, size_t n); /* true if the text begins like one */
/* `encoding` is the text of encoding.json, or empty. */
Status rankfile_build(Tokenizer **out, const Buf *ranks, const Buf *encoding, const char *what);

#endif
