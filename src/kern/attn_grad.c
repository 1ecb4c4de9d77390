/* attn_grad.c - attention backward for training spans.
 *
 * Per span and query head, QROWS query rows at a time against KEYS keys:
 *   S^T = K Q^T, P^T = exp(z - lse), dP^T = V dO^T, z = scale S^T, or cap tanh(scale S^T / cap),
 *   dS = dz/dS P (dP - D), D = rowsum(dO o)
 *   dV += P^T dO,  dK += dS^T Q,  dQ^T += K^T dS^T
 * Everything is transposed so that keys, kept as they are stored, stand on the
 * left and only the small tiles of Q and dO need turning.  dK and dV go to a
 * private copy per span and head; copies are added in span order, so neither
 * threads nor the number of spans handled at once can be seen in the result.
 */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/pool.h"
#include "kern/dispatch.h"

enum { QROWS = 48, KEYS = 64, WAVE_REALS = 1 << 22 };

typedef struct Grad {
  const AttnShape *s;
  const AttnSpan *spans; /* of this wave */
  int nspans, group, hd16;
  const real *q, *o, *lse, *dout;
  ptrdiff_t ldq, ldo, lddo, lddq, lddkv;
  real *dq, *dk, *dv;
  size_t *at; /* [nspans]: where a span's copies start; per head dk then dv, [keys, hd16] */
  real *parts;
  Scratch scratch;
} Grad;

/* The tiles a worker has in hand. */
typedef struct Work {
  real *q, *dout;       /* [QROWS, hd16] */
  real *qt, *dot;       /* [QROWS / GROUP][head_dim][GROUP] */
  real *p, *ds;         /* [KEYS, QROWS] */
  real *dqt;            /* [head_dim, QROWS] */
  real *lse, *d;        /* [QROWS] */
  int r0, rows, rows16; /* rows of the span */
  real *dk, *dv;        /* the copies */
} Work;

static int prefix_len(const AttnSpan *sp) { return sp->prefix ? sp->prefix->len : 0; }
static int keys_of(const AttnSpan *sp) { return prefix_len(sp) + sp->n; }

static size_t work_size(int hd16) {
  return (size_t)(4 * QROWS * hd16 + 2 * KEYS * QROWS + hd16 * QROWS + 2 * QROWS);
}

static void work_lay_out(Work *w, real *at, int hd16) {
  const int tile = QROWS * hd16, scores = KEYS * QROWS;
  w->q = at, w->dout = at + tile, w->qt = at + 2 * tile, w->dot = at + 3 * tile;
  w->dqt = at + 4 * tile;
  w->p = at + 5 * tile, w->ds = w->p + scores;
  w->lse = w->ds + scores, w->d = w->lse + QROWS;
}

/* x's rows side by side in groups of GROUP: [rows16 / GROUP][head_dim][GROUP] */
static void turn(const Work *w, int hd, int hd16, const real *x, real *xt) {
  for (int g = 0; g < w->rows16; g += GROUP)
    kernels()->transpose(GROUP, hd, x + g * hd16, hd16, xt + g * hd, GROUP);
}

static void load_rows(const Grad *g, Work *w, const AttnSpan *sp, int head) {
  const int hd = g->s->head_dim;
  const size_t bytes = sizeof(real) * (size_t)hd;
  memset(w->q, 0, sizeof(real) * (size_t)(2 * QROWS * g->hd16));
  for (int i = 0; i < QROWS; i++) {
    w->lse[i] = (real)INFINITY; /* a row that is not there has P = 0 */
    w->d[i] = 0;
    if (i >= w->rows) continue;
    const ptrdiff_t row = sp->row + w->r0 + i, at = (ptrdiff_t)head * hd;
    memcpy(w->q + i * g->hd16, g->q + row * g->ldq + at, bytes);
    memcpy(w->dout + i * g->hd16, g->dout + row * g->lddo + at, bytes);
    w->lse[i] = g->lse[row * g->s->heads + head];
    w->d[i] = kernels()->dot(hd, g->dout + row * g->lddo + at, g->o + row * g->ldo + at);
  }
  turn(w, hd, g->hd16, w->q, w->qt);
  turn(w, hd, g->hd16, w->dout, w->dot);
  memset(w->dqt, 0, sizeof(real) * (size_t)(hd * QROWS));
}

