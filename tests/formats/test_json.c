#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/mem.h"
#include "json_put.h"
#include "os/file.h"
#include "testing.h"

static Json *parse(const char *text) {
  Json *j = NULL;
  if (json_parse(text, strlen(text), "text", &j) != GRPO_OK)
    test_fail(__FILE__, __LINE__, "%s: %s", text, err_message());
  return j;
}

/* The message a bad text gives, or "ok". */
static const char *error_of(const char *text, size_t n) {
  Json *j;
  const Status st = json_parse(text, n, "f.json", &j);
  json_free(j);
  if (st != GRPO_OK && (j || st != GRPO_EFORMAT)) return "wrong status";
  return st == GRPO_OK ? "ok" : err_message();
}
#define ERROR_OF(s) error_of(s, sizeof s - 1)

TEST(a_document_comes_back_as_it_was_written) {
  static const char *texts[] = {
      "null",
      "true",
      "-0",
      "[]",
      "{}",
      "\"\"",
      "[1,2.5,-3e-7,1e22,\"a\"]",
      "{\"a\":{\"b\":[[],{}]},\"\":null,\"a\":false}",
      "\"\\\"\\\\\\b\\f\\n\\r\\t\\u0001/\xc3\xa9\xf0\x9f\x98\x80\"",
      "[0.1,1.2345678901234568e17,9007199254740991,5e-324,1.7976931348623157e308]"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    Buf b = {0};
    Json *j = parse(texts[i]);
    if (!j) continue;
    put_json(&b, j);
    CHECK_STR(b.data, texts[i]);
    json_free(j);
    buf_free(&b);
  }
}

TEST(walking_a_tree) {
  Json *j = parse(" {\"n\": 3, \"list\": [1, \"two\"], \"yes\": true, \"n\": 4} ");
  CHECK(json_type(j) == JSON_OBJECT && json_count(j) == 4 && json_key(j) == NULL);
  CHECK(json_number(json_get(j, "n")) == 4); /* the last of two */
  CHECK(json_bool(json_get(j, "yes")) && !json_bool(json_get(j, "n")));
  CHECK(json_get(j, "absent") == NULL && json_get(json_get(j, "n"), "n") == NULL);
  const Json *list = json_get(j, "list");
  CHECK(json_count(list) == 2 && json_key(json_child(list)) == NULL);
  CHECK_STR(json_string(json_next(json_child(list))), "two");
  CHECK(json_string(json_child(list)) == NULL && isnan(json_number(j)));
  json_free(j);
  json_free(NULL);
}

TEST(integers_are_exact_or_refused) {
  int64_t v = 0;
  Json *j = parse("[9007199254740992, -7, 1e3, 1.5, 9007199254740994, \"1\"]");
  const Json *c = json_child(j);
  CHECK(json_integer(c, &v) && v == 9007199254740992);
  c = json_next(c);
  CHECK(json_integer(c, &v) && v == -7);
  c = json_next(c);
  CHECK(json_integer(c, &v) && v == 1000);
  while ((c = json_next(c))) CHECK(!json_integer(c, &v));
  json_free(j);
}

TEST(whole_numbers_are_told_from_others) {
  int64_t v = 0;
  Json *j = parse("[9223372036854775807, -9223372036854775808, -0, 1.0, 1e3, 9223372036854775808]");
  const Json *c = json_child(j);
  CHECK(json_int64(c, &v) && v == INT64_MAX);
  c = json_next(c);
  CHECK(json_int64(c, &v) && v == INT64_MIN);
  c = json_next(c);
  CHECK(json_int64(c, &v) && v == 0 && signbit(json_number(c)));
  while ((c = json_next(c))) CHECK(!json_int64(c, &v));
  CHECK(!json_int64(j, &v) && !json_int64(NULL, &v));
  json_free(j);
}

TEST(escapes_and_surrogate_pairs_are_decoded) {
  Json *j = parse("\"\\u00e9\\uD83D\\uDE00\\/\\u20ac\"");
  CHECK_STR(json_string(j), "\xc3\xa9\xf0\x9f\x98\x80/\xe2\x82\xac");
  json_free(j);
}

