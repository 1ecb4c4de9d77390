/* kv.h - segments of keys and values as attention reads them; kern.h has the rest. */
#ifndef GRPO_KERN_KV_IMPL_H
#define GRPO_KERN_KV_IMPL_H

#include "kern/attention.h"
#include "kern/kernels.h"

static inline int prefix_len(const AttnSpan *sp) { return sp->prefix ? sp->prefix->len : 0; }

/* In words a key's place is its logical position from the unit of KV_UNIT in which the prefix
 * ends. */
static inline int kv_first_place(const KvSeg *seg) { return seg->before % KV_UNIT; }
/* The words of a head's keys from place `place` on, the first of a block; of its values from the
 * pair that holds place `place` on. */
const uint32_t *kv_key_pairs(const AttnShape *s, const KvSeg *seg, int kvh, int place);
const uint32_t *kv_value_pairs(const AttnShape *s, const KvSeg *seg, int kvh, int place);
/* Keys (of segments in words, places) from here on lie in rows: those of the last block of a
 * segment that grows, unless it is whole. */
int kv_row_major_from(const AttnShape *s, const KvSeg *seg);
/* A head's keys of that block: in rows as they are, and as those of others lie. */
const real *kv_last_rows(const AttnShape *s, const KvSeg *seg, int kvh);
void kv_transpose_last(const AttnShape *s, const KvSeg *seg, int kvh, real *to);
/* The unit in which a prefix ends and a segment begins that does not grow, as those lie; the
 * prefix's length is no multiple of KV_UNIT. */
void kv_shared_keys(const AttnShape *s, const KvSeg *prefix, const KvSeg *own, int kvh,
                    uint32_t *to);
void kv_shared_values(const AttnShape *s, const KvSeg *prefix, const KvSeg *own, int kvh,
                      uint32_t *to);
/* A head's first n keys as rows [n, head_dim]; its values, of segments in words, [n, head_dim in
 * whole groups]. */
void kv_load_keys(const AttnShape *s, const KvSeg *seg, int kvh, int n, real *y, ptrdiff_t ldy);
void kv_load_values(const AttnShape *s, const KvSeg *seg, int kvh, int n, real *y, ptrdiff_t ldy);

#endif
