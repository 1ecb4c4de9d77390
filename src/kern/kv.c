/* kv.c - segments of keys and values: their layout, filling them, and reading them back as rows.
 *
 * float32: keys are transposed in blocks of KV_BLOCK, values are rows (kv.h).  Emulated bf16
 * rounds both when they are stored and keeps float32.
 *
 * bf16 pairs, where the CPU multiplies bf16:
 *
 *   k  [kv_heads, places / KV_BLOCK, head_dim / 2, KV_BLOCK]
 *      A pair is two neighbouring channels of a key, the first in the low half.  Blocks are
 *      transposed as in float32.
 *   v  [kv_heads, places / 2, head_dim in whole groups]
 *      A pair is one channel of two neighbouring values, the first in the HIGH half.
 *
 * The CPU adds the product of the high halves first, so a sum over values runs in key order
 * wherever a segment or a part begins.  Some CPUs sum a unit of KV_UNIT keys at once.  A key's
 * place is therefore its logical position counted from the unit in which the prefix ends: units
 * begin at the same positions however a prefix is shared.
 *
 * Storing one key in the transposed layout touches a cache line per channel.  So a growing
 * segment keeps its last, incomplete block row-major and transposes it when it is full.  (Such a
 * block consists of squares of KV_BLOCK keys by KV_BLOCK channels or pairs, each row-major.)
 * The unit that straddles the end of the prefix is assembled once, in the growing segment; for
 * other segments attention assembles it when it reads them.
 */
#include <string.h>

#include "kern/dispatch.h"
#include "kern/kernels.h"
#include "kern/kv_impl.h"

bool kv_in_bf16(const AttnShape *s) { return attn_rounds(s) && kern_bf16(s->cpu); }

int kv_places(const AttnShape *s, int cap, int before) {
  const int first = before < 0 ? KV_UNIT - 1 : before % KV_UNIT;
  return kv_in_bf16(s) ? round_up(first + cap, KV_UNIT) : cap;
}

/* pairs of one key, and of two values */
static int key_width(const AttnShape *s) { return ceil_div(s->head_dim, 2); }
static int value_width(const AttnShape *s) { return round_up(s->head_dim, GROUP); }

size_t kv_size(const AttnShape *s, int places) {
  const size_t keys = (size_t)s->kv_heads * (size_t)places;
  if (kv_in_bf16(s)) return keys / 2 * (size_t)value_width(s);
  return keys * (size_t)s->head_dim + GROUP; /* the last group is read whole */
}

KvSeg kv_segment(const AttnShape *s, real *memory, int cap, int before) {
  const int places = kv_places(s, cap, before);
  const size_t v = (size_t)(kv_blocks(s) - 1) * kv_size(s, places);
  return (KvSeg){.k = memory,
                 .v = memory + v,
                 .cap = cap,
                 .places = places,
                 .row0 = -1,
                 .before = max_int(before, 0)};
}

static ptrdiff_t place_of(const KvSeg *seg, int kvh, int place) {
  return (ptrdiff_t)kvh * seg->places + place;
}

static uint32_t *key_pairs(const AttnShape *s, const KvSeg *seg, int kvh, int place) {
  return (uint32_t *)(void *)seg->k + place_of(seg, kvh, place) * key_width(s);
}
const uint32_t *kv_key_pairs(const AttnShape *s, const KvSeg *seg, int kvh, int place) {
  return key_pairs(s, seg, kvh, place);
}

static uint32_t *value_pairs(const AttnShape *s, const KvSeg *seg, int kvh, int place) {
  return (uint32_t *)(void *)seg->v + place_of(seg, kvh, place) / 2 * value_width(s);
}
const uint32_t *kv_value_pairs(const AttnShape *s, const KvSeg *seg, int kvh, int place) {
  return value_pairs(s, seg, kvh, place);
}

/* ---- row-major blocks ---- */

