/* gemm_bf16_native.c - products in bf16 where the CPU multiplies bf16 by itself (KernelsBf16).
 *
 * All of them are one product c[m,n] (+)= a b.  First a is rounded and packed whole into scratch
 * memory.  b comes in panels: packed ones, or blocks that are unpacked from a quantised weight or,
 * for dx, transposed when they are needed.
 *
 * The inner dimension is walked in blocks with c loaded again, which changes no bit.  How a product
 * is cut depends on its shape alone. */
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/pool.h"
#include "kern/gemm_bf16_native.h"
#include "kern/panels.h"
#include "kern/scratch.h"

enum {
  /* Rows of a chunk, and pairs of inner steps of a block, when panels are unpacked or transposed
   * here. */
  UNPACKED_ROWS = 512,
  UNPACKED_PAIRS = 128,
  /* Pairs of a block when packed panels come from memory and each block is prefetched while the
   * one before it is multiplied: for several tiles of rows, and for a single one (at most
   * ONE_TILE rows). */
  FEW_PAIRS = 96,
  LONE_PAIRS = 48,
  ONE_TILE = 8,
  /* Weights with at most this many pairs are small and stay in the cache: they are cut as for
   * many rows. */
  SHORT = 128,
  /* Pairs of a block for the few rows that KernelsBf16 names. */
  LONG = 1024,
  /* Up to this many rows panels come from memory as a stream. */
  STREAM = 32,
  /* Panels that share a chunk's rows, but fewer if there would be less than CHUNKS chunks. */
  PANELS = 4,
  CHUNKS = 16,
  /* Multiply-adds that are worth a chunk of their own. */
  CHUNK_WORK = 1 << 17,
  /* Pairs of a chunk's rows that stay in the second-level cache. */
  NEAR = 1 << 16,
  /* Packing rows: values that are worth a chunk of their own, and inner steps (whole units) of a
   * chunk that packs columns. */
  PAIR_VALUES = 1 << 14,
  PAIR_STEPS = 32,
  /* Inner steps that are unpacked at a time. */
  UNPACK_STEPS = 64,
  /* Few rows of a quantised weight: rows at most, inner steps whose scales are looked up at once,
   * and columns of a panel. */
  MOST_FEW = 8,
  FEW_DEPTH = 1024,
  FEW_WIDTH = 6 * GROUP,
  /* Groups of outputs that are prefetched before they are transposed. */
  GROUPS_AHEAD = 2
};

typedef enum Source { PACKED, QUANTISED, TRANSPOSED } Source; /* where panels of b come from */

typedef struct Bf16Product {
  const KernelClass *cpu;
  int m, n, pairs;         /* c [m,n] */
  int padded;              /* pairs of a row of a, in whole units */
  int rows, panels, width; /* rows and panels of a chunk; columns of a panel */
  int step;                /* pairs of inner steps of a block */
  int row_chunks, col_chunks;
  Source source;
  const QuantWeight *w;  /* QUANTISED, TRANSPOSED */
  const uint32_t *a, *b; /* b: PACKED */
  ptrdiff_t bgs;
  const real *bias;
  const LowRank *low;
  real *c;
  ptrdiff_t ldc;
  bool add;
  Scratch scratch;
} Bf16Product;

/* ---- panels of b: groups of columns; a lone last one takes one from the panel before ---- */
static int panel_count(const Bf16Product *q) { return ceil_div(q->n, q->width); }

/* the first group of panel p */
static int panel_start(const Bf16Product *q, int p) {
  const int groups = ceil_div(q->n, GROUP), most = q->width / GROUP, start = p * most;
  if (start >= groups) return groups;
  return p > 0 && start == groups - 1 ? start - 1 : start;
}

/* Unpacks NF4 that has whole blocks in every row: inner steps at .. end - 1. */
static void unpack_nf4(const KernelClass *cpu, const QuantWeight *w, int group, int at, int end,
                       uint32_t *out) {
  enum { BLOCKS = 4 };
  real scale[BLOCKS][GROUP];
  while (at < end) {
    const int first = at - at % NF4_BLOCK, last = min_int(end, first + BLOCKS * NF4_BLOCK);
    quant_scales(cpu, w, group, first, ceil_div(last - first, NF4_BLOCK), scale[0], GROUP);
    for (int b = 0; at < last; b++) {
      const int next = min_int(last, first + (b + 1) * NF4_BLOCK);
      kernels_bf16(cpu)->widen_nf4(next - at, quant_values(w, group, at), scale[b], out);
      out += (next - at) / 2 * GROUP;
      at = next;
    }
  }
}

