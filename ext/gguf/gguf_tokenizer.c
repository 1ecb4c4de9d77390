/* gguf_tokenizer.c - makes a tokenizer.json of tokenizer.ggml.*. */
#include "gguf/gguf_tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "gguf/gguf_pre.h"
#include "text/tokenizer_build.h"
#include "text/tokenizer_write.h"
#include "text/vocab.h"

#define KEY(name) "tokenizer.ggml." name

typedef struct Words {
  const Gguf *g;
  int32_t n;
  Vocab vocab; /* the tokens of the model */
  char **text; /* [n] NUL-terminated, in `memory`; NULL: no such token */
  int32_t *type;
  Arena memory;
  const GgufValue *scores, *merges; /* NULL: none */
} Words;

/* ---- the token list ------------------------------------------------------------------- */

static Status read_types(Words *w) {
  const GgufValue *v;
  try(gguf_get_array(w->g, KEY("token_type"), GGUF_I32, &v));
  if (v && v->count != (uint64_t)w->n)
    return fail(GRPO_EFORMAT, "%s: " KEY("token_type") " has %llu entries for %d tokens",
                w->g->path, (unsigned long long)v->count, (int)w->n);
  for (int32_t i = 0; i < w->n; i++) {
    const int64_t type = v ? gguf_int_at(v, (uint64_t)i) : GGUF_NORMAL;
    w->type[i] = type >= GGUF_NORMAL && type <= GGUF_BYTE ? (int32_t)type : GGUF_NORMAL;
  }
  return GRPO_OK;
}

/* A row of the embedding that has no token is spelt [PADn]. */
static bool is_padding(const char *s, size_t n, int32_t id, int32_t type) {
  char pad[32];
  const int k = snprintf(pad, sizeof pad, "[PAD%d]", (int)id);
  return n == 0 || (type == GGUF_UNUSED && n == (size_t)k && memcmp(s, pad, n) == 0);
}

static Status add_word(Words *w, int32_t id, const char *s, size_t n) {
  if (is_padding(s, n, id, w->type[id])) return GRPO_OK;
  if (!utf8_is_valid(s, n) || memchr(s, 0, n))
    return fail(GRPO_EFORMAT, "%s: " KEY("tokens") "[%d] is not text in UTF-8", w->g->path,
                (int)id);
  w->text[id] = arena_alloc(&w->memory, n + 1);
  if (!w->text[id]) return fail(GRPO_ENOMEM, "%s: tokens", w->g->path);
  memcpy(w->text[id], s, n);
  w->text[id][n] = 0;
  const Status st = vocab_add(&w->vocab, s, n, id, TOKEN_MODEL);
  return st == GRPO_OK ? st : err_context(st, "%s: " KEY("tokens") "[%d]", w->g->path, (int)id);
}

static Status read_words(Words *w) {
  const GgufValue *tokens;
  try(gguf_get_array(w->g, KEY("tokens"), GGUF_STRING, &tokens));
  try(gguf_get_array(w->g, KEY("scores"), GGUF_F32, &w->scores));
  try(gguf_get_array(w->g, KEY("merges"), GGUF_STRING, &w->merges));
  if (!tokens || tokens->count > VOCAB_MAX_ID)
    return fail(GRPO_EFORMAT, "%s: " KEY("tokens") " is missing or too long", w->g->path);
  w->n = (int32_t)tokens->count;
  if (w->scores && w->scores->count != tokens->count)
    return fail(GRPO_EFORMAT, "%s: " KEY("scores") " has %llu entries for %d tokens", w->g->path,
                (unsigned long long)w->scores->count, (int)w->n);
  w->text = mem_zalloc(((size_t)w->n + 1) * sizeof *w->text);
  w->type = mem_zalloc(((size_t)w->n + 1) * sizeof *w->type);
  if (!w->text || !w->type) return fail(GRPO_ENOMEM, "%s: tokens", w->g->path);
  try(read_types(w));
  const char *at = tokens->data, *s;
  size_t n;
  for (int32_t id = 0; id < w->n; id++) {
    gguf_next_string(&at, &s, &n);
    try(add_word(w, id, s, n));
  }
  return GRPO_OK;
}

static void words_free(Words *w) {
  vocab_free(&w->vocab);
  arena_free(&w->memory);
  mem_free(w->text);
  mem_free(w->type);
}

