/* kv.h - segments of keys and values, which attention reads.
 *
 * A prompt has a segment, and each completion has one of its own behind it.  Training fills
 * segments from the step's k and v; in decoding the segments are the cache.
 *
 * Scores are products of a query with many keys, so keys are stored transposed: in blocks of
 * KV_BLOCK keys, channel by channel, the KV_BLOCK values of a channel side by side.  Values are
 * stored as rows. Latent attention (AttnShape.v_dim) stores keys once, as rows, which are the
 * values too.
 *
 * Where the CPU multiplies bf16 by itself (kv_in_bf16) segments hold packed bf16 pairs: a pair
 * is two channels of a key, or one channel of two neighbouring values.  kv.c has the layout.
 */
#ifndef GRPO_KERN_KV_H
#define GRPO_KERN_KV_H

#include <stdbool.h>
#include <stddef.h>

#include "base/minmax.h"
#include "kern/kern.h"

enum {
  KV_BLOCK = 16, /* keys that are transposed together */
  KV_UNIT = 32   /* keys that the instructions for bf16 sum at once: two blocks */
};

typedef struct AttnShape {
  int heads,
      kv_heads; /* heads is a multiple of kv_heads; head h uses kv head h / (heads / kv_heads) */
  int head_dim;
  real scale;   /* of the scores, usually 1 / sqrt(head_dim) */
  int window;   /* 0: all; else key j is visible to position i when i - window < j <= i */
  real softcap; /* 0: none; else a scaled score s becomes softcap tanh(s / softcap) */
  /* A query sees its whole own segment, later keys too, and the prefix; with a window, key j when
   * i - window < j < i + window. */
  bool bidirectional;
  /* 0: values are as wide as keys.  Else (latent attention) a value is the first v_dim channels
   * of its key, and a head of the output has v_dim channels. */
  int v_dim;
  /* COMPUTE_BF16: queries, keys, values and probabilities are rounded to bf16, and sums are
   * float.  Not with v_dim.  A segment is filled and read in one mode. */
  Compute compute;
  const KernelClass *cpu; /* which fills and reads the segments; NULL: as in Ctx */
} AttnShape;

static inline int attn_value_dim(const AttnShape *s) { return s->v_dim ? s->v_dim : s->head_dim; }
/* Is anything rounded?  Not in latent attention, nor in the double twin, which checks formulas. */
static inline bool attn_rounds(const AttnShape *s) {
  return s->compute == COMPUTE_BF16 && !s->v_dim && sizeof(real) == sizeof(float);
}

typedef struct KvSeg {
  real *k;    /* [kv_heads, cap / KV_BLOCK, head_dim, KV_BLOCK]; with v_dim the same memory as v */
  real *v;    /* [kv_heads, cap, head_dim] */
  int cap;    /* a multiple of KV_BLOCK */
  int places; /* keys that there is memory for: kv_places */
  int len;    /* keys that are stored */
  int row0;   /* training: the row of the step's k and v that holds key 0; else -1 */
  int before; /* keys of the prefix that it is seen with; set before keys are stored */
  bool grows; /* decoding: keys come one by one, so that it needs kv_join */
} KvSeg;

/* A run of consecutive query rows that sees the whole prefix segment and its own segment,
 * causally or (AttnShape.bidirectional) whole. */
typedef struct AttnSpan {
  const KvSeg *prefix; /* NULL: none */
  const KvSeg *own;    /* query i sees own keys 0 .. own_at + i, or all */
  int row, n;          /* query rows row .. row + n - 1 of q and o */
  /* Own keys before this span's first row.  Row i has the logical position
   * (prefix ? prefix->len : 0) + own_at + i. */
  int own_at;
} AttnSpan;

/* The keys [lo, hi) that position pos sees of a sequence of `keys`. */
static inline void attn_sees(const AttnShape *s, int pos, int keys, int *lo, int *hi) {
  const int w = s->window;
  *lo = w > 0 ? max_int(0, pos - w + 1) : 0;
  *hi = !s->bidirectional ? pos + 1 : w > 0 && w < keys - pos ? pos + w : keys;
}

bool kv_in_bf16(const AttnShape *s); /* do segments hold bf16 pairs? */
/* Blocks of kv_size reals that a segment takes: k and v, or one for both. */
static inline int kv_blocks(const AttnShape *s) { return s->v_dim ? 1 : 2; }
/* Keys that a segment of `cap` behind a prefix of `before` (-1: of any length) has memory for. */
int kv_places(const AttnShape *s, int cap, int before);
/* Reals for k, and as many for v, of one segment; the last few are padding that is read. */
size_t kv_size(const AttnShape *s, int places);
/* A segment without keys, in kv_blocks * kv_size(kv_places(cap, before)) reals. */
KvSeg kv_segment(const AttnShape *s, real *memory, int cap, int before);
/* Stores n keys and values at positions at .. of the segment; k, v: [n, kv_heads * head_dim].
 * With v_dim v is not looked at.  `len` is the caller's to set.  Keys come in order; several
 * threads may store at once where kv_cut has cut. */
void kv_store(const AttnShape *s, const KvSeg *seg, int at, int n, const real *k, int ldk,
              const real *v, int ldv);
/* Prefetches the lines that a key at position `at` will be written to. */
void kv_fetch(const AttnShape *s, const KvSeg *seg, int at);
/* To be called before the first key of a segment that grows is stored. */
void kv_join(const AttnShape *s, const KvSeg *prefix, const KvSeg *own);
/* The first key from `key` on with which another thread may begin. */
int kv_cut(const AttnShape *s, const KvSeg *seg, int key);
/* Of `stored` keys of a segment that grows only the first `len` stay; places behind them are zeros,
 * as if no other keys had been stored. */
void kv_rewind(const AttnShape *s, const KvSeg *seg, int len, int stored);
/* Writes zeros where attention reads beyond the last key; seg->len is set. */
void kv_clear_tail(const AttnShape *s, const KvSeg *seg);

#endif
