#include <stdlib.h>

#include "base/utf8.h"
#include "base/visible.h"
#include "formats/json.h"
#include "os/file.h"
#include "testing.h"

/* Decode all of s; lengths of the pieces as digits, upper case X after invalid ones. */
static const char *pieces(const char *s, size_t n) {
  static char out[64];
  size_t k = 0;
  while (n && k < 60) {
    uint32_t cp;
    bool valid;
    const size_t len = utf8_decode(s, n, &cp, &valid);
    out[k++] = (char)('0' + len);
    if (!valid) out[k++] = 'X';
    CHECK(valid || cp == 0xfffd);
    s += len, n -= len;
  }
  out[k] = 0;
  return out;
}
#define PIECES(s) pieces(s, sizeof s - 1)

/* s as a terminal gets it. */
static const char *visible(const char *s, size_t n) {
  static char out[128];
  Buf b = {0};
  visible_put(&b, s, n);
  snprintf(out, sizeof out, "%s", b.data ? b.data : "");
  buf_free(&b);
  return out;
}
#define VISIBLE(s) visible(s, sizeof s - 1)

TEST(a_terminal_obeys_nothing_in_a_text) {
  CHECK_STR(VISIBLE("a\x1b]0;pwn\x07"
                    "b\r\n\tc"),
            "a\\x1b]0;pwn\\x07b\\x0d\n\tc");
  CHECK_STR(VISIBLE("\x00\x7f\xc2\x9b"
                    "31m\x9b"
                    "31m"),
            "\\x00\\x7f\\x9b31m\\x9b31m");
  CHECK_STR(VISIBLE("\xe2\x80\xaegpj\xe2\x81\xa6\xd8\x9c\xe2\x80\x8e"), "?gpj???");
  CHECK_STR(VISIBLE("\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80 \xe2\x80\x94"),
            "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80 \xe2\x80\x94");
  CHECK_STR(VISIBLE("\xff\xc3"), "\xff\xc3");
}

TEST(every_code_point_survives_encoding_and_decoding) {
  for (uint32_t cp = 0; cp <= 0x10ffff; cp++) {
    if (cp == 0xd800) cp = 0xe000;
    char s[4];
    const size_t n = utf8_encode(cp, s);
    uint32_t back;
    bool valid;
    if (utf8_decode(s, n, &back, &valid) != n || back != cp || !valid) {
      test_fail(__FILE__, __LINE__, "U+%04X", cp);
      return;
    }
  }
}

TEST(what_cannot_be_encoded_becomes_the_replacement_character) {
  char s[4];
  CHECK(utf8_encode(0xd800, s) == 3 && memcmp(s, "\xef\xbf\xbd", 3) == 0);
  CHECK(utf8_encode(0x110000, s) == 3 && memcmp(s, "\xef\xbf\xbd", 3) == 0);
}

TEST(invalid_bytes_split_into_maximal_subparts) {
  /* the examples of the Unicode standard, chapter 3, tables 3-8 to 3-11 */
  CHECK_STR(PIECES("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41"), "1X1X1X1X1X1X1X1X1");
  CHECK_STR(PIECES("\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41"), "1X1X1X1X1X1X1X1X1");
  CHECK_STR(PIECES("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42"), "1X1X1X1X1X11X1X1");
  CHECK_STR(PIECES("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41"), "2X1X3X2X1");
  CHECK_STR(PIECES("\xf5\x80"), "1X1X");
}

TEST(validity_of_texts) {
  CHECK(utf8_is_valid("", 0));
  CHECK(utf8_is_valid("a\0b", 3));
  CHECK(utf8_is_valid("\xf4\x8f\xbf\xbf", 4));
  CHECK(!utf8_is_valid("\xf4\x90\x80\x80", 4));
  CHECK(!utf8_is_valid("abc\xe2\x82", 5));
}

TEST(lossy_copies_replace_each_subpart_once) {
  Buf b = {0};
  utf8_put_lossy(&b, "a\xe2\x82z\xff\xff\xc3\xa9", 8);
  CHECK_STR(b.data, "a\xef\xbf\xbdz\xef\xbf\xbd\xef\xbf\xbd\xc3\xa9");
  CHECK(buf_status(&b) == GRPO_OK);
  buf_free(&b);
}

/* A row of the oracle: bytes in hex, and the text after replacement. */
static void check_row(const char *row, size_t n) {
  Json *j = NULL;
  CHECK(json_parse(row, n, "invalid_utf8.jsonl", &j) == GRPO_OK);
  if (!j) return;
  const char *hex = json_string(json_get(j, "bytes_hex"));
  char bytes[256];
  size_t len = 0;
  for (; hex[2 * len]; len++) {
    const char pair[3] = {hex[2 * len], hex[2 * len + 1], 0};
    bytes[len] = (char)strtoul(pair, NULL, 16);
    if (!bytes[len]) bytes[len] = 1; /* as in the text below */
  }
  Buf b = {0};
  utf8_put_lossy(&b, bytes, len);
  CHECK_STR(b.data, json_string(json_get(j, "replaced_text")));
  buf_free(&b);
  json_free(j);
}

TEST(replacement_agrees_with_the_oracle) {
  if (!test_shared()) {
    test_skip("GRPO_SHARED is not set");
    return;
  }
  Buf text = {0};
  CHECK(file_read(test_path("%s/oracles/tokenizers/invalid_utf8.jsonl", test_shared()), 0, &text) ==
        GRPO_OK);
  /* our JSON refuses \u0000, which one row has: let it be \u0001 */
  for (char *p = text.data; (p = strstr(p, "\\u0000"));) p[5] = '1';
  int rows = 0;
  for (char *p = text.data, *end; p && (end = strchr(p, '\n')); p = end + 1, rows++)
    check_row(p, (size_t)(end - p));
  CHECK(rows > 20);
  buf_free(&text);
}