/* ---- named tokens and added tokens ------------------------------------------------------- */

/* Sets the token whose id the key gives; NULL: the key is absent. */
static Status named(const Words *w, const char *key, const char **out) {
  int64_t id;
  bool found;
  *out = NULL;
  try(gguf_get_int(w->g, key, INT32_MIN, UINT32_MAX, &id, &found));
  if (!found || id < 0 || id == UINT32_MAX) return GRPO_OK;
  if (id >= w->n)
    return fail(GRPO_EFORMAT, "%s: key '%s' = %lld is not a token's id", w->g->path, key,
                (long long)id);
  *out = w->text[id];
  return GRPO_OK;
}

typedef struct Added {
  const char **text;
  int32_t *id;
  bool *plain;
  int n;
} Added;

static Status collect_added(const Words *w, Added *a) {
  a->text = mem_alloc(((size_t)w->n + 1) * sizeof *a->text);
  a->id = mem_alloc(((size_t)w->n + 1) * sizeof *a->id);
  a->plain = mem_alloc(((size_t)w->n + 1) * sizeof *a->plain);
  if (!a->text || !a->id || !a->plain) return fail(GRPO_ENOMEM, "%s: added tokens", w->g->path);
  for (int32_t i = 0; i < w->n; i++) {
    const int32_t type = w->type[i];
    if (!w->text[i] || (type != GGUF_CONTROL && type != GGUF_USER_DEFINED && type != GGUF_UNKNOWN))
      continue;
    a->text[a->n] = w->text[i];
    a->id[a->n] = i;
    a->plain[a->n++] = type == GGUF_USER_DEFINED;
  }
  return GRPO_OK;
}

/* Appends the post-processor that add_bos_token and add_eos_token ask for. */
static Status put_post_processor(const Words *w, const TokenizerParts *p, bool add_bos, Buf *b) {
  bool add_eos = false;
  try(gguf_get_bool(w->g, KEY("add_bos_token"), &add_bos, NULL));
  try(gguf_get_bool(w->g, KEY("add_eos_token"), &add_eos, NULL));
  const char *const token[2] = {add_bos ? p->bos : NULL, add_eos ? p->eos : NULL};
  if (!token[0] && !token[1]) return GRPO_OK;
  buf_puts(b, "{\"type\": \"TemplateProcessing\", \"single\": [");
  for (int i = 0; i < 2; i++) {
    if (i) buf_puts(b, token[0] ? ", " : "");
    if (i) buf_puts(b, "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}");
    if (!token[i]) continue;
    buf_puts(b, i ? ", {\"SpecialToken\": {\"id\": " : "{\"SpecialToken\": {\"id\": ");
    json_put_string(b, token[i], strlen(token[i]));
    buf_puts(b, ", \"type_id\": 0}}");
  }
  buf_puts(b, "], \"pair\": [{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, {\"Sequence\": "
              "{\"id\": \"B\", \"type_id\": 1}}], \"special_tokens\": {");
  const bool same = token[0] && token[1] && strcmp(token[0], token[1]) == 0;
  for (int i = 0; i < 2; i++) {
    if (!token[i] || (i && same)) continue;
    if (i && token[0]) buf_puts(b, ", ");
    json_put_string(b, token[i], strlen(token[i]));
    buf_puts(b, ": {\"id\": ");
    json_put_string(b, token[i], strlen(token[i]));
    buf_printf(b, ", \"ids\": [%d], \"tokens\": [",
               (int)vocab_find(&w->vocab, token[i], strlen(token[i])));
    json_put_string(b, token[i], strlen(token[i]));
    buf_puts(b, "]}");
  }
  buf_puts(b, "}}");
  return buf_status(b);
}

/* ---- merges ------------------------------------------------------------------------------- */

static void put_merge(Buf *b, const char *left, size_t nleft, const char *right, size_t nright) {
  buf_puts(b, b->len ? ",\n      [" : "[");
  json_put_string(b, left, nleft);
  buf_puts(b, ", ");
  json_put_string(b, right, nright);
  buf_putc(b, ']');
}

