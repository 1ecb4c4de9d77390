#include "text/detokenizer.h"

#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "text/bytelevel.h"

/* ---- reading ------------------------------------------------------------------------------- */

static void step_free(DecStep *step) {
  pattern_free(&step->pattern);
  mem_free(step->text);
  mem_free(step->delimiter);
}

static Status add(Detok *d, DecStep step, const char *text) {
  Status s = GRPO_OK;
  if (d->n == MAX_DECODERS)
    s = fail(GRPO_ELIMIT, "more than %d decoders", MAX_DECODERS);
  else if (text && !(step.text = mem_strndup(text, strlen(text))))
    s = fail(GRPO_ENOMEM, "decoder");
  if (s == GRPO_OK)
    d->step[d->n++] = step;
  else
    step_free(&step);
  return s;
}

static Status read_strip(Detok *d, const Json *j) {
  const char *content;
  DecStep step = {.kind = DEC_STRIP};
  try(component_text(j, "content", &content));
  try(component_count(j, "start", &step.start));
  try(component_count(j, "stop", &step.stop));
  return *content ? add(d, step, content) : fail(GRPO_EFORMAT, "Strip: content is empty");
}

static Status read_replace(Detok *d, const Json *j) {
  const char *content;
  DecStep step = {.kind = DEC_REPLACE};
  try(component_text(j, "content", &content));
  try(pattern_read(j, &step.pattern));
  return add(d, step, content);
}

static Status read_metaspace(Detok *d, const Json *j) {
  const char *text, *scheme = json_string(json_get(j, "prepend_scheme"));
  bool add_space;
  try(component_text(j, "replacement", &text));
  try(component_flag(j, "add_prefix_space", true, &add_space));
  if (!*text) return fail(GRPO_EFORMAT, "Metaspace: replacement is empty");
  bool strip = scheme ? strcmp(scheme, "never") != 0 : add_space;
  return add(d, (DecStep){.kind = DEC_METASPACE, .flag = strip}, text);
}

static Status read_wordpiece(Detok *d, const Json *j) {
  const char *prefix;
  DecStep step = {.kind = DEC_WORDPIECE};
  try(component_text(j, "prefix", &prefix));
  try(component_flag(j, "cleanup", true, &step.flag));
  return add(d, step, prefix);
}

static Status read_suffix(Detok *d, const Json *j) {
  const char *suffix;
  try(component_text(j, "suffix", &suffix));
  return add(d, (DecStep){.kind = DEC_SUFFIX}, suffix);
}

static Status read_ctc(Detok *d, const Json *j) {
  const char *pad, *delimiter;
  DecStep step = {.kind = DEC_CTC};
  try(component_text(j, "pad_token", &pad));
  try(component_text(j, "word_delimiter_token", &delimiter));
  try(component_flag(j, "cleanup", true, &step.flag));
  step.delimiter = mem_strndup(delimiter, strlen(delimiter));
  return step.delimiter ? add(d, step, pad) : fail(GRPO_ENOMEM, "decoder");
}

static Status read_one(void *user, const Json *j) {
  Detok *d = user;
  const char *type = component_type(j);
  if (strcmp(type, "ByteLevel") == 0) return add(d, (DecStep){.kind = DEC_BYTE_LEVEL}, NULL);
  if (strcmp(type, "ByteFallback") == 0) return add(d, (DecStep){.kind = DEC_BYTE_FALLBACK}, NULL);
  if (strcmp(type, "Fuse") == 0) return add(d, (DecStep){.kind = DEC_FUSE}, NULL);
  if (strcmp(type, "Replace") == 0) return read_replace(d, j);
  if (strcmp(type, "Strip") == 0) return read_strip(d, j);
  if (strcmp(type, "Metaspace") == 0) return read_metaspace(d, j);
  if (strcmp(type, "WordPiece") == 0) return read_wordpiece(d, j);
  if (strcmp(type, "BPEDecoder") == 0) return read_suffix(d, j);
  if (strcmp(type, "CTC") == 0) return read_ctc(d, j);
  return fail(GRPO_EFORMAT, "'%s' is not supported", type);
}

