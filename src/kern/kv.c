/* kv.c - segments of keys and values: how large, filling them, reading them back as rows.
 *
 * In bf16 mode keys and values are rounded when they are stored.  Where the CPU multiplies bf16 they
 * are kept so, in words of two: a key's neighbouring channels (the first low), turned in blocks as
 * float keys are; and a channel of two neighbouring values, the first one HIGH: such instructions add
 * the high half's product first, so that a sum over values runs in key order wherever segments or
 * parts begin.  Others sum units of several pairs: a key's place is then its logical position from the
 * unit in which the prefix ends, so that units begin at the same positions however keys are shared.
 */
#include <string.h>

#include "kern/kv.h"

bool kv_in_words(const AttnShape *s) { return attn_rounds(s) && kern_bf16(); }

int kv_unit(void) { return 2 * kernels16()->unit; }

/* Values in words begin anywhere in a unit. */
int kv_places(const AttnShape *s, int cap) {
  return kv_in_words(s) ? round_up(cap + kv_unit() - 1, kv_unit()) : cap;
}
static int place_of(const KvSeg *seg, int key) { return seg->before % kv_unit() + key; }

size_t kv_size(const AttnShape *s, int cap) {
  const size_t keys = (size_t)s->kv_heads * (size_t)kv_places(s, cap);
  if (kv_in_words(s)) return keys / 2 * (size_t)round_up(s->head_dim, GROUP);
  return keys * (size_t)s->head_dim + GROUP; /* last group read whole */
}

KvSeg kv_segment(const AttnShape *s, real *memory, int cap) {
  const size_t v = (size_t)(kv_blocks(s) - 1) * kv_size(s, cap);
  return (KvSeg){.k = memory, .v = memory + v, .cap = cap, .row0 = -1};
}

const uint32_t *kv_key_words(const AttnShape *s, const KvSeg *seg, int kvh, int key) {
  const ptrdiff_t at = (ptrdiff_t)kvh * seg->cap + key;
  return (const uint32_t *)(const void *)seg->k + at * kern_ceil(s->head_dim, 2);
}

static uint32_t *value_words(const AttnShape *s, const KvSeg *seg, int kvh, int key) {
  return (uint32_t *)(void *)seg->v +
         ((ptrdiff_t)kvh * kv_places(s, seg->cap) + place_of(seg, key)) / 2 *
             round_up(s->head_dim, GROUP);
}

