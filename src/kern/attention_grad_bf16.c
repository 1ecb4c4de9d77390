/* attention_grad_bf16.c - attention backward of a piece, computed in bf16.
 *
 * Scores and dP are [queries, keys].  P and dS are rounded to bf16, as queries and dO are: in
 * pairs of queries for
 *   dV^T += dO^T P,  dK^T += Q^T dS
 * and dS in pairs of keys too, for dQ += dS K.  Keys are walked by logical position in units of
 * KV_UNIT, so that dQ is the same however keys are shared; dV and dK are summed over a tile's
 * queries in units of as many, which begin with the tile.
 */
#include <math.h>
#include <string.h>

#include "kern/attention_grad_bf16.h"

enum {
  TILE = 128, /* units of a tile, unless one row has more */
  STRIP = 32, /* units whose scores are computed together */
  KEYS = 128, /* keys */
  LD = KEYS + GROUP,
  LD_ROWS = KEYS / 2 + GROUP /* the distance of rows of dS in pairs of keys */
};

/* A worker's tile, and the piece's keys. */
typedef struct GradBf16Work {
  real *q, *dout, *dq;         /* [units, padded_hd] */
  uint32_t *qw, *dow;          /* q and dout in bf16 pairs, [units, query_pairs] */
  uint32_t *qt, *dot;          /* in pairs of units, as pair_columns makes them of channels */
  uint32_t *p, *ds, *rows;     /* [KEYS / GROUP][units / 2][GROUP] twice; [units, LD_ROWS] */
  real *s, *dp;                /* [STRIP, LD] */
  real *lse, *d;               /* [units] */
  int *lo, *hi;                /* [units]: keys that a unit sees */
  uint32_t *transposed_v;      /* [keys / GROUP][padded_hd / 2][GROUP] */
  uint32_t *transposed_k;      /* [padded_hd / GROUP][keys / 2][GROUP] */
  uint32_t *shared, *shared_v; /* the unit in which the prefix ends */
  real *dkt, *dvt;             /* [padded_hd, ldt] */
  int keys;                    /* keys in transposed_k, whole units */
  ptrdiff_t ldt;
  int done;       /* earlier tiles have added to dK and dV of the logical keys before this one */
  int r0, n, n32; /* first row of the span, units, and units in whole strips */
} GradBf16Work;

bool grad_in_bf16(const AttnShape *s) { return kv_in_bf16(s) && kernels_bf16(s->cpu)->ds; }

int grad_bf16_units(int group) { return round_up(max_int(1, TILE / group) * group, STRIP); }

/* pairs of a query, in whole units of the CPU */
static int query_pairs(const Grad *g) {
  return round_up(g->padded_hd / 2, kernels_bf16(g->cpu)->unit);
}

/* The next n reals of scratch; NULL: they are only counted. */
static real *take(real **at, size_t *size, size_t n) {
  real *here = *at;
  n = (n + GROUP - 1) / GROUP * GROUP;
  *size += n;
  if (here) *at += n;
  return here;
}

