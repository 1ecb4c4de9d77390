/* gemm.c - float32 products with weights: the forward product, and dx of weights in rows.
 *
 * A product is cut into chunks of rows and panels of the weight; threads take chunks.  Within a
 * chunk the inner dimension is walked in blocks, so that a block of a panel stays in the cache
 * while all rows of the chunk pass over it.  Between blocks the sums go to the output and are
 * loaded again, which changes no bit.  How a product is cut depends on its shape alone.
 */
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/pool.h"
#include "kern/gemm.h"
#include "kern/panels.h"

enum {
  /* Inner steps of a block: a panel's block of this depth stays in the second-level cache.  Where
   * kern_paged() blocks are deeper, because rows of y that are added to arrive more slowly. */
  DEPTH = 512,
  PAGED_DEPTH = 1024,
  /* Rows of a chunk at most. */
  ROWS = 96,
  /* With at most FEW rows the weight is read from memory as a stream: each block has FEW_REALS
   * reals and is multiplied by all rows while the next one is prefetched. */
  FEW = 128,
  FEW_REALS = 3072,
  /* A single tile of rows has no next block; it prefetches this many inner steps ahead, fewer where
   * kern_paged(). */
  AHEAD = 48,
  AHEAD_IN_PAGE = 12,
  /* A chunk of few rows takes FEW_PANELS panels one after another, which is one long stream, but
   * fewer panels if there would be less than FEW_CHUNKS chunks for the threads. */
  FEW_PANELS = 4,
  FEW_CHUNKS = 8,
  /* Up to STREAM_ROWS rows go over whole panels side by side (forward_streams). */
  STREAM_ROWS = 3,
  /* Outputs of at most these rows and columns are gathered in a buffer first (forward_gathered). */
  GATHERED_ROWS = 32,
  GATHERED_COLS = 192,
  /* With many rows a chunk's panels have at most L2_REALS reals, which stay in the second-level
   * cache while rows pass, and fewer if there would be less than MANY_CHUNKS chunks. */
  L2_REALS = 1 << 17,
  MANY_CHUNKS = 32,
  /* gemm_plain: rows of a chunk, each of which packs its own panel; inner steps of such a panel,
   * which is on the stack. */
  PACK_ROWS = 256,
  PLAIN_DEPTH = 128,
  /* Reals of a weight that dx packs at a time. */
  SLAB = 1 << 20,
  /* Products with at most FEW_OUTPUTS outputs would fill half a vector.  From
   * FEW_OUTPUTS_MIN_ROWS rows on they take rows of x as vectors instead, transposed in pieces of
   * FEW_OUTPUTS_ROWS rows and FEW_OUTPUTS_STEPS inner steps. */
  FEW_OUTPUTS = GROUP / 2,
  FEW_OUTPUTS_ROWS = 48,
  FEW_OUTPUTS_STEPS = 64,
  FEW_OUTPUTS_MIN_ROWS = 32,
  /* dx packs from this many rows on where a tile reads only one line of each row of the weight. */
  LINES_ROWS = 128,
  /* Multiply-adds that are worth a chunk of their own. */
  CHUNK_WORK = 1 << 16
};

/* Rows of a chunk: whole tiles, and an even number of chunks because two threads share them. */
static int row_piece(int m, int most) {
  return round_up(ceil_div(m, round_up(ceil_div(m, most), 2)), 8);
}

size_t gemm_packed_size(int n, int k) { return (size_t)round_up(n, GROUP) * (size_t)k; }

void gemm_pack(const Ctx *cx, int n, int k, const real *w, bool in_out, real *packed) {
  panels_pack(cx, n, k, w, in_out ? n : 1, in_out ? 1 : k, false, packed);
}

/* ---- forward: packed weights ---- */
typedef struct Forward {
  const KernelClass *cpu;
  int m, n, k, depth, rows, panels; /* a chunk's rows and panels */
  int row_chunks, ng;               /* groups a panel */
  int parts; /* parts of the row chunks, which follow one another: one for each thread */
  const real *x;
  ptrdiff_t ldx, ldy;
  const real *w; /* packed, if ldw is 0; */
  ptrdiff_t ldw; /* else [k, n], read in place */
  const real *bias;
  const LowRank *low;
  real *y; /* the column first_col of the output */
  int first_col;
  bool add, few;
} Forward;

/* The block to prefetch while panel p multiplies its block at k0: the one that is multiplied next,
 * which for the last block of a chunk is most likely the first one of the next chunk. */
