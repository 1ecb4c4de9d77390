/* test_tokenizer.c - the tokenizers that are made here, and the small shipped one. */
#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "oracle.inc.c"
#include "text/tokenizer_files.h"
#include "text/tokenizer_impl.h"
#include "text/tokenizer_make.h"
#include "text/tokenizer_train.h"

static const char corpus[] =
    "Tom has 12 apples and buys 30 more. How many apples does Tom have now?\n"
    "<thinking>\n12 + 30 = <<12+30=42>>42\n</thinking>\n<answer>\n42\n</answer>\n#### 42\n"
    "Anna has 7 pears. She gives 3 pears to Tom. How many pears does Anna have left?\n"
    "<thinking>\n7 - 3 = <<7-3=4>>4\n</thinking>\n<answer>\n4\n</answer>\n#### 4\n"
    "She's sure they'll have what they've got, aren't they? na\xC3\xAFve caf\xC3\xA9 "
    "\xE6\x97\xA5\n";

static Tokenizer *train(const char *text, size_t n, int vocab_size) {
  TokenizerTrainOptions o;
  Tokenizer *t = NULL;
  tokenizer_train_options_init(&o);
  o.vocab_size = vocab_size;
  if (tokenizer_train(&t, &text, &n, 1, &o) != GRPO_OK)
    test_fail(__FILE__, __LINE__, "train: %s", err_message());
  return t;
}

static void same_ids(const Tokenizer *a, const Tokenizer *b, const char *s, size_t n) {
  IntBuf x = encode_all(a, s, n, 0), y = encode_all(b, s, n, 0);
  CHECK(x.len == y.len && (!x.len || memcmp(x.data, y.data, x.len * sizeof *x.data) == 0));
  intbuf_free(&x);
  intbuf_free(&y);
}

typedef struct Rng {
  RngKey key;
  uint64_t next;
} Rng;

static uint32_t rng_below(Rng *r, uint32_t n) {
  return (uint32_t)(rng_uniform(&r->key, r->next++) * n);
}

/* A string of n random code points, mostly ASCII; returns its bytes. */
static Buf random_text(Rng *r, int n) {
  static const uint32_t ranges[][2] = {{32, 95}, {0xA0, 0x300}, {0x4E00, 500}, {0x1F600, 80}};
  Buf b = {0};
  for (int i = 0; i < n; i++) {
    uint32_t k = rng_below(r, 10), set = k < 7 ? 0 : k - 6;
    uint32_t cp = ranges[set][0] + rng_below(r, ranges[set][1]);
    char c[4];
    buf_put(&b, c, utf8_encode(k == 0 ? '\n' : k == 1 ? ' ' : cp, c));
  }
  return b;
}

/* ---- bytes --------------------------------------------------------------------------------- */

TEST(the_byte_tokenizer_is_exact_on_any_bytes) {
  Tokenizer *t = NULL;
  char s[512];
  CHECK(tokenizer_bytes(&t) == GRPO_OK);
  if (!t) return;
  for (int i = 0; i < 512; i++) s[i] = (char)(i * 7);
  IntBuf ids = encode_all(t, s, sizeof s, TOK_ADD_SPECIAL);
  CHECK(ids.len == sizeof s);
  for (size_t i = 0; i < ids.len; i++) CHECK(ids.data[i] == (unsigned char)s[i]);
  check_round_trip(t, s, sizeof s);
  CHECK(tokenizer_size(t) == 258 && tokenizer_eos(t) == 256 && tokenizer_pad(t) == 257);
  CHECK(tokenizer_bos(t) == -1);
  CHECK_STR(tokenizer_kind(t), "bytes");
  CHECK_STR(tokenizer_token(t, 256), "<|endoftext|>");
  CHECK(tokenizer_token(t, 258) == NULL && tokenizer_token(t, -1) == NULL);
  intbuf_free(&ids);
  tokenizer_free(t);
}

