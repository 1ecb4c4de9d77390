#include "text/pretoken_split.h"

#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "text/unicode.h"

/* ---- matches ------------------------------------------------------------------------------- */

typedef enum CharClass { CLASS_SPACE, CLASS_WORD, CLASS_PUNCT, CLASS_OTHER } CharClass;

static bool is_ascii_punct(uint32_t c) {
  return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
         (c >= 123 && c <= 126);
}

static bool is_match(PreMatch match, const char *s, size_t n, size_t *len) {
  uint32_t cp;
  bool valid;
  *len = utf8_decode(s, n, &cp, &valid);
  if (match == MATCH_SPACE) return unicode_class(cp) & UNI_SPACE;
  return is_ascii_punct(cp) || (cp >= 0x80 && unicode_class(cp) & UNI_PUNCT);
}

static CharClass word_class(const char *s, size_t n, size_t *len) {
  uint32_t cp;
  bool valid;
  *len = utf8_decode(s, n, &cp, &valid);
  unsigned class = unicode_class(cp);
  if (class & UNI_WORD) return CLASS_WORD;
  return class & UNI_SPACE ? CLASS_SPACE : CLASS_OTHER;
}

static void find_word(PreCut *c) {
  size_t i = c->at, len;
  while (i < c->n && word_class(c->s + i, c->n - i, &len) == CLASS_SPACE) i += len;
  c->match_start = i;
  if (i < c->n) {
    CharClass class = word_class(c->s + i, c->n - i, &len);
    while (i < c->n && word_class(c->s + i, c->n - i, &len) == class) i += len;
  }
  c->match_end = i;
}

/* Sets match_start and match_end; both are n if there is no further match. */
static Status find_match(PreCut *c) {
  const PreMatch match = c->step->match;
  bool found;
  c->looked = true;
  if (match == MATCH_PATTERN) {
    try(pattern_find(&c->step->pattern, c->s, c->n, c->at, c->past - 1, &found, &c->match_start,
                     &c->match_end));
    if (!found) c->match_start = c->match_end = c->n;
    return GRPO_OK;
  }
  if (match == MATCH_WORD) {
    find_word(c);
    return GRPO_OK;
  }
  c->match_start = c->match_end = c->n;
  for (size_t i = c->at, len; i < c->n && match != MATCH_NEVER; i += len)
    if (is_match(match, c->s + i, c->n - i, &len)) {
      c->match_start = i;
      c->match_end = i + len;
      break;
    }
  return GRPO_OK;
}

/* Finds the next stretch, which is a match, perhaps an empty one, or the text before one; false at
 * the end of the text. */