static const real *block_after(const Forward *f, int p, int k0, int p1) {
  const int at = panels_first(f->n, f->ng, p), end = panels_first(f->n, f->ng, p + 1);
  const bool lone = f->m <= kernels(f->cpu)->mr;
  const int step = !lone ? f->depth : kern_paged() ? AHEAD_IN_PAGE : AHEAD;
  if (lone || k0 + step < f->k)
    return f->w + (size_t)(at * GROUP) * (size_t)f->k + (ptrdiff_t)(k0 + step) * (end - at) * GROUP;
  p++;
  if (p >= panels_of(f->n, f->ng) || (p >= p1 && f->row_chunks > 1)) return NULL;
  return f->w + (size_t)(panels_first(f->n, f->ng, p) * GROUP) * (size_t)f->k;
}

void low_rank_add(const KernelClass *cpu, const LowRank *low, int n, int row, int rows, int at,
                  int cols, real *y, ptrdiff_t ldy) {
  const int ng = kernels(cpu)->ng, first = at / GROUP, last = ceil_div(at + cols, GROUP);
  /* each panel, or the part of it that is in the tile */
  for (int g = first, end; low && g < last; g = end) {
    const int p = panels_with(n, ng, g), g0 = panels_first(n, ng, p);
    const int after = panels_first(n, ng, p + 1), c = (g - first) * GROUP;
    end = min_int(after, last);
    kernels(cpu)->gemm_block(rows, min_int((end - g) * GROUP, cols - c), low->rank,
                             low->low + (ptrdiff_t)row * low->rank, low->rank, 1,
                             low->up + (ptrdiff_t)g0 * GROUP * low->rank + (g - g0) * GROUP,
                             (after - g0) * GROUP, GROUP, y + c, ldy, true);
  }
}

/* Adds the bias and the low-rank product to a finished tile y, whose columns begin at `at`. */
static void finish(const Forward *f, int r0, int rows, int at, int cols, real *y) {
  if (f->bias) kernels(f->cpu)->add_to_rows(rows, cols, f->bias + at, y, f->ldy);
  low_rank_add(f->cpu, f->low, f->n, r0, rows, at, cols, y, f->ldy);
}

static void forward_block(const Forward *f, int r0, int rows, int p, int k0, int depth,
                          const real *next) {
  const int g0 = panels_first(f->n, f->ng, p);
  const int width = (panels_first(f->n, f->ng, p + 1) - g0) * GROUP;
  const int at = g0 * GROUP, cols = min_int(width, f->n - at);
  const ptrdiff_t step = f->ldw ? f->ldw : width;
  real *y = f->y + r0 * f->ldy + (at - f->first_col);
  const real *x = f->x + r0 * f->ldx + k0;
  const real *w = f->w + (ptrdiff_t)at * (f->ldw ? 1 : f->k) + k0 * step;
  const bool add = f->add || k0 > 0;
  if (f->few)
    kernels(f->cpu)->stream(rows, cols, depth, x, f->ldx, w, step, next, y, f->ldy, add);
  else
    kernels(f->cpu)->gemm_block(rows, cols, depth, x, f->ldx, 1, w, step, GROUP, y, f->ldy, add);
  if (k0 + depth == f->k) finish(f, r0, rows, at, cols, y);
}

/* Few rows would read one panel as one stream of single lines, of which a core has too few under
 * way.  So they read several whole panels side by side. */
static void forward_streams(const Forward *f, int p0, int p1) {
  const int at = p0 * GROUP, cols = (p1 - p0) * GROUP;
  real *y = f->y + (at - f->first_col);
  kernels(f->cpu)->few_rows(f->m, cols, f->k, f->x, f->ldx, f->w + (ptrdiff_t)at * f->k, GROUP,
                            (ptrdiff_t)f->k * GROUP, y, f->ldy, f->add, NULL);
  finish(f, 0, f->m, at, cols, y);
}

static void forward_panels(const Forward *f, int r0, int p0, int p1) {
  const int rows = min_int(f->rows, f->m - r0);
  if (f->few && kernels(f->cpu)->gemm_step == 1 && f->ng == 1 && f->m <= STREAM_ROWS &&
      min_int(p1, f->n / GROUP) > p0 + 1) {
    const int end = min_int(p1, f->n / GROUP);
    forward_streams(f, p0, end);
    p0 = end;
  }
  const int together = f->few ? 1 : p1 - p0; /* panels that alternate, block by block */
  for (int p = p0; p < p1; p += together) {
    int k0 = 0;
    do {
      const int depth = min_int(f->depth, f->k - k0);
      const real *next = f->few ? block_after(f, p, k0, p1) : NULL;
      for (int i = p; i < p + together; i++) forward_block(f, r0, rows, i, k0, depth, next);
      k0 += f->depth;
    } while (k0 < f->k);
  }
}

