#include "gguf/gguf_tokenizer_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "gguf/gguf_pre.h"
#include "gguf/gguf_tokenizer.h"
#include "text/tokenizer_impl.h"

#define KEY(name) "tokenizer.ggml." name
#define MARK      "\xe2\x96\x81" /* U+2581 */

/* ---- questions about the tokenizer.json ------------------------------------------------ */

static bool is_text(const Json *j, const char *key, const char *want) {
  const char *s = json_string(json_get(j, key));
  return s && strcmp(s, want) == 0;
}

static bool spaces_to_marks(const Json *j) {
  return component_is(j, "Replace") && is_text(json_get(j, "pattern"), "String", " ") &&
         is_text(j, "content", MARK);
}

static Status put_name(void *user, const Json *j) {
  Buf *b = user;
  buf_printf(b, "%s%.40s", b->len ? ", " : "", component_type(j));
  return buf_status(b);
}

/* Fails with the names of the components that this tokenizer.ggml.model cannot express. */
static Status no_form(const char *model, const Json *root) {
  Buf normalizer = {0}, pre = {0};
  Status s = component_each(json_get(root, "normalizer"), "normalizers", put_name, &normalizer);
  if (s == GRPO_OK)
    s = component_each(json_get(root, "pre_tokenizer"), "pretokenizers", put_name, &pre);
  if (s == GRPO_OK)
    s = fail(GRPO_EFORMAT,
             "tokenizer.ggml.model '%s' cannot express the normalizer (%s) with the pre-tokenizer "
             "(%s); export a directory instead",
             model, normalizer.len ? normalizer.data : "none", pre.len ? pre.data : "none");
  buf_free(&normalizer);
  buf_free(&pre);
  return s;
}

/* The normalizer has the steps [Prepend,] Replace. */
static bool marks_by_normalizer(const Json *j, bool *prefix) {
  const Json *list = json_get(j, "normalizers");
  const Json *step = list ? json_child(list) : j;
  *prefix = step && component_is(step, "Prepend") && is_text(step, "prepend", MARK);
  if (*prefix) step = json_next(step);
  return step && spaces_to_marks(step) && (!list || !json_next(step));
}

static bool marks_by_metaspace(const Json *j, bool *prefix) {
  const Json *old = json_get(j, "add_prefix_space");
  const char *scheme = json_string(json_get(j, "prepend_scheme"));
  if (!component_is(j, "Metaspace") || !is_text(j, "replacement", MARK)) return false;
  *prefix = scheme ? strcmp(scheme, "never") != 0 : !old || json_bool(old);
  return true;
}

/* Gemma splits on spaces, of which its normalizer has left none. */
static bool cuts_nothing(const Json *pre) {
  return component_is_null(pre) ||
         (component_is(pre, "Split") && is_text(json_get(pre, "pattern"), "String", " "));
}

/* Checks that spaces are treated as SentencePiece does, and finds out whether one is prepended. */
static Status space_prefix(const Json *root, bool *prefix) {
  const Json *normalizer = json_get(root, "normalizer"), *pre = json_get(root, "pre_tokenizer");
  if (component_is_null(normalizer) && marks_by_metaspace(pre, prefix)) return GRPO_OK;
  if (!component_is_null(normalizer) && marks_by_normalizer(normalizer, prefix) &&
      cuts_nothing(pre))
    return GRPO_OK;
  return no_form("llama", root);
}

static Status check_normalizer(const Json *root) {
  const Json *j = json_get(root, "normalizer");
  const Json *list = json_get(j, "normalizers");
  if (component_is_null(j) || component_is(j, "NFC")) return GRPO_OK;
  if (list && json_count(list) == 1 && component_is(json_child(list), "NFC")) return GRPO_OK;
  return no_form("gpt2", root);
}

/* ---- tokens ------------------------------------------------------------------------------ */

/* The tokenizer's special tokens, or the model's if it has none. */
typedef struct Named {
  int32_t bos, eos, pad;
} Named;

static Named named_of(const Tokenizer *t, const GgufTokens *model) {
  return (Named){tokenizer_bos(t) >= 0 ? tokenizer_bos(t) : model->bos,
                 tokenizer_eos(t) >= 0 ? tokenizer_eos(t) : model->eos,
                 tokenizer_pad(t) >= 0 ? tokenizer_pad(t) : model->pad};
}

