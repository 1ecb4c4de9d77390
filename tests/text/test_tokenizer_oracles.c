/* test_tokenizer_oracles.c - ids and text that other implementations computed. */
#include <dirent.h>

#include "oracle.inc.c"
#include "text/tokenizer_files.h"
#include "text/tokenizer_make.h"

static Tokenizer *load(const char *path) {
  Tokenizer *t = NULL;
  if (tokenizer_load(&t, path) != GRPO_OK)
    test_fail(__FILE__, __LINE__, "%s: %s", path, err_message());
  return t;
}

static void encode_row(const Json *row, void *t) { check_encode_row(t, row); }
static void decode_row(const Json *row, void *t) { check_decode_row(t, row); }

/* The folder of an oracle, or NULL when there are none and the test is skipped. */
static const char *folder(const char *name) {
  static char path[1024];
  if (!test_shared()) {
    test_skip("no folder with oracles");
    return NULL;
  }
  snprintf(path, sizeof path, "%s/oracles/%s", test_shared(), name);
  return path;
}

static void check_folder(const char *name, int min_rows) {
  const char *dir = folder(name);
  if (!dir) return;
  Tokenizer *t = load(dir);
  if (!t) return;
  CHECK_STR(tokenizer_kind(t), "bpe");
  CHECK(each_row(test_path("%s/encode.jsonl", dir), encode_row, t) >= min_rows);
  CHECK(each_row(test_path("%s/decode.jsonl", dir), decode_row, t) >= 50);
  tokenizer_free(t);
}

TEST(gpt2_encodes_and_decodes_as_the_reference) { check_folder("tokenizers/gpt2", 300); }
TEST(smollm_encodes_and_decodes_as_the_reference) { check_folder("tokenizers/smollm", 300); }
TEST(llama3_encodes_and_decodes_as_the_reference) { check_folder("tokenizers/llama3_small", 300); }

TEST(llama2_encodes_and_decodes_as_the_reference) { check_folder("tokenizers/llama2", 300); }
TEST(gemma2_encodes_and_decodes_as_the_reference) { check_folder("tokenizers/gemma2_small", 300); }
TEST(qwen_encodes_and_decodes_as_the_reference) { check_folder("tokenizers/qwen2_5_small", 300); }

/* ---- tiktoken ------------------------------------------------------------------------------- */

static void tiktoken_row(const Json *row, void *t) {
  /* The reference was run in JavaScript, whose TextDecoder drops a leading U+FEFF; we do not. */
  Buf text = row_text(row, "text"), got = {0};
  bool bom = text.len >= 3 && memcmp(text.data, "\xEF\xBB\xBF", 3) == 0;
  Buf want = row_text(row, bom ? "text" : "decoded");
  const char *const key[] = {"ids", "ids_special"};
  for (int k = 0; k < 2; k++) {
    IntBuf ids = encode_all(t, text.data, text.len, k ? 0 : TOK_NO_PARSE_SPECIAL);
    size_t i = 0;
    for (const Json *j = json_child(json_get(row, key[k])); j; j = json_next(j), i++)
      CHECK(i < ids.len && ids.data[i] == (int32_t)json_number(j));
    CHECK(i == ids.len);
    if (!k) CHECK(tokenizer_decode(t, ids.data, ids.len, false, &got) == GRPO_OK);
    intbuf_free(&ids);
  }
  CHECK(got.len == want.len && (!got.len || memcmp(got.data, want.data, got.len) == 0));
  buf_free(&text);
  buf_free(&want);
  buf_free(&got);
}

static void check_tiktoken(const char *path, const char *rows) {
  Tokenizer *t = load(path), *again = NULL;
  if (!t) return;
  CHECK(each_row(rows, tiktoken_row, t) >= 200);
  const char *out = test_path("%s/tiktoken", test_tmp());
  CHECK(tokenizer_save(t, out) == GRPO_OK && tokenizer_load(&again, out) == GRPO_OK);
  if (again) each_row(rows, tiktoken_row, again);
  CHECK(again && tokenizer_eos(again) == tokenizer_eos(t) && tokenizer_eos(t) == 100257);
  tokenizer_free(t);
  tokenizer_free(again);
}