static size_t lay_out(const Grad *g, real *at, GradBf16Work *w) {
  const size_t units = (size_t)grad_bf16_units(g->group), padded_hd = (size_t)g->padded_hd;
  const size_t pairs = units * (size_t)query_pairs(g), half = units * padded_hd / 2;
  size_t size = 0;
  w->keys = round_up(g->max_keys, KV_UNIT);
  w->ldt = w->keys + GROUP;
  const size_t keys = (size_t)w->keys, ldt = (size_t)w->ldt;
#define TAKE(n)     take(&at, &size, n)
#define PAIRS_OF(n) (uint32_t *)(void *)TAKE(n)
  w->q = TAKE(units * padded_hd), w->dout = TAKE(units * padded_hd),
  w->dq = TAKE(units * padded_hd);
  w->qw = PAIRS_OF(pairs), w->dow = PAIRS_OF(pairs), w->qt = PAIRS_OF(half),
  w->dot = PAIRS_OF(half);
  w->p = PAIRS_OF(units * KEYS / 2), w->ds = PAIRS_OF(units * KEYS / 2),
  w->rows = PAIRS_OF(units * LD_ROWS);
  w->s = TAKE(STRIP * LD), w->dp = TAKE(STRIP * LD);
  w->lse = TAKE(units), w->d = TAKE(units);
  w->lo = (int *)(void *)TAKE(units), w->hi = (int *)(void *)TAKE(units);
  w->transposed_v = PAIRS_OF(keys * padded_hd / 2),
  w->transposed_k = PAIRS_OF(keys * padded_hd / 2);
  w->shared = PAIRS_OF(KV_UNIT / 2 * padded_hd), w->shared_v = PAIRS_OF(KV_UNIT / 2 * padded_hd);
  w->dkt = TAKE(ldt * padded_hd), w->dvt = TAKE(ldt * padded_hd);
  return size;
}

size_t grad_bf16_size(const Grad *g) {
  GradBf16Work w;
  return lay_out(g, NULL, &w);
}

/* ---- keys ---- */

/* The pairs of the keys, or values, in the unit of logical key `key`. */
static const uint32_t *unit_at(const Grad *g, const GradBf16Work *w, const AttnSpan *sp, int kvh,
                               int key, bool values) {
  const int start = prefix_len(sp) / KV_UNIT * KV_UNIT;
  if (key == start && prefix_len(sp) > start) return values ? w->shared_v : w->shared;
  const KvSeg *seg = key < start ? sp->prefix : sp->own;
  const int place = key < start ? key : key - start;
  return values ? kv_value_pairs(g->s, seg, kvh, place) : kv_key_pairs(g->s, seg, kvh, place);
}

/* Transposes a unit's values [KV_UNIT / 2, padded_hd], the first of two in the high half, into
 * pairs of channels [KV_UNIT / GROUP][padded_hd / 2][GROUP]. */
static void transpose_values(const Grad *g, const uint32_t *v, uint32_t *to) {
  enum { PAIRS = KV_UNIT / 2 };
  const ptrdiff_t block = (ptrdiff_t)g->padded_hd / 2 * GROUP;
  uint32_t x[PAIRS * GROUP];
  for (int c = 0; c < g->padded_hd; c += GROUP, to += GROUP / 2 * GROUP) {
    for (int i = 0; i < PAIRS; i++)
      for (int j = 0; j < GROUP; j++) {
        const uint32_t two = v[i * g->padded_hd + c + j];
        x[i * GROUP + j] = two << 16 | two >> 16;
      }
    kernels_bf16(g->cpu)->transpose(PAIRS, x, to, block);
  }
}

/* Transposes the logical keys [from, to), whole units, and their values. */
static void load_keys(const Grad *g, const GradBf16Work *w, const AttnSpan *sp, int kvh, int from,
                      int to) {
  const int pairs = ceil_div(g->s->head_dim, 2);
  const ptrdiff_t bgs = (ptrdiff_t)w->keys / 2 * GROUP;
  if (prefix_len(sp) % KV_UNIT) {
    kv_shared_keys(g->s, sp->prefix, sp->own, kvh, w->shared);
    kv_shared_values(g->s, sp->prefix, sp->own, kvh, w->shared_v);
  }
  for (int key = from; key < to; key += KV_UNIT) {
    transpose_values(g, unit_at(g, w, sp, kvh, key, true),
                     w->transposed_v + (ptrdiff_t)key * (g->padded_hd / 2));
    const uint32_t *k = unit_at(g, w, sp, kvh, key, false);
    if (g->dq)
      for (int i = 0; i < KV_UNIT; i += KV_BLOCK, k += pairs * KV_BLOCK)
        kernels_bf16(g->cpu)->transpose(pairs, k, w->transposed_k + (key + i) / 2 * GROUP, bgs);
  }
}