static int32_t type_of(const Tokenizer *t, int32_t id, const Named *named, bool bytes) {
  const VocabEntry *e = id < t->vocab.size ? vocab_entry(&t->vocab, id) : NULL;
  if (!e) return GGUF_UNUSED;
  const char *text = vocab_text(&t->vocab, id);
  unsigned byte;
  char end;
  if (id == tokenizer_unk(t) && bytes) return GGUF_UNKNOWN;
  if (bytes && strlen(text) == 6 && sscanf(text, "<0x%02X%c", &byte, &end) == 2 && end == '>')
    return GGUF_BYTE;
  const bool is_named = id == named->bos || id == named->eos || id == named->pad;
  if (is_named || (e->flags & TOKEN_SPECIAL)) return GGUF_CONTROL;
  return e->flags & TOKEN_ADDED ? GGUF_USER_DEFINED : GGUF_NORMAL;
}

static void put_tokens(const Tokenizer *t, const GgufTokens *model, bool bytes, GgufMeta *m) {
  char pad[32];
  const int32_t rows = model->rows;
  const Named named = named_of(t, model);
  gguf_put_array(m, KEY("tokens"), GGUF_STRING, (uint64_t)rows);
  for (int32_t id = 0; id < rows; id++) {
    const char *text = id < t->vocab.size ? tokenizer_token(t, id) : NULL;
    snprintf(pad, sizeof pad, "[PAD%d]", (int)id);
    if (!text) text = pad;
    gguf_element_string(m, text, strlen(text));
  }
  gguf_put_array(m, KEY("token_type"), GGUF_I32, (uint64_t)rows);
  for (int32_t id = 0; id < rows; id++) gguf_element_i32(m, type_of(t, id, &named, bytes));
}

static Status put_merges(const Tokenizer *t, GgufMeta *m) {
  BpeMerge *list = NULL;
  Buf pair = {0};
  const size_t n = t->bpe.merges.count;
  try(bpe_list(&t->bpe, &list));
  gguf_put_array(m, KEY("merges"), GGUF_STRING, n);
  for (size_t i = 0; i < n; i++) {
    buf_clear(&pair);
    buf_puts(&pair, vocab_text(&t->vocab, list[i].left));
    buf_putc(&pair, ' ');
    buf_puts(&pair, vocab_text(&t->vocab, list[i].right));
    if (!pair.oom) gguf_element_string(m, pair.data, pair.len);
  }
  const Status s = buf_status(&pair);
  buf_free(&pair);
  mem_free(list);
  return s;
}

/* Tokens get the scores 0, -1, -2, ... in the order of their first merge, and then those that no
 * merge makes.  Tokens outside the model have 0, as in SentencePiece's own files. */
static Status put_scores(const Tokenizer *t, const GgufTokens *model, GgufMeta *m) {
  BpeMerge *list = NULL;
  const int32_t rows = model->rows;
  const Named named = named_of(t, model);
  float *score = mem_alloc((size_t)rows * sizeof *score);
  Status s = score ? bpe_list(&t->bpe, &list) : fail(GRPO_ENOMEM, "scores");
  float next = 0;
  for (int32_t id = 0; id < rows && s == GRPO_OK; id++) score[id] = 1;
  for (size_t i = 0; s == GRPO_OK && i < t->bpe.merges.count; i++)
    if (list[i].id < rows && score[list[i].id] > 0) score[list[i].id] = next--;
  for (int32_t id = 0; id < rows && s == GRPO_OK; id++)
    if (score[id] > 0) score[id] = type_of(t, id, &named, true) == GGUF_NORMAL ? next-- : 0;
  if (s == GRPO_OK) gguf_put_array(m, KEY("scores"), GGUF_F32, (uint64_t)rows);
  for (int32_t id = 0; id < rows && s == GRPO_OK; id++) gguf_element_f32(m, score[id]);
  mem_free(list);
  mem_free(score);
  return s;
}

/* ---- the two models -------------------------------------------------------------------------- */

static void put_text(GgufMeta *m, const char *key, const char *s, size_t n) {
  gguf_put_string(m, key, s, n);
}

static Status put_gpt2(const Tokenizer *t, const Json *root, const GgufTokens *model, GgufMeta *m) {
  const GgufPre *pre;
  try(check_normalizer(root));
  try(gguf_pre_of(root, &pre));
  put_text(m, KEY("model"), "gpt2", 4);
  put_text(m, KEY("pre"), pre->names, strcspn(pre->names, " "));
  put_tokens(t, model, false, m);
  return put_merges(t, m);
}

