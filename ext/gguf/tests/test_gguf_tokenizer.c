/* Tokenizers out of and into GGUF metadata, held to the ids of the original tokenizers. */
#include "gguf/gguf_tokenizer.h"
#include "gguf/gguf_tokenizer_write.h"
#include "status.h"
#include "text/oracle.inc.c"
#include "text/tokenizer_files.h"
#include "text/tokenizer_make.h"

static void encode_row(const Json *row, void *t) { check_encode_row(t, row); }
static void decode_row(const Json *row, void *t) { check_decode_row(t, row); }

static Status write_meta(const char *path, const GgufMeta *m) {
  GgufWriter *w = NULL;
  try(gguf_writer_open(&w, path, m, 0, NULL));
  return gguf_writer_commit(w);
}

/* The tokenizer as a GGUF file; `plain`: without tokenizer.huggingface.json, as other programs
 * write it (the key is there under another name). */
static Status put(const Tokenizer *t, const char *path, bool plain) {
  GgufMeta m = {0};
  const GgufTokens model = {tokenizer_size(t) + 3, -1, -1, -1};
  Status s = gguf_tokenizer_write(t, &model, &m);
  static const char key[] = "tokenizer.huggingface.json";
  char *at = s == GRPO_OK && plain ? memmem(m.bytes.data, m.bytes.len, key, sizeof key - 1) : NULL;
  if (at) *at = 'T';
  if (s == GRPO_OK) s = write_meta(path, &m);
  gguf_meta_free(&m);
  return s;
}

static void check_folder(const char *name) {
  if (!test_shared()) {
    test_skip("no folder with oracles");
    return;
  }
  const char *dir = test_path("%s/oracles/tokenizers/%s", test_shared(), name);
  const char *path = test_path("%s/%s.gguf", test_tmp(), name);
  Tokenizer *t = NULL, *g = NULL;
  OK(tokenizer_load(&t, dir));
  for (int plain = 0; plain < 2 && t; plain++) {
    OK(put(t, path, plain));
    CHECK(tokenizer_is_in(path));
    OK(tokenizer_load(&g, path));
    if (!g) break;
    CHECK(tokenizer_size(g) == tokenizer_size(t)); /* padding does not count */
    CHECK(tokenizer_bos(g) == tokenizer_bos(t) && tokenizer_eos(g) == tokenizer_eos(t));
    CHECK(tokenizer_pad(g) == tokenizer_pad(t) && tokenizer_unk(g) == tokenizer_unk(t));
    for (int32_t id = 0; id < tokenizer_size(t); id++)
      CHECK(tokenizer_is_special(g, id) == tokenizer_is_special(t, id));
    CHECK(each_row(test_path("%s/encode.jsonl", dir), encode_row, g) > 300);
    CHECK(each_row(test_path("%s/decode.jsonl", dir), decode_row, g) > 50);
    /* and once more: the same file */
    const char *again = test_path("%s/again.gguf", test_tmp());
    OK(put(g, again, plain));
    Buf a = read_all(path), b = read_all(again);
    if (!plain) CHECK(a.len == b.len && memcmp(a.data, b.data, a.len) == 0);
    buf_free(&a);
    buf_free(&b);
    tokenizer_free(g);
  }
  tokenizer_free(t);
}

TEST(gpt2_is_the_same_through_gguf) { check_folder("gpt2"); }
TEST(smollm_is_the_same_through_gguf) { check_folder("smollm"); }
TEST(llama3_is_the_same_through_gguf) { check_folder("llama3_small"); }
TEST(llama2_is_the_same_through_gguf) { check_folder("llama2"); }
TEST(gemma2_is_the_same_through_gguf) { check_folder("gemma2_small"); }
TEST(qwen_is_the_same_through_gguf) { check_folder("qwen2_5_small"); }
TEST(a_rank_file_is_the_same_through_gguf) {
  if (!test_shared()) {
    test_skip("no folder with oracles");
    return;
  }
  Tokenizer *t = NULL, *g = NULL;
  OK(tokenizer_load(&t, test_path("%s/oracles/tokenizers/tiktoken_cl100k", test_shared())));
  const char *path = test_path("%s/ranks.gguf", test_tmp());
  OK(put(t, path, true));
  OK(tokenizer_load(&g, path));
  static const char text[] = "It's 12345 \xe2\x82\xac,\n\n  they'LL  pay <|endoftext|>";
  for (unsigned flags = 0; flags <= TOK_NO_PARSE_SPECIAL && t && g; flags += 2) {
    IntBuf a = encode_all(t, text, sizeof text - 1, flags);
    IntBuf b = encode_all(g, text, sizeof text - 1, flags);
    CHECK(a.len == b.len && memcmp(a.data, b.data, a.len * sizeof *a.data) == 0);
    intbuf_free(&a), intbuf_free(&b);
  }
  tokenizer_free(t);
  tokenizer_free(g);
}