/* Unpacks `pairs` pairs of inner steps from p0 of a group, whatever type the weight has. */
static void unpack_group(const KernelClass *cpu, const QuantWeight *w, int group, int p0, int pairs,
                         uint32_t *out) {
  real block[UNPACK_STEPS * GROUP];
  const int end = min_int(w->k, 2 * (p0 + pairs));
  if (w->type == QUANT_F32) {
    ptrdiff_t ld;
    const float *steps = quant_steps(w, group, 2 * p0, &ld);
    kernels_bf16(cpu)->widen_f32(end - 2 * p0, steps, ld, out);
    return;
  }
  const void *from = quant_values(w, group, 2 * p0);
  if (w->type == QUANT_F16) {
    kernels_bf16(cpu)->widen_f16(end - 2 * p0, from, out);
    return;
  }
  if (w->type == QUANT_INT8) {
    quant_scales(cpu, w, group, 0, 1, block, GROUP);
    kernels_bf16(cpu)->widen_int8(end - 2 * p0, from, block, out);
    return;
  }
  if (w->k % NF4_BLOCK == 0) {
    unpack_nf4(cpu, w, group, 2 * p0, end, out);
    return;
  }
  for (int at = 2 * p0; at < end; at += UNPACK_STEPS, out += UNPACK_STEPS / 2 * GROUP) {
    const int depth = min_int(UNPACK_STEPS, end - at);
    quant_unpack(cpu, w, group, at, depth, block);
    kernels_bf16(cpu)->pair_group(depth, GROUP, block, GROUP, out);
  }
}

/* For dx: pairs of outputs from pair p0 (a multiple of 8), and columns from group `group` of inner
 * steps on.  A group of outputs gives 8 pairs of every column. */
static void transpose_panel(const Bf16Product *q, int group, int groups, int p0, int pairs,
                            uint32_t *out, uint32_t *block) {
  const QuantWeight *w = q->w;
  const int lines = min_int(groups * GROUP / 2, ceil_div(w->k, 2) - group * (GROUP / 2));
  for (int p = 0; p < pairs; p += GROUP / 2) {
    const int from = (p0 + p) / (GROUP / 2);
    const uint32_t *pairs_of;
    if (w->type == QUANT_BF16) {
      pairs_of = quant_values(w, from, group * GROUP);
      const uint32_t *then = pairs_of + GROUPS_AHEAD * quant_stride(w) / 2;
      for (int i = 0; i < lines; i++) __builtin_prefetch(then + i * GROUP);
    } else {
      unpack_group(q->cpu, w, from, group * (GROUP / 2), lines, block);
      pairs_of = block;
    }
    kernels_bf16(q->cpu)->transpose(lines, pairs_of, out + p * GROUP, q->step * GROUP);
  }
}

static const uint32_t *panel_of(const Bf16Product *q, int group, int groups, int p0, int pairs,
                                uint32_t *scratch, ptrdiff_t *bgs) {
  if (q->source == PACKED) {
    *bgs = q->bgs;
    return q->b + group * q->bgs + (ptrdiff_t)p0 * GROUP;
  }
  *bgs = q->step * GROUP;
  if (q->source == TRANSPOSED)
    transpose_panel(q, group, groups, p0, pairs, scratch, scratch + q->step * q->width);
  else
    for (int g = 0; g < groups; g++)
      unpack_group(q->cpu, q->w, group + g, p0, pairs, scratch + g * *bgs);
  return scratch;
}

/* ---- few rows times a quantised weight: values are unpacked in registers ---- */

static bool are_few(const Bf16Product *q) {
  const QuantType type = q->source == QUANTISED ? q->w->type : QUANT_F32;
  if (!kernels_bf16(q->cpu)->quant_few || q->m > min_int(MOST_FEW, kernels_bf16(q->cpu)->mr))
    return false;
  return type == QUANT_INT8 || type == QUANT_F16 || (type == QUANT_NF4 && q->w->k % NF4_BLOCK == 0);
}

