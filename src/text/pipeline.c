/* pipeline.c - reading tokenizer.json: one function per component, each refusing
 * by name what it does not know. */
#include "text/pipeline.h"

#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "text/bytelevel.h"

static const char *type_of(const Json *j) {
  const char *type = json_string(json_get(j, "type"));
  return type ? type : "(no type)";
}

static bool is_null(const Json *j) { return !j || json_type(j) == JSON_NULL; }

/* A flag that may be absent; any other type than a boolean is an error. */
static Status get_flag(const Json *j, const char *key, bool dflt, bool *out) {
  const Json *v = json_get(j, key);
  *out = is_null(v) ? dflt : json_bool(v);
  if (is_null(v) || json_type(v) == JSON_BOOL) return GRPO_OK;
  return fail(GRPO_EFORMAT, "%s: want true or false", key);
}

/* Components come alone or in a Sequence; call `each` on every one, in order. */
typedef Status (*Reader)(Tokenizer *t, const Json *component);

static Status each_component(Tokenizer *t, const Json *j, const char *list, Reader each) {
  if (is_null(j)) return GRPO_OK;
  if (json_type(j) != JSON_OBJECT) return fail(GRPO_EFORMAT, "want an object or null");
  if (strcmp(type_of(j), "Sequence") != 0) return each(t, j);
  const Json *members = json_get(j, list);
  if (!members || json_type(members) != JSON_ARRAY)
    return fail(GRPO_EFORMAT, "Sequence: the list '%s' is missing", list);
  for (const Json *m = json_child(members); m; m = json_next(m)) try(each(t, m));
  return GRPO_OK;
}

/* ---- normalizer, pre-tokenizer, decoder ------------------------------------------- */

static Status read_normalizer(Tokenizer *t, const Json *j) {
  if (strcmp(type_of(j), "NFC") != 0)
    return fail(GRPO_EFORMAT, "'%s' is not supported (only NFC is)", type_of(j));
  t->nfc = true;
  return GRPO_OK;
}

static Status add_step(Tokenizer *t, PreStep step) {
  if (t->nstep == MAX_STEPS) {
    regex_free(step.re);
    return fail(GRPO_ELIMIT, "more than %d pre-tokenizers", MAX_STEPS);
  }
  t->step[t->nstep++] = step;
  return GRPO_OK;
}

static Status read_byte_level(Tokenizer *t, const Json *j) {
  bool regex, space;
  try(get_flag(j, "use_regex", true, &regex));
  try(get_flag(j, "add_prefix_space", true, &space));
  if (space && t->nstep)
    return fail(GRPO_EFORMAT, "ByteLevel: add_prefix_space after another pre-tokenizer is not "
                              "supported");
  t->prefix_space = space;
  t->byte_level = true;
  return regex ? add_step(t, (PreStep){.kind = PRE_GPT2}) : GRPO_OK;
}

static Status read_split(Tokenizer *t, const Json *j) {
  const char *behavior = json_string(json_get(j, "behavior"));
  const char *pattern = json_string(json_get(json_get(j, "pattern"), "Regex"));
  bool invert;
  try(get_flag(j, "invert", false, &invert));
  if (!pattern) return fail(GRPO_EFORMAT, "Split: only a pattern of kind Regex is supported");
  if (invert) return fail(GRPO_EFORMAT, "Split: invert is not supported");
  if (!behavior || (strcmp(behavior, "Isolated") != 0 && strcmp(behavior, "Removed") != 0))
    return fail(GRPO_EFORMAT, "Split: behavior '%s' is not supported (Isolated and Removed are)",
                behavior ? behavior : "(none)");
  PreStep step = {.kind = PRE_REGEX, .drop = behavior[0] == 'R'};
  if (!step.drop) step.kind = pre_kind_of(pattern);
  if (step.kind == PRE_REGEX)
    try(regex_compile(&step.re, pattern, strlen(pattern), REGEX_VALID_UTF));
  return add_step(t, step);
}

static Status read_pre_tokenizer(Tokenizer *t, const Json *j) {
  const char *type = type_of(j);
  if (t->byte_level) return fail(GRPO_EFORMAT, "'%s' after ByteLevel is not supported", type);
  if (strcmp(type, "ByteLevel") == 0) return read_byte_level(t, j);
  if (strcmp(type, "Split") == 0) return read_split(t, j);
  if (strcmp(type, "Digits") != 0)
    return fail(GRPO_EFORMAT, "'%s' is not supported (ByteLevel, Split and Digits are)", type);
  bool alone;
  try(get_flag(j, "individual_digits", false, &alone));
  return add_step(t, (PreStep){.kind = alone ? PRE_DIGITS : PRE_DIGIT_RUNS});
}

