#define PCRE2_CODE_UNIT_WIDTH 8
#include "base/regex.h"

#include <pcre2.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

/* A match limit of 200,000 ends a catastrophic pattern within milliseconds.  JIT code keeps its
 * backtracking points on a stack of its own, which is reserved but not committed: 16 MiB are
 * enough for (?:(?!x).)* over a megabyte of text.  The interpreter keeps them on the heap, which
 * the other two limits bound.
 *
 * PCRE2 starts counting from zero at every position where a match may begin, and a long text has
 * many positions.  So a search over the whole text also has a budget.  All positions are tried
 * with an equal share of the budget first.  Where that is not enough, positions are searched one
 * by one, with rising limits that are paid from the budget. */
enum {
  MATCH_LIMIT = 200000,
  BUDGET = 2000000,
  BUDGET_PER_BYTE = 64,
  WINDOW = 1024, /* positions tried together, each with its share */
  DEPTH_LIMIT = 100000,
  HEAP_LIMIT_KIB = 32 << 10,
  JIT_STACK_FIRST = 32 << 10,
  JIT_STACK_MOST = 16 << 20,
  LONGEST_PATTERN = 1 << 20
};

struct Regex {
  pcre2_general_context *memory;
  pcre2_match_context *limits;
  pcre2_code *code;
  pcre2_match_data *match;
  pcre2_jit_stack *stack; /* NULL: no JIT for this pattern */
  uint32_t options;       /* of pcre2_match */
  bool one_place;         /* anchored, or must not be searched in parts */
  bool long_texts;        /* of a tokenizer: match_longer() */
  uint32_t captures, names, name_size;
  PCRE2_SPTR name_table;
  uint64_t steps; /* of the last search, in matches that hit their limit */
  uint64_t paid;  /* limits beyond MATCH_LIMIT since the text's beginning */
};

static void *get_memory(size_t n, void *user) {
  (void)user;
  return mem_alloc(n);
}
static void give_memory(void *p, void *user) {
  (void)user;
  mem_free(p);
}

static uint32_t compile_options(unsigned flags) {
  uint32_t o = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT;
  if (flags & REGEX_ICASE) o |= PCRE2_CASELESS;
  if (flags & REGEX_DOTALL) o |= PCRE2_DOTALL;
  if (flags & REGEX_MULTI) o |= PCRE2_MULTILINE;
  if (flags & REGEX_EXTENDED) o |= PCRE2_EXTENDED;
  if (!(flags & REGEX_VALID_UTF)) o |= PCRE2_MATCH_INVALID_UTF;
  if (flags & REGEX_ANCHORED_FULL) o |= PCRE2_ANCHORED | PCRE2_ENDANCHORED;
  return o;
}

static Status no_memory(void) { return fail(GRPO_ENOMEM, "regular expression: no memory"); }

/* Compiles; on failure the message quotes the pattern's first bytes. */
static Status compile_code(Regex *re, const char *pattern, size_t len, unsigned flags) {
  int code = 0;
  PCRE2_SIZE at = 0;
  pcre2_compile_context *ctx = pcre2_compile_context_create(re->memory);
  if (!ctx) return no_memory();
  pcre2_set_newline(ctx, PCRE2_NEWLINE_LF);
  pcre2_set_max_pattern_length(ctx, LONGEST_PATTERN);
  re->code = pcre2_compile((PCRE2_SPTR)pattern, len, compile_options(flags), &code, &at, ctx);
  pcre2_compile_context_free(ctx);
  if (re->code) return GRPO_OK;
  if (code == PCRE2_ERROR_NOMEMORY || code == 121) return no_memory(); /* 121: heap failed */
  char text[160];
  pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text);
  return fail(GRPO_EARG, "regular expression '%.*s'%s: %s (at byte %zu)",
              (int)(len < 120 ? len : 120), pattern, len > 120 ? "..." : "", text, (size_t)at);
}

/* JIT where there is one; without it everything works, only slower. */
static void compile_jit(Regex *re) {
  uint32_t have = 0;
  if (pcre2_config(PCRE2_CONFIG_JIT, &have) < 0 || !have) return;
  if (pcre2_jit_compile(re->code, PCRE2_JIT_COMPLETE) != 0) return;
  re->stack = pcre2_jit_stack_create(JIT_STACK_FIRST, JIT_STACK_MOST, re->memory);
  if (re->stack)
    pcre2_jit_stack_assign(re->limits, NULL, re->stack);
  else
    re->options |= PCRE2_NO_JIT;
}