/* c [m, groups] = a w^T + bias of a panel's groups */
static void few_panel(const Bf16Product *q, int group, int groups, const real *bias, real *c,
                      ptrdiff_t ldc) {
  const QuantWeight *w = q->w;
  real scale[FEW_DEPTH / NF4_BLOCK][FEW_WIDTH];
  QuantFewBf16 f = {.type = w->type, .rows = q->m, .groups = groups};
  f.stride = quant_stride(w) * (w->type == QUANT_NF4 ? 4 : w->type == QUANT_F16 ? 2 : 1);
  f.scale = scale[0], f.scale_ld = FEW_WIDTH;
  f.bias = bias, f.c = c, f.ldc = ldc;
  quant_fetch_scales(w, group + groups, groups);
  for (int k0 = 0; k0 < w->k; k0 += FEW_DEPTH) {
    f.depth = min_int(FEW_DEPTH, w->k - k0);
    const int blocks = w->type == QUANT_NF4 ? f.depth / NF4_BLOCK : 1;
    for (int g = 0; g < groups && w->type != QUANT_F16; g++)
      quant_scales(q->cpu, w, group + g, k0, blocks, scale[0] + g * GROUP, FEW_WIDTH);
    f.a = q->a + (ptrdiff_t)(k0 / 2) * q->m;
    f.lda = ceil_div(f.depth, 2);
    f.w = quant_values(w, group, k0);
    f.add = k0 > 0;
    kernels_bf16(q->cpu)->quant_few(&f);
  }
}

static void few_chunk(void *arg, int chunk, int worker) {
  const Bf16Product *q = arg;
  const int last = min_int(panel_count(q), (chunk + 1) * q->panels);
  real sums[MOST_FEW * FEW_WIDTH], bias[FEW_WIDTH] = {0};
  (void)worker;
  for (int p = chunk * q->panels; p < last; p++) {
    const int at = p * q->width, cols = min_int(q->width, q->n - at);
    const bool whole = cols % GROUP == 0;
    const real *first = q->bias ? q->bias + at : NULL;
    real *c = q->c + at;
    if (!whole && first) first = memcpy(bias, first, sizeof(real) * (size_t)cols);
    few_panel(q, at / GROUP, ceil_div(cols, GROUP), first, whole ? c : sums,
              whole ? q->ldc : FEW_WIDTH);
    for (int i = 0; i < q->m && !whole; i++)
      memcpy(c + i * q->ldc, sums + i * FEW_WIDTH, sizeof(real) * (size_t)cols);
    low_rank_add(q->cpu, q->low, q->n, 0, q->m, at, cols, c, q->ldc);
  }
}

/* ---- chunks ---- */

/* Where a packed panel begins at pair p0; NULL: there is no such panel, or it is yet to be
 * unpacked. */
static const uint32_t *there(const Bf16Product *q, int panel, int p0) {
  const bool alone = kernels_bf16(q->cpu)->few_fetch && q->m <= kernels_bf16(q->cpu)->few;
  if (!q->w || q->source != PACKED || alone || panel >= panel_count(q)) return NULL;
  return q->b + panel_start(q, panel) * q->bgs + (ptrdiff_t)p0 * GROUP;
}

static void multiply(const Bf16Product *q, int r0, int rows, int panel, int p0,
                     const uint32_t *next, uint32_t *scratch) {
  const int group = panel_start(q, panel), groups = panel_start(q, panel + 1) - group;
  const int at = group * GROUP, cols = min_int(groups * GROUP, q->n - at);
  const int pairs = min_int(q->step, q->pairs - p0);
  real *c = q->c + r0 * q->ldc + at;
  ptrdiff_t bgs;
  const uint32_t *b = panel_of(q, group, groups, p0, pairs, scratch, &bgs);
  kernels_bf16(q->cpu)->block(rows, cols, pairs,
                              q->a + (ptrdiff_t)r0 * q->padded + (ptrdiff_t)p0 * rows, b, bgs, next,
                              q->bias && !p0 ? q->bias + at : NULL, c, q->ldc, q->add || p0 > 0);
  if (p0 + pairs == q->pairs) low_rank_add(q->cpu, q->low, q->n, r0, rows, at, cols, c, q->ldc);
}

