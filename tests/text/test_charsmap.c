/* Grapheme clusters, and SentencePiece's tables of replacements, good and hostile. */
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "status.h"
#include "text/charsmap.h"
#include "text/unicode_break.h"

/* Texts as clusters, from the rules of UAX #29. */
TEST(clusters_end_where_the_rules_say) {
  static const char *const cluster[][5] = {
      {"a", "b"},
      {"\r\n", "\n", "\r"},
      {"e\u0301", "\u00e9"},
      {"\u0301", "a"},
      {"\t", "\u0301"},                                       /* a control character is alone */
      {"\u1100\u1161\u11a8", "\uac00\u11a8", "\uac01\u11a8"}, /* Hangul */
      {"\uac01", "\u1161"},
      {"\u0915\u094d\u0937", "\u0915"}, /* Indic consonants that a virama joins */
      {"\u0915\u094d\u200c", "\u0937"}, /* not after a non-joiner */
      {"\u0915\u0903"},
      {"\u0600a", "b"}, /* a letter after a prepended mark */
      {"\U0001F1E9\U0001F1EA", "\U0001F1EB\U0001F1F7", "\U0001F1E9"}, /* flags */
      {"\U0001F469\u200d\U0001F467", "\U0001F467"},
      {"\u00a9\u0308\u200d\u00ae", "\u00ae"},
      {"a\u200d", "\u00ae"},
      {"\U000E0041", "\U000E0001"},
  };
  for (size_t i = 0; i < sizeof cluster / sizeof *cluster; i++) {
    char text[128] = "";
    for (int k = 0; k < 5 && cluster[i][k]; k++) strcat(text, cluster[i][k]);
    size_t at = 0;
    for (int k = 0; k < 5 && cluster[i][k]; k++) {
      CHECK(unicode_grapheme(text + at, strlen(text + at)) == strlen(cluster[i][k]));
      at += strlen(cluster[i][k]);
    }
  }
}

TEST(scripts_are_told_apart) {
  CHECK(unicode_script('a') && unicode_script('a') == unicode_script(0xE9));
  CHECK(unicode_script(0x3042) == unicode_script(0x4E00) && unicode_script(0x30FC));
  CHECK(unicode_script(0x431) != unicode_script('a') && unicode_script('.') != unicode_script('a'));
  CHECK(!unicode_script(' ') && !unicode_script(0xE000) && !unicode_script(0x10FFFF));
}

/* ---- tables ---------------------------------------------------------------------------- */

static void put_base64(Buf *b, const unsigned char *s, size_t n) {
  static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < n; i += 3) {
    const unsigned a = s[i], m = i + 1 < n ? s[i + 1] : 0, z = i + 2 < n ? s[i + 2] : 0;
    const unsigned bits = a << 16 | m << 8 | z;
    for (int k = 0; k < 4; k++)
      buf_putc(b, i + (size_t)k <= n ? digit[bits >> (18 - 6 * k) & 63] : '=');
  }
}

/* A table of these units and texts, read; `said` is the size of the trie that it claims. */
static Status make(Charsmap *m, const uint32_t *unit, size_t n, uint32_t said, const char *texts,
                   size_t ntexts) {
  Buf bytes = {0}, base64 = {0};
  buf_put(&bytes, &said, 4);
  if (n) buf_put(&bytes, unit, 4 * n);
  if (ntexts) buf_put(&bytes, texts, ntexts);
  put_base64(&base64, (const unsigned char *)bytes.data, bytes.len);
  const Status s = charsmap_read(m, base64.data);
  buf_free(&bytes);
  buf_free(&base64);
  return s;
}

enum { UNITS = 512 };

/* The trie of the keys "a" and "ab": the root's children are moved by 1, those of a by 256. */
static void small_trie(uint32_t unit[UNITS], uint32_t a, uint32_t ab) {
  memset(unit, 0, UNITS * sizeof *unit);
  unit[0] = 1 << 10;
  const uint32_t at = 1 ^ 'a', base = 256;
  unit[at] = 'a' | 1 << 8 | (at ^ base) << 10;
  unit[base] = a | (uint32_t)1 << 31;
  unit[base ^ 'b'] = 'b' | 1 << 8 | ('b' ^ 1) << 10;
  unit[base ^ 1] = ab | (uint32_t)1 << 31;
}

static void becomes(const Charsmap *m, const char *text, const char *want) {
  Buf out = {0};
  CHECK(charsmap_put(m, text, strlen(text), 1 << 10, &out) == GRPO_OK);
  CHECK_STR(out.data, want);
  buf_free(&out);
}