/* clang-format off */
static const char *const accepted[] = {
    "[[]   ]", "[\"\"]", "[\"a\"]", "[false]", "[null, 1, \"1\", {}]", "[1\n]", " [1]",
    "[1,null,null,2]", "[2] ", "[123e65]", "[0e+1]", "[0e1]", "[ 4]", "[20e1]", "[-0]", "[-123]",
    "[-1]", "[1E22]", "[1E-2]", "[1E+2]", "[123e45]", "[123.456e78]", "[1e-2]", "[1e+2]", "[123]",
    "[123.456789]", "{\"asd\":\"sdf\", \"dfg\":\"fgh\"}", "{\"a\":\"b\",\"a\":\"c\"}", "{\"\":0}",
    "{\n\"a\": \"b\"\n}", "[\"\\u0060\\u012a\\u12AB\"]", "[\"\\uD801\\udc37\"]",
    "[\"a/*b*/c/*d//e\"]", "[\"\\\\a\"]", "[\"\\u0012\"]", "[\"\xef\xbf\xbf\"]", "[\"\\uFFFF\"]",
    "[\"\x7f\"]", "[\"\xe2\x80\xa8\"]", "\" \"", "42", "-0.1", "null", "\"asd\"", "true", "[]",
    "[true]", "\t[]\r\n", "[1e-400]", "\xef\xbb\xbf{}",
    "[-0.000000000000000000000000000000000000000000000000000000000000000000000000000001]"
};
/* clang-format on */

TEST(texts_that_are_json_are_accepted) {
  for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++)
    CHECK_STR(error_of(accepted[i], strlen(accepted[i])), "ok");
}

/* clang-format off */
static const char *const refused[] = {
    "", " ", "[1 true]", "[\"\": 1]", "[\"\"],", "[,1]", "[1,,2]", "[\"x\",,]", "[\"x\"]]",
    "[\"\",]", "[\"x\"", "[x", "[3[4]]", "[1:2]", "[,]", "[-]", "[   , \"\"]", "[1,]", "[*]", "[1,",
    "[", "[fals]", "[nul]", "[tru]", "[++1234]", "[+1]", "[+Inf]", "[-01]", "[-1.0.]", "[-2.]",
    "[-NaN]", "[.-1]", "[.2e-3]", "[0.1.2]", "[0.3e+]", "[0.3e]", "[0.e1]", "[0E+]", "[0E]",
    "[1.0e+]", "[1 000.0]", "[1eE2]", "[2.e3]", "[9.e+3]", "[Inf]", "[NaN]", "[1+2]", "[0x1]",
    "[0x42]", "[Infinity]", "[1e400]", "[-Infinity]", "[-foo]", "[- 1]", "[-012]", "[-.123]",
    "[1ea]", "[1.]", "[.123]", "[1.2a-3]", "[012]", "[\"x\", truth]", "{[: \"x\"}", "{\"x\", null}",
    "{\"x\"::\"b\"}", "{\"a\":\"a\" 123}", "{key: 'value'}", "{\"a\" b}", "{:\"b\"}", "{\"a\"}",
    "{\"a\"", "{\"a\":", "{1:1}", "{null:null}", "{\"id\":0,,,,,}", "{'a':0}", "{\"id\":0,}",
    "{\"a\":\"b\"}/**/", "{\"a\":\"b\"}#", "{\"a\":\"b\",,}", "{a: \"b\"}", "{\"a\":\"a",
    "{ \"foo\" : \"bar\", \"a\" }", "{\"a\":\"b\"}}", "[\"\\uD800\\\"]", "[\"\\uD800\\u\"]",
    "[\"\\uD800\\u1x\"]", "[\"\\uD800\"]", "[\"\\uDC00\\uD800\"]", "[\\u000A\"\"]", "[\"\\x00\"]",
    "[\"\\\\\\\"]", "[\"\\\t\"]", "[\"\\a\"]", "[\"\\u\"]", "[\"\\uqqqq\"]", "[\"\\u00A\"]", "\"",
    "['single']", "abc", "[\"\\", "[\"new\nline\"]", "[\"\t\"]", "\"x", "<.>", "[<null>]", "[1]x",
    "[\"asd]", "aTrue", "[True]", "1]", "{\"x\": true,", "[][]", "]", "{}}", "{\"\":", "[\xff]",
    "[\"\xff\"]", "[\"\xc0\xaf\"]", "[\"\xed\xa0\x80\"]", "[\"\xf4\xbf\xbf\xbf\"]", "\xe5",
    "[\xc2\xa0]", "\xef\xbb", "[\"a\\u0000b\"]", "[\f1]", "2 3", "{\"a\":1 \"b\":2}", "// c\n1",
    "[undefined]", "{"
};
/* clang-format on */

TEST(texts_that_are_not_json_are_refused) {
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    if (!strcmp(error_of(refused[i], strlen(refused[i])), "ok"))
      test_fail(__FILE__, __LINE__, "accepted: %s", refused[i]);
  CHECK(strcmp(ERROR_OF("[1]\0"), "ok") != 0);
  CHECK(strcmp(ERROR_OF("[\"a\0b\"]"), "ok") != 0);
}

