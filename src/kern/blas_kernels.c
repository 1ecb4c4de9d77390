/* blas_kernels.c - the kernel class `blas`: products with weights through OpenBLAS, all else as in
 * generic.c.
 *
 * It is for CPUs that have no kernels of ours (POWER, RISC-V, s390x, x86 before AVX2).  The
 * contract of kern.h holds there too, above all that a row's result does not depend on the rows
 * beside it.  A BLAS promises no such thing: its kernels for 16 rows, for 4 and for what is left
 * over may add up in different orders.  So sgemm only ever sees tiles of a few fixed shapes:
 *
 *   - Inner steps come in blocks of STEP, counted from a product's first one, and the last block is
 *     padded with zeros to a multiple of DEPTH_UNIT.  Each block is added to the output once, so an
 *     output is the same sum of block sums whatever the number of rows.  (Drivers cut the inner
 *     dimension at multiples of Kernels.gemm_step only.)
 *   - Columns come in whole groups, at most three, and rows in the numbers of `row_counts`.  Rows
 *     that are left over are padded up to the smallest number.
 *
 * When the class is first used, each of these shapes is computed with all rows alike and all
 * columns alike.  A number of rows is allowed if every output of its tiles is the same number,
 * at each depth, and the same as for the largest number of rows that is allowed: then neither
 * the place in a tile nor the tile's shape can change a bit.  Haswell's kernels pass with 4 and
 * 8 rows, most others with all.  If no number passes, generic.c multiplies and kern_name says
 * so.
 *
 * A tile has less work than OpenBLAS would share out to threads of its own; ours call it side by
 * side. Attention's products have other shapes and stay with generic.c.  Products in bf16 and
 * with quantised weights reach this file as float32, rounded and unpacked by their drivers.
 */
#include <pthread.h>
#include <string.h>

#include "kern/blas.h"
#include "kern/blas_kernels.h"
#include "kern/kernels.h"

#ifndef GRPO_DOUBLE

enum {
  STEP = 128,       /* inner steps of a tile */
  DEPTH_UNIT = 16,  /* the steps of the last block are padded to a multiple of this */
  COLS = 3 * GROUP, /* columns of a tile, at most */
  ROWS = 32, /* rows of a tile, at most: 32 x 48 x 128 is below OpenBLAS's threshold for threads */
  CHECKED_VALUES = 4 /* rows and columns that the check tries */
};

/* ---- the check ---- */

static const int row_counts[] = {ROWS, 16, 8, 4, 2, 1};
enum { ROW_COUNTS = sizeof row_counts / sizeof *row_counts, DEPTHS = STEP / DEPTH_UNIT };

static struct {
  int rows[ROW_COUNTS], count; /* the numbers of rows that are allowed, the largest first */
  const char *refusal;
} checked;

typedef struct Trial {
  float a[ROWS * STEP], b[STEP * COLS], c[ROWS * COLS];
} Trial;

static void fill(Trial *t, uint32_t seed, int depth) {
  for (int p = 0; p < depth; p++) {
    seed = seed * 1664525u + 1013904223u;
    const float x = (float)(seed >> 8) / (1 << 23) - 1;
    seed = seed * 1664525u + 1013904223u;
    const float w = (float)(seed >> 8) / (1 << 23) - 1;
    for (int i = 0; i < ROWS; i++) t->a[i * depth + p] = x;
    for (int j = 0; j < COLS; j++) t->b[p * COLS + j] = w;
  }
}

/* Are all outputs of a tile equal?  Then *value is their number. */
static bool uniform(Trial *t, int rows, int cols, int depth, bool add, float *value) {
  for (int i = 0; i < ROWS * COLS; i++) t->c[i] = 0.75F;
  blas_gemm(&(BlasGemm){.m = rows,
                        .n = cols,
                        .k = depth,
                        .a = t->a,
                        .lda = depth,
                        .b = t->b,
                        .ldb = COLS,
                        .beta = add,
                        .c = t->c,
                        .ldc = COLS});
  *value = t->c[0];
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < cols; j++)
      if (memcmp(&t->c[i * COLS + j], value, sizeof *value) != 0) return false;
  return true;
}