static bool grows(const AttnShape *s, const KvSeg *seg) { return seg->grows && !s->v_dim; }

/* reals or pairs of one key in a block */
static int block_width(const AttnShape *s) { return kv_in_bf16(s) ? key_width(s) : s->head_dim; }

static real *block_at(const AttnShape *s, const KvSeg *seg, int kvh, int place) {
  return seg->k + place_of(seg, kvh, place) * block_width(s);
}

/* Transposes a block's squares; back: into rows.  `from` and `to` may be the same.  Pairs are
 * transposed as reals of their size, because nothing is computed. */
static void transpose_block(const AttnShape *s, int width, bool back, const real *from, real *to) {
  real square[KV_BLOCK * KV_BLOCK];
  for (int c = 0; c < width;
       c += KV_BLOCK, from += KV_BLOCK * KV_BLOCK, to += KV_BLOCK * KV_BLOCK) {
    const int n = min_int(KV_BLOCK, width - c);
    const real *x = from == to ? memcpy(square, from, sizeof(real) * (size_t)(KV_BLOCK * n)) : from;
    if (back)
      kernels(s->cpu)->transpose(n, KV_BLOCK, x, KV_BLOCK, to, n);
    else
      kernels(s->cpu)->transpose(KV_BLOCK, n, x, n, to, KV_BLOCK);
  }
}

/* Writes the reals or pairs of m keys into a block, from its key `key` on. */
static void put_keys(const AttnShape *s, int m, int width, const real *rows, ptrdiff_t ld,
                     bool transposed, int key, real *block) {
  if (transposed) {
    kernels(s->cpu)->transpose(m, width, rows, ld, block + key, KV_BLOCK);
    return;
  }
  for (int c = 0; c < width; c += KV_BLOCK, rows += KV_BLOCK, block += KV_BLOCK * KV_BLOCK) {
    const int n = min_int(KV_BLOCK, width - c);
    for (int i = 0; i < m; i++)
      if (n == KV_BLOCK) /* the compiler makes no call for a copy of known size */
        memcpy(block + (key + i) * KV_BLOCK, rows + i * ld, sizeof(real) * KV_BLOCK);
      else
        memcpy(block + (key + i) * n, rows + i * ld, sizeof(real) * (size_t)n);
  }
}

int kv_row_major_from(const AttnShape *s, const KvSeg *seg) {
  const int first = kv_in_bf16(s) ? kv_first_place(seg) : 0;
  return grows(s, seg) ? (first + seg->len) / KV_BLOCK * KV_BLOCK : seg->places;
}

const real *kv_last_rows(const AttnShape *s, const KvSeg *seg, int kvh) {
  return block_at(s, seg, kvh, kv_row_major_from(s, seg));
}

void kv_transpose_last(const AttnShape *s, const KvSeg *seg, int kvh, real *to) {
  transpose_block(s, block_width(s), false, kv_last_rows(s, seg, kvh), to);
}

/* ---- storing --------------------------------------------------------------------- */

static void store_rows(const AttnShape *s, const KvSeg *seg, int at, int n, const real *k,
                       int ldk) {
  const ptrdiff_t hd = s->head_dim;
  for (int h = 0; h < s->kv_heads; h++)
    for (int t = 0; t < n; t++)
      memcpy(seg->v + ((ptrdiff_t)h * seg->cap + at + t) * hd, k + (ptrdiff_t)t * ldk + h * hd,
             sizeof(real) * (size_t)hd);
}

/* Stores m keys of one block and head, rounded if need be, from the block's key `key` on. */
static void store_block(const AttnShape *s, real *block, bool transposed, int key, int m,
                        const real *k, int ldk) {
  enum { CHANNELS = 64 };
  real rows[KV_BLOCK * CHANNELS];
  if (!attn_rounds(s)) {
    put_keys(s, m, s->head_dim, k, ldk, transposed, key, block);
    return;
  }
  for (int c = 0, n; c < s->head_dim; c += n) {
    n = min_int(CHANNELS, s->head_dim - c);
    for (int i = 0; i < m; i++)
      kernels(s->cpu)->round_bf16((size_t)n, k + (ptrdiff_t)i * ldk + c, rows + i * CHANNELS);
    put_keys(s, m, n, rows, CHANNELS, transposed, key, block + c * KV_BLOCK);
  }
}

