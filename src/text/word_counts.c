#include "text/word_counts.h"

#include <string.h>

#include "base/mem.h"
#include "text/pretoken.h"
#include "text/vocab.h"

static uint32_t *slot_of(const WordCounts *w, const char *s, size_t n) {
  size_t i = vocab_hash(s, n) & (w->nslot - 1);
  for (;; i = (i + 1) & (w->nslot - 1)) {
    if (!w->slot[i]) return &w->slot[i];
    const Word *k = &w->word[w->slot[i] - 1];
    if (k->n == n && memcmp(w->bytes.data + k->at, s, n) == 0) return &w->slot[i];
  }
}

static Status grow(WordCounts *w) {
  if (w->n < w->cap) return GRPO_OK;
  if (w->cap > UINT32_MAX / 4) return fail(GRPO_ELIMIT, "too many different words");
  size_t cap = w->cap ? 2 * w->cap : 1024;
  Word *word = mem_realloc(w->word, cap * sizeof *word);
  if (word) w->word = word;
  uint32_t *slot = word ? mem_zalloc(2 * cap * sizeof *slot) : NULL;
  if (!slot) return fail(GRPO_ENOMEM, "%zu different words", w->n);
  mem_free(w->slot);
  w->slot = slot;
  w->nslot = 2 * cap;
  w->cap = cap;
  for (size_t i = 0; i < w->n; i++)
    *slot_of(w, w->bytes.data + w->word[i].at, w->word[i].n) = (uint32_t)i + 1;
  return GRPO_OK;
}

static Status count_word(WordCounts *w, const char *s, size_t n) {
  try(grow(w));
  uint32_t *slot = slot_of(w, s, n);
  if (*slot) {
    w->word[*slot - 1].count++;
    return GRPO_OK;
  }
  w->word[w->n] = (Word){.at = w->bytes.len, .n = (uint32_t)n, .count = 1};
  *slot = (uint32_t)++w->n;
  buf_put(&w->bytes, s, n);
  return buf_status(&w->bytes);
}

/* Where to cut a pre-token of n bytes: not inside a character. */
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
  mem_free(w->slot);
  *w = (WordCounts){0};
}
