/* text.c - tokenizers. */
#include <string.h>

#include "api/api.h"
#include "base/mem.h"
#include "checkpoint/peft_base.h"
#include "checkpoint/run_checkpoint.h"
#include "formats/named_place.h"
#include "os/file.h"
#include "script/host_call.h"
#include "text/tokenizer_files.h"
#include "text/tokenizer_make.h"

/* Makes a handle, which takes over t. */
static Status wrap(grpo_context *c, Tokenizer *t, grpo_tokenizer **out) {
  grpo_tokenizer *h = mem_alloc(sizeof *h);
  if (!h) {
    tokenizer_free(t);
    return fail(GRPO_ENOMEM, "tokenizer");
  }
  *h = (grpo_tokenizer){.c = context_retain(c), .t = t};
  *out = h;
  return GRPO_OK;
}

/* Where the tokenizer lies that a path stands for: a run's newest checkpoint, for a run. */
static Status find(const char *path, Buf *place) {
  char version[NAMED_PLACE_VERSION];
  buf_printf(place, "%s/run.json", path);
  try(buf_status(place));
  const bool run = file_exists(place->data);
  buf_clear(place);
  return run ? run_checkpoint_newest(path, place) : named_place_find(path, false, place, version);
}

/* An adapter without a tokenizer has that of its base. */
static Status find_of_base(Buf *place) {
  Buf base = {0};
  if (tokenizer_is_in(place->data) || !peft_is_adapter(place->data)) return GRPO_OK;
  Status s = peft_base(place->data, &base);
  buf_clear(place);
  if (s == GRPO_OK) s = find(base.data, place);
  buf_free(&base);
  return s;
}

static Status load(grpo_context *c, const char *path, grpo_tokenizer **out) {
  Tokenizer *t = NULL;
  Buf place = {0};
  try(need(path, "path"));
  try(need(out, "out"));
  Status s = find(path, &place);
  if (s == GRPO_OK) s = find_of_base(&place);
  if (s == GRPO_OK) s = run_checkpoint_check(place.data, CHECKPOINT_TOKENIZER);
  if (s == GRPO_OK) s = tokenizer_load(&t, place.data);
  buf_free(&place);
  return s ? s : wrap(c, t, out);
}

grpo_status grpo_tokenizer_load(grpo_context *c, const char *path, grpo_tokenizer **out) {
  in_call(call_begin, c, load(c, path, out));
}

static Status bytes(grpo_context *c, grpo_tokenizer **out) {
  Tokenizer *t = NULL;
  try(need(out, "out"));
  try(tokenizer_bytes(&t));
  return wrap(c, t, out);
}

grpo_status grpo_tokenizer_bytes(grpo_context *c, grpo_tokenizer **out) {
  in_call(call_begin, c, bytes(c, out));
}

static Status chars(grpo_context *c, const char *text, size_t n, grpo_tokenizer **out) {
  Tokenizer *t = NULL;
  try(need(text, "text"));
  try(need(out, "out"));
  try(tokenizer_chars(&t, text, n));
  return wrap(c, t, out);
}

grpo_status grpo_tokenizer_chars(grpo_context *c, const char *text, size_t length,
                                 grpo_tokenizer **out) {
  in_call(call_begin, c, chars(c, text, length, out));
}

void grpo_tokenizer_free(grpo_tokenizer *t) {
  if (!t) return;
  grpo_context *c = t->c;
  tokenizer_free(t->t);
  mem_free(t);
  context_release(c);
}

/* ---- encode, decode --------------------------------------------------------------- */

static Status too_small(const char *what, size_t want, size_t capacity) {
  return fail(GRPO_ELIMIT, "%s: it has room for %zu, want %zu", what, capacity, want);
}

static Status encode(grpo_tokenizer *t, const char *text, size_t n, uint32_t flags, int32_t *ids,
                     size_t capacity, size_t *count) {
  IntBuf b = {0};
  if (n) try(need(text, "text"));
  try(need(count, "count"));
  if (capacity) try(need(ids, "ids"));
  if (flags & ~(uint32_t)(TOK_ADD_SPECIAL | TOK_NO_PARSE_SPECIAL))
    return fail(GRPO_EARG, "encode: the flags %u hold an unknown one", (unsigned)flags);
  Status s = tokenizer_encode(t->t, text ? text : "", n, flags, &b);
  if (s == GRPO_OK) s = intbuf_status(&b);
  if (s == GRPO_OK) {
    const size_t fits = b.len < capacity ? b.len : capacity;
    *count = b.len;
    if (fits) memcpy(ids, b.data, fits * sizeof *ids);
    if (ids && fits < b.len) s = too_small("ids", b.len, capacity);
  }
  intbuf_free(&b);
  return s;
}

