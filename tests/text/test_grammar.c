/* Grammars and regular expressions: which texts are theirs, which tokens may follow, what is
 * refused. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/regex.h"
#include "testing.h"
#include "text/grammar_match.h"
#include "text/tokenizer_make.h"

enum { VOCAB = 258, END = 257 };

static Tokenizer *byte_tokens(void) {
  static Tokenizer *t;
  if (!t) CHECK(!tokenizer_bytes(&t));
  return t;
}

static Matcher *matcher(const char *text, bool regex) {
  static const int32_t ends[] = {END};
  Grammar *g = NULL;
  Matcher *m = NULL;
  if ((regex ? grammar_from_regex : grammar_from_gbnf)(&g, text, strlen(text)) != GRPO_OK) {
    test_fail(__FILE__, __LINE__, "%s: %s", text, err_message());
    return NULL;
  }
  CHECK(!matcher_new(&m, g, byte_tokens(), VOCAB, ends, 1));
  grammar_free(g);
  return m;
}

/* 1: a text of the grammar; 0: the beginning of one; -1: neither. */
static int stands(Matcher *m, const char *s, size_t n) {
  int32_t state = 0;
  CHECK(!matcher_bytes(m, &state, s, n));
  return state < 0 ? -1 : matcher_complete(m, state);
}

static int place(Matcher *m, const char *s) { return stands(m, s, strlen(s)); }

static const char json[] =
    "root   ::= object\n"
    "value  ::= object | array | string | number | (\"true\" | \"false\" | \"null\") ws\n"
    "object ::= \"{\" ws ( string \":\" ws value (\",\" ws string \":\" ws value)* )? \"}\" ws\n"
    "array  ::= \"[\" ws ( value (\",\" ws value)* )? \"]\" ws # with a comment\n"
    "string ::= \"\\\"\" ([^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\bfnrt] | \"u\" "
    "[0-9a-fA-F]{4}))* \"\\\"\" ws\n"
    "number ::= (\"-\"? ([0-9] | [1-9] [0-9]{0,15})) (\".\" [0-9]+)? ([eE] [-+]? [0-9]+)? ws\n"
    "\n"
    "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n";

TEST(a_grammar_of_json_takes_json) {
  static const char *const whole[] = {"{}",
                                      "{ \"a\": [1, -2.5e3, {\"b\": null}], \"\\u00e9\": true}",
                                      "{\"\xC3\xA9\xF0\x9F\x98\x80\":\"x\"}", "{\n  \"a\":1}"};
  static const char *const begun[] = {"", "{", "{\"a", "{\"a\":[[[[[[", "{\"\xF0\x9F"};
  static const char *const wrong[] = {"[",           "{a",       "{\"a\":01x", "{}}",
                                      "{\"a\":tru}", "{\"\xC3(", "{\"\n"};
  Matcher *m = matcher(json, false);
  for (int i = 0; i < 4; i++) CHECK(place(m, whole[i]) == 1);
  for (int i = 0; i < 5; i++) CHECK(place(m, begun[i]) == 0);
  for (int i = 0; i < 7; i++) CHECK(place(m, wrong[i]) == -1);
  matcher_free(m);
}

