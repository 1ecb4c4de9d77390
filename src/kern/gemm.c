/* gemm.c - matrix products: packing, blocking and threads around Kernels.block.
 *
 * The inner dimension is walked in steps of DEPTH with the output reloaded,
 * which changes no bit; what a thread takes at a time depends on shapes only.
 */
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/pool.h"
#include "kern/dispatch.h"

enum {
  DEPTH = 512,       /* inner steps a block: a panel of it stays in L2 */
  ROWS = 96,         /* rows a chunk in the forward product */
  PACK_ROWS = 256,   /* rows a chunk when each chunk packs its own panel */
  PLAIN_DEPTH = 128, /* inner steps when the panel is on the stack */
  DW_DEPTH = 256,
  DW_ROWS = 96,        /* a multiple of every mr */
  DW_COLS = 384,       /* of every panel's width */
  CHUNK_WORK = 1 << 16 /* multiply-adds worth a chunk of their own */
};

/* ---- panels: groups of GROUP outputs, ng together; never a lone last one of 4 ---- */
static int panel_count(int n) { return kern_ceil(kern_ceil(n, GROUP), kernels()->ng); }

/* the first group of panel p */
static int panel_start(int n, int p) {
  const int groups = kern_ceil(n, GROUP), ng = kernels()->ng, start = p * ng;
  if (start >= groups) return groups;
  return ng > 2 && groups > ng && start == groups - 1 ? start - 1 : start;
}

size_t gemm_packed_size(int n, int k) { return (size_t)round_up(n, GROUP) * (size_t)k; }

/* dst[p][j] = src(p, j) for `depth` inner steps and `width` columns, of which `cols` exist. */
static void pack_panel(int depth, int cols, int width, const real *src, ptrdiff_t ps, ptrdiff_t cs,
                       real *dst) {
  if (cs == 1) {
    for (ptrdiff_t p = 0; p < depth; p++) {
      memcpy(dst + p * width, src + p * ps, sizeof(real) * (size_t)cols);
      memset(dst + p * width + cols, 0, sizeof(real) * (size_t)(width - cols));
    }
    return;
  }
  kernels()->transpose(cols, depth, src, cs, dst, width); /* ps is 1 */
  for (ptrdiff_t p = 0; p < depth && cols < width; p++)
    memset(dst + p * width + cols, 0, sizeof(real) * (size_t)(width - cols));
}

typedef struct Pack {
  int n, k;
  const real *w;
  ptrdiff_t ps, cs;
  real *packed;
} Pack;

static void pack_chunk(void *arg, int p, int worker) {
  (void)worker;
  const Pack *j = arg;
  const int g0 = panel_start(j->n, p), g1 = panel_start(j->n, p + 1), at = g0 * GROUP;
  pack_panel(j->k, kern_min(j->n, g1 * GROUP) - at, (g1 - g0) * GROUP, j->w + at * j->cs, j->ps,
             j->cs, j->packed + (size_t)at * (size_t)j->k);
}

void gemm_pack(const Ctx *cx, int n, int k, const real *w, bool in_out, real *packed) {
  Pack j = {n, k, w, in_out ? n : 1, in_out ? 1 : k, packed};
  pool_run(cx->pool, panel_count(n), pack_chunk, &j);
}

/* ---- forward: packed weights ---- */
typedef struct Forward {
  int m, n, k, rows, panels; /* rows and panels a chunk */
  int row_chunks;
  const real *x;
  ptrdiff_t ldx, ldy;
  const real *packed, *bias;
  real *y;
  bool add;
} Forward;

static void forward_block(const Forward *f, int r0, int rows, int p, int k0, int depth) {
  const int g0 = panel_start(f->n, p), width = (panel_start(f->n, p + 1) - g0) * GROUP;
  const int at = g0 * GROUP, cols = kern_min(width, f->n - at);
  real *y = f->y + r0 * f->ldy + at;
  kernels()->block(rows, cols, depth, f->x + r0 * f->ldx + k0, f->ldx, 1,
                   f->packed + (size_t)at * (size_t)f->k + (size_t)k0 * (size_t)width, width, GROUP,
                   y, f->ldy, f->add || k0 > 0);
  if (f->bias && k0 + depth >= f->k)
    for (int i = 0; i < rows; i++, y += f->ldy) kernels()->add((size_t)cols, y, f->bias + at, y);
}

static void forward_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const Forward *f = arg;
  const int r0 = chunk % f->row_chunks * f->rows, rows = kern_min(f->rows, f->m - r0);
  const int p0 = chunk / f->row_chunks * f->panels;
  const int p1 = kern_min(p0 + f->panels, panel_count(f->n));
  int k0 = 0;
  do {
    const int depth = kern_min(DEPTH, f->k - k0);
    for (int p = p0; p < p1; p++) forward_block(f, r0, rows, p, k0, depth);
    k0 += DEPTH;
  } while (k0 < f->k);
}

