/* kv_impl.h - how attention reads segments; kv.c has the layout. */
#ifndef GRPO_KERN_KV_IMPL_H
#define GRPO_KERN_KV_IMPL_H

#include <stdint.h>

#include "kern/kv.h"

static inline int prefix_len(const AttnSpan *sp) { return sp->prefix ? sp->prefix->len : 0; }

/* Where segments hold bf16 pairs, the place of a key is its logical position counted from the unit
 * of KV_UNIT in which the prefix ends.  This is the place of key 0. */
static inline int kv_first_place(const KvSeg *seg) { return seg->before % KV_UNIT; }
/* The pairs of a head's keys from `place` on, which begins a block; the pairs of its values from
 * the pair that contains `place` on. */
const uint32_t *kv_key_pairs(const AttnShape *s, const KvSeg *seg, int kvh, int place);
const uint32_t *kv_value_pairs(const AttnShape *s, const KvSeg *seg, int kvh, int place);
/* Keys (with bf16 pairs: places) from here on are stored row-major: those of the last, incomplete
 * block of a segment that grows. */
int kv_row_major_from(const AttnShape *s, const KvSeg *seg);
/* A head's keys of that block: row-major as they are stored, and transposed like other blocks. */
const real *kv_last_rows(const AttnShape *s, const KvSeg *seg, int kvh);
void kv_transpose_last(const AttnShape *s, const KvSeg *seg, int kvh, real *to);
/* Assembles the unit in which a prefix ends and a segment begins that does not grow.  The length of
 * the prefix is not a multiple of KV_UNIT. */
void kv_shared_keys(const AttnShape *s, const KvSeg *prefix, const KvSeg *own, int kvh,
                    uint32_t *to);
void kv_shared_values(const AttnShape *s, const KvSeg *prefix, const KvSeg *own, int kvh,
                      uint32_t *to);
/* A head's first n keys as rows [n, head_dim]; where segments hold bf16 pairs, its first n values
 * as rows [n, head_dim in whole groups]. */
void kv_load_keys(const AttnShape *s, const KvSeg *seg, int kvh, int n, real *y, ptrdiff_t ldy);
void kv_load_values(const AttnShape *s, const KvSeg *seg, int kvh, int n, real *y, ptrdiff_t ldy);

#endif
