#include "text/rankfile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/mem.h"
#include "formats/json.h"
#include "text/bytelevel.h"
#include "text/patterns.h"
#include "text/tokenizer_write.h"
#include "text/vocab.h"

enum { MAX_RANK_TOKEN = 1024, MAX_SPECIAL = 4096 };

/* ---- lines ---------------------------------------------------------------------------------- */

/* Reads one line without its end: the token's bytes and its rank. */
static bool read_line(const char *s, size_t n, Buf *token, int64_t *rank) {
  const char *space = memchr(s, ' ', n);
  if (!space || space == s) return false;
  const size_t digits = n - (size_t)(space + 1 - s);
  if (!digits || digits > 9) return false;
  *rank = 0;
  for (size_t i = 0; i < digits; i++) {
    if (space[1 + i] < '0' || space[1 + i] > '9') return false;
    *rank = 10 * *rank + space[1 + i] - '0';
  }
  buf_clear(token);
  return base64_decode(s, (size_t)(space - s), token) && token->len;
}

bool rankfile_is(const char *text, size_t n) {
  const char *end = n ? memchr(text, '\n', n) : NULL;
  Buf token = {0};
  int64_t rank;
  bool yes = end && end - text < 4 * MAX_RANK_TOKEN &&
             read_line(text, (size_t)(end - text), &token, &rank);
  buf_free(&token);
  return yes;
}

static Status read_ranks(Vocab *v, const Buf *file) {
  Buf token = {0};
  Status s = GRPO_OK;
  int line = 1;
  for (size_t i = 0; i < file->len && s == GRPO_OK; line++) {
    const char *end = memchr(file->data + i, '\n', file->len - i);
    size_t next = end ? (size_t)(end - file->data) + 1 : file->len, n = next - i - (end != NULL);
    int64_t rank;
    if (n && file->data[i + n - 1] == '\r') n--;
    if (n && !read_line(file->data + i, n, &token, &rank))
      s = fail(GRPO_EFORMAT, "line %d: want base64, a space and a rank", line);
    else if (n && token.len > MAX_RANK_TOKEN)
      s = fail(GRPO_ELIMIT, "line %d: a token of %zu bytes", line, token.len);
    else if (n && (s = vocab_add(v, token.data, token.len, rank, TOKEN_MODEL)) != GRPO_OK)
      err_context(s, "line %d", line);
    i = next;
  }
  if (s == GRPO_OK) s = buf_status(&token);
  buf_free(&token);
  for (int b = 0; b < 256 && s == GRPO_OK; b++) {
    char c = (char)b;
    if (vocab_find(v, &c, 1) < 0) s = fail(GRPO_EFORMAT, "byte 0x%02X has no rank", (unsigned)b);
  }
  return s;
}

/* ---- the pattern and the special tokens --------------------------------------------------- */

typedef struct Encoding {
  Buf pattern;
  char **special; /* [n], owned */
  int32_t *id;
  int n, cap;
} Encoding;

static Status add_special(Encoding *e, const char *token, int64_t id) {
  if (e->n == MAX_SPECIAL || id < 0 || id > VOCAB_MAX_ID)
    return fail(GRPO_ELIMIT, "special token \"%.60s\": too many, or its id is too large", token);
  if (e->n == e->cap) {
    int cap = e->cap ? 2 * e->cap : 16;
    char **special = mem_realloc(e->special, (size_t)cap * sizeof *special);
    if (special) e->special = special;
    int32_t *ids = mem_realloc(e->id, (size_t)cap * sizeof *ids);
    if (ids) e->id = ids;
    if (!special || !ids) return fail(GRPO_ENOMEM, "special tokens");
    e->cap = cap;
  }
  e->special[e->n] = mem_strndup(token, strlen(token));
  if (!e->special[e->n]) return fail(GRPO_ENOMEM, "special tokens");
  e->id[e->n++] = (int32_t)id;
  return GRPO_OK;
}

typedef struct Special {
  const char *token;
  int32_t id;
} Special;

