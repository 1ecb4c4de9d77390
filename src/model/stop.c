#include "model/stop.h"

#include <string.h>

#include "base/mem.h"

Status stop_init(StopText *t, const Tokenizer *tok, int max_new_tokens) {
  *t = (StopText){.tok = tok};
  if (!tok) return GRPO_OK;
  for (int id = 0; id < tokenizer_size(tok); id++) {
    const char *bytes;
    size_t n;
    tokenizer_piece_bytes(tok, id, &bytes, &n);
    if (n > t->longest_piece) t->longest_piece = n;
  }
  if (mem_fits((double)max_new_tokens * t->longest_piece + 1))
    t->text = mem_alloc((size_t)max_new_tokens * t->longest_piece + 1);
  return t->text
             ? GRPO_OK
             : fail(GRPO_ENOMEM, "decoder: no memory for the text of %d tokens", max_new_tokens);
}

void stop_free(StopText *t) {
  mem_free(t->text);
  *t = (StopText){0};
}

Status stop_check(const StopText *t, const Sampling *s) {
  if ((s->num_stop || s->stop_regex) && !t->tok)
    return fail(GRPO_EARG, "sampling: stop strings need a tokenizer");
  return GRPO_OK;
}

static size_t put_text(const StopText *t, const int32_t *ids, int from, int len) {
  size_t at = 0;
  for (int i = from; i < len; i++) {
    const char *bytes;
    size_t n;
    tokenizer_piece_bytes(t->tok, ids[i], &bytes, &n);
    memcpy(t->text + at, bytes, n);
    at += n;
  }
  return at;
}

/* Where the shortest run of tokens begins that ends before the newest one and has `want` bytes. */
static int tail_start(const StopText *t, const int32_t *ids, int len, size_t want) {
  size_t have = 0;
  int from = len - 1;
  while (from > 0 && have < want) {
    const char *bytes;
    size_t n;
    tokenizer_piece_bytes(t->tok, ids[--from], &bytes, &n);
    have += n;
  }
  return from;
}

static bool string_reached(const StopText *t, const Sampling *s, const int32_t *ids, int len) {
  size_t longest = 0;
  for (int i = 0; i < s->num_stop; i++) {
    const size_t k = strlen(s->stop[i]);
    if (k > longest) longest = k;
  }
  const size_t n = put_text(t, ids, tail_start(t, ids, len, longest - 1), len);
  for (int i = 0; i < s->num_stop; i++)
    if (memmem(t->text, n, s->stop[i], strlen(s->stop[i]))) return true;
  return false;
}

Status stop_reached(const StopText *t, const Sampling *s, const int32_t *ids, int len, bool *hit) {
  const size_t *bounds;
  *hit = s->num_stop && string_reached(t, s, ids, len);
  if (*hit || !s->stop_regex) return GRPO_OK;
  const size_t n = put_text(t, ids, 0, len);
  Status st = regex_exec(s->stop_regex, t->text, n, 0, hit, &bounds);
  return st == GRPO_OK ? st : err_context(st, "sampling.stop_regex");
}
