#include "kern/token_set.h"

#include <string.h>

enum { BITS = 32 };

static size_t bitmap_words(int vocab) { return ((size_t)vocab + BITS - 1) / BITS; }

static bool is_list(uint32_t n, int vocab) { return n <= bitmap_words(vocab); }

size_t token_set_words(int vocab, int n) {
  if (n <= 0) return 1;
  return 1 + (is_list((uint32_t)n, vocab) ? (size_t)n : bitmap_words(vocab));
}

const uint32_t *token_set_next(const uint32_t *set, int vocab) {
  return set + token_set_words(vocab, (int)set[0]);
}

bool token_set_is_valid(const uint32_t *set, size_t words, int vocab) {
  if (!words || set[0] >= (uint32_t)vocab || token_set_words(vocab, (int)set[0]) > words)
    return false;
  if (is_list(set[0], vocab)) {
    for (uint32_t i = 1; i <= set[0]; i++)
      if (set[i] >= (uint32_t)vocab || (i > 1 && set[i] <= set[i - 1])) return false;
    return true;
  }
  uint32_t n = 0, over = (uint32_t)vocab % BITS;
  for (size_t w = 1; w <= bitmap_words(vocab); w++) n += (uint32_t)__builtin_popcount(set[w]);
  return n == set[0] && !(over && set[bitmap_words(vocab)] >> over);
}

void token_set_begin(uint32_t *set, int vocab, int n) {
  set[0] = n == vocab ? 0 : (uint32_t)n;
  if (set[0] && !is_list(set[0], vocab)) memset(set + 1, 0, bitmap_words(vocab) * sizeof *set);
}

void token_set_add(uint32_t *set, int vocab, int i, int32_t id) {
  if (!set[0]) return;
  if (is_list(set[0], vocab))
    set[1 + i] = (uint32_t)id;
  else
    set[1 + id / BITS] |= (uint32_t)1 << id % BITS;
}

static int place_in_list(const uint32_t *set, uint32_t id) {
  uint32_t lo = 0, hi = set[0];
  while (lo < hi) {
    const uint32_t mid = lo + (hi - lo) / 2;
    if (set[1 + mid] < id)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo < set[0] && set[1 + lo] == id ? (int)lo : -1;
}

int token_set_place(const uint32_t *set, int vocab, int32_t id) {
  if (!set[0]) return id;
  if (is_list(set[0], vocab)) return place_in_list(set, (uint32_t)id);
  const uint32_t *word = set + 1 + id / BITS, below = ((uint32_t)1 << id % BITS) - 1;
  int n = __builtin_popcount(*word & below);
  if (!(*word >> id % BITS & 1)) return -1;
  for (const uint32_t *w = set + 1; w < word; w++) n += __builtin_popcount(*w);
  return n;
}

int token_set_compact(const uint32_t *set, int vocab, const real *row, real *out) {
  int n = 0;
  if (!set[0]) {
    if (out != row) memcpy(out, row, (size_t)vocab * sizeof *out);
    return vocab;
  }
  if (is_list(set[0], vocab)) {
    for (; n < (int)set[0]; n++) out[n] = row[set[1 + n]];
    return n;
  }
  for (size_t w = 0; w < bitmap_words(vocab); w++)
    for (uint32_t bits = set[1 + w]; bits; bits &= bits - 1)
      out[n++] = row[w * BITS + (size_t)__builtin_ctz(bits)];
  return n;
}

/* Moves row[from] to row[to] and clears what is between it and `end`; returns the new end. */
static size_t move_up(real *row, size_t from, size_t to, size_t end) {
  row[to] = row[from];
  if (end > to + 1) memset(row + to + 1, 0, (end - to - 1) * sizeof *row);
  return to;
}

void token_set_expand(const uint32_t *set, int vocab, real *row) {
  size_t n = set[0], end = (size_t)vocab;
  if (!n) return;
  if (is_list(set[0], vocab)) {
    for (; n > 0; n--) end = move_up(row, n - 1, set[n], end);
  } else {
    for (size_t w = bitmap_words(vocab); w-- > 0;)
      for (uint32_t bits = set[1 + w]; bits;) {
        const uint32_t top = (uint32_t)(BITS - 1 - __builtin_clz(bits));
        bits &= ~((uint32_t)1 << top);
        end = move_up(row, --n, w * BITS + top, end);
      }
  }
  memset(row, 0, end * sizeof *row);
}
