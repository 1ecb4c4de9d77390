/* test_tokenizer_hostile.c - files that are wrong: one line that names file and field, no crash. */
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "oracle.inc.c"
#include "os/file.h"
#include "status.h"
#include "text/tokenizer_files.h"

/* A small valid file; a case replaces one part of it. */
static const char good[] =
    "{\"added_tokens\": [{\"id\": 4, \"content\": \"<e>\", \"special\": true}],"
    " \"normalizer\": null,"
    " \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false},"
    " \"post_processor\": null,"
    " \"decoder\": {\"type\": \"ByteLevel\"},"
    " \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"abb\": 3},"
    " \"merges\": [\"a b\", [\"ab\", \"b\"]]}}";

static const char *write_case(const char *name, const char *text, size_t n) {
  const char *dir = test_path("%s/hostile", test_tmp());
  const char *path = test_path("%s/%s", dir, name);
  CHECK(file_mkdirs(dir) == GRPO_OK);
  CHECK(file_replace(path, text, n) == GRPO_OK);
  return path;
}

static Buf with(const char *from, const char *to) {
  Buf b = {0};
  const char *at = strstr(good, from);
  if (!at)
    test_fail(__FILE__, __LINE__, "\"%s\" is not in the file", from);
  else {
    buf_put(&b, good, (size_t)(at - good));
    buf_puts(&b, to);
    buf_puts(&b, at + strlen(from));
  }
  return b;
}

/* The file with `from` replaced by `to` is refused with a message that holds `field` and `why`. */
static void refused(const char *from, const char *to, const char *field, const char *why) {
  Tokenizer *t = NULL;
  size_t live = mem_live_bytes();
  Buf b = with(from, to);
  const char *path = write_case("tokenizer.json", b.data, b.len);
  buf_free(&b);
  Status s = tokenizer_load(&t, path);
  const char *m = err_message();
  if (s == GRPO_OK)
    test_fail(__FILE__, __LINE__, "accepted: %s", to);
  else if (!strstr(m, "hostile/tokenizer.json") || !strstr(m, field) || !strstr(m, why) ||
           strchr(m, '\n'))
    test_fail(__FILE__, __LINE__, "%s: %s", to, m);
  CHECK(s == GRPO_OK || (t == NULL && mem_live_bytes() == live));
  tokenizer_free(t);
}

TEST(the_good_file_is_good) {
  Tokenizer *t = NULL;
  CHECK(tokenizer_load(&t, write_case("tokenizer.json", good, strlen(good))) == GRPO_OK);
  IntBuf ids = encode_all(t, "abbab<e>c", 9, 0);
  CHECK(ids.len == 3 && ids.data[0] == 3 && ids.data[1] == 2 && ids.data[2] == 4);
  intbuf_free(&ids);
  tokenizer_free(t);
}