/* ---- queries ---- */

/* Unit i of the tile: query row r0 + i / group, one head of the kv head. */
static void load_unit(const Grad *g, const GradBf16Work *w, const AttnSpan *sp, int kvh, int i) {
  const int hd = g->s->head_dim, head = kvh * g->group + i % g->group;
  const ptrdiff_t row = sp->row + w->r0 + i / g->group, at = (ptrdiff_t)head * hd;
  const real *dout = g->dout + row * g->lddo + at;
  const size_t bytes = sizeof(real) * (size_t)hd, rest = sizeof(real) * (size_t)(g->padded_hd - hd);
  real *q = w->q + i * g->padded_hd, *to = w->dout + i * g->padded_hd;
  memcpy(q, g->q + row * g->ldq + at, bytes);
  memcpy(to, dout, bytes);
  memset(q + hd, 0, rest), memset(to + hd, 0, rest);
  w->lse[i] = g->lse[row * g->s->heads + head];
  w->d[i] = kernels(g->cpu)->dot(hd, dout, g->o + row * g->ldo + at);
}

/* Packs n units into pairs of channels, and into pairs of units by channel. */
static void pair_units(const Grad *g, int n, const real *x, uint32_t *pairs, uint32_t *columns) {
  const int ld = query_pairs(g), half = g->padded_hd / 2;
  for (int i = 0; i < n; i++, pairs += ld) {
    kernels_bf16(g->cpu)->pair_row(g->padded_hd, x + i * g->padded_hd, pairs);
    memset(pairs + half, 0, sizeof *pairs * (size_t)(ld - half));
  }
  kernels_bf16(g->cpu)->pair_columns(g->padded_hd, n, x, g->padded_hd, n / 2, 0, columns);
}

static void load_tile(const Grad *g, GradBf16Work *w, const AttnSpan *sp, int kvh, int rows) {
  const int plen = prefix_len(sp);
  const size_t row = sizeof(real) * (size_t)g->padded_hd;
  w->n = rows * g->group, w->n32 = round_up(w->n, STRIP);
  for (int i = 0; i < w->n32; i++) {
    const int r = w->r0 + min_int(i, w->n - 1) / g->group;
    attn_sees(g->s, plen + r, plen + sp->n, &w->lo[i], &w->hi[i]);
    if (i < w->n) {
      load_unit(g, w, sp, kvh, i);
      continue;
    }
    memset(w->q + i * g->padded_hd, 0, row), memset(w->dout + i * g->padded_hd, 0, row);
    w->lse[i] = (real)INFINITY; /* a unit beyond the last has P = 0 */
    w->d[i] = 0;
  }
  pair_units(g, w->n32, w->q, w->qw, w->qt);
  pair_units(g, w->n32, w->dout, w->dow, w->dot);
  memset(w->dq, 0, row * (size_t)w->n32);
}

static void add_dq(const Grad *g, const GradBf16Work *w, const AttnSpan *sp, int kvh) {
  const int hd = g->s->head_dim;
  for (int i = 0; i < w->n; i++) {
    const int row = sp->row + w->r0 + i / g->group, head = kvh * g->group + i % g->group;
    real *dq = g->dq + row * g->lddq + head * hd;
    kernels(g->cpu)->add((size_t)hd, dq, w->dq + i * g->padded_hd, dq);
  }
}

/* ---- a tile and a block of keys ---- */

/* The keys of a block [from, to) that some unit of a strip sees, in whole units. */
static void strip_keys(const GradBf16Work *w, int strip, int *from, int *to) {
  *from = max_int(*from, w->lo[strip] / KV_UNIT * KV_UNIT);
  *to = min_int(*to, round_up(w->hi[strip + STRIP - 1], KV_UNIT));
}