TEST(tiktoken_ranks_encode_as_the_reference) {
  const char *dir = folder("tokenizers/tiktoken_cl100k");
  if (!dir) return;
  char from[1100], rows[1100], copy[1100];
  snprintf(from, sizeof from, "%s/cl100k_base.tiktoken", dir);
  snprintf(rows, sizeof rows, "%s/encode.jsonl", dir);
  check_tiktoken(dir, rows);
  snprintf(copy, sizeof copy, "%s/ranks", test_tmp()); /* no encoding.json beside it */
  Buf b = read_all(from);
  FILE *f = fopen(copy, "wb");
  CHECK(f && fwrite(b.data, 1, b.len, f) == b.len && fclose(f) == 0);
  buf_free(&b);
  check_tiktoken(copy, rows);
}

/* ---- the component files: right, or refused by name ---------------------------------------- */

typedef struct Components {
  const char *dir;
  char name[64];
  Tokenizer *t; /* NULL: refused */
  int loaded, refused;
} Components;

static void component_row(const Json *row, void *user) {
  Components *c = user;
  const char *name = json_string(json_get(row, "config"));
  if (strcmp(name, "truncation_padding_set") == 0)
    return; /* ignored on purpose: a trainer decides */
  if (strcmp(name, c->name) != 0) {
    tokenizer_free(c->t);
    c->t = NULL;
    snprintf(c->name, sizeof c->name, "%s", name);
    if (tokenizer_load(&c->t, test_path("%s/%s.json", c->dir, name)) == GRPO_OK) {
      c->loaded++;
    } else {
      c->refused++;
      printf("# refused: %s: %s\n", name, err_message());
      if (!strstr(err_message(), "supported") && !strstr(err_message(), "contradicts itself"))
        test_fail(__FILE__, __LINE__, "%s", err_message());
    }
  }
  if (!c->t) return;
  IntBuf ids = {0};
  Buf text = row_text(row, "text");
  if (tokenizer_encode(c->t, text.data, text.len, 0, &ids) == GRPO_OK)
    check_encode_row(c->t, row);
  else
    test_fail(__FILE__, __LINE__, "%s: %s", name, err_message());
  buf_free(&text);
  intbuf_free(&ids);
}

TEST(every_component_is_right_or_refused_by_name) {
  Components c = {.dir = folder("tokenizers/components")};
  if (!c.dir) return;
  CHECK(each_row(test_path("%s/expected.jsonl", c.dir), component_row, &c) > 2000);
  tokenizer_free(c.t);
  printf("# %d components load, %d are refused\n", c.loaded, c.refused);
  CHECK(c.loaded >= 64);
}

/* ---- the tokenizer beside each small model ------------------------------------------------- */

static const char *const texts[] = {"",
                                    "Hello, world!",
                                    "12 + 34 = 46\n\n#### 46",
                                    "  two  spaces\tand a tab ",
                                    "naïve café 😀 日本",
                                    "<s>Hi</s><|endoftext|>",
                                    "a\x01"
                                    "b\x7f"};

static void check_model_tokenizer(const char *dir) {
  Tokenizer *t = load(dir), *again = NULL;
  if (!t) return;
  const char *out = test_path("%s/saved", test_tmp());
  CHECK(tokenizer_save(t, out) == GRPO_OK);
  CHECK(tokenizer_load(&again, out) == GRPO_OK);
  CHECK(tokenizer_size(t) >= 300 && tokenizer_eos(t) >= 0);
  for (size_t i = 0; i < sizeof texts / sizeof *texts && again; i++) {
    check_round_trip(t, texts[i], strlen(texts[i]));
    IntBuf a = encode_all(t, texts[i], strlen(texts[i]), 0);
    IntBuf b = encode_all(again, texts[i], strlen(texts[i]), 0);
    CHECK(a.len == b.len && (!a.len || memcmp(a.data, b.data, a.len * sizeof *a.data) == 0));
    intbuf_free(&a);
    intbuf_free(&b);
  }
  CHECK(again && tokenizer_eos(again) == tokenizer_eos(t) &&
        tokenizer_bos(again) == tokenizer_bos(t) && tokenizer_pad(again) == tokenizer_pad(t));
  tokenizer_free(t);
  tokenizer_free(again);
}

