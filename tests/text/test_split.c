/* How well-known files cut text, against the reference.  ByteLevel puts a space before every piece
 * that has none, so that ids of single bytes show where the cuts are. */
#include "oracle.inc.c"
#include "text/tokenizer_files.h"

static void row(const Json *j, void *t) { check_encode_row(t, j); }

static void check_split(const char *name) {
  Tokenizer *t = NULL;
  CHECK(tokenizer_load(&t, test_path("tests/cases/split/%s.json", name)) == GRPO_OK);
  if (!t) return;
  CHECK(each_row(test_path("tests/cases/split/%s.jsonl", name), row, t) == 86);
  tokenizer_free(t);
}

TEST(o200k_cuts_as_the_reference) { check_split("o200k"); }
TEST(tekken_cuts_as_the_reference) { check_split("tekken"); }
TEST(deepseek_cuts_as_the_reference) { check_split("deepseek"); }