/* Scores and dP of a strip with logical keys [from, to), a unit at a time where segments change. */
static void strip_scores(const Grad *g, const GradBf16Work *w, const AttnSpan *sp, int kvh,
                         int strip, int from, int to) {
  const int pairs = ceil_div(g->s->head_dim, 2), ld = query_pairs(g), half = g->padded_hd / 2;
  const int start = prefix_len(sp) / KV_UNIT * KV_UNIT;
  const bool shares = start < prefix_len(sp);
  for (int key = from, end; key < to; key = end) {
    end = key < start ? min_int(to, start) : key == start && shares ? key + KV_UNIT : to;
    kernels_bf16(g->cpu)->scores(STRIP, end - key, pairs, w->qw + strip * ld, ld,
                                 unit_at(g, w, sp, kvh, key, false), pairs * KV_BLOCK,
                                 w->s + key - from, LD, false, NULL);
  }
  kernels_bf16(g->cpu)->scores(STRIP, to - from, half, w->dow + strip * ld, ld,
                               w->transposed_v + (ptrdiff_t)from * half, half * GROUP, w->dp, LD,
                               false, NULL);
}

static void cap_scores(const Grad *g, const GradBf16Work *w, int n) {
  for (int i = 0; i < STRIP && g->s->softcap > 0; i++)
    kernels(g->cpu)->softcap((size_t)n, g->s->scale, g->s->softcap, w->s + i * LD, w->s + i * LD);
}

/* P and dS of a strip and the block that starts with key `block`; dQ. */
static void one_strip(const Grad *g, const GradBf16Work *w, const AttnSpan *sp, int kvh, int strip,
                      int block, int to) {
  const ptrdiff_t bgs = (ptrdiff_t)w->n32 / 2 * GROUP;
  int from = block;
  strip_keys(w, strip, &from, &to);
  if (from >= to) return;
  const AttnDs x = {w->lse + strip, w->d + strip, w->lo + strip, w->hi + strip,
                    from,           g->s->scale,  g->s->softcap};
  const ptrdiff_t at = (from - block) / GROUP * bgs + strip / 2 * GROUP;
  uint32_t *rows = w->rows + strip * LD_ROWS + (from - block) / 2;
  strip_scores(g, w, sp, kvh, strip, from, to);
  cap_scores(g, w, to - from);
  kernels_bf16(g->cpu)->ds(STRIP, to - from, &x, w->s, w->dp, LD, w->p + at, w->ds + at, bgs, rows,
                           LD_ROWS);
  if (g->dq)
    kernels_bf16(g->cpu)->scores(STRIP, g->padded_hd, (to - from) / 2, rows, LD_ROWS,
                                 w->transposed_k + from / 2 * GROUP, (ptrdiff_t)w->keys / 2 * GROUP,
                                 w->dq + strip * g->padded_hd, g->padded_hd, true, NULL);
}

/* Adds to dK and dV of the block's unit at `key` from the strips that see some of it. */
static void add_unit(const Grad *g, const GradBf16Work *w, int block, int key) {
  const ptrdiff_t bgs = (ptrdiff_t)w->n32 / 2 * GROUP;
  int from = 0, to = w->n32;
  while (from < to && w->hi[from + STRIP - 1] <= key) from += STRIP;
  while (to > from && w->lo[to - STRIP] >= key + KV_UNIT) to -= STRIP;
  const ptrdiff_t at = (key - block) / GROUP * bgs + from / 2 * GROUP;
  const ptrdiff_t a = (ptrdiff_t)from / 2 * kernels_bf16(g->cpu)->mr;
  if (from == to) return;
  if (g->dv)
    kernels_bf16(g->cpu)->columns(g->padded_hd, KV_UNIT, (to - from) / 2, w->dot + a, w->n32 / 2,
                                  w->p + at, bgs, w->dvt + key, w->ldt, key < w->done);
  if (g->dk)
    kernels_bf16(g->cpu)->columns(g->padded_hd, KV_UNIT, (to - from) / 2, w->qt + a, w->n32 / 2,
                                  w->ds + at, bgs, w->dkt + key, w->ldt, key < w->done);
}

