/* attention_grad.c - attention backward for training spans.
 *
 * A piece is the rows of a span, at most PIECE of them.  Per piece and kv head, some units (query
 * rows, times the query heads of the kv head) at a time against KEYS keys:
 *   S^T = K Q^T, P^T = exp(z - lse), dP^T = V dO^T, z = scale S^T, or cap tanh(scale S^T / cap),
 *   dS = dz/dS P (dP - D), D = rowsum(dO o)
 *   dV += P^T dO,  dK += dS^T Q,  dQ += dS K
 * Along the edge of what rows see only keys are walked that some unit of a group sees.  dK and
 * dV of a span's own keys belong to its piece alone and are added in place; those of a prefix,
 * and of a span in several pieces, go to a private copy; copies are added in the pieces' order,
 * so neither threads nor the number of pieces handled at once can be seen in the result.
 */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/pool.h"
#include "kern/attention_grad.h"
#include "kern/attention_grad_bf16.h"

enum { UNITS = 48, KEYS = 64, STEP = 8, PIECE = 512, WAVE_REALS = 1 << 22 };

/* A worker's tile, and the piece's keys. */
typedef struct GradWork {
  real *q, *dout, *dq; /* [units, padded_hd] */
  real *qt, *dot;      /* [units / GROUP][head_dim][GROUP] */
  real *p, *ds;        /* [KEYS, units] */
  real *lse, *d;       /* [units] */
  int *lo, *hi;        /* [units]: keys that a unit sees */
  real *keys;          /* [max_keys, padded_hd] by logical position, and one block more */
  real *values;        /* as keys, where segments hold bf16 pairs */
  int r0, rows;        /* rows r0 .. r0 + rows - 1 of the span */
  int n, padded_n;     /* units, and the same in whole groups */
  real *dk, *dv;       /* partial dk and dv */
} GradWork;

static size_t key_size(const Grad *g) {
  return (size_t)(g->max_keys + KV_BLOCK) * (size_t)g->padded_hd;
}

static size_t work_size(const Grad *g) {
  return (size_t)(5 * g->units * g->padded_hd + 2 * KEYS * g->units + 4 * g->units) +
         (size_t)(g->bf16 ? 2 : 1) * key_size(g);
}

static GradWork work_of(const Grad *g, int worker) {
  const int tile = g->units * g->padded_hd, scores = KEYS * g->units;
  real *at = scratch_of(&g->scratch, worker);
  GradWork w = {.q = at, .dout = at + tile, .dq = at + 2 * tile, .qt = at + 3 * tile};
  w.dot = at + 4 * tile, w.p = at + 5 * tile, w.ds = w.p + scores;
  w.lse = w.ds + scores, w.d = w.lse + g->units;
  w.lo = (int *)(void *)(w.d + g->units), w.hi = (int *)(void *)(w.d + 2 * g->units);
  w.keys = w.d + 3 * g->units;
  w.values = w.keys + key_size(g);
  return w;
}

/* ---- loading ------------------------------------------------------------------------ */

/* Unit i of the tile: query row r0 + i / group, one head of the kv head. */
static void load_unit(const Grad *g, const GradWork *w, const AttnSpan *sp, int kvh, int i) {
  const int hd = g->s->head_dim, r = w->r0 + i / g->group, head = kvh * g->group + i % g->group;
  const ptrdiff_t row = sp->row + r, at = (ptrdiff_t)head * g->vd;
  const real *dout = g->dout + row * g->lddo + at;
  const real *q = g->q + row * g->ldq + head * hd;
  if (attn_rounds(g->s))
    kernels(g->cpu)->round_bf16((size_t)hd, q, w->q + i * g->padded_hd);
  else
    memcpy(w->q + i * g->padded_hd, q, sizeof(real) * (size_t)hd);
  memcpy(w->dout + i * g->padded_hd, dout, sizeof(real) * (size_t)g->vd);
  w->lse[i] = g->lse[row * g->s->heads + head];
  w->d[i] = kernels(g->cpu)->dot(g->vd, dout, g->o + row * g->ldo + at);
}