static const struct {
  size_t ranks;
  const char *pattern;
  Special special[8]; /* Llama 3's are made by a rule */
} known[] = {
    {50256, PATTERN_GPT2, {{"<|endoftext|>", 50256}}},
    {50280, PATTERN_GPT2, {{"<|endoftext|>", 50256}}},
    {100256,
     PATTERN_GPT4,
     {{"<|endoftext|>", 100257},
      {"<|fim_prefix|>", 100258},
      {"<|fim_middle|>", 100259},
      {"<|fim_suffix|>", 100260},
      {"<|endofprompt|>", 100276}}},
    {128000, PATTERN_GPT4, {{NULL, 0}}},
    {199998, PATTERN_GPT4O, {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}}},
};

/* Llama 3.1 has 256 special tokens after the ranks, most of them reserved. */
static Status add_llama3(Encoding *e) {
  static const Special named[] = {
      {"<|begin_of_text|>", 0},   {"<|end_of_text|>", 1},   {"<|finetune_right_pad_id|>", 4},
      {"<|start_header_id|>", 6}, {"<|end_header_id|>", 7}, {"<|eom_id|>", 8},
      {"<|eot_id|>", 9},          {"<|python_tag|>", 10}};
  for (int i = 0, k = 0, reserved = 0; i < 256; i++) {
    char name[64];
    bool has_name = k < (int)(sizeof named / sizeof *named) && named[k].id == i;
    snprintf(name, sizeof name, "<|reserved_special_token_%d|>", reserved);
    try(add_special(e, has_name ? named[k].token : name, 128000 + i));
    k += has_name;
    reserved += !has_name;
  }
  return GRPO_OK;
}

static Status guess_encoding(Encoding *e, size_t ranks) {
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (known[i].ranks != ranks) continue;
    buf_puts(&e->pattern, known[i].pattern);
    for (const Special *p = known[i].special; p->token; p++) try(add_special(e, p->token, p->id));
    return ranks == 128000 ? add_llama3(e) : GRPO_OK;
  }
  return fail(GRPO_EFORMAT,
              "%zu ranks are none of the known encodings; put an encoding.json beside it: "
              "{\"pattern\": regex, \"special_tokens\": {token: id}}",
              ranks);
}

static Status read_encoding(Encoding *e, const Buf *file) {
  Json *root = NULL;
  try(json_parse(file->data, file->len, "encoding.json", &root));
  const char *pattern = json_string(json_get(root, "pattern"));
  const Json *special = json_get(root, "special_tokens");
  Status s = pattern ? GRPO_OK : fail(GRPO_EFORMAT, "encoding.json: pattern: want a string");
  if (s == GRPO_OK && special && json_type(special) != JSON_OBJECT)
    s = fail(GRPO_EFORMAT, "encoding.json: special_tokens: want an object");
  if (s == GRPO_OK) buf_puts(&e->pattern, pattern);
  for (const Json *j = special ? json_child(special) : NULL; j && s == GRPO_OK; j = json_next(j)) {
    int64_t id = -1;
    json_integer(j, &id);
    s = add_special(e, json_key(j), id);
  }
  json_free(root);
  return s;
}

/* ---- the tokenizer.json ------------------------------------------------------------------ */

typedef struct Cut {
  int32_t left, right;
  uint32_t at;
} Cut;

static int by_ranks(const void *x, const void *y) {
  const Cut *a = x, *b = y;
  if (a->left != b->left) return a->left < b->left ? -1 : 1;
  return a->right < b->right ? -1 : a->right > b->right;
}

