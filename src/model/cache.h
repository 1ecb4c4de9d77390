/* cache.h - what layers keep of many sequences, one block of memory for all.
 *
 * A slot is one segment in every layer: seg[slot * layers + layer].  So the next layer's segment is
 * the next in memory.  A segment holds keys and values; in a layer that has a state instead
 * (layer_kind.h), its k is that state, which the layer's forward pass begins at own_at 0 and leaves
 * in v.  The two are the same memory, except while a state is kept.
 */
#ifndef GRPO_MODEL_CACHE_H
#define GRPO_MODEL_CACHE_H

#include "base/err.h"
#include "model/layer_kind.h"

typedef struct Cache {
  LayerCache *layer; /* [layers] */
  KvSeg *seg;        /* [slots, layers] */
  /* Slots that were ever taken are finite everywhere: unused places are multiplied by probabilities
   * of 0. */
  real *memory;
  size_t reals;
  int layers, slots;
  int touched; /* slots at the beginning that were ever taken */
  int *free;   /* [slots] stack of unused slots */
  int nfree;
} Cache;

/* Segments have room for `tokens` keys behind a prefix of `before` keys; before -1: of any length,
 * and keys come one by one. */
Status cache_new(Cache *c, const LayerCache *layer, int layers, int slots, int tokens, int before);
void cache_free(Cache *c);  /* a zeroed one is fine */
void cache_clear(Cache *c); /* all slots are unused, as in a new cache */
int cache_take(Cache *c);   /* an empty slot; the caller knows that there is one */
void cache_give(Cache *c, int slot);
KvSeg *cache_segment(const Cache *c, int slot); /* of layer 0 */
/* Of `stored` keys only the first `len` stay; `stored` was set by cache_set_len.  States stay as
 * they are. */
void cache_rewind(Cache *c, int slot, int len, int stored);
bool cache_has_states(const Cache *c);
/* A cache for the states of `of` alone, whose slots serve as `spare`. */
Status cache_new_states(Cache *out, const Cache *of, int slots);
/* The next forward pass leaves the slot's states in `spare`, a segment of layer 0, and keeps those
 * that it begins with.  Then the slot has the last ones, or is back at those kept. */
void cache_keep_states(Cache *c, int slot, const KvSeg *spare);
void cache_choose_states(Cache *c, int slot, KvSeg *spare, bool back);
/* In every layer: the number of keys in the prefix that the segment follows, and of keys
 * present. */
void cache_set_len(Cache *c, int slot, int before, int len);

#endif