TEST(the_shortest_key_replaces_a_short_cluster) {
  uint32_t unit[UNITS];
  Charsmap m;
  small_trie(unit, 0, 3);
  if (make(&m, unit, UNITS, sizeof unit, "XY\0Z", 5) == GRPO_OK) {
    becomes(&m, "cab", "cXYb"); /* two clusters: "ab" is never looked up */
    becomes(&m, "a\u0301", "XY");
    becomes(&m, "a\u0301\u0301\u0301", "XY\u0301\u0301\u0301"); /* too long, so by characters */
  }
  charsmap_free(&m);
}

TEST(tables_that_are_none_are_refused) {
  static const uint32_t unit[] = {0, 0};
  Charsmap m;
  CHECK(make(&m, unit, 2, 8, "\xFF", 2) == GRPO_EFORMAT && strstr(err_message(), "UTF-8"));
  charsmap_free(&m);
  for (uint32_t said = 0; said < 64; said += 3) {
    const bool good = said >= 4 && said < 12;
    CHECK(make(&m, unit, 2, said, "", 0) == (good ? GRPO_OK : GRPO_EFORMAT));
    charsmap_free(&m);
  }
  CHECK(make(&m, unit, 2, UINT32_MAX, "", 0) == GRPO_EFORMAT);
  charsmap_free(&m);
  static const char *const text[] = {"", "AAAA", "AAAAAAAA*", "AAAAAAAAA", "\xC3\xA9"};
  for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
    CHECK(charsmap_read(&m, text[i]) == GRPO_EFORMAT && strstr(err_message(), "Precompiled"));
    charsmap_free(&m);
  }
}

TEST(a_trie_that_points_outside_is_refused_where_it_does) {
  uint32_t unit[UNITS];
  const uint32_t far[] = {6, 1 << 20, 0x7FFFFFFF};
  Buf out = {0};
  Charsmap m;
  for (size_t i = 0; i < 3; i++) { /* the text */
    small_trie(unit, far[i], 0);
    OK(make(&m, unit, UNITS, sizeof unit, "X\0\u00e9", 5));
    CHECK(charsmap_put(&m, "b", 1, 100, &out) == GRPO_OK);
    CHECK(charsmap_put(&m, "a", 1, 100, &out) == GRPO_EFORMAT);
    charsmap_free(&m);
  }
  small_trie(unit, 3, 0); /* within a character */
  OK(make(&m, unit, UNITS, sizeof unit, "X\0\u00e9", 5));
  CHECK(charsmap_put(&m, "a", 1, 100, &out) == GRPO_EFORMAT);
  charsmap_free(&m);
  small_trie(unit, 0, 0); /* the trie */
  unit[1 ^ 'a'] |= (uint32_t)0x1FFFFF << 10 | 1 << 9;
  OK(make(&m, unit, UNITS, sizeof unit, "X", 2));
  CHECK(charsmap_put(&m, "a", 1, 100, &out) == GRPO_EFORMAT);
  charsmap_free(&m);
  buf_free(&out);
}

TEST(a_text_cannot_grow_without_bounds) {
  uint32_t unit[UNITS];
  static char texts[1 << 16];
  memset(texts, 'X', sizeof texts - 1);
  Buf out = {0};
  Charsmap m;
  small_trie(unit, 0, 0);
  OK(make(&m, unit, UNITS, sizeof unit, texts, sizeof texts));
  CHECK(charsmap_put(&m, "aaaaaaaaaaaaaaaa", 16, 1 << 17, &out) == GRPO_ELIMIT);
  CHECK(out.len <= (1 << 17) + sizeof texts);
  charsmap_free(&m);
  buf_free(&out);
}

/* Whatever the units are, a text ends in some steps with text or with an error. */
TEST(random_tries_are_survived) {
  static const char text[] = "abc \u00e9\u0301\u4e00\U0001F600 the \u1100\u1161";
  uint32_t unit[UNITS];
  uint64_t state = 3;
  int refused = 0;
  for (int round = 0; round < 20000; round++) {
    Charsmap m;
    Buf out = {0};
    for (int i = 0; i < UNITS; i++) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const uint32_t r = (uint32_t)(state >> 33);
      unit[i] = (r & 3) ? (r & 0x3FFF00) >> (r >> 5 & 7) << 3 | (uint32_t)(i & 0xFF) | (r & 0x100)
                        : r | (uint32_t)(state >> 5) << 31;
    }
    OK(make(&m, unit, UNITS, sizeof unit, "one\0two\0\u00e9", 11));
    const Status s = charsmap_put(&m, text, sizeof text - 1, 4096, &out);
    CHECK(s == GRPO_OK || s == GRPO_EFORMAT);
    CHECK(s != GRPO_OK || !out.len || utf8_is_valid(out.data, out.len));
    refused += s != GRPO_OK;
    charsmap_free(&m);
    buf_free(&out);
  }
  CHECK(refused > 100 && refused < 20000);
}