TEST(special_tokens_in_the_text_are_recognised_unless_told_otherwise) {
  Tokenizer *t = NULL;
  const char *s = "a<|endoftext|><|pad|>b<|endofte";
  CHECK(tokenizer_bytes(&t) == GRPO_OK);
  if (!t) return;
  IntBuf ids = encode_all(t, s, strlen(s), 0);
  CHECK(ids.len == 4 + 9 && ids.data[0] == 'a' && ids.data[1] == 256 && ids.data[2] == 257);
  CHECK(ids.data[3] == 'b');
  Buf text = {0};
  CHECK(tokenizer_decode(t, ids.data, 4, true, &text) == GRPO_OK);
  CHECK_STR(text.data, "ab");
  intbuf_clear(&ids);
  CHECK(tokenizer_encode(t, s, strlen(s), TOK_NO_PARSE_SPECIAL, &ids) == GRPO_OK);
  CHECK(ids.len == strlen(s));
  CHECK(tokenizer_is_special(t, 256) && !tokenizer_is_special(t, 'a'));
  CHECK(!tokenizer_is_special(t, -5) && !tokenizer_is_special(t, 1 << 30));
  buf_free(&text);
  intbuf_free(&ids);
  tokenizer_free(t);
}

/* ---- characters ---------------------------------------------------------------------------- */

TEST(characters_are_numbered_by_code_point_and_unknown_ones_are_refused) {
  Tokenizer *t = NULL;
  const char *text = "ba\xC3\xA9 b";
  CHECK(tokenizer_chars(&t, text, strlen(text)) == GRPO_OK);
  if (!t) return;
  CHECK_STR(tokenizer_kind(t), "chars");
  CHECK(tokenizer_size(t) == 6 && tokenizer_eos(t) == 4 && tokenizer_id(t, "\xC3\xA9") == 3);
  check_round_trip(t, text, strlen(text));
  IntBuf ids = {0};
  intbuf_put(&ids, 77);
  CHECK(tokenizer_encode(t, "abx", 3, 0, &ids) == GRPO_EARG);
  CHECK(strstr(err_message(), "\"x\" (U+0078)") != NULL);
  CHECK(ids.len == 1 && ids.data[0] == 77); /* as it was */
  intbuf_free(&ids);
  tokenizer_free(t);
  CHECK(tokenizer_chars(&t, "", 0) == GRPO_EARG && t == NULL);
  CHECK(tokenizer_chars(&t, "a\xFF", 2) == GRPO_EARG);
  CHECK(tokenizer_chars(&t, "a\0b", 3) == GRPO_EARG);
}

TEST(characters_alone_have_no_token_that_ends_a_text) {
  Tokenizer *t = NULL;
  const char *text = "ba\xC3\xA9 b";
  CHECK(tokenizer_chars_only(&t, text, strlen(text)) == GRPO_OK);
  if (!t) return;
  CHECK_STR(tokenizer_kind(t), "chars");
  CHECK(tokenizer_size(t) == 4 && tokenizer_eos(t) == -1 && tokenizer_id(t, "\xC3\xA9") == 3);
  check_round_trip(t, text, strlen(text));
  tokenizer_free(t);
}

/* ---- training ------------------------------------------------------------------------------ */

TEST(training_gives_specials_then_bytes_then_merges) {
  Tokenizer *t = train(corpus, strlen(corpus), 300);
  if (!t) return;
  CHECK(tokenizer_size(t) == 300);
  CHECK_STR(tokenizer_kind(t), "bpe");
  CHECK(tokenizer_eos(t) == 0 && tokenizer_pad(t) == 1 && tokenizer_bos(t) == -1);
  CHECK(tokenizer_id(t, "!") == 2); /* the first of GPT-2's alphabet */
  CHECK(tokenizer_id(t, "\xC4\xA0"
                        "apples") >= 258 ||
        tokenizer_id(t, "ar") >= 258);
  check_round_trip(t, corpus, strlen(corpus));
  IntBuf ids = encode_all(t, corpus, strlen(corpus), 0);
  CHECK(ids.len < strlen(corpus) * 3 / 4);
  intbuf_free(&ids);
  tokenizer_free(t);
}