/* The tile's rows against keys [j0, j0 + n) of a segment; own: causally. */
static void one_block(const Grad *g, Work *w, const KvSeg *seg, int kvh, bool own, int base,
                      int pos0, int j0, int n) {
  const Kernels *kn = kernels();
  const int hd = g->s->head_dim, win = g->s->window, hd16 = g->hd16;
  const real *k = seg->k + ((ptrdiff_t)kvh * seg->cap + j0) * hd;
  const real *v = seg->v + ((ptrdiff_t)kvh * seg->cap + j0) * hd;
  for (int b = 0; b < n; b += KV_BLOCK)
    kn->block(kern_min(KV_BLOCK, n - b), w->rows16, hd, k + b * hd, 1, KV_BLOCK, w->qt, GROUP,
              (ptrdiff_t)hd * GROUP, w->p + b * QROWS, QROWS, false);
  kn->block(n, w->rows16, hd, v, hd, 1, w->dot, GROUP, (ptrdiff_t)hd * GROUP, w->ds, QROWS, false);
  kn->attn_ds(n, w->rows16, QROWS, g->s->scale, g->s->softcap, w->lse, w->d,
              own ? j0 - w->r0 : -(1 << 29), win > 0 ? base + j0 + win - pos0 : 1 << 29, w->p,
              w->ds);
  const ptrdiff_t at = (ptrdiff_t)(base + j0) * hd16;
  if (g->dv)
    kn->block(n, hd16, w->rows, w->p, QROWS, 1, w->dout, hd16, GROUP, w->dv + at, hd16, true);
  if (g->dk)
    kn->block(n, hd16, w->rows, w->ds, QROWS, 1, w->q, hd16, GROUP, w->dk + at, hd16, true);
  for (int b = 0; g->dq && b < n; b += KV_BLOCK)
    kn->block(hd, w->rows16, kern_min(KV_BLOCK, n - b), k + b * hd, KV_BLOCK, 1, w->ds + b * QROWS,
              QROWS, GROUP, w->dqt, QROWS, true);
}

/* Keys [from, to) of a segment whose key 0 has logical position `base`. */
static void one_segment(const Grad *g, Work *w, const KvSeg *seg, int kvh, bool own, int base,
                        int pos0, int from, int to) {
  for (int j = from / KV_BLOCK * KV_BLOCK; j < to; j += KEYS)
    one_block(g, w, seg, kvh, own, base, pos0, j, kern_min(KEYS, to - j));
}

static void add_dq(const Grad *g, const Work *w, const AttnSpan *sp, int head) {
  const int hd = g->s->head_dim;
  for (int i = 0; i < w->rows; i++) {
    real *dq = g->dq + (sp->row + w->r0 + i) * g->lddq + head * hd;
    for (int d = 0; d < hd; d++) dq[d] += w->dqt[d * QROWS + i];
  }
}

static void grad_chunk(void *arg, int chunk, int worker) {
  const Grad *g = arg;
  const int head = chunk % g->s->heads, span = chunk / g->s->heads, kvh = head / g->group;
  const AttnSpan *sp = g->spans + span;
  const int plen = prefix_len(sp), win = g->s->window;
  const size_t copy = (size_t)keys_of(sp) * (size_t)g->hd16;
  Work w;
  work_lay_out(&w, scratch_of(&g->scratch, worker), g->hd16);
  w.dk = g->parts + g->at[span] + (size_t)head * 2 * copy;
  w.dv = w.dk + copy;
  memset(w.dk, 0, sizeof(real) * 2 * copy);
  for (w.r0 = 0; w.r0 < sp->n; w.r0 += QROWS) {
    w.rows = kern_min(QROWS, sp->n - w.r0);
    w.rows16 = round_up(w.rows, GROUP);
    const int pos0 = plen + w.r0, lo = win > 0 ? kern_max(0, pos0 - win + 1) : 0;
    load_rows(g, &w, sp, head);
    if (sp->prefix) one_segment(g, &w, sp->prefix, kvh, false, 0, pos0, lo, plen);
    one_segment(g, &w, sp->own, kvh, true, plen, pos0, kern_max(0, lo - plen), w.r0 + w.rows);
    if (g->dq) add_dq(g, &w, sp, head);
  }
}

