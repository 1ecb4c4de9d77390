#include "model/cache.h"

#include <string.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "model/param.h"

static int cap_of(int tokens) { return (tokens + KV_BLOCK - 1) / KV_BLOCK * KV_BLOCK; }

/* A state takes whole cache lines. */
static size_t layer_reals(const LayerCache *l, int cap, int before) {
  const AttnShape *s = &l->shape;
  if (l->state) return param_padded(l->state);
  return s->heads ? (size_t)kv_blocks(s) * kv_size(s, kv_places(s, cap, before)) : 0;
}

static size_t slot_reals(const LayerCache *layer, int layers, int cap, int before) {
  size_t n = 0;
  for (int i = 0; i < layers; i++) n += layer_reals(&layer[i], cap, before);
  return n;
}

/* No less than a slot takes. */
static double slot_bytes(const LayerCache *layer, int layers, int cap) {
  enum { ROUNDED = 64 };
  double n = 0;
  for (int i = 0; i < layers; i++) {
    const AttnShape *s = &layer[i].shape;
    const double keys = s->heads ? (double)s->kv_heads * (cap + ROUNDED) : 0;
    n += (double)layer[i].state + ROUNDED + kv_blocks(s) * keys * (s->head_dim + ROUNDED);
  }
  return n * sizeof(real);
}

static void cut_memory(Cache *c, int cap, int before) {
  real *at = c->memory;
  for (int i = 0; i < c->slots * c->layers; i++) {
    const LayerCache *l = &c->layer[i % c->layers];
    if (l->shape.heads)
      c->seg[i] = kv_segment(&l->shape, at, cap, before);
    else
      c->seg[i] = (KvSeg){.k = at, .v = at, .row0 = -1, .before = max_int(before, 0)};
    c->seg[i].grows = before < 0;
    at += layer_reals(l, cap, before);
  }
}

Status cache_new(Cache *c, const LayerCache *layer, int layers, int slots, int tokens, int before) {
  const int cap = cap_of(tokens);
  if (!mem_fits(slots * slot_bytes(layer, layers, cap)))
    return fail(GRPO_ENOMEM, "decoder: no memory for a key/value cache of %d sequences", slots);
  *c = (Cache){.layers = layers,
               .slots = slots,
               .reals = (size_t)slots * slot_reals(layer, layers, cap, before)};
  c->layer = mem_alloc((size_t)layers * sizeof *c->layer);
  c->seg = mem_alloc((size_t)slots * (size_t)layers * sizeof *c->seg);
  c->free = mem_alloc((size_t)slots * sizeof *c->free);
  c->memory = mem_alloc_aligned(c->reals * sizeof *c->memory);
  if (!c->layer || !c->seg || !c->free || !c->memory) {
    const size_t mib = c->reals * sizeof(real) >> 20;
    cache_free(c);
    return fail(GRPO_ENOMEM, "decoder: no memory for a key/value cache of %zu MiB", mib);
  }
  memcpy(c->layer, layer, (size_t)layers * sizeof *layer);
  cut_memory(c, cap, before);
  cache_clear(c);
  return GRPO_OK;
}

void cache_free(Cache *c) {
  mem_free(c->layer);
  mem_free(c->seg);
  mem_free(c->free);
  mem_free_aligned(c->memory);
  *c = (Cache){0};
}

void cache_clear(Cache *c) {
  c->nfree = c->touched = 0;
  for (int i = 0; i < c->slots * c->layers; i++)
    if (c->layer[i % c->layers].state) c->seg[i].v = c->seg[i].k;
  for (int i = c->slots; i-- > 0;) c->free[c->nfree++] = i;
}

/* Slots are taken lowest first, so a new one follows those touched.  A slot that is never taken
 * costs addresses but no memory, so limits may be far above what is decoded. */
static void clear_slot(Cache *c, int slot) {
  const size_t reals = c->reals / (size_t)c->slots;
  mem_zero(c->memory + (size_t)slot * reals, reals * sizeof *c->memory);
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

bool cache_has_states(const Cache *c) {
  for (int i = 0; i < c->layers; i++)
    if (c->layer[i].state) return true;
  return false;
}

Status cache_new_states(Cache *out, const Cache *of, int slots) {
  LayerCache layer[CONFIG_MAX_LAYERS];
  for (int i = 0; i < of->layers; i++) layer[i] = (LayerCache){.state = of->layer[i].state};
  return cache_new(out, layer, of->layers, slots, 1, -1);
}

void cache_keep_states(Cache *c, int slot, const KvSeg *spare) {
  KvSeg *s = cache_segment(c, slot);
  for (int i = 0; i < c->layers; i++)
    if (c->layer[i].state) s[i].v = spare[i].k;
}

void cache_choose_states(Cache *c, int slot, KvSeg *spare, bool back) {
  KvSeg *s = cache_segment(c, slot);
  for (int i = 0; i < c->layers; i++) {
    if (!c->layer[i].state) continue;
    spare[i].k = back ? s[i].v : s[i].k;
    s[i].k = back ? s[i].k : s[i].v;
    s[i].v = s[i].k;
  }
}

void cache_rewind(Cache *c, int slot, int len, int stored) {
  KvSeg *s = cache_segment(c, slot);
  for (int i = 0; i < c->layers; i++)
    if (c->layer[i].shape.heads) kv_rewind(&c->layer[i].shape, &s[i], len, stored);
  cache_set_len(c, slot, s->before, len);
}