/* A thread takes chunks that follow one another, and they should share little with those of another
 * thread.  So each thread has its own rows; or, if the weight is much wider and should be read only
 * once, its own panels. */
static bool by_rows(const Bf16Product *q) { return shares_rows(q->m, q->n); }
static int row_chunk(const Bf16Product *q, int chunk) {
  return by_rows(q) ? chunk / q->col_chunks : chunk % q->row_chunks;
}
static int first_panel(const Bf16Product *q, int chunk) {
  return (by_rows(q) ? chunk % q->col_chunks : chunk / q->row_chunks) * q->panels;
}

static void chunk_of(void *arg, int chunk, int worker) {
  const Bf16Product *q = arg;
  const int r0 = row_chunk(q, chunk) * q->rows, rows = min_int(q->rows, q->m - r0);
  const int first = first_panel(q, chunk), last = min_int(first + q->panels, panel_count(q));
  /* panels alternate at a block of a, unless the rows of a stay in the cache anyway */
  const int together = (double)rows * q->pairs <= NEAR ? 1 : q->panels;
  uint32_t *scratch = (uint32_t *)scratch_of(&q->scratch, worker);
  for (int p = first; p < last; p += together) {
    const int end = min_int(p + together, last);
    const int later = end < last ? end : first_panel(q, chunk + 1);
    for (int p0 = 0; p0 < q->pairs; p0 += q->step)
      for (int i = p; i < end; i++) {
        const int after = p0 + q->step;
        const uint32_t *next = i + 1 < end        ? there(q, i + 1, p0)
                               : after < q->pairs ? there(q, p, after)
                                                  : there(q, later, 0);
        multiply(q, r0, rows, i, p0, next, scratch);
      }
  }
}

/* rounds pairs up to whole units */
static int padded(const KernelClass *cpu, int pairs) {
  return round_up(pairs, kernels_bf16(cpu)->unit);
}

static void cut(Bf16Product *q) {
  const KernelsBf16 *kn = kernels_bf16(q->cpu);
  const int most = q->source == TRANSPOSED ? UNPACKED_ROWS : kn->rows;
  q->rows = round_up(ceil_div(q->m, ceil_div(q->m, most)), kn->mr);
  q->row_chunks = ceil_div(q->m, q->rows);
  q->padded = padded(q->cpu, q->pairs);
  if (are_few(q)) {
    q->rows = q->m;
    q->row_chunks = 1;
    q->width = FEW_WIDTH;
    q->step = FEW_DEPTH / 2;
    return;
  }
  q->width = GROUP * (q->m <= kn->few ? kn->few_groups : kn->groups);
  if (q->source != PACKED)
    q->step = UNPACKED_PAIRS * kn->groups * GROUP / q->width;
  else if (q->m <= kn->few)
    q->step = LONG;
  else { /* evenly */
    const bool whole = q->m > STREAM || q->pairs <= SHORT;
    const int pairs = whole ? kn->pairs : q->m <= ONE_TILE ? LONE_PAIRS : FEW_PAIRS;
    q->step = round_up(ceil_div(q->pairs, ceil_div(q->pairs, pairs)), max_int(8, kn->unit));
  }
}

static Status run(const Ctx *cx, Bf16Product *q, const char *what) {
  const int panels = panel_count(q);
  const double work = (double)min_int(q->m, q->rows) * 2 * q->pairs * q->width;
  const int shared =
      min_int(PANELS, panels * q->row_chunks / (q->m <= STREAM ? CHUNKS / 2 : CHUNKS));
  q->panels = max_int(1, max_int((int)(CHUNK_WORK / (work + 1)) + 1, shared));
  if (are_few(q)) {
    q->panels = (int)(CHUNK_WORK / (work + 1)) + 1;
    pool_run(cx->pool, ceil_div(panels, q->panels), few_chunk, q);
    return GRPO_OK;
  }
  const size_t panel = (size_t)q->step * (size_t)q->width, one_group = GROUP / 2 * (size_t)q->width;
  if (q->source != PACKED) try(scratch_new(cx, panel + one_group, what, &q->scratch));
  q->col_chunks = ceil_div(panels, q->panels);
  pool_run(cx->pool, q->row_chunks * q->col_chunks, chunk_of, q);
  return GRPO_OK;
}