TEST(each_part_of_the_notation_means_what_it_should) {
  static const struct {
    const char *grammar, *whole, *wrong;
  } rows[] = {
      {"root ::= \"a\"", "a", "b"},
      {"root ::= [a-c]+", "abcabc", "abd"},
      {"root ::= [^a-c]", "\xC3\xA9", "b"},
      {"root ::= [-a]+", "-a", "+"},
      {"root ::= [a-]+", "-a", "+"},
      {"root ::= .", "\n", "ab"},
      {"root ::= \"a\" ?  \"b\"", "b", "aab"},
      {"root ::= \"a\"{2}", "aa", "aaa"},
      {"root ::= \"a\"{2,}", "aaaa", "b"},
      {"root ::= (\"a\" | \"b\" \"c\"){1,2}", "abc", "abca"},
      {"root ::= x |\n  y\nx ::= \"x\"\ny ::= \"y\"", "y", "z"},
      {"# c\nroot ::= (\n \"a\" # b\n \"b\"\n)\n", "ab", "ba"},
      {"root ::= \"\\x41\\u00e9\\U0001F600\\\"\\\\\"", "A\xC3\xA9\xF0\x9F\x98\x80\"\\",
       "A\xC3\xA8"},
      {"root ::= \"(\" root \")\" | \"\"", "((()))", "())"},
      {"root ::= (\"a\"?)* \"b\"", "aab", "ba"},
      {"root ::= \"\" \"a\"", "a", "b"},
      {"root-1 ::= \"q\"\nroot ::= root-1", "q", "r"},
      {"root ::= [\xC3\xA0-\xC3\xBC]", "\xC3\xA9", "\xC3\xBD"},
      {"root ::= [\\u0000-\\U0010FFFF]", "\xF4\x8F\xBF\xBF", "\xED\xA0\x80"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    Matcher *m = matcher(rows[i].grammar, false);
    if (!m) continue;
    if (place(m, rows[i].whole) != 1 || place(m, rows[i].wrong) != -1)
      test_fail(__FILE__, __LINE__, "%s: %d %d", rows[i].grammar, place(m, rows[i].whole),
                place(m, rows[i].wrong));
    matcher_free(m);
  }
}

/* ---- against PCRE2 -------------------------------------------------------------------------- */

static uint32_t seed = 7;
static uint32_t draw(uint32_t n) {
  seed = seed * 1664525 + 1013904223;
  return (seed >> 8) % n;
}

static size_t random_text(char *s, size_t most) {
  static const char *const parts[] = {"a", "b",        "ab",           "0", "9", " ", "\n", "_",
                                      "-", "\xC3\xA9", "\xE2\x82\xAC", "]"};
  size_t n = 0;
  for (uint32_t k = draw(8); k > 0; k--) {
    const char *p = parts[draw(12)];
    if (n + strlen(p) > most) break;
    memcpy(s + n, p, strlen(p));
    n += strlen(p);
  }
  return n;
}

TEST(expressions_take_the_texts_that_pcre2_matches) {
  static const char *const patterns[] = {"a*",           "(a|b)+",
                                         "a{2,3}b?",     "[ab]+[0-9]",
                                         "\\d+",         "\\w+\\s?",
                                         "[^a]*",        "(?:ab)*a?",
                                         "^a.b$",        ".*",
                                         "a|b|ab",       "[\xC3\xA9-\xE2\x82\xAC]+",
                                         "[\\w-]+",      "\\S*",
                                         "\\W\\D*",      "[]a]+",
                                         "[^]a]+",       "\\x61\\x{20ac}?",
                                         "a??b*?",       "(a(b(0|9)*)?)+",
                                         "[a\\d_]{1,4}", "",
                                         "()a",          "\\.|\\]|\\\\"};
  int matched = 0, tried = 0;
  for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
    Regex *re = NULL;
    Matcher *m = matcher(patterns[i], true);
    /* \d \w \s are of ASCII here */
    CHECK(!regex_compile(&re, patterns[i], strlen(patterns[i]), REGEX_ANCHORED_FULL));
    for (int k = 0; m && k < 2000; k++) {
      char s[64];
      const size_t *bounds, n = random_text(s, sizeof s);
      bool found = false;
      const bool ascii_kind = strchr(patterns[i], '\\') && memchr(s, '\xC3', n);
      if (ascii_kind) continue; /* PCRE2 counts e with an accent as a letter */
      CHECK(!regex_exec(re, s, n, 0, &found, &bounds));
      if ((stands(m, s, n) == 1) != found)
        test_fail(__FILE__, __LINE__, "%s: '%.*s' %d, PCRE2 says %d", patterns[i], (int)n, s,
                  stands(m, s, n), found);
      matched += found;
      tried++;
    }
    matcher_free(m);
    regex_free(re);
  }
  CHECK(tried > 30000 && matched > 3000);
}

/* ---- which tokens may follow ---------------------------------------------------------------- */

TEST(the_tokens_that_may_follow_are_those_that_do_not_leave_the_grammar) {
  Matcher *m = matcher(json, false);
  for (int k = 0; k < 200; k++) {
    int32_t state = 0;
    for (int t = 0; t < 40; t++) {
      const uint32_t *allowed;
      int n, count = 0;
      CHECK(!matcher_allowed(m, state, &allowed, &n));
      for (int id = 0; id < VOCAB; id++) {
        const bool bit = allowed[id >> 5] >> (id & 31) & 1;
        int32_t to = state;
        count += bit;
        if (id < 256) {
          CHECK(!matcher_token(m, &to, id));
          CHECK(bit == (to >= 0));
        } else {
          CHECK(bit == (id == END && matcher_complete(m, state)));
        }
      }
      CHECK(count == n && n > 0);
      int pick = (int)draw((uint32_t)n), id = 0;
      for (;; id++)
        if (allowed[id >> 5] >> (id & 31) & 1 && pick-- == 0) break;
      if (id == END) break;
      CHECK(!matcher_token(m, &state, id));
    }
  }
  matcher_free(m);
}