TEST(the_most_frequent_pair_wins_and_ties_go_to_the_lower_ids) {
  const char *text = "ab ab ab cd cd";
  Tokenizer *t = train(text, strlen(text), 258 + 3);
  if (!t) return;
  CHECK_STR(tokenizer_token(t, 258), "ab");
  /* now c-d, space-ab and space-c occur twice each; the space has the highest id */
  CHECK_STR(tokenizer_token(t, 259), "cd");
  CHECK_STR(tokenizer_token(t, 260), "\xC4\xA0"
                                     "ab");
  tokenizer_free(t);
  t = train(text, strlen(text), 4096); /* no pair twice any more: it stops early */
  CHECK(t && tokenizer_size(t) == 258 + 4);
  tokenizer_free(t);
}

TEST(digits_are_tokens_of_their_own) {
  Tokenizer *t = train("11 11 11 11 11 11", 17, 400);
  if (!t) return;
  IntBuf ids = encode_all(t, "1111", 4, 0);
  CHECK(ids.len == 4);
  intbuf_clear(&ids);
  tokenizer_free(t);
  TokenizerTrainOptions o;
  tokenizer_train_options_init(&o);
  o.split_digits = false;
  const char *text = "11 11 11 11 11 11";
  size_t n = strlen(text);
  CHECK(tokenizer_train(&t, &text, &n, 1, &o) == GRPO_OK);
  CHECK(tokenizer_encode(t, "11", 2, 0, &ids) == GRPO_OK && ids.len == 1);
  intbuf_free(&ids);
  tokenizer_free(t);
}

TEST(training_is_deterministic_and_adds_up_texts) {
  const char *half[] = {corpus, strchr(corpus, '\n') + 1};
  size_t len[] = {(size_t)(half[1] - half[0]), strlen(half[1])};
  Tokenizer *a = train(corpus, strlen(corpus), 320), *b = train(corpus, strlen(corpus), 320), *c;
  CHECK(tokenizer_save(a, test_path("%s/a", test_tmp())) == GRPO_OK);
  CHECK(tokenizer_save(b, test_path("%s/b", test_tmp())) == GRPO_OK);
  Buf x = read_all(test_path("%s/a/tokenizer.json", test_tmp()));
  Buf y = read_all(test_path("%s/b/tokenizer.json", test_tmp()));
  CHECK(x.len == y.len && memcmp(x.data, y.data, x.len) == 0);
  TokenizerTrainOptions o;
  tokenizer_train_options_init(&o);
  o.vocab_size = 320;
  CHECK(tokenizer_train(&c, half, len, 2, &o) == GRPO_OK);
  same_ids(a, c, corpus, strlen(corpus));
  buf_free(&x);
  buf_free(&y);
  tokenizer_free(a);
  tokenizer_free(b);
  tokenizer_free(c);
}

TEST(training_options_are_checked) {
  TokenizerTrainOptions o;
  Tokenizer *t;
  const char *text = "a", *specials[] = {"<s>", "</s>", "<p>"};
  size_t n = 1;
  tokenizer_train_options_init(&o);
  o.vocab_size = 257;
  CHECK(tokenizer_train(&t, &text, &n, 1, &o) == GRPO_EARG && t == NULL);
  CHECK(strstr(err_message(), "at least 258") != NULL);
  tokenizer_train_options_init(&o);
  o.special_tokens = specials;
  o.nspecial = 3;
  o.eos = "</S>";
  CHECK(tokenizer_train(&t, &text, &n, 1, &o) == GRPO_EARG);
  CHECK(strstr(err_message(), "</S>") != NULL);
  o.bos = "<s>";
  o.eos = "</s>";
  o.pad = "<p>";
  CHECK(tokenizer_train(&t, &text, &n, 1, &o) == GRPO_OK);
  CHECK(t && tokenizer_bos(t) == 0 && tokenizer_eos(t) == 1 && tokenizer_pad(t) == 2);
  tokenizer_free(t);
  specials[2] = "a"; /* is a byte already */
  o.pad = NULL;
  CHECK(tokenizer_train(&t, &text, &n, 1, &o) == GRPO_EFORMAT);
  specials[2] = "\xFF";
  CHECK(tokenizer_train(&t, &text, &n, 1, &o) == GRPO_EARG);
  o.nspecial = 0; /* no special tokens at all: no end token either */
  o.bos = o.eos = NULL;
  CHECK(tokenizer_train(&t, &text, &n, 1, &o) == GRPO_OK && tokenizer_eos(t) == -1);
  tokenizer_free(t);
  CHECK(tokenizer_train(&t, NULL, NULL, 0, NULL) == GRPO_OK && tokenizer_size(t) == 258);
  tokenizer_free(t);
}

