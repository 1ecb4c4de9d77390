#include "model/unnamed.h"

#include "base/mem.h"

static bool is_unnamed(const Config *c, const Tokenizer *tok, int32_t id) {
  return !tokenizer_token(tok, id) && !config_is_eos(c, id);
}

Status unnamed_ids(const Config *c, const Tokenizer *tok, int32_t **ids, int *n) {
  int count = 0;
  *ids = NULL;
  *n = 0;
  for (int id = 0; tok && id < c->vocab_size; id++) count += is_unnamed(c, tok, id);
  if (count == 0) return GRPO_OK;
  *ids = mem_alloc((size_t)count * sizeof **ids);
  if (!*ids) return fail(GRPO_ENOMEM, "decoder: no memory for %d ids without a token", count);
  for (int id = 0; id < c->vocab_size; id++)
    if (is_unnamed(c, tok, id)) (*ids)[(*n)++] = id;
  return GRPO_OK;
}