/* ---- packing a: tiles of rows, pairs of inner steps, block after block of a chunk ---- */
typedef struct Operand {
  const KernelClass *cpu;
  int m, depth, rows, step; /* rows, step: those of the product */
  int tiles, span;          /* tiles and inner steps of a chunk that packs */
  int parts;                /* into how many parts the tiles are cut */
  const real *x;
  ptrdiff_t ldx;
  bool columns; /* x is [depth, m] */
  uint32_t *out;
} Operand;

/* Packs inner steps k0 .. k1 - 1 of tiles from row r on, up to `end` or the end of a chunk of the
 * product; returns the rows done. */
static int pair_tiles(const Operand *o, int r, int end, int k0, int k1) {
  const int mr = kernels_bf16(o->cpu)->mr, r0 = r / o->rows * o->rows,
            chunk = min_int(o->rows, o->m - r0);
  const int left = chunk - (r - r0);
  if (r > r0 && left < mr) return mr; /* was packed with the tile before it */
  const int some = min_int(end - r, left), rows = left - some < mr ? left : some;
  uint32_t *first = o->out + (ptrdiff_t)r0 * padded(o->cpu, ceil_div(o->depth, 2));
  for (int k = k0, depth; k < k1; k += depth) {
    const int block = k - k % (2 * o->step);
    const int pairs = ceil_div(min_int(2 * o->step, o->depth - block), 2);
    uint32_t *out =
        first + (ptrdiff_t)(block / 2) * chunk + (ptrdiff_t)(r - r0) * padded(o->cpu, pairs);
    depth = min_int(k1, block + 2 * o->step) - k;
    if (o->columns)
      kernels_bf16(o->cpu)->pair_columns(rows, depth, o->x + k * o->ldx + r, o->ldx,
                                         padded(o->cpu, pairs), (k - block) / 2, out);
    else
      kernels_bf16(o->cpu)->pair_rows(rows, depth, o->x + r * o->ldx + k, o->ldx, out);
  }
  return round_up(rows, mr);
}

static void operand_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const Operand *o = arg;
  const int rows = o->tiles * kernels_bf16(o->cpu)->mr, part = chunk % o->parts;
  const int k0 = chunk / o->parts * o->span, k1 = min_int(o->depth, k0 + o->span);
  const int end = min_int(o->m, (part + 1) * rows);
  for (int r = part * rows; r < end;) r += pair_tiles(o, r, end, k0, k1);
}

/* Makes q->a from x [m, depth], or with `columns` from x [depth, m]. */
static Status make_a(const Ctx *cx, Bf16Product *q, int depth, const real *x, ptrdiff_t ldx,
                     bool columns, const char *what) {
  const size_t pairs = (size_t)q->m * (size_t)q->padded;
  Operand o = {.cpu = cx->cpu, .m = q->m, .depth = depth, .rows = q->rows, .step = q->step};
  o.x = x, o.ldx = ldx, o.columns = columns;
  q->a = o.out = arena_alloc(cx->arena, sizeof(uint32_t) * (pairs + 1));
  if (!o.out) return fail(GRPO_ENOMEM, "%s: scratch memory", what);
  const int mr = kernels_bf16(cx->cpu)->mr, tiles = ceil_div(q->m, mr);
  o.span = columns ? PAIR_STEPS : depth;
  o.tiles = PAIR_VALUES / (mr * (o.span + 1)) + 1;
  o.parts = ceil_div(tiles, o.tiles);
  pool_run(cx->pool, o.parts * ceil_div(depth, o.span), operand_chunk, &o);
  return GRPO_OK;
}

/* ---- the products ---- */