Status detok_read(Detok *d, const Json *j) {
  if (component_is_null(j)) return add(d, (DecStep){.kind = DEC_SPACES}, NULL);
  return component_each(j, "decoders", read_one, d);
}

bool detok_is(const Detok *d, DecKind kind) { return d->n == 1 && d->step[0].kind == kind; }

enum { MAX_DECODED = 1 << 30 };

/* ---- lists ------------------------------------------------------------------------------- */

static Status list_end(TokenList *l) {
  if (l->n == l->cap) {
    size_t cap = l->cap ? 2 * l->cap : 64;
    size_t *end = mem_realloc(l->end, cap * sizeof *end);
    if (!end) return fail(GRPO_ENOMEM, "decoding %zu tokens", l->n);
    l->end = end;
    l->cap = cap;
  }
  l->end[l->n++] = l->text.len;
  return GRPO_OK;
}

Status token_list_put(TokenList *l, const char *s, size_t n) {
  buf_put(&l->text, s, n);
  return list_end(l);
}

static void list_clear(TokenList *l) {
  buf_clear(&l->text);
  l->n = 0;
}

static const char *list_get(const TokenList *l, size_t i, size_t *n) {
  size_t start = i ? l->end[i - 1] : 0;
  *n = l->end[i] - start;
  return l->text.data ? l->text.data + start : "";
}

/* ---- steps for one token: append what token i of n becomes ------------------------------ */

/* An empty `what` stands at either end and between all characters. */
static void put_replaced(Buf *out, const char *s, size_t n, const char *what, const char *with) {
  const size_t len = strlen(what);
  for (size_t i = 0; !len && i <= n; i++) {
    if (i == n || ((unsigned char)s[i] & 0xC0) != 0x80) buf_puts(out, with);
    if (i == n) return;
    buf_putc(out, s[i]);
  }
  for (const char *at; len && (at = memmem(s, n, what, len));) {
    buf_put(out, s, (size_t)(at - s));
    buf_puts(out, with);
    n -= (size_t)(at - s) + len;
    s = at + len;
  }
  buf_put(out, s, n);
}

static Status put_pattern(Buf *out, const DecStep *d, const char *s, size_t n) {
  size_t done = 0, last = (size_t)NO_MATCH;
  for (bool found = n > 0; found;) {
    size_t start, end;
    try(pattern_find(&d->pattern, s, n, done, last, &found, &start, &end));
    if (!found) break;
    buf_put(out, s + done, start - done);
    buf_puts(out, d->text);
    if (out->len > MAX_DECODED)
      return fail(GRPO_ELIMIT, "tokenizer: a Replace makes the text too long");
    done = last = end;
  }
  buf_put(out, s + done, n - done);
  return GRPO_OK;
}

static void put_stripped(Buf *out, const DecStep *d, const char *s, size_t n) {
  const size_t len = strlen(d->text);
  for (int32_t k = 0; k < d->start && n >= len && memcmp(s, d->text, len) == 0; k++) {
    s += len;
    n -= len;
  }
  for (int32_t k = 0; k < d->stop && n >= len && memcmp(s + n - len, d->text, len) == 0; k++)
    n -= len;
  buf_put(out, s, n);
}

/* WordPiece's cleanup joins punctuation and contractions to the word before. */
static Status put_cleaned(Buf *out, const char *s, size_t n) {
  static const char *const rule[][2] = {{" .", "."},     {" ?", "?"},           {" !", "!"},
                                        {" ,", ","},     {" ' ", "'"},          {" n't", "n't"},
                                        {" 'm", "'m"},   {" do not", " don't"}, {" 's", "'s"},
                                        {" 've", "'ve"}, {" 're", "'re"}};
  Buf text = {0}, next = {0};
  buf_put(&text, s, n);
  for (size_t i = 0; i < sizeof rule / sizeof *rule && text.len; i++) {
    buf_clear(&next);
    put_replaced(&next, text.data, text.len, rule[i][0], rule[i][1]);
    Buf swap = text;
    text = next;
    next = swap;
  }
  if (text.len) buf_put(out, text.data, text.len);
  Status status = buf_status(&text);
  buf_free(&text);
  buf_free(&next);
  return status;
}

