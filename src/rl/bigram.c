#include "rl/bigram.h"

#include <math.h>

#include "base/mem.h"

struct Bigram {
  int refs, vocab;
  uint32_t *count; /* [vocab, vocab] */
  real *logits;    /* [vocab, vocab] */
};

size_t bigram_bytes(int vocab) {
  return sizeof(Bigram) + (size_t)vocab * (size_t)vocab * (sizeof(uint32_t) + sizeof(real));
}

Status bigram_new(Bigram **out, int vocab) {
  *out = NULL;
  if (vocab < 1) return fail(GRPO_EARG, "reference: a bigram of %d tokens", vocab);
  if (vocab > BIGRAM_TOKENS)
    return fail(GRPO_EARG,
                "reference: a bigram of %d tokens would take %zu MiB; it is for vocabularies of up "
                "to %d: train a smaller tokenizer, or use \"initial\" or \"random\"",
                vocab, bigram_bytes(vocab) >> 20, BIGRAM_TOKENS);
  const size_t cells = (size_t)vocab * (size_t)vocab;
  Bigram *b = mem_zalloc(sizeof *b);
  if (b) {
    *b = (Bigram){.refs = 1, .vocab = vocab};
    b->count = mem_zalloc(cells * sizeof *b->count);
    b->logits = mem_alloc_aligned(cells * sizeof *b->logits);
  }
  if (!b || !b->count || !b->logits) {
    bigram_free(b);
    return fail(GRPO_ENOMEM, "reference: no memory for a bigram of %d tokens, %zu MiB", vocab,
                bigram_bytes(vocab) >> 20);
  }
  bigram_update(b);
  *out = b;
  return GRPO_OK;
}

Bigram *bigram_retain(Bigram *b) {
  b->refs++;
  return b;
}

void bigram_free(Bigram *b) {
  if (!b || --b->refs > 0) return;
  mem_free(b->count);
  mem_free_aligned(b->logits);
  mem_free(b);
}

Status bigram_count(Bigram *b, size_t n, const int32_t *ids) {
  for (size_t i = 0; i < n; i++)
    if (ids[i] < 0 || ids[i] >= b->vocab)
      return fail(GRPO_EARG, "reference: token %d of the text is outside the vocabulary of %d",
                  (int)ids[i], b->vocab);
  for (size_t i = 1; i < n; i++) b->count[(size_t)ids[i - 1] * (size_t)b->vocab + (size_t)ids[i]]++;
  return GRPO_OK;
}

void bigram_update(Bigram *b) {
  const size_t v = (size_t)b->vocab;
  for (size_t i = 0; i < v; i++) {
    double total = (double)v;
    for (size_t j = 0; j < v; j++) total += b->count[i * v + j];
    for (size_t j = 0; j < v; j++)
      b->logits[i * v + j] = (real)log((b->count[i * v + j] + 1.0) / total);
  }
}

int bigram_vocab(const Bigram *b) { return b->vocab; }
const real *bigram_logits(const Bigram *b) { return b->logits; }