TEST(the_tokenizer_beside_every_model_loads_and_round_trips) {
  const char *models = folder("models");
  if (!models) return;
  DIR *d = opendir(models);
  CHECK(d != NULL);
  int n = 0;
  for (struct dirent *e; d && (e = readdir(d));)
    if (e->d_name[0] != '.') {
      check_model_tokenizer(test_path("%s/%s/checkpoint", models, e->d_name));
      n++;
    }
  if (d) closedir(d);
  CHECK(n >= 10);
}

/* ---- bytes and characters ------------------------------------------------------------------ */

typedef struct CharByte {
  Tokenizer *bytes, *chars;
} CharByte;

static void char_byte_row(const Json *row, void *user) {
  CharByte *c = user;
  const char *text = json_string(json_get(row, "text"));
  IntBuf ids = encode_all(c->bytes, text, strlen(text), TOK_NO_PARSE_SPECIAL);
  size_t i = 0;
  for (const Json *j = json_child(json_get(row, "bytes")); j; j = json_next(j), i++)
    CHECK(i < ids.len && ids.data[i] == (int32_t)json_number(j));
  CHECK(i == ids.len);
  intbuf_clear(&ids);
  Status s = tokenizer_encode(c->chars, text, strlen(text), TOK_NO_PARSE_SPECIAL, &ids);
  if (json_count(json_get(row, "unknown_positions"))) {
    CHECK(s == GRPO_EARG && ids.len == 0);
    CHECK(strstr(err_message(), "not in the vocabulary") != NULL);
  } else {
    CHECK(s == GRPO_OK);
    i = 0;
    for (const Json *j = json_child(json_get(row, "ids")); j; j = json_next(j), i++)
      CHECK(i < ids.len && ids.data[i] == (int32_t)json_number(j));
    CHECK(i == ids.len);
    check_round_trip(c->chars, text, strlen(text));
  }
  intbuf_free(&ids);
}

TEST(bytes_and_characters_are_as_defined) {
  const char *dir = folder("tokenizers/char_byte");
  if (!dir) return;
  Buf corpus = read_all(test_path("%s/corpus.txt", dir));
  CharByte c = {0};
  CHECK(tokenizer_bytes(&c.bytes) == GRPO_OK);
  CHECK(tokenizer_chars(&c.chars, corpus.data, corpus.len) == GRPO_OK);
  if (c.bytes && c.chars)
    CHECK(each_row(test_path("%s/encode.jsonl", dir), char_byte_row, &c) > 20);
  tokenizer_free(c.bytes);
  tokenizer_free(c.chars);
  buf_free(&corpus);
}

static void invalid_row(const Json *row, void *user) {
  const char *hex = json_string(json_get(row, "bytes_hex"));
  Buf raw = {0}, want = row_text(row, "replaced_text");
  for (unsigned byte; sscanf(hex, "%2x", &byte) == 1; hex += 2) buf_putc(&raw, (char)byte);
  IntBuf a = encode_all(user, raw.data, raw.len, 0), b = encode_all(user, want.data, want.len, 0);
  CHECK(a.len == b.len && memcmp(a.data, b.data, a.len * sizeof *a.data) == 0);
  intbuf_free(&a);
  intbuf_free(&b);
  buf_free(&raw);
  buf_free(&want);
}

TEST(invalid_utf8_is_replaced_before_encoding) {
  const char *dir = folder("tokenizers/gpt2");
  Tokenizer *t = dir ? load(dir) : NULL;
  if (!t) return;
  CHECK(each_row(folder("tokenizers/invalid_utf8.jsonl"), invalid_row, t) >= 20);
  tokenizer_free(t);
}
