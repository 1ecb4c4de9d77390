#include "text/normalize.h"

#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "text/bytelevel.h"
#include "text/unicode.h"
#include "text/unicode_form.h"

/* ---- reading ------------------------------------------------------------------------------- */

static void step_free(NormStep *step) {
  pattern_free(&step->pattern);
  charsmap_free(&step->map);
  mem_free(step->content);
}

static Status add(Normalizer *z, NormStep step) {
  if (z->n == MAX_NORMALIZERS) {
    step_free(&step);
    return fail(GRPO_ELIMIT, "more than %d normalizers", MAX_NORMALIZERS);
  }
  z->step[z->n++] = step;
  return GRPO_OK;
}

static Status add_content(Normalizer *z, const Json *j, const char *key, NormStep step) {
  const char *text;
  Status s = component_text(j, key, &text);
  if (s == GRPO_OK && !(step.content = mem_strndup(text, strlen(text))))
    s = fail(GRPO_ENOMEM, "normalizer");
  if (s == GRPO_OK) return add(z, step);
  step_free(&step);
  return s;
}

static Status read_charsmap(Normalizer *z, const Json *j) {
  const char *text;
  NormStep step = {.kind = NORM_CHARSMAP};
  try(component_text(j, "precompiled_charsmap", &text));
  const Status s = charsmap_read(&step.map, text);
  if (s == GRPO_OK) return add(z, step);
  step_free(&step);
  return s;
}

static Status read_bert(Normalizer *z, const Json *j) {
  bool clean, chinese, lower, accents;
  try(component_flag(j, "clean_text", true, &clean));
  try(component_flag(j, "handle_chinese_chars", true, &chinese));
  try(component_flag(j, "lowercase", true, &lower));
  try(component_flag(j, "strip_accents", lower, &accents));
  if (clean) try(add(z, (NormStep){.kind = NORM_CLEAN}));
  if (chinese) try(add(z, (NormStep){.kind = NORM_CHINESE}));
  if (accents) {
    try(add(z, (NormStep){.kind = NORM_FORM}));
    try(add(z, (NormStep){.kind = NORM_UNACCENT, .nonspacing = true}));
  }
  return lower ? add(z, (NormStep){.kind = NORM_LOWER}) : GRPO_OK;
}

static Status read_one(void *user, const Json *j) {
  Normalizer *z = user;
  const char *type = component_type(j);
  NormStep step = {0};
  if (strcmp(type, "Prepend") == 0) return add_content(z, j, "prepend", step);
  if (strcmp(type, "Replace") == 0) {
    step.kind = NORM_REPLACE;
    try(pattern_read(j, &step.pattern));
    return add_content(z, j, "content", step);
  }
  if (strcmp(type, "Strip") == 0) {
    step.kind = NORM_STRIP;
    try(component_flag(j, "strip_left", true, &step.left));
    try(component_flag(j, "strip_right", true, &step.right));
    return add(z, step);
  }
  if (strcmp(type, "Lowercase") == 0) return add(z, (NormStep){.kind = NORM_LOWER});
  if (strcmp(type, "StripAccents") == 0) return add(z, (NormStep){.kind = NORM_UNACCENT});
  if (strcmp(type, "Nmt") == 0) return add(z, (NormStep){.kind = NORM_NMT});
  if (strcmp(type, "ByteLevel") == 0) return add(z, (NormStep){.kind = NORM_BYTES});
  if (strcmp(type, "BertNormalizer") == 0) return read_bert(z, j);
  if (strcmp(type, "Precompiled") == 0) return read_charsmap(z, j);
  if (strncmp(type, "NF", 2) == 0) {
    const char *form = type + 2 + (type[2] == 'K');
    step = (NormStep){.kind = NORM_FORM, .compose = *form == 'C', .compatible = type[2] == 'K'};
    if ((*form == 'C' || *form == 'D') && !form[1]) return add(z, step);
  }
  return fail(GRPO_EFORMAT, "'%s' is not supported", type);
}

Status normalizer_read(Normalizer *z, const Json *j) {
  return component_each(j, "normalizers", read_one, z);
}

