/* gguf_pre.h - how text is cut, by the names that GGUF files have for it.  Private to src/text.
 *
 * `tokenizer.ggml.pre` names regular expressions that are applied one after the other, each
 * cutting its matches out of what the ones before left.  One table serves both directions.
 */
#ifndef GRPO_TEXT_GGUF_PRE_H
#define GRPO_TEXT_GGUF_PRE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "formats/json.h"

enum { GGUF_PRE_PATTERNS = 4 };

typedef struct GgufPre {
  const char *names; /* separated by spaces; the first one is written */
  const char *pattern[GGUF_PRE_PATTERNS];
  bool ignore_merges; /* a pre-token that is a token is not merged up */
  bool add_bos;       /* unless tokenizer.ggml.add_bos_token says otherwise */
  bool nfc;           /* models with this tokenizer saw text in NFC */
} GgufPre;

const GgufPre *gguf_pre_find(const char *name, size_t n); /* NULL: unknown */
/* What cuts text as this tokenizer.json does.  EFORMAT when no name stands for it. */
Status gguf_pre_of(const Json *tokenizer, const GgufPre **out);
/* The pre_tokenizer component, as JSON. */
void gguf_pre_put_json(Buf *b, const GgufPre *pre);

#endif
