/* gemm_bf16_native.c - products in bf16 where the CPU multiplies bf16 itself (KernelsBf16).
 *
 * All of them are one: c[m,n] (+)= a b, a rounded and paired whole into scratch memory first, b in
 * panels that are packed already, unpacked from a compact weight, or transposed (dx) a block at a time.
 * The inner dimension is walked in blocks with c reloaded, which changes no bit; what a thread takes
 * at a time depends on shapes only.
 */
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/pool.h"
#include "kern/gemm_bf16_native.h"
#include "kern/panels.h"
#include "kern/scratch.h"

enum {
  UNPACKED_ROWS = 512,  /* a chunk, when panels are transposed for them */
  UNPACKED_PAIRS = 128, /* pairs of inner steps a block when panels are made here */
  FEW_PAIRS = 96,       /* the same when panels come from memory, each block while the one before */
  LONE_PAIRS = 48,      /* is multiplied by all rows: those of several tiles, and of one */
  SHORT = 128,          /* not of so few: such weights are small and stay in the cache */
  LONG = 1024,          /* the same for few rows */
  ONE_TILE = 8,         /* rows at most that are one tile, */
  STREAM = 32,          /* that panels come from memory for */
  PANELS = 4,           /* at most, that share a chunk's rows of a */
  CHUNKS = 16,          /* fewer panels a chunk rather than fewer chunks than this */
  CHUNK_WORK = 1 << 17, /* multiply-adds worth a chunk of their own */
  NEAR = 1 << 16,       /* pairs of a chunk's rows of a that stay in L2 */
  PAIR_VALUES = 1 << 14, /* values paired worth a chunk of their own */
  PAIR_STEPS = 32,       /* inner steps a chunk of what is paired by columns: whole units */
  UNPACK_STEPS = 64,
  GROUPS_AHEAD = 2 /* groups of outputs fetched ahead of being transposed */
};

typedef enum Source { PACKED, QUANTISED, TRANSPOSED } Source; /* of b */

typedef struct Bf16Product {
  int m, n, pairs;         /* c [m,n] */
  int padded;              /* pairs of a, in whole units */
  int rows, panels, width; /* rows and panels a chunk; columns a panel */
  int step;                /* pairs of inner steps a block */
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

/* ---- panels of b: groups of columns, never a lone last one ---- */
static int panel_count(const Bf16Product *q) { return ceil_div(q->n, q->width); }

/* the first group of panel p */
static int panel_start(const Bf16Product *q, int p) {
  const int groups = ceil_div(q->n, GROUP), most = q->width / GROUP, start = p * most;
  if (start >= groups) return groups;
  return p > 0 && start == groups - 1 ? start - 1 : start;
}

/* NF4 of whole blocks in every row: inner steps at .. end - 1 */
static void unpack_nf4(const QuantWeight *w, int group, int at, int end, uint32_t *out) {
  enum { BLOCKS = 4 };
  real scale[BLOCKS][GROUP];
  while (at < end) {
    const int first = at - at % NF4_BLOCK, last = min_int(end, first + BLOCKS * NF4_BLOCK);
    quant_scales(w, group, first, ceil_div(last - first, NF4_BLOCK), scale[0], GROUP);
    for (int b = 0; at < last; b++) {
      const int next = min_int(last, first + (b + 1) * NF4_BLOCK);
      kernels_bf16()->widen_nf4(next - at, quant_values(w, group, at), scale[b], out);
      out += (next - at) / 2 * GROUP;
      at = next;
    }
  }
}

/* `pairs` pairs of inner steps from p0 of a group, from whatever the weight is kept in */
static void unpack_group(const QuantWeight *w, int group, int p0, int pairs, uint32_t *out) {
  real block[UNPACK_STEPS * GROUP];
  const int end = min_int(w->k, 2 * (p0 + pairs));
  if (w->type == QUANT_F32) {
    ptrdiff_t ld;
    const float *steps = quant_steps(w, group, 2 * p0, &ld);
    kernels_bf16()->widen_f32(end - 2 * p0, steps, ld, out);
    return;
  }
  const void *from = quant_values(w, group, 2 * p0);
  if (w->type == QUANT_F16) {
    kernels_bf16()->widen_f16(end - 2 * p0, from, out);
    return;
  }
  if (w->type == QUANT_INT8) {
    quant_scales(w, group, 0, 1, block, GROUP);
    kernels_bf16()->widen_int8(end - 2 * p0, from, block, out);
    return;
  }
  if (w->k % NF4_BLOCK == 0) {
    unpack_nf4(w, group, 2 * p0, end, out);
    return;
  }
  for (int at = 2 * p0; at < end; at += UNPACK_STEPS, out += UNPACK_STEPS / 2 * GROUP) {
    const int depth = min_int(UNPACK_STEPS, end - at);
    quant_unpack(w, group, at, depth, block);
    kernels_bf16()->pair_group(depth, GROUP, block, GROUP, out);
  }
}

/* For dx: pairs of outputs from pair p0 (a multiple of 8), columns from group `group` of inner
 * steps: a group of outputs gives 8 pairs of every column. */
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
      unpack_group(w, from, group * (GROUP / 2), lines, block);
      pairs_of = block;
    }
    kernels_bf16()->transpose(lines, pairs_of, out + p * GROUP, q->step * GROUP);
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
    for (int g = 0; g < groups; g++) unpack_group(q->w, group + g, p0, pairs, scratch + g * *bgs);
  return scratch;
}

