/* gguf_pre.h - the names that GGUF files have for ways to cut text.
 *
 * `tokenizer.ggml.pre` names regular expressions, which are applied one after the other; each cuts
 * its matches out of the pieces that the earlier ones left.  One table serves reading and writing.
 */
#ifndef GRPO_GGUF_PRE_H
#define GRPO_GGUF_PRE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "formats/json.h"

enum { GGUF_PRE_PATTERNS = 6 };

typedef struct GgufPre {
  const char *names; /* separated by spaces; files are written with the first */
  const char *pattern[GGUF_PRE_PATTERNS];
  bool ignore_merges; /* a pre-token that is a token needs no merges */
  bool add_bos;       /* unless tokenizer.ggml.add_bos_token says otherwise */
  bool nfc;           /* the text is normalized to NFC */
} GgufPre;

const GgufPre *gguf_pre_find(const char *name, size_t n); /* NULL: unknown */
/* Finds the row that cuts text as this tokenizer.json does.  EFORMAT: there is none. */
Status gguf_pre_of(const Json *tokenizer, const GgufPre **out);
/* Appends the pre_tokenizer component as JSON. */
void gguf_pre_put_json(Buf *b, const GgufPre *pre);

#endif
