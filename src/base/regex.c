#define PCRE2_CODE_UNIT_WIDTH 8
#include "base/regex.h"

#include <pcre2.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

/* A match limit of 200,000 ends a catastrophic pattern within milliseconds.  JIT
 * code keeps its backtracking points on a stack of its own, reserved and not
 * committed: 16 MiB serve (?:(?!x).)* over a text of a megabyte.  The interpreter
 * keeps them on the heap, which the other two limits bound. */
enum {
  MATCH_LIMIT = 200000,
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
  uint32_t captures, names, name_size;
  PCRE2_SPTR name_table;
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
  uint32_t o = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
  if (flags & REGEX_ICASE) o |= PCRE2_CASELESS;
  if (flags & REGEX_DOTALL) o |= PCRE2_DOTALL;
  if (flags & REGEX_MULTI) o |= PCRE2_MULTILINE;
  if (flags & REGEX_EXTENDED) o |= PCRE2_EXTENDED;
  if (!(flags & REGEX_VALID_UTF)) o |= PCRE2_MATCH_INVALID_UTF;
  if (flags & REGEX_ANCHORED_FULL) o |= PCRE2_ANCHORED | PCRE2_ENDANCHORED;
  return o;
}

static Status no_memory(void) { return fail(GRPO_ENOMEM, "regular expression: no memory"); }

/* The compiled code, or why there is none; the message shows a pattern's first bytes. */
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

static Status prepare(Regex *re, const char *pattern, size_t len, unsigned flags) {
  re->memory = pcre2_general_context_create(get_memory, give_memory, NULL);
  if (!re->memory) return no_memory();
  try(compile_code(re, pattern, len, flags));
  re->limits = pcre2_match_context_create(re->memory);
  re->match = pcre2_match_data_create_from_pattern(re->code, re->memory);
  if (!re->limits || !re->match) return no_memory();
  pcre2_set_match_limit(re->limits, MATCH_LIMIT);
  pcre2_set_depth_limit(re->limits, DEPTH_LIMIT);
  pcre2_set_heap_limit(re->limits, HEAP_LIMIT_KIB);
  if (flags & REGEX_VALID_UTF) re->options |= PCRE2_NO_UTF_CHECK;
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

/* Entry i of the table of names: two bytes of group number, then the name. */
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

int regex_group(const Regex *re, const char *name) {
  for (uint32_t i = 0; i < re->names; i++) {
    int g;
    if (strcmp(name_entry(re, i, &g), name) == 0) return g;
  }
  return -1;
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

Status regex_exec(Regex *re, const char *s, size_t len, size_t start, bool *found,
                  const size_t **ovector) {
  PCRE2_SPTR subject = (PCRE2_SPTR)(s ? s : "");
  *found = false;
  *ovector = pcre2_get_ovector_pointer(re->match);
  if (start > len) return fail(GRPO_EARG, "regular expression: start past the end of the text");
  const int rc = pcre2_match(re->code, subject, len, start, re->options, re->match, re->limits);
  if (rc == PCRE2_ERROR_NOMATCH) return GRPO_OK;
  if (rc < 0) return match_failed(rc);
  *found = true;
  return GRPO_OK;
}

void regex_library(char *text, size_t size) {
  char version[64] = "";
  pcre2_config(PCRE2_CONFIG_VERSION, version);
  snprintf(text, size, "%s", version);
}
