#include "text/tokenizer_train.h"

#include <string.h>

#include "base/utf8.h"
#include "formats/json.h"
#include "text/added.h"
#include "text/bpe_train.h"
#include "text/bytelevel.h"
#include "text/tokenizer_write.h"
#include "text/word_counts.h"

static const char *const default_special[] = {"<|endoftext|>", "<|pad|>"};

void tokenizer_train_options_init(TokenizerTrainOptions *o) {
  *o = (TokenizerTrainOptions){
      .size = sizeof *o, .vocab_size = 4096, .split_digits = true, .min_frequency = 2};
}

/* ---- options ------------------------------------------------------------------------------- */

static bool is_listed(const TokenizerTrainOptions *o, const char *name) {
  for (int i = 0; i < o->nspecial; i++)
    if (strcmp(o->special_tokens[i], name) == 0) return true;
  return false;
}

static Status check_role(const TokenizerTrainOptions *o, const char *role, const char *name) {
  if (!name || is_listed(o, name)) return GRPO_OK;
  return fail(GRPO_EARG, "tokenizer training: %s \"%.60s\" is not among the special tokens", role,
              name);
}

/* Fills in defaults.  A caller that was built against an older header has a smaller `size`. */
static Status complete(const TokenizerTrainOptions *given, TokenizerTrainOptions *o) {
  tokenizer_train_options_init(o);
  if (given) memcpy(o, given, given->size < sizeof *o ? given->size : sizeof *o);
  if (!o->special_tokens) {
    o->special_tokens = default_special;
    o->nspecial = 2;
  }
  if (!o->eos && o->nspecial > 0)
    o->eos = is_listed(o, default_special[0]) ? default_special[0] : o->special_tokens[0];
  if (!o->pad && is_listed(o, default_special[1])) o->pad = default_special[1];
  try(check_role(o, "bos", o->bos));
  try(check_role(o, "eos", o->eos));
  try(check_role(o, "pad", o->pad));
  if (o->vocab_size < 256 + o->nspecial)
    return fail(GRPO_EARG,
                "tokenizer training: vocab_size %d is too small; 256 bytes and %d special tokens "
                "need at least %d",
                o->vocab_size, o->nspecial, 256 + o->nspecial);
  if (o->vocab_size > VOCAB_MAX_ID)
    return fail(GRPO_EARG, "tokenizer training: vocab_size %d is too large; the limit is %d",
                o->vocab_size, VOCAB_MAX_ID);
  return GRPO_OK;
}

/* ---- counting ------------------------------------------------------------------------------ */

static Status special_set(const TokenizerTrainOptions *o, AddedSet *out) {
  for (int i = 0; i < o->nspecial; i++) {
    const char *s = o->special_tokens[i];
    if (*s) try(added_put(out, &(AddedToken){.text = s, .len = strlen(s), .special = true}));
  }
  added_sort(out);
  return GRPO_OK;
}

static Status count_text(WordCounts *w, const AddedSet *special, bool digits, const char *s,
                         size_t n) {
  size_t done = 0, from = 0;
  AddedMatch m;
  while (added_next(special, s, n, &from, done, true, &m)) {
    if (m.start > done) try(words_count(w, s + done, m.start - done, digits));
    done = m.end;
  }
  return done < n ? words_count(w, s + done, n - done, digits) : GRPO_OK;
}

static Status count_all(WordCounts *w, const AddedSet *special, const char *const *texts,
                        const size_t *lens, size_t ntexts, bool digits) {
  Buf valid = {0};
  Status s = GRPO_OK;
  for (size_t i = 0; i < ntexts && s == GRPO_OK; i++) {
    if (utf8_is_valid(texts[i], lens[i])) {
      s = count_text(w, special, digits, texts[i], lens[i]);
      continue;
    }
    buf_clear(&valid);
    utf8_put_lossy(&valid, texts[i], lens[i]);
    s = buf_status(&valid);
    if (s == GRPO_OK) s = count_text(w, special, digits, valid.data, valid.len);
  }
  buf_free(&valid);
  return s;
}

/* ---- writing ------------------------------------------------------------------------------- */

