/* kv.h - segments of keys and values as attention reads them; kern.h has the rest. */
#ifndef GRPO_KERN_KV_H
#define GRPO_KERN_KV_H

#include "kern/dispatch.h"

static inline int prefix_len(const AttnSpan *sp) { return sp->prefix ? sp->prefix->len : 0; }

/* Values in words are summed in units: how many keys one has. */
int kv_unit(void);
/* The words of a head's keys from key `key` on, the first of a block; of its values from the pair that
 * holds key `key` on. */
const uint32_t *kv_key_words(const AttnShape *s, const KvSeg *seg, int kvh, int key);
const uint32_t *kv_value_words(const AttnShape *s, const KvSeg *seg, int kvh, int key);
/* The unit in which a prefix ends and a segment begins, as words [kv_unit() / 2, head_dim in groups];
 * the prefix's length is no multiple of kv_unit(). */
void kv_shared_unit(const AttnShape *s, const KvSeg *prefix, const KvSeg *own, int kvh,
                    uint32_t *to);
/* A head's first n keys as rows [n, head_dim], in whole blocks; its values, of segments in words,
 * [n, head_dim in whole groups]. */
void kv_load_keys(const AttnShape *s, const KvSeg *seg, int kvh, int n, real *y, ptrdiff_t ldy);
void kv_load_values(const AttnShape *s, const KvSeg *seg, int kvh, int n, real *y, ptrdiff_t ldy);

#endif
