/* gemm_dw.c - the gradients of a weight and of a bias: dw[n,k] = dy^T x, with rows in index order.
 *
 * Both operands are read in place if rows that are so far apart can stay in the second-level cache
 * together.  Otherwise x is packed whole, once, and each chunk packs its own columns of dy.
 */
#include <string.h>

#include "base/arena.h"
#include "base/pool.h"
#include "kern/gemm.h"
#include "kern/gemm_dw.h"
#include "kern/panels.h"
#include "kern/scratch.h"

enum {
  /* Rows of the batch in a block, with packed operands and with operands that are read in place. */
  DW_DEPTH = 512,
  DIRECT_DEPTH = 1024,
  /* Outputs of a chunk at most: a multiple of every class's mr. */
  DW_ROWS = 96,
  /* Columns of a chunk, multiples of every panel's width; more where dy is packed for them. */
  DW_COLS = 384,
  PACKED_COLS = 768,
  /* Chunks are made smaller if there are fewer than this; where operands are packed that costs
   * packing, so the limit is lower. */
  DW_CHUNKS = 16,
  PACKED_CHUNKS = 8
};

typedef struct Outer {
  const KernelClass *cpu;
  int m, n, k, depth, row_chunks, panels; /* a chunk's panels */
  const real *dy, *x, *packed;            /* packed: x in panels; NULL: x is read in place */
  ptrdiff_t lddy, ldx;
  real *dw;
  bool add, round; /* round: packed operands are rounded to bf16 */
  Scratch scratch;
} Outer;

static void outer_packed(const Outer *o, int n0, int rows, int p, int k0, int depth,
                         const real *a) {
  const int g0 = own_panel_first(o->cpu, o->k, p),
            width = (own_panel_first(o->cpu, o->k, p + 1) - g0) * GROUP;
  const int at = g0 * GROUP, cols = min_int(width, o->k - at);
  const real *x = o->packed + (size_t)at * (size_t)o->m + (size_t)k0 * (size_t)width;
  kernels(o->cpu)->outer(rows, cols, depth, a, x, width, o->dw + (ptrdiff_t)n0 * o->k + at, o->k,
                         o->add || k0 > 0);
}

static void outer_direct(const Outer *o, int n0, int rows, int p, int k0, int depth) {
  const int at = own_panel_first(o->cpu, o->k, p) * GROUP,
            end = own_panel_first(o->cpu, o->k, p + 1) * GROUP;
  const real *x = o->x + k0 * o->ldx + at;
  kernels(o->cpu)->gemm_block(rows, end - at, depth, o->dy + k0 * o->lddy + n0, 1, o->lddy, x,
                              o->ldx, GROUP, o->dw + (ptrdiff_t)n0 * o->k + at, o->k,
                              o->add || k0 > 0);
}

bool gemm_dw_packs(const Ctx *cx) { return kern_paged() || reads_lines(cx->cpu); }

/* the first output of a chunk: chunks share out whole tiles evenly */
static int outer_start(const Outer *o, int chunk) {
  const int mr = kernels(o->cpu)->mr, tiles = ceil_div(o->n, mr);
  return min_int(o->n, (int)((int64_t)tiles * chunk / o->row_chunks) * mr);
}

static void outer_chunk(void *arg, int chunk, int worker) {
  const Outer *o = arg;
  const int r = chunk % o->row_chunks, n0 = outer_start(o, r), rows = outer_start(o, r + 1) - n0;
  const int p0 = chunk / o->row_chunks * o->panels;
  const int p1 = min_int(p0 + o->panels, own_panels(o->cpu, o->k));
  real *a = o->packed ? scratch_of(&o->scratch, worker) : NULL;
  int k0 = 0;
  if (rows == 0) return;
  do {
    const int depth = min_int(o->depth, o->m - k0);
    if (a)
      kernels(o->cpu)->pack_tiles(depth, rows, o->dy + k0 * o->lddy + n0, o->lddy, o->round, a);
    for (int p = p0; p < p1; p++)
      if (a)
        outer_packed(o, n0, rows, p, k0, depth, a);
      else
        outer_direct(o, n0, rows, p, k0, depth);
    k0 += o->depth;
  } while (k0 < o->m);
}

static Status pack_outer(const Ctx *cx, Outer *o) {
  real *packed = arena_alloc(cx->arena, sizeof(real) * gemm_packed_size(o->k, o->m));
  if (!packed) return fail(GRPO_ENOMEM, "gemm_dw: scratch memory");
  o->packed = packed;
  try(scratch_new(cx, (size_t)o->depth * (DW_ROWS + 16), "gemm_dw", &o->scratch));
  panels_pack(cx, o->k, o->m, o->x, o->ldx, 1, o->round, packed);
  return GRPO_OK;
}