grpo_status grpo_tokenizer_encode(grpo_tokenizer *t, const char *text, size_t length,
                                  uint32_t flags, int32_t *ids, size_t capacity, size_t *count) {
  in_call(call_inside, t ? t->c : NULL, encode(t, text, length, flags, ids, capacity, count));
}

/* Writes what fits of a text, and a 0 behind it if there is room. */
static Status give_text(const Buf *b, char *text, size_t capacity, size_t *length) {
  const size_t fits = b->len < capacity ? b->len : capacity;
  *length = b->len;
  if (fits) memcpy(text, b->data, fits);
  if (fits < capacity) text[fits] = 0;
  return text && fits < b->len ? too_small("text", b->len, capacity) : GRPO_OK;
}

static Status decode(grpo_tokenizer *t, const int32_t *ids, size_t n, bool skip_special, char *text,
                     size_t capacity, size_t *length) {
  Buf b = {0};
  if (n) try(need(ids, "ids"));
  try(need(length, "length"));
  if (capacity) try(need(text, "text"));
  Status s = tokenizer_decode(t->t, ids, n, skip_special, &b);
  if (s == GRPO_OK) s = buf_status(&b);
  if (s == GRPO_OK) s = give_text(&b, text, capacity, length);
  buf_free(&b);
  return s;
}

grpo_status grpo_tokenizer_decode(grpo_tokenizer *t, const int32_t *ids, size_t count,
                                  int32_t skip_special, char *text, size_t capacity,
                                  size_t *length) {
  in_call(call_inside, t ? t->c : NULL,
          decode(t, ids, count, skip_special != 0, text, capacity, length));
}

/* ---- chat ------------------------------------------------------------------------- */

static Status render(grpo_tokenizer *t, const char *messages, const char *options, Buf *b) {
  Borrowed lua;
  try(context_script(t->c, &lua));
  const Status s = host_call_chat(lua.script, t->t, messages, options, b);
  context_script_end(t->c, &lua);
  return s;
}

static Status chat(grpo_tokenizer *t, const char *messages, const char *options, char *text,
                   size_t capacity, size_t *length) {
  Buf b = {0};
  try(need(messages, "messages"));
  try(need(length, "length"));
  if (capacity) try(need(text, "text"));
  Status s = render(t, messages, options, &b);
  if (s == GRPO_OK) s = give_text(&b, text, capacity, length);
  buf_free(&b);
  return s;
}

grpo_status grpo_tokenizer_chat(grpo_tokenizer *t, const char *messages, const char *options,
                                char *text, size_t capacity, size_t *length) {
  in_call(call_inside, t ? t->c : NULL, chat(t, messages, options, text, capacity, length));
}

/* ---- facts ------------------------------------------------------------------------ */

static Status size_of(grpo_tokenizer *t, int32_t *size) {
  try(need(size, "size"));
  *size = tokenizer_size(t->t);
  return GRPO_OK;
}

grpo_status grpo_tokenizer_size(grpo_tokenizer *t, int32_t *size) {
  in_call(call_inside, t ? t->c : NULL, size_of(t, size));
}

static Status id_of(grpo_tokenizer *t, const char *token, int32_t *id) {
  static const TokenRole roles[] = {TOK_BOS, TOK_EOS, TOK_PAD};
  try(need(token, "token"));
  try(need(id, "id"));
  *id = tokenizer_id(t->t, token);
  for (size_t i = 0; *id < 0 && i < sizeof roles / sizeof *roles; i++)
    if (strcmp(token, token_role_name[roles[i]]) == 0) *id = tokenizer_role(t->t, roles[i]);
  return GRPO_OK;
}

grpo_status grpo_tokenizer_id(grpo_tokenizer *t, const char *token, int32_t *id) {
  in_call(call_inside, t ? t->c : NULL, id_of(t, token, id));
}

static Status save(grpo_tokenizer *t, const char *directory) {
  try(need(directory, "directory"));
  return tokenizer_save(t->t, directory);
}

grpo_status grpo_tokenizer_save(grpo_tokenizer *t, const char *directory) {
  in_call(call_inside, t ? t->c : NULL, save(t, directory));
}