/* Adds the bytes in the order of their characters in the alphabet, like GPT-2 and the reference
 * trainer. */
static Status add_bytes(Vocab *v, int first) {
  for (uint32_t cp = 0; cp < 0x200; cp++) {
    int byte = bytelevel_byte(cp);
    if (byte < 0) continue;
    char c = (char)byte;
    try(vocab_add(v, &c, 1, v->size > first ? v->size : first, TOKEN_MODEL));
  }
  return GRPO_OK;
}

static void put_vocab(Buf *out, Buf *token, const TokenizerTrainOptions *o, const Vocab *v) {
  for (int i = 0; i < o->nspecial; i++)
    tokenizer_put_entry(out, o->special_tokens[i], strlen(o->special_tokens[i]), i);
  for (int32_t id = o->nspecial; id < v->size; id++) {
    const VocabEntry *e = vocab_entry(v, id);
    buf_clear(token);
    bytelevel_put(token, v->text.data + e->text, e->len);
    if (!token->oom) tokenizer_put_entry(out, token->data, token->len, id);
  }
}

/* Writes merges as "left right"; no token of the alphabet holds a space. */
static void put_merges(Buf *out, Buf *token, const IntBuf *merges, const Vocab *v) {
  for (size_t i = 0; i < merges->len; i += 2) {
    const VocabEntry *a = vocab_entry(v, merges->data[i]);
    const VocabEntry *b = vocab_entry(v, merges->data[i + 1]);
    buf_clear(token);
    bytelevel_put(token, v->text.data + a->text, a->len);
    buf_putc(token, ' ');
    bytelevel_put(token, v->text.data + b->text, b->len);
    buf_puts(out, i ? ",\n      " : "\n      ");
    if (!token->oom) json_put_string(out, token->data, token->len);
  }
}

#define BYTE_LEVEL                                                                                 \
  "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, "                \
  "\"use_regex\": true}"

static Status write_out(Tokenizer **out, const TokenizerTrainOptions *o, const Vocab *v,
                        const IntBuf *m) {
  Buf vocab = {0}, merges = {0}, token = {0};
  put_vocab(&vocab, &token, o, v);
  put_merges(&merges, &token, m, v);
  const TokenizerParts parts = {
      .pre_tokenizer =
          o->split_digits
              ? "{\"type\": \"Sequence\", \"pretokenizers\": [\n    {\"type\": \"Digits\", "
                "\"individual_digits\": true},\n    " BYTE_LEVEL "]}"
              : BYTE_LEVEL,
      .decoder = BYTE_LEVEL,
      .model = TOKENIZER_BPE_MEMBERS,
      .vocab = &vocab,
      .merges = &merges,
      .special = o->special_tokens,
      .nspecial = o->nspecial,
      .bos = o->bos,
      .eos = o->eos,
      .pad = o->pad,
  };
  Status s = token.oom ? buf_status(&token) : buf_status(&vocab);
  if (s == GRPO_OK) s = buf_status(&merges);
  if (s == GRPO_OK) s = tokenizer_from_parts(out, &parts, "trained tokenizer");
  buf_free(&vocab);
  buf_free(&merges);
  buf_free(&token);
  return s;
}

Status tokenizer_train(Tokenizer **out, const char *const *texts, const size_t *lens, size_t ntexts,
                       const TokenizerTrainOptions *given) {
  TokenizerTrainOptions o;
  WordCounts words = {0};
  AddedSet special = {0};
  Vocab vocab = {0};
  IntBuf merges = {0};
  *out = NULL;
  try(complete(given, &o));
  Status s = special_set(&o, &special);
  if (s == GRPO_OK) s = count_all(&words, &special, texts, lens, ntexts, o.split_digits);
  if (s == GRPO_OK) s = add_bytes(&vocab, o.nspecial);
  if (s == GRPO_OK) s = bpe_train(&words, o.vocab_size, o.min_frequency, &vocab, &merges);
  if (s == GRPO_OK) s = write_out(out, &o, &vocab, &merges);
  words_free(&words);
  added_free(&special);
  vocab_free(&vocab);
  intbuf_free(&merges);
  return s;
}
