/* Patterns that Oniguruma and PCRE2 read differently: the texts that the library makes of them. */
#include <string.h>

#include "formats/json.h"
#include "status.h"
#include "text/normalize.h"
#include "text/onig.h"

static const char text[] = "Das Haus, a1 x\u00b2_y\n\u180e\u00c4b 12345 cat\n";

/* A pattern, and the text with # in place of its matches. */
static const char *const cases[][2] = {
    {"\\w+", "# #, # #\n\u180e# # #\n"},
    {"[\\w]+", "# #, # #\u00b2#\n\u180e# # #\n"},
    {"\\W", "Das#Haus##a1#x\u00b2_y##\u00c4b#12345#cat#"},
    {"[^\\W\\d]+", "# #, #1 #\u00b2#\n\u180e# 12345 #\n"},
    {"\\b", "#Das# #Haus#, #a1# #x\u00b2_y#\n\u180e#\u00c4b# #12345# #cat#\n"},
    {"\\B", "D#a#s H#a#u#s,# a#1 x#\u00b2#_#y\n#\u180e\u00c4#b 1#2#3#4#5 c#a#t\n#"},
    {"\\bc", "Das Haus, a1 x\u00b2_y\n\u180e\u00c4b 12345 #at\n"},
    {"\\s+", "Das#Haus,#a1#x\u00b2_y#\u180e\u00c4b#12345#cat#"},
    {"[^\\s]+", "# # # #\n# # #\n"},
    {"\\S", "### ##### ## ####\n### ##### ###\n"},
    {"\\h+", "#s H#us, # x\u00b2_y\n\u180e\u00c4# # #t\n"},
    {"[\\h]", "##s H#us, ## x\u00b2_y\n\u180e\u00c4# ##### ##t\n"},
    {"^.", "#as Haus, a1 x\u00b2_y\n#\u00c4b 12345 cat\n"},
    {".$", "Das Haus, a1 x\u00b2_#\n\u180e\u00c4b 12345 ca#\n"},
    {"^", "#Das Haus, a1 x\u00b2_y\n#\u180e\u00c4b 12345 cat\n"},
    {"$", "Das Haus, a1 x\u00b2_y#\n\u180e\u00c4b 12345 cat#\n#"},
    {"(?m:s.)", "Da#Hau# a1 x\u00b2_y\n\u180e\u00c4b 12345 cat\n"},
    {"[\\w&&[^aeiou]]+", "#a# #au#, a# #\u00b2#\n\u180e# # #a#\n"},
    {"[a-c[x-z]]+", "D#s H#us, #1 #\u00b2_#\n\u180e\u00c4# 12345 #t\n"},
    {"[^a-c[x-z]]+", "#a#a#a#x#y#b#ca#"},
    {"[^a-m&&\\p{L}]", "#a###a####a#########b#######ca##"},
    {"[[:punct:]]", "Das Haus# a1 x\u00b2#y\n\u180e\u00c4b 12345 cat\n"},
    {"[a-z&&[aeiou]&&[^a]]", "Das Ha#s, a1 x\u00b2_y\n\u180e\u00c4b 12345 cat\n"},
    {"\\u0061|[\\u00c4\\u4e00-\\u9fff]", "D#s H#us, #1 x\u00b2_y\n\u180e#b 12345 c#t\n"},
    {"[]a]", "D#s H#us, #1 x\u00b2_y\n\u180e\u00c4b 12345 c#t\n"},
    {"[\\]a]", "D#s H#us, #1 x\u00b2_y\n\u180e\u00c4b 12345 c#t\n"},
    {"x*", "#D#a#s# #H#a#u#s#,# #a#1# #\u00b2#_#y#\n#\u180e#\u00c4#b# #1#2#3#4#5# #c#a#t#\n#"},
    {"(?<=\\d)(?=(?:\\d{3})+(?!\\d))", "Das Haus, a1 x\u00b2_y\n\u180e\u00c4b 12#345 cat\n"},
    {"[&]|[a&]", "D#s H#us, #1 x\u00b2_y\n\u180e\u00c4b 12345 c#t\n"},
    {"(\\w)(?=\\d)", "Das Haus, #1 x\u00b2_y\n\u180e\u00c4b ####5 cat\n"},
    {"\\\\", "Das Haus, a1 x\u00b2_y\n\u180e\u00c4b 12345 cat\n"},
    {"[\\S&&\\D]", "### ##### #1 ####\n### 12345 ###\n"},
    {"a(?#x)s|\\.|\\(", "D# Haus, a1 x\u00b2_y\n\u180e\u00c4b 12345 cat\n"},
};

static Status replace_all(const char *pattern, const char *s, Buf *out) {
  Buf b = {0};
  Json *j = NULL;
  Normalizer z = {.n = 0};
  NormScratch w = {.text = {{0}, {0}}};
  NormText t;
  buf_puts(&b, "{\"type\": \"Replace\", \"content\": \"#\", \"pattern\": {\"Regex\": ");
  json_put_string(&b, pattern, strlen(pattern));
  buf_puts(&b, "}}");
  Status st = json_parse(b.data, b.len, "pattern", &j);
  if (st == GRPO_OK) st = normalizer_read(&z, j);
  if (st == GRPO_OK) st = normalizer_run(&z, &w, s, strlen(s), &t);
  if (st == GRPO_OK) buf_put(out, t.s, t.n);
  json_free(j);
  buf_free(&b);
  normalizer_free(&z);
  norm_scratch_free(&w);
  return st;
}

TEST(patterns_match_what_the_reference_matches) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Buf out = {0};
    OK(replace_all(cases[i][0], text, &out));
    if (!out.data || strcmp(out.data, cases[i][1]) != 0)
      test_fail(__FILE__, __LINE__, "%s: \"%s\", want \"%s\"", cases[i][0],
                out.data ? out.data : "", cases[i][1]);
    buf_free(&out);
  }
}

TEST(classes_without_an_end_or_too_deep_are_refused) {
  static const char *const bad[] = {"[", "[^", "[a&&", "[a[b]", "[\\w", "[[:alpha:]"};
  char deep[64];
  Buf out = {0};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    REFUSED(onig_translate(bad[i], &out), GRPO_EFORMAT, "without ]");
  memset(deep, '[', sizeof deep - 1);
  deep[sizeof deep - 1] = 0;
  REFUSED(onig_translate(deep, &out), GRPO_ELIMIT, "nested");
  Buf lengthy = {0};
  for (int i = 0; i < 70000; i++) buf_putc(&lengthy, 'a');
  REFUSED(onig_translate(lengthy.data, &out), GRPO_ELIMIT, "too long");
  buf_free(&lengthy);
  buf_free(&out);
  REFUSED(replace_all("(", "a", &out), GRPO_EARG, "regular expression");
}
