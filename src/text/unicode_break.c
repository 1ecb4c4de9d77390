#include "text/unicode_break.h"

#include <stdbool.h>

#include "base/utf8.h"
#include "text/unicode_table.h"

#include "text/unicode_break_tables.inc.c"

enum { HANGUL = 0xAC00, HANGUL_END = 0xD7A4, NTAIL = 28 };

/* The order is that of GRAPHEME_CLASSES in tools/gen-unicode, up to LV. */
typedef enum BreakClass {
  ANY,
  CR,
  LF,
  CONTROL,
  LINKER, /* extends, and joins Indic consonants */
  JOINER, /* U+200D */
  EXTEND,
  OTHER_EXTEND, /* extends, and ends a sequence of Indic consonants */
  SPACING,
  PREPEND,
  REGIONAL,
  LEAD,
  VOWEL,
  TAIL,
  PICTURE,
  CONSONANT,
  LV,
  LVT
} BreakClass;

static BreakClass class_of(uint32_t cp) {
  if (cp < 0x7F) return cp >= 0x20 ? ANY : cp == '\r' ? CR : cp == '\n' ? LF : CONTROL;
  if (cp >= HANGUL && cp < HANGUL_END) return (cp - HANGUL) % NTAIL ? LVT : LV;
  const char *row = table_row(grapheme_runs, sizeof grapheme_runs - 1, 4, 5, cp);
  return row ? (BreakClass)table_number(row + 4, 1) : ANY;
}

/* The part of a cluster that decides where it ends: its last class, and sequences up to it. */
typedef struct Cluster {
  BreakClass last;
  bool picture;   /* PICTURE, then extending characters; `last` says if a JOINER is the last */
  bool consonant; /* CONSONANT, then extending characters, */
  bool linked;    /* a LINKER among them */
  bool odd;       /* an odd number of REGIONAL */
} Cluster;

static bool extends(BreakClass c) {
  return c == LINKER || c == EXTEND || c == OTHER_EXTEND || c == JOINER;
}

static bool is_control(BreakClass c) { return c == CONTROL || c == CR || c == LF; }

/* GB3 to GB999 of UAX #29. */
static bool joins(const Cluster *x, BreakClass c) {
  const BreakClass last = x->last;
  if (last == CR && c == LF) return true;
  if (is_control(last) || is_control(c)) return false;
  if (last == LEAD && (c == LEAD || c == VOWEL || c == LV || c == LVT)) return true;
  if ((last == LV || last == VOWEL) && (c == VOWEL || c == TAIL)) return true;
  if ((last == LVT || last == TAIL) && c == TAIL) return true;
  if (extends(c) || c == SPACING || last == PREPEND) return true;
  if (c == CONSONANT) return x->consonant && x->linked;
  if (c == PICTURE) return x->picture && last == JOINER;
  return c == REGIONAL && last == REGIONAL && x->odd;
}

static void put(Cluster *x, BreakClass c) {
  x->picture = c == PICTURE || (x->picture && extends(c) && x->last != JOINER);
  x->linked = c != CONSONANT && (x->linked || c == LINKER);
  x->consonant = c == CONSONANT || (x->consonant && extends(c) && c != OTHER_EXTEND);
  x->odd = c == REGIONAL && !(x->last == REGIONAL && x->odd);
  x->last = c;
}

size_t unicode_grapheme(const char *s, size_t n) {
  uint32_t cp;
  bool valid;
  Cluster x = {.last = ANY};
  size_t i = utf8_decode(s, n, &cp, &valid);
  put(&x, class_of(cp));
  for (size_t len; i < n; i += len) {
    len = utf8_decode(s + i, n - i, &cp, &valid);
    const BreakClass c = class_of(cp);
    if (!joins(&x, c)) break;
    put(&x, c);
  }
  return i;
}

unsigned unicode_script(uint32_t cp) {
  const char *row = table_row(script_runs, sizeof script_runs - 1, 4, 6, cp);
  return row ? table_number(row + 4, 2) : 0;
}
