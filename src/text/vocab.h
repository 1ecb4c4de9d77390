/* vocab.h - tokens by id and ids by token.
 *
 * A token is a string as it is spelt in the file; its piece is the bytes that it adds to decoded
 * text.  Ids may have gaps: an entry without TOKEN_PRESENT is a gap.
 */
#ifndef GRPO_TEXT_VOCAB_H
#define GRPO_TEXT_VOCAB_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/map.h"

enum { VOCAB_MAX_ID = (1 << 21) - 1, VOCAB_MAX_TOKEN = 1 << 16 /* bytes */ };

enum {
  TOKEN_PRESENT = 1,
  TOKEN_MODEL = 2,   /* in the model's vocabulary, not only an added token */
  TOKEN_SPECIAL = 4, /* dropped by skip_special */
  TOKEN_ADDED = 8,   /* found in the text before the model sees it */
  TOKEN_RESPELT =
      16 /* an added token that the normalizer changes; it is decoded in its changed form */
};

typedef struct VocabEntry {
  uint32_t text, len;        /* in Vocab.text, NUL-terminated */
  uint32_t piece, piece_len; /* in Vocab.pieces */
  unsigned flags;
} VocabEntry;

typedef struct Vocab {
  Buf text, pieces;
  VocabEntry *entry; /* [size] by id */
  int32_t size, cap; /* highest id + 1; room in `entry` */
  Map ids;           /* by map_hash() of the token's text */
} Vocab;

/* EFORMAT: the id or the token is taken; ELIMIT: past the limits above. */
Status vocab_add(Vocab *v, const char *token, size_t n, int64_t id, unsigned flags);
int32_t vocab_find(const Vocab *v, const char *token, size_t n); /* -1: none */
const VocabEntry *vocab_entry(const Vocab *v, int32_t id);       /* NULL: none */
const char *vocab_text(const Vocab *v, int32_t id);              /* "" when there is none */
void vocab_free(Vocab *v);

#endif