TEST(special_tokens_in_a_training_text_are_not_learned_from) {
  const char *text = "<|endoftext|><|endoftext|><|endoftext|>xyxyxy<|endoftext|>";
  Tokenizer *t = train(text, strlen(text), 300);
  CHECK(t && tokenizer_id(t, "xy") >= 258 && tokenizer_id(t, "en") == -1);
  tokenizer_free(t);
}

/* ---- every kind: random text, saved and loaded --------------------------------------------- */

TEST(trained_tokenizers_round_trip_random_text_and_random_bytes) {
  Tokenizer *t = train(corpus, strlen(corpus), 400);
  Rng r = {.key = {.seed = 7, .stream = RNG_TASK}};
  for (int i = 0; t && i < 200; i++) {
    Buf s = random_text(&r, 1 + (int)rng_below(&r, 80));
    check_round_trip(t, s.data, s.len);
    for (size_t k = 0; k < s.len; k++)
      if (rng_below(&r, 4) == 0) s.data[k] = (char)rng_below(&r, 256);
    IntBuf ids = encode_all(t, s.data, s.len, 0), again = {0};
    Buf back = {0};
    CHECK(tokenizer_decode(t, ids.data, ids.len, false, &back) == GRPO_OK);
    CHECK(tokenizer_encode(t, back.data, back.len, 0, &again) == GRPO_OK); /* replaced once */
    CHECK(ids.len == again.len && memcmp(ids.data, again.data, ids.len * sizeof *ids.data) == 0);
    buf_free(&back);
    buf_free(&s);
    intbuf_free(&ids);
    intbuf_free(&again);
  }
  tokenizer_free(t);
}

static void check_saved(Tokenizer *t, const char *s) {
  Tokenizer *again = NULL;
  const char *dir = test_path("%s/%s/deep", test_tmp(), tokenizer_kind(t));
  CHECK(tokenizer_save(t, dir) == GRPO_OK);
  CHECK(tokenizer_load(&again, dir) == GRPO_OK);
  if (again) {
    CHECK_STR(tokenizer_kind(again), tokenizer_kind(t));
    CHECK(tokenizer_size(again) == tokenizer_size(t));
    CHECK(tokenizer_eos(again) == tokenizer_eos(t) && tokenizer_pad(again) == tokenizer_pad(t));
    CHECK(tokenizer_bos(again) == tokenizer_bos(t));
    for (int32_t id = 0; id < tokenizer_size(t); id++)
      CHECK_STR(tokenizer_token(again, id), tokenizer_token(t, id));
    same_ids(t, again, s, strlen(s));
  }
  tokenizer_free(again);
  tokenizer_free(t);
}

TEST(saving_and_loading_changes_nothing) {
  Tokenizer *t = NULL;
  check_saved(train(corpus, strlen(corpus), 350), corpus);
  CHECK(tokenizer_bytes(&t) == GRPO_OK);
  check_saved(t, corpus);
  const char *quotes = "\"quotes\" \\ and / \n\t\x01\x7F\xF0\x9F\x98\x80 caf\xC3\xA9";
  CHECK(tokenizer_chars(&t, quotes, strlen(quotes)) == GRPO_OK);
  check_saved(t, quotes);
}

/* ---- properties ---------------------------------------------------------------------------- */

