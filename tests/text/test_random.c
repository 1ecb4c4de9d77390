/* Random tokenizers of every component and option, and models of SentencePiece: the reference's ids
 * and texts.
 *
 * tests/oracles/tokenizer_random.py and tokenizer_sentencepiece.py make the cases.  TOKENIZER_CASES
 * names a directory with others than the committed ones.
 */
#include <stdlib.h>
#include <string.h>

#include "oracle.inc.c"
#include "os/file.h"
#include "text/tokenizer_files.h"

typedef struct Cases {
  Json *models; /* the members vocab and merges, as text */
  int number, rows, wrong;
} Cases;

static void make_file(const Json *row, const Json *models, Buf *b) {
  int64_t index = 0;
  CHECK(json_integer(json_get(row, "model"), &index));
  const Json *model = json_child(models);
  while (model && index-- > 0) model = json_next(model);
  buf_printf(b, "{%s,\"model\":{%s,", json_string(json_get(row, "parts")),
             json_string(json_get(row, "options")));
  buf_puts(b, json_string(model));
  buf_puts(b, "}}");
}

static bool ids_agree(const Tokenizer *t, const Json *r, const char *key, unsigned flags) {
  const Json *want = json_get(r, key);
  if (!want) return true;
  Buf text = row_text(r, "text");
  IntBuf ids = {0}, expected = ids_of(want);
  const bool same = tokenizer_encode(t, text.data, text.len, flags, &ids) == GRPO_OK &&
                    ids.len == expected.len &&
                    (!ids.len || memcmp(ids.data, expected.data, ids.len * sizeof *ids.data) == 0);
  buf_free(&text);
  intbuf_free(&ids);
  intbuf_free(&expected);
  return same;
}

static bool text_agrees(const Tokenizer *t, const Json *r, const char *key, bool skip) {
  if (!json_get(r, key)) return true;
  Buf want = row_text(r, key), got = {0};
  IntBuf ids = ids_of(json_get(r, "ids_special"));
  const bool same = tokenizer_decode(t, ids.data, ids.len, skip, &got) == GRPO_OK &&
                    got.len == want.len && (!got.len || memcmp(got.data, want.data, got.len) == 0);
  buf_free(&want);
  buf_free(&got);
  intbuf_free(&ids);
  return same;
}

/* The first member of the row that differs, or NULL. */
static const char *row_differs(const Tokenizer *t, const Json *r) {
  if (json_get(r, "text") && !ids_agree(t, r, "ids", 0)) return "ids";
  if (json_get(r, "text") && !ids_agree(t, r, "ids_special", TOK_ADD_SPECIAL)) return "ids_special";
  if (json_get(r, "text") && !ids_agree(t, r, "ids_plain", TOK_NO_PARSE_SPECIAL))
    return "ids_plain";
  if (!text_agrees(t, r, "decoded", false)) return "decoded";
  return text_agrees(t, r, "decoded_skip", true) ? NULL : "decoded_skip";
}

static void check_case(const Json *row, void *user) {
  Cases *c = user;
  Buf file = {0};
  Tokenizer *t = NULL;
  const char *path = test_path("%s/tokenizer.json", test_tmp());
  make_file(row, c->models, &file);
  CHECK(file_replace(path, file.data, file.len) == GRPO_OK);
  if (tokenizer_load(&t, path)) {
    c->wrong++;
    test_fail(__FILE__, __LINE__, "case %d: %s", c->number, err_message());
  }
  int i = 0;
  const char *differs = NULL;
  for (const Json *r = json_child(json_get(row, "rows")); r && t && !differs; r = json_next(r), i++)
    differs = row_differs(t, r);
  if (differs) {
    c->wrong++;
    test_fail(__FILE__, __LINE__, "case %d, row %d: %s", c->number, i - 1, differs);
  }
  c->rows += i;
  c->number++;
  tokenizer_free(t);
  buf_free(&file);
}

/* Runs the cases of a directory; returns how many there are. */
static int run_cases(const char *directory, int *rows) {
  Cases c = {0};
  CHECK(json_read_file(test_path("%s/models.json", directory), 1 << 26, &c.models) == GRPO_OK);
  const int cases = each_row(test_path("%s/cases.jsonl", directory), check_case, &c);
  CHECK(c.wrong == 0);
  json_free(c.models);
  *rows = c.rows;
  return cases;
}

TEST(random_tokenizers_give_the_references_ids_and_texts) {
  const char *other = getenv("TOKENIZER_CASES");
  int rows;
  if (other)
    run_cases(other, &rows);
  else
    CHECK(run_cases("tests/cases/tokenizer_random", &rows) == 100 && rows == 100 * 11);
}

/* Files like those of XLM-R, T5 and ALBERT, whose tables SentencePiece has made. */
TEST(sentencepiece_models_give_the_references_ids_and_texts) {
  int rows;
  CHECK(run_cases("tests/cases/tokenizer_sentencepiece", &rows) == 4 && rows == 4 * 45);
}