/* Gathers the outputs of some panels in a buffer and then copies whole rows to where they belong.
 * Writing each panel to y, a few lines in each of rows that are far apart, would slow the stream of
 * weights by a fifth. */
static void forward_gathered(const Forward *f, int p0, int p1) {
  _Alignas(64) real gathered[GATHERED_ROWS * GATHERED_COLS];
  const int at = panels_first(f->n, f->ng, p0) * GROUP;
  const int cols = min_int(f->n, panels_first(f->n, f->ng, p1) * GROUP) - at;
  Forward g = *f;
  g.y = gathered;
  g.ldy = GATHERED_COLS;
  g.first_col = at;
  forward_panels(&g, 0, p0, p1);
  for (int i = 0; i < f->m; i++)
    memcpy(f->y + i * f->ldy + at, gathered + i * GATHERED_COLS, sizeof(real) * (size_t)cols);
}

/* Splits a chunk number into a row chunk and a chunk of columns.  The row chunks of a part
 * alternate at each chunk of columns; part follows part. */
static int row_chunk_of(const Forward *f, int chunk, int *columns) {
  const int col_chunks = ceil_div(panels_of(f->n, f->ng), f->panels);
  const int part = ((chunk / col_chunks + 1) * f->parts - 1) / f->row_chunks;
  const int first = part * f->row_chunks / f->parts, at = chunk - first * col_chunks;
  const int some = (part + 1) * f->row_chunks / f->parts - first;
  *columns = at / some;
  return first + at % some;
}

static void forward_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const Forward *f = arg;
  int columns;
  const int r0 = row_chunk_of(f, chunk, &columns) * f->rows, p0 = columns * f->panels;
  const int p1 = min_int(p0 + f->panels, panels_of(f->n, f->ng));
  if (f->few && !f->add && f->m <= min_int(f->rows, GATHERED_ROWS) && p1 > p0 + 1 &&
      (p1 - p0) * f->ng * GROUP <= GATHERED_COLS)
    forward_gathered(f, p0, p1);
  else
    forward_panels(f, r0, p0, p1);
}

/* ---- forward to so few outputs that they fill half a vector: rows of x become the vectors ---- */

/* sum[n, rows] (+)= w x^T of inner steps k0 .. */
static void few_outputs_block(const Forward *f, int r0, int rows, int k0, real *sum) {
  _Alignas(64) real transposed[FEW_OUTPUTS_STEPS * FEW_OUTPUTS_ROWS];
  const int depth = min_int(FEW_OUTPUTS_STEPS, f->k - k0), next = min_int(depth, f->k - k0 - depth);
  const real *x = f->x + r0 * f->ldx + k0;
  for (int i = 0; i < rows; i++)
    for (int p = 0; p < next; p += GROUP) __builtin_prefetch(x + i * f->ldx + depth + p);
  kernels(f->cpu)->transpose(rows, depth, x, f->ldx, transposed, FEW_OUTPUTS_ROWS);
  kernels(f->cpu)->gemm_block(f->n, rows, depth, f->w + k0 * GROUP, 1, GROUP, transposed,
                              FEW_OUTPUTS_ROWS, GROUP, sum, FEW_OUTPUTS_ROWS, f->add || k0 > 0);
}

static void few_outputs_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const Forward *f = arg;
  const int end = min_int(f->m, (chunk + 1) * f->rows);
  _Alignas(64) real sum[FEW_OUTPUTS * FEW_OUTPUTS_ROWS];
  for (int r0 = chunk * f->rows; r0 < end; r0 += FEW_OUTPUTS_ROWS) {
    const int rows = min_int(FEW_OUTPUTS_ROWS, end - r0);
    real *y = f->y + r0 * f->ldy;
    if (f->add) kernels(f->cpu)->transpose(rows, f->n, y, f->ldy, sum, FEW_OUTPUTS_ROWS);
    for (int k0 = 0; k0 < f->k; k0 += FEW_OUTPUTS_STEPS) few_outputs_block(f, r0, rows, k0, sum);
    kernels(f->cpu)->transpose(f->n, rows, sum, FEW_OUTPUTS_ROWS, y, f->ldy);
  }
}

