#include "text/word_counts.h"

#include <string.h>

#include "base/mem.h"
#include "text/pretoken.h"

static Status grow(WordCounts *w) {
  if (w->n < w->cap) return GRPO_OK;
  if (w->cap > UINT32_MAX / 4) return fail(GRPO_ELIMIT, "too many different words");
  size_t cap = w->cap ? 2 * w->cap : 1024;
  Word *word = mem_realloc(w->word, cap * sizeof *word);
  if (!word) return fail(GRPO_ENOMEM, "no memory for %zu different words", w->n);
  w->word = word;
  w->cap = cap;
  return map_reserve(&w->index, cap);
}

static Status count_word(WordCounts *w, const char *s, size_t n) {
  const uint64_t hash = map_hash(s, n);
  for (MapEntry *e = map_find(&w->index, hash); e; e = map_next(&w->index, e)) {
    Word *k = &w->word[e->value];
    if (k->n == n && memcmp(w->bytes.data + k->at, s, n) == 0) {
      k->count++;
      return GRPO_OK;
    }
  }
  try(grow(w));
  try(map_add(&w->index, hash, w->n));
  w->word[w->n++] = (Word){.at = w->bytes.len, .n = (uint32_t)n, .count = 1};
  buf_put(&w->bytes, s, n);
  return buf_status(&w->bytes);
}

/* The length of the next piece of a pre-token of n bytes; it does not end inside a character. */
static size_t piece_length(const char *s, size_t n) {
  if (n <= WORD_MAX) return n;
  n = WORD_MAX;
  while (((unsigned char)s[n] & 0xC0) == 0x80) n--;
  return n;
}

static Status count_pretokens(WordCounts *w, const char *s, size_t n) {
  for (size_t i = 0, len, piece; i < n; i += len) {
    len = pre_scan(PRE_GPT2, s + i, n - i);
    for (size_t k = 0; k < len; k += piece) {
      piece = piece_length(s + i + k, len - k);
      try(count_word(w, s + i + k, piece));
    }
  }
  return GRPO_OK;
}

Status words_count(WordCounts *w, const char *text, size_t n, bool split_digits) {
  if (!split_digits) return count_pretokens(w, text, n);
  for (size_t i = 0, len; i < n; i += len) {
    len = pre_scan(PRE_DIGITS, text + i, n - i);
    try(count_pretokens(w, text + i, len));
  }
  return GRPO_OK;
}

void words_free(WordCounts *w) {
  buf_free(&w->bytes);
  mem_free(w->word);
  map_free(&w->index);
  *w = (WordCounts){0};
}