/* \G asks where the search started, so such a pattern cannot be searched in parts;
 * a tokenizer's matches almost everywhere, and its text is split before. */
static bool searches_one_place(const Regex *re, const char *pattern, size_t len, unsigned flags) {
  uint32_t options = 0;
  pcre2_pattern_info(re->code, PCRE2_INFO_ALLOPTIONS, &options);
  return options & PCRE2_ANCHORED || flags & REGEX_VALID_UTF || memmem(pattern, len, "\\G", 2);
}

static Status prepare(Regex *re, const char *pattern, size_t len, unsigned flags) {
  re->memory = pcre2_general_context_create(get_memory, give_memory, NULL);
  if (!re->memory) return no_memory();
  try(compile_code(re, pattern, len, flags));
  re->limits = pcre2_match_context_create(re->memory);
  re->match = pcre2_match_data_create_from_pattern(re->code, re->memory);
  if (!re->limits || !re->match) return no_memory();
  pcre2_set_depth_limit(re->limits, DEPTH_LIMIT);
  pcre2_set_heap_limit(re->limits, HEAP_LIMIT_KIB);
  if (flags & REGEX_VALID_UTF) re->options |= PCRE2_NO_UTF_CHECK;
  re->one_place = searches_one_place(re, pattern, len, flags);
  re->long_texts = flags & REGEX_VALID_UTF;
  compile_jit(re);
  pcre2_pattern_info(re->code, PCRE2_INFO_CAPTURECOUNT, &re->captures);
  pcre2_pattern_info(re->code, PCRE2_INFO_NAMECOUNT, &re->names);
  pcre2_pattern_info(re->code, PCRE2_INFO_NAMEENTRYSIZE, &re->name_size);
  pcre2_pattern_info(re->code, PCRE2_INFO_NAMETABLE, &re->name_table);
  return GRPO_OK;
}

Status regex_compile(Regex **out, const char *pattern, size_t len, unsigned flags) {
  *out = NULL;
  Regex *re = mem_zalloc(sizeof *re);
  if (!re) return no_memory();
  const Status st = prepare(re, pattern, len, flags);
  if (st == GRPO_OK)
    *out = re;
  else
    regex_free(re);
  return st;
}

void regex_free(Regex *re) {
  if (!re) return;
  pcre2_jit_stack_free(re->stack);
  pcre2_match_data_free(re->match);
  pcre2_match_context_free(re->limits);
  pcre2_code_free(re->code);
  pcre2_general_context_free(re->memory);
  mem_free(re);
}

int regex_captures(const Regex *re) { return (int)re->captures; }

/* Entry i of the table of names: two bytes hold the group's number, the name follows. */
static const char *name_entry(const Regex *re, uint32_t i, int *group) {
  PCRE2_SPTR e = re->name_table + (size_t)i * re->name_size;
  *group = e[0] << 8 | e[1];
  return (const char *)(e + 2);
}

const char *regex_name(const Regex *re, int group) {
  for (uint32_t i = 0; i < re->names; i++) {
    int g;
    const char *name = name_entry(re, i, &g);
    if (g == group) return name;
  }
  return NULL;
}

static Status match_failed(int rc) {
  switch (rc) {
  case PCRE2_ERROR_NOMEMORY:
    return no_memory();
  case PCRE2_ERROR_MATCHLIMIT:
  case PCRE2_ERROR_DEPTHLIMIT:
  case PCRE2_ERROR_HEAPLIMIT:
  case PCRE2_ERROR_JIT_STACKLIMIT:
  case PCRE2_ERROR_RECURSELOOP:
    return fail(GRPO_ELIMIT, "regular expression: the match takes too many steps; "
                             "make the pattern less ambiguous (no nested repeats)");
  default:
    break;
  }
  char text[160];
  pcre2_get_error_message(rc, (PCRE2_UCHAR *)text, sizeof text);
  return fail(GRPO_EARG, "regular expression: %s", text);
}