TEST(a_character_cut_in_the_middle_decodes_to_one_replacement) {
  Tokenizer *t = train("x", 1, 258);
  if (!t) return;
  IntBuf ids = encode_all(t, "\xE6\x97\xA5", 3, 0);
  Buf text = {0};
  CHECK(ids.len == 3);
  CHECK(tokenizer_decode(t, ids.data, 2, false, &text) == GRPO_OK);
  CHECK_STR(text.data, "\xEF\xBF\xBD");
  const char *piece;
  size_t n;
  tokenizer_piece_bytes(t, ids.data[0], &piece, &n);
  CHECK(n == 1 && piece[0] == '\xE6');
  tokenizer_piece_bytes(t, 100000, &piece, &n);
  CHECK(n == 0);
  buf_free(&text);
  intbuf_free(&ids);
  tokenizer_free(t);
}

/* Pairs that the heap of merges gave out while encoding: at most three for each byte, however long
 * a word is.  (Quadratic work anywhere would take this test hours.) */
TEST(a_megabyte_without_a_space_takes_no_more_work_than_one_with) {
  enum { N = 1 << 20 };
  Tokenizer *t = train(corpus, strlen(corpus), 400);
  char *s = malloc(N);
  for (int kind = 0; t && kind < 4; kind++) {
    for (int i = 0; i < N; i++)
      s[i] = kind == 0 ? 'a' : kind == 1 ? ' ' : kind == 2 ? corpus[i % 40] | 0x41 : '<';
    const uint64_t before = t->scratch->bpe.taken;
    IntBuf ids = encode_all(t, s, N, 0);
    CHECK(ids.len > 0 && t->scratch->bpe.taken - before <= 3 * (uint64_t)N);
    intbuf_free(&ids);
  }
  free(s);
  tokenizer_free(t);
}

TEST(a_steady_encode_allocates_nothing) {
  Tokenizer *t = train(corpus, strlen(corpus), 350);
  IntBuf ids = encode_all(t, corpus, strlen(corpus), 0);
  uint64_t before = 0;
  for (int i = 0; i < 20; i++) { /* the first ten warm up; some end inside a character */
    if (i == 10) before = mem_allocations();
    intbuf_clear(&ids);
    CHECK(tokenizer_encode(t, corpus, strlen(corpus) - (size_t)(i % 10), 0, &ids) == GRPO_OK);
  }
  CHECK(mem_allocations() == before);
  intbuf_free(&ids);
  tokenizer_free(t);
}

static void *encode_often(void *t) {
  IntBuf ids = {0}, first = encode_all(t, corpus, strlen(corpus), 0);
  for (int i = 0; i < 50; i++) {
    intbuf_clear(&ids);
    CHECK(tokenizer_encode(t, corpus, strlen(corpus), 0, &ids) == GRPO_OK);
    CHECK(ids.len == first.len && !memcmp(ids.data, first.data, ids.len * sizeof *ids.data));
  }
  intbuf_free(&ids);
  intbuf_free(&first);
  tokenizer_free(t);
  return NULL;
}

TEST(threads_may_share_a_tokenizer) {
  Tokenizer *t = train(corpus, strlen(corpus), 350);
  pthread_t thread[3];
  for (int i = 0; t && i < 3; i++) {
    tokenizer_retain(t);
    CHECK(pthread_create(&thread[i], NULL, encode_often, t) == 0);
  }
  for (int i = 0; t && i < 3; i++) pthread_join(thread[i], NULL);
  tokenizer_free(t);
}

TEST(running_out_of_memory_is_an_error_and_loses_nothing) {
  Tokenizer *t = NULL;
  const char *text = corpus;
  size_t n = strlen(corpus), live = mem_live_bytes();
  TokenizerTrainOptions o;
  tokenizer_train_options_init(&o);
  o.vocab_size = 270;
  int failures = 0;
  for (uint64_t k = 1; k < 2000 && failures == (int)k - 1; k++) {
    mem_fail_after(k);
    Status s = tokenizer_train(&t, &text, &n, 1, &o);
    mem_fail_after(0);
    if (s != GRPO_OK)
      failures++;
    else
      tokenizer_free(t);
    CHECK(mem_live_bytes() == live);
  }
  CHECK(failures > 20);
}

