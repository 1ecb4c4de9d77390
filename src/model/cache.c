#include "model/cache.h"

#include <string.h>

#include "base/mem.h"

static int cap_of(int tokens) { return (tokens + KV_BLOCK - 1) / KV_BLOCK * KV_BLOCK; }

size_t cache_bytes(const AttnShape *s, int layers, int slots, int tokens, int before) {
  const size_t segments = (size_t)layers * (size_t)slots;
  return mem_aligned_size(segments * (size_t)kv_blocks(s) *
                          kv_size(s, kv_places(s, cap_of(tokens), before)) * sizeof(real)) +
         segments * sizeof(KvSeg) + (size_t)slots * sizeof(int);
}

Status cache_new(Cache *c, const AttnShape *s, int layers, int slots, int tokens, int before) {
  const size_t n = (size_t)layers * (size_t)slots;
  const int cap = cap_of(tokens);
  const size_t size = (size_t)kv_blocks(s) * kv_size(s, kv_places(s, cap, before));
  *c = (Cache){.shape = *s, .layers = layers, .slots = slots, .reals = n * size};
  c->seg = mem_alloc(n * sizeof *c->seg);
  c->free = mem_alloc((size_t)slots * sizeof *c->free);
  c->memory = mem_alloc_aligned(c->reals * sizeof *c->memory);
  if (!c->seg || !c->free || !c->memory) {
    cache_free(c);
    return fail(GRPO_ENOMEM, "decoder: no memory for a key/value cache of %zu MiB",
                cache_bytes(s, layers, slots, tokens, before) >> 20);
  }
  for (size_t i = 0; i < n; i++) {
    c->seg[i] = kv_segment(s, c->memory + i * size, cap, before);
    c->seg[i].grows = before < 0;
  }
  cache_clear(c);
  return GRPO_OK;
}

void cache_free(Cache *c) {
  mem_free(c->seg);
  mem_free(c->free);
  mem_free_aligned(c->memory);
  *c = (Cache){0};
}

void cache_clear(Cache *c) {
  c->nfree = c->touched = 0;
  for (int i = c->slots; i-- > 0;) c->free[c->nfree++] = i;
}

/* Slots are taken lowest first, so a new one follows those touched.  A slot that is never taken
 * costs addresses but no memory, so limits may be far above what is decoded. */
static void clear_slot(Cache *c, int slot) {
  const size_t reals = c->reals / (size_t)c->slots;
  memset(c->memory + (size_t)slot * reals, 0, reals * sizeof *c->memory);
  c->touched = slot + 1;
}

int cache_take(Cache *c) {
  const int slot = c->free[--c->nfree];
  if (slot >= c->touched) clear_slot(c, slot);
  cache_set_len(c, slot, 0, 0);
  return slot;
}

void cache_give(Cache *c, int slot) { c->free[c->nfree++] = slot; }

KvSeg *cache_segment(const Cache *c, int slot) { return c->seg + (size_t)slot * (size_t)c->layers; }

void cache_set_len(Cache *c, int slot, int before, int len) {
  KvSeg *s = cache_segment(c, slot);
  for (int i = 0; i < c->layers; i++) s[i].before = before, s[i].len = len;
}

void cache_rewind(Cache *c, int slot, int len, int stored) {
  KvSeg *s = cache_segment(c, slot);
  for (int i = 0; i < c->layers; i++) kv_rewind(&c->shape, &s[i], len, stored);
  cache_set_len(c, slot, s->before, len);
}