/* dst's rows row0.., kv head's columns [c0, c0 + cols) += a copy's rows [from, from + n) */
static void add_copy(const Grad *g, real *dst, int kvh, int row0, const real *copy, int from, int n,
                     int c0, int cols) {
  const ptrdiff_t hd = g->s->head_dim;
  if (!dst) return;
  for (ptrdiff_t j = 0; j < n; j++) {
    real *y = dst + (row0 + j) * g->lddkv + kvh * hd + c0;
    kernels()->add((size_t)cols, y, copy + (from + j) * g->hd16 + c0, y);
  }
}

/* One kv head's columns of one group, all spans and heads in order. */
static void combine_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const Grad *g = arg;
  const int pieces = g->hd16 / GROUP, kvh = chunk / pieces, c0 = chunk % pieces * GROUP;
  const int cols = kern_min(GROUP, g->s->head_dim - c0);
  for (int i = 0; i < g->nspans; i++) {
    const AttnSpan *sp = g->spans + i;
    const int plen = prefix_len(sp);
    const size_t copy = (size_t)keys_of(sp) * (size_t)g->hd16;
    for (int head = kvh * g->group; head < (kvh + 1) * g->group; head++) {
      const real *dk = g->parts + g->at[i] + (size_t)head * 2 * copy, *dv = dk + copy;
      if (plen) {
        add_copy(g, g->dk, kvh, sp->prefix->row0, dk, 0, plen, c0, cols);
        add_copy(g, g->dv, kvh, sp->prefix->row0, dv, 0, plen, c0, cols);
      }
      add_copy(g, g->dk, kvh, sp->own->row0, dk, plen, sp->n, c0, cols);
      add_copy(g, g->dv, kvh, sp->own->row0, dv, plen, sp->n, c0, cols);
    }
  }
}

/* As many spans as the copies have room for, at least one. */
static Status one_wave(const Ctx *cx, Grad *g, int left) {
  const ArenaMark mark = arena_mark(cx->arena);
  size_t total = 0;
  g->at = arena_alloc(cx->arena, sizeof *g->at * (size_t)left);
  if (!g->at) return fail(GRPO_ENOMEM, "attention backward: scratch memory");
  for (g->nspans = 0; g->nspans < left; g->nspans++) {
    const size_t size = (size_t)keys_of(g->spans + g->nspans) * (size_t)(g->hd16 * 2 * g->s->heads);
    if (g->nspans && total + size > WAVE_REALS) break;
    g->at[g->nspans] = total;
    total += size;
  }
  g->parts = arena_alloc(cx->arena, sizeof(real) * total);
  if (!g->parts) return fail(GRPO_ENOMEM, "attention backward: scratch memory");
  pool_run(cx->pool, g->nspans * g->s->heads, grad_chunk, g);
  pool_run(cx->pool, g->s->kv_heads * (g->hd16 / GROUP), combine_chunk, g);
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

Status attn_backward(const Ctx *cx, const AttnShape *s, int nspans, const AttnSpan *spans,
                     const real *q, int ldq, const real *o, int ldo, const real *lse,
                     const real *dout, int lddo, real *dq, int lddq, real *dk, real *dv,
                     int lddkv) {
  const ArenaMark mark = arena_mark(cx->arena);
  Grad g = {.s = s,
            .group = s->heads / s->kv_heads,
            .hd16 = round_up(s->head_dim, GROUP),
            .q = q,
            .o = o,
            .lse = lse,
            .dout = dout,
            .ldq = ldq,
            .ldo = ldo,
            .lddo = lddo,
            .lddq = lddq,
            .lddkv = lddkv,
            .dq = dq,
            .dk = dk,
            .dv = dv};
  try(scratch_new(cx, work_size(g.hd16), "attention backward", &g.scratch));
  Status st = GRPO_OK;
  for (int at = 0; at < nspans && !st; at += g.nspans) {
    g.spans = spans + at;
    st = one_wave(cx, &g, nspans - at);
  }
  arena_release(cx->arena, mark);
  return st;
}