TEST(the_byte_tokenizer_stays_what_it_is) {
  Tokenizer *t = NULL, *g = NULL;
  OK(tokenizer_bytes(&t));
  const char *path = test_path("%s/bytes.gguf", test_tmp());
  for (int plain = 0; plain < 2; plain++) {
    OK(put(t, path, plain));
    OK(tokenizer_load(&g, path));
    CHECK_STR(g ? tokenizer_kind(g) : NULL, "bytes");
    if (g) check_round_trip(g, "a\xff\0b", 4);
    tokenizer_free(g);
  }
  tokenizer_free(t);
}

TEST(a_tokenizer_that_gguf_cannot_describe_is_refused) {
  Tokenizer *t = NULL;
  GgufMeta m = {0};
  const GgufTokens model = {10, -1, -1, -1};
  OK(tokenizer_chars(&t, "abc", 3));
  REFUSED(gguf_tokenizer_write(t, &model, &m), GRPO_EFORMAT, "no form for a 'chars' tokenizer");
  tokenizer_free(t);
  OK(tokenizer_bytes(&t));
  REFUSED(gguf_tokenizer_write(t, &model, &m), GRPO_EARG,
          "the tokenizer has 258 tokens, the model's embedding 10 rows");
  tokenizer_free(t);
  gguf_meta_free(&m);
}

/* ---- metadata made by hand ------------------------------------------------------------ */

static void strings(GgufMeta *m, const char *key, int n, const char *const *s) {
  gguf_put_array(m, key, GGUF_STRING, (uint64_t)n);
  for (int i = 0; i < n; i++) gguf_element_string(m, s[i], strlen(s[i]));
}
static void word(GgufMeta *m, const char *key, const char *s) {
  gguf_put_string(m, key, s, strlen(s));
}

static Status load_meta(GgufMeta *m, Tokenizer **t) {
  const char *path = test_path("%s/made.gguf", test_tmp());
  OK(write_meta(path, m));
  gguf_meta_free(m);
  *t = NULL;
  return tokenizer_load(t, path);
}

#define IDS(t, text, flags, ...)                                                                   \
  do {                                                                                             \
    static const int32_t want_[] = {__VA_ARGS__};                                                  \
    IntBuf got_ = encode_all(t, text, strlen(text), flags);                                        \
    CHECK(got_.len == sizeof want_ / sizeof *want_ &&                                              \
          memcmp(got_.data, want_, sizeof want_) == 0);                                            \
    intbuf_free(&got_);                                                                            \
  } while (0)

