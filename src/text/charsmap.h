/* charsmap.h - SentencePiece's table of replacements, the normalizer Precompiled.  Private to
 * src/text.
 *
 * The table is the size of a trie in bytes (32 bits, little-endian), the trie, and the texts that
 * its leaves point to, each ended by NUL.  The trie is Darts' double array: the unit of a child is
 * at the parent's position, moved by the parent's offset and the byte, each by exclusive or.
 */
#ifndef GRPO_TEXT_CHARSMAP_H
#define GRPO_TEXT_CHARSMAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

typedef struct Charsmap {
  Buf bytes;        /* the table */
  size_t nunit;     /* of the trie */
  const char *text; /* [ntext] in `bytes`: the replacements */
  size_t ntext;
} Charsmap;

/* Reads the table, in base64.  What its trie points to is checked when it is used. */
Status charsmap_read(Charsmap *m, const char *base64);
/* Appends s, valid UTF-8, with its replacements.  As in the library tokenizers, a grapheme cluster
 * of up to 5 bytes that begins with a key of the table becomes the text of the shortest such key;
 * of any other cluster, each character that begins with one does.  EFORMAT: the trie points outside
 * the table; ELIMIT: `out` gets longer than `longest`. */
Status charsmap_put(const Charsmap *m, const char *s, size_t n, size_t longest, Buf *out);
void charsmap_free(Charsmap *m);

#endif