TEST(every_cut_of_a_text_is_refused) {
  static const char text[] =
      "{\"a\":[1.5e3,true,null,\"\\u00e9\\ud83d\\ude00\xc3\xa9\\n\"],\"b\":{}}";
  for (size_t n = 0; n < sizeof text - 1; n++) {
    char *exact = malloc(n ? n : 1); /* so that reading past the end is seen */
    memcpy(exact, text, n);
    CHECK(strcmp(error_of(exact, n), "ok") != 0);
    free(exact);
  }
  CHECK_STR(ERROR_OF(text), "ok");
}

TEST(messages_name_source_line_and_column) {
  CHECK_STR(ERROR_OF("{\n  \"a\": 1,\n  \"b\": tru\n}"),
            "f.json:3:8: expected a value (text wants double quotes)");
  CHECK_STR(ERROR_OF("[\"\xc3\xa9\", 01]"), "f.json:1:7: a number must not begin with 0");
  CHECK_STR(ERROR_OF("[1,\n \"x"), "f.json:2:2: a string that begins here has no end");
  CHECK_STR(ERROR_OF("{} x"), "f.json:1:4: more text after the end of the value");
  CHECK_STR(ERROR_OF("[\"\\u0000\"]"), "f.json:1:3: \\u0000 in a string is not supported");
  Json *j;
  static const char zeros[] = "{\"a\\u0000\": \"\\\\u0000\\u0000\"}";
  CHECK(json_parse_zeros(zeros, sizeof zeros - 1, "f.json", &j) == GRPO_OK);
  CHECK_STR(json_key(json_child(j)), "a" JSON_ZERO);
  CHECK_STR(json_string(json_child(j)), "\\u0000" JSON_ZERO);
  json_free(j);
  CHECK_STR(ERROR_OF("[\"\xff\"]"), "f.json:1:3: not UTF-8");
}

TEST(rows_take_what_other_programs_write) {
  Json *j;
  static const char text[] = "[\"\\ud800\\ud800\\udc00\", NaN,Infinity , -Infinity, -0, "
                             "9223372036854775808,-9223372036854775809 ,\"a\", \"\\u0000\"]";
  CHECK(json_parse_rows(text, sizeof text - 1, "f.json", &j) == GRPO_OK);
  const Json *e = json_child(j);
  CHECK_STR(json_string(e), "\xef\xbf\xbd\xf0\x90\x80\x80");
  CHECK(json_type(e = json_next(e)) == JSON_NUMBER && isnan(json_number(e)));
  CHECK(json_number(e = json_next(e)) == (double)INFINITY);
  CHECK(json_number(e = json_next(e)) == (double)-INFINITY);
  CHECK(json_number(e = json_next(e)) == 0);
  CHECK_STR(json_string(e = json_next(e)), "9223372036854775808");
  CHECK_STR(json_string(e = json_next(e)), "-9223372036854775809");
  CHECK_STR(json_string(e = json_next(e)), "a");
  CHECK_STR(json_string(e = json_next(e)), JSON_ZERO);
  json_free(j);
  CHECK(json_parse_rows("9223372036854775808", 19, "f.json", &j) == GRPO_OK);
  CHECK(json_number(j) == 9223372036854775808.0);
  json_free(j);
  CHECK(json_parse_rows("[Nan]", 5, "f.json", &j) == GRPO_EFORMAT);
  CHECK_STR(ERROR_OF("[NaN]"), "f.json:1:2: expected a value (text wants double quotes)");
  CHECK_STR(ERROR_OF("[-Infinity]"), "f.json:1:2: a number wants a digit after the minus sign");
  CHECK_STR(ERROR_OF("[\"\\ud800\"]"), "f.json:1:3: half of a surrogate pair in a string");
}

TEST(nesting_has_a_limit) {
  char text[2 * (JSON_MAX_DEPTH + 1)];
  const size_t d = JSON_MAX_DEPTH;
  memset(text, '[', d + 1);
  memset(text + d + 1, ']', d + 1);
  CHECK_STR(error_of(text + 1, 2 * d), "ok");
  CHECK(strstr(error_of(text, 2 * d + 2), "1:201: nested too deeply"));
  const size_t n = 1 << 20;
  char *huge = malloc(n);
  memset(huge, '[', n);
  CHECK(strstr(error_of(huge, n), "nested too deeply"));
  for (size_t i = 0; i + 5 <= n; i += 5) memcpy(huge + i, "{\"\":{", 5);
  CHECK(strcmp(error_of(huge, n), "ok") != 0);
  free(huge);
}

