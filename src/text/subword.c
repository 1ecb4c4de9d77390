#include "text/subword.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"

#define MARK "\xE2\x96\x81" /* U+2581 */
enum { MARK_LEN = 3 };

int32_t subword_find(const Vocab *v, const char *s, size_t n) {
  int32_t id = vocab_find(v, s, n);
  return id >= 0 && v->entry[id].flags & TOKEN_MODEL ? id : -1;
}

/* ---- preparing ------------------------------------------------------------------------------- */

static bool ends_in_mark(const Vocab *v, int32_t id) {
  const VocabEntry *e = vocab_entry(v, id);
  return e && e->len >= MARK_LEN &&
         memcmp(v->text.data + e->text + e->len - MARK_LEN, MARK, MARK_LEN) == 0;
}

static bool begins_with_mark(const Vocab *v, int32_t id) {
  return strncmp(vocab_text(v, id), MARK, MARK_LEN) == 0;
}

/* Cutting before a U+2581 that follows another character does not change the ids if no merge joins
 * the two sides and if U+2581 is a token, which ends a run of unknown characters. */
static bool may_cut(const Subword *m, const Vocab *v, const Bpe *merges) {
  if (m->prefix || m->suffix || subword_find(v, MARK, MARK_LEN) < 0) return false;
  if (m->unk < 0) return false; /* a dropped character makes its neighbours adjacent */
  if (m->unk >= 0 && (ends_in_mark(v, m->unk) || begins_with_mark(v, m->unk))) return false;
  for (const MapEntry *e = NULL; (e = map_each(&merges->merges, e));) {
    if (begins_with_mark(v, bpe_right(e)) && !ends_in_mark(v, bpe_left(e))) return false;
  }
  return true;
}

Status subword_prepare(Subword *m, const Vocab *v, const Bpe *merges) {
  for (int b = 0; b < 256; b++) {
    char code[8];
    snprintf(code, sizeof code, "<0x%02X>", (unsigned)b);
    m->byte[b] = vocab_find(v, code, strlen(code));
  }
  m->small = mem_alloc(SMALL_CHARS * sizeof *m->small);
  if (!m->small) return fail(GRPO_ENOMEM, "model");
  for (uint32_t cp = 0; cp < SMALL_CHARS; cp++) {
    char c[4];
    m->small[cp] = vocab_find(v, c, utf8_encode(cp, c));
  }
  m->cut = merges && may_cut(m, v, merges);
  return GRPO_OK;
}

/* ---- BPE --------------------------------------------------------------------------------- */

/* Lays out the symbols in order.  An unknown one is held back until the next token of the
 * vocabulary or the end, so that bytes can come before it, as in the reference. */
typedef struct Layout {
  const Subword *m;
  const Vocab *v;
  BpeScratch *w;
  int32_t count;
  bool waiting;
} Layout;

static void end_unknown(Layout *y) {
  if (y->waiting) bpe_symbol(y->w, &y->count, y->m->unk);
  y->waiting = false;
}

static bool put_bytes(Layout *y, const char *s, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (y->m->byte[(unsigned char)s[i]] < 0) return false;
  for (size_t i = 0; i < n; i++) bpe_symbol(y->w, &y->count, y->m->byte[(unsigned char)s[i]]);
  return true;
}

static void put_symbol(Layout *y, int32_t id, const char *s, size_t n) {
  if (id >= 0) {
    end_unknown(y);
    bpe_symbol(y->w, &y->count, id);
    return;
  }
  if (y->m->byte_fallback && put_bytes(y, s, n)) return;
  if (y->m->unk < 0) return;
  if (!y->m->fuse_unk) end_unknown(y);
  y->waiting = true;
}