/* Appends all pairs of tokens that make this token, in the order that transformers writes. */
static void put_merges(Buf *merges, const Vocab *v, const VocabEntry *e) {
  const char *s = v->text.data + e->text;
  Cut cut[MAX_RANK_TOKEN];
  size_t n = 0;
  Buf pair = {0};
  for (uint32_t i = 1; i < e->len; i++) {
    int32_t left = vocab_find(v, s, i), right = vocab_find(v, s + i, e->len - i);
    if (left >= 0 && right >= 0) cut[n++] = (Cut){left, right, i};
  }
  qsort(cut, n, sizeof *cut, by_ranks);
  for (size_t i = 0; i < n; i++) {
    buf_clear(&pair);
    bytelevel_put(&pair, s, cut[i].at);
    buf_putc(&pair, ' ');
    bytelevel_put(&pair, s + cut[i].at, e->len - cut[i].at);
    if (merges->len) buf_puts(merges, ",\n      ");
    if (!pair.oom) json_put_string(merges, pair.data, pair.len);
    merges->oom |= pair.oom;
  }
  buf_free(&pair);
}

static void put_vocab(Buf *vocab, Buf *merges, const Vocab *v) {
  Buf name = {0};
  for (int32_t id = 0; id < v->size; id++) {
    const VocabEntry *e = vocab_entry(v, id);
    if (!e) continue;
    buf_clear(&name);
    bytelevel_put(&name, v->text.data + e->text, e->len);
    if (!name.oom) tokenizer_put_entry(vocab, name.data, name.len, id);
    vocab->oom |= name.oom;
    put_merges(merges, v, e);
  }
  buf_free(&name);
}

static const char *find_special(const Encoding *e, const char *a, const char *b) {
  for (int i = 0; i < e->n; i++)
    if (strcmp(e->special[i], a) == 0 || strcmp(e->special[i], b) == 0) return e->special[i];
  return NULL;
}

static Status build(Tokenizer **out, const Vocab *v, const Encoding *e, const char *what) {
  Buf vocab = {0}, merges = {0}, pre = {0};
  put_vocab(&vocab, &merges, v);
  buf_puts(&pre, "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", "
                 "\"pattern\": {\"Regex\": ");
  json_put_string(&pre, e->pattern.data, e->pattern.len);
  buf_puts(&pre, "}, \"behavior\": \"Isolated\", \"invert\": false}, {\"type\": \"ByteLevel\", "
                 "\"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": false}]}");
  const TokenizerParts parts = {
      .pre_tokenizer = pre.data,
      .decoder = "{\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": true, "
                 "\"use_regex\": true}",
      .model = "\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, "
               "\"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null, "
               "\"fuse_unk\": false, \"byte_fallback\": false, \"ignore_merges\": true",
      .vocab = &vocab,
      .merges = &merges,
      .special = (const char *const *)e->special,
      .special_id = e->id,
      .nspecial = e->n,
      .bos = find_special(e, "<|begin_of_text|>", "<|begin_of_text|>"),
      .eos = find_special(e, "<|endoftext|>", "<|end_of_text|>"),
      .pad = find_special(e, "<|finetune_right_pad_id|>", "<|pad|>"),
  };
  Status s = buf_status(&vocab);
  if (s == GRPO_OK) s = buf_status(&merges);
  if (s == GRPO_OK) s = buf_status(&pre);
  if (s == GRPO_OK) s = tokenizer_from_parts(out, &parts, what);
  buf_free(&vocab);
  buf_free(&merges);
  buf_free(&pre);
  return s;
}

Status rankfile_build(Tokenizer **out, const Buf *ranks, const Buf *encoding, const char *what) {
  Vocab v = {0};
  Encoding e = {0};
  *out = NULL;
  Status s = read_ranks(&v, ranks);
  if (s == GRPO_OK)
    s = encoding->len ? read_encoding(&e, encoding) : guess_encoding(&e, v.ids.count);
  if (s == GRPO_OK) s = buf_status(&e.pattern);
  if (s != GRPO_OK) err_context(s, "%s", what);
  if (s == GRPO_OK) s = build(out, &v, &e, what);
  for (int i = 0; i < e.n; i++) mem_free(e.special[i]);
  mem_free(e.special);
  mem_free(e.id);
  buf_free(&e.pattern);
  vocab_free(&v);
  return s;
}
