/* oracle.inc.c - included by the test programs that need it. */
#include "oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "testing.h"

/* JSON's \\u0000 cannot be in a C string: rows that hold it are read with this in its place. */
#define NUL_STAND_IN "\xF4\x8F\xBF\xBE" /* U+10FFFE */

static void replace_nul_escapes(char **line, size_t *len, Buf *b) {
  buf_clear(b);
  for (size_t i = 0; i < *len; i++) {
    if (*len - i >= 6 && memcmp(*line + i, "\\u0000", 6) == 0) {
      buf_puts(b, NUL_STAND_IN);
      i += 5;
    } else {
      buf_putc(b, (*line)[i]);
    }
  }
  *line = b->data;
  *len = b->len;
}

Buf row_text(const Json *row, const char *key) {
  const char *s = json_string(json_get(row, key));
  Buf b = {0};
  while (s && *s) {
    bool nul = strncmp(s, NUL_STAND_IN, 4) == 0;
    buf_putc(&b, nul ? 0 : *s);
    s += nul ? 4 : 1;
  }
  if (s && !b.data) buf_puts(&b, "");
  return b;
}

int each_row(const char *path, void (*fn)(const Json *row, void *user), void *user) {
  FILE *f = fopen(path, "rb");
  char *line = NULL;
  size_t cap = 0;
  Buf replaced = {0};
  int n = 0;
  if (!f) {
    test_fail(__FILE__, __LINE__, "cannot open %s", path);
    return 0;
  }
  for (ssize_t len; (len = getline(&line, &cap, f)) > 0;) {
    Json *row = NULL;
    if (line[len - 1] == '\n') len--;
    if (!len) continue;
    n++;
    char *text = line;
    size_t ntext = (size_t)len;
    replace_nul_escapes(&text, &ntext, &replaced);
    if (json_parse(text, ntext, path, &row) == GRPO_OK)
      fn(row, user);
    else
      test_fail(__FILE__, __LINE__, "%s: row %d: %s", path, n, err_message());
    json_free(row);
  }
  free(line);
  buf_free(&replaced);
  fclose(f);
  return n;
}

Buf read_all(const char *path) {
  Buf b = {0};
  char chunk[4096];
  FILE *f = fopen(path, "rb");
  if (!f) test_fail(__FILE__, __LINE__, "cannot open %s", path);
  for (size_t n; f && (n = fread(chunk, 1, sizeof chunk, f)) > 0;) buf_put(&b, chunk, n);
  if (f) fclose(f);
  return b;
}

static IntBuf ids_of(const Json *list) {
  IntBuf b = {0};
  for (const Json *j = json_child(list); j; j = json_next(j)) {
    int64_t id = 0;
    bool in_range = json_integer(j, &id) && id >= INT32_MIN && id <= INT32_MAX;
    intbuf_put(&b, in_range ? (int32_t)id : -1);
  }
  return b;
}

IntBuf encode_all(const Tokenizer *t, const char *s, size_t n, unsigned flags) {
  IntBuf b = {0};
  if (tokenizer_encode(t, s, n, flags, &b) != GRPO_OK)
    test_fail(__FILE__, __LINE__, "encode: %s", err_message());
  return b;
}

static void check_ids(const Tokenizer *t, const Buf *text, unsigned flags, const Json *want) {
  if (!want) return;
  IntBuf got = encode_all(t, text->data, text->len, flags), ids = ids_of(want);
  bool same = got.len == ids.len &&
              (got.len == 0 || memcmp(got.data, ids.data, got.len * sizeof *got.data) == 0);
  if (!same)
    test_fail(__FILE__, __LINE__, "\"%.80s\" (flags %u): %zu ids, want %zu", text->data, flags,
              got.len, ids.len);
  for (size_t i = 0; !same && i < got.len && i < ids.len; i++)
    if (got.data[i] != ids.data[i]) {
      test_fail(__FILE__, __LINE__, "  id %zu: %d, want %d", i, got.data[i], ids.data[i]);
      break;
    }
  intbuf_free(&got);
  intbuf_free(&ids);
}

static void check_text(const Tokenizer *t, const Json *row, const char *ids_key, bool skip,
                       const char *key) {
  if (!json_get(row, ids_key) || !json_get(row, key)) return;
  IntBuf ids = ids_of(json_get(row, ids_key));
  Buf got = {0}, want = row_text(row, key);
  if (tokenizer_decode(t, ids.data, ids.len, skip, &got) != GRPO_OK)
    test_fail(__FILE__, __LINE__, "decode: %s", err_message());
  if (got.len != want.len || (got.len && memcmp(got.data, want.data, got.len) != 0))
    test_fail(__FILE__, __LINE__, "decoded \"%.80s\", want \"%.80s\"", got.len ? got.data : "",
              want.data);
  buf_free(&got);
  buf_free(&want);
  intbuf_free(&ids);
}

void check_decode_row(const Tokenizer *t, const Json *row) {
  check_text(t, row, "ids", false, "decoded");
  check_text(t, row, "ids", true, "decoded_skip");
}

void check_encode_row(const Tokenizer *t, const Json *row) {
  Buf text = row_text(row, "text");
  check_ids(t, &text, 0, json_get(row, "ids"));
  check_ids(t, &text, TOK_ADD_SPECIAL, json_get(row, "ids_special"));
  check_text(t, row, "ids_special", false, "decoded");
  check_text(t, row, "ids_special", true, "decoded_skip");
  buf_free(&text);
}

void check_round_trip(const Tokenizer *t, const char *s, size_t n) {
  IntBuf ids = encode_all(t, s, n, 0);
  Buf back = {0};
  CHECK(tokenizer_decode(t, ids.data, ids.len, false, &back) == GRPO_OK);
  if (back.len != n || (n && memcmp(back.data, s, n) != 0))
    test_fail(__FILE__, __LINE__, "round trip: \"%.60s\" became \"%.60s\"", s,
              back.data ? back.data : "");
  buf_free(&back);
  intbuf_free(&ids);
}
