/* Unigram: the reference's ids, sums worked out by hand, and every way to cut short texts. */
#include <stdlib.h>

#include "base/mem.h"
#include "oracle.inc.c"
#include "os/file.h"
#include "text/tokenizer_files.h"

static Tokenizer *load_model(const char *model) {
  Buf b = {0};
  Tokenizer *t = NULL;
  const char *path = test_path("%s/tokenizer.json", test_tmp());
  buf_printf(&b, "{\"decoder\":{\"type\":\"Fuse\"},\"model\":{\"type\":\"Unigram\",%s}}", model);
  CHECK(file_replace(path, b.data, b.len) == GRPO_OK);
  (void)tokenizer_load(&t, path);
  buf_free(&b);
  return t;
}

static void row(const Json *j, void *t) { check_encode_row(t, j); }

TEST(rows_of_the_reference_are_met) {
  static const char *const name[] = {"plain", "metaspace", "bytes", "some_bytes"};
  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    Tokenizer *t = NULL;
    CHECK(tokenizer_load(&t, test_path("tests/cases/unigram/%s.json", name[i])) == GRPO_OK);
    if (!t) continue;
    CHECK_STR(tokenizer_kind(t), "unigram");
    CHECK(each_row(test_path("tests/cases/unigram/%s.jsonl", name[i]), row, t) > 80);
    tokenizer_free(t);
  }
}

/* Ids as "1 2 3". */
static const char *ids_text(const Tokenizer *t, const char *s) {
  static char out[256];
  IntBuf ids = encode_all(t, s, strlen(s), 0);
  size_t at = 0;
  *out = 0;
  for (size_t i = 0; i < ids.len && at < sizeof out - 16; i++)
    at += (size_t)snprintf(out + at, sizeof out - at, "%s%d", i ? " " : "", (int)ids.data[i]);
  intbuf_free(&ids);
  return out;
}

TEST(the_largest_sum_wins_and_unknown_neighbours_are_one) {
  Tokenizer *t = load_model("\"unk_id\":0,\"vocab\":[[\"?\",0],[\"a\",-1],[\"b\",-2],[\"ab\",-2.5],"
                            "[\"ba\",-4],[\"aab\",-3.75]]");
  if (!t) return;
  CHECK_STR(ids_text(t, "ab"), "3");    /* -2.5 against -1 - 2 */
  CHECK_STR(ids_text(t, "aab"), "1 3"); /* -1 - 2.5 against -3.75 and -1 - 1 - 2 */
  CHECK_STR(ids_text(t, "ba"), "2 1");  /* -3 against -4 */
  CHECK_STR(ids_text(t, "bab"), "2 3"); /* -4.5 against -4 - 2 and -2 - 1 - 2 */
  CHECK_STR(ids_text(t, "a\xC3\xA9zb"), "1 0 2");
  CHECK_STR(ids_text(t, "z?z"), "0"); /* the unknown token's own text joins them */
  CHECK_STR(ids_text(t, ""), "");
  tokenizer_free(t);
}

TEST(the_first_of_equal_sums_is_kept) {
  Tokenizer *t = load_model("\"unk_id\":null,\"vocab\":[[\"a\",-1],[\"b\",-1],[\"ab\",-2],"
                            "[\"c\",-1],[\"bc\",-2],[\"abc\",-3]]");
  if (!t) return;
  CHECK_STR(ids_text(t, "ab"), "2"); /* from the place further left, which comes first */
  CHECK_STR(ids_text(t, "abc"), "5");
  IntBuf ids = {0};
  CHECK(tokenizer_encode(t, "abxc", 4, 0, &ids) == GRPO_EARG && ids.len == 0);
  CHECK(strstr(err_message(), "\"x\"") != NULL);
  tokenizer_free(t);
}

