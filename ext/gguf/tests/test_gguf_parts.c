/* Tokenizers whose components GGUF has no form for. */
#include <string.h>

#include "gguf/gguf_tokenizer_write.h"
#include "gguf/gguf_write.h"
#include "os/file.h"
#include "status.h"
#include "text/oracle.inc.c"
#include "text/tokenizer_files.h"

/* The model of the cases, after its opening brace. */
static Buf model;

/* The tokenizer that has these components. */
static Tokenizer *with_parts(const char *parts) {
  Buf b = {0};
  Tokenizer *t = NULL;
  const char *path = test_path("%s/tokenizer.json", test_tmp());
  buf_printf(&b, "{%s,", parts);
  buf_put(&b, model.data + 1, model.len - 1);
  CHECK(file_replace(path, b.data, b.len) == GRPO_OK);
  if (tokenizer_load(&t, path)) test_fail(__FILE__, __LINE__, "%s", err_message());
  buf_free(&b);
  return t;
}

/* A component that GGUF has no key for is named. */
TEST(a_gguf_file_without_a_form_names_the_component) {
  static const char *const cases[][2] = {
      {"\"decoder\":{\"type\":\"ByteLevel\"},\"pre_tokenizer\":{\"type\":\"ByteLevel\","
       "\"add_prefix_space\":false},\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{"
       "\"type\":"
       "\"NFKC\"},{\"type\":\"Lowercase\"}]}",
       "(NFKC, Lowercase)"},
      {"\"decoder\":{\"type\":\"ByteLevel\"},\"normalizer\":{\"type\":\"Precompiled\","
       "\"precompiled_charsmap\":\"BAAAAAAAAAA=\"},\"pre_tokenizer\":{\"type\":\"ByteLevel\"}",
       "(Precompiled)"},
      {"\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}", "byte_fallback"},
  };
  const GgufTokens rows = {.rows = 2000, .bos = -1, .eos = -1, .pad = -1};
  model = read_all("tests/cases/tokenizer_parts/model.json");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    GgufMeta m = {0};
    Tokenizer *t = with_parts(cases[i][0]);
    if (t) REFUSED(gguf_tokenizer_write(t, &rows, &m), GRPO_EFORMAT, cases[i][1]);
    tokenizer_free(t);
    gguf_meta_free(&m);
  }
  buf_free(&model);
}

/* A Split after ByteLevel sees its alphabet; llama.cpp's patterns see the text itself. */
TEST(a_gguf_file_has_no_name_for_what_follows_byte_level) {
  const GgufTokens rows = {.rows = 2000, .bos = -1, .eos = -1, .pad = -1};
  model = read_all("tests/cases/tokenizer_parts/model.json");
  for (int i = 0; i < 2; i++) {
    Buf parts = {0};
    GgufMeta m = {0};
    const char *bytes = "{\"type\":\"ByteLevel\",\"use_regex\":false,\"add_prefix_space\":false}";
    const char *split = "{\"type\":\"Split\",\"behavior\":\"Isolated\",\"invert\":false,"
                        "\"pattern\":{\"Regex\":\"'s|'t|'re|'ve|'m|'ll|'d| ?\\\\p{L}+| ?\\\\p{N}+|"
                        " ?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+(?!\\\\S)|\\\\s+\"}}";
    buf_puts(&parts, "\"decoder\":{\"type\":\"ByteLevel\"},\"pre_tokenizer\":{\"type\":"
                     "\"Sequence\",\"pretokenizers\":[");
    buf_printf(&parts, "%s,%s]}", i ? bytes : split, i ? split : bytes);
    buf_putc(&parts, 0);
    Tokenizer *t = with_parts(parts.data);
    const Status s = t ? gguf_tokenizer_write(t, &rows, &m) : GRPO_OK;
    CHECK(s == (i ? GRPO_EFORMAT : GRPO_OK));
    if (i) CHECK(strstr(err_message(), "after ByteLevel"));
    tokenizer_free(t);
    gguf_meta_free(&m);
    buf_free(&parts);
  }
  buf_free(&model);
}
