#include "text/charsmap.h"

#include <string.h>

#include "base/base64.h"
#include "base/utf8.h"
#include "text/unicode_break.h"

/* A longer cluster is looked up character by character. */
enum { LONGEST_CLUSTER = 5 };

/* Bits of a unit: 31: it is a value, which the other bits hold; else 0 to 7: the byte that leads
 * here; 8: a value is at its offset; 9: the offset counts 256 units; 10 to 30: the offset. */
enum { LABEL = 0xFF, HAS_VALUE = 1 << 8, WIDE = 1 << 9, OFFSET_SHIFT = 10, WIDE_SHIFT = 8 };
static const uint32_t IS_VALUE = (uint32_t)1 << 31;

static uint32_t read_u32(const char *at) {
  const unsigned char *b = (const unsigned char *)at;
  return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

Status charsmap_read(Charsmap *m, const char *base64) {
  *m = (Charsmap){0};
  if (!base64_decode(base64, strlen(base64), &m->bytes))
    return fail(GRPO_EFORMAT, "Precompiled: precompiled_charsmap is not base64");
  try(buf_status(&m->bytes));
  const size_t size = m->bytes.len;
  const size_t trie = size >= 4 ? read_u32(m->bytes.data) / 4 * 4 : 0;
  if (!trie || trie > size - 4)
    return fail(GRPO_EFORMAT, "Precompiled: precompiled_charsmap has %zu bytes and no trie in them",
                size);
  m->nunit = trie / 4;
  m->text = m->bytes.data + 4 + trie;
  m->ntext = size - 4 - trie;
  if (!utf8_is_valid(m->text, m->ntext))
    return fail(GRPO_EFORMAT, "Precompiled: the texts of precompiled_charsmap are not UTF-8");
  return GRPO_OK;
}

/* The unit at this position of the trie; 0, which has no label and no value, outside of it. */
static uint32_t unit_at(const Charsmap *m, size_t at, bool *outside) {
  *outside |= at >= m->nunit;
  return at < m->nunit ? read_u32(m->bytes.data + 4 + 4 * at) : 0;
}

static size_t offset_of(uint32_t unit) {
  return (size_t)((unit & ~IS_VALUE) >> OFFSET_SHIFT) << (unit & WIDE ? WIDE_SHIFT : 0);
}

/* Finds the value of the shortest key that s begins with. */
static bool find(const Charsmap *m, const char *s, size_t n, uint32_t *value, bool *outside) {
  size_t at = offset_of(unit_at(m, 0, outside));
  for (size_t i = 0; i < n && s[i]; i++) {
    const unsigned char byte = (unsigned char)s[i];
    at ^= byte;
    const uint32_t unit = unit_at(m, at, outside);
    if (*outside || (unit & (IS_VALUE | LABEL)) != byte) return false;
    at ^= offset_of(unit);
    if (!(unit & HAS_VALUE)) continue;
    *value = unit_at(m, at, outside) & ~IS_VALUE;
    return !*outside;
  }
  return false;
}

/* Appends what a cluster or a character becomes; *found is false if the table leaves it alone. */
static Status put_replaced(const Charsmap *m, const char *s, size_t n, size_t longest, bool *found,
                           Buf *out) {
  uint32_t value;
  bool outside = false;
  *found = find(m, s, n, &value, &outside);
  outside |= *found && (value > m->ntext ||
                        (value < m->ntext && ((unsigned char)m->text[value] & 0xC0) == 0x80));
  if (outside)
    return fail(GRPO_EFORMAT, "Precompiled: the trie of precompiled_charsmap points outside of it");
  if (*found) buf_put(out, m->text + value, strnlen(m->text + value, m->ntext - value));
  if (out->len > longest)
    return fail(GRPO_ELIMIT, "tokenizer: Precompiled makes the text longer than %zu bytes",
                longest);
  return GRPO_OK;
}

static Status put_chars(const Charsmap *m, const char *s, size_t n, size_t longest, Buf *out) {
  for (size_t i = 0, len; i < n; i += len) {
    uint32_t cp;
    bool valid, found;
    len = utf8_decode(s + i, n - i, &cp, &valid);
    try(put_replaced(m, s + i, len, longest, &found, out));
    if (!found) buf_put(out, s + i, len);
  }
  return GRPO_OK;
}

Status charsmap_put(const Charsmap *m, const char *s, size_t n, size_t longest, Buf *out) {
  for (size_t i = 0, len; i < n; i += len) {
    bool found = false;
    len = unicode_grapheme(s + i, n - i);
    if (len <= LONGEST_CLUSTER) try(put_replaced(m, s + i, len, longest, &found, out));
    if (!found) try(put_chars(m, s + i, len, longest, out));
  }
  return buf_status(out);
}

void charsmap_free(Charsmap *m) {
  buf_free(&m->bytes);
  *m = (Charsmap){0};
}
