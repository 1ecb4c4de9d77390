/* gemm_quant.c - products with quantised weights.
 *
 * A chunk unpacks a block of the weight into scratch memory and multiplies its rows by it, as
 * gemm.c does with a block of a panel.  Up to some tens of rows take another way where the CPU
 * has it (Kernels.quant_few): values are unpacked in registers, so that the weight is read once,
 * at the speed of memory.
 *
 * Sums run over the inner dimension in order, with one accumulator per output.  So the bits are
 * those of gemm_forward and gemm_dx with the same values, and no cut changes one.
 */
#include <string.h>

#include "kern/gemm_bf16_native.h"
#include "kern/gemm_quant.h"
#include "kern/panels.h"
#include "kern/panels_dx.h"
#include "kern/scratch.h"

enum {
  /* Rows of a chunk at most, which share the unpacked block. */
  ROWS = 256,
  /* Inner steps of a block, which stays in the first-level cache; fewer for up to FEW rows,
   * because they hide less of the unpacking. */
  DEPTH = 256,
  SHORT_DEPTH = 64,
  /* Columns of a block. */
  WIDTH = 3 * GROUP,
  /* Panels of WIDTH columns that share a chunk's rows of x in the second-level cache, but fewer
   * if there would be less than CHUNKS chunks. */
  PANELS = 4,
  CHUNKS = 16,
  /* Multiply-adds that are worth a chunk of their own. */
  CHUNK_WORK = 1 << 16,
  /* Rows of a chunk at most in few_forward, its inner steps and its columns.  Scales are looked
   * up once for these steps. */
  FEW = 64,
  FEW_DEPTH = 1024,
  FEW_WIDTH = 6 * GROUP,
  /* Inner steps whose unpacked values the first rows leave for the other rows. */
  SHARED_DEPTH = 2 * NF4_BLOCK
};

typedef struct QuantProduct {
  const KernelClass *cpu;
  const QuantWeight *w;
  int m, rows, row_chunks, panels; /* rows and panels of a chunk */
  int depth, cols;                 /* the block: inner steps; dx: outputs, and columns */
  const real *x;                   /* forward: x; dx: dy */
  ptrdiff_t ldx, ldy;
  const real *bias;
  const LowRank *low;
  real *y;        /* forward: y; dx: dx */
  bool add, bf16; /* bf16: x is rounded already, and values are rounded when they are unpacked */
  Scratch scratch;
} QuantProduct;

/* Rows are cut evenly, into multiples of every class's tile. */
static int rows_a_chunk(int m, int most) { return round_up(even_piece(m, most), 8); }

/* Panels of a chunk: enough work for one, and few enough that there are many chunks. */
static int panels_a_chunk(const QuantProduct *q, double panel_work, int panels) {
  const int enough = (int)(CHUNK_WORK / (panel_work + 1)) + 1;
  const int shared = min_int(PANELS, panels * q->row_chunks / CHUNKS);
  return max_int(1, max_int(enough, shared));
}

