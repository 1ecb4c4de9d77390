#include "text/added.h"

#include <stdlib.h>
#include <string.h>

#include "base/by_name.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "text/unicode.h"

enum { MAX_ADDED = 1 << 15 };

Status added_put(AddedSet *a, const AddedToken *t) {
  if (a->n == MAX_ADDED) return fail(GRPO_ELIMIT, "more than %d added tokens", MAX_ADDED);
  if (a->n == a->cap) {
    size_t cap = a->cap ? 2 * a->cap : 8;
    AddedToken *p = mem_realloc(a->token, cap * sizeof *p);
    if (!p) return fail(GRPO_ENOMEM, "%zu added tokens", cap);
    a->token = p;
    a->cap = cap;
  }
  AddedToken copy = *t;
  copy.text = mem_strndup(t->text, t->len);
  if (!copy.text) return fail(GRPO_ENOMEM, "added token");
  a->first[(unsigned char)t->text[0]] = true;
  a->token[a->n++] = copy;
  return GRPO_OK;
}

AddedToken *added_get(AddedSet *a, const char *text) {
  for (size_t i = 0; i < a->n; i++)
    if (strcmp(a->token[i].text, text) == 0) return &a->token[i];
  return NULL;
}

const AddedToken *added_by_id(const AddedSet *a, int32_t id) {
  for (size_t i = 0; i < a->n; i++)
    if (a->token[i].id == id) return &a->token[i];
  return NULL;
}

Status added_respell(AddedSet *a, size_t i, const char *text, size_t n) {
  char *copy = mem_strndup(text, n);
  if (!copy) return fail(GRPO_ENOMEM, "added token");
  mem_free((void *)(uintptr_t)a->token[i].text);
  a->token[i].text = copy;
  a->token[i].len = n;
  if (n) a->first[(unsigned char)*copy] = true;
  return GRPO_OK;
}

void added_drop(AddedSet *a, const AddedToken *t) {
  const size_t i = (size_t)(t - a->token);
  mem_free((void *)(uintptr_t)t->text);
  memmove(a->token + i, a->token + i + 1, (--a->n - i) * sizeof *a->token);
}

void added_sort(AddedSet *a) {
  if (a->n) qsort(a->token, a->n, sizeof *a->token, by_name);
}

/* Tokens lo .. hi - 1 share their first `at` bytes: finds the first whose next byte is at least c.
 * A token that ends there has its NUL, so it comes before all longer ones. */
static size_t lower(const AddedSet *a, size_t lo, size_t hi, size_t at, unsigned c) {
  while (lo < hi) {
    size_t mid = lo + (hi - lo) / 2;
    if ((unsigned char)a->token[mid].text[at] < c)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

static const AddedToken *longest(const AddedSet *a, const char *s, size_t n) {
  const AddedToken *best = NULL;
  size_t lo = 0, hi = a->n;
  for (size_t at = 0; at < n && s[at] && lo < hi; at++) {
    unsigned c = (unsigned char)s[at];
    lo = lower(a, lo, hi, at, c);
    hi = lower(a, lo, hi, at, c + 1);
    if (lo < hi && a->token[lo].len == at + 1) best = &a->token[lo];
  }
  return best;
}

static unsigned class_after(const char *s, size_t n, size_t *len) {
  uint32_t cp;
  bool valid;
  *len = utf8_decode(s, n, &cp, &valid);
  return unicode_class(cp);
}

static unsigned class_before(const char *s, size_t end, size_t *len) {
  size_t start = end - 1;
  while (start > 0 && end - start < 4 && ((unsigned char)s[start] & 0xC0) == 0x80) start--;
  unsigned class = class_after(s + start, end - start, len);
  *len = end - start;
  return class;
}

static bool is_single_word(const char *s, size_t n, size_t start, size_t end) {
  size_t len;
  return !(start > 0 && class_before(s, start, &len) & UNI_WORD) &&
         !(end < n && class_after(s + end, n - end, &len) & UNI_WORD);
}

bool added_next(const AddedSet *a, const char *s, size_t n, size_t *from, size_t done, bool special,
                AddedMatch *out) {
  for (size_t i = *from; a->n && i < n;) {
    const AddedToken *t = a->first[(unsigned char)s[i]] ? longest(a, s + i, n - i) : NULL;
    if (!t) {
      i++;
      continue;
    }
    size_t start = i, end = i + t->len, len;
    *from = i = end;
    if ((t->special && !special) || (t->single_word && !is_single_word(s, n, start, end))) continue;
    if (t->lstrip && start < done) start = done; /* the match before took its beginning */
    while (t->lstrip && start > done && class_before(s, start, &len) & UNI_SPACE) start -= len;
    while (t->rstrip && end < n && class_after(s + end, n - end, &len) & UNI_SPACE) end += len;
    if (start >= end) continue; /* it took all of it */
    *out = (AddedMatch){t, start, end};
    return true;
  }
  *from = n;
  return false;
}

void added_free(AddedSet *a) {
  for (size_t i = 0; i < a->n; i++) mem_free((void *)(uintptr_t)a->token[i].text);
  mem_free(a->token);
  *a = (AddedSet){0};
}
