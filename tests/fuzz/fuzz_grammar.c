/* fuzz_grammar.c - any text as a grammar or, behind a first byte of '/', as a regular expression;
 * what follows a NUL is a text that it is walked over.  Both are taken or refused in bounded time,
 * and the tokens that may follow are those that a walk can take. */
#include <string.h>

#include "fuzz.h"
#include "text/grammar_match.h"
#include "text/tokenizer_make.h"

enum { VOCAB = 258, END = 257 };

static const Tokenizer *tokens(void) {
  static Tokenizer *t;
  if (!t) FUZZ_CHECK(tokenizer_bytes(&t) == GRPO_OK);
  return t;
}

static void check_allowed(Matcher *m, int32_t state) {
  const uint32_t *allowed;
  int n, count = 0;
  if (matcher_allowed(m, state, &allowed, &n) != GRPO_OK) return;
  for (int id = 0; id < 256; id++) {
    int32_t to = state;
    if (matcher_token(m, &to, id) != GRPO_OK) return;
    const bool bit = allowed[id >> 5] >> (id & 31) & 1;
    FUZZ_CHECK(bit == (to >= 0));
    count += bit;
  }
  FUZZ_CHECK(count + matcher_complete(m, state) == n);
  FUZZ_CHECK(n > 0); /* every rule has an end, and every byte is a token */
}

static void walk(Matcher *m, const char *s, size_t n) {
  int32_t state = 0;
  for (size_t i = 0; i < n && i < 64 && state >= 0; i++) {
    check_allowed(m, state);
    if (matcher_bytes(m, &state, s + i, 1) != GRPO_OK) return;
  }
  if (state >= 0) check_allowed(m, state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const int32_t ends[] = {END};
  const char *text = (const char *)data;
  const char *nul = size ? memchr(text, 0, size) : NULL;
  const size_t n = nul ? (size_t)(nul - text) : size;
  const bool regex = n && *text == '/';
  Grammar *g = NULL;
  Matcher *m = NULL;
  const Status s = regex ? grammar_from_regex(&g, text + 1, n - 1) : grammar_from_gbnf(&g, text, n);
  if (s != GRPO_OK) {
    FUZZ_CHECK(s == GRPO_EARG && !strchr(err_message(), '\n'));
    return 0;
  }
  if (matcher_new(&m, g, tokens(), VOCAB, ends, 1) == GRPO_OK)
    walk(m, nul ? nul + 1 : text, nul ? size - n - 1 : n);
  matcher_free(m);
  grammar_free(g);
  return 0;
}
