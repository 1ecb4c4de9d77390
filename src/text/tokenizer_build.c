/* tokenizer_build.c - reads tokenizer.json through pipeline.h, and the files beside it. */
#include "text/tokenizer_build.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "formats/json.h"
#include "text/bytelevel.h"
#include "text/pipeline.h"
#include "text/tokenizer.h"

const char *const tokenizer_file_name[NFILES] = {
    [FILE_TOKENIZER] = "tokenizer.json",     [FILE_CONFIG] = "tokenizer_config.json",
    [FILE_MAP] = "special_tokens_map.json",  [FILE_ADDED] = "added_tokens.json",
    [FILE_TEMPLATE] = "chat_template.jinja",
};

/* ---- tokenizer_config.json and special_tokens_map.json ------------------------------- */

/* A token is named by a string, or by an object with its content. */
static const char *token_name(const Json *j) {
  const char *s = json_string(j);
  return s ? s : json_string(json_get(j, "content"));
}

static Status read_special(Tokenizer *t, int which, const Json *first, const Json *second) {
  char key[32];
  snprintf(key, sizeof key, "%s_token", token_role_name[which]);
  const char *name = token_name(json_get(first, key));
  if (!name) name = token_name(json_get(second, key));
  if (!name) return GRPO_OK;
  int32_t id = vocab_find(&t->vocab, name, strlen(name));
  t->special_id[which] = id;
  if (id >= 0) return pipeline_add_token(t, id, name, NULL, true);
  if (which == TOK_EOS)
    return fail(GRPO_EFORMAT, "eos_token \"%.60s\" is not in the vocabulary", name);
  log_message(LOG_WARNING, "tokenizer: %s \"%.60s\" is not in the vocabulary and is ignored", key,
              name);
  return GRPO_OK;
}

static Status read_added_decoder(Tokenizer *t, const Json *j) {
  for (const Json *e = j ? json_child(j) : NULL; e; e = json_next(e)) {
    const char *content = json_string(json_get(e, "content")), *key = json_key(e);
    int64_t id = 0;
    size_t digits = key ? strspn(key, "0123456789") : 0;
    if (!content || !digits || digits > 9 || key[digits])
      return fail(GRPO_EFORMAT, "added_tokens_decoder: want an id, and a token with its content");
    for (size_t i = 0; i < digits; i++) id = 10 * id + key[i] - '0';
    Status s = pipeline_add_token(t, id, content, e, false);
    if (s != GRPO_OK) return err_context(s, "added_tokens_decoder");
  }
  return GRPO_OK;
}

/* Adds a special token; one that is new gets the next id. */
static Status add_special(Tokenizer *t, const Json *j) {
  const char *name = token_name(j);
  if (!name) return GRPO_OK;
  const int32_t id = vocab_find(&t->vocab, name, strlen(name));
  return pipeline_add_token(t, id < 0 ? t->vocab.size : id, name, NULL, true);
}

/* Special tokens without a role of their own: a list, or an object of names and tokens. */
static Status read_others(Tokenizer *t, const Json *first, const Json *second) {
  static const char *const keys[] = {"additional_special_tokens", "extra_special_tokens"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    const Json *list = json_get(first, keys[i]);
    if (!list) list = json_get(second, keys[i]);
    for (const Json *e = json_child(list); e; e = json_next(e)) {
      const Status s = add_special(t, e);
      if (s != GRPO_OK) return err_context(s, "%s", keys[i]);
    }
  }
  return GRPO_OK;
}

/* added_tokens.json: { token: id }.  A token that tokenizer.json has keeps its id. */
static Status read_added_file(Tokenizer *t, const Json *j) {
  if (j && json_type(j) != JSON_OBJECT)
    return fail(GRPO_EFORMAT, "added_tokens.json: want an object of tokens and ids");
  for (const Json *e = j ? json_child(j) : NULL; e; e = json_next(e)) {
    int64_t id;
    const char *name = json_key(e);
    if (!json_integer(e, &id) || id < 0)
      return fail(GRPO_EFORMAT, "added_tokens.json: \"%.60s\": want an id", name);
    if (vocab_find(&t->vocab, name, strlen(name)) >= 0) continue;
    const Status s = pipeline_add_token(t, id, name, NULL, false);
    if (s != GRPO_OK) return err_context(s, "added_tokens.json");
  }
  return GRPO_OK;
}

/* If chat_template.jinja exists, the configuration's templates do not count. */
static Status read_templates(Tokenizer *t, const Json *config) {
  const Buf *file = &t->file[FILE_TEMPLATE];
  if (!file->data) return chat_templates_read(&t->templates, json_get(config, "chat_template"));
  return chat_templates_put(&t->templates, "default", file->data, file->len, false);
}

