/* added.h - finds added (special) tokens in text; the leftmost wins, then the longest. */
#ifndef GRPO_TEXT_ADDED_H
#define GRPO_TEXT_ADDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef struct AddedToken {
  const char *text; /* owned, NUL-terminated, not empty */
  size_t len;
  int32_t id;
  bool special, single_word, lstrip, rstrip, normalized;
} AddedToken;

typedef struct AddedSet {
  AddedToken *token; /* [n], sorted by bytes after added_sort() */
  size_t n, cap;
  bool first[256]; /* bytes that some token begins with */
} AddedSet;

typedef struct AddedMatch {
  const AddedToken *token;
  size_t start, end; /* including white space that lstrip and rstrip take */
} AddedMatch;

Status added_put(AddedSet *a, const AddedToken *t);           /* copies the text */
AddedToken *added_get(AddedSet *a, const char *text);         /* linear; NULL: none */
const AddedToken *added_by_id(const AddedSet *a, int32_t id); /* linear; NULL: none */
Status added_respell(AddedSet *a, size_t i, const char *text,
                     size_t n);                    /* n 0: it is never found */
void added_drop(AddedSet *a, const AddedToken *t); /* t, a token of the set, leaves it */
void added_sort(AddedSet *a);
/* Finds the first match in s at or after *from, and sets *from to where the next search starts.
 * `done` is the end of the match before.  If that took white space by rstrip, a match may begin and
 * end before `done`, as in the reference.  Unless `special`, special tokens are passed over. */
bool added_next(const AddedSet *a, const char *s, size_t n, size_t *from, size_t done, bool special,
                AddedMatch *out);
void added_free(AddedSet *a);

#endif
