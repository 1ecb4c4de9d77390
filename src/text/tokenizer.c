#include "text/tokenizer.h"

#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "text/bytelevel.h"
#include "text/pipeline.h"
#include "text/unicode.h"

/* ---- encoding: from the outside in, one function per stage of the pipeline -- */

typedef struct Encoder {
  const Tokenizer *t;
  EncodeScratch *w;
  const char *text; /* the whole of it, for positions in messages */
  unsigned flags;
  IntBuf *out;
} Encoder;

enum { MAX_TEXT = 1 << 30 };

static Status unknown_word(const Encoder *e, const char *s, size_t n) {
  uint32_t cp;
  bool valid;
  size_t len = utf8_decode(s, n, &cp, &valid);
  if (len == n)
    return fail(GRPO_EARG,
                "tokenizer: character \"%.*s\" (U+%04X) is not in the vocabulary of %d tokens",
                (int)n, s, (unsigned)cp, tokenizer_size(e->t));
  return fail(GRPO_EARG, "tokenizer: \"%.*s\" is not in the vocabulary of %d tokens",
              n > 60 ? 60 : (int)n, s, tokenizer_size(e->t));
}

static int32_t find_in_model(const Tokenizer *t, const char *s, size_t n) {
  int32_t id = vocab_find(&t->vocab, s, n);
  return id >= 0 && t->vocab.entry[id].flags & TOKEN_MODEL ? id : -1;
}

static Status encode_pretoken(Encoder *e, const char *s, size_t n) {
  const Tokenizer *t = e->t;
  if (t->model == MODEL_WORDS) {
    int32_t id = find_in_model(t, s, n);
    if (id < 0) id = t->unk;
    if (id < 0) return unknown_word(e, s, n);
    intbuf_put(e->out, id);
    return GRPO_OK;
  }
  if (t->ignore_merges) {
    buf_clear(&e->w->alphabet);
    bytelevel_put(&e->w->alphabet, s, n);
    try(buf_status(&e->w->alphabet));
    int32_t id = find_in_model(t, e->w->alphabet.data, e->w->alphabet.len);
    if (id >= 0) {
      intbuf_put(e->out, id);
      return GRPO_OK;
    }
  }
  return bpe_encode(&t->bpe, &e->w->bpe, s, n, e->out);
}

static Status split(Encoder *e, int step, const char *s, size_t n);

static Status split_by_regex(Encoder *e, int step, const char *s, size_t n) {
  const PreStep *p = &e->t->step[step];
  size_t done = 0, at = 0;
  while (at < n) {
    bool found;
    const size_t *m;
    try(regex_exec(p->re, s, n, at, &found, &m));
    if (!found) break;
    size_t start = m[0], end = m[1];
    if (end <= start || start < at) { /* it cuts nothing: look on from the next character */
      at = (end > at ? end : at) + 1;
      while (at < n && ((unsigned char)s[at] & 0xC0) == 0x80) at++;
      continue;
    }
    if (start > done) try(split(e, step + 1, s + done, start - done));
    if (!p->drop) try(split(e, step + 1, s + start, end - start));
    done = at = end;
  }
  return done < n ? split(e, step + 1, s + done, n - done) : GRPO_OK;
}

/* Apply the pre-tokenizers from `step` on; the last ones' pieces go to the model. */
static Status split(Encoder *e, int step, const char *s, size_t n) {
  if (step == e->t->nstep) return encode_pretoken(e, s, n);
  PreKind kind = e->t->step[step].kind;
  if (kind == PRE_REGEX) return split_by_regex(e, step, s, n);
  for (size_t i = 0, len; i < n; i += len) {
    len = pre_scan(kind, s + i, n - i);
    try(split(e, step + 1, s + i, len));
  }
  return GRPO_OK;
}

static Status encode_piece(Encoder *e, const char *s, size_t n) {
  if (!e->t->prefix_space || s[0] == ' ') return split(e, 0, s, n);
  Buf *b = &e->w->prefixed;
  buf_clear(b);
  buf_putc(b, ' ');
  buf_put(b, s, n);
  try(buf_status(b));
  return split(e, 0, b->data, b->len);
}

/* Text whose characters are all stable needs no normalization; other text needs tables that
 * this build does not have, and is refused, never encoded wrongly. */
static Status check_nfc(const char *s, size_t n) {
  for (size_t i = 0, len; i < n; i += len) {
    uint32_t cp = (unsigned char)s[i];
    bool valid;
    len = 1;
    if (cp < 0x80) continue;
    len = utf8_decode(s + i, n - i, &cp, &valid);
    if (unicode_class(cp) & UNI_NFC_UNSAFE)
      return fail(GRPO_EARG,
                  "tokenizer: the text holds U+%04X, which the tokenizer's normalizer (NFC) may "
                  "change; Unicode normalization is not built in, so normalize the text first",
                  (unsigned)cp);
  }
  return GRPO_OK;
}

static Status cut_added(Encoder *e, int set, const char *s, size_t n) {
  const bool special = !(e->flags & TOK_NO_PARSE_SPECIAL);
  size_t done = 0, from = 0;
  AddedMatch m;
  if (set == 1 && e->t->nfc) try(check_nfc(s, n));
  for (bool more = true; more;) {
    more = added_next(&e->t->added[set], s, n, &from, done, special, &m);
    size_t end = more ? m.start : n;
    if (end > done)
      try(set == 0 ? cut_added(e, 1, s + done, end - done) : encode_piece(e, s + done, end - done));
    if (more) {
      intbuf_put(e->out, m.token->id);
      done = m.end;
    }
  }
  return GRPO_OK;
}