TEST(nothing_follows_where_the_vocabulary_lacks_the_characters) {
  static const int32_t ends[] = {0};
  Tokenizer *t = NULL;
  Grammar *g = NULL;
  Matcher *m = NULL;
  const uint32_t *allowed;
  int n = -1;
  CHECK(!tokenizer_chars(&t, "ab", 2));
  CHECK(!grammar_from_regex(&g, "x+", 2));
  CHECK(!matcher_new(&m, g, t, tokenizer_size(t), ends, 0));
  CHECK(!matcher_allowed(m, 0, &allowed, &n) && n == 0);
  matcher_free(m);
  grammar_free(g);
  tokenizer_free(t);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void refused(const char *text, bool regex, const char *why) {
  Grammar *g = NULL;
  const Status s = (regex ? grammar_from_regex : grammar_from_gbnf)(&g, text, strlen(text));
  if (s != GRPO_EARG || !strstr(err_message(), why))
    test_fail(__FILE__, __LINE__, "%s: %s", text, s ? err_message() : "it is taken");
  grammar_free(g);
}

TEST(what_is_no_grammar_is_refused_in_a_line) {
  refused("", false, "no rule root");
  refused("a ::= \"b\"", false, "no rule root");
  refused("root ::= \"a", false, "line 1: a literal has no closing");
  refused("root ::= a\n", false, "line 1: there is no rule a");
  refused("root ::= \"a\"\nroot ::= \"b\"", false, "line 2: the rule root is defined twice");
  refused("root ::= root \"a\" | \"a\"", false, "the rule root is left-recursive");
  refused("root ::= a\na ::= b? c\nb ::= \"b\"\nc ::= a", false, "has no end");
  refused("root ::= a\na ::= b? c \"x\" | \"y\"\nb ::= \"b\"\nc ::= a", false, "is left-recursive");
  refused("root ::= \"a\" root", false, "the rule root has no end");
  refused("root ::= \"a\"{3,2}", false, "ends below where it begins");
  refused("root ::= \"a\"{200000}", false, "more than 100000 times");
  refused("root ::= (((\"a\"{1000}){1000}){1000}){1000}", false, "too large");
  refused("root ::= [z-a]", false, "a range of characters ends below");
  refused("root ::= []", false, "a class without characters");
  refused("root ::= \"\\q\"", false, "an unknown escape");
  refused("root ::= \"a\" )", false, "line 1: want a literal");
  refused("root = \"a\"", false, "want ::=");
  refused("root ::= (\"a\"", false, "a group has no closing )");
  refused("root ::= \"a\"**", false, "two repetitions");
  refused("root ::= \"\xFF\"", false, "not valid UTF-8");
  refused("a(", true, "at byte 3: a group has no closing )");
  refused("a)", true, "a ) without its (");
  refused("(?=a)", true, "only (...) and (?:...)");
  refused("a\\b", true, "not of a regular language");
  refused("(a)\\1", true, "not of a regular language");
  refused("*a", true, "a repetition of nothing");
  refused("a$b", true, "$ at the end");
  refused("[[:alpha:]]", true, "a named class");
  refused("[b-a]", true, "a range of characters has no end");
  refused("a{1", true, "a repetition is {m}");
  refused("\\x{110000}", true, "does not name a character");
}

TEST(depth_and_size_have_limits) {
  Buf b = {0};
  for (int i = 0; i < 300; i++) buf_putc(&b, '(');
  refused(b.data, true, "more than 200 groups");
  buf_clear(&b);
  buf_puts(&b, "root ::= r0\n");
  for (int i = 0; i < 5000; i++) buf_printf(&b, "r%d ::= \"a\"\n", i);
  refused(b.data, false, "more than 4096 rules");
  buf_clear(&b);
  for (int i = 0; i < GRAMMAR_TEXT + 1; i++) buf_putc(&b, 'a');
  refused(b.data, true, "want at most 1048576");
  buf_free(&b);
}

TEST(what_can_be_read_in_too_many_ways_is_refused) {
  Buf b = {0};
  buf_puts(&b, "root ::= r0\n");
  for (int i = 0; i < 40; i++) buf_printf(&b, "r%d ::= r%d \"x\" | r%d \"y\"\n", i, i + 1, i + 1);
  buf_puts(&b, "r40 ::= \"a\"\n");
  Grammar *g = NULL;
  Matcher *m = NULL;
  CHECK(!grammar_from_gbnf(&g, b.data, b.len));
  CHECK(matcher_new(&m, g, byte_tokens(), VOCAB, NULL, 0) == GRPO_ELIMIT);
  CHECK(strstr(err_message(), "in more than 4096 ways") != NULL);
  grammar_free(g);
  buf_free(&b);
}