static void load_tile(const Grad *g, GradWork *w, const AttnSpan *sp, int kvh) {
  const int plen = prefix_len(sp), hd = g->s->head_dim, padded_hd = g->padded_hd;
  w->n = w->rows * g->group;
  w->padded_n = round_up(w->n, GROUP);
  if (g->vd < padded_hd) memset(w->q, 0, sizeof(real) * (size_t)(2 * g->units * padded_hd));
  for (int i = 0; i < w->padded_n; i++) {
    const int r = w->r0 + min_int(i, w->n - 1) / g->group;
    attn_sees(g->s, plen + r, plen + sp->n, &w->lo[i], &w->hi[i]);
    if (i < w->n) {
      load_unit(g, w, sp, kvh, i);
      continue;
    }
    memset(w->q + i * padded_hd, 0, sizeof(real) * (size_t)padded_hd);
    memset(w->dout + i * padded_hd, 0, sizeof(real) * (size_t)padded_hd);
    w->lse[i] = (real)INFINITY; /* a unit beyond the last has P = 0 */
    w->d[i] = 0;
  }
  for (int i = 0; i < w->padded_n; i += GROUP) {
    kernels(g->cpu)->transpose(GROUP, hd, w->q + i * padded_hd, padded_hd, w->qt + i * hd, GROUP);
    kernels(g->cpu)->transpose(GROUP, g->vd, w->dout + i * padded_hd, padded_hd, w->dot + i * hd,
                               GROUP);
  }
  memset(w->dq, 0, sizeof(real) * (size_t)(w->n * padded_hd));
}

static void add_dq(const Grad *g, const GradWork *w, const AttnSpan *sp, int kvh) {
  const int hd = g->s->head_dim;
  for (int i = 0; i < w->n; i++) {
    const int row = sp->row + w->r0 + i / g->group, head = kvh * g->group + i % g->group;
    real *dq = g->dq + row * g->lddq + head * hd;
    kernels(g->cpu)->add((size_t)hd, dq, w->dq + i * g->padded_hd, dq);
  }
}

/* ---- a tile and a block of keys ------------------------------------------------------- */

/* n keys of a segment: the logical position of the first, values, and where their gradients go. */
typedef struct GradBlock {
  int key, n;
  const real *v;
  ptrdiff_t ldv;
  real *dk, *dv;
  ptrdiff_t ld;
  int cols, v_cols; /* columns of dk and dv: a head's, or padded_hd in partial results */
} GradBlock;

/* the first unit that sees keys from `key` on */
static int first_unit(const Grad *g, const GradWork *w, int key) {
  return max_int(0, key + 1 - w->hi[0]) * g->group;
}

/* P and dS of keys [j, j + n) of the block, units [u, padded_n), a whole number of groups */
static void probabilities(const Grad *g, const GradWork *w, const GradBlock *b, int j, int n,
                          int u) {
  const Kernels *kn = kernels(g->cpu);
  const int hd = g->s->head_dim, at = j * g->units + u;
  if (u >= w->padded_n) return;
  kn->block(n, w->padded_n - u, hd, w->keys + (ptrdiff_t)(b->key + j) * g->padded_hd, g->padded_hd,
            1, w->qt + u * hd, GROUP, (ptrdiff_t)hd * GROUP, w->p + at, g->units, false);
  kn->block(n, w->padded_n - u, g->vd, b->v + j * b->ldv, b->ldv, 1, w->dot + u * hd, GROUP,
            (ptrdiff_t)hd * GROUP, w->ds + at, g->units, false);
  kn->attn_ds(n, w->padded_n - u, g->units, g->s->scale, g->s->softcap, w->lse + u, w->d + u,
              b->key + j, w->lo + u, w->hi + u, w->p + at, w->ds + at);
}

/* dK and dV of keys [j, j + n) from units [u, n) */
static void add_keys(const Grad *g, const GradWork *w, const GradBlock *b, int j, int n, int u) {
  const int at = j * g->units + u;
  if (u >= w->n) return;
  if (b->dv)
    kernels(g->cpu)->block(n, b->v_cols, w->n - u, w->p + at, g->units, 1,
                           w->dout + u * g->padded_hd, g->padded_hd, GROUP, b->dv + j * b->ld,
                           b->ld, true);
  if (b->dk)
    kernels(g->cpu)->block(n, b->cols, w->n - u, w->ds + at, g->units, 1, w->q + u * g->padded_hd,
                           g->padded_hd, GROUP, b->dk + j * b->ld, b->ld, true);
}

/* dQ of units [u, u + n) from the block's first `keys` keys */
static void add_queries(const Grad *g, const GradWork *w, const GradBlock *b, int u, int n,
                        int keys) {
  if (g->dq && keys > 0)
    kernels(g->cpu)->block(n, g->padded_hd, keys, w->ds + u, 1, g->units,
                           w->keys + (ptrdiff_t)b->key * g->padded_hd, g->padded_hd, GROUP,
                           w->dq + u * g->padded_hd, g->padded_hd, true);
}