static Status encode(Encoder *e, const char *s, size_t n) {
  const Tokenizer *t = e->t;
  if (n > MAX_TEXT)
    return fail(GRPO_ELIMIT, "tokenizer: a text of %zu bytes; the limit is %d", n, MAX_TEXT);
  if (!t->raw && !utf8_is_valid(s, n)) {
    buf_clear(&e->w->valid);
    utf8_put_lossy(&e->w->valid, s, n);
    try(buf_status(&e->w->valid));
    s = e->w->valid.data;
    n = e->w->valid.len;
  }
  if (e->flags & TOK_ADD_SPECIAL) intbuf_append(e->out, t->prefix.data, t->prefix.len);
  try(cut_added(e, 0, s, n));
  if (e->flags & TOK_ADD_SPECIAL) intbuf_append(e->out, t->suffix.data, t->suffix.len);
  return intbuf_status(e->out);
}

Status tokenizer_encode(const Tokenizer *t, const char *text, size_t n, unsigned flags,
                        IntBuf *out) {
  const size_t before = out->len;
  Encoder e = {.t = t, .w = t->scratch, .flags = flags, .out = out};
  pthread_mutex_lock(&e.w->lock);
  Status s = encode(&e, text, n);
  pthread_mutex_unlock(&e.w->lock);
  if (s != GRPO_OK) {
    out->len = before;
    out->oom = false;
  }
  return s;
}

/* ---- decoding ----------------------------------------------------------------- */

void tokenizer_piece_bytes(const Tokenizer *t, int32_t id, const char **bytes, size_t *n) {
  const VocabEntry *e = vocab_entry(&t->vocab, id);
  *bytes = e ? t->vocab.pieces.data + e->piece : "";
  *n = e ? e->piece_len : 0;
}

Status tokenizer_decode(const Tokenizer *t, const int32_t *ids, size_t n, bool skip_special,
                        Buf *out) {
  const size_t before = out->len;
  for (size_t i = 0; i < n; i++) {
    const char *piece;
    size_t len;
    if (skip_special && tokenizer_is_special(t, ids[i])) continue;
    tokenizer_piece_bytes(t, ids[i], &piece, &len);
    buf_put(out, piece, len);
  }
  try(buf_status(out));
  size_t len = out->len - before;
  if (t->raw || !len || utf8_is_valid(out->data + before, len)) return GRPO_OK;
  char *joined = mem_strndup(out->data + before, len);
  if (!joined) return fail(GRPO_ENOMEM, "decoding %zu ids", n);
  out->len = before;
  utf8_put_lossy(out, joined, len);
  mem_free(joined);
  return buf_status(out);
}

/* ---- what is known about it ------------------------------------------------------ */

enum { BOS, EOS, PAD, UNK };

int tokenizer_size(const Tokenizer *t) { return t->vocab.size; }
int32_t tokenizer_bos(const Tokenizer *t) { return t->special_id[BOS]; }
int32_t tokenizer_eos(const Tokenizer *t) { return t->special_id[EOS]; }
int32_t tokenizer_pad(const Tokenizer *t) { return t->special_id[PAD]; }
int32_t tokenizer_unk(const Tokenizer *t) { return t->special_id[UNK]; }
const char *tokenizer_kind(const Tokenizer *t) { return t->kind; }
const char *tokenizer_chat_template(const Tokenizer *t) { return t->chat_template; }

int32_t tokenizer_id(const Tokenizer *t, const char *token) {
  return vocab_find(&t->vocab, token, strlen(token));
}

const char *tokenizer_token(const Tokenizer *t, int32_t id) {
  return vocab_entry(&t->vocab, id) ? vocab_text(&t->vocab, id) : NULL;
}

bool tokenizer_is_special(const Tokenizer *t, int32_t id) {
  const VocabEntry *e = vocab_entry(&t->vocab, id);
  return e && e->flags & TOKEN_SPECIAL;
}

/* ---- lifetime ---------------------------------------------------------------------- */

static Tokenizer *mutable(const Tokenizer *t) { return (Tokenizer *)(uintptr_t)t; }

void tokenizer_retain(const Tokenizer *t) { atomic_fetch_add(&mutable(t)->refs, 1); }

static void free_scratch(EncodeScratch *w) {
  if (!w) return;
  pthread_mutex_destroy(&w->lock);
  buf_free(&w->valid);
  buf_free(&w->prefixed);
  buf_free(&w->alphabet);
  bpe_scratch_free(&w->bpe);
  mem_free(w);
}

void tokenizer_free(const Tokenizer *shared) {
  Tokenizer *t = mutable(shared);
  if (!t || atomic_fetch_sub(&t->refs, 1) > 1) return;
  for (int i = 0; i < NFILES; i++) buf_free(&t->file[i]);
  for (int i = 0; i < t->nstep; i++) regex_free(t->step[i].re);
  vocab_free(&t->vocab);
  bpe_free(&t->bpe);
  added_free(&t->added[0]);
  added_free(&t->added[1]);
  intbuf_free(&t->prefix);
  intbuf_free(&t->suffix);
  free_scratch(t->scratch);
  mem_free(t->chat_template);
  mem_free(t);
}