TEST(scores_decide_what_sentencepiece_merges) {
  static const char *const tokens[] = {"<unk>", "<s>", "</s>", "\xe2\x96\x81", "a",      "b",
                                       "c",     "ab",  "bc",   "<0x0A>",       "<tool>", "[PAD11]"};
  static const float scores[] = {0, 0, 0, -9, -10, -11, -12, -2, -1, 0, 0, 0};
  static const int32_t types[] = {2, 3, 3, 1, 1, 1, 1, 1, 1, 6, 4, 5};
  static const char *const templates[] = {"tool_use", "rag", "./up", ""};
  GgufMeta m = {0};
  Tokenizer *t;
  word(&m, "tokenizer.ggml.model", "llama");
  strings(&m, "tokenizer.ggml.tokens", 12, tokens);
  gguf_put_array(&m, "tokenizer.ggml.scores", GGUF_F32, 12);
  for (int i = 0; i < 12; i++) gguf_element_f32(&m, scores[i]);
  gguf_put_array(&m, "tokenizer.ggml.token_type", GGUF_I32, 12);
  for (int i = 0; i < 12; i++) gguf_element_i32(&m, types[i]);
  gguf_put_u32(&m, "tokenizer.ggml.bos_token_id", 1);
  gguf_put_u32(&m, "tokenizer.ggml.eos_token_id", 2);
  word(&m, "tokenizer.chat_template", "{{ messages }}");
  strings(&m, "tokenizer.chat_templates", 4, templates);
  word(&m, "tokenizer.chat_template.tool_use", "{{ tools }}");
  word(&m, "tokenizer.chat_template../up", "{{ up }}");
  OK(load_meta(&m, &t));
  if (!t) return;
  IDS(t, "abc", 0, 3, 4, 8); /* bc has the better score */
  IDS(t, "ab", TOK_ADD_SPECIAL, 1, 3, 7);
  IDS(t, "b\n<tool>", 0, 3, 5, 9, 10);
  CHECK(tokenizer_size(t) == 11 && tokenizer_token(t, 11) == NULL);
  CHECK(tokenizer_is_special(t, 1) && tokenizer_is_special(t, 0) && !tokenizer_is_special(t, 10));
  CHECK_STR(tokenizer_chat_template(t), "{{ messages }}");
  CHECK_STR(tokenizer_template(t, "tool_use"), "{{ tools }}");
  CHECK(!tokenizer_template(t, "rag") && !tokenizer_template_name(t, 2));
  tokenizer_free(t);
}

/* Gemma 4's files list the merges; scores say nothing there, and no space is put before a text. */
TEST(merges_decide_what_gemma_4_merges) {
  static const char *const tokens[] = {"<bos>",
                                       "\xe2\x96\x81",
                                       "a",
                                       "b",
                                       "c",
                                       "ab",
                                       "bc",
                                       "\n\n",
                                       "\n",
                                       "<0xC3>",
                                       "<0xA9>",
                                       "\xe2\x96\x81"
                                       "a"};
  static const char *const merges[] = {"b c", "a b", "\xe2\x96\x81 a", "\n \n"};
  static const int32_t types[] = {3, 1, 1, 1, 1, 1, 1, 1, 1, 6, 6, 1};
  GgufMeta m = {0};
  Tokenizer *t;
  word(&m, "tokenizer.ggml.model", "gemma4");
  strings(&m, "tokenizer.ggml.tokens", 12, tokens);
  strings(&m, "tokenizer.ggml.merges", 4, merges);
  gguf_put_array(&m, "tokenizer.ggml.token_type", GGUF_I32, 12);
  for (int i = 0; i < 12; i++) gguf_element_i32(&m, types[i]);
  gguf_put_u32(&m, "tokenizer.ggml.bos_token_id", 0);
  OK(load_meta(&m, &t));
  if (!t) return;
  IDS(t, "abc", 0, 2, 6);
  IDS(t, " ab", TOK_ADD_SPECIAL, 0, 1, 5);
  IDS(t, "a\n\nb\n\xc3\xa9", 0, 2, 7, 3, 8, 9, 10);
  tokenizer_free(t);
}

/* A small byte-level vocabulary with these further keys. */
static void byte_level(GgufMeta *m, const char *pre) {
  static const char *const tokens[] = {"a", "b", "1", "\xc4\xa0", "ab", "11", "<s>"};
  static const char *const merges[] = {"a b", "1 1"};
  word(m, "tokenizer.ggml.model", "gpt2");
  if (pre) word(m, "tokenizer.ggml.pre", pre);
  strings(m, "tokenizer.ggml.tokens", 7, tokens);
  strings(m, "tokenizer.ggml.merges", 2, merges);
  gguf_put_array(m, "tokenizer.ggml.token_type", GGUF_I32, 7);
  for (int i = 0; i < 7; i++) gguf_element_i32(m, i == 6 ? GGUF_CONTROL : GGUF_NORMAL);
  gguf_put_u32(m, "tokenizer.ggml.bos_token_id", 6);
}