static void store_block_pairs(const AttnShape *s, real *block, bool transposed, int key, int m,
                              const real *k, int ldk) {
  enum { CHANNELS = 64, WORDS = CHANNELS / 2 };
  uint32_t rows[KV_BLOCK * WORDS];
  for (int c = 0, n; c < s->head_dim; c += n) {
    n = min_int(CHANNELS, s->head_dim - c);
    for (int i = 0; i < m; i++)
      kernels_bf16(s->cpu)->pair_row(n, k + (ptrdiff_t)i * ldk + c, rows + i * WORDS);
    put_keys(s, m, ceil_div(n, 2), (const real *)(const void *)rows, WORDS, transposed, key,
             block + c / 2 * KV_BLOCK);
  }
}

/* Stores n keys of a head from `place` on. */
static void store_keys(const AttnShape *s, const KvSeg *seg, int h, int place, int n, const real *k,
                       int ldk) {
  for (int t = 0, m; t < n; t += m, k += (ptrdiff_t)m * ldk) {
    const int in_block = (place + t) % KV_BLOCK;
    m = min_int(n - t, KV_BLOCK - in_block);
    real *block = block_at(s, seg, h, place + t - in_block);
    const bool transposed = !grows(s, seg) || m == KV_BLOCK;
    (kv_in_bf16(s) ? store_block_pairs : store_block)(s, block, transposed, in_block, m, k, ldk);
    if (!transposed && in_block + m == KV_BLOCK)
      transpose_block(s, block_width(s), false, block, block);
  }
}

/* Zeros a unit before it is filled: places without a key meet probabilities of 0, and 0 * NaN is
 * NaN. */
static void clear_unit(const AttnShape *s, const KvSeg *seg, int h, int place) {
  const int unit = place / KV_UNIT * KV_UNIT;
  memset(key_pairs(s, seg, h, unit), 0, sizeof(uint32_t) * (size_t)(KV_UNIT * key_width(s)));
  memset(value_pairs(s, seg, h, unit), 0,
         sizeof(uint32_t) * (size_t)(KV_UNIT / 2 * value_width(s)));
}

/* Stores n values of one unit from `place` on. */
static void store_value_pairs(const AttnShape *s, const KvSeg *seg, int h, int place, int n,
                              const real *v, ptrdiff_t ldv) {
  for (int t = 0; t < n; t++)
    kernels_bf16(s->cpu)->half_row(s->head_dim, (place + t) % 2 == 0, v + t * ldv,
                                   value_pairs(s, seg, h, place + t));
}

static void store_pairs(const AttnShape *s, const KvSeg *seg, int h, int at, int n, const real *k,
                        int ldk, const real *v, ptrdiff_t ldv) {
  const int from = kv_first_place(seg) + at;
  for (int t = 0, m; t < n; t += m) {
    const int place = from + t, in_unit = place % KV_UNIT;
    m = min_int(n - t, KV_UNIT - in_unit);
    if (in_unit == 0 || (at + t == 0 && !grows(s, seg))) clear_unit(s, seg, h, place);
    store_value_pairs(s, seg, h, place, m, v + t * ldv, ldv);
    store_keys(s, seg, h, place, m, k + (ptrdiff_t)t * ldk, ldk);
  }
}