TEST(a_tokenizer_is_not_overlooked_for_lack_of_memory) {
  mem_fail_after(1);
  CHECK(tokenizer_is_in(test_tmp())); /* loading it then says why not */
  mem_fail_after(0);
  CHECK(!tokenizer_is_in(test_tmp()));
}

/* ---- the shipped tokenizer: rows computed by the reference --------------------------------- */

static void shipped_row(const Json *row, void *t) { check_encode_row(t, row); }

/* A tokenizer.json of a few tokens, written here, and loaded. */
static Tokenizer *small(const char *json) {
  Tokenizer *t = NULL;
  Buf path = {0};
  buf_printf(&path, "%s/small.json", test_tmp());
  FILE *f = fopen(path.data, "wb");
  CHECK(f && fputs(json, f) >= 0 && fclose(f) == 0);
  if (tokenizer_load(&t, path.data) != GRPO_OK) test_fail(__FILE__, __LINE__, "%s", err_message());
  buf_free(&path);
  return t;
}

/* Encodes, compares with `want` (ended by -1), decodes and compares. */
static void small_case(const Tokenizer *t, const char *text, const int32_t *want,
                       const char *decoded) {
  if (!t) return;
  IntBuf ids = encode_all(t, text, strlen(text), TOK_ADD_SPECIAL);
  Buf back = {0};
  size_t i = 0;
  for (; want[i] >= 0; i++) CHECK(i < ids.len && ids.data[i] == want[i]);
  CHECK(i == ids.len);
  CHECK(tokenizer_decode(t, ids.data, ids.len, true, &back) == GRPO_OK);
  CHECK_STR(back.data ? back.data : "", decoded);
  intbuf_free(&ids);
  buf_free(&back);
}

TEST(llama2s_shape_prepends_falls_back_to_bytes_and_lets_them_overtake_unknowns) {
  Tokenizer *t = small(
      "{\"added_tokens\":[{\"id\":0,\"content\":\"<s>\",\"special\":true}],"
      "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":"
      "\"\u2581\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\u2581\"}]},"
      "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":"
      "{\"String\":\"\u2581\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"
      "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]},"
      "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":"
      "\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"<s>\":{\"ids\":[0]}}},"
      "\"model\":{\"type\":\"BPE\",\"unk_token\":\"<u>\",\"fuse_unk\":true,\"byte_fallback\":true,"
      "\"vocab\":{\"<s>\":0,\"\u2581\":1,\"a\":2,\"b\":3,\"\u2581a\":4,\"\u2581ab\":5,\"<0xC3>\":6,"
      "\"<0xA9>\":7,\"<u>\":8},\"merges\":[\"\u2581 a\",\"\u2581a b\"]}}");
  small_case(t, "ab a", (const int32_t[]){0, 5, 4, -1}, "ab a");
  small_case(t, "a\xC3\xA9", (const int32_t[]){0, 4, 6, 7, -1}, "a\xC3\xA9");
  small_case(t,
             "axy\xC3\xA9"
             "b",
             (const int32_t[]){0, 4, 6, 7, 8, 3, -1}, "a\xC3\xA9<u>b");
  small_case(t, "", (const int32_t[]){0, -1}, "");
  tokenizer_free(t);
}

TEST(wordpiece_takes_the_longest_piece_or_the_unknown_token) {
  Tokenizer *t = small(
      "{\"normalizer\":{\"type\":\"BertNormalizer\"},\"pre_tokenizer\":{\"type\":"
      "\"BertPreTokenizer\"},\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":"
      "true},"
      "\"added_tokens\":[{\"id\":0,\"content\":\"[CLS]\",\"special\":true},"
      "{\"id\":1,\"content\":\"[SEP]\",\"special\":true}],"
      "\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"[CLS]\",0],\"sep\":[\"[SEP]\",1]}"
      ","
      "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":"
      "\"##\",\"vocab\":{\"[CLS]\":0,\"[SEP]\":1,\"[UNK]\":2,\"play\":3,\"##ing\":4,\"##s\":5,"
      "\"!\":6,\"he\":7}}}");
  small_case(t, "He plays! playing", (const int32_t[]){0, 7, 3, 5, 6, 3, 4, 1, -1},
             "he plays! playing");
  small_case(t, "playx he", (const int32_t[]){0, 2, 7, 1, -1}, "[UNK] he");
  tokenizer_free(t);
}