static Status put_affixed(Layout *y, Buf *text, const char *s, size_t n, bool first, bool last) {
  buf_clear(text);
  if (!first && y->m->prefix) buf_puts(text, y->m->prefix);
  buf_put(text, s, n);
  if (last && y->m->suffix) buf_puts(text, y->m->suffix);
  try(buf_status(text));
  put_symbol(y, subword_find(y->v, text->data, text->len), text->data, text->len);
  return GRPO_OK;
}

static size_t affix_length(const Subword *m) {
  return (m->prefix ? strlen(m->prefix) : 0) + (m->suffix ? strlen(m->suffix) : 0);
}

static Status encode_word(const Subword *m, const Vocab *v, const Bpe *b, BpeScratch *w, Buf *text,
                          const char *s, size_t n, IntBuf *out) {
  Layout y = {.m = m, .v = v, .w = w};
  const bool plain = !m->prefix && !m->suffix;
  try(bpe_reserve(w, (n + 1) * (1 + affix_length(m))));
  for (size_t i = 0, len; i < n; i += len) {
    uint32_t cp = (unsigned char)s[i];
    bool valid;
    len = cp < 0x80 ? 1 : utf8_decode(s + i, n - i, &cp, &valid);
    if (!plain)
      try(put_affixed(&y, text, s + i, len, i == 0, i + len == n));
    else
      put_symbol(&y, cp < SMALL_CHARS ? m->small[cp] : subword_find(v, s + i, len), s + i, len);
  }
  end_unknown(&y);
  bpe_merge(b, w, y.count, out);
  return GRPO_OK;
}

/* The end of the first word: the next U+2581 that follows another character. */
static size_t word_end(const char *s, size_t n) {
  size_t i = 0;
  while (n - i >= MARK_LEN && memcmp(s + i, MARK, MARK_LEN) == 0) i += MARK_LEN;
  const char *at = memmem(s + i, n - i, MARK, MARK_LEN);
  return at ? (size_t)(at - s) : n;
}

Status subword_bpe(const Subword *m, const Vocab *v, const Bpe *b, BpeScratch *w, Buf *text,
                   const char *s, size_t n, IntBuf *out) {
  for (size_t i = 0, len; i < n; i += len) {
    len = m->cut ? word_end(s + i, n - i) : n - i;
    try(encode_word(m, v, b, w, text, s + i, len, out));
  }
  return GRPO_OK;
}

/* ---- WordPiece --------------------------------------------------------------------------- */

/* The longest token at s, or -1; *len is its length in s. */
static int32_t longest_piece(const Subword *m, const Vocab *v, Buf *text, const char *s, size_t n,
                             bool first, size_t *len) {
  buf_clear(text);
  if (!first && m->prefix) buf_puts(text, m->prefix);
  const size_t before = text->len;
  buf_put(text, s, n);
  if (text->oom) return -1;
  for (*len = n; *len > 0;) {
    int32_t id = subword_find(v, text->data, before + *len);
    if (id >= 0) return id;
    do --*len;
    while (*len > 0 && ((unsigned char)s[*len] & 0xC0) == 0x80);
  }
  return -1;
}

static int32_t count_chars(const char *s, size_t n) {
  int32_t chars = 0;
  for (size_t i = 0; i < n; i++) chars += ((unsigned char)s[i] & 0xC0) != 0x80;
  return chars;
}

Status subword_wordpiece(const Subword *m, const Vocab *v, Buf *text, const char *s, size_t n,
                         IntBuf *out) {
  const size_t before = out->len;
  bool known = count_chars(s, n) <= m->max_chars;
  for (size_t i = 0, len; i < n && known; i += len) {
    int32_t id = longest_piece(m, v, text, s + i, n - i, i == 0, &len);
    try(buf_status(text));
    known = id >= 0;
    if (known) intbuf_put(out, id);
  }
  if (known) return GRPO_OK;
  out->len = before;
  intbuf_put(out, m->unk);
  return GRPO_OK;
}

void subword_free(Subword *m) {
  mem_free(m->prefix);
  mem_free(m->suffix);
  mem_free(m->small);
  *m = (Subword){0};
}