static Status put_wordpiece(Buf *out, const DecStep *d, const char *s, size_t n, bool first) {
  const size_t len = strlen(d->text), start = out->len;
  if (first) {
    buf_put(out, s, n);
  } else if (n >= len && memcmp(s, d->text, len) == 0) {
    buf_put(out, s + len, n - len);
  } else {
    buf_putc(out, ' ');
    buf_put(out, s, n);
  }
  if (!d->flag || out->oom || out->len == start) return GRPO_OK;
  char *word = mem_strndup(out->data + start, out->len - start);
  if (!word) return fail(GRPO_ENOMEM, "decoding");
  n = out->len - start;
  out->len = start;
  Status status = put_cleaned(out, word, n);
  mem_free(word);
  return status;
}

static Status put_one(Buf *out, const DecStep *d, const char *s, size_t n, size_t i, size_t count) {
  switch (d->kind) {
  case DEC_REPLACE:
    return put_pattern(out, d, s, n);
  case DEC_STRIP:
    put_stripped(out, d, s, n);
    return GRPO_OK;
  case DEC_METASPACE:
    put_replaced(out, s, n, d->text, i == 0 && d->flag ? "" : " ");
    return GRPO_OK;
  case DEC_WORDPIECE:
    return put_wordpiece(out, d, s, n, i == 0);
  case DEC_SUFFIX:
    put_replaced(out, s, n, d->text, i + 1 == count ? "" : " ");
    return GRPO_OK;
  case DEC_SPACES:
    if (i) buf_putc(out, ' ');
    buf_put(out, s, n);
    return GRPO_OK;
  default:
    buf_put(out, s, n);
    return GRPO_OK;
  }
}