static void store_values(const AttnShape *s, const KvSeg *seg, int h, int at, int n, const real *v,
                         ptrdiff_t ldv) {
  const size_t hd = (size_t)s->head_dim;
  real *to = seg->v + ((ptrdiff_t)h * seg->cap + at) * s->head_dim;
  for (int i = 0; i < n; i++, to += hd, v += ldv)
    if (attn_rounds(s))
      kernels(s->cpu)->round_bf16(hd, v, to);
    else
      memcpy(to, v, sizeof(real) * hd);
}

/* A decoding step writes to lines that are far apart: all are prefetched before the first is waited
 * for. */
static void fetch_key(const AttnShape *s, const KvSeg *seg, int key) {
  const bool pairs = kv_in_bf16(s);
  const int place = key + (pairs ? kv_first_place(seg) : 0), width = block_width(s);
  const int step = grows(s, seg) ? KV_BLOCK * KV_BLOCK : KV_BLOCK, in_block = place % KV_BLOCK;
  for (int h = 0; h < s->kv_heads; h++) {
    const real *k =
        block_at(s, seg, h, place - in_block) + (grows(s, seg) ? KV_BLOCK * in_block : 0);
    const real *v = pairs ? (const real *)(const void *)kv_value_pairs(s, seg, h, place)
                          : seg->v + place_of(seg, h, place) * s->head_dim;
    for (int c = 0; c < width * KV_BLOCK; c += step) __builtin_prefetch(k + c, 1);
    for (int c = 0; c < s->head_dim; c += GROUP) __builtin_prefetch(v + c, 1);
  }
}

void kv_fetch(const AttnShape *s, const KvSeg *seg, int at) {
  if (!s->v_dim) fetch_key(s, seg, at);
}

void kv_store(const AttnShape *s, const KvSeg *seg, int at, int n, const real *k, int ldk,
              const real *v, int ldv) {
  const int hd = s->head_dim;
  const bool pairs = kv_in_bf16(s);
  if (s->v_dim) {
    store_rows(s, seg, at, n, k, ldk);
    return;
  }
  for (int h = 0; h < s->kv_heads; h++, k += hd, v += hd) {
    if (pairs) {
      store_pairs(s, seg, h, at, n, k, ldk, v, ldv);
      continue;
    }
    store_keys(s, seg, h, at, n, k, ldk);
    store_values(s, seg, h, at, n, v, ldv);
  }
}

/* Copies the prefix's part of the unit in which it ends in front of a head's first key: whole
 * blocks, and an incomplete one row-major. */
static void join_keys(const AttnShape *s, const KvSeg *prefix, const KvSeg *own, int h) {
  const int first = kv_first_place(own), width = key_width(s);
  for (int at = 0; at < first; at += KV_BLOCK) {
    const real *from = block_at(s, prefix, h, prefix->len - first + at);
    real *to = block_at(s, own, h, at);
    if (first - at >= KV_BLOCK)
      memcpy(to, from, sizeof(real) * (size_t)(KV_BLOCK * width));
    else
      transpose_block(s, width, true, from, to);
  }
}

static void join_values(const AttnShape *s, const KvSeg *prefix, const KvSeg *own, int h) {
  const int first = kv_first_place(own), width = value_width(s);
  const uint32_t *from = value_pairs(s, prefix, h, prefix->len - first);
  uint32_t *to = value_pairs(s, own, h, 0);
  memcpy(to, from, sizeof *to * (size_t)(ceil_div(first, 2) * width));
  for (int i = first / 2 * width; i < first % 2 * (first + 1) / 2 * width; i++)
    to[i] &= 0xffff0000u; /* the second half belongs to the segment */
}

void kv_join(const AttnShape *s, const KvSeg *prefix, const KvSeg *own) {
  if (!grows(s, own) || !kv_in_bf16(s) || kv_first_place(own) == 0) return;
  for (int h = 0; h < s->kv_heads; h++) {
    clear_unit(s, own, h, 0);
    join_keys(s, prefix, own, h);
    join_values(s, prefix, own, h);
  }
}

