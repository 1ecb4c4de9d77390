/* panels_dx.c - dx from packed panels alone, for weights that are packed in place.
 *
 * Panels are made for the forward product, which sums over inputs; dx sums over outputs.  So a
 * chunk transposes blocks of the panels into scratch memory and multiplies all its rows by each.
 */
#include "kern/panels_dx.h"
#include "base/arena.h"
#include "base/pool.h"
#include "kern/panels.h"
#include "kern/scratch.h"

enum {
  /* Rows that share a transposed block. */
  DX_ROWS = 512,
  /* Outputs and columns of such a block.  Columns are halved if there would be less than DX_CHUNKS
   * chunks. */
  DX_DEPTH = 768,
  DX_COLS = 96,
  DX_CHUNKS = 16,
  /* A block is stored in strips of DX_WIDTH columns, which the register tile reads in order. */
  DX_WIDTH = 48
};

typedef struct PanelsDx {
  const KernelClass *cpu;
  int m, n, k, ng, rows, row_chunks, cols; /* a chunk's rows and columns of dx */
  const real *dy, *w;
  ptrdiff_t lddy, lddx;
  const LowRank *low;
  real *dx;
  bool add;
  Scratch scratch;
} PanelsDx;

/* strip[s][i][j] = w(n0 + i, at + s DX_WIDTH + j) for the outputs i of panels p0 .. p1 - 1, the
 * first of which is n0.  Inner steps of one panel follow one another, but those of the next panel
 * are far away, so they are prefetched meanwhile. */
static void transpose_panels(const PanelsDx *t, int p0, int p1, int at, int cols, int outputs,
                             real *strip) {
  const int n0 = panels_first(t->n, t->ng, p0) * GROUP, all = round_up(t->n, GROUP);
  for (int p = p0; p < p1; p++) {
    const int o = panels_first(t->n, t->ng, p) * GROUP;
    const int width = panels_first(t->n, t->ng, p + 1) * GROUP - o;
    const real *from = t->w + (size_t)o * (size_t)t->k + (ptrdiff_t)at * width;
    const ptrdiff_t next = o + 2 * width <= all ? (ptrdiff_t)width * t->k : 0;
    for (int c = 0; c < cols; c += GROUP, from += GROUP * width) {
      const int steps = min_int(GROUP, cols - c);
      for (int i = 0; next && i < steps * width; i += GROUP) __builtin_prefetch(from + next + i);
      kernels(t->cpu)->transpose(steps, width, from, width,
                                 strip + (ptrdiff_t)(c - c % DX_WIDTH) * outputs +
                                     (ptrdiff_t)(o - n0) * DX_WIDTH + c % DX_WIDTH,
                                 DX_WIDTH);
    }
  }
}

static void dx_chunk(void *arg, int chunk, int worker) {
  const PanelsDx *t = arg;
  const int r0 = chunk % t->row_chunks * t->rows, rows = min_int(t->rows, t->m - r0);
  const int at = chunk / t->row_chunks * t->cols, cols = min_int(t->cols, t->k - at);
  const int panels = panels_of(t->n, t->ng), step = DX_DEPTH / (t->ng * GROUP);
  real *strip = scratch_of(&t->scratch, worker);
  for (int p = 0, end; p < panels; p = end) {
    const int n0 = panels_first(t->n, t->ng, p) * GROUP;
    end = min_int(p + step, panels);
    /* a last panel that begins one group early would begin within a block of gemm_step */
    if (end == panels - 1 && panels_first(t->n, t->ng, end) < end * t->ng) end = panels;
    const int outputs = panels_first(t->n, t->ng, end) * GROUP - n0;
    transpose_panels(t, p, end, at, cols, outputs, strip);
    for (int c = 0; c < cols; c += DX_WIDTH)
      kernels(t->cpu)->gemm_block(rows, min_int(DX_WIDTH, cols - c), min_int(outputs, t->n - n0),
                                  t->dy + r0 * t->lddy + n0, t->lddy, 1,
                                  strip + (ptrdiff_t)c * outputs, DX_WIDTH, GROUP,
                                  t->dx + r0 * t->lddx + at + c, t->lddx, t->add || n0 > 0);
  }
  low_rank_add(t->cpu, t->low, t->k, r0, rows, at, cols, t->dx + r0 * t->lddx + at, t->lddx);
}

Status panels_dx(const Ctx *cx, int m, int n, int k, const real *dy, int lddy, const real *packed,
                 int ng, const LowRank *low, real *dx, int lddx, bool add) {
  const ArenaMark mark = arena_mark(cx->arena);
  PanelsDx t = {.cpu = cx->cpu,
                .m = m,
                .n = n,
                .k = k,
                .ng = ng,
                .rows = round_up(even_piece(m, DX_ROWS), 8),
                .dy = dy,
                .w = packed,
                .lddy = lddy,
                .lddx = lddx,
                .low = low,
                .dx = dx,
                .add = add};
  t.row_chunks = ceil_div(m, t.rows);
  t.cols = t.row_chunks * ceil_div(k, DX_COLS) < DX_CHUNKS ? DX_COLS / 2 : DX_COLS;
  try(scratch_new(cx, (size_t)(DX_DEPTH + GROUP) * (size_t)t.cols, "dx", &t.scratch));
  pool_run(cx->pool, t.row_chunks * ceil_div(k, t.cols), dx_chunk, &t);
  arena_release(cx->arena, mark);
  return GRPO_OK;
}