/* ---- chunks ---- */

/* Where panels that are there begin, at pair p0; NULL: there is no such panel, or it is yet to be made */
static const uint32_t *there(const Bf16Product *q, int panel, int p0) {
  const bool alone = kernels_bf16()->few_fetch && q->m <= kernels_bf16()->few;
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
  kernels_bf16()->block(rows, cols, pairs, q->a + (ptrdiff_t)r0 * q->padded + (ptrdiff_t)p0 * rows,
                        b, bgs, next, q->bias && !p0 ? q->bias + at : NULL, c, q->ldc,
                        q->add || p0 > 0);
  if (p0 + pairs == q->pairs) low_rank_add(q->low, q->n, r0, rows, at, cols, c, q->ldc);
}

/* A thread's chunks follow one another and are to have little in common with another's: its own rows, or
 * its own panels of a weight that is so much wider that it had better be read once. */
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
  /* panels take turns at a block of a's columns, unless a's rows stay in the cache anyway */
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

/* in whole units */
static int padded(int pairs) { return round_up(pairs, kernels_bf16()->unit); }

static void cut(Bf16Product *q) {
  const KernelsBf16 *kn = kernels_bf16();
  const int most = q->source == TRANSPOSED ? UNPACKED_ROWS : kn->rows;
  q->rows = round_up(ceil_div(q->m, ceil_div(q->m, most)), kn->mr);
  q->row_chunks = ceil_div(q->m, q->rows);
  q->padded = padded(q->pairs);
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
  const size_t panel = (size_t)q->step * (size_t)q->width, one_group = GROUP / 2 * (size_t)q->width;
  if (q->source != PACKED) try(scratch_new(cx, panel + one_group, what, &q->scratch));
  q->col_chunks = ceil_div(panels, q->panels);
  pool_run(cx->pool, q->row_chunks * q->col_chunks, chunk_of, q);
  return GRPO_OK;
}

/* ---- a: tiles of rows, in pairs of inner steps, block after block of a chunk ---- */
typedef struct Operand {
  int m, depth, rows, step; /* rows, step: of a product's chunk */
  int tiles, span, parts;   /* of a chunk here: tiles, and inner steps; tiles are so many parts */
  const real *x;
  ptrdiff_t ldx;
  bool columns; /* x is [depth, m] */
  uint32_t *out;
} Operand;

/* Inner steps k0 .. k1 - 1 of tiles from row r on, to `end` or that of a product's chunk; rows done. */
static int pair_tiles(const Operand *o, int r, int end, int k0, int k1) {
  const int mr = kernels_bf16()->mr, r0 = r / o->rows * o->rows,
            chunk = min_int(o->rows, o->m - r0);
  const int left = chunk - (r - r0);
  if (r > r0 && left < mr) return mr; /* went with the tile before it */
  const int some = min_int(end - r, left), rows = left - some < mr ? left : some;
  uint32_t *first = o->out + (ptrdiff_t)r0 * padded(ceil_div(o->depth, 2));
  for (int k = k0, depth; k < k1; k += depth) {
    const int block = k - k % (2 * o->step);
    const int pairs = ceil_div(min_int(2 * o->step, o->depth - block), 2);
    uint32_t *out = first + (ptrdiff_t)(block / 2) * chunk + (ptrdiff_t)(r - r0) * padded(pairs);
    depth = min_int(k1, block + 2 * o->step) - k;
    if (o->columns)
      kernels_bf16()->pair_columns(rows, depth, o->x + k * o->ldx + r, o->ldx, padded(pairs),
                                   (k - block) / 2, out);
    else
      kernels_bf16()->pair_rows(rows, depth, o->x + r * o->ldx + k, o->ldx, out);
  }
  return round_up(rows, mr);
}

