
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "text/bytelevel.h"
#include "text/pretoken_split.h"
#include "text/tokenizer_impl.h"

/* ---- encoding: one function per stage of the pipeline ------------------------- */

typedef struct TextEncoder {
  const Tokenizer *t;
  EncodeScratch *w;
  const char *first; /* [origin] what the first character of the whole text has become */
  size_t origin;     /* 0: the piece is after it */
  unsigned flags;
  size_t longest; /* that pre-tokenizers may make a piece */
  IntBuf *out;
} TextEncoder;

/* MAX_GROWTH: pre-tokenizers, each of which may make text longer, may do so by this factor. */
enum { MAX_TEXT = 1 << 30, MAX_GROWTH = 64 };

static Status unknown_word(const TextEncoder *e, const char *s, size_t n) {
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

static Status encode_word(TextEncoder *e, const char *s, size_t n) {
  const Tokenizer *t = e->t;
  int32_t id = subword_find(&t->vocab, s, n);
  if (id < 0) id = t->unk;
  if (id < 0) return unknown_word(e, s, n);
  intbuf_put(e->out, id);
  return GRPO_OK;
}

static Status encode_unigram(TextEncoder *e, const char *s, size_t n) {
  const Tokenizer *t = e->t;
  size_t unknown;
  try(unigram_encode(&t->unigram, &t->vocab, &e->w->unigram, s, n, e->out, &unknown));
  if (unknown == n) return GRPO_OK;
  uint32_t cp;
  bool valid;
  return unknown_word(e, s + unknown, utf8_decode(s + unknown, n - unknown, &cp, &valid));
}

static Status encode_pretoken(TextEncoder *e, const char *s, size_t n) {
  const Tokenizer *t = e->t;
  EncodeScratch *w = e->w;
  const char *text = s; /* spelt as in the vocabulary */
  size_t ntext = n;
  if (t->byte_level && (t->ignore_merges || t->model != MODEL_BPE)) {
    buf_clear(&w->alphabet);
    bytelevel_put(&w->alphabet, s, n);
    try(buf_status(&w->alphabet));
    text = w->alphabet.data;
    ntext = w->alphabet.len;
  }
  if (t->model == MODEL_WORDS) return encode_word(e, text, ntext);
  if (t->model == MODEL_UNIGRAM) return encode_unigram(e, text, ntext);
  if (t->ignore_merges) {
    int32_t id = subword_find(&t->vocab, text, ntext);
    if (id >= 0) {
      intbuf_put(e->out, id);
      return GRPO_OK;
    }
  }
  if (t->model == MODEL_BPE) return bpe_encode(&t->bpe, &w->bpe, s, n, e->out);
  if (t->model == MODEL_WORDPIECE)
    return subword_wordpiece(&t->subword, &t->vocab, &w->affixed, text, ntext, e->out);
  return subword_bpe(&t->subword, &t->vocab, &t->bpe, &w->bpe, &w->affixed, text, ntext, e->out);
}

static Status split(TextEncoder *e, int step, const char *s, size_t n);

static Status cut(TextEncoder *e, int step, const char *s, size_t n) {
  PreCut c = {.step = &e->t->step[step], .s = s, .n = n};
  for (bool more = true; more;) {
    size_t start, end;
    try(pre_cut_next(&c, &more, &start, &end));
    if (more && end > start) try(split(e, step + 1, s + start, end - start));
  }
  return GRPO_OK;
}

/* How many bytes of the piece the first character of the whole text has become. */
static size_t origin_of(const TextEncoder *e, const char *s, size_t n) {
  const uintptr_t at = (uintptr_t)s - (uintptr_t)e->first;
  if (at >= e->origin) return 0;
  return e->origin - at < n ? e->origin - at : n;
}

/* Continues with the text in b, whose first `origin` bytes are those of the text's beginning. */
static Status go_on(TextEncoder *e, Status (*with)(TextEncoder *, int, const char *, size_t),
                    int step, const Buf *b, size_t origin) {
  const char *const first_before = e->first;
  const size_t origin_before = e->origin;
  try(buf_status(b));
  if (b->len > e->longest)
    return fail(GRPO_ELIMIT, "tokenizer: pre-tokenizers make a piece of %zu bytes", b->len);
  e->first = b->data;
  e->origin = origin;
  const Status status = with(e, step, b->data, b->len);
  e->first = first_before;
  e->origin = origin_before;
  return status;
}

/* Replaces spaces by the mark, and may prepend one. */
static Status mark_spaces(TextEncoder *e, int step, const char *s, size_t n) {
  const PreStep *p = &e->t->step[step];
  const Pattern *mark = &p->pattern;
  Buf *b = &e->w->piece[step];
  buf_clear(b);
  const bool marked = s[0] == ' ' || (n >= mark->len && memcmp(s, mark->text, mark->len) == 0);
  const size_t origin = origin_of(e, s, n);
  if (!marked && (p->prepend == PREPEND_ALWAYS || (p->prepend == PREPEND_FIRST && origin)))
    buf_put(b, mark->text, mark->len);
  size_t origin_after = origin ? b->len + origin : 0;
  for (size_t i = 0, end; i < n; i = end + 1) {
    const char *space = memchr(s + i, ' ', n - i);
    end = space ? (size_t)(space - s) : n;
    buf_put(b, s + i, end - i);
    if (space) buf_put(b, mark->text, mark->len);
    if (space && end < origin) origin_after += mark->len - 1;
  }
  return go_on(e, cut, step, b, origin_after);
}

static Status space_first(TextEncoder *e, int step, const char *s, size_t n) {
  if (s[0] == ' ') return split(e, step + 1, s, n);
  const size_t origin = origin_of(e, s, n);
  Buf *b = &e->w->piece[step];
  buf_clear(b);
  buf_putc(b, ' ');
  buf_put(b, s, n);
  return go_on(e, split, step + 1, b, origin ? origin + 1 : 0);
}

/* Spells the piece in ByteLevel's alphabet. */
static Status spell_bytes(TextEncoder *e, int step, const char *s, size_t n) {
  const size_t origin = origin_of(e, s, n);
  Buf *b = &e->w->piece[step];
  buf_clear(b);
  bytelevel_put(b, s, origin);
  const size_t origin_after = b->len;
  bytelevel_put(b, s + origin, n - origin);
  return go_on(e, split, step + 1, b, origin_after);
}

static Status cut_fixed(TextEncoder *e, int step, const char *s, size_t n) {
  for (size_t i = 0, len; i < n; i += len) {
    len = 0;
    for (int32_t k = 0; k < e->t->step[step].length && i + len < n; k++) {
      uint32_t cp;
      bool valid;
      len += utf8_decode(s + i + len, n - i - len, &cp, &valid);
    }
    try(split(e, step + 1, s + i, len));
  }
  return GRPO_OK;
}

/* Cuts digits in groups of three from their end, and, unless it cuts only before such groups, from
 * what stands around them. */
static Status cut_threes(TextEncoder *e, int step, const char *s, size_t n) {
  const PreKind kind = e->t->step[step].kind;
  const bool apart = kind != PRE_BEFORE_3;
  size_t start = 0, len;
  for (size_t i = 0; i < n;) {
    size_t count = pre_digits(kind, s + i, n - i, &len);
    const size_t first = count, end = i + len;
    for (; count; count--) {
      if (i > start && (count % 3 == 0 || (apart && count == first))) {
        try(split(e, step + 1, s + start, i - start));
        start = i;
      }
      do i++;
      while (i < end && (s[i] & 0xC0) == 0x80);
    }
    i = end;
    if (!apart || !first) continue;
    try(split(e, step + 1, s + start, end - start));
    start = end;
  }
  return start < n ? split(e, step + 1, s + start, n - start) : GRPO_OK;
}

/* Applies the pre-tokenizers from `step` on; the pieces of the last one go to the model. */
static Status split(TextEncoder *e, int step, const char *s, size_t n) {
  if (step == e->t->nstep) return encode_pretoken(e, s, n);
  PreKind kind = e->t->step[step].kind;
  if (kind == PRE_CUT) return cut(e, step, s, n);
  if (kind == PRE_METASPACE) return mark_spaces(e, step, s, n);
  if (kind == PRE_SPACE_FIRST) return space_first(e, step, s, n);
  if (kind == PRE_BYTES) return spell_bytes(e, step, s, n);
  if (kind == PRE_FIXED) return cut_fixed(e, step, s, n);
  if (kind >= PRE_THREES && kind <= PRE_BEFORE_3) return cut_threes(e, step, s, n);
  for (size_t i = pre_skip(kind, s, n), len; i < n; i += len) {
    len = pre_scan(kind, s + i, n - i);
    try(split(e, step + 1, s + i, len));
  }
  return GRPO_OK;
}

/* Cuts at added tokens: first in the raw text (set 0), then in what each piece of it becomes (set
 * 1). */
static Status cut_added(TextEncoder *e, int set, const char *s, size_t n);

static Status encode_piece(TextEncoder *e, int set, const char *s, size_t n) {
  if (set == 1) return split(e, 0, s, n);
  NormText t;
  const bool first = origin_of(e, s, n) > 0;
  try(normalizer_run(&e->t->normalizer, &e->w->norm, s, n, &t));
  e->first = t.s;
  e->origin = first ? t.origin : 0;
  if (t.n) try(cut_added(e, 1, t.s, t.n));
  e->origin = 0; /* no later piece has the beginning of the text */
  return GRPO_OK;
}

static Status cut_added(TextEncoder *e, int set, const char *s, size_t n) {
  const bool special = !(e->flags & TOK_NO_PARSE_SPECIAL);
  size_t done = 0, from = 0;
  AddedMatch m;
  for (bool more = true; more;) {
    more = added_next(&e->t->added[set], s, n, &from, done, special, &m);
    size_t end = more ? m.start : n;
    if (end > done) try(encode_piece(e, set, s + done, end - done));
    if (more) {
      intbuf_put(e->out, m.token->id);
      done = m.end;
    }
  }
  return GRPO_OK;
}

static Status encode(TextEncoder *e, const char *s, size_t n) {
  const Tokenizer *t = e->t;
  if (n > MAX_TEXT)
    return fail(GRPO_ELIMIT, "tokenizer: a text of %zu bytes; the limit is %d", n, MAX_TEXT);
  e->longest = MAX_GROWTH * n + (1 << 16);
  if (!t->raw && !utf8_is_valid(s, n)) {
    buf_clear(&e->w->valid);
    utf8_put_lossy(&e->w->valid, s, n);
    try(buf_status(&e->w->valid));
    s = e->w->valid.data;
    n = e->w->valid.len;
  }
  if (e->flags & TOK_ADD_SPECIAL) intbuf_append(e->out, t->prefix.data, t->prefix.len);
  e->first = s;
  e->origin = n > 0;
  try(cut_added(e, 0, s, n));
  if (e->flags & TOK_ADD_SPECIAL) intbuf_append(e->out, t->suffix.data, t->suffix.len);
  return intbuf_status(e->out);
}

Status tokenizer_encode(const Tokenizer *t, const char *text, size_t n, unsigned flags,
                        IntBuf *out) {
  const size_t before = out->len;
  TextEncoder e = {.t = t, .w = t->scratch, .flags = flags, .out = out};
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

/* A token is left out if it is spelt as a special token is.  As in the reference, one that the
 * normalizer changes counts by its changed form. */
static bool is_skipped(const Tokenizer *t, int32_t id) {
  const VocabEntry *e = vocab_entry(&t->vocab, id);
  if (e && e->flags & TOKEN_RESPELT) {
    size_t n;
    const char *text = tokenizer_spelling(t, id, &n);
    e = vocab_entry(&t->vocab, vocab_find(&t->vocab, text, n));
  }
  return e && e->flags & TOKEN_SPECIAL;
}

static Status decode_bytes(const Tokenizer *t, const int32_t *ids, size_t n, bool skip_special,
                           Buf *out) {
  const size_t before = out->len;
  for (size_t i = 0; i < n; i++) {
    const char *piece;
    size_t len;
    if (skip_special && is_skipped(t, ids[i])) continue;
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

static Status decode_tokens(const Tokenizer *t, const int32_t *ids, size_t n, bool skip_special,
                            Buf *out) {
  TokenList *list = &t->scratch->decode.list[0];
  buf_clear(&list->text);
  list->n = 0;
  for (size_t i = 0; i < n; i++) {
    size_t len;
    if (!vocab_entry(&t->vocab, ids[i]) || (skip_special && is_skipped(t, ids[i]))) continue;
    const char *text = tokenizer_spelling(t, ids[i], &len);
    try(token_list_put(list, text, len));
  }
  return detok_run(&t->decoder, &t->scratch->decode, out);
}

Status tokenizer_decode(const Tokenizer *t, const int32_t *ids, size_t n, bool skip_special,
                        Buf *out) {
  if (detok_is(&t->decoder, DEC_BYTE_LEVEL) || detok_is(&t->decoder, DEC_FUSE))
    return decode_bytes(t, ids, n, skip_special, out);
  pthread_mutex_lock(&t->scratch->lock);
  Status s = decode_tokens(t, ids, n, skip_special, out);
  pthread_mutex_unlock(&t->scratch->lock);
  return s;
}

const char *const token_role_name[TOK_NROLES] = {"bos", "eos", "pad", "unk", "sep", "cls", "mask"};

/* ---- properties ------------------------------------------------------------------- */

int tokenizer_size(const Tokenizer *t) { return t->vocab.size; }
int32_t tokenizer_bos(const Tokenizer *t) { return t->special_id[TOK_BOS]; }
int32_t tokenizer_eos(const Tokenizer *t) { return t->special_id[TOK_EOS]; }
int32_t tokenizer_pad(const Tokenizer *t) { return t->special_id[TOK_PAD]; }
int32_t tokenizer_unk(const Tokenizer *t) { return t->special_id[TOK_UNK]; }
int32_t tokenizer_role(const Tokenizer *t, TokenRole role) { return t->special_id[role]; }
const char *tokenizer_kind(const Tokenizer *t) { return t->kind; }
const char *tokenizer_chat_template(const Tokenizer *t) {
  return t->set_template ? t->set_template : tokenizer_template(t, "default");
}
const char *tokenizer_tool_template(const Tokenizer *t) {
  return tokenizer_template(t, "tool_use");
}

const char *tokenizer_template(const Tokenizer *t, const char *name) {
  return chat_templates_find(&t->templates, name);
}

const char *tokenizer_template_name(const Tokenizer *t, int i) {
  return i < t->templates.n ? t->templates.item[i].name : NULL;
}

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

Status tokenizer_set_template(const Tokenizer *t, const char *text) {
  char *copy = text ? mem_strdup(text) : NULL;
  if (text && !copy) return fail(GRPO_ENOMEM, "chat template");
  mem_free(t->set_template);
  mutable(t)->set_template = copy;
  return GRPO_OK;
}

static void free_scratch(EncodeScratch *w) {
  if (!w) return;
  pthread_mutex_destroy(&w->lock);
  buf_free(&w->valid);
  for (int i = 0; i < MAX_STEPS; i++) buf_free(&w->piece[i]);
  buf_free(&w->alphabet);
  buf_free(&w->affixed);
  norm_scratch_free(&w->norm);
  dec_scratch_free(&w->decode);
  bpe_scratch_free(&w->bpe);
  uni_scratch_free(&w->unigram);
  mem_free(w);
}

void tokenizer_free(const Tokenizer *shared) {
  Tokenizer *t = mutable(shared);
  if (!t || atomic_fetch_sub(&t->refs, 1) > 1) return;
  for (int i = 0; i < NFILES; i++) buf_free(&t->file[i]);
  mem_free(t->set_template);
  for (int i = 0; i < t->nstep; i++) pattern_free(&t->step[i].pattern);
  normalizer_free(&t->normalizer);
  detok_free(&t->decoder);
  subword_free(&t->subword);
  unigram_free(&t->unigram);
  vocab_free(&t->vocab);
  bpe_free(&t->bpe);
  added_free(&t->added[0]);
  added_free(&t->added[1]);
  intbuf_free(&t->prefix);
  intbuf_free(&t->suffix);
  free_scratch(t->scratch);
  chat_templates_free(&t->templates);
  mem_free(t);
}