static void one_block(const Grad *g, const GradWork *w, const GradBlock *b) {
  if (b->key + b->n <= w->hi[0]) { /* the first row has no later keys */
    probabilities(g, w, b, 0, b->n, 0);
    add_keys(g, w, b, 0, b->n, 0);
    add_queries(g, w, b, 0, w->n, b->n);
    return;
  }
  for (int j = 0; j < b->n; j += STEP) {
    const int u = first_unit(g, w, b->key + j), n = min_int(STEP, b->n - j);
    probabilities(g, w, b, j, n, u / GROUP * GROUP);
    add_keys(g, w, b, j, n, u);
  }
  for (int u = 0; u < w->n; u += STEP) {
    const int n = min_int(STEP, w->n - u);
    add_queries(g, w, b, u, n, min_int(b->n, w->hi[u + n - 1] - b->key));
  }
}

/* Computes the tile against keys [from, to) of a segment whose key 0 has the logical position
 * `base`.  Gradients go to rows from `base` on of the partial results, or to their place. */
static void one_segment(const Grad *g, const GradWork *w, const KvSeg *seg, int kvh, bool in_place,
                        int base, int from, int to) {
  const ptrdiff_t hd = g->s->head_dim, ld = in_place ? g->lddkv : g->padded_hd;
  const ptrdiff_t at = in_place ? seg->row0 * ld + kvh * hd : base * ld;
  real *dk = in_place ? g->dk : w->dk, *dv = in_place ? g->dv : w->dv;
  for (int j = from; j < to; j += KEYS) {
    const GradBlock b = {.key = base + j,
                         .n = min_int(KEYS, to - j),
                         .v = g->bf16 ? w->values + (ptrdiff_t)(base + j) * g->padded_hd
                                      : seg->v + ((ptrdiff_t)kvh * seg->cap + j) * hd,
                         .ldv = g->bf16 ? g->padded_hd : hd,
                         .dk = g->dk ? dk + at + j * ld : NULL,
                         .dv = g->dv ? dv + at + j * ld : NULL,
                         .ld = ld,
                         .cols = in_place ? g->s->head_dim : g->padded_hd,
                         .v_cols = in_place ? g->vd : g->padded_hd};
    one_block(g, w, &b);
  }
}

/* Loads the first n keys of a segment as rows from `at` on, and its values if it holds bf16
 * pairs. */
static void load(const Grad *g, const GradWork *w, const KvSeg *seg, int kvh, int n, ptrdiff_t at) {
  kv_load_keys(g->s, seg, kvh, n, w->keys + at * g->padded_hd, g->padded_hd);
  if (g->bf16) kv_load_values(g->s, seg, kvh, n, w->values + at * g->padded_hd, g->padded_hd);
}

static void grad_chunk(void *arg, int chunk, int worker) {
  const Grad *g = arg;
  const int kvh = chunk % g->s->kv_heads, step = max_int(1, UNITS / g->group);
  const Piece *pc = g->piece + chunk / g->s->kv_heads;
  const AttnSpan *sp = pc->span;
  if (g->tiles) {
    grad_bf16(g, pc, kvh, worker);
    return;
  }
  const int plen = prefix_len(sp);
  const size_t copy = (size_t)pc->copied * (size_t)g->padded_hd;
  GradWork w = work_of(g, worker);
  w.dk = g->parts + pc->at + (size_t)kvh * 2 * copy;
  w.dv = w.dk + copy;
  memset(w.dk, 0, sizeof(real) * 2 * copy);
  if (sp->prefix) load(g, &w, sp->prefix, kvh, plen, 0);
  load(g, &w, sp->own, kvh, piece_keys(g, pc), plen);
  for (w.r0 = pc->from; w.r0 < pc->to; w.r0 += step) {
    w.rows = min_int(step, pc->to - w.r0);
    load_tile(g, &w, sp, kvh);
    const int lo = w.lo[0], hi = w.hi[w.n - 1];
    if (sp->prefix) one_segment(g, &w, sp->prefix, kvh, false, 0, lo, plen);
    one_segment(g, &w, sp->own, kvh, pc->copied == plen, plen, max_int(0, lo - plen), hi - plen);
    if (g->dq) add_dq(g, &w, sp, kvh);
  }
}

/* ---- adding partial results ---- */

/* dst's rows row0.., kv head's columns [c0, c0 + cols) += a copy's rows [from, from + n) */
static void add_copy(const Grad *g, real *dst, int kvh, int row0, const real *copy, int from, int n,
                     int c0, int cols) {
  const ptrdiff_t hd = g->s->head_dim;
  if (!dst) return;
  for (ptrdiff_t j = 0; j < n; j++) {
    real *y = dst + (row0 + j) * g->lddkv + kvh * hd + c0;
    kernels(g->cpu)->add((size_t)cols, y, copy + (from + j) * g->padded_hd + c0, y);
  }
}