static Status outer(const Ctx *cx, int m, int n, int k, const real *dy, int lddy, const real *x,
                    int ldx, bool round, real *dw, bool add) {
  const ArenaMark mark = arena_mark(cx->arena);
  const bool lone =
      n <= 2 * kernels(cx->cpu)
                   ->mr; /* an adapter has no outputs to share out, nor enough to pack x for */
  const bool packs = !lone && gemm_dw_packs(cx);
  if (round && !packs) { /* rounded copies have rows that can be read in place */
    try(rows_rounded(cx, m, n, dy, lddy, &dy));
    try(rows_rounded(cx, m, k, x, ldx, &x));
    try(outer(cx, m, n, k, dy, rounded_ld(n), x, rounded_ld(k), false, dw, add));
    arena_release(cx->arena, mark);
    return GRPO_OK;
  }
  const int cached = min_int(rows_cached(lddy), rows_cached(ldx));
  const bool direct = !packs && rows_readable(k, ldx) && rows_readable(GROUP, lddy);
  const int most = direct && n < 8 * DW_ROWS ? DW_ROWS / 2 : DW_ROWS;
  Outer o = {.cpu = cx->cpu,
             .m = m,
             .n = n,
             .k = k,
             .depth = gemm_piece(cx->cpu, m, direct ? min_int(cached, DIRECT_DEPTH) : DW_DEPTH),
             .row_chunks = round_up(ceil_div(n, most), 4),
             .panels = (direct ? DW_COLS : PACKED_COLS) / (kernels(cx->cpu)->ng * GROUP),
             .dy = dy,
             .x = x,
             .lddy = lddy,
             .ldx = ldx,
             .dw = dw,
             .add = add,
             .round = round};
  if (lone) {
    o.row_chunks = 1;
    o.panels = max_int(1, own_panels(cx->cpu, k) / DW_CHUNKS);
  }
  const int col_chunks = ceil_div(own_panels(cx->cpu, k), o.panels);
  if (o.row_chunks > 1 && o.row_chunks * col_chunks < (direct ? DW_CHUNKS : PACKED_CHUNKS))
    o.row_chunks *= 2;
  if (!direct) try(pack_outer(cx, &o));
  pool_run(cx->pool, o.row_chunks * col_chunks, outer_chunk, &o);
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

/* Columns that do not fill a vector are computed as rows, and transposed. */
static Status outer_transposed(const Ctx *cx, int m, int n, int k, const real *dy, int lddy,
                               const real *x, int ldx, bool round, real *dw, bool add) {
  const ArenaMark mark = arena_mark(cx->arena);
  real *t = arena_alloc(cx->arena, sizeof(real) * (size_t)n * (size_t)k);
  if (!t) return fail(GRPO_ENOMEM, "gemm_dw: scratch memory");
  if (add) kernels(cx->cpu)->transpose(n, k, dw, k, t, n);
  try(outer(cx, m, k, n, x, ldx, dy, lddy, round, t, add));
  kernels(cx->cpu)->transpose(k, n, t, n, dw, k);
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

static Status dw_of(const Ctx *cx, int m, int n, int k, const real *dy, int lddy, const real *x,
                    int ldx, bool round, real *dw, bool add) {
  if (n <= 0 || k <= 0) return GRPO_OK;
  return (k < GROUP && n > k ? outer_transposed : outer)(cx, m, n, k, dy, lddy, x, ldx, round, dw,
                                                         add);
}

Status gemm_dw(const Ctx *cx, int m, int n, int k, const real *dy, int lddy, const real *x, int ldx,
               bool in_out, real *dw, bool add) {
  if (in_out) return gemm_dw(cx, m, k, n, x, ldx, dy, lddy, false, dw, add);
  return dw_of(cx, m, n, k, dy, lddy, x, ldx, false, dw, add);
}

Status gemm_dw_rounded(const Ctx *cx, int m, int n, int k, const real *dy, int lddy, const real *x,
                       int ldx, real *dw, bool add) {
  return dw_of(cx, m, n, k, dy, lddy, x, ldx, true, dw, add);
}

/* ---- db ---- */
enum { DB_COLS = 64 };
typedef struct ColumnSum {
  const KernelClass *cpu;
  int m, n;
  const real *dy;
  ptrdiff_t ld;
  real *db;
} ColumnSum;

static void db_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const ColumnSum *s = arg;
  const int at = chunk * DB_COLS;
  kernels(s->cpu)->add_rows(s->m, min_int(DB_COLS, s->n - at), s->dy + at, s->ld, s->db + at);
}

Status gemm_db(const Ctx *cx, int m, int n, const real *dy, int lddy, real *db, bool add) {
  ColumnSum s = {cx->cpu, m, n, dy, lddy, db};
  if (!add) memset(db, 0, sizeof(real) * (size_t)n);
  pool_run(cx->pool, ceil_div(n, DB_COLS), db_chunk, &s);
  return GRPO_OK;
}
