/* pipeline.c - one function per component of tokenizer.json; each refuses unknown components by
 * name. */
#include "text/pipeline.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "text/bytelevel.h"
#include "text/postprocessor.h"
#include "text/pretoken_split.h"
#include "text/tokenizer_impl.h"

static Status read_pre_tokenizer(void *user, const Json *j) {
  Tokenizer *t = user;
  return pre_read(t->step, &t->nstep, MAX_STEPS, &t->byte_level, j);
}

/* ---- model -------------------------------------------------------------------------- */

static Status read_vocab(Tokenizer *t, const Json *vocab) {
  if (!vocab || json_type(vocab) != JSON_OBJECT)
    return fail(GRPO_EFORMAT, "want an object from token to id");
  for (const Json *e = json_child(vocab); e; e = json_next(e)) {
    int64_t id;
    if (!json_integer(e, &id))
      return fail(GRPO_EFORMAT, "\"%.60s\": the id is not an integer", json_key(e));
    try(vocab_add(&t->vocab, json_key(e), strlen(json_key(e)), id, TOKEN_MODEL));
  }
  return GRPO_OK;
}

/* A merge is spelt "left right", with one space, or ["left", "right"]. */
static Status merge_sides(const Json *m, const char **left, size_t *nleft, const char **right) {
  *left = json_string(m);
  if (*left) {
    const char *space = strchr(*left, ' ');
    if (space && !strchr(space + 1, ' ')) {
      *nleft = (size_t)(space - *left);
      *right = space + 1;
      return GRPO_OK;
    }
  } else if (json_type(m) == JSON_ARRAY && json_count(m) == 2) {
    *left = json_string(json_child(m));
    *right = json_string(json_next(json_child(m)));
    if (*left && *right) {
      *nleft = strlen(*left);
      return GRPO_OK;
    }
  }
  return fail(GRPO_EFORMAT, "want \"left right\" or [\"left\", \"right\"]");
}

static Status add_merge(Tokenizer *t, const Json *m, int32_t rank, Buf *joined) {
  const char *left = NULL, *right = NULL;
  size_t nleft = 0;
  try(merge_sides(m, &left, &nleft, &right));
  const char *prefix = t->subword.prefix;
  const size_t skip = prefix ? strlen(prefix) : 0;
  if (strlen(right) < skip)
    return fail(GRPO_EFORMAT, "\"%.60s\" lacks the prefix \"%.20s\"", right, prefix);
  buf_clear(joined);
  buf_put(joined, left, nleft);
  buf_puts(joined, right + skip);
  try(buf_status(joined));
  int32_t a = vocab_find(&t->vocab, left, nleft);
  int32_t b = vocab_find(&t->vocab, right, strlen(right));
  int32_t id = vocab_find(&t->vocab, joined->data, joined->len);
  if (a < 0 || b < 0 || id < 0)
    return fail(GRPO_EFORMAT, "\"%.60s\" is not in the vocabulary",
                b < 0 && a >= 0 ? right : joined->data);
  return bpe_put(&t->bpe, a, b, rank, id);
}

static Status read_merges(Tokenizer *t, const Json *merges) {
  if (!merges || json_type(merges) != JSON_ARRAY) return fail(GRPO_EFORMAT, "want a list");
  const size_t n = json_count(merges);
  if (n > 4u * VOCAB_MAX_ID) return fail(GRPO_ELIMIT, "%zu merges are too many", n);
  try(bpe_init(&t->bpe, n));
  Buf joined = {0};
  Status s = GRPO_OK;
  int32_t rank = 0;
  for (const Json *m = json_child(merges); m && s == GRPO_OK; m = json_next(m), rank++)
    if ((s = add_merge(t, m, rank, &joined)) != GRPO_OK) err_context(s, "[%d]", (int)rank);
  buf_free(&joined);
  return s;
}

/* Reads a text; null and empty mean that there is none. */
static Status read_affix(const Json *j, const char *key, char **out) {
  const char *v = json_string(json_get(j, key));
  if (!v || !*v) return GRPO_OK;
  *out = mem_strndup(v, strlen(v));
  return *out ? GRPO_OK : fail(GRPO_ENOMEM, "model");
}

static Status read_unk(const Tokenizer *t, const Json *j, int32_t *out) {
  const char *unk = json_string(json_get(j, "unk_token"));
  *out = unk && *unk ? vocab_find(&t->vocab, unk, strlen(unk)) : -1;
  if (*out >= 0 || !unk || !*unk) return GRPO_OK;
  return fail(GRPO_EFORMAT, "unk_token \"%.60s\" is not in the vocabulary", unk);
}

/* Dropout leaves out merges at random, in order to vary the ids of a text while a model is trained
 * on it.  A prompt has to have the ids that the model knows best, and the same ones in every run:
 * all merges count. */