static void operand_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const Operand *o = arg;
  const int rows = o->tiles * kernels_bf16()->mr, part = chunk % o->parts;
  const int k0 = chunk / o->parts * o->span, k1 = min_int(o->depth, k0 + o->span);
  const int end = min_int(o->m, (part + 1) * rows);
  for (int r = part * rows; r < end;) r += pair_tiles(o, r, end, k0, k1);
}

/* q's a from x, [m, depth], or with `columns` [depth, m] */
static Status make_a(const Ctx *cx, Bf16Product *q, int depth, const real *x, ptrdiff_t ldx,
                     bool columns, const char *what) {
  const size_t pairs = (size_t)q->m * (size_t)q->padded;
  Operand o = {.m = q->m, .depth = depth, .rows = q->rows, .step = q->step};
  o.x = x, o.ldx = ldx, o.columns = columns;
  q->a = o.out = arena_alloc(cx->arena, sizeof(uint32_t) * (pairs + 1));
  if (!o.out) return fail(GRPO_ENOMEM, "%s: scratch memory", what);
  const int mr = kernels_bf16()->mr, tiles = ceil_div(q->m, mr);
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
  Bf16Product q = {.m = m,
                   .n = w->n,
                   .pairs = ceil_div(w->k, 2),
                   .source = w->type == QUANT_BF16 ? PACKED : QUANTISED,
                   .w = w,
                   .bias = bias,
                   .low = low,
                   .c = y,
                   .ldc = ldy};
  if (q.source == PACKED) q.b = w->data, q.bgs = (ptrdiff_t)q.pairs * GROUP;
  return product(cx, &q, w->k, x, ldx, "product in bf16");
}

Status gemm_bf16_native_dx(const Ctx *cx, int m, const QuantWeight *w, const real *dy,
                           ptrdiff_t lddy, const LowRank *low, real *dx, ptrdiff_t lddx, bool add) {
  Bf16Product q = {.m = m,
                   .n = w->k,
                   .pairs = ceil_div(w->n, 2),
                   .source = TRANSPOSED,
                   .w = w,
                   .low = low,
                   .c = dx,
                   .ldc = lddx,
                   .add = add};
  return product(cx, &q, w->n, dy, lddy, "dx in bf16");
}

Status gemm_bf16_native_dx_transposed(const Ctx *cx, int m, const QuantWeight *transposed,
                                      const real *dy, ptrdiff_t lddy, const LowRank *low, real *dx,
                                      ptrdiff_t lddx, bool add) {
  const int pairs = ceil_div(transposed->k, 2);
  Bf16Product q = {.m = m,
                   .n = transposed->n,
                   .pairs = pairs,
                   .source = PACKED,
                   .w = transposed,
                   .b = transposed->data,
                   .bgs = (ptrdiff_t)pairs * GROUP,
                   .low = low,
                   .c = dx,
                   .ldc = lddx,
                   .add = add};
  return product(cx, &q, transposed->k, dy, lddy, "dx in bf16");
}

typedef struct Columns {
  int m, k, groups, parts; /* groups a chunk, of which there are so many parts */
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
    kernels_bf16()->pair_group(min_int(PAIR_STEPS, j->m - k), min_int(GROUP, j->k - g * GROUP),
                               j->x + k * j->ldx + g * GROUP, j->ldx,
                               j->out + (ptrdiff_t)g * ceil_div(j->m, 2) * GROUP + k / 2 * GROUP);
}

Status gemm_bf16_native_dw(const Ctx *cx, int m, int n, int k, const real *dy, ptrdiff_t lddy,
                           const real *x, ptrdiff_t ldx, real *dw, bool add) {
  const ArenaMark mark = arena_mark(cx->arena);
  Bf16Product q = {.m = n, .n = k, .pairs = ceil_div(m, 2), .source = PACKED, .c = dw, .ldc = k};
  q.add = add;
  q.bgs = (ptrdiff_t)q.pairs * GROUP;
  cut(&q);
  Columns j = {m, k, PAIR_VALUES / (GROUP * PAIR_STEPS) + 1, 0, x, ldx, NULL};
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