TEST(the_name_of_a_pre_tokenizer_says_how_text_is_cut) {
  static const struct {
    const char *name;
    bool pairs, bos; /* 11 is one token; a begin token is added */
  } names[] = {{"gpt-2", true, false},    {"smollm", false, false}, {"qwen2", false, false},
               {"llama-bpe", true, true}, {"dbrx", true, false},    {"gpt-4o", true, false},
               {"tekken", false, true},   {"default", true, false}, {NULL, true, false}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    GgufMeta m = {0};
    Tokenizer *t;
    byte_level(&m, names[i].name);
    OK(load_meta(&m, &t));
    if (!t) continue;
    if (names[i].pairs) IDS(t, "ab11", 0, 4, 5);
    if (!names[i].pairs) IDS(t, "ab11", 0, 4, 2, 2);
    if (names[i].bos) IDS(t, "ab", TOK_ADD_SPECIAL, 6, 4);
    if (!names[i].bos) IDS(t, "ab", TOK_ADD_SPECIAL, 4);
    tokenizer_free(t);
  }
}

TEST(metadata_that_lies_is_refused) {
  Tokenizer *t;
  GgufMeta m = {0};
  byte_level(&m, "klingon");
  REFUSED(load_meta(&m, &t), GRPO_EFORMAT, "tokenizer.ggml.pre 'klingon' is not supported");
  word(&m, "tokenizer.ggml.model", "t5");
  strings(&m, "tokenizer.ggml.tokens", 1, (const char *const[]){"a"});
  REFUSED(load_meta(&m, &t), GRPO_EFORMAT, "tokenizer.ggml.model 't5' is not supported");
  word(&m, "tokenizer.ggml.model", "none");
  REFUSED(load_meta(&m, &t), GRPO_ENOENT, "the file holds no tokenizer");
  word(&m, "tokenizer.ggml.model", "gpt2");
  REFUSED(load_meta(&m, &t), GRPO_EFORMAT, "tokenizer.ggml.tokens is missing");
  word(&m, "tokenizer.ggml.model", "gpt2");
  word(&m, "tokenizer.ggml.tokens", "x");
  REFUSED(load_meta(&m, &t), GRPO_EFORMAT, "want an array of string");
  static const char *const twice[] = {"a", "b", "a"}, *const one[] = {"a b"},
                           *const bad[] = {"\xff"};
  word(&m, "tokenizer.ggml.model", "gpt2");
  strings(&m, "tokenizer.ggml.tokens", 3, twice);
  REFUSED(load_meta(&m, &t), GRPO_EFORMAT, "tokenizer.ggml.tokens[2]");
  word(&m, "tokenizer.ggml.model", "gpt2");
  strings(&m, "tokenizer.ggml.tokens", 1, bad);
  REFUSED(load_meta(&m, &t), GRPO_EFORMAT, "tokenizer.ggml.tokens[0] is not text");
  word(&m, "tokenizer.ggml.model", "gpt2");
  strings(&m, "tokenizer.ggml.tokens", 2, twice);
  strings(&m, "tokenizer.ggml.merges", 1, one);
  REFUSED(load_meta(&m, &t), GRPO_EFORMAT, "merges");
  word(&m, "tokenizer.ggml.model", "gpt2");
  strings(&m, "tokenizer.ggml.tokens", 2, twice);
  strings(&m, "tokenizer.ggml.merges", 1, twice);
  REFUSED(load_meta(&m, &t), GRPO_EFORMAT, "tokenizer.ggml.merges[0]: want \"left right\"");
  word(&m, "tokenizer.ggml.model", "llama");
  strings(&m, "tokenizer.ggml.tokens", 2, twice);
  gguf_put_array(&m, "tokenizer.ggml.scores", GGUF_F32, 1);
  gguf_element_f32(&m, 0);
  REFUSED(load_meta(&m, &t), GRPO_EFORMAT, "tokenizer.ggml.scores has 1 entries for 2 tokens");
  byte_level(&m, "gpt-2");
  gguf_put_u32(&m, "tokenizer.ggml.eos_token_id", 7);
  REFUSED(load_meta(&m, &t), GRPO_EFORMAT, "'tokenizer.ggml.eos_token_id' = 7 is not a token's id");
}