static void one_tile(const Grad *g, const GradBf16Work *w, const AttnSpan *sp, int kvh) {
  const int end = round_up(w->hi[w->n - 1], KV_UNIT);
  for (int block = w->lo[0] / KV_UNIT * KV_UNIT, to; block < end; block = to) {
    to = min_int(end, block + KEYS);
    for (int strip = 0; strip < w->n32; strip += STRIP) one_strip(g, w, sp, kvh, strip, block, to);
    for (int key = block; key < to; key += KV_UNIT) add_unit(g, w, block, key);
  }
}

/* ---- a piece ---- */

/* Copies the logical keys [0, n) to [n, padded_hd] from x [padded_hd, ldt], which holds those from
 * `from` on. */
static void put_copies(const Grad *g, const real *x, ptrdiff_t ldt, int from, int n, real *to) {
  from = min_int(from, n);
  memset(to, 0, sizeof *to * (size_t)from * (size_t)g->padded_hd);
  kernels(g->cpu)->transpose(g->padded_hd, n - from, x + from, ldt,
                             to + (ptrdiff_t)from * g->padded_hd, g->padded_hd);
}

/* dst's rows from row0 on += logical keys [from, from + n) of x [padded_hd, ldt] */
static void add_keys(const Grad *g, const GradBf16Work *w, const real *x, int kvh, int from, int n,
                     ptrdiff_t row0, real *dst) {
  const int hd = g->s->head_dim;
  real *rows = w->q; /* of KV_UNIT keys; q is free, as the tile is done */
  for (int j = 0, m; j < n && dst; j += m) {
    m = min_int(KV_UNIT, n - j);
    kernels(g->cpu)->transpose(hd, m, x + from + j, w->ldt, rows, g->padded_hd);
    for (int i = 0; i < m; i++) {
      real *y = dst + (row0 + j + i) * g->lddkv + kvh * hd;
      kernels(g->cpu)->add((size_t)hd, y, rows + i * g->padded_hd, y);
    }
  }
}

void grad_bf16(const Grad *g, const Piece *pc, int kvh, int worker) {
  const AttnSpan *sp = pc->span;
  const int plen = prefix_len(sp), step = max_int(1, TILE / g->group),
            mr = kernels_bf16(g->cpu)->mr;
  const int own = piece_keys(g, pc), end = round_up(plen + own, KV_UNIT);
  const size_t copy = (size_t)pc->copied * (size_t)g->padded_hd;
  real *dk = g->parts + pc->at + (size_t)kvh * 2 * copy;
  int lo, hi;
  GradBf16Work w;
  lay_out(g, scratch_of(&g->scratch, worker), &w);
  attn_sees(g->s, plen + pc->from, plen + sp->n, &lo, &hi);
  const int from = w.done = lo / KV_UNIT * KV_UNIT;
  load_keys(g, &w, sp, kvh, from, end);
  kernels_bf16(g->cpu)->begin(mr, mr);
  for (w.r0 = pc->from; w.r0 < pc->to; w.r0 += step) {
    load_tile(g, &w, sp, kvh, min_int(step, pc->to - w.r0));
    one_tile(g, &w, sp, kvh);
    if (g->dq) add_dq(g, &w, sp, kvh);
    w.done = round_up(w.hi[w.n - 1], KV_UNIT);
  }
  kernels_bf16(g->cpu)->end();
  if (g->dk) put_copies(g, w.dkt, w.ldt, from, pc->copied, dk);
  if (g->dv) put_copies(g, w.dvt, w.ldt, from, pc->copied, dk + copy);
  if (pc->copied > plen) return;
  add_keys(g, &w, w.dkt, kvh, plen, own, sp->own->row0, g->dk);
  add_keys(g, &w, w.dvt, kvh, plen, own, sp->own->row0, g->dv);
}