static Status read_dropout(const Json *j) {
  const Json *dropout = json_get(j, "dropout");
  if (component_is_null(dropout)) return GRPO_OK;
  const double p = json_number(dropout);
  if (json_type(dropout) != JSON_NUMBER || !(p >= 0 && p <= 1))
    return fail(GRPO_EFORMAT, "dropout: want null or a number from 0 to 1");
  if (p > 0)
    log_message(LOG_WARNING,
                "tokenizer: the dropout of %g is left out, because texts must always get the same "
                "ids; other programs may apply it",
                p);
  return GRPO_OK;
}

static Status read_bpe_options(Tokenizer *t, const Json *j) {
  Subword *m = &t->subword;
  try(read_dropout(j));
  try(read_affix(j, "continuing_subword_prefix", &m->prefix));
  try(read_affix(j, "end_of_word_suffix", &m->suffix));
  try(component_flag(j, "byte_fallback", false, &m->byte_fallback));
  try(component_flag(j, "fuse_unk", false, &m->fuse_unk));
  return component_flag(j, "ignore_merges", false, &t->ignore_merges);
}

/* The symbols are bytes if byte-level BPE has a token for every byte or drops bytes without a
 * token.  Otherwise they are characters, from GPT-2's alphabet if the tokenizer is byte-level. */
static Status read_bpe(Tokenizer *t, const Json *j) {
  try(read_bpe_options(t, j));
  Status s = read_merges(t, json_get(j, "merges"));
  if (s != GRPO_OK) return err_context(s, "merges");
  int missing = 0;
  for (int b = 0; b < 256; b++) {
    char c[4];
    t->bpe.byte_id[b] = vocab_find(&t->vocab, c, utf8_encode(bytelevel_char((unsigned char)b), c));
    missing += t->bpe.byte_id[b] < 0;
  }
  const char *unk = json_string(json_get(j, "unk_token"));
  const Subword *m = &t->subword;
  bool bytes = !missing || (!m->byte_fallback && !(unk && *unk));
  t->model = t->byte_level && bytes && !m->prefix && !m->suffix ? MODEL_BPE : MODEL_CHARS_BPE;
  if (t->model == MODEL_BPE) return GRPO_OK;
  try(read_unk(t, j, &t->subword.unk));
  return subword_prepare(&t->subword, &t->vocab, &t->bpe);
}

static Status read_wordpiece(Tokenizer *t, const Json *j) {
  Subword *m = &t->subword;
  t->model = MODEL_WORDPIECE;
  m->max_chars = 100;
  try(read_affix(j, "continuing_subword_prefix", &m->prefix));
  if (!component_is_null(json_get(j, "max_input_chars_per_word")))
    try(component_count(j, "max_input_chars_per_word", &m->max_chars));
  try(read_unk(t, j, &m->unk));
  if (m->unk < 0) return fail(GRPO_EFORMAT, "WordPiece: unk_token is missing");
  return GRPO_OK;
}

static Status read_words(Tokenizer *t, const Json *j) {
  t->model = MODEL_WORDS;
  const char *unk = json_string(json_get(j, "unk_token"));
  t->unk = unk ? vocab_find(&t->vocab, unk, strlen(unk)) : -1;
  return GRPO_OK;
}

/* The models in files of 2020 have no type, but all their members. */
static const char *old_type(const Json *j) {
  const Json *vocab = json_get(j, "vocab");
  if (json_get(j, "merges")) return "BPE";
  if (json_get(j, "continuing_subword_prefix")) return "WordPiece";
  if (vocab && json_type(vocab) == JSON_ARRAY) return "Unigram";
  return vocab && json_get(j, "unk_token") ? "WordLevel" : "(no type)";
}

static Status read_model(Tokenizer *t, const Json *j) {
  if (!j || json_type(j) != JSON_OBJECT) return fail(GRPO_EFORMAT, "want an object");
  const char *type = json_string(json_get(j, "type"));
  if (!type) type = old_type(j);
  if (strcmp(type, "Unigram") == 0) {
    t->model = MODEL_UNIGRAM;
    return unigram_read(&t->unigram, &t->vocab, j);
  }
  const bool bpe = strcmp(type, "BPE") == 0, pieces = strcmp(type, "WordPiece") == 0;
  if (!bpe && !pieces && strcmp(type, "WordLevel") != 0)
    return fail(GRPO_EFORMAT, "'%s' is not supported (BPE, Unigram, WordPiece and WordLevel are)",
                type);
  Status s = read_vocab(t, json_get(j, "vocab"));
  if (s != GRPO_OK) return err_context(s, "vocab");
  return bpe ? read_bpe(t, j) : pieces ? read_wordpiece(t, j) : read_words(t, j);
}

/* ---- added tokens --------------------------------------------------------------------- */

static Status read_flags(const Json *j, AddedToken *a) {
  try(component_flag(j, "special", a->special, &a->special));
  try(component_flag(j, "single_word", a->single_word, &a->single_word));
  try(component_flag(j, "lstrip", a->lstrip, &a->lstrip));
  try(component_flag(j, "rstrip", a->rstrip, &a->rstrip));
  return component_flag(j, "normalized", a->normalized, &a->normalized);
}