/* Do tiles of `rows` rows give one number at each depth?  `set`: these numbers become value, else
 * they must equal it. */
static bool row_count_passes(Trial *t, uint32_t seed, int rows, float value[DEPTHS][2], bool set) {
  for (int d = 0; d < DEPTHS; d++) {
    fill(t, seed + (uint32_t)d, (d + 1) * DEPTH_UNIT);
    for (int cols = GROUP; cols <= COLS; cols += GROUP)
      for (int add = 0; add < 2; add++) {
        float got;
        if (!uniform(t, rows, cols, (d + 1) * DEPTH_UNIT, add, &got)) return false;
        if (set && cols == GROUP) value[d][add] = got;
        if (memcmp(&value[d][add], &got, sizeof got) != 0) return false;
      }
  }
  return true;
}

static void check(void) {
  static Trial t;
  float value[CHECKED_VALUES][DEPTHS][2];
  if (!blas_load()) {
    checked.refusal = blas_absence();
    return;
  }
  if (!blas_is_reentrant()) {
    checked.refusal = "it is a build for one thread, which several may not call at once";
    return;
  }
  for (int i = 0; i < ROW_COUNTS; i++) {
    bool passes = true;
    for (int v = 0; v < CHECKED_VALUES && passes; v++)
      passes =
          row_count_passes(&t, 1 + 1000 * (uint32_t)v, row_counts[i], value[v], checked.count == 0);
    if (passes) checked.rows[checked.count++] = row_counts[i];
  }
  if (checked.count == 0)
    checked.refusal = "in its sgemm a row's bits depend on its place in a tile";
}

const char *blas_refusal(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, check);
  return checked.refusal;
}

/* ---- tiles ---- */

/* The rows of the next tile when `left` are left. */
static int tile_rows(int left) {
  int i = 0;
  while (i < checked.count - 1 && checked.rows[i] > left) i++;
  return checked.rows[i];
}

/* out[rows, padded] = a, with zeros behind its `depth` steps and in rows beyond `have` */
static void copy_a(int have, int rows, int depth, int padded, const float *a, ptrdiff_t ars,
                   ptrdiff_t aks, float *out) {
  memset(out, 0, sizeof *out * (size_t)(rows * padded));
  if (aks == 1)
    for (int i = 0; i < have; i++)
      memcpy(out + i * padded, a + i * ars, sizeof *out * (size_t)depth);
  else
    for (int i = 0; i < have; i++)
      for (int p = 0; p < depth; p++) out[i * padded + p] = a[i * ars + p * aks];
}

/* out[padded, width] = b, with zeros behind its `depth` steps */
static void copy_b(int width, int depth, int padded, const float *b, ptrdiff_t brs, ptrdiff_t bgs,
                   float *out) {
  for (int p = 0; p < depth; p++)
    for (int j = 0; j < width; j += GROUP)
      memcpy(out + p * width + j, b + p * brs + j / GROUP * bgs, sizeof *out * GROUP);
  memset(out + depth * width, 0, sizeof *out * (size_t)((padded - depth) * width));
}

/* Columns of one tile and one block of inner steps, for all rows. */
typedef struct BlasStrip {
  int m, cols, width, depth, padded; /* cols exist of width, depth of padded */
  const float *a, *b;
  ptrdiff_t ars, aks, ldb, ldc;
  float *c;
  bool add;
} BlasStrip;