static Status next_stretch(PreCut *c, bool *more, size_t *start, size_t *end, bool *match) {
  *more = c->at < c->n;
  if (!*more) return GRPO_OK;
  if (!c->looked) try(find_match(c));
  *start = c->at;
  *match = c->match_start == c->at;
  *end = *match ? c->match_end : c->match_start;
  if (*match) {
    c->looked = false;
    c->past = 1 + *end;
  }
  c->at = *end;
  *match ^= c->step->invert;
  return GRPO_OK;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* True if the stretch extends the piece that is being collected.  `matched` says whether the
 * stretch before was a match. */
static bool joins(const PreCut *c, bool match) {
  switch (c->step->behavior) {
  case CUT_CONTIGUOUS:
    return match == c->matched;
  case CUT_MERGED_WITH_PREVIOUS:
    return match && !c->matched;
  case CUT_MERGED_WITH_NEXT:
    return !match && c->matched;
  default:
    return false;
  }
}

Status pre_cut_next(PreCut *c, bool *more, size_t *start, size_t *end) {
  while (!c->ended) {
    size_t from, to;
    bool match, any;
    try(next_stretch(c, &any, &from, &to, &match));
    if (!any) {
      c->ended = true;
      break;
    }
    if (match && c->step->behavior == CUT_REMOVED) continue;
    if (c->have && joins(c, match)) {
      c->end = to;
      c->matched = match;
      continue;
    }
    *more = c->have;
    *start = c->start;
    *end = c->end;
    c->start = from;
    c->end = to;
    c->matched = match;
    c->have = true;
    if (*more) return GRPO_OK;
  }
  *more = c->have;
  *start = c->start;
  *end = c->end;
  c->have = false;
  return GRPO_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

static Status read_behavior(const Json *j, PreBehavior *out) {
  static const char *const name[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                     "Contiguous"};
  const char *have = json_string(json_get(j, "behavior"));
  for (size_t i = 0; have && i < sizeof name / sizeof *name; i++)
    if (strcmp(have, name[i]) == 0) {
      *out = (PreBehavior)i;
      return GRPO_OK;
    }
  return fail(GRPO_EFORMAT, "%s: behavior '%s' is not supported", component_type(j),
              have ? have : "(none)");
}

static Status read_split(const Json *j, PreStep *step) {
  const char *regex = json_string(json_get(json_get(j, "pattern"), "Regex"));
  try(read_behavior(j, &step->behavior));
  try(component_flag(j, "invert", false, &step->invert));
  if (regex && step->behavior == CUT_ISOLATED) step->kind = pre_kind_of(regex);
  return step->kind == PRE_CUT ? pattern_read(j, &step->pattern) : GRPO_OK;
}

static Status set_text(PreStep *step, const char *text) {
  if (!*text) return fail(GRPO_EFORMAT, "a delimiter is empty");
  step->match = MATCH_PATTERN;
  step->pattern.len = strlen(text);
  step->pattern.text = mem_strndup(text, step->pattern.len);
  return step->pattern.text ? GRPO_OK : fail(GRPO_ENOMEM, "pre-tokenizer");
}

static Status read_metaspace(const Json *j, PreStep *step) {
  const char *text, *scheme = json_string(json_get(j, "prepend_scheme"));
  bool add_space, split;
  try(component_text(j, "replacement", &text));
  try(component_flag(j, "add_prefix_space", true, &add_space));
  try(component_flag(j, "split", true, &split));
  if (!scheme) scheme = add_space ? "always" : "never";
  if (strcmp(scheme, "always") == 0)
    step->prepend = PREPEND_ALWAYS;
  else if (strcmp(scheme, "first") == 0)
    step->prepend = PREPEND_FIRST;
  else if (strcmp(scheme, "never") != 0)
    return fail(GRPO_EFORMAT, "Metaspace: prepend_scheme '%s' is not supported", scheme);
  step->kind = PRE_METASPACE;
  step->behavior = CUT_MERGED_WITH_NEXT;
  try(set_text(step, text));
  if (!split) step->match = MATCH_NEVER;
  return GRPO_OK;
}

static Status read_digits(const Json *j, PreStep *step) {
  bool alone;
  try(component_flag(j, "individual_digits", false, &alone));
  step->kind = alone ? PRE_DIGITS : PRE_DIGIT_RUNS;
  return GRPO_OK;
}

static Status read_fixed(const Json *j, PreStep *step) {
  step->kind = PRE_FIXED;
  step->length = 5;
  if (!component_is_null(json_get(j, "length"))) try(component_count(j, "length", &step->length));
  return step->length ? GRPO_OK : fail(GRPO_EFORMAT, "FixedLength: length: want at least 1");
}

/* Reads the steps of any component but ByteLevel: step[0], and step[1] if *n becomes 2. */
static Status read_steps(const Json *j, PreStep *step, int *n) {
  const char *type = component_type(j), *text;
  *n = 1;
  step[0] = step[1] = (PreStep){.kind = PRE_CUT, .behavior = CUT_REMOVED};
  if (strcmp(type, "Split") == 0) return read_split(j, step);
  if (strcmp(type, "Digits") == 0) return read_digits(j, step);
  if (strcmp(type, "Metaspace") == 0) return read_metaspace(j, step);
  if (strcmp(type, "FixedLength") == 0) return read_fixed(j, step);
  if (strcmp(type, "UnicodeScripts") == 0) {
    step->kind = PRE_SCRIPTS;
    return GRPO_OK;
  }
  if (strcmp(type, "CharDelimiterSplit") == 0) {
    try(component_text(j, "delimiter", &text));
    return set_text(step, text);
  }
  if (strcmp(type, "Punctuation") == 0) {
    step->match = MATCH_PUNCT;
    step->behavior = CUT_ISOLATED;
    return component_is_null(json_get(j, "behavior")) ? GRPO_OK : read_behavior(j, &step->behavior);
  }
  step->match = MATCH_SPACE;
  if (strcmp(type, "WhitespaceSplit") == 0) return GRPO_OK;
  if (strcmp(type, "Whitespace") == 0) {
    step->match = MATCH_WORD;
    step->invert = true;
    return GRPO_OK;
  }
  if (strcmp(type, "BertPreTokenizer") != 0)
    return fail(GRPO_EFORMAT, "'%s' is not supported", type);
  step[1].match = MATCH_PUNCT;
  step[1].behavior = CUT_ISOLATED;
  *n = 2;
  return GRPO_OK;
}

static Status read_byte_level(const Json *j, PreStep *step, int *n) {
  bool regex, space;
  *n = 0;
  try(component_flag(j, "use_regex", true, &regex));
  try(component_flag(j, "add_prefix_space", true, &space));
  if (space) step[(*n)++] = (PreStep){.kind = PRE_SPACE_FIRST};
  if (regex) step[(*n)++] = (PreStep){.kind = PRE_GPT2};
  return GRPO_OK;
}

Status pre_read(PreStep *step, int *nstep, int max, bool *byte_level, const Json *j) {
  PreStep some[2] = {{.kind = PRE_CUT}, {.kind = PRE_CUT}};
  const bool after_bytes = *byte_level;
  int n = 0;
  *byte_level = component_is(j, "ByteLevel");
  Status s = *byte_level ? read_byte_level(j, some, &n) : read_steps(j, some, &n);
  if (s == GRPO_OK && *nstep + n + after_bytes > max)
    s = fail(GRPO_ELIMIT, "more than %d pre-tokenizers", max);
  if (s == GRPO_OK && after_bytes) step[(*nstep)++] = (PreStep){.kind = PRE_BYTES};
  for (int i = 0; i < 2; i++)
    if (s == GRPO_OK && i < n)
      step[(*nstep)++] = some[i];
    else
      pattern_free(&some[i].pattern);
  return s;
}