/* ---- the steps --------------------------------------------------------------------------- */

static bool is_ascii(const char *s, size_t n) {
  for (size_t i = 0; i < n; i++)
    if ((unsigned char)s[i] >= 0x80) return false;
  return true;
}

/* True if the text has no character that NFC may change. */
static bool is_stable(const char *s, size_t n) {
  for (size_t i = 0, len; i < n; i += len) {
    uint32_t cp = (unsigned char)s[i];
    bool valid;
    len = 1;
    if (cp < 0x80) continue;
    len = utf8_decode(s + i, n - i, &cp, &valid);
    if (unicode_class(cp) & UNI_NFC_UNSAFE) return false;
  }
  return true;
}

/* A file's Replaces may make text longer by this factor. */
enum { MAX_GROWTH = 64 };

static bool is_chinese(uint32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

static void lower_char(uint32_t cp, Buf *out) {
  char c[4];
  if (cp == 0x130) /* the only one whose lower case is two characters */
    buf_puts(out, "i\xCC\x87");
  else
    buf_put(out, c, utf8_encode(unicode_lower(cp), c));
}

static void clean_char(uint32_t cp, const char *s, size_t len, Buf *out) {
  const unsigned class = unicode_class(cp);
  const bool kept = cp == '\t' || cp == '\n' || cp == '\r';
  if ((class & UNI_OTHER && !kept) || cp == 0xFFFD) return; /* white space too: U+000B, U+0085 */
  if (class & UNI_SPACE)
    buf_putc(out, ' ');
  else
    buf_put(out, s, len);
}

static bool nmt_removes(uint32_t c) {
  return (c >= 1 && c <= 8) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F ||
         c == 0x9F;
}

static bool nmt_is_space(uint32_t c) {
  return c == 9 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
         (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF ||
         c == 0xFFFD;
}

static void nmt_char(uint32_t cp, const char *s, size_t len, Buf *out) {
  if (nmt_is_space(cp))
    buf_putc(out, ' ');
  else if (!nmt_removes(cp))
    buf_put(out, s, len);
}

static void one_char(const NormStep *z, uint32_t cp, const char *s, size_t len, Buf *out) {
  const bool chinese = z->kind == NORM_CHINESE && is_chinese(cp);
  switch (z->kind) {
  case NORM_LOWER:
    lower_char(cp, out);
    return;
  case NORM_UNACCENT:
    if (!(unicode_class(cp) & (z->nonspacing ? UNI_NONSPACING : UNI_MARK))) buf_put(out, s, len);
    return;
  case NORM_CLEAN:
    clean_char(cp, s, len, out);
    return;
  case NORM_NMT:
    nmt_char(cp, s, len, out);
    return;
  default:
    if (chinese) buf_putc(out, ' ');
    buf_put(out, s, len);
    if (chinese) buf_putc(out, ' ');
  }
}

static void each_char(const NormStep *z, NormText *t, Buf *out) {
  const size_t origin = t->origin;
  for (size_t i = 0, len; i < t->n; i += len) {
    uint32_t cp;
    bool valid;
    len = utf8_decode(t->s + i, t->n - i, &cp, &valid);
    one_char(z, cp, t->s + i, len, out);
    if (i < origin) t->origin = out->len;
  }
}

/* The text that replaces a match has the origin of the match's last character. */
static Status replace(const NormStep *z, NormText *t, Buf *out) {
  const size_t ncontent = strlen(z->content), n = t->n, origin = t->origin;
  const char *s = t->s;
  size_t done = 0, last = (size_t)NO_MATCH;
  t->origin = 0;
  for (bool found = true; found;) {
    size_t start, end;
    try(pattern_find(&z->pattern, s, n, done, last, &found, &start, &end));
    if (!found) break;
    buf_put(out, s + done, start - done);
    if (done < origin) t->origin = out->len - (start > origin ? start - origin : 0);
    buf_put(out, z->content, ncontent);
    if (end <= origin) t->origin = out->len;
    if (out->len > MAX_GROWTH * n + (1 << 20))
      return fail(GRPO_ELIMIT, "tokenizer: a Replace makes the text too long");
    done = last = end;
  }
  if (done < origin) t->origin = out->len + origin - done;
  buf_put(out, s + done, n - done);
  return GRPO_OK;
}

static void strip(const NormStep *z, NormText *t) {
  uint32_t cp;
  bool valid;
  while (z->left && t->n) {
    size_t len = utf8_decode(t->s, t->n, &cp, &valid);
    if (!(unicode_class(cp) & UNI_SPACE)) break;
    t->s += len;
    t->n -= len;
    t->origin -= len < t->origin ? len : t->origin;
  }
  while (z->right && t->n) {
    size_t at = t->n - 1;
    while (at > 0 && ((unsigned char)t->s[at] & 0xC0) == 0x80) at--;
    utf8_decode(t->s + at, t->n - at, &cp, &valid);
    if (!(unicode_class(cp) & UNI_SPACE)) break;
    t->n = at;
  }
}

static void put_bytes(NormText *t, Buf *out) {
  const size_t origin = t->origin;
  bytelevel_put(out, t->s, origin);
  t->origin = out->len;
  bytelevel_put(out, t->s + origin, t->n - origin);
}

/* The steps that keep where a text begins: its first character is the original's. */
static Status whole_text(const NormStep *z, NormScratch *w, NormText *t, Buf *out) {
  uint32_t cp;
  bool valid;
  const Status s = z->kind == NORM_FORM
                       ? unicode_form(t->s, t->n, z->compose, z->compatible, &w->code_points, out)
                       : charsmap_put(&z->map, t->s, t->n, MAX_GROWTH * t->n + (1 << 16), out);
  if (t->origin && out->len) t->origin = utf8_decode(out->data, out->len, &cp, &valid);
  return s;
}

static Status run_step(const NormStep *z, NormScratch *w, NormText *t, Buf *out) {
  switch (z->kind) {
  case NORM_PREPEND:
    buf_puts(out, z->content);
    if (t->origin) t->origin += out->len;
    buf_put(out, t->s, t->n);
    return GRPO_OK;
  case NORM_REPLACE:
    return replace(z, t, out);
  case NORM_FORM:
  case NORM_CHARSMAP:
    return whole_text(z, w, t, out);
  case NORM_BYTES:
    put_bytes(t, out);
    return GRPO_OK;
  default:
    each_char(z, t, out);
    return GRPO_OK;
  }
}

/* True if the step would not change the text. */
static bool is_identity(const NormStep *z, const char *s, size_t n) {
  if (z->kind == NORM_UNACCENT || z->kind == NORM_CHINESE) return is_ascii(s, n);
  return z->kind == NORM_FORM &&
         (is_ascii(s, n) || (z->compose && !z->compatible && is_stable(s, n)));
}

Status normalizer_run(const Normalizer *z, NormScratch *w, const char *s, size_t n, NormText *out) {
  const size_t limit = MAX_GROWTH * n + (1 << 16);
  uint32_t cp;
  bool valid;
  int next = 0;
  NormText t = {s, n, n ? utf8_decode(s, n, &cp, &valid) : 0};
  for (int i = 0; i < z->n && t.n; i++) {
    if (is_identity(&z->step[i], t.s, t.n)) continue;
    if (z->step[i].kind == NORM_STRIP) {
      strip(&z->step[i], &t);
      continue;
    }
    Buf *b = &w->text[next];
    buf_clear(b);
    try(run_step(&z->step[i], w, &t, b));
    try(buf_status(b));
    if (b->len > limit)
      return fail(GRPO_ELIMIT, "tokenizer: normalizing makes %zu bytes of %zu", b->len, n);
    t.s = b->data ? b->data : "";
    t.n = b->len;
    next = !next;
  }
  *out = t;
  return GRPO_OK;
}

void normalizer_free(Normalizer *z) {
  for (int i = 0; i < z->n; i++) step_free(&z->step[i]);
  z->n = 0;
}

void norm_scratch_free(NormScratch *w) {
  buf_free(&w->text[0]);
  buf_free(&w->text[1]);
  intbuf_free(&w->code_points);
}