/* Splits "left right"; a space at the beginning belongs to the left part. */
static Status put_listed_merges(const Words *w, Buf *b) {
  const char *at = w->merges ? w->merges->data : NULL, *s;
  size_t n;
  for (uint64_t i = 0; w->merges && i < w->merges->count; i++) {
    gguf_next_string(&at, &s, &n);
    const char *space = n > 1 ? memchr(s + 1, ' ', n - 1) : NULL;
    if (!space || !utf8_is_valid(s, n) || memchr(s, 0, n))
      return fail(GRPO_EFORMAT, "%s: " KEY("merges") "[%llu]: want \"left right\"", w->g->path,
                  (unsigned long long)i);
    put_merge(b, s, (size_t)(space - s), space + 1, (size_t)(s + n - space) - 1);
  }
  return buf_status(b);
}

typedef struct Split {
  float score;
  int32_t id, order;
  int32_t left, nleft, nright; /* bytes of the left part; characters of both */
} Split;

static int by_score(const void *x, const void *y) {
  const Split *a = x, *b = y;
  if (a->score != b->score) return a->score > b->score ? -1 : 1;
  if (a->nleft != b->nleft) return a->nleft > b->nleft ? -1 : 1;
  if (a->nright != b->nright) return a->nright > b->nright ? -1 : 1;
  return a->order < b->order ? -1 : 1;
}

typedef struct Splits {
  Split *at;
  size_t n, cap;
} Splits;

static Status add_split(Splits *l, const Split *s) {
  if (l->n == l->cap) {
    const size_t cap = l->cap ? 2 * l->cap : 4096;
    Split *p = mem_realloc(l->at, cap * sizeof *p);
    if (!p || l->n > INT32_MAX / 2) {
      if (p) l->at = p;
      return fail(GRPO_ENOMEM, "merges");
    }
    l->at = p;
    l->cap = cap;
  }
  l->at[l->n] = *s;
  l->at[l->n].order = (int32_t)l->n;
  l->n++;
  return GRPO_OK;
}

/* Lists all pairs of tokens that make this token. */
static Status split_word(const Words *w, int32_t id, Splits *l) {
  enum { LONGEST = 1024 };
  const char *s = w->text[id];
  const size_t n = strlen(s);
  int32_t chars = 0, before = 0;
  if (n > LONGEST) return GRPO_OK;
  for (size_t i = 0; i < n; i++) chars += (s[i] & 0xc0) != 0x80;
  for (size_t i = 1; i < n; i++) {
    if ((s[i] & 0xc0) == 0x80) continue;
    before++;
    if (vocab_find(&w->vocab, s, i) < 0 || vocab_find(&w->vocab, s + i, n - i) < 0) continue;
    const float score = w->scores ? (float)gguf_number_at(w->scores, (uint64_t)id) : -(float)id;
    try(add_split(
        l, &(Split){score == score ? score : -1e30f, id, 0, (int32_t)i, before, chars - before}));
  }
  return GRPO_OK;
}

/* SentencePiece merges the pair that makes the token with the best score, so merges are ordered by
 * the score of the token that they make. */
static Status put_scored_merges(const Words *w, Buf *b) {
  Splits l = {0};
  Status s = GRPO_OK;
  for (int32_t id = 0; id < w->n && s == GRPO_OK; id++)
    if (w->text[id] && (w->type[id] == GGUF_NORMAL || w->type[id] == GGUF_USER_DEFINED))
      s = split_word(w, id, &l);
  if (l.n) qsort(l.at, l.n, sizeof *l.at, by_score);
  for (size_t i = 0; i < l.n && s == GRPO_OK; i++) {
    const char *text = w->text[l.at[i].id];
    const size_t left = (size_t)l.at[i].left;
    put_merge(b, text, left, text + left, strlen(text) - left);
  }
  mem_free(l.at);
  return s == GRPO_OK ? buf_status(b) : s;
}

/* ---- the models -------------------------------------------------------------------------- */

#define BYTE_LEVEL                                                                                 \
  "{\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": true, "                 \
  "\"use_regex\": true}"
#define MARK "\xe2\x96\x81" /* U+2581 */

typedef struct TokenTexts {
  Buf vocab, merges, pre, post, model;
} TokenTexts;