TEST(berts_normalizer_sets_chinese_characters_apart) {
  Tokenizer *t =
      small("{\"normalizer\":{\"type\":\"BertNormalizer\"},\"pre_tokenizer\":{\"type\":"
            "\"BertPreTokenizer\"},\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\"},"
            "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\","
            "\"continuing_subword_prefix\":\"##\",\"vocab\":{\"[UNK]\":0,"
            "\"he\":1,\"\u4E2D\":2,\"\U00020000\":3,\"\u3042\":4,\"e\":5}}}");
  small_case(t, "he\u4E2D\U00020000he", (const int32_t[]){1, 2, 3, 1, -1},
             "he \u4E2D \U00020000 he");
  small_case(t, "he\u3042", (const int32_t[]){0, -1}, "[UNK]"); /* hiragana is not apart */
  small_case(t, "H\u00C9 \u3042", (const int32_t[]){1, 4, -1}, "he \u3042");
  tokenizer_free(t);
}

TEST(a_normalizer_may_write_bytes_and_a_sequence_of_decoders_read_them) {
  Tokenizer *t = small(
      "{\"normalizer\":{\"type\":\"ByteLevel\"},\"decoder\":{\"type\":\"Sequence\","
      "\"decoders\":[{\"type\":\"ByteLevel\"},{\"type\":\"Fuse\"}]},\"model\":{\"type\":\"BPE\","
      "\"vocab\":{\"a\":0,\"\u0120\":1,\"\u00C3\":2,\"\u00A9\":3,\"\u0120a\":4},"
      "\"merges\":[\"\u0120 a\"]}}");
  small_case(t, "a a\u00E9", (const int32_t[]){0, 4, 2, 3, -1}, "a a\u00E9");
  small_case(t, "", (const int32_t[]){-1}, "");
  tokenizer_free(t);
}

#define SPLIT_WITH(behavior, invert)                                                               \
  "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"-\"},\"behavior\":\"" behavior \
  "\",\"invert\":" invert "},\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":"     \
  "{\"?\":0,\"a\":1,\"b\":2,\"-\":3,\"--\":4,\"a-\":5,\"-b\":6}}}"

TEST(split_does_to_matches_what_its_behavior_says) {
  static const struct {
    const char *json;
    int32_t ids[6];
  } cases[] = {
      {SPLIT_WITH("Removed", "false"), {1, 2, -1}},
      {SPLIT_WITH("Removed", "true"), {3, 3, -1}},
      {SPLIT_WITH("Isolated", "false"), {1, 3, 3, 2, -1}},
      {SPLIT_WITH("Contiguous", "false"), {1, 4, 2, -1}},
      {SPLIT_WITH("MergedWithPrevious", "false"), {5, 3, 2, -1}},
      {SPLIT_WITH("MergedWithNext", "false"), {1, 3, 6, -1}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Tokenizer *t = small(cases[i].json);
    if (!t) continue;
    IntBuf ids = encode_all(t, "a--b", 4, 0);
    size_t k = 0;
    for (; cases[i].ids[k] >= 0; k++) CHECK(k < ids.len && ids.data[k] == cases[i].ids[k]);
    CHECK(k == ids.len);
    intbuf_free(&ids);
    tokenizer_free(t);
  }
}

TEST(the_shipped_cases_agree_with_the_reference) {
  Tokenizer *t = NULL;
  CHECK(tokenizer_load(&t, "tests/cases/tokenizer") == GRPO_OK);
  if (!t) return;
  CHECK(each_row("tests/cases/tokenizer/rows.jsonl", shipped_row, t) >= 30);
  tokenizer_free(t);
}
