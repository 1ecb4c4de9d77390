#include <string.h>

#include "base/utf8.h"
#include "status.h"
#include "text/unicode.h"
#include "text/unicode_form.h"

typedef enum Form { NFD, NFC, NFKD, NFKC } Form;

static void put_form(Buf *out, const char *s, size_t n, Form form) {
  IntBuf work = {0};
  buf_clear(out);
  OK(unicode_form(s, n, form & 1, form & 2, &work, out));
  intbuf_free(&work);
}

/* The examples are those of Unicode Standard Annex #15, and one of each rule. */
static const struct {
  const char *text, *form[4]; /* NFD, NFC, NFKD, NFKC */
} examples[] = {
    {"plain", {"plain", "plain", "plain", "plain"}},
    {"\u212B", {"A\u030A", "\u00C5", "A\u030A", "\u00C5"}},
    {"\u1E0B\u0323", {"d\u0323\u0307", "\u1E0D\u0307", "d\u0323\u0307", "\u1E0D\u0307"}},
    {"\uFB01", {"\uFB01", "\uFB01", "fi", "fi"}},
    {"2\u2075", {"2\u2075", "2\u2075", "25", "25"}},
    {"\u1E9B\u0323", {"\u017F\u0323\u0307", "\u1E9B\u0323", "s\u0323\u0307", "\u1E69"}},
    {"\u0958", {"\u0915\u093C", "\u0915\u093C", "\u0915\u093C", "\u0915\u093C"}},
    {"\uAC01", {"\u1100\u1161\u11A8", "\uAC01", "\u1100\u1161\u11A8", "\uAC01"}},
    {"\u1100\u1161", {"\u1100\u1161", "\uAC00", "\u1100\u1161", "\uAC00"}},
    {"\uAC00\u11A8", {"\u1100\u1161\u11A8", "\uAC01", "\u1100\u1161\u11A8", "\uAC01"}},
    {"a\u0315\u0300", {"a\u0300\u0315", "\u00E0\u0315", "a\u0300\u0315", "\u00E0\u0315"}},
    {"\u0344", {"\u0308\u0301", "\u0308\u0301", "\u0308\u0301", "\u0308\u0301"}},
    {"\uFF21\u3000", {"\uFF21\u3000", "\uFF21\u3000", "A ", "A "}},
    {"\U0001D400", {"\U0001D400", "\U0001D400", "A", "A"}},
    {"\uF900", {"\u8C48", "\u8C48", "\u8C48", "\u8C48"}},
};

TEST(normal_forms_of_examples) {
  Buf out = {0};
  for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
    for (int f = NFD; f <= NFKC; f++) {
      put_form(&out, examples[i].text, strlen(examples[i].text), (Form)f);
      CHECK_STR(out.data, examples[i].form[f]);
    }
  buf_free(&out);
}

/* For each code point: a form is a fixed point, and composing keeps the decomposition. */
TEST(forms_agree_with_each_other_for_every_code_point) {
  Buf d = {0}, c = {0}, again = {0};
  for (uint32_t cp = 1; cp < 0x110000; cp++) {
    char s[4];
    if (cp >= 0xD800 && cp < 0xE000) continue;
    const size_t n = utf8_encode(cp, s);
    for (int f = NFD; f <= NFKD; f += NFKD) {
      put_form(&d, s, n, (Form)f);
      put_form(&c, s, n, (Form)(f + NFC));
      put_form(&again, c.data, c.len, (Form)f);
      CHECK_STR(again.data, d.data);
      put_form(&again, d.data, d.len, (Form)(f + NFC));
      CHECK_STR(again.data, c.data);
    }
    put_form(&c, s, n, NFC);
    if (!(unicode_class(cp) & UNI_NFC_UNSAFE)) CHECK(c.len == n && memcmp(c.data, s, n) == 0);
  }
  buf_free(&d);
  buf_free(&c);
  buf_free(&again);
}

TEST(marks_are_sorted_stably) {
  enum { PAIRS = 100000 };
  Buf text = {0}, out = {0}, want = {0};
  put_form(&out, "a\u0316\u0301\u0317\u0300", 9, NFD); /* 220 230 220 230 */
  CHECK_STR(out.data, "a\u0316\u0317\u0301\u0300");
  buf_puts(&text, "a"), buf_puts(&want, "a");
  for (int i = 0; i < PAIRS; i++) {
    buf_puts(&text, i % 2 ? "\u0301\u0316" : "\u0300\u0317");
    buf_puts(&want, i % 2 ? "\u0316" : "\u0317");
  }
  for (int i = 0; i < PAIRS; i++) buf_puts(&want, i % 2 ? "\u0301" : "\u0300");
  put_form(&out, text.data, text.len, NFD);
  CHECK(out.len == want.len && memcmp(out.data, want.data, out.len) == 0);
  buf_free(&text), buf_free(&out), buf_free(&want);
}

TEST(lower_case_of_one_code_point) {
  static const uint32_t pairs[][2] = {{'A', 'a'},       {'a', 'a'},         {0xC4, 0xE4},
                                      {0xD7, 0xD7},     {0x100, 0x101},     {0x101, 0x101},
                                      {0x178, 0xFF},    {0x394, 0x3B4},     {0x1E9E, 0xDF},
                                      {0x2126, 0x3C9},  {0x10A0, 0x2D00},   {0x10400, 0x10428},
                                      {0x4E00, 0x4E00}, {0x1E921, 0x1E943}, {0x10FFFF, 0x10FFFF}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    CHECK(unicode_lower(pairs[i][0]) == pairs[i][1]);
}

TEST(classes_of_code_points) {
  CHECK(unicode_class('a') == (UNI_LETTER | UNI_WORD));
  CHECK(unicode_class(0x0301) & UNI_NONSPACING && unicode_class(0x0301) & UNI_SECOND);
  CHECK(unicode_class(0x0903) & UNI_MARK && !(unicode_class(0x0903) & UNI_NONSPACING));
  CHECK(unicode_class(0x180E) & UNI_OTHER && !(unicode_class(0x180E) & UNI_SPACE));
  CHECK(unicode_class(0x2EBF0) & UNI_LETTER); /* since Unicode 15.1 */
  CHECK(unicode_class(0xE000) == UNI_OTHER && unicode_class(0x10FFFF) == 0);
}