static Status put_llama(const Tokenizer *t, const Json *root, const GgufTokens *model,
                        GgufMeta *m) {
  const Subword *w = &t->subword;
  bool prefix = false;
  if (!w->byte_fallback || w->prefix || w->suffix || t->ignore_merges)
    return fail(GRPO_EFORMAT, "tokenizer.ggml.model 'llama' wants BPE with byte_fallback, without "
                              "prefix, suffix and ignore_merges");
  try(space_prefix(root, &prefix));
  put_text(m, KEY("model"), "llama", 5);
  put_text(m, KEY("pre"), "default", 7);
  put_tokens(t, model, true, m);
  try(put_scores(t, model, m));
  gguf_put_bool(m, KEY("add_space_prefix"), prefix);
  return GRPO_OK;
}

static Status put_model(const Tokenizer *t, const Json *root, const GgufTokens *model,
                        GgufMeta *m) {
  if (t->model == MODEL_BPE) return put_gpt2(t, root, model, m);
  for (int i = 0; i < t->nstep; i++)
    if (t->step[i].kind == PRE_BYTES)
      return fail(GRPO_EFORMAT,
                  "tokenizer.ggml.pre has no name for pre-tokenizers after ByteLevel, because they "
                  "cut its alphabet and not the text; export a directory instead");
  if (t->model == MODEL_CHARS_BPE) return put_llama(t, root, model, m);
  if (t->model == MODEL_UNIGRAM)
    return fail(GRPO_EFORMAT, "tokenizer.ggml.* has no form for the model Unigram that keeps every "
                              "id, because llama.cpp's 't5' replaces and cuts otherwise; export a "
                              "directory instead");
  return fail(GRPO_EFORMAT, "tokenizer.ggml.* has no form for a '%s' tokenizer", tokenizer_kind(t));
}

/* ---- the rest ---------------------------------------------------------------------------- */

static void put_id(GgufMeta *m, const char *key, int32_t id, int32_t rows) {
  if (id >= 0 && id < rows) gguf_put_u32(m, key, (uint32_t)id);
}

/* True if the tokens that are added before (or after) a text are exactly this token. */
static bool adds(const IntBuf *added, int32_t id, const char *what) {
  if (!added->len) return false;
  if (added->len == 1 && added->data[0] == id) return true;
  log_message(LOG_WARNING, "GGUF cannot say what this tokenizer adds %s a text", what);
  return false;
}

static void put_special(const Tokenizer *t, const GgufTokens *model, GgufMeta *m) {
  const Named named = named_of(t, model);
  put_id(m, KEY("bos_token_id"), named.bos, model->rows);
  put_id(m, KEY("eos_token_id"), named.eos, model->rows);
  put_id(m, KEY("unknown_token_id"), tokenizer_unk(t), model->rows);
  put_id(m, KEY("padding_token_id"), named.pad, model->rows);
  gguf_put_bool(m, KEY("add_bos_token"), adds(&t->prefix, named.bos, "before"));
  gguf_put_bool(m, KEY("add_eos_token"), adds(&t->suffix, named.eos, "behind"));
}

/* The chat templates that have a name. */
static void put_templates(const Tokenizer *t, GgufMeta *m) {
  const ChatTemplates *all = &t->templates;
  int n = 0;
  for (int i = 0; i < all->n; i++) n += strcmp(all->item[i].name, "default") != 0;
  if (n) gguf_put_array(m, "tokenizer.chat_templates", GGUF_STRING, (uint64_t)n);
  for (int i = 0; n && i < all->n; i++)
    if (strcmp(all->item[i].name, "default") != 0)
      gguf_element_string(m, all->item[i].name, strlen(all->item[i].name));
  for (int i = 0; n && i < all->n; i++) {
    char key[300]; /* names have fewer than 256 bytes, as files have */
    if (strcmp(all->item[i].name, "default") == 0) continue;
    snprintf(key, sizeof key, "tokenizer.chat_template.%s", all->item[i].name);
    put_text(m, key, all->item[i].text, strlen(all->item[i].text));
  }
}

Status gguf_tokenizer_write(const Tokenizer *t, const GgufTokens *model, GgufMeta *m) {
  const Buf *file = &t->file[FILE_TOKENIZER];
  const char *template = tokenizer_chat_template(t);
  Json *root = NULL;
  if (tokenizer_size(t) > model->rows)
    return fail(GRPO_EARG, "the tokenizer has %d tokens, the model's embedding %d rows",
                tokenizer_size(t), (int)model->rows);
  try(json_parse(file->data, file->len, "tokenizer.json", &root));
  Status s = put_model(t, root, model, m);
  json_free(root);
  if (s != GRPO_OK) return err_context(s, "the tokenizer cannot be written to GGUF");
  put_special(t, model, m);
  if (template) put_text(m, "tokenizer.chat_template", template, strlen(template));
  put_templates(t, m);
  put_text(m, "tokenizer.huggingface.json", file->data, file->len);
  return buf_status(&m->bytes);
}