static void forward(const Ctx *cx, int m, int n, int k, const real *x, int ldx, const real *packed,
                    const real *bias, real *y, int ldy, bool add) {
  if (m <= 0 || n <= 0) return;
  const int blocks = kern_ceil(m, ROWS), rows = round_up(kern_ceil(m, blocks), 8);
  const int width = kernels()->ng * GROUP;
  const double panel_work = (double)kern_min(rows, m) * k * width;
  int panels = panel_work >= CHUNK_WORK ? 1 : (int)(CHUNK_WORK / (panel_work + 1)) + 1;
  if (m > ROWS / 2) panels = kern_max(panels, 2 * 3 * GROUP / width);
  Forward f = {m, n, k, rows, panels, kern_ceil(m, rows), x, ldx, ldy, packed, bias, y, add};
  pool_run(cx->pool, f.row_chunks * kern_ceil(panel_count(n), panels), forward_chunk, &f);
}

void gemm_forward(const Ctx *cx, int m, int n, int k, const real *x, int ldx, const real *packed,
                  const real *bias, real *y, int ldy) {
  forward(cx, m, n, k, x, ldx, packed, bias, y, ldy, false);
}

void gemm_forward_add(const Ctx *cx, int m, int n, int k, const real *x, int ldx,
                      const real *packed, real *y, int ldy) {
  forward(cx, m, n, k, x, ldx, packed, NULL, y, ldy, true);
}

/* ---- products that pack as they go: c[m,n] (+)= a b, any strides ---- */
typedef struct Product {
  int m, n, k, depth, rows, row_chunks;
  const real *a, *b;
  ptrdiff_t ars, aks, bps, bcs, ldc; /* a(i,p) = a[i ars + p aks], b(p,j) = b[p bps + j bcs] */
  real *c;
  bool add;
  Scratch scratch; /* for panels, where the stack has no room */
} Product;

static void product_chunk(const Product *q, int chunk, real *panel) {
  const int r0 = chunk % q->row_chunks * q->rows, p = chunk / q->row_chunks;
  const int rows = kern_min(q->rows, q->m - r0), g0 = panel_start(q->n, p);
  const int width = (panel_start(q->n, p + 1) - g0) * GROUP, at = g0 * GROUP;
  const int cols = kern_min(width, q->n - at);
  int k0 = 0;
  do {
    const int depth = kern_min(q->depth, q->k - k0);
    pack_panel(depth, cols, width, q->b + k0 * q->bps + at * q->bcs, q->bps, q->bcs, panel);
    kernels()->block(rows, cols, depth, q->a + r0 * q->ars + k0 * q->aks, q->ars, q->aks, panel,
                     width, GROUP, q->c + r0 * q->ldc + at, q->ldc, q->add || k0 > 0);
    k0 += q->depth;
  } while (k0 < q->k);
}

static void scratch_product(void *arg, int chunk, int worker) {
  const Product *q = arg;
  product_chunk(q, chunk, scratch_of(&q->scratch, worker));
}

static void stack_product(void *arg, int chunk, int worker) {
  (void)worker;
  real panel[PLAIN_DEPTH * 3 * GROUP];
  product_chunk(arg, chunk, panel);
}

static void product_run(const Ctx *cx, Product *q, PoolFn fn) {
  q->rows = round_up(kern_ceil(q->m, kern_ceil(q->m, PACK_ROWS)), 8);
  q->row_chunks = kern_ceil(q->m, q->rows);
  pool_run(cx->pool, q->row_chunks * panel_count(q->n), fn, q);
}

