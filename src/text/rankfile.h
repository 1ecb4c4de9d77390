/* rankfile.h - tiktoken's rank files, turned into the tokenizer.json they amount to.
 * Private to src/text.
 *
 * A rank file has lines "base64 of a token's bytes, space, rank"; the ids are the ranks,
 * and of two neighbours those merge first whose join has the lowest rank.  How text is cut
 * and which special tokens there are is not in it: that comes from an encoding.json beside
 * it ({"pattern": regex, "special_tokens": {token: id}}), or from the number of ranks, by
 * which r50k_base, p50k_base, cl100k_base, o200k_base and Llama 3 are known.
 */
#ifndef GRPO_TEXT_RANKFILE_H
#define GRPO_TEXT_RANKFILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "text/tokenizer.h"

bool rankfile_is(const char *text, size_t n); /* it begins as one */
/* `encoding`: the text of encoding.json; empty when there is none. */
Status rankfile_build(Tokenizer **out, const Buf *ranks, const Buf *encoding, const char *what);

#endif