/* A tokenizer_config.json with an added_tokens_decoder says all; without one the older files beside
 * it come first, as in transformers. */
static Status read_config(Tokenizer *t, const Json *config, const Json *map, const Json *added) {
  const Json *decoder = json_get(config, "added_tokens_decoder");
  const Json *first = decoder ? config : map, *second = decoder ? map : config;
  try(read_added_decoder(t, decoder));
  if (!decoder) try(read_added_file(t, added));
  for (int i = 0; i < TOK_NROLES; i++) try(read_special(t, i, first, second));
  try(read_others(t, first, second));
  return read_templates(t, config);
}

/* ---- building ---------------------------------------------------------------------------- */

static Status make_pieces(Tokenizer *t) {
  Vocab *v = &t->vocab;
  for (int32_t id = 0; id < v->size; id++) {
    VocabEntry *e = &v->entry[id];
    if (!e->flags) continue;
    size_t start = v->pieces.len;
    size_t n;
    const char *token = tokenizer_spelling(t, id, &n);
    if (detok_is(&t->decoder, DEC_BYTE_LEVEL))
      bytelevel_unput(&v->pieces, token, n);
    else if (detok_is(&t->decoder, DEC_FUSE))
      buf_put(&v->pieces, token, n);
    else
      try(detok_piece(&t->decoder, &t->scratch->decode, token, n, &v->pieces));
    e->piece = (uint32_t)start;
    e->piece_len = (uint32_t)(v->pieces.len - start);
  }
  return buf_status(&v->pieces);
}

static Status parse_beside(const Tokenizer *t, TokenizerFile which, const char *what, Json **out) {
  const Buf *b = &t->file[which];
  char name[600];
  const char *slash = strrchr(what, '/');
  snprintf(name, sizeof name, "%.*s%s", slash ? (int)(slash - what + 1) : 0, what,
           tokenizer_file_name[which]);
  return b->len ? json_parse(b->data, b->len, name, out) : GRPO_OK;
}

static Status read_main(Tokenizer *t, const char *what) {
  const Buf *b = &t->file[FILE_TOKENIZER];
  Json *root = NULL;
  if (!b->len) return fail(GRPO_EFORMAT, "%s: the file is empty", what);
  try(json_parse(b->data, b->len, what, &root));
  Status s = pipeline_read(t, root);
  json_free(root);
  return s == GRPO_OK ? s : err_context(s, "%s", what);
}

static Status read_all(Tokenizer *t, const char *what) {
  Json *config = NULL, *map = NULL, *added = NULL;
  Status s = read_main(t, what);
  if (s == GRPO_OK) s = parse_beside(t, FILE_CONFIG, what, &config);
  if (s == GRPO_OK) s = parse_beside(t, FILE_MAP, what, &map);
  if (s == GRPO_OK) s = parse_beside(t, FILE_ADDED, what, &added);
  if (s == GRPO_OK && (s = read_config(t, config, map, added)) != GRPO_OK)
    err_context(s, "%s, beside %s", tokenizer_file_name[FILE_CONFIG], what);
  json_free(config);
  json_free(map);
  json_free(added);
  if (s != GRPO_OK) return s;
  try(pipeline_finish_added(t));
  return make_pieces(t);
}

static Tokenizer *new_tokenizer(void) {
  Tokenizer *t = mem_zalloc(sizeof *t);
  EncodeScratch *w = mem_zalloc(sizeof *w);
  if (!t || !w || pthread_mutex_init(&w->lock, NULL) != 0) {
    mem_free(t);
    mem_free(w);
    return NULL;
  }
  t->scratch = w;
  t->unk = -1;
  for (int i = 0; i < TOK_NROLES; i++) t->special_id[i] = -1;
  atomic_init(&t->refs, 1);
  return t;
}

Status tokenizer_build(Tokenizer **out, Buf file[NFILES], const char *what) {
  *out = NULL;
  Tokenizer *t = new_tokenizer();
  if (!t) {
    for (int i = 0; i < NFILES; i++) buf_free(&file[i]);
    return fail(GRPO_ENOMEM, "tokenizer");
  }
  for (int i = 0; i < NFILES; i++) {
    t->file[i] = file[i];
    file[i] = (Buf){0};
  }
  Status s = read_all(t, what);
  if (s == GRPO_OK)
    *out = t;
  else
    tokenizer_free(t);
  return s;
}