Status gemm_dx(const Ctx *cx, int m, int n, int k, const real *dy, int lddy, const real *w,
               bool in_out, real *dx, int lddx, bool add) {
  if (m <= 0 || k <= 0) return GRPO_OK;
  const ArenaMark mark = arena_mark(cx->arena);
  Product q = {.m = m,
               .n = k,
               .k = n,
               .depth = DEPTH,
               .a = dy,
               .ars = lddy,
               .aks = 1,
               .b = w,
               .bps = in_out ? 1 : k,
               .bcs = in_out ? n : 1,
               .ldc = lddx,
               .c = dx,
               .add = add};
  try(scratch_new(cx, (size_t)DEPTH * 3 * GROUP, "gemm_dx", &q.scratch));
  product_run(cx, &q, scratch_product);
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

void gemm_plain(const Ctx *cx, int m, int n, int k, const real *a, bool ta, const real *b, bool tb,
                real *c, bool add) {
  if (m <= 0 || n <= 0) return;
  Product q = {.m = m,
               .n = n,
               .k = k,
               .depth = PLAIN_DEPTH,
               .a = a,
               .ars = ta ? 1 : k,
               .aks = ta ? m : 1,
               .b = b,
               .bps = tb ? 1 : n,
               .bcs = tb ? k : 1,
               .ldc = n,
               .c = c,
               .add = add};
  product_run(cx, &q, stack_product);
}

/* ---- dw[n,k] = dy^T x, rows of the batch in index order ----
 * x is packed whole, once; a chunk packs its own columns of dy. */
typedef struct Outer {
  int m, n, k, rows, row_chunks;
  const real *dy, *x; /* x: packed */
  ptrdiff_t lddy;
  real *dw;
  bool add;
  Scratch scratch;
} Outer;

static inline __attribute__((always_inline)) void
copy_tile(const int mr, int depth, const real *src, ptrdiff_t ld, real *dst) {
  for (int p = 0; p < depth; p++, src += ld, dst += mr) memcpy(dst, src, sizeof(real) * (size_t)mr);
}

/* dst[tile][p][mr]: the tile's mr columns of dy side by side */
static void pack_rows(int depth, int rows, const real *dy, ptrdiff_t lddy, real *dst) {
  const int mr = kernels()->mr;
  for (int i = 0; i < rows; i += mr, dst += (ptrdiff_t)mr * depth)
    if (rows - i < mr)
      for (ptrdiff_t p = 0; p < depth; p++)
        memcpy(dst + p * mr, dy + p * lddy + i, sizeof(real) * (size_t)(rows - i));
    else if (mr == 8) /* a constant size is a load and a store, not a call */
      copy_tile(8, depth, dy + i, lddy, dst);
    else if (mr == 6)
      copy_tile(6, depth, dy + i, lddy, dst);
    else
      copy_tile(mr, depth, dy + i, lddy, dst);
}

static void outer_panel(const Outer *o, int n0, int rows, int p, int k0, int depth, const real *a) {
  const Kernels *kn = kernels();
  const int g0 = panel_start(o->k, p), width = (panel_start(o->k, p + 1) - g0) * GROUP;
  const int at = g0 * GROUP, cols = kern_min(width, o->k - at);
  const real *x = o->x + (size_t)at * (size_t)o->m + (size_t)k0 * (size_t)width;
  for (int i = 0; i < rows; i += kn->mr)
    kn->block(kern_min(kn->mr, rows - i), cols, depth, a + (ptrdiff_t)i * depth, 1, kn->mr, x,
              width, GROUP, o->dw + (ptrdiff_t)(n0 + i) * o->k + at, o->k, o->add || k0 > 0);
}

static void outer_chunk(void *arg, int chunk, int worker) {
  const Outer *o = arg;
  const int n0 = chunk % o->row_chunks * o->rows, rows = kern_min(o->rows, o->n - n0);
  const int panels = DW_COLS / (kernels()->ng * GROUP), p0 = chunk / o->row_chunks * panels;
  const int p1 = kern_min(p0 + panels, panel_count(o->k));
  real *a = scratch_of(&o->scratch, worker);
  int k0 = 0;
  do {
    const int depth = kern_min(DW_DEPTH, o->m - k0);
    pack_rows(depth, rows, o->dy + k0 * o->lddy + n0, o->lddy, a);
    for (int p = p0; p < p1; p++) outer_panel(o, n0, rows, p, k0, depth, a);
    k0 += DW_DEPTH;
  } while (k0 < o->m);
}

Status gemm_dw(const Ctx *cx, int m, int n, int k, const real *dy, int lddy, const real *x, int ldx,
               bool in_out, real *dw, bool add) {
  if (n <= 0 || k <= 0) return GRPO_OK;
  if (in_out) return gemm_dw(cx, m, k, n, x, ldx, dy, lddy, false, dw, add);
  const ArenaMark mark = arena_mark(cx->arena);
  const int rows = n < 8 * DW_ROWS ? DW_ROWS / 2 : DW_ROWS;
  Outer o = {m, n, k, rows, kern_ceil(n, rows), dy, NULL, lddy, dw, add, {0}};
  Pack pack = {k, m, x, ldx, 1, arena_alloc(cx->arena, sizeof(real) * gemm_packed_size(k, m))};
  if (!pack.packed) return fail(GRPO_ENOMEM, "gemm_dw: scratch memory");
  o.x = pack.packed;
  try(scratch_new(cx, (size_t)DW_DEPTH * (DW_ROWS + 8), "gemm_dw", &o.scratch));
  pool_run(cx->pool, panel_count(k), pack_chunk, &pack);
  const int cols = DW_COLS / (kernels()->ng * GROUP);
  pool_run(cx->pool, o.row_chunks * kern_ceil(panel_count(k), cols), outer_chunk, &o);
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

/* ---- db ---- */
enum { DB_COLS = 64 };
typedef struct ColumnSum {
  int m, n;
  const real *dy;
  ptrdiff_t ld;
  real *db;
  bool add;
} ColumnSum;

static void db_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const ColumnSum *s = arg;
  const int at = chunk * DB_COLS;
  const size_t cols = (size_t)kern_min(DB_COLS, s->n - at);
  real *db = s->db + at;
  if (!s->add) memset(db, 0, sizeof(real) * cols);
  for (int i = 0; i < s->m; i++) kernels()->add(cols, db, s->dy + i * s->ld + at, db);
}

Status gemm_db(const Ctx *cx, int m, int n, const real *dy, int lddy, real *db, bool add) {
  ColumnSum s = {m, n, dy, lddy, db, add};
  pool_run(cx->pool, kern_ceil(n, DB_COLS), db_chunk, &s);
  return GRPO_OK;
}