static bool has_few_outputs(const Forward *f) {
  return kernels(f->cpu)->gemm_step == 1 && f->n <= FEW_OUTPUTS && f->m >= FEW_OUTPUTS_MIN_ROWS &&
         f->k > 0 && !f->ldw && !f->bias && !f->low;
}

static int depth_of(const Forward *f) {
  const int depth = kern_paged() ? PAGED_DEPTH : DEPTH;
  if (f->ldw) return min_int(depth, rows_cached(f->ldw));
  return f->few && f->m > kernels(f->cpu)->mr ? FEW_REALS / (f->ng * GROUP) : depth;
}

static void forward(const Ctx *cx, Forward f) {
  if (f.m <= 0 || f.n <= 0) return;
  if (has_few_outputs(&f)) {
    f.rows = round_up(even_piece(f.m, 2 * FEW_OUTPUTS_ROWS), FEW_OUTPUTS_ROWS);
    pool_run(cx->pool, ceil_div(f.m, f.rows), few_outputs_chunk, &f);
    return;
  }
  const int width = f.ng * GROUP, panels = panels_of(f.n, f.ng);
  f.few = !f.ldw && f.m <= FEW;
  f.rows = f.m <= ROWS ? round_up(f.m, 8) : row_piece(f.m, ROWS);
  if (panels == 1 && f.m <= ROWS) /* an adapter's few outputs: only rows can be shared out */
    f.rows = min_int(f.rows, round_up(CHUNK_WORK / (f.k * GROUP + 1) + 1, 8));
  f.row_chunks = ceil_div(f.m, f.rows);
  f.parts = f.few || !shares_rows(f.m, f.n) ? 1 : min_int(f.row_chunks, pool_threads(cx->pool));
  f.depth = gemm_piece(cx->cpu, f.k, depth_of(&f));
  const double panel_work = (double)min_int(f.rows, f.m) * f.k * width;
  f.panels = panel_work >= CHUNK_WORK ? 1 : (int)(CHUNK_WORK / (panel_work + 1)) + 1;
  if (f.few)
    f.panels = max_int(f.panels, min_int(FEW_PANELS, panels / FEW_CHUNKS));
  else if (f.m > ROWS / 2)
    f.panels =
        max_int(max_int(f.panels, 2 * 3 * GROUP / width),
                min_int(L2_REALS / (width * max_int(1, f.k)), panels * f.row_chunks / MANY_CHUNKS));
  pool_run(cx->pool, f.row_chunks * ceil_div(panels, f.panels), forward_chunk, &f);
}

void gemm_forward_panels(const Ctx *cx, int m, int n, int k, const real *x, int ldx,
                         const real *packed, int ng, const real *bias, const LowRank *low, real *y,
                         int ldy, bool add) {
  Forward f = {.cpu = cx->cpu, .m = m, .n = n, .k = k, .ng = ng, .x = x, .ldx = ldx, .w = packed};
  f.bias = bias, f.low = low, f.y = y, f.ldy = ldy, f.add = add;
  forward(cx, f);
}

void gemm_forward(const Ctx *cx, int m, int n, int k, const real *x, int ldx, const real *packed,
                  const real *bias, real *y, int ldy) {
  gemm_forward_low(cx, m, n, k, x, ldx, packed, bias, NULL, y, ldy);
}

void gemm_forward_low(const Ctx *cx, int m, int n, int k, const real *x, int ldx,
                      const real *packed, const real *bias, const LowRank *low, real *y, int ldy) {
  gemm_forward_panels(cx, m, n, k, x, ldx, packed, kernels(cx->cpu)->ng, bias, low, y, ldy, false);
}

void gemm_forward_add(const Ctx *cx, int m, int n, int k, const real *x, int ldx,
                      const real *packed, real *y, int ldy) {
  gemm_forward_panels(cx, m, n, k, x, ldx, packed, kernels(cx->cpu)->ng, NULL, NULL, y, ldy, true);
}

/* ---- dx: a weight whose layout does not suit is packed along its other side, a slab at a time
 * ---- */
