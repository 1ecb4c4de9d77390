/* cache.h - keys and values of many segments, one block of memory for all.
 *
 * A slot is a segment of every layer: seg[slot * layers + layer], so the next
 * layer's segment is the next in memory.
 */
#ifndef GRPO_MODEL_CACHE_H
#define GRPO_MODEL_CACHE_H

#include "base/err.h"
#include "kern/kern.h"

typedef struct Cache {
  KvSeg *seg;   /* [slots, layers] */
  real *memory; /* of slots ever taken finite everywhere: unused places meet probabilities of 0 */
  size_t reals;
  int layers, slots, touched; /* slots at its beginning that were ever taken */
  int *free;                  /* [slots] stack of unused slots */
  int nfree;
} Cache;

/* slots segments of up to `tokens` keys, behind a prefix of `before` (-1: any, and keys come one by one) */
Status cache_new(Cache *c, const AttnShape *s, int layers, int slots, int tokens, int before);
void cache_free(Cache *c); /* a zeroed one is fine */
size_t cache_bytes(const AttnShape *s, int layers, int slots, int tokens, int before);
void cache_clear(Cache *c); /* all slots unused, as if none had ever been taken */
int cache_take(Cache *c);   /* an unused slot, empty; the caller knows that there is one */
void cache_give(Cache *c, int slot);
KvSeg *cache_segment(const Cache *c, int slot); /* of layer 0 */
/* In every layer: keys of the prefix that the segment follows, keys present. */
void cache_set_len(Cache *c, int slot, int before, int len);

#endif
