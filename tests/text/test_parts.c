/* Combinations of normalizers, pre-tokenizers and decoders: the reference's ids and texts. */
#include <string.h>

#include "base/mem.h"
#include "oracle.inc.c"
#include "os/file.h"
#include "status.h"
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

static bool same_ids(const IntBuf *ids, const Json *want) {
  size_t i = 0;
  for (const Json *j = json_child(want); j; j = json_next(j), i++)
    if (i == ids->len || json_number(j) != ids->data[i]) return false;
  return i == ids->len;
}

/* Returns whether the row's text gives its ids, and these its decoded text. */
static bool row_agrees(const Tokenizer *t, const Json *r) {
  Buf text = row_text(r, "text"), want = row_text(r, "decoded"), got = {0};
  IntBuf ids = encode_all(t, text.data, text.len, 0);
  CHECK(tokenizer_decode(t, ids.data, ids.len, false, &got) == GRPO_OK);
  const bool same = same_ids(&ids, json_get(r, "ids")) && got.len == want.len &&
                    (!got.len || memcmp(got.data, want.data, got.len) == 0);
  buf_free(&text), buf_free(&want), buf_free(&got);
  intbuf_free(&ids);
  return same;
}

static void check_case(const Json *row, void *user) {
  int *rows = user, wrong = 0;
  const char *first = NULL;
  Tokenizer *t = with_parts(json_string(json_get(row, "parts")));
  if (!t) return;
  for (const Json *r = json_child(json_get(row, "rows")); r; r = json_next(r), ++*rows) {
    if (row_agrees(t, r)) continue;
    if (!wrong++) first = json_string(json_get(r, "text"));
  }
  if (wrong)
    test_fail(__FILE__, __LINE__, "%s: %d texts differ, the first is \"%s\"",
              json_string(json_get(row, "name")), wrong, first);
  tokenizer_free(t);
}

TEST(every_combination_gives_the_references_ids_and_texts) {
  int rows = 0;
  model = read_all("tests/cases/tokenizer_parts/model.json");
  CHECK(each_row("tests/cases/tokenizer_parts/cases.jsonl", check_case, &rows) == 37);
  CHECK(rows == 37 * 40);
  buf_free(&model);
}

TEST(pre_tokenizers_cannot_make_text_explode) {
  enum { STEPS = 12, N = 20000 };
  Buf parts = {0}, text = {0};
  IntBuf ids = {0};
  buf_puts(&parts, "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[");
  for (int i = 0; i < STEPS; i++)
    buf_puts(&parts, i ? ",{\"type\":\"ByteLevel\",\"use_regex\":false,\"add_prefix_space\":false}"
                       : "{\"type\":\"ByteLevel\",\"use_regex\":false}");
  buf_puts(&parts, "]}");
  buf_putc(&parts, 0);
  for (int i = 0; i < N; i++) buf_puts(&text, "\xC3\xA9");
  model = read_all("tests/cases/tokenizer_parts/model.json");
  Tokenizer *t = with_parts(parts.data);
  if (t) CHECK(tokenizer_encode(t, text.data, text.len, 0, &ids) == GRPO_ELIMIT);
  tokenizer_free(t);
  intbuf_free(&ids);
  buf_free(&parts), buf_free(&text), buf_free(&model);
}