static Status dx_packed(const Ctx *cx, Forward f, const real *w, bool in_out) {
  const ArenaMark mark = arena_mark(cx->arena);
  const int n = f.k, slab = gemm_piece(cx->cpu, n, max_int(DEPTH, SLAB / round_up(f.n, GROUP)));
  const LowRank *low = f.low;
  real *packed = arena_alloc(cx->arena, sizeof(real) * gemm_packed_size(f.n, slab));
  if (!packed) return fail(GRPO_ENOMEM, "gemm_dx: scratch memory");
  const ptrdiff_t ps = in_out ? 1 : f.n, cs = in_out ? n : 1;
  f.w = packed;
  int at = 0;
  do {
    f.k = min_int(slab, n - at);
    f.low = at + f.k < n ? NULL : low;
    panels_pack(cx, f.n, f.k, w + at * ps, ps, cs, false, packed);
    forward(cx, f);
    f.add = true;
    f.x += slab;
    at += slab;
  } while (at < n);
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

Status gemm_dx(const Ctx *cx, int m, int n, int k, const real *dy, int lddy, const real *w,
               bool in_out, real *dx, int lddx, bool add) {
  return gemm_dx_low(cx, m, n, k, dy, lddy, w, in_out, NULL, dx, lddx, add);
}

Status gemm_dx_low(const Ctx *cx, int m, int n, int k, const real *dy, int lddy, const real *w,
                   bool in_out, const LowRank *low, real *dx, int lddx, bool add) {
  if (m <= 0 || k <= 0) return GRPO_OK;
  Forward f = {.cpu = cx->cpu,
               .m = m,
               .n = k,
               .k = n,
               .ng = kernels(cx->cpu)->ng,
               .x = dy,
               .ldx = lddy,
               .w = w};
  f.low = low, f.y = dx, f.ldy = lddx, f.add = add;
  if (in_out || !rows_readable(k, k) || (reads_lines(cx->cpu) && m >= LINES_ROWS))
    return dx_packed(cx, f, w, in_out);
  f.ldw = k;
  forward(cx, f);
  return GRPO_OK;
}

void gemm_dx_transposed(const Ctx *cx, int m, int n, int k, const real *dy, int lddy,
                        const real *transposed, const LowRank *low, real *dx, int lddx, bool add) {
  gemm_forward_panels(cx, m, k, n, dy, lddy, transposed, kernels(cx->cpu)->ng, NULL, low, dx, lddx,
                      add);
}

/* ---- a product that packs as it goes: c[m,n] (+)= a b, any strides ---- */
typedef struct PlainProduct {
  const KernelClass *cpu;
  int m, n, k, rows, row_chunks;
  const real *a, *b;
  ptrdiff_t ars, aks, bps, bcs; /* a(i,p) = a[i ars + p aks], b(p,j) = b[p bps + j bcs] */
  real *c;
  bool add;
} PlainProduct;

static void product_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const PlainProduct *q = arg;
  real panel[PLAIN_DEPTH * 3 * GROUP];
  const int r0 = chunk % q->row_chunks * q->rows, p = chunk / q->row_chunks;
  const int rows = min_int(q->rows, q->m - r0), g0 = own_panel_first(q->cpu, q->n, p);
  const int width = (own_panel_first(q->cpu, q->n, p + 1) - g0) * GROUP, at = g0 * GROUP;
  const int cols = min_int(width, q->n - at);
  int k0 = 0;
  do {
    const int depth = min_int(PLAIN_DEPTH, q->k - k0);
    panels_pack_one(q->cpu, depth, cols, width, q->b + k0 * q->bps + at * q->bcs, q->bps, q->bcs,
                    panel);
    kernels(q->cpu)->gemm_block(rows, cols, depth, q->a + r0 * q->ars + k0 * q->aks, q->ars, q->aks,
                                panel, width, GROUP, q->c + (ptrdiff_t)r0 * q->n + at, q->n,
                                q->add || k0 > 0);
    k0 += PLAIN_DEPTH;
  } while (k0 < q->k);
}

void gemm_plain(const Ctx *cx, int m, int n, int k, const real *a, bool ta, const real *b, bool tb,
                real *c, bool add) {
  if (m <= 0 || n <= 0) return;
  PlainProduct q = {.cpu = cx->cpu,
                    .m = m,
                    .n = n,
                    .k = k,
                    .rows = round_up(even_piece(m, PACK_ROWS), 8),
                    .a = a,
                    .ars = ta ? 1 : k,
                    .aks = ta ? m : 1,
                    .b = b,
                    .bps = tb ? 1 : n,
                    .bcs = tb ? k : 1,
                    .c = c,
                    .add = add};
  q.row_chunks = ceil_div(m, q.rows);
  pool_run(cx->pool, q.row_chunks * own_panels(cx->cpu, n), product_chunk, &q);
}