static Status product(const Ctx *cx, Bf16Product *q, int depth, const real *x, ptrdiff_t ldx,
                      const char *what) {
  const ArenaMark mark = arena_mark(cx->arena);
  cut(q);
  try(make_a(cx, q, depth, x, ldx, false, what));
  try(run(cx, q, what));
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

Status gemm_bf16_native_forward(const Ctx *cx, int m, const QuantWeight *w, const real *x,
                                ptrdiff_t ldx, const real *bias, const LowRank *low, real *y,
                                ptrdiff_t ldy) {
  Bf16Product q = {
      .cpu = cx->cpu, .m = m, .n = w->n, .pairs = ceil_div(w->k, 2), .w = w, .bias = bias};
  q.source = w->type == QUANT_BF16 ? PACKED : QUANTISED;
  q.low = low, q.c = y, q.ldc = ldy;
  if (q.source == PACKED) q.b = w->data, q.bgs = (ptrdiff_t)q.pairs * GROUP;
  return product(cx, &q, w->k, x, ldx, "product in bf16");
}

Status gemm_bf16_native_dx(const Ctx *cx, int m, const QuantWeight *w, const real *dy,
                           ptrdiff_t lddy, const LowRank *low, real *dx, ptrdiff_t lddx, bool add) {
  Bf16Product q = {
      .cpu = cx->cpu, .m = m, .n = w->k, .pairs = ceil_div(w->n, 2), .source = TRANSPOSED, .w = w};
  q.low = low, q.c = dx, q.ldc = lddx, q.add = add;
  return product(cx, &q, w->n, dy, lddy, "dx in bf16");
}

Status gemm_bf16_native_dx_transposed(const Ctx *cx, int m, const QuantWeight *transposed,
                                      const real *dy, ptrdiff_t lddy, const LowRank *low, real *dx,
                                      ptrdiff_t lddx, bool add) {
  Bf16Product q = {.cpu = cx->cpu, .m = m, .n = transposed->n, .source = PACKED, .w = transposed};
  q.pairs = ceil_div(transposed->k, 2), q.b = transposed->data, q.bgs = (ptrdiff_t)q.pairs * GROUP;
  q.low = low, q.c = dx, q.ldc = lddx, q.add = add;
  return product(cx, &q, transposed->k, dy, lddy, "dx in bf16");
}

typedef struct Columns {
  const KernelClass *cpu;
  int m, k, groups, parts; /* groups of a chunk; parts of them */
  const real *x;
  ptrdiff_t ldx;
  uint32_t *out;
} Columns;

static void columns_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const Columns *j = arg;
  const int part = chunk % j->parts, k = chunk / j->parts * PAIR_STEPS;
  const int last = min_int(ceil_div(j->k, GROUP), (part + 1) * j->groups);
  for (int g = part * j->groups; g < last; g++)
    kernels_bf16(j->cpu)->pair_group(
        min_int(PAIR_STEPS, j->m - k), min_int(GROUP, j->k - g * GROUP),
        j->x + k * j->ldx + g * GROUP, j->ldx,
        j->out + (ptrdiff_t)g * ceil_div(j->m, 2) * GROUP + k / 2 * GROUP);
}

Status gemm_bf16_native_dw(const Ctx *cx, int m, int n, int k, const real *dy, ptrdiff_t lddy,
                           const real *x, ptrdiff_t ldx, real *dw, bool add) {
  const ArenaMark mark = arena_mark(cx->arena);
  Bf16Product q = {
      .cpu = cx->cpu, .m = n, .n = k, .pairs = ceil_div(m, 2), .source = PACKED, .c = dw, .ldc = k};
  q.add = add;
  q.bgs = (ptrdiff_t)q.pairs * GROUP;
  cut(&q);
  Columns j = {cx->cpu, m, k, PAIR_VALUES / (GROUP * PAIR_STEPS) + 1, 0, x, ldx, NULL};
  j.parts = ceil_div(ceil_div(k, GROUP), j.groups);
  const int groups = ceil_div(k, GROUP);
  q.b = j.out = arena_alloc(cx->arena, sizeof(uint32_t) * (size_t)groups * (size_t)q.bgs);
  if (!j.out) return fail(GRPO_ENOMEM, "dw in bf16: scratch memory");
  pool_run(cx->pool, j.parts * ceil_div(m, PAIR_STEPS), columns_chunk, &j);
  try(make_a(cx, &q, m, dy, lddy, true, "dw in bf16"));
  try(run(cx, &q, "dw in bf16"));
  arena_release(cx->arena, mark);
  return GRPO_OK;
}