TEST(what_is_not_a_unigram_model_is_refused) {
  static const char *const model[][2] = {
      {"\"unk_id\":0", "vocab"},
      {"\"unk_id\":0,\"vocab\":{\"a\":1}", "want a list"},
      {"\"unk_id\":0,\"vocab\":[\"a\"]", "[0]: want [token, score]"},
      {"\"unk_id\":0,\"vocab\":[[\"a\",1,2]]", "[0]: want [token, score]"},
      {"\"unk_id\":0,\"vocab\":[[\"a\",0],[3,1]]", "[1]: want [token, score]"},
      {"\"unk_id\":0,\"vocab\":[[\"a\",\"1\"]]", "want [token, score]"},
      {"\"unk_id\":0,\"vocab\":[[\"a\",1e999]]", ""},
      {"\"unk_id\":0,\"vocab\":[[\"a\",0],[\"a\",1]]", "\"a\""},
      {"\"unk_id\":0,\"vocab\":[]", "unk_id"},
      {"\"unk_id\":2,\"vocab\":[[\"a\",0]]", "unk_id"},
      {"\"unk_id\":-1,\"vocab\":[[\"a\",0]]", "unk_id"},
      {"\"unk_id\":0.5,\"vocab\":[[\"a\",0]]", "unk_id"},
      {"\"unk_id\":null,\"vocab\":[]", "no tokens"},
      {"\"unk_id\":0,\"byte_fallback\":1,\"vocab\":[[\"a\",0]]", "byte_fallback"}};
  for (size_t i = 0; i < sizeof model / sizeof *model; i++) {
    const size_t before = mem_live_bytes();
    Tokenizer *t = load_model(model[i][0]);
    if (t || !strstr(err_message(), model[i][1]) || strchr(err_message(), '\n'))
      test_fail(__FILE__, __LINE__, "%s: %s", model[i][0], t ? "it loads" : err_message());
    tokenizer_free(t);
    CHECK(mem_live_bytes() == before);
  }
}

/* ---- against every way to cut ------------------------------------------------------------ */

enum { TOKENS = 12, LONGEST = 10 };
static char token[TOKENS][8];
static double score[TOKENS];

/* The largest sum of scores of tokens that make up s; unknown characters cost `unk`. */
static double best_sum(const char *s, double unk) {
  double best = -INFINITY;
  bool single = false;
  if (!*s) return 0;
  for (int k = 0; k < TOKENS; k++) {
    const size_t n = strlen(token[k]);
    if (strncmp(s, token[k], n) != 0) continue;
    best = fmax(best, score[k] + best_sum(s + n, unk));
    single |= n == 1;
  }
  return single ? best : fmax(best, unk + best_sum(s + 1, unk));
}

static uint64_t state = 7;
static int below(int n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int)(state >> 33) % n;
}

static Tokenizer *random_model(double *unk) {
  Buf b = {0};
  *unk = 0;
  buf_puts(&b, "\"unk_id\":0,\"vocab\":[[\"?\",0]");
  for (int k = 0; k < TOKENS; k++) {
    score[k] = -below(1000) / 64.0;
    *unk = fmin(*unk, score[k]);
    bool again = true;
    while (again) {
      const int n = k < 2 ? 1 : 2 + below(4);
      for (int i = 0; i < n; i++) token[k][i] = (char)('a' + below(3));
      token[k][n] = 0;
      again = false;
      for (int i = 0; i < k; i++) again |= strcmp(token[i], token[k]) == 0;
    }
    buf_printf(&b, ",[\"%s\",%.17g]", token[k], score[k]);
  }
  buf_putc(&b, ']');
  *unk -= 10;
  Tokenizer *t = load_model(b.data);
  buf_free(&b);
  return t;
}

TEST(no_other_way_to_cut_has_a_larger_sum) {
  for (int round = 0; round < 40; round++) {
    double unk;
    Tokenizer *t = random_model(&unk);
    for (int k = 0; t && k < 20; k++) {
      char s[LONGEST + 1] = "";
      for (int i = below(LONGEST); i >= 0; i--) s[i] = (char)('a' + below(3));
      IntBuf ids = encode_all(t, s, strlen(s), 0);
      double sum = 0;
      size_t known = 0, unknown = 0;
      for (size_t i = 0; i < ids.len; i++) {
        if (ids.data[i]) known += strlen(token[ids.data[i] - 1]);
        if (ids.data[i]) sum += score[ids.data[i] - 1];
      }
      unknown = strlen(s) - known;
      CHECK_NEAR(sum + (double)unknown * unk, best_sum(s, unk), 1e-9);
      intbuf_free(&ids);
    }
    tokenizer_free(t);
  }
}

TEST(a_megabyte_without_a_cut_is_encoded) {
  enum { N = 1 << 20 };
  Tokenizer *t = NULL;
  CHECK(tokenizer_load(&t, "tests/cases/unigram/bytes.json") == GRPO_OK);
  char *s = malloc(N);
  for (int kind = 0; t && s && kind < 3; kind++) { /* quadratic work would take hours */
    for (int i = 0; i < N; i++) s[i] = kind == 0 ? 'a' : kind == 1 ? "abcab"[i % 5] : '~';
    IntBuf ids = encode_all(t, s, N, 0);
    CHECK(ids.len > N / 8);
    intbuf_free(&ids);
  }
  free(s);
  tokenizer_free(t);
}