static AddedToken *find_added(Tokenizer *t, int32_t id, const char *content) {
  if (!(t->vocab.entry[id].flags & TOKEN_ADDED)) return NULL;
  AddedToken *a = added_get(&t->added[0], content);
  return a ? a : added_get(&t->added[1], content);
}

Status pipeline_add_token(Tokenizer *t, int64_t id, const char *content, const Json *flags,
                          bool special) {
  if (!*content) return GRPO_OK; /* never matches; the reference ignores it too */
  const size_t len = strlen(content);
  const int32_t known = vocab_find(&t->vocab, content, len);
  if (known < 0)
    try(vocab_add(&t->vocab, content, len, id, 0));
  else if (known != id)
    return fail(GRPO_EFORMAT,
                "\"%.60s\" has id %lld here and %d in model.vocab; the file contradicts itself",
                content, (long long)id, (int)known);
  AddedToken *old = find_added(t, (int32_t)id, content);
  AddedToken a = old ? *old : (AddedToken){.id = (int32_t)id};
  const bool was_normalized = a.normalized;
  a.text = content;
  a.len = len;
  if (flags) try(read_flags(flags, &a));
  a.special |= special;
  unsigned *f = &t->vocab.entry[id].flags;
  *f = (*f & ~(unsigned)TOKEN_SPECIAL) | TOKEN_ADDED | (a.special ? TOKEN_SPECIAL : 0);
  if (old) added_drop(&t->added[was_normalized], old);
  return added_put(&t->added[a.normalized], &a);
}

/* Added tokens that are found in normalized text are spelt as that text is. */
Status pipeline_finish_added(Tokenizer *t) {
  for (size_t i = 0; i < t->added[1].n; i++) {
    AddedToken *a = &t->added[1].token[i];
    NormText x;
    try(normalizer_run(&t->normalizer, &t->scratch->norm, a->text, a->len, &x));
    if (x.n == a->len && memcmp(x.s, a->text, x.n) == 0) continue;
    try(added_respell(&t->added[1], i, x.s, x.n));
    t->vocab.entry[a->id].flags |= TOKEN_RESPELT;
  }
  added_sort(&t->added[0]);
  added_sort(&t->added[1]);
  return GRPO_OK;
}

static Status read_added(Tokenizer *t, const Json *list) {
  if (component_is_null(list)) return GRPO_OK;
  if (json_type(list) != JSON_ARRAY) return fail(GRPO_EFORMAT, "want a list");
  for (const Json *e = json_child(list); e; e = json_next(e)) {
    const char *content = json_string(json_get(e, "content"));
    int64_t id;
    if (!content || !json_integer(json_get(e, "id"), &id))
      return fail(GRPO_EFORMAT, "an entry needs 'content' (a string) and 'id' (an integer)");
    try(pipeline_add_token(t, id, content, e, false));
  }
  return GRPO_OK;
}

/* ---- the whole file ------------------------------------------------------------------------ */

/* In the byte tokenizer byte b has id b, and there are no other steps. */
static bool is_byte_tokenizer(const Tokenizer *t) {
  if (t->model != MODEL_BPE || t->bpe.merges.count || t->nstep || t->normalizer.n) return false;
  for (int b = 0; b < 256; b++)
    if (t->bpe.byte_id[b] != b) return false;
  return true;
}

static const char *kind_of(const Tokenizer *t) {
  if (t->raw) return "bytes";
  if (t->model == MODEL_BPE || t->model == MODEL_CHARS_BPE) return "bpe";
  if (t->model == MODEL_WORDPIECE) return "wordpiece";
  if (t->model == MODEL_UNIGRAM) return "unigram";
  return t->nstep == 1 && t->step[0].kind == PRE_CHARS ? "chars" : "words";
}

Status pipeline_read(Tokenizer *t, const Json *root) {
  Status s;
  if (json_type(root) != JSON_OBJECT) return fail(GRPO_EFORMAT, "want an object");
#define READ(name, call)                                                                           \
  if ((s = (call)) != GRPO_OK) return err_context(s, name)
  READ("normalizer", normalizer_read(&t->normalizer, json_get(root, "normalizer")));
  READ("pre_tokenizer",
       component_each(json_get(root, "pre_tokenizer"), "pretokenizers", read_pre_tokenizer, t));
  READ("decoder", detok_read(&t->decoder, json_get(root, "decoder")));
  READ("model", read_model(t, json_get(root, "model")));
  READ("added_tokens", read_added(t, json_get(root, "added_tokens")));
  READ("post_processor",
       postprocessor_read(json_get(root, "post_processor"), &t->vocab, &t->prefix, &t->suffix));
#undef READ
  t->raw = is_byte_tokenizer(t);
  t->kind = kind_of(t);
  return t->vocab.size ? GRPO_OK : fail(GRPO_EFORMAT, "model: vocab: no tokens");
}