static Status read_gpt2(Words *w, TokenTexts *x, TokenizerParts *p) {
  const char *name = "default";
  size_t n = 7;
  try(gguf_get_string(w->g, KEY("pre"), &name, &n, NULL));
  const GgufPre *pre = gguf_pre_find(name, n);
  if (!pre)
    return fail(GRPO_EFORMAT,
                "%s: " KEY("pre") " '%.*s' is not supported; take the tokenizer.json of the model "
                                  "that the file was made from",
                w->g->path, n > 60 ? 60 : (int)n, name);
  try(put_listed_merges(w, &x->merges));
  /* Without merges text need not be cut. */
  gguf_pre_put_json(&x->pre, x->merges.len ? pre : &(GgufPre){0});
  buf_printf(&x->model,
             "\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, "
             "\"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null, "
             "\"fuse_unk\": false, \"byte_fallback\": false, \"ignore_merges\": %s",
             pre->ignore_merges ? "true" : "false");
  if (pre->nfc) p->normalizer = "{\"type\": \"NFC\"}";
  p->decoder = BYTE_LEVEL;
  return put_post_processor(w, p, pre->add_bos, &x->post);
}

/* SentencePiece's BPE; files of Gemma 4 list its merges, and never begin with a space. */
static Status read_sentencepiece(Words *w, TokenTexts *x, TokenizerParts *p, bool listed) {
  bool prefix = !listed;
  try(gguf_get_bool(w->g, KEY("add_space_prefix"), &prefix, NULL));
  try(listed ? put_listed_merges(w, &x->merges) : put_scored_merges(w, &x->merges));
  for (int32_t i = 0; i < w->n && !p->unk; i++)
    if (w->type[i] == GGUF_UNKNOWN) p->unk = w->text[i];
  buf_puts(&x->pre, "null");
  buf_puts(&x->model, "\"type\": \"BPE\", \"dropout\": null, \"unk_token\": ");
  if (p->unk)
    json_put_string(&x->model, p->unk, strlen(p->unk));
  else
    buf_puts(&x->model, "null");
  buf_puts(&x->model, ", \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null, "
                      "\"fuse_unk\": true, \"byte_fallback\": true, \"ignore_merges\": false");
#define REPLACE                                                                                    \
  "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"" MARK "\"}"
#define BACK                                                                                       \
  "{\"type\": \"Replace\", \"pattern\": {\"String\": \"" MARK "\"}, \"content\": \" \"}, "         \
  "{\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}"
  p->normalizer = prefix ? "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Prepend\", "
                           "\"prepend\": \"" MARK "\"}, " REPLACE "]}"
                         : REPLACE;
  p->decoder = prefix ? "{\"type\": \"Sequence\", \"decoders\": [" BACK
                        ", {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}]}"
                      : "{\"type\": \"Sequence\", \"decoders\": [" BACK "]}";
  return put_post_processor(w, p, true, &x->post);
}

static Status read_model(Words *w, TokenTexts *x, TokenizerParts *p) {
  const char *name = "";
  size_t n = 0;
  try(gguf_get_string(w->g, KEY("model"), &name, &n, NULL));
  if (n == 4 && memcmp(name, "gpt2", 4) == 0) return read_gpt2(w, x, p);
  if (n == 5 && memcmp(name, "llama", 5) == 0) return read_sentencepiece(w, x, p, false);
  if (n == 6 && memcmp(name, "gemma4", 6) == 0) return read_sentencepiece(w, x, p, true);
  return fail(GRPO_EFORMAT,
              "%s: " KEY("model") " '%.*s' is not supported (gpt2, llama and gemma4 are)",
              w->g->path, n > 60 ? 60 : (int)n, name);
}

/* ---- the whole tokenizer ----------------------------------------------------------------- */