/* ---- steps for the whole list ------------------------------------------------------------ */

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c |= 0x20;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that <0xHH> spells, or -1. */
static int fallback_byte(const char *s, size_t n) {
  if (n != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>') return -1;
  int high = hex_digit(s[3]), low = hex_digit(s[4]);
  return high < 0 || low < 0 ? -1 : 16 * high + low;
}

/* The bytes from `start` to the end of `to` were a run of byte tokens.  If they are valid text
 * they stay one string; else each byte becomes a U+FFFD. */
static Status end_run(TokenList *to, size_t start) {
  const size_t n = to->text.len - start;
  if (!n || to->text.oom) return GRPO_OK;
  if (utf8_is_valid(to->text.data + start, n)) return list_end(to);
  to->text.len = start;
  for (size_t i = 0; i < n; i++) try(token_list_put(to, "\xEF\xBF\xBD", 3));
  return GRPO_OK;
}

static Status byte_fallback(const TokenList *from, TokenList *to) {
  size_t start = 0;
  for (size_t i = 0, n; i < from->n; i++) {
    const char *s = list_get(from, i, &n);
    int byte = fallback_byte(s, n);
    if (byte >= 0) {
      buf_putc(&to->text, (char)byte);
      continue;
    }
    try(end_run(to, start));
    try(token_list_put(to, s, n));
    start = to->text.len;
  }
  return end_run(to, start);
}

static Status byte_level(const TokenList *from, TokenList *to) {
  Buf bytes = {0};
  for (size_t i = 0, n; i < from->n; i++) {
    const char *s = list_get(from, i, &n);
    bytelevel_unput(&bytes, s, n);
  }
  if (bytes.len) utf8_put_lossy(&to->text, bytes.data, bytes.len);
  Status s = buf_status(&bytes);
  buf_free(&bytes);
  return s == GRPO_OK ? list_end(to) : s;
}

/* Appends a token as CTC leaves it; `word` is working memory. */
static Status put_ctc(Buf *out, const DecStep *d, Buf *word, const char *s, size_t n) {
  buf_clear(word);
  put_replaced(word, s, n, d->text, "");
  try(buf_status(word));
  if (!d->flag) {
    if (word->len) buf_put(out, word->data, word->len);
    return GRPO_OK;
  }
  Buf clean = {0};
  const Status status = put_cleaned(&clean, word->data, word->len);
  put_replaced(out, clean.len ? clean.data : "", clean.len, d->delimiter, " ");
  buf_free(&clean);
  return status;
}

static Status ctc(const DecStep *d, const TokenList *from, TokenList *to) {
  Buf word = {0};
  Status status = GRPO_OK;
  size_t nlast = 0;
  const char *last = NULL;
  for (size_t i = 0, n; i < from->n && status == GRPO_OK; i++) {
    const char *s = list_get(from, i, &n);
    const size_t before = to->text.len;
    if (!last || n != nlast || memcmp(s, last, n) != 0) status = put_ctc(&to->text, d, &word, s, n);
    if (status == GRPO_OK && to->text.len > before) status = list_end(to);
    last = s;
    nlast = n;
  }
  buf_free(&word);
  return status;
}

static Status run_step(const DecStep *d, const TokenList *from, TokenList *to) {
  list_clear(to);
  if (d->kind == DEC_CTC) return ctc(d, from, to);
  if (d->kind == DEC_BYTE_FALLBACK) return byte_fallback(from, to);
  if (d->kind == DEC_BYTE_LEVEL) return byte_level(from, to);
  for (size_t i = 0, n; i < from->n; i++) {
    const char *s = list_get(from, i, &n);
    try(put_one(&to->text, d, s, n, i, from->n));
    if (d->kind != DEC_FUSE) try(list_end(to));
    if (to->text.len > MAX_DECODED)
      return fail(GRPO_ELIMIT, "tokenizer: decoders make more than %d bytes", MAX_DECODED);
  }
  return d->kind == DEC_FUSE ? list_end(to) : GRPO_OK;
}

Status detok_run(const Detok *d, DecScratch *w, Buf *out) {
  int turn = 0;
  for (int i = 0; i < d->n; i++, turn = !turn)
    try(run_step(&d->step[i], &w->list[turn], &w->list[!turn]));
  const Buf *text = &w->list[turn].text;
  try(buf_status(text));
  if (text->len) buf_put(out, text->data, text->len);
  return buf_status(out);
}

Status detok_piece(const Detok *d, DecScratch *w, const char *token, size_t n, Buf *out) {
  int turn = 0;
  for (int i = 0; i < d->n; i++)
    if (d->step[i].kind == DEC_BYTE_FALLBACK && fallback_byte(token, n) >= 0) {
      buf_putc(out, (char)fallback_byte(token, n));
      return buf_status(out);
    }
  list_clear(&w->list[0]);
  for (int i = 0; i < 3; i++) try(token_list_put(&w->list[0], i == 1 ? token : "", i == 1 ? n : 0));
  for (int i = 0; i < d->n && d->step[i].kind != DEC_FUSE; i++, turn = !turn)
    try(run_step(&d->step[i], &w->list[turn], &w->list[!turn]));
  TokenList *last = &w->list[turn];
  const char *s = last->n ? list_get(last, last->n == 3 ? 1 : 0, &n) : NULL;
  if (s) buf_put(out, s, n);
  list_clear(&w->list[0]);
  return buf_status(out);
}

void detok_free(Detok *d) {
  for (int i = 0; i < d->n; i++) step_free(&d->step[i]);
  d->n = 0;
}

void dec_scratch_free(DecScratch *w) {
  for (int i = 0; i < 2; i++) {
    buf_free(&w->list[i].text);
    mem_free(w->list[i].end);
  }
}