TEST(numbers_of_any_length_keep_their_value) {
  char text[400] = "[1,";
  size_t n = 3;
  for (int i = 0; i < 200; i++) text[n++] = (char)('0' + (i + 1) % 10);
  memcpy(text + n, ".5, \"a\\\"12\",3]", 15);
  Json *j = parse(text);
  const Json *c = json_next(json_child(j));
  CHECK_NEAR(json_number(c) / 1.2345678901234568e199, 1, 1e-15);
  CHECK_STR(json_string(json_next(c)), "a\"12");
  CHECK(json_number(json_next(json_next(c))) == 3);
  json_free(j);
}

static const char *number(double v) {
  static char ring[4][64];
  static int next;
  Buf b = {0};
  json_put_number(&b, v);
  char *s = strcpy(ring[next++ % 4], b.data);
  buf_free(&b);
  return s;
}

TEST(numbers_are_written_short_and_exact) {
  CHECK_STR(number(0), "0");
  CHECK_STR(number(-0.0), "-0");
  CHECK_STR(number(0.1), "0.1");
  CHECK_STR(number(100000), "100000");
  CHECK_STR(number(0x1p53), "9007199254740992");
  CHECK_STR(number(1e-5), "1e-5");
  CHECK_STR(number(-1e300), "-1e300");
  CHECK_STR(number(1.0 / 3), "0.3333333333333333");
  CHECK_STR(number(DBL_TRUE_MIN), "5e-324");
  CHECK_STR(number((double)NAN), "null");
  CHECK_STR(number((double)-INFINITY), "null");
  uint64_t bits = 88172645463325252u;
  for (int i = 0; i < 20000; i++) {
    bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17;
    double v;
    memcpy(&v, &bits, sizeof v);
    if (isfinite(v) && strtod(number(v), NULL) != v) test_fail(__FILE__, __LINE__, "%a", v);
  }
}

TEST(the_hosts_decimal_comma_changes_nothing) {
  if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "fr_FR.UTF-8")) {
    test_skip("no locale with a decimal comma is installed");
    return;
  }
  CHECK_STR(number(0.5), "0.5");
  Json *j = parse("[1.5, 2.5e1]");
  CHECK(json_number(json_child(j)) == 1.5 && json_number(json_next(json_child(j))) == 25);
  json_free(j);
  setlocale(LC_NUMERIC, "C");
}

TEST(written_strings_are_valid_whatever_the_bytes) {
  char s[256];
  for (int i = 0; i < 256; i++) s[i] = (char)i;
  Buf b = {0};
  json_put_string(&b, s, sizeof s);
  CHECK(!strpbrk(b.data, "\n\x7f") && !memchr(b.data, 0, b.len));
  /* byte 0 is the one thing that cannot be read back */
  CHECK(strncmp(b.data, "\"\\u0000\\u0001", 13) == 0);
  memmove(b.data + 1, b.data + 7, b.len - 6);
  Json *j = parse(b.data);
  CHECK(j && strlen(json_string(j)) == 127 + 128 * 3);
  json_free(j);
  buf_free(&b);
}

TEST(files_are_read_with_their_name_in_messages) {
  Json *j;
  const char *path = test_path("%s/a.json", test_tmp());
  CHECK(file_replace(path, "{\"a\":}", 6) == GRPO_OK);
  CHECK(json_read_file(path, 0, &j) == GRPO_EFORMAT && !j);
  CHECK(strstr(err_message(), "/a.json:1:6: expected a value"));
  CHECK(json_read_file(path, 5, &j) == GRPO_ELIMIT);
  CHECK(json_read_file(test_path("%s/none", test_tmp()), 0, &j) == GRPO_ENOENT);
  CHECK(file_replace(path, "", 0) == GRPO_OK);
  CHECK(json_read_file(path, 0, &j) == GRPO_EFORMAT);
}

TEST(running_out_of_memory_is_a_status_and_leaks_nothing) {
  static const char text[] = "{\"a\":[1,\"b\",{\"c\":null}],\"d\":"
                             "1234567890123456789012345678901234567890123456789012345678901234567}";
  const size_t live = mem_live_bytes();
  Status st = GRPO_ENOMEM;
  for (uint64_t n = 1; n < 100 && st != GRPO_OK; n++) {
    Json *j;
    mem_fail_after(n);
    st = json_parse(text, sizeof text - 1, "text", &j);
    mem_fail_after(0);
    CHECK(st == GRPO_OK || (st == GRPO_ENOMEM && !j));
    json_free(j);
  }
  CHECK(st == GRPO_OK);
  CHECK(mem_live_bytes() == live);
}