int kv_cut(const AttnShape *s, const KvSeg *seg, int key) {
  if (!kv_in_bf16(s)) return round_up(key, KV_BLOCK);
  return round_up(kv_first_place(seg) + key, KV_UNIT) - kv_first_place(seg);
}

/* Sets the keys of a head behind `place` to zero.  A full block that loses keys becomes row-major
 * again, as a growing block is. */
static void rewind_keys(const AttnShape *s, const KvSeg *seg, int h, int place, int stored) {
  const int width = block_width(s);
  static const real zeros[KV_BLOCK];
  for (int at = place, end; at < stored; at = end) {
    const int in_block = at % KV_BLOCK, first = at - in_block;
    real *block = block_at(s, seg, h, first);
    end = min_int(stored, first + KV_BLOCK);
    if (in_block == 0)
      memset(block, 0, sizeof(real) * (size_t)(KV_BLOCK * width));
    else {
      if (stored >= first + KV_BLOCK) transpose_block(s, width, true, block, block);
      for (int i = in_block; i < end - first; i++)
        for (int c = 0; c < width; c += KV_BLOCK)
          put_keys(s, 1, min_int(KV_BLOCK, width - c), zeros, 0, false, i, block + c * KV_BLOCK);
    }
  }
}

static void rewind_values(const AttnShape *s, const KvSeg *seg, int h, int place, int stored) {
  const bool pairs = kv_in_bf16(s);
  static const real zeros[GROUP];
  const size_t hd = (size_t)s->head_dim;
  for (int at = place; at < stored; at++) {
    if (!pairs)
      memset(seg->v + ((size_t)h * (size_t)seg->cap + (size_t)at) * hd, 0, sizeof(real) * hd);
    for (int c = 0; pairs && c < value_width(s); c += GROUP)
      kernels_bf16(s->cpu)->half_row(GROUP, at % 2 == 0, zeros, value_pairs(s, seg, h, at) + c);
  }
}

void kv_rewind(const AttnShape *s, const KvSeg *seg, int len, int stored) {
  const int first = kv_in_bf16(s) ? kv_first_place(seg) : 0;
  for (int h = 0; h < s->kv_heads; h++) {
    rewind_values(s, seg, h, first + len, first + stored);
    if (!s->v_dim) rewind_keys(s, seg, h, first + len, first + stored);
  }
}

/* Places past the last key must hold numbers: they meet probabilities of 0, and 0 * NaN is NaN. */
void kv_clear_tail(const AttnShape *s, const KvSeg *seg) {
  const size_t cap = (size_t)seg->cap, len = (size_t)seg->len, d = (size_t)s->head_dim;
  if (len == cap || kv_in_bf16(s)) return; /* kv_store has zeroed its units */
  for (size_t h = 0; h < (size_t)s->kv_heads; h++) {
    real *last = seg->k + ((h + 1) * cap - KV_BLOCK) * d;
    if (!s->v_dim) memset(last, 0, KV_BLOCK * d * sizeof *last);
    memset(seg->v + (h * cap + len) * d, 0, (cap - len) * d * sizeof *seg->v);
  }
}

/* ---- reading back ------------------------------------------------------------------ */

/* Loads the keys in lanes [from, to) of a block of pairs as rows. */
static void load_block_pairs(const AttnShape *s, const uint32_t *pairs, int from, int to, real *y,
                             ptrdiff_t ldy) {
  enum { CHANNELS = 64 };
  real block[CHANNELS * KV_BLOCK];
  for (int c = 0, m; c < s->head_dim; c += m) {
    m = min_int(CHANNELS, s->head_dim - c);
    kernels(s->cpu)->widen_bf16(m, (const uint16_t *)(const void *)(pairs + c / 2 * KV_BLOCK),
                                block);
    kernels(s->cpu)->transpose(m, to - from, block + from, KV_BLOCK, y + c, ldy);
  }
}