static Status run(const Ctx *cx, QuantProduct *q, int panels, size_t scratch, PoolFn fn,
                  const char *what) {
  const ArenaMark mark = arena_mark(cx->arena);
  try(scratch_new(cx, scratch, what, &q->scratch));
  pool_run(cx->pool, q->row_chunks * ceil_div(panels, q->panels), fn, q);
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

/* ---- forward: y = x w^T + bias ------------------------------------------------------- */

/* Unpacks `groups` groups of the weight from group g on, `depth` inner steps from k0, as an operand
 * of Kernels.block. */
static const real *unpacked(const QuantProduct *q, int g, int groups, int k0, int depth,
                            real *scratch, ptrdiff_t *stride) {
  const QuantWeight *w = q->w;
  *stride = q->depth * GROUP;
  for (int i = 0; i < groups; i++) {
    real *block = scratch + i * *stride;
    quant_unpack(q->cpu, w, g + i, k0, depth, block);
    if (q->bf16 && w->type != QUANT_BF16)
      kernels(q->cpu)->round_bf16((size_t)depth * GROUP, block, block);
  }
  return scratch;
}

static void forward_panel(const QuantProduct *q, int r0, int rows, int panel, int k0,
                          real *scratch) {
  const QuantWeight *w = q->w;
  const int at = panel * WIDTH, cols = min_int(WIDTH, w->n - at);
  const int depth = min_int(q->depth, w->k - k0);
  real *y = q->y + r0 * q->ldy + at;
  ptrdiff_t stride;
  const real *b = unpacked(q, at / GROUP, ceil_div(cols, GROUP), k0, depth, scratch, &stride);
  kernels(q->cpu)->gemm_block(rows, cols, depth, q->x + r0 * q->ldx + k0, q->ldx, 1, b, GROUP,
                              stride, y, q->ldy, k0 > 0);
  if (k0 + depth < w->k) return;
  if (q->bias) kernels(q->cpu)->add_to_rows(rows, cols, q->bias + at, y, q->ldy);
  low_rank_add(q->cpu, q->low, w->n, r0, rows, at, cols, y, q->ldy);
}

static void forward_chunk(void *arg, int chunk, int worker) {
  const QuantProduct *q = arg;
  const int r0 = chunk % q->row_chunks * q->rows, rows = min_int(q->rows, q->m - r0);
  const int p0 = chunk / q->row_chunks * q->panels;
  const int p1 = min_int(p0 + q->panels, ceil_div(q->w->n, WIDTH));
  for (int k0 = 0; k0 < q->w->k; k0 += q->depth)
    for (int p = p0; p < p1; p++)
      forward_panel(q, r0, rows, p, k0, scratch_of(&q->scratch, worker));
}

/* ---- forward of few rows: values are unpacked in registers ---- */

static bool are_few(const QuantProduct *q) {
  const QuantWeight *w = q->w;
  if (w->type == QUANT_NF4 && w->k % NF4_BLOCK) return false;
  const int most = kernels(q->cpu)->quant_few_most[w->type];
  /* each tile would round the values again, so there may be only one */
  if (q->bf16 && w->type != QUANT_BF16 && !kernels(q->cpu)->quant_few_shares)
    return q->m <= min_int(most, kernels(q->cpu)->quant_few_rows[w->type]);
  return q->m <= most;
}

/* How many rows unpack the values for the others as well.  0: each tile unpacks them again, which
 * is cheaper for f16, and for a second tile of INT8, unless values are rounded. */
static int rows_that_unpack(const QuantProduct *q, int rows) {
  const QuantType type = q->w->type;
  const int most = kernels(q->cpu)->quant_few_rows[type];
  const bool cheap = type == QUANT_INT8 ? rows <= 2 * most : type != QUANT_NF4;
  if (rows <= most || type == QUANT_BF16 || (cheap && !q->bf16)) return 0;
  return min_int((rows + 1) / 2, kernels(q->cpu)->quant_few_shares);
}

/* c (+)= x w^T of n's inner steps, group by group.  The first n->rows rows leave the unpacked
 * values to the others; with 0 they are unpacked beforehand. */
static void few_sharing(const QuantProduct *q, const QuantFew *n, int rows, int group, int k0) {
  real values[SHARED_DEPTH * GROUP];
  ptrdiff_t stride;
  for (int g = 0; g < n->groups; g++)
    for (int p = 0; p < n->depth; p += SHARED_DEPTH) {
      QuantFew f = *n;
      f.groups = 1;
      f.depth = min_int(SHARED_DEPTH, n->depth - p);
      f.x += p;
      f.w = quant_values(q->w, group + g, k0 + p);
      f.scale += p / NF4_BLOCK * n->scale_ld + g * GROUP;
      f.c += g * GROUP;
      f.add |= p > 0;
      f.values = values;
      if (n->rows > 0)
        kernels(q->cpu)->quant_few(&f);
      else
        unpacked(q, group + g, 1, k0 + p, f.depth, values, &stride);
      kernels(q->cpu)->gemm_block(rows - n->rows, GROUP, f.depth, f.x + n->rows * n->ldx, n->ldx, 1,
                                  values, GROUP, 0, f.c + n->rows * n->ldc, n->ldc, f.add);
    }
}

/* Do these scales [blocks, FEW_WIDTH] exclude values that are subnormal, infinite or -0?  Only
 * unusual weights have such values.  A row of zeros in INT8 has the scale 0 and is fine. */
static bool are_tame(QuantType type, int outputs, int blocks, const real *scale) {
  bool tame = true;
  for (int b = 0; b < blocks; b++, scale += FEW_WIDTH)
    for (int i = 0; i < outputs; i++)
      tame &= (scale[i] > (real)1e-27 && scale[i] < (real)1e27) ||
              (type == QUANT_INT8 && scale[i] == 0);
  return tame;
}

/* c[rows, groups] (+)= x w^T of up to FEW_DEPTH inner steps from k0; the first block overwrites. */
static void few_block(const QuantProduct *q, int r0, int rows, int group, int groups, int k0,
                      real *c, ptrdiff_t ldc) {
  const QuantWeight *w = q->w;
  const int most = kernels(q->cpu)->quant_few_rows[w->type], depth = min_int(FEW_DEPTH, w->k - k0);
  const int blocks = w->type == QUANT_NF4 ? ceil_div(depth, NF4_BLOCK) : 1;
  real scale[FEW_DEPTH / NF4_BLOCK][FEW_WIDTH];
  for (int g = 0; g < groups; g++)
    quant_scales(q->cpu, w, group + g, k0, blocks, scale[0] + g * GROUP, FEW_WIDTH);
  QuantFew n = {.type = w->type,
                .round = q->bf16,
                .rows = rows_that_unpack(q, rows),
                .groups = groups,
                .depth = depth,
                .x = q->x + r0 * q->ldx + k0,
                .ldx = q->ldx,
                .stride = quant_stride(w),
                .scale = scale[0],
                .scale_ld = blocks > 1 ? FEW_WIDTH : 0,
                .c = c,
                .ldc = ldc,
                .add = k0 > 0};
  const bool strange =
      q->bf16 && w->type >= QUANT_INT8 &&
      !are_tame(w->type, min_int(groups * GROUP, w->n - group * GROUP), blocks, scale[0]);
  if (strange) n.rows = 0;
  if (n.rows > 0 || strange) {
    few_sharing(q, &n, rows, group, k0);
    return;
  }
  n.depth = blocks > 1 && rows > most ? NF4_BLOCK
                                      /* so that all tiles of rows use a block while it is in L1 */
                                      : depth;
  for (int p = 0; p < depth; p += n.depth, n.x += n.depth, n.scale += FEW_WIDTH, n.add = true) {
    n.w = quant_values(w, group, k0 + p);
    for (int r = 0; r < rows; r += most) {
      QuantFew t = n;
      t.rows = min_int(most, rows - r);
      t.x += r * n.ldx;
      t.c += r * n.ldc;
      kernels(q->cpu)->quant_few(&t);
    }
  }
}

/* The rows of a panel that may be written in place: a kernel writes whole tiles of rows and whole
 * groups. */
static int rows_in_place(const QuantProduct *q, int rows, int cols) {
  if (cols % GROUP) return 0;
  return rows_that_unpack(q, rows) ? rows
                                   : rows - rows % kernels(q->cpu)->quant_few_rows[q->w->type];
}

static void few_panel(const QuantProduct *q, int r0, int rows, int panel, real *sum) {
  const int at = panel * FEW_WIDTH, cols = min_int(FEW_WIDTH, q->w->n - at);
  const int whole = rows_in_place(q, rows, cols), group = at / GROUP;
  real *const y = q->y + r0 * q->ldy + at;
  for (int k0 = 0; k0 < q->w->k; k0 += FEW_DEPTH) {
    if (whole > 0) few_block(q, r0, whole, group, ceil_div(cols, GROUP), k0, y, q->ldy);
    if (whole < rows)
      few_block(q, r0 + whole, rows - whole, group, ceil_div(cols, GROUP), k0, sum, FEW_WIDTH);
  }
  for (int i = whole; i < rows; i++, sum += FEW_WIDTH)
    memcpy(y + i * q->ldy, sum, sizeof(real) * (size_t)cols);
  if (q->bias) kernels(q->cpu)->add_to_rows(rows, cols, q->bias + at, y, q->ldy);
  low_rank_add(q->cpu, q->low, q->w->n, r0, rows, at, cols, y, q->ldy);
}

/* A chunk finishes its rows, which stay in the second-level cache, before the next ones: the weight
 * has fewer bytes and is prefetched. */
static void few_chunk(void *arg, int chunk, int worker) {
  const QuantProduct *q = arg;
  const int panels = ceil_div(q->w->n, FEW_WIDTH), chunks = ceil_div(panels, q->panels);
  const int r0 = chunk / chunks * q->rows, rows = min_int(q->rows, q->m - r0);
  const int p0 = chunk % chunks * q->panels, p1 = min_int(p0 + q->panels, panels);
  for (int p = p0; p < p1; p++) few_panel(q, r0, rows, p, scratch_of(&q->scratch, worker));
}

static Status few_forward(const Ctx *cx, QuantProduct *q) {
  const int tile = kernels(cx->cpu)->quant_few_rows[q->w->type];
  q->rows = round_up(ceil_div(q->m, ceil_div(q->m, FEW / tile * tile)), tile);
  q->row_chunks = ceil_div(q->m, q->rows);
  q->panels = (int)(CHUNK_WORK / ((double)min_int(q->m, q->rows) * q->w->k * FEW_WIDTH)) + 1;
  return run(cx, q, ceil_div(q->w->n, FEW_WIDTH), (size_t)FEW * FEW_WIDTH, few_chunk,
             "quant_forward");
}

static Status forward(const Ctx *cx, QuantProduct *q) {
  if (are_few(q)) return few_forward(cx, q);
  const int panels = ceil_div(q->w->n, WIDTH);
  q->depth = round_up(q->m <= FEW ? SHORT_DEPTH : DEPTH, kernels(cx->cpu)->gemm_step);
  q->rows = rows_a_chunk(q->m, ROWS);
  q->row_chunks = ceil_div(q->m, q->rows);
  q->panels = panels_a_chunk(q, (double)min_int(q->m, q->rows) * q->w->k * WIDTH, panels);
  return run(cx, q, panels, (size_t)DEPTH * WIDTH, forward_chunk, "quant_forward");
}

/* The double twin checks formulas, so it rounds nothing. */
static bool in_bf16(const Ctx *cx) {
#ifdef GRPO_DOUBLE
  (void)cx;
  return false;
#else
  return cx->compute == COMPUTE_BF16;
#endif
}

/* Rounds x [m, depth] first when products are in bf16. */
static Status with_rounded(const Ctx *cx, QuantProduct *q, int depth,
                           Status (*product)(const Ctx *, QuantProduct *)) {
  const ArenaMark mark = arena_mark(cx->arena);
  if (in_bf16(cx)) {
    try(rows_rounded(cx, q->m, depth, q->x, q->ldx, &q->x));
    q->ldx = rounded_ld(depth);
    q->bf16 = true;
  }
  try(product(cx, q));
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

Status quant_forward(const Ctx *cx, int m, const QuantWeight *w, const real *x, int ldx,
                     const real *bias, real *y, int ldy) {
  return quant_forward_low(cx, m, w, x, ldx, bias, NULL, y, ldy);
}

Status quant_forward_low(const Ctx *cx, int m, const QuantWeight *w, const real *x, int ldx,
                         const real *bias, const LowRank *low, real *y, int ldy) {
  if (m <= 0 || w->n <= 0) return GRPO_OK;
  if (in_bf16(cx) && kernels_bf16(cx->cpu))
    return gemm_bf16_native_forward(cx, m, w, x, ldx, bias, low, y, ldy);
#ifndef GRPO_DOUBLE
  if (w->type == QUANT_F32 && !in_bf16(cx)) {
    gemm_forward_panels(cx, m, w->n, w->k, x, ldx, w->data, w->ng, bias, low, y, ldy, false);
    return GRPO_OK;
  }
#endif
  QuantProduct q = {.cpu = cx->cpu,
                    .w = w,
                    .m = m,
                    .x = x,
                    .ldx = ldx,
                    .bias = bias,
                    .low = low,
                    .y = y,
                    .ldy = ldy};
  return with_rounded(cx, &q, w->k, forward);
}

/* ---- dx (+)= dy w -------------------------------------------------------------------- */

/* Prefetches the values of inner steps at .. end - 1 of a group. */
static void fetch_steps(const QuantWeight *w, int group, int at, int end) {
  enum { LINE = 64 };
  const char *from = quant_values(w, group, at), *to = quant_values(w, group, end);
  for (; from < to; from += LINE) __builtin_prefetch(from);
}

/* strips[s][i][j] = w(n0 + i, at + s width + j): `outputs` rows in strips as wide as a tile.  Rows
 * of the whole block would be so far apart that they share few sets of the first-level cache. */
static void unpack_rows(const QuantProduct *q, int n0, int outputs, int at, int cols, real *scratch,
                        real *strips) {
  const int width = kernels(q->cpu)->ng * GROUP;
  ptrdiff_t stride;
  for (int i = 0; i < outputs; i += GROUP) {
    const int group = (n0 + i) / GROUP;
    if (i + GROUP < outputs) fetch_steps(q->w, group + 1, at, at + cols);
    const real *from = unpacked(q, group, 1, at, cols, scratch, &stride);
    for (int c = 0; c < cols; c += width)
      kernels(q->cpu)->transpose(min_int(width, cols - c), GROUP, from + c * GROUP, GROUP,
                                 strips + (ptrdiff_t)c * q->depth + (ptrdiff_t)i * width, width);
  }
}

static void dx_chunk(void *arg, int chunk, int worker) {
  const QuantProduct *q = arg;
  const QuantWeight *w = q->w;
  const int width = kernels(q->cpu)->ng * GROUP;
  const int r0 = chunk % q->row_chunks * q->rows, rows = min_int(q->rows, q->m - r0);
  const int at = chunk / q->row_chunks * q->cols, cols = min_int(q->cols, w->k - at);
  real *strips = scratch_of(&q->scratch, worker), *block = strips + q->depth * q->cols;
  for (int n0 = 0; n0 < w->n; n0 += q->depth) {
    const int depth = min_int(q->depth, w->n - n0);
    unpack_rows(q, n0, depth, at, cols, block, strips);
    for (int c = 0; c < cols; c += width)
      kernels(q->cpu)->gemm_block(rows, min_int(width, cols - c), depth, q->x + r0 * q->ldx + n0,
                                  q->ldx, 1, strips + (ptrdiff_t)c * q->depth, width, GROUP,
                                  q->y + r0 * q->ldy + at + c, q->ldy, q->add || n0 > 0);
  }
  low_rank_add(q->cpu, q->low, w->k, r0, rows, at, cols, q->y + r0 * q->ldy + at, q->ldy);
}

static Status dx(const Ctx *cx, QuantProduct *q) {
  q->panels = 1;
  q->depth = kernels(cx->cpu)->dx_block.outputs;
  q->cols = kernels(cx->cpu)->dx_block.cols;
  q->rows = rows_a_chunk(q->m, kernels(cx->cpu)->dx_block.rows);
  q->row_chunks = ceil_div(q->m, q->rows);
  return run(cx, q, ceil_div(q->w->k, q->cols), (size_t)(q->depth + GROUP) * (size_t)q->cols,
             dx_chunk, "quant_dx");
}

Status quant_dx(const Ctx *cx, int m, const QuantWeight *w, const real *dy, int lddy, real *out,
                int ldo, bool add) {
  return quant_dx_low(cx, m, w, dy, lddy, NULL, out, ldo, add);
}

Status quant_dx_low(const Ctx *cx, int m, const QuantWeight *w, const real *dy, int lddy,
                    const LowRank *low, real *out, int ldo, bool add) {
  if (m <= 0 || w->k <= 0) return GRPO_OK;
  if (in_bf16(cx) && kernels_bf16(cx->cpu))
    return gemm_bf16_native_dx(cx, m, w, dy, lddy, low, out, ldo, add);
#ifndef GRPO_DOUBLE
  if (w->type == QUANT_F32 && !in_bf16(cx))
    return panels_dx(cx, m, w->n, w->k, dy, lddy, w->data, w->ng, low, out, ldo, add);
#endif
  QuantProduct q = {.cpu = cx->cpu,
                    .w = w,
                    .m = m,
                    .x = dy,
                    .ldx = lddy,
                    .low = low,
                    .y = out,
                    .ldy = ldo,
                    .add = add};
  return with_rounded(cx, &q, w->n, dx);
}