typedef struct Search {
  Regex *re;
  const char *s;
  size_t len;
  uint64_t budget;
} Search;

/* Searches from `start` for a match that begins at `last` or before. */
static int match(const Search *q, size_t start, size_t last, uint64_t limit) {
  Regex *re = q->re;
  pcre2_set_offset_limit(re->limits, last);
  pcre2_set_match_limit(re->limits, limit < UINT32_MAX ? (uint32_t)limit : UINT32_MAX);
  const int rc =
      pcre2_match(re->code, (PCRE2_SPTR)q->s, q->len, start, re->options, re->match, re->limits);
  if (rc == PCRE2_ERROR_MATCHLIMIT) re->steps += limit;
  return rc;
}

static size_t next_place(const Search *q, size_t at) {
  do at++;
  while (at < q->len && (q->s[at] & 0xc0) == 0x80);
  return at;
}

/* Searches one position after the other, each with rising limits, until the budget is spent. */
static int match_singly(Search *q, size_t start, size_t last, uint64_t share) {
  for (size_t at = start; at <= last && at <= q->len; at = next_place(q, at)) {
    int rc = match(q, at, at, share);
    for (uint64_t limit = share; rc == PCRE2_ERROR_MATCHLIMIT && limit < MATCH_LIMIT;) {
      limit *= 8;
      if (limit > MATCH_LIMIT) limit = MATCH_LIMIT;
      if (limit > q->budget) return rc;
      q->budget -= limit;
      rc = match(q, at, at, limit);
    }
    if (rc != PCRE2_ERROR_NOMATCH) return rc;
  }
  return PCRE2_ERROR_NOMATCH;
}

/* Searches with limits that rise, and that are paid from a budget for the whole text, as long as
 * the limit is all that is in the way: a run of equal characters takes a few steps for each.
 * Limits up to MATCH_LIMIT are free. */
static int match_longer(Search *q, size_t start) {
  Regex *re = q->re;
  if (start == 0) re->paid = 0;
  q->budget = BUDGET + BUDGET_PER_BYTE * (uint64_t)q->len;
  int rc = match(q, start, PCRE2_UNSET, MATCH_LIMIT);
  for (uint64_t limit = MATCH_LIMIT; rc == PCRE2_ERROR_MATCHLIMIT && re->long_texts;) {
    limit *= 8;
    if (limit > q->budget - re->paid) return rc;
    re->paid += limit;
    rc = match(q, start, PCRE2_UNSET, limit);
  }
  return rc;
}

static int search(Search *q, size_t start) {
  if (q->re->one_place) return match_longer(q, start);
  const uint64_t places = q->len - start + 1;
  q->budget = BUDGET + BUDGET_PER_BYTE * places;
  const uint64_t most = q->budget / places, share = most < MATCH_LIMIT ? most : MATCH_LIMIT;
  int rc = match(q, start, PCRE2_UNSET, share);
  if (rc != PCRE2_ERROR_MATCHLIMIT || share >= MATCH_LIMIT) return rc;
  rc = PCRE2_ERROR_NOMATCH;
  for (size_t at = start; at <= q->len && rc == PCRE2_ERROR_NOMATCH;) {
    const size_t last = at + WINDOW - 1;
    rc = match(q, at, last, share);
    if (rc == PCRE2_ERROR_MATCHLIMIT) rc = match_singly(q, at, last, share);
    at = next_place(q, last);
  }
  return rc;
}

Status regex_exec(Regex *re, const char *s, size_t len, size_t start, bool *found,
                  const size_t **ovector) {
  Search q = {.re = re, .s = s ? s : "", .len = len};
  *found = false;
  *ovector = pcre2_get_ovector_pointer(re->match);
  if (start > len) return fail(GRPO_EARG, "regular expression: start past the end of the text");
  re->steps = 0;
  const int rc = search(&q, start);
  if (rc == PCRE2_ERROR_NOMATCH) return GRPO_OK;
  if (rc < 0) return match_failed(rc);
  *found = true;
  return GRPO_OK;
}

uint64_t regex_steps(const Regex *re) { return re->steps; }

void regex_library(char *text, size_t size) {
  char version[64] = "";
  pcre2_config(PCRE2_CONFIG_VERSION, version);
  snprintf(text, size, "%s", version);
}