static void load_key_pairs(const AttnShape *s, const KvSeg *seg, int kvh, int n, real *y,
                           ptrdiff_t ldy) {
  const int first = kv_first_place(seg);
  for (int j = 0, m; j < n; j += m) {
    const int lane = (first + j) % KV_BLOCK;
    m = min_int(n - j, KV_BLOCK - lane);
    load_block_pairs(s, kv_key_pairs(s, seg, kvh, first + j - lane), lane, lane + m, y + j * ldy,
                     ldy);
  }
}

void kv_load_keys(const AttnShape *s, const KvSeg *seg, int kvh, int n, real *y, ptrdiff_t ldy) {
  const ptrdiff_t hd = s->head_dim;
  if (kv_in_bf16(s)) {
    load_key_pairs(s, seg, kvh, n, y, ldy);
    return;
  }
  if (s->v_dim) {
    for (ptrdiff_t j = 0; j < n; j++)
      memcpy(y + j * ldy, seg->k + ((ptrdiff_t)kvh * seg->cap + j) * hd, sizeof(real) * (size_t)hd);
    return;
  }
  for (int j = 0; j < n; j += KV_BLOCK)
    kernels(s->cpu)->transpose(s->head_dim, min_int(KV_BLOCK, n - j),
                               seg->k + ((ptrdiff_t)kvh * seg->cap + j) * hd, KV_BLOCK, y + j * ldy,
                               ldy);
}

void kv_load_values(const AttnShape *s, const KvSeg *seg, int kvh, int n, real *y, ptrdiff_t ldy) {
  const int width = value_width(s), first = kv_first_place(seg);
  real two[2 * GROUP];
  for (int j = 0, m; j < n; j += m) {
    const bool second = (first + j) % 2;
    const uint32_t *pairs = kv_value_pairs(s, seg, kvh, first + j);
    m = second || j + 1 == n ? 1 : 2;
    for (int c = 0; c < width; c += GROUP, pairs += GROUP) {
      kernels(s->cpu)->widen_bf16(2, (const uint16_t *)(const void *)pairs, two);
      memcpy(y + j * ldy + c, two + (second ? 0 : GROUP), sizeof(real) * GROUP);
      if (m == 2) memcpy(y + (j + 1) * ldy + c, two, sizeof(real) * GROUP);
    }
  }
}

/* ---- the unit that a prefix and a segment share ------------------------------------- */

void kv_shared_keys(const AttnShape *s, const KvSeg *prefix, const KvSeg *own, int kvh,
                    uint32_t *to) {
  const int first = kv_first_place(own);
  const ptrdiff_t block = (ptrdiff_t)KV_BLOCK * key_width(s);
  const uint32_t *a = key_pairs(s, prefix, kvh, prefix->len - first);
  const uint32_t *b = key_pairs(s, own, kvh, 0);
  for (int at = 0; at < KV_UNIT; at += KV_BLOCK, a += block, b += block, to += block)
    kernels_bf16(s->cpu)->blend(key_width(s), max_int(0, first - at), a, b, to);
}

void kv_shared_values(const AttnShape *s, const KvSeg *prefix, const KvSeg *own, int kvh,
                      uint32_t *to) {
  const int first = kv_first_place(own), width = value_width(s), groups = width / GROUP;
  const uint32_t *a = value_pairs(s, prefix, kvh, prefix->len - first);
  const uint32_t *b = value_pairs(s, own, kvh, 0);
  int pair = first / 2, at = pair * width;
  kernels_bf16(s->cpu)->blend(pair * groups, GROUP, a, a, to);
  for (int i = 0; i < width && first % 2; i++, at++)
    to[at] = (a[at] & 0xffff0000u) | (b[at] & 0xffffu);
  pair += first % 2;
  kernels_bf16(s->cpu)->blend((KV_UNIT / 2 - pair) * groups, 0, b + at, b + at, to + at);
}