TEST(components_that_are_not_supported_are_named) {
  refused("\"normalizer\": null", "\"normalizer\": {\"type\": \"Precompiled\"}", "normalizer",
          "Precompiled: precompiled_charsmap");
  refused("\"normalizer\": null",
          "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFC\"}, "
          "{\"type\": \"Nmu\"}]}",
          "normalizer", "'Nmu'");
  refused("{\"type\": \"ByteLevel\", \"add_prefix_space\": false}", "{\"type\": \"Metaspace\"}",
          "pre_tokenizer", "Metaspace: replacement");
  refused("{\"type\": \"ByteLevel\", \"add_prefix_space\": false}",
          "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"(\"}, \"behavior\": \"Isolated\"}",
          "pre_tokenizer", "");
  refused("{\"type\": \"ByteLevel\", \"add_prefix_space\": false}",
          "{\"type\": \"Split\", \"pattern\": {\"String\": \"\"}, \"behavior\": \"Isolated\"}",
          "pre_tokenizer", "Split");
  refused("{\"type\": \"ByteLevel\", \"add_prefix_space\": false}",
          "{\"type\": \"FixedLength\", \"length\": 0}", "pre_tokenizer", "FixedLength");
  refused("{\"type\": \"ByteLevel\", \"add_prefix_space\": false}", "{\"type\": \"UnicodeScript\"}",
          "pre_tokenizer", "'UnicodeScript'");
  refused("{\"type\": \"ByteLevel\", \"add_prefix_space\": false}", "{}", "pre_tokenizer",
          "no type");
  refused("{\"type\": \"ByteLevel\", \"add_prefix_space\": false}", "[]", "pre_tokenizer",
          "object");
  refused("\"decoder\": {\"type\": \"ByteLevel\"}", "\"decoder\": {\"type\": \"WordPiece\"}",
          "decoder", "WordPiece: prefix");
  refused("\"decoder\": {\"type\": \"ByteLevel\"}", "\"decoder\": {\"type\": \"CTC\"}", "decoder",
          "CTC: pad_token");
  refused("\"decoder\": {\"type\": \"ByteLevel\"}", "\"decoder\": {\"type\": \"CTT\"}", "decoder",
          "'CTT'");
  refused("\"post_processor\": null", "\"post_processor\": {\"type\": \"BertProcessing\"}",
          "post_processor", "BertProcessing: cls");
  refused("\"type\": \"BPE\"", "\"type\": \"Bigram\"", "model", "'Bigram'");
  refused("\"merges\": [", "\"byte_fallback\": 1, \"merges\": [", "model", "byte_fallback");
  refused("\"merges\": [", "\"dropout\": 1.5, \"merges\": [", "model", "dropout");
  refused("\"merges\": [", "\"dropout\": \"0.1\", \"merges\": [", "model", "dropout");
  refused("\"merges\": [", "\"unk_token\": \"?\", \"merges\": [", "model", "unk_token");
  refused("\"merges\": [", "\"continuing_subword_prefix\": \"##\", \"merges\": [", "model",
          "prefix");
}

TEST(vocabularies_and_merges_that_contradict_themselves_are_refused) {
  refused("\"b\": 1", "\"b\": 0", "vocab", "id 0 is given to both");
  refused("\"b\": 1", "\"a\": 1", "vocab", "\"a\" appears twice");
  refused("\"b\": 1", "\"b\": -1", "vocab", "outside");
  refused("\"b\": 1", "\"b\": 4000000000", "vocab", "outside");
  refused("\"b\": 1", "\"b\": 1.5", "vocab", "not an integer");
  refused("\"b\": 1", "\"b\": \"1\"", "vocab", "not an integer");
  refused("\"a b\"", "\"a c\"", "merges: [0]", "\"c\" is not in the vocabulary");
  refused("\"a b\"", "\"b b\"", "merges: [0]", "\"bb\" is not in the vocabulary");
  refused("\"a b\"", "\"a b b\"", "merges: [0]", "want");
  refused("\"a b\"", "\"ab\"", "merges: [0]", "want");
  refused("[\"ab\", \"b\"]", "[\"ab\"]", "merges: [1]", "want");
  refused("[\"ab\", \"b\"]", "[\"ab\", 1]", "merges: [1]", "want");
  refused("[\"ab\", \"b\"]", "7", "merges: [1]", "want");
  refused("\"merges\": [\"a b\", [\"ab\", \"b\"]]", "\"merges\": 7", "merges", "list");
  refused("{\"a\": 0, \"b\": 1, \"ab\": 2, \"abb\": 3}", "[]", "vocab", "object");
  refused("\"id\": 4", "\"id\": 2", "added_tokens", "id 2 is given to both");
  refused("\"id\": 4", "\"id\": \"4\"", "added_tokens", "'id'");
  refused("\"<e>\"", "\"ab\"", "added_tokens", "contradicts itself");
  refused("\"special\": true", "\"special\": 1", "added_tokens", "special");
  refused("[{\"id\": 4", "[7, {\"id\": 4", "added_tokens", "content");
}

TEST(post_processors_must_name_tokens_that_exist) {
#define TEMPLATE(single, ids)                                                                      \
  "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": " single                     \
  ", \"special_tokens\": {\"<e>\": {\"id\": \"<e>\", \"ids\": " ids "}}}"
#define E "{\"SpecialToken\": {\"id\": \"<e>\"}}"
#define A "{\"Sequence\": {\"id\": \"A\"}}"
  const char *from = "\"post_processor\": null";
  refused(from, TEMPLATE("[" E "," A "]", "[99]"), "post_processor", "not in the vocabulary");
  refused(from, TEMPLATE("[" E "," A "]", "7"), "post_processor", "no ids");
  refused(from, TEMPLATE("[" E "]", "[4]"), "post_processor", "0 sequences");
  refused(from, TEMPLATE("[" A "," A "]", "[4]"), "post_processor", "2 sequences");
  refused(from, TEMPLATE("[{\"SpecialToken\": {\"id\": \"<x>\"}}," A "]", "[4]"), "post_processor",
          "<x>");
  Tokenizer *t = NULL;
  Buf b = with(from, TEMPLATE("[" E "," A "," E "," E "]", "[4, 0]"));
  CHECK(tokenizer_load(&t, write_case("tokenizer.json", b.data, b.len)) == GRPO_OK);
  IntBuf ids = encode_all(t, "b", 1, TOK_ADD_SPECIAL);
  CHECK(ids.len == 7 && ids.data[0] == 4 && ids.data[1] == 0 && ids.data[2] == 1);
  intbuf_free(&ids);
  buf_free(&b);
  tokenizer_free(t);
}

static void count_message(void *user, LogLevel level, const char *text) {
  int *n = user;
  *n += level == LOG_WARNING && strstr(text, "dropout") != NULL;
}

TEST(dropout_is_left_out_with_a_warning) {
  static const char *const value[] = {"null", "0.0", "0.1", "1"};
  for (int i = 0; i < 4; i++) {
    int warnings = 0;
    Tokenizer *t = NULL;
    Buf b = with("\"merges\": [", test_path("\"dropout\": %s, \"merges\": [", value[i]));
    log_set_sink(count_message, &warnings);
    OK(tokenizer_load(&t, write_case("tokenizer.json", b.data, b.len)));
    log_set_sink(NULL, NULL);
    CHECK(warnings == (i > 1));
    IntBuf ids = encode_all(t, "abbab", 5, 0);
    CHECK(ids.len == 2 && ids.data[0] == 3 && ids.data[1] == 2);
    intbuf_free(&ids);
    buf_free(&b);
    tokenizer_free(t);
  }
}

/* The library's way with parts is followed where a text has one place in them. */
TEST(post_processors_in_a_sequence_build_on_each_other) {
#define BERT(kind) "{\"type\": \"" kind "Processing\", \"cls\": [\"a\", 0], \"sep\": [\"b\", 1]}"
#define ONE(single, pair)                                                                          \
  "{\"type\": \"TemplateProcessing\", \"single\": " single ", \"pair\": " pair                     \
  ", \"special_tokens\": {\"<e>\": {\"id\": \"<e>\", \"ids\": [4]}}}"
#define B "{\"Sequence\": {\"id\": \"B\"}}"
  static const struct {
    const char *parts, *ids; /* the text is a 2 */
  } cases[] = {
      {BERT("Bert") "," BERT("Bert"), "00211"},
      {BERT("Bert") "," ONE("[" A "," E "]", "[]"), "0214"},
      {ONE("[" E "," A "]", "[]") "," BERT("Bert"), "04121"},
      {ONE("[" E "," A "]", "[]") "," BERT("Roberta"), "041121"},
      {ONE("[" E "," A "]", "[]") "," ONE("[]", "[" B "," E "," A "," E "]"), "2444"},
      {ONE("[" E "," A "," E "]", "[]") "," ONE("[" A "]", "[]"), NULL}, /* of three parts */
      {ONE("[" A "," B "]", "[]"), NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Tokenizer *t = NULL;
    char got[16] = "";
    Buf b = with("\"post_processor\": null",
                 test_path("\"post_processor\": {\"type\": \"Sequence\", \"processors\": [%s]}",
                           cases[i].parts));
    const Status s = tokenizer_load(&t, write_case("tokenizer.json", b.data, b.len));
    CHECK((s == GRPO_OK) == (cases[i].ids != NULL));
    IntBuf ids = {0};
    if (t) ids = encode_all(t, "ab", 2, TOK_ADD_SPECIAL);
    for (size_t k = 0; k < ids.len && k < 15; k++) got[k] = (char)('0' + ids.data[k]);
    if (t) CHECK_STR(got, cases[i].ids);
    intbuf_free(&ids);
    buf_free(&b);
    tokenizer_free(t);
  }
}

TEST(files_that_are_no_tokenizer_are_refused) {
  static const char *const texts[] = {"", "{", "[]", "7", "null", "{}", "{\"model\": {}}", "\xFF"};
  Tokenizer *t;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    CHECK(tokenizer_load(&t, write_case("tokenizer.json", texts[i], strlen(texts[i]))) != GRPO_OK);
    CHECK(strstr(err_message(), "tokenizer.json") != NULL && t == NULL);
  }
  CHECK(tokenizer_load(&t, "/nowhere/at/all") == GRPO_ENOENT);
  CHECK(tokenizer_load(&t, test_tmp()) == GRPO_ENOENT);
}

TEST(every_truncation_of_a_file_is_refused) {
  for (size_t n = 0; n + 1 < sizeof good; n++) {
    Tokenizer *t;
    const char *path = write_case("tokenizer.json", good, n);
    CHECK(tokenizer_load(&t, path) != GRPO_OK);
  }
}

/* ---- what lies beside it ------------------------------------------------------------------- */

static Status load_with_config(const char *config, Tokenizer **t) {
  const char *path = write_case("tokenizer.json", good, strlen(good));
  write_case("tokenizer_config.json", config, strlen(config));
  Status s = tokenizer_load(t, path);
  remove(test_path("%s/hostile/tokenizer_config.json", test_tmp()));
  return s;
}

TEST(the_configuration_names_special_tokens_and_the_chat_template) {
  Tokenizer *t = NULL;
  CHECK(load_with_config("{\"eos_token\": {\"content\": \"<e>\"}, \"bos_token\": \"ab\", "
                         "\"pad_token\": null, \"chat_template\": [{\"name\": \"tool_use\", "
                         "\"template\": \"x\"}, {\"name\": \"default\", \"template\": \"y\"}]}",
                         &t) == GRPO_OK);
  if (!t) return;
  CHECK(tokenizer_eos(t) == 4 && tokenizer_bos(t) == 2 && tokenizer_pad(t) == -1);
  CHECK_STR(tokenizer_chat_template(t), "y");
  CHECK_STR(tokenizer_tool_template(t), "x");
  CHECK(tokenizer_is_special(t, 2)); /* named there, so special */
  tokenizer_free(t);
  write_case("chat_template.jinja", "from a file", 11);
  CHECK(load_with_config("{\"chat_template\": \"z\"}", &t) == GRPO_OK);
  CHECK_STR(tokenizer_chat_template(t), "from a file");
  CHECK(tokenizer_tool_template(t) == NULL);
  tokenizer_free(t);
  remove(test_path("%s/hostile/chat_template.jinja", test_tmp()));
  write_case("special_tokens_map.json", "{\"eos_token\": \"<e>\"}", 20);
  CHECK(load_with_config("{}", &t) == GRPO_OK);
  CHECK(t && tokenizer_eos(t) == 4);
  tokenizer_free(t);
  remove(test_path("%s/hostile/special_tokens_map.json", test_tmp()));
}

TEST(a_configuration_that_does_not_fit_is_refused) {
  Tokenizer *t = NULL;
  CHECK(load_with_config("{\"eos_token\": \"<nope>\"}", &t) == GRPO_EFORMAT);
  CHECK(strstr(err_message(), "<nope>") && strstr(err_message(), "tokenizer_config.json"));
  CHECK(load_with_config("{\"pad_token\": \"<nope>\"}", &t) == GRPO_OK); /* a warning */
  CHECK(t && tokenizer_pad(t) == -1);
  tokenizer_free(t);
  CHECK(load_with_config("{\"added_tokens_decoder\": {\"x\": {\"content\": \"q\"}}}", &t) ==
        GRPO_EFORMAT);
  CHECK(load_with_config("{\"added_tokens_decoder\": {\"1\": {\"content\": \"q\"}}}", &t) ==
        GRPO_EFORMAT);
  CHECK(load_with_config("{\"added_tokens_decoder\": {\"5\": {\"content\": \"<q>\", "
                         "\"special\": true}, \"4\": {\"content\": \"<e>\", \"special\": false}}}",
                         &t) == GRPO_OK);
  CHECK(t && tokenizer_size(t) == 6 && tokenizer_is_special(t, 5) && !tokenizer_is_special(t, 4));
  tokenizer_free(t);
  CHECK(load_with_config("{", &t) != GRPO_OK && t == NULL);
  CHECK(strstr(err_message(), "tokenizer_config.json") != NULL);
}

static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* The file has as many ranks as Llama 3: bytes, all pairs of them, and triples.  The names and ids
 * of its special tokens are those of the tokenizer_config.json of Llama 3.1. */
TEST(a_rank_file_of_llama_3_gets_its_special_tokens) {
  static const struct {
    const char *token;
    int32_t id;
  } want[] = {{"<|begin_of_text|>", 128000},
              {"<|reserved_special_token_0|>", 128002},
              {"<|finetune_right_pad_id|>", 128004},
              {"<|eom_id|>", 128008},
              {"<|eot_id|>", 128009},
              {"<|python_tag|>", 128010},
              {"<|reserved_special_token_247|>", 128255}};
  enum { PAIRS = 65536, RANKS = 128000 };
  Tokenizer *t = NULL;
  Buf b = {0};
  for (int i = 0; i < 256; i++)
    buf_printf(&b, "%c%c== %d\n", digit[i >> 2], digit[(i & 3) << 4], i);
  for (int i = 0; i < PAIRS; i++)
    buf_printf(&b, "%c%c%c= %d\n", digit[i >> 10], digit[i >> 4 & 63], digit[(i & 15) << 2],
               256 + i);
  for (int i = 0; i < RANKS - PAIRS - 256; i++)
    buf_printf(&b, "%c%c%c%c %d\n", digit[i >> 18], digit[i >> 12 & 63], digit[i >> 6 & 63],
               digit[i & 63], PAIRS + 256 + i);
  CHECK(tokenizer_load(&t, write_case("llama3", b.data, b.len)) == GRPO_OK);
  CHECK(t && tokenizer_size(t) == RANKS + 256);
  for (size_t i = 0; t && i < sizeof want / sizeof *want; i++) {
    CHECK(tokenizer_id(t, want[i].token) == want[i].id);
    CHECK(tokenizer_is_special(t, want[i].id));
  }
  tokenizer_free(t);
  buf_free(&b);
}

/* A rank file of all 256 bytes, then `more`. */
static Buf rank_file(const char *more) {
  Buf b = {0};
  for (int i = 0; i < 256; i++)
    buf_printf(&b, "%c%c== %d\n", digit[i >> 2], digit[(i & 3) << 4], i);
  buf_puts(&b, more);
  return b;
}

static void rank_refused(const char *more, size_t cut, const char *encoding, const char *why) {
  Tokenizer *t = NULL;
  size_t live = mem_live_bytes();
  Buf b = rank_file(more);
  if (encoding) write_case("encoding.json", encoding, strlen(encoding));
  Status s = tokenizer_load(&t, write_case("ranks", b.data + cut, b.len - cut));
  buf_free(&b);
  if (s == GRPO_OK)
    test_fail(__FILE__, __LINE__, "accepted: %s", more);
  else if (!strstr(err_message(), why) || strchr(err_message(), '\n'))
    test_fail(__FILE__, __LINE__, "%s: %s", more, err_message());
  CHECK(s == GRPO_OK || (t == NULL && mem_live_bytes() == live));
  tokenizer_free(t);
}

TEST(rank_files_that_cannot_be_are_refused) {
  static const char good_encoding[] =
      "{\"pattern\": \"\\\\w+|\\\\W\", \"special_tokens\": {\"<e>\": 300}}";
  rank_refused("", 0, NULL, "none of the known encodings");
  rank_refused("", 7, good_encoding, "byte 0x00 has no rank");
  rank_refused("YWI= 256\nYWI= 257\n", 0, good_encoding, "appears twice");
  rank_refused("YWI= 255\n", 0, good_encoding, "given to both");
  rank_refused("YWI= -1\n", 0, good_encoding, "line 257");
  rank_refused("YWI=\n", 0, good_encoding, "line 257");
  rank_refused("Y*I= 256\n", 0, good_encoding, "line 257");
  rank_refused("YWI= 999999999\n", 0, good_encoding, "outside");
  rank_refused("", 0, "{\"pattern\": 1}", "pattern");
  rank_refused("", 0, "{\"pattern\": \"(\"}", "ranks");
  rank_refused("", 0, "{\"pattern\": \"a\", \"special_tokens\": {\"<e>\": -1}}", "<e>");
  rank_refused("", 0, "{\"pattern\": \"a\", \"special_tokens\": []}", "special_tokens");
  Tokenizer *t = NULL;
  Buf b = rank_file("YWI= 256\nYWJi 257\n");
  write_case("encoding.json", good_encoding, strlen(good_encoding));
  CHECK(tokenizer_load(&t, write_case("ranks", b.data, b.len)) == GRPO_OK);
  if (t) {
    IntBuf ids = encode_all(t, "abbab<e>", 8, 0);
    CHECK(ids.len == 3 && ids.data[0] == 97 + 160 && ids.data[2] == 300);
    intbuf_free(&ids);
    check_round_trip(t, "ab <e> \xC3\xA9", 9);
  }
  tokenizer_free(t);
  buf_free(&b);
}

TEST(a_replace_cannot_make_text_explode) {
  Buf b = {0};
  Tokenizer *t = NULL;
  IntBuf ids = {0};
  buf_puts(&b, "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
  for (int i = 0; i < 12; i++)
    buf_printf(&b,
               "%s{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aaaaaaaa\"}",
               i ? "," : "");
  buf_puts(&b, "]},\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"a\",\"vocab\":{\"a\":0}}}");
  CHECK(tokenizer_load(&t, write_case("tokenizer.json", b.data, b.len)) == GRPO_OK);
  if (t) CHECK(tokenizer_encode(t, "aaaaaaaa", 8, 0, &ids) == GRPO_ELIMIT && !ids.len);
  tokenizer_free(t);
  intbuf_free(&ids);
  buf_free(&b);
}
