/* How names in GGUF files cut text, against the reference.  ByteLevel puts a space before every
 * piece that has none, so that ids of single bytes show where the cuts are. */
#include "gguf/gguf_pre.h"
#include "text/bytelevel.h"
#include "text/oracle.inc.c"
#include "text/tokenizer_files.h"

/* A tokenizer of single bytes that cuts as the name says. */
static Tokenizer *of_name(const char *name) {
  static const char plain[] = "\"add_prefix_space\": false";
  const char *path = test_path("%s/tokenizer.json", test_tmp());
  const GgufPre *pre = gguf_pre_find(name, strlen(name));
  if (!pre) return NULL;
  Buf pre_json = {0}, b = {0};
  gguf_pre_put_json(&pre_json, pre);
  char *at = strstr(pre_json.data, plain);
  CHECK(at != NULL);
  buf_printf(&b,
             "{\"pre_tokenizer\": %.*s\"add_prefix_space\": true%s, \"decoder\": "
             "{\"type\": \"ByteLevel\"}, \"model\": {\"type\": \"BPE\", \"vocab\": {",
             (int)(at - pre_json.data), pre_json.data, at + sizeof plain - 1);
  for (int i = 0; i < 256; i++) {
    Buf spelt = {0};
    bytelevel_put(&spelt, (const char[]){(char)i}, 1);
    json_put_string(&b, spelt.data, spelt.len);
    buf_printf(&b, ": %d%s", i, i < 255 ? ", " : "}, \"merges\": []}}");
    buf_free(&spelt);
  }
  FILE *f = fopen(path, "wb");
  CHECK(f && fwrite(b.data, 1, b.len, f) == b.len && fclose(f) == 0);
  Tokenizer *t = NULL;
  if (tokenizer_load(&t, path) != GRPO_OK)
    test_fail(__FILE__, __LINE__, "%s: %s", name, err_message());
  buf_free(&b), buf_free(&pre_json);
  return t;
}

/* The text of the pieces joined, and the same with a space before each that begins with none. */
static void join(const Json *pieces, Buf *text, Buf *spaced) {
  buf_clear(text), buf_clear(spaced);
  buf_puts(text, ""), buf_puts(spaced, "");
  for (const Json *p = json_child(pieces); p; p = json_next(p)) {
    const char *s = json_string(p);
    buf_puts(text, s);
    buf_printf(spaced, "%s%s", *s == ' ' ? "" : " ", s);
  }
}

static void check_name(const char *name, const Json *texts) {
  Tokenizer *t = of_name(name);
  Buf text = {0}, want = {0}, got = {0};
  CHECK(t != NULL);
  for (const Json *pieces = json_child(texts); t && pieces; pieces = json_next(pieces)) {
    join(pieces, &text, &want);
    IntBuf ids = encode_all(t, text.data, text.len, 0);
    buf_clear(&got);
    for (size_t i = 0; i < ids.len; i++) buf_putc(&got, (char)ids.data[i]);
    if (got.len != want.len || (got.len && memcmp(got.data, want.data, got.len) != 0))
      test_fail(__FILE__, __LINE__, "%s: got '%.*s', want '%s'", name, (int)got.len, got.data,
                want.data);
    intbuf_free(&ids);
  }
  buf_free(&text), buf_free(&want), buf_free(&got);
  tokenizer_free(t);
}

/* gguf_pre.py has the names from llama.cpp, and the pieces from tokenizers. */
TEST(names_of_gguf_files_cut_as_the_reference) {
  Json *names = NULL;
  int count = 0;
  CHECK(json_read_file("ext/gguf/tests/gguf_pre.json", 1 << 20, &names) == GRPO_OK);
  for (const Json *j = json_child(names); j; j = json_next(j), count++) {
    const Json *texts = json_string(j) ? json_get(names, json_string(j)) : j;
    if (json_type(j) == JSON_NULL)
      CHECK(!gguf_pre_find(json_key(j), strlen(json_key(j))));
    else
      check_name(json_key(j), texts);
  }
  CHECK(count == 91);
  json_free(names);
}

/* Texts of equal characters are cut in about linear time and without a deep stack. */
TEST(long_runs_are_cut) {
  enum { LONG = 200000 };
  static const char *const runs[] = {" ",        "A",    "a",   "1",        "\n",
                                     ".",        "'",    " \n", "aA",       "\xe6\x97\xa5",
                                     "\xcc\x81", "Ab1 ", "=",   "\xc2\xa0", "\t"};
  Json *names = NULL;
  CHECK(json_read_file("ext/gguf/tests/gguf_pre.json", 1 << 20, &names) == GRPO_OK);
  for (const Json *j = json_child(names); j; j = json_next(j)) {
    Tokenizer *t = json_type(j) == JSON_ARRAY ? of_name(json_key(j)) : NULL;
    for (size_t i = 0; t && i < sizeof runs / sizeof *runs; i++) {
      Buf text = {0};
      while (text.len < LONG) buf_puts(&text, runs[i]);
      for (int end = 0; end < 2; end++) {
        IntBuf ids = encode_all(t, text.data, text.len, 0);
        if (ids.len < text.len) test_fail(__FILE__, __LINE__, "%s, run %zu", json_key(j), i);
        intbuf_free(&ids);
        buf_putc(&text, 'x');
      }
      buf_free(&text);
    }
    tokenizer_free(t);
  }
  json_free(names);
}