/* One kv head's columns of one group, with all pieces in order. */
static void combine_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const Grad *g = arg;
  const int pieces = g->padded_hd / GROUP, kvh = chunk / pieces, c0 = chunk % pieces * GROUP;
  const int cols = min_int(GROUP, g->s->head_dim - c0);
  for (int i = 0; i < g->npieces; i++) {
    const Piece *pc = g->piece + i;
    const int plen = prefix_len(pc->span), own = pc->copied - plen;
    const size_t copy = (size_t)pc->copied * (size_t)g->padded_hd;
    const real *dk = g->parts + pc->at + (size_t)kvh * 2 * copy, *dv = dk + copy;
    if (plen) {
      add_copy(g, g->dk, kvh, pc->span->prefix->row0, dk, 0, plen, c0, cols);
      add_copy(g, g->dv, kvh, pc->span->prefix->row0, dv, 0, plen, c0, cols);
    }
    add_copy(g, g->dk, kvh, pc->span->own->row0, dk, plen, own, c0, cols);
    add_copy(g, g->dv, kvh, pc->span->own->row0, dv, plen, own, c0, cols);
  }
}

/* ---- waves -------------------------------------------------------------------------------- */

/* The next piece; false: none is left. */
static bool next_piece(const Grad *g, int *span, int *row, Piece *pc) {
  while (*span < g->nspans && *row >= g->spans[*span].n) ++*span, *row = 0;
  if (*span == g->nspans) return false;
  const AttnSpan *sp = g->spans + *span;
  *pc = (Piece){.span = sp, .from = *row, .to = min_int(*row + PIECE, sp->n)};
  pc->copied = prefix_len(sp) + (sp->n > PIECE ? piece_keys(g, pc) : 0);
  *row = pc->to;
  return true;
}

static size_t copy_reals(const Grad *g, const Piece *pc) {
  return (size_t)pc->copied * (size_t)(g->padded_hd * 2 * g->s->kv_heads);
}

/* Takes as many pieces as there is room for their partial results, at least one.  With `piece` they
 * are stored there; *total is the number of reals that the results take. */
static int take_pieces(Grad *g, Piece *to, size_t *total) {
  int n = 0, span = g->span, row = g->row;
  Piece pc;
  *total = 0;
  for (int s = span, r = row; next_piece(g, &s, &r, &pc); n++, span = s, row = r) {
    const size_t size = copy_reals(g, &pc);
    if (n && *total + size > WAVE_REALS) break;
    pc.at = *total;
    *total += size;
    if (to) to[n] = pc;
  }
  if (to) g->span = span, g->row = row;
  return n;
}

static Status one_wave(const Ctx *cx, Grad *g) {
  const ArenaMark mark = arena_mark(cx->arena);
  size_t total;
  g->npieces = take_pieces(g, NULL, &total);
  g->piece = arena_alloc(cx->arena, sizeof *g->piece * (size_t)(g->npieces + 1));
  g->parts = arena_alloc(cx->arena, sizeof(real) * (total + GROUP));
  if (!g->piece || !g->parts) return fail(GRPO_ENOMEM, "attention backward: scratch memory");
  take_pieces(g, g->piece, &total);
  pool_run(cx->pool, g->npieces * g->s->kv_heads, grad_chunk, g);
  if (total) pool_run(cx->pool, g->s->kv_heads * (g->padded_hd / GROUP), combine_chunk, g);
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

Status attn_backward(const Ctx *cx, const AttnShape *s, int nspans, const AttnSpan *spans,
                     const real *q, int ldq, const real *o, int ldo, const real *lse,
                     const real *dout, int lddo, real *dq, int lddq, real *dk, real *dv,
                     int lddkv) {
  const ArenaMark mark = arena_mark(cx->arena);
  const int group = s->heads / s->kv_heads;
  Grad g = {.cpu = s->cpu,
            .s = s,
            .spans = spans,
            .bf16 = kv_in_bf16(s),
            .tiles = grad_in_bf16(s),
            .nspans = nspans,
            .group = group,
            .padded_hd = round_up(s->head_dim, GROUP),
            .vd = attn_value_dim(s),
            .units = round_up(max_int(1, UNITS / group) * group, GROUP),
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
  for (int i = 0; i < nspans; i++)
    g.max_keys = max_int(g.max_keys, prefix_len(spans + i) + spans[i].n);
  const size_t size = g.tiles ? grad_bf16_size(&g) : work_size(&g);
  try(scratch_new(cx, size, "attention backward", &g.scratch));
  do try(one_wave(cx, &g));
  while (g.npieces);
  arena_release(cx->arena, mark);
  return GRPO_OK;
}