static Status read_decoder(Tokenizer *t, const Json *j) {
  const char *want = t->byte_level ? "ByteLevel" : "Fuse";
  const char *have = is_null(j) ? "null" : type_of(j);
  if (strcmp(have, want) == 0) return GRPO_OK;
  return fail(GRPO_EFORMAT, "'%s' is not supported here (%s is)", have, want);
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

/* Both spellings of a merge: "left right" (one space) and ["left", "right"]. */
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
  buf_clear(joined);
  buf_put(joined, left, nleft);
  buf_puts(joined, right);
  try(buf_status(joined));
  int32_t a = vocab_find(&t->vocab, left, nleft);
  int32_t b = vocab_find(&t->vocab, right, strlen(right));
  int32_t id = vocab_find(&t->vocab, joined->data, joined->len);
  if (a < 0 || b < 0 || id < 0)
    return fail(GRPO_EFORMAT, "\"%.60s\" is not in the vocabulary",
                b < 0 && a >= 0 ? right : joined->data);
  bpe_put(&t->bpe, a, b, rank, id);
  return GRPO_OK;
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

/* Options of BPE that this model does not have: an empty string means the same as null. */
static Status refuse_bpe_options(const Json *j) {
  static const char *const text[] = {"continuing_subword_prefix", "end_of_word_suffix"};
  for (size_t i = 0; i < 2; i++) {
    const char *v = json_string(json_get(j, text[i]));
    if (v && *v) return fail(GRPO_EFORMAT, "%s \"%.20s\" is not supported", text[i], v);
  }
  bool fallback;
  try(get_flag(j, "byte_fallback", false, &fallback));
  if (fallback) return fail(GRPO_EFORMAT, "byte_fallback is not supported");
  const Json *dropout = json_get(j, "dropout");
  if (!is_null(dropout) && json_number(dropout) != 0)
    return fail(GRPO_EFORMAT, "dropout is not supported");
  return GRPO_OK;
}

static Status read_bpe(Tokenizer *t, const Json *j) {
  t->model = MODEL_BPE;
  if (!t->byte_level)
    return fail(GRPO_EFORMAT, "BPE without the ByteLevel pre-tokenizer is not supported");
  try(refuse_bpe_options(j));
  try(get_flag(j, "ignore_merges", false, &t->ignore_merges));
  Status s = read_merges(t, json_get(j, "merges"));
  if (s != GRPO_OK) return err_context(s, "merges");
  int missing = 0;
  for (int b = 0; b < 256; b++) {
    char c[4];
    t->bpe.byte_id[b] = vocab_find(&t->vocab, c, utf8_encode(bytelevel_char((unsigned char)b), c));
    missing += t->bpe.byte_id[b] < 0;
  }
  const char *unk = json_string(json_get(j, "unk_token"));
  if (missing && unk && *unk)
    return fail(GRPO_EFORMAT, "unk_token \"%.60s\" with %d bytes missing is not supported", unk,
                missing);
  return GRPO_OK;
}

static Status read_words(Tokenizer *t, const Json *j) {
  t->model = MODEL_WORDS;
  if (t->byte_level)
    return fail(GRPO_EFORMAT, "WordLevel with the ByteLevel pre-tokenizer is not supported");
  const char *unk = json_string(json_get(j, "unk_token"));
  t->unk = unk ? vocab_find(&t->vocab, unk, strlen(unk)) : -1;
  return GRPO_OK;
}

static Status read_model(Tokenizer *t, const Json *j) {
  if (!j || json_type(j) != JSON_OBJECT) return fail(GRPO_EFORMAT, "want an object");
  const char *type = json_string(json_get(j, "type"));
  if (!type) type = json_get(j, "merges") ? "BPE" : "(no type)"; /* files of 2020 have none */
  const bool bpe = strcmp(type, "BPE") == 0;
  if (!bpe && strcmp(type, "WordLevel") != 0)
    return fail(GRPO_EFORMAT, "'%s' is not supported (byte-level BPE and WordLevel are)", type);
  Status s = read_vocab(t, json_get(j, "vocab"));
  if (s != GRPO_OK) return err_context(s, "vocab");
  return bpe ? read_bpe(t, j) : read_words(t, j);
}

/* ---- added tokens --------------------------------------------------------------------- */

static Status read_flags(const Json *j, AddedToken *a) {
  try(get_flag(j, "special", a->special, &a->special));
  try(get_flag(j, "single_word", a->single_word, &a->single_word));
  try(get_flag(j, "lstrip", a->lstrip, &a->lstrip));
  try(get_flag(j, "rstrip", a->rstrip, &a->rstrip));
  return get_flag(j, "normalized", a->normalized, &a->normalized);
}

static AddedToken *find_added(Tokenizer *t, int32_t id, const char *content) {
  if (!(t->vocab.entry[id].flags & TOKEN_ADDED)) return NULL;
  AddedToken *a = added_get(&t->added[0], content);
  return a ? a : added_get(&t->added[1], content);
}

Status tokenizer_add_token(Tokenizer *t, int64_t id, const char *content, const Json *flags,
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
  AddedToken a = old ? *old : (AddedToken){.text = content, .len = len, .id = (int32_t)id};
  if (flags) try(read_flags(flags, &a));
  a.special |= special;
  unsigned *f = &t->vocab.entry[id].flags;
  *f = (*f & ~(unsigned)TOKEN_SPECIAL) | TOKEN_ADDED | (a.special ? TOKEN_SPECIAL : 0);
  if (!old) return added_put(&t->added[a.normalized], &a);
  a.normalized = old->normalized; /* it stays in its set */
  *old = a;
  return GRPO_OK;
}

static Status read_added(Tokenizer *t, const Json *list) {
  if (is_null(list)) return GRPO_OK;
  if (json_type(list) != JSON_ARRAY) return fail(GRPO_EFORMAT, "want a list");
  for (const Json *e = json_child(list); e; e = json_next(e)) {
    const char *content = json_string(json_get(e, "content"));
    int64_t id;
    if (!content || !json_integer(json_get(e, "id"), &id))
      return fail(GRPO_EFORMAT, "an entry needs 'content' (a string) and 'id' (an integer)");
    try(tokenizer_add_token(t, id, content, e, false));
  }
  return GRPO_OK;
}

/* ---- post-processor ---------------------------------------------------------------------- */

static Status template_ids(Tokenizer *t, const Json *specials, const char *name, IntBuf *out) {
  const Json *ids = json_get(json_get(specials, name), "ids");
  if (!ids || json_type(ids) != JSON_ARRAY)
    return fail(GRPO_EFORMAT, "TemplateProcessing: special token \"%.60s\" has no ids", name);
  for (const Json *j = json_child(ids); j; j = json_next(j)) {
    int64_t id;
    if (!json_integer(j, &id) || id > VOCAB_MAX_ID || !vocab_entry(&t->vocab, (int32_t)id))
      return fail(GRPO_EFORMAT, "TemplateProcessing: an id of \"%.60s\" is not in the vocabulary",
                  name);
    intbuf_put(out, (int32_t)id);
  }
  return intbuf_status(out);
}

static Status read_template(Tokenizer *t, const Json *j) {
  const Json *single = json_get(j, "single"), *specials = json_get(j, "special_tokens");
  int sequences = 0;
  if (!single || json_type(single) != JSON_ARRAY)
    return fail(GRPO_EFORMAT, "TemplateProcessing: single: want a list");
  for (const Json *e = json_child(single); e; e = json_next(e)) {
    const char *name = json_string(json_get(json_get(e, "SpecialToken"), "id"));
    if (name)
      try(template_ids(t, specials, name, sequences ? &t->suffix : &t->prefix));
    else if (json_get(e, "Sequence"))
      sequences++;
    else
      return fail(GRPO_EFORMAT, "TemplateProcessing: single: want SpecialToken or Sequence");
  }
  if (sequences == 1) return GRPO_OK;
  return fail(GRPO_EFORMAT, "TemplateProcessing: single holds %d sequences, want 1", sequences);
}

static Status read_post_processor(Tokenizer *t, const Json *j) {
  const char *type = type_of(j);
  if (strcmp(type, "ByteLevel") == 0) return GRPO_OK; /* only about offsets */
  if (strcmp(type, "TemplateProcessing") == 0) return read_template(t, j);
  return fail(GRPO_EFORMAT, "'%s' is not supported (ByteLevel and TemplateProcessing are)", type);
}

/* ---- all of it ------------------------------------------------------------------------------ */

/* The byte tokenizer is recognised by what it is: byte b has id b, and nothing else applies. */
static bool is_byte_tokenizer(const Tokenizer *t) {
  if (t->model != MODEL_BPE || t->bpe.count || t->nstep || t->prefix_space || t->nfc) return false;
  for (int b = 0; b < 256; b++)
    if (t->bpe.byte_id[b] != b) return false;
  return true;
}

static const char *kind_of(const Tokenizer *t) {
  if (t->raw) return "bytes";
  if (t->model == MODEL_BPE) return "bpe";
  return t->nstep == 1 && t->step[0].kind == PRE_CHARS ? "chars" : "words";
}

Status tokenizer_read_pipeline(Tokenizer *t, const Json *root) {
  Status s;
  if (json_type(root) != JSON_OBJECT) return fail(GRPO_EFORMAT, "want an object");
#define READ(name, call)                                                                           \
  if ((s = (call)) != GRPO_OK) return err_context(s, name)
  READ("normalizer",
       each_component(t, json_get(root, "normalizer"), "normalizers", read_normalizer));
  READ("pre_tokenizer",
       each_component(t, json_get(root, "pre_tokenizer"), "pretokenizers", read_pre_tokenizer));
  READ("decoder", read_decoder(t, json_get(root, "decoder")));
  READ("model", read_model(t, json_get(root, "model")));
  READ("added_tokens", read_added(t, json_get(root, "added_tokens")));
  READ("post_processor",
       each_component(t, json_get(root, "post_processor"), "processors", read_post_processor));
#undef READ
  t->raw = is_byte_tokenizer(t);
  t->kind = kind_of(t);
  return t->vocab.size ? GRPO_OK : fail(GRPO_EFORMAT, "model: vocab: no tokens");
}