static Status build_from_words(Tokenizer **out, Words *w, TokenizerParts *p) {
  TokenTexts x = {0};
  Added a = {0};
  Status s = collect_added(w, &a);
  for (int32_t i = 0; i < w->n && s == GRPO_OK; i++)
    if (w->text[i]) tokenizer_put_entry(&x.vocab, w->text[i], strlen(w->text[i]), i);
  if (s == GRPO_OK) s = read_model(w, &x, p);
  if (s == GRPO_OK) s = buf_status(&x.vocab);
  if (s == GRPO_OK) s = buf_status(&x.pre);
  if (s == GRPO_OK) s = buf_status(&x.model);
  if (s == GRPO_OK) {
    p->vocab = &x.vocab;
    p->merges = &x.merges;
    if (!x.merges.data) buf_puts(&x.merges, "");
    p->pre_tokenizer = x.pre.data;
    p->model = x.model.data;
    p->post_processor = x.post.len ? x.post.data : NULL;
    p->special = a.text;
    p->special_id = a.id;
    p->plain = a.plain;
    p->nspecial = a.n;
    s = tokenizer_from_parts(out, p, w->g->path);
  }
  buf_free(&x.vocab), buf_free(&x.merges), buf_free(&x.pre), buf_free(&x.post), buf_free(&x.model);
  mem_free(a.text), mem_free(a.id), mem_free(a.plain);
  return s;
}

/* tokenizer.huggingface.json replaces tokenizer.json, but not the files beside it. */
static Status build_from_json(Tokenizer **out, const char *json, size_t n, const Words *w,
                              const TokenizerParts *p) {
  Buf file[NFILES] = {0};
  buf_put(&file[FILE_TOKENIZER], json, n);
  tokenizer_put_config(&file[FILE_CONFIG], &file[FILE_MAP], p);
  Status s = GRPO_OK;
  for (int i = 0; i < NFILES && s == GRPO_OK; i++) s = buf_status(&file[i]);
  if (s == GRPO_OK) return tokenizer_build(out, file, w->g->path);
  for (int i = 0; i < NFILES; i++) buf_free(&file[i]);
  return s;
}

bool gguf_tokenizer_is_in(const Gguf *g) {
  const char *name;
  size_t n = 0;
  bool found = false;
  if (gguf_get_string(g, KEY("model"), &name, &n, &found) != GRPO_OK) return true;
  return found && !(n == 4 && memcmp(name, "none", 4) == 0);
}

static Status build(Tokenizer **out, Words *w, char **template) {
  const char *text = NULL, *json = NULL;
  size_t n = 0;
  TokenizerParts p = {0};
  try(read_words(w));
  try(named(w, KEY("bos_token_id"), &p.bos));
  try(named(w, KEY("eos_token_id"), &p.eos));
  try(named(w, KEY("padding_token_id"), &p.pad));
  try(named(w, KEY("unknown_token_id"), &p.unk));
  try(gguf_get_string(w->g, "tokenizer.chat_template", &text, &n, NULL));
  if (text && !(*template = mem_strndup(text, n))) return fail(GRPO_ENOMEM, "chat template");
  p.chat_template = *template;
  try(gguf_get_string(w->g, "tokenizer.huggingface.json", &json, &n, NULL));
  return json ? build_from_json(out, json, n, w, &p) : build_from_words(out, w, &p);
}

/* Adds the named chat templates: tokenizer.chat_templates has their names. */
static Status read_templates(Tokenizer *t, const Gguf *g) {
  const GgufValue *names;
  try(gguf_get_array(g, "tokenizer.chat_templates", GGUF_STRING, &names));
  const char *at = names ? names->data : NULL;
  for (uint64_t i = 0; names && i < names->count; i++) {
    char name[128], key[192];
    const char *s, *text = NULL;
    size_t n, length = 0;
    gguf_next_string(&at, &s, &n);
    if (!n || n >= sizeof name || *s == '.' || memchr(s, '/', n)) continue; /* no file's name */
    snprintf(name, sizeof name, "%.*s", (int)n, s);
    snprintf(key, sizeof key, "tokenizer.chat_template.%s", name);
    try(gguf_get_string(g, key, &text, &length, NULL));
    if (text) try(chat_templates_put(&t->templates, name, text, length, true));
  }
  return GRPO_OK;
}

Status gguf_tokenizer_read(Tokenizer **out, const Gguf *g) {
  Words w = {.g = g};
  char *template = NULL;
  *out = NULL;
  Status s = gguf_tokenizer_is_in(g)
                 ? build(out, &w, &template)
                 : fail(GRPO_ENOENT, "%s: the file holds no tokenizer", g->path);
  if (s == GRPO_OK && (s = read_templates(*out, g)) != GRPO_OK) {
    tokenizer_free(*out);
    *out = NULL;
  }
  mem_free(template);
  words_free(&w);
  return s;
}