const uint32_t *kv_value_words(const AttnShape *s, const KvSeg *seg, int kvh, int key) {
  return value_words(s, seg, kvh, key);
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

/* m keys of one block and head, which start with key `key` of it. */
static void store_block(const AttnShape *s, real *block, int key, int m, const real *k, int ldk) {
  enum { CHANNELS = 64 };
  real rows[KV_BLOCK * CHANNELS];
  if (!attn_rounds(s)) {
    kernels()->transpose(m, s->head_dim, k, ldk, block + key, KV_BLOCK);
    return;
  }
  for (int c = 0, n; c < s->head_dim; c += n) {
    n = kern_min(CHANNELS, s->head_dim - c);
    for (int i = 0; i < m; i++)
      kernels()->round_bf16((size_t)n, k + (ptrdiff_t)i * ldk + c, rows + i * CHANNELS);
    kernels()->transpose(m, n, rows, CHANNELS, block + c * KV_BLOCK + key, KV_BLOCK);
  }
}

static void store_block_words(const AttnShape *s, uint32_t *block, int key, int m, const real *k,
                              int ldk) {
  enum { CHANNELS = 64, WORDS = CHANNELS / 2 };
  uint32_t rows[KV_BLOCK * WORDS];
  for (int c = 0, n; c < s->head_dim; c += n) {
    n = kern_min(CHANNELS, s->head_dim - c);
    for (int i = 0; i < m; i++)
      kernels16()->pair_row(n, k + (ptrdiff_t)i * ldk + c, rows + i * WORDS);
    /* words are turned as reals of their size: nothing is computed */
    kernels()->transpose(m, kern_ceil(n, 2), (const real *)(const void *)rows, WORDS,
                         (real *)(void *)(block + c / 2 * KV_BLOCK + key), KV_BLOCK);
  }
}

/* One or two values of a pair, of which the other half stays. */
static void store_pair(int hd, int n, bool second, const real *v, ptrdiff_t ldv, uint32_t *to) {
  for (int c = 0; c < hd; c += GROUP, to += GROUP) {
    const int cols = kern_min(GROUP, hd - c);
    uint32_t one[GROUP];
    kernels16()->pair_group(n, cols, v + c + (n - 1) * ldv, -ldv, n == 2 ? to : one);
    for (int i = 0; i < GROUP && n == 1; i++)
      to[i] = second ? (to[i] & 0xffff0000u) | one[i] : (to[i] & 0xffffu) | one[i] << 16;
  }
}

/* Whole pairs at once.  The places of a unit that follow the first one stored are cleared with it. */
static void store_values_words(const AttnShape *s, const KvSeg *seg, int h, int at, int n,
                               const real *v, ptrdiff_t ldv) {
  const ptrdiff_t hd16 = round_up(s->head_dim, GROUP);
  const int unit = kv_unit();
  int place = place_of(seg, at) % unit;
  uint32_t *to = value_words(s, seg, h, at);
  for (int t = 0, m; t < n; t += m, v += m * ldv) {
    const bool second = place % 2;
    if (at + t == 0 || place == 0)
      memset(to, 0, sizeof *to * (size_t)((unit / 2 - place / 2) * hd16));
    m = second || t + 1 == n ? 1 : 2;
    store_pair(s->head_dim, m, second, v, ldv, to);
    place += m;
    if (place % 2 == 0) to += hd16;
    if (place == unit) place = 0;
  }
}

static void store_values(const AttnShape *s, const KvSeg *seg, int h, int at, int n, const real *v,
                         ptrdiff_t ldv) {
  const size_t hd = (size_t)s->head_dim;
  real *to = seg->v + ((ptrdiff_t)h * seg->cap + at) * s->head_dim;
  for (int i = 0; i < n; i++, to += hd, v += ldv)
    if (attn_rounds(s))
      kernels()->round_bf16(hd, v, to);
    else
      memcpy(to, v, sizeof(real) * hd);
}

/* A decoding step writes to a line of memory for every channel of a key, or two: all are asked for
 * before the first is waited for. */
static void fetch_lines(const AttnShape *s, const KvSeg *seg, int key) {
  const ptrdiff_t line = (ptrdiff_t)KV_BLOCK, words = kern_ceil(s->head_dim, 2);
  for (int h = 0; h < s->kv_heads; h++) {
    const uint32_t *k = kv_key_words(s, seg, h, key - key % KV_BLOCK);
    const uint32_t *v = kv_value_words(s, seg, h, key);
    for (ptrdiff_t c = 0; c < words; c++) __builtin_prefetch(k + c * line, 1);
    for (int c = 0; c < s->head_dim; c += GROUP) __builtin_prefetch(v + c, 1);
  }
}

void kv_store(const AttnShape *s, const KvSeg *seg, int at, int n, const real *k, int ldk,
              const real *v, int ldv) {
  const int hd = s->head_dim;
  const bool words = kv_in_words(s);
  if (s->v_dim) {
    store_rows(s, seg, at, n, k, ldk);
    return;
  }
  if (words && n == 1) fetch_lines(s, seg, at);
  for (int h = 0; h < s->kv_heads; h++, k += hd, v += hd) {
    for (int t = 0, m; t < n; t += m) {
      const int key = at + t, in_block = key % KV_BLOCK;
      const real *from = k + (ptrdiff_t)t * ldk;
      m = kern_min(n - t, KV_BLOCK - in_block);
      if (words)
        store_block_words(s,
                          (uint32_t *)(void *)seg->k +
                              ((ptrdiff_t)h * seg->cap + key - in_block) * kern_ceil(hd, 2),
                          in_block, m, from, ldk);
      else
        store_block(s, seg->k + ((ptrdiff_t)h * seg->cap + key - in_block) * hd, in_block, m, from,
                    ldk);
    }
    if (words)
      store_values_words(s, seg, h, at, n, v, ldv);
    else
      store_values(s, seg, h, at, n, v, ldv);
  }
}

int kv_cut(const AttnShape *s, const KvSeg *seg, int key) {
  if (!kv_in_words(s)) return round_up(key, KV_BLOCK);
  const int first = seg->before % kv_unit();
  return round_up(first + key, kern_max(kv_unit(), KV_BLOCK)) - first;
}

/* Places past the last key must hold numbers: they meet probabilities of 0, and 0 * NaN is NaN. */
void kv_clear_tail(const AttnShape *s, const KvSeg *seg) {
  const size_t cap = (size_t)seg->cap, len = (size_t)seg->len, d = (size_t)s->head_dim;
  if (len == cap || kv_in_words(s))
    return; /* of a unit of which some are stored the others are 0 */
  for (size_t h = 0; h < (size_t)s->kv_heads; h++) {
    real *last = seg->k + ((h + 1) * cap - KV_BLOCK) * d;
    if (!s->v_dim) memset(last, 0, KV_BLOCK * d * sizeof *last);
    memset(seg->v + (h * cap + len) * d, 0, (cap - len) * d * sizeof *seg->v);
  }
}

/* ---- reading back ------------------------------------------------------------------ */

void kv_load_keys(const AttnShape *s, const KvSeg *seg, int kvh, int n, real *y, ptrdiff_t ldy) {
  const ptrdiff_t hd = s->head_dim;
  if (s->v_dim) {
    for (ptrdiff_t j = 0; j < n; j++)
      memcpy(y + j * ldy, seg->k + ((ptrdiff_t)kvh * seg->cap + j) * hd, sizeof(real) * (size_t)hd);
    return;
  }
  for (ptrdiff_t j = 0; j < n; j += KV_BLOCK) {
    if (kv_in_words(s)) {
      enum { CHANNELS = 64 };
      real block[CHANNELS * KV_BLOCK];
      const uint32_t *words = kv_key_words(s, seg, kvh, (int)j);
      for (int c = 0, m; c < hd; c += m) {
        m = kern_min(CHANNELS, (int)hd - c);
        kernels()->widen_bf16(m, (const uint16_t *)(const void *)(words + c / 2 * KV_BLOCK), block);
        kernels()->transpose(m, KV_BLOCK, block, KV_BLOCK, y + j * ldy + c, ldy);
      }
    } else
      kernels()->transpose(s->head_dim, KV_BLOCK, seg->k + ((ptrdiff_t)kvh * seg->cap + j) * hd,
                           KV_BLOCK, y + j * ldy, ldy);
  }
}

void kv_load_values(const AttnShape *s, const KvSeg *seg, int kvh, int n, real *y, ptrdiff_t ldy) {
  const int hd16 = round_up(s->head_dim, GROUP);
  real two[2 * GROUP];
  for (ptrdiff_t j = 0, m; j < n; j += m) {
    const bool second = place_of(seg, (int)j) % 2;
    const uint32_t *words = kv_value_words(s, seg, kvh, (int)j);
    m = second || j + 1 == n ? 1 : 2;
    for (int c = 0; c < hd16; c += GROUP, words += GROUP) {
      kernels()->widen_bf16(2, (const uint16_t *)(const void *)words, two);
      memcpy(y + j * ldy + c, two + (second ? 0 : GROUP), sizeof(real) * GROUP);
      if (m == 2) memcpy(y + (j + 1) * ldy + c, two, sizeof(real) * GROUP);
    }
  }
}

void kv_shared_unit(const AttnShape *s, const KvSeg *prefix, const KvSeg *own, int kvh,
                    uint32_t *to) {
  const int hd16 = round_up(s->head_dim, GROUP), first = own->before % kv_unit();
  const uint32_t *a = value_words(s, prefix, kvh, prefix->len - first);
  const uint32_t *b = value_words(s, own, kvh, 0) - first / 2 * hd16;
  const size_t line = sizeof *to * (size_t)hd16;
  memcpy(to, a, line * (size_t)(first / 2));
  to += first / 2 * hd16, a += first / 2 * hd16, b += first / 2 * hd16;
  if (first % 2) {
    for (int i = 0; i < hd16; i++) to[i] = (a[i] & 0xffff0000u) | (b[i] & 0xffffu);
    to += hd16, b += hd16;
  }
  memcpy(to, b, line * (size_t)(kv_unit() / 2 - kern_ceil(first, 2)));
}
