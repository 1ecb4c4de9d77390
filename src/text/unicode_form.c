#include "text/unicode_form.h"

#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "text/unicode.h"
#include "text/unicode_table.h"

#include "text/unicode_form_tables.inc.c"

/* While text is normalized an entry of the list is code point | combining class << CLASS_SHIFT, and
 * SECOND if it may compose with a code point before it. */
enum { CLASS_SHIFT = 21, CP_MASK = (1 << CLASS_SHIFT) - 1, SECOND = 1 << 29 };

/* Runs of marks that are longer are not sorted by insertion. */
enum { NCLASSES = 256, LONG_RUN = 64 };

static int class_of(int32_t entry) { return entry >> CLASS_SHIFT & 0xFF; }

/* Hangul syllables are composed of two or three letters by arithmetic (Unicode, chapter 3). */
enum {
  HANGUL = 0xAC00,
  HANGUL_END = 0xD7A4,
  LEAD = 0x1100,
  NLEAD = 19,
  VOWEL = 0x1161,
  NVOWEL = 21,
  TAIL = 0x11A7, /* stands for no tail; the tails follow it */
  NTAIL = 28
};

/* ---- decomposing --------------------------------------------------------------------- */

static uint32_t combining_class(uint32_t cp) {
  const char *row = table_row(combining_runs, sizeof combining_runs - 1, 3, 5, cp);
  return row ? table_number(row + 3, 2) : 0;
}

typedef struct Mapping {
  int length; /* code points that it maps to; 0: it has no decomposition */
  bool compatible;
  uint32_t first;   /* the only one of a length of 1 */
  const char *rest; /* in decompositions: the code points if length > 1 */
} Mapping;

static Mapping mapping_of(uint32_t cp) {
  const char *row = table_row(decomposition_runs, sizeof decomposition_runs - 1, 3, 9, cp);
  if (!row) return (Mapping){0};
  const uint32_t at = cp - table_number(row, 3), kind = table_number(row + 5, 1);
  if (at >= table_number(row + 3, 2)) return (Mapping){0};
  const char *targets = decompositions + 3 * table_number(row + 6, 3);
  if (kind < 2) return (Mapping){1, kind & 1, table_number(targets, 3) + at, NULL};
  targets += 3 * (kind / 2) * at;
  return (Mapping){(int)(kind / 2), kind & 1, table_number(targets, 3), targets};
}

static void decompose(IntBuf *list, uint32_t cp, bool compatible) {
  if (cp < 0xA0) {
    intbuf_put(list, (int32_t)cp);
    return;
  }
  if (cp >= HANGUL && cp < HANGUL_END) {
    const uint32_t at = cp - HANGUL, tail = at % NTAIL;
    intbuf_put(list, (int32_t)(LEAD + at / (NVOWEL * NTAIL)));
    intbuf_put(list, (int32_t)(VOWEL + at / NTAIL % NVOWEL) | SECOND);
    if (tail) intbuf_put(list, (int32_t)(TAIL + tail) | SECOND);
    return;
  }
  const unsigned flags = unicode_class(cp);
  const Mapping m = flags & UNI_DECOMPOSES ? mapping_of(cp) : (Mapping){0};
  if (!m.length || (m.compatible && !compatible)) {
    const uint32_t class = flags & UNI_NFC_UNSAFE ? combining_class(cp) : 0;
    intbuf_put(list, (int32_t)(cp | class << CLASS_SHIFT) | (flags & UNI_SECOND ? SECOND : 0));
    return;
  }
  decompose(list, m.first, compatible);
  for (int i = 1; i < m.length; i++) decompose(list, table_number(m.rest + 3 * i, 3), compatible);
}

static void insertion_sort(int32_t *v, size_t n) {
  for (size_t i = 1; i < n; i++) {
    const int32_t mark = v[i];
    size_t at = i;
    for (; at > 0 && class_of(v[at - 1]) > class_of(mark); at--) v[at] = v[at - 1];
    v[at] = mark;
  }
}

/* In linear time, for long runs. */
static Status counting_sort(int32_t *v, size_t n) {
  size_t at[NCLASSES + 1] = {0};
  int32_t *copy = mem_alloc(n * sizeof *copy);
  if (!copy) return fail(GRPO_ENOMEM, "tokenizer: %zu combining marks in a row", n);
  memcpy(copy, v, n * sizeof *copy);
  for (size_t i = 0; i < n; i++) at[class_of(v[i]) + 1]++;
  for (int class = 0; class < NCLASSES; class ++) at[class + 1] += at[class];
  for (size_t i = 0; i < n; i++) v[at[class_of(copy[i])]++] = copy[i];
  mem_free(copy);
  return GRPO_OK;
}

/* Sorts each run of combining marks by their classes, and keeps the order within a class. */
static Status sort_marks(int32_t *v, size_t n) {
  for (size_t i = 0, end; i < n; i = end + 1) {
    for (end = i; end < n && class_of(v[end]);) end++;
    if (end - i > LONG_RUN)
      try(counting_sort(v + i, end - i));
    else
      insertion_sort(v + i, end - i);
  }
  return GRPO_OK;
}

/* ---- composing ------------------------------------------------------------------------ */

/* The code point that a and b compose, or 0. */
static uint32_t composite(uint32_t a, uint32_t b) {
  if (a >= LEAD && a < LEAD + NLEAD && b >= VOWEL && b < VOWEL + NVOWEL)
    return HANGUL + ((a - LEAD) * NVOWEL + (b - VOWEL)) * NTAIL;
  if (a >= HANGUL && a < HANGUL_END && (a - HANGUL) % NTAIL == 0 && b > TAIL && b < TAIL + NTAIL)
    return a + (b - TAIL);
  size_t lo = 0, hi = (sizeof composites - 1) / 9;
  while (lo < hi) {
    const size_t mid = lo + (hi - lo) / 2;
    const uint32_t second = table_number(composites + 9 * mid, 3);
    const uint32_t first = table_number(composites + 9 * mid + 3, 3);
    if (second == b && first == a) return table_number(composites + 9 * mid + 6, 3);
    if (second < b || (second == b && first < a))
      lo = mid + 1;
    else
      hi = mid;
  }
  return 0;
}

/* Composes each starter with the marks and starters after it that no other mark blocks. */
static size_t compose_all(int32_t *v, size_t n) {
  size_t to = 0, starter = SIZE_MAX;
  int before = -1; /* the class of the last entry after the starter; -1: there is none */
  for (size_t i = 0; i < n; i++) {
    const int class = class_of(v[i]);
    if (v[i] & SECOND && starter != SIZE_MAX && before < class) {
      const uint32_t joined = composite((uint32_t)v[starter] & CP_MASK, (uint32_t)v[i] & CP_MASK);
      if (joined) {
        v[starter] = (int32_t)joined;
        continue;
      }
    }
    if (class == 0) starter = to;
    before = class ? class : -1;
    v[to++] = v[i];
  }
  return to;
}

Status unicode_form(const char *s, size_t n, bool compose, bool compatible, IntBuf *work,
                    Buf *out) {
  intbuf_clear(work);
  for (size_t i = 0, len; i < n; i += len) {
    uint32_t cp;
    bool valid;
    len = utf8_decode(s + i, n - i, &cp, &valid);
    decompose(work, cp, compatible);
  }
  try(intbuf_status(work));
  try(sort_marks(work->data, work->len));
  if (compose) work->len = compose_all(work->data, work->len);
  for (size_t i = 0; i < work->len; i++) {
    char c[4];
    buf_put(out, c, utf8_encode((uint32_t)work->data[i] & CP_MASK, c));
  }
  return buf_status(out);
}
