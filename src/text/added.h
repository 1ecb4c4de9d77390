/* added.h - finding added (special) tokens in text: leftmost, then longest. */
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
  AddedToken *token; /* [n], sorted by bytes once added_sort() ran */
  size_t n, cap;
  bool first[256]; /* bytes that some token begins with */
} AddedSet;

typedef struct AddedMatch {
  const AddedToken *token;
  size_t start, end; /* white space swallowed by lstrip and rstrip included */
} AddedMatch;

Status added_put(AddedSet *a, const AddedToken *t);                      /* copies the text */
AddedToken *added_get(AddedSet *a, const char *text);                    /* linear; NULL: none */
const AddedToken *added_by_id(const AddedSet *a, int32_t id);            /* linear; NULL: none */
Status added_respell(AddedSet *a, size_t i, const char *text, size_t n); /* n 0: never found */
void added_sort(AddedSet *a);
/* The first match in s at or after *from (a scan position that it moves on), not
 * before `done`, the end of the match before.  Special ones are passed over when !special. */
bool added_next(const AddedSet *a, const char *s, size_t n, size_t *from, size_t done, bool special,
                AddedMatch *out);
void added_free(AddedSet *a);

#endif