static void multiply_strip(const BlasStrip *s) {
  float a_copy[ROWS * STEP], c_copy[ROWS * COLS];
  for (int i = 0, rows, have; i < s->m; i += have) {
    rows = tile_rows(s->m - i), have = min_int(rows, s->m - i);
    BlasGemm g = {.m = rows, .n = s->width, .k = s->padded, .b = s->b, .ldb = (int)s->ldb};
    g.beta = s->add;
    g.a = s->a + i * s->ars, g.lda = (int)s->ars;
    if (have < rows || s->aks != 1 || s->ars < s->padded || s->depth < s->padded) {
      copy_a(have, rows, s->depth, s->padded, g.a, s->ars, s->aks, a_copy);
      g.a = a_copy, g.lda = s->padded;
    }
    float *const c = s->c + i * s->ldc;
    const size_t bytes = sizeof *c * (size_t)s->cols;
    const bool whole = have == rows && s->cols == s->width && s->ldc >= s->width;
    g.c = c, g.ldc = (int)s->ldc;
    if (!whole) {
      memset(c_copy, 0, sizeof *c_copy * (size_t)(rows * s->width));
      for (int r = 0; s->add && r < have; r++) memcpy(c_copy + r * s->width, c + r * s->ldc, bytes);
      g.c = c_copy, g.ldc = s->width;
    }
    blas_gemm(&g);
    for (int r = 0; !whole && r < have; r++) memcpy(c + r * s->ldc, c_copy + r * s->width, bytes);
  }
}

/* Kernels.gemm_block by OpenBLAS. */
static void block(int m, int n, int k, const float *a, ptrdiff_t ars, ptrdiff_t aks, const float *b,
                  ptrdiff_t brs, ptrdiff_t bgs, float *c, ptrdiff_t ldc, bool add) {
  if (blas_refusal() || k <= 0) {
    kern_generic.block(m, n, k, a, ars, aks, b, brs, bgs, c, ldc, add);
    return;
  }
  float b_copy[STEP * COLS];
  for (int j = 0; j < n; j += COLS)
    for (int k0 = 0; k0 < k; k0 += STEP) {
      BlasStrip s = {.m = m, .cols = min_int(COLS, n - j), .depth = min_int(STEP, k - k0)};
      s.width = round_up(s.cols, GROUP), s.padded = round_up(s.depth, DEPTH_UNIT);
      s.a = a + k0 * aks, s.ars = ars, s.aks = aks;
      s.b = b + j / GROUP * bgs + k0 * brs, s.ldb = brs;
      if (s.depth < s.padded || brs < s.width || (bgs != GROUP && s.width > GROUP)) {
        copy_b(s.width, s.depth, s.padded, s.b, brs, bgs, b_copy);
        s.b = b_copy, s.ldb = s.width;
      }
      s.c = c + j, s.ldc = ldc, s.add = add || k0 > 0;
      multiply_strip(&s);
    }
}

static void stream(int m, int n, int k, const float *a, ptrdiff_t ars, const float *b,
                   ptrdiff_t brs, const float *next, float *c, ptrdiff_t ldc, bool add) {
  (void)next;
  block(m, n, k, a, ars, 1, b, brs, GROUP, c, ldc, add);
}

/* ---- operands: panels are as wide as a tile, and tiles of dy (gemm_dw.c) are its columns as
 * rows ---- */

static void pack_columns(int depth, int cols, int width, const float *src, ptrdiff_t ld,
                         float *dst) {
  for (int p = 0; p < depth; p++, src += ld, dst += width) {
    memcpy(dst, src, sizeof *dst * (size_t)cols);
    memset(dst + cols, 0, sizeof *dst * (size_t)(width - cols));
  }
}

static void pack_tiles(int depth, int cols, const float *src, ptrdiff_t ld, bool round,
                       float *dst) {
  kern_generic.transpose(depth, cols, src, ld, dst, depth);
  if (round) kern_generic.round_bf16((size_t)depth * (size_t)cols, dst, dst);
}

static void outer(int m, int n, int k, const float *a, const float *b, ptrdiff_t brs, float *c,
                  ptrdiff_t ldc, bool add) {
  block(m, n, k, a, k, 1, b, brs, GROUP, c, ldc, add);
}

Kernels kern_openblas;

/* The table is generic.c's, except for products. */
__attribute__((constructor(101))) static void make_table(void) {
  kern_openblas = kern_generic;
  kern_openblas.mr = 8;
  kern_openblas.ng = COLS / GROUP;
  kern_openblas.gemm_block = block;
  kern_openblas.gemm_step = STEP;
  kern_openblas.stream = stream;
  kern_openblas.outer = outer;
  kern_openblas.pack_columns = pack_columns;
  kern_openblas.pack_tiles = pack_tiles;
}

#else

const char *blas_refusal(void) { return "products in double are our own"; }

#endif
