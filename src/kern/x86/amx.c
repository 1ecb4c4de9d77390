/* amx.c - products of bf16 by AMX: tiles of 16 rows by 16 outputs, 16 pairs of inner steps at once.
 *
 * A unit of UNIT pairs is summed from zero, the first and the second of each pair apart, and then
 * added to an output (TDPBF16PS): other bits than avx512bf16.c's, and as there the same for a row
 * whatever stands beside it, since units begin at the first inner step of a product and a block of it
 * is whole units.
 *
 * a, the rows: tiles of 16, or what is left of them, [unit][row][UNIT], the last unit filled with zeros.
 */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kern/dispatch.h"

#define LANES 16
#include "kern/inner/types.inc.c"

enum {
  UNIT = 16,                /* pairs */
  ROWS = 16,                /* of a tile */
  TILE_WORDS = UNIT * ROWS, /* of a and b; of sums ROWS x GROUP */
  LINE = 64,                /* bytes of a row of a tile */
  SHARES = 16               /* strips of rows at most that share the fetching of what comes next */
};

#include "kern/inner/pairs512.inc.c"

/* ---- tiles: 0 to 3 sums [2 of rows][2 of columns], 4 and 5 rows, 6 and 7 columns ---- */

typedef struct TileConfig {
  uint8_t palette, start_row, reserved[14];
  uint16_t bytes[16];
  uint8_t rows[16];
} TileConfig;

static void configure(int upper, int lower) {
  TileConfig c = {.palette = 1};
  const uint8_t rows[8] = {(uint8_t)upper, (uint8_t)upper, (uint8_t)lower, (uint8_t)lower,
                           (uint8_t)upper, (uint8_t)lower, UNIT,           UNIT};
  for (int i = 0; i < 8; i++) c.rows[i] = rows[i] ? rows[i] : 1, c.bytes[i] = LINE;
  __asm__ volatile("" : : "r"(&c) : "memory"); /* compilers take it to read 8 bytes */
  _tile_loadconfig(&c);
}

/* One or two tiles of rows by one or two of columns. */
typedef struct Strip {
  int units;
  const uint32_t *a[2]; /* a unit is a_step words, rows a_line bytes apart */
  ptrdiff_t a_step[2], a_line;
  const uint32_t
      *last_a[2]; /* of the last unit, rows LINE apart, where that is not among a's; or NULL */
  const uint32_t *b[2];      /* a unit is UNIT lines b_line bytes apart */
  const uint32_t *last_b[2]; /* of the last unit, where that is not whole; or NULL */
  ptrdiff_t b_line;
  const uint32_t *fetch; /* lines that are fetched meanwhile, `lines` a unit, */
  ptrdiff_t fetch_bgs;   /* and as many so far on */
  int lines;
  real *c[2][2]; /* rows ldc[column] apart */
  ptrdiff_t ldc[2];
  bool add;
} Strip;

static inline __attribute__((always_inline)) void begin(const int mt, const int nt,
                                                        const Strip *t) {
  const ptrdiff_t ld0 = t->ldc[0] * (ptrdiff_t)sizeof(real),
                  ld1 = t->ldc[1] * (ptrdiff_t)sizeof(real);
  if (!t->add) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    return;
  }
  _tile_loadd(0, t->c[0][0], ld0);
  if (nt > 1) _tile_loadd(1, t->c[0][1], ld1);
  if (mt > 1) _tile_loadd(2, t->c[1][0], ld0);
  if (mt > 1 && nt > 1) _tile_loadd(3, t->c[1][1], ld1);
}

static inline __attribute__((always_inline)) void end(const int mt, const int nt, const Strip *t) {
  const ptrdiff_t ld0 = t->ldc[0] * (ptrdiff_t)sizeof(real),
                  ld1 = t->ldc[1] * (ptrdiff_t)sizeof(real);
  _tile_stored(0, t->c[0][0], ld0);
  if (nt > 1) _tile_stored(1, t->c[0][1], ld1);
  if (mt > 1) _tile_stored(2, t->c[1][0], ld0);
  if (mt > 1 && nt > 1) _tile_stored(3, t->c[1][1], ld1);
}

static inline __attribute__((always_inline)) void unit(const int mt, const int nt,
                                                       const uint32_t *const a[2], ptrdiff_t a_line,
                                                       const uint32_t *const b[2],
                                                       ptrdiff_t b_line) {
  _tile_loadd(6, b[0], b_line);
  _tile_loadd(4, a[0], a_line);
  _tile_dpbf16ps(0, 4, 6);
  if (nt > 1) {
    _tile_loadd(7, b[1], b_line);
    _tile_dpbf16ps(1, 4, 7);
  }
  if (mt > 1) {
    _tile_loadd(5, a[1], a_line);
    _tile_dpbf16ps(2, 5, 6);
    if (nt > 1) _tile_dpbf16ps(3, 5, 7);
  }
}

static inline __attribute__((always_inline)) void strip(const int mt, const int nt,
                                                        const Strip *t) {
  const uint32_t *a[2] = {t->a[0], t->a[1]}, *b[2] = {t->b[0], t->b[1]}, *fetch = t->fetch;
  const ptrdiff_t b_step = t->b_line / (ptrdiff_t)sizeof(uint32_t) * UNIT, bgs = t->fetch_bgs;
  begin(mt, nt, t);
  for (int u = t->units; u > 0; u--) {
    for (int i = t->lines; i > 0; i--, fetch += GROUP) {
      __builtin_prefetch(fetch);
      __builtin_prefetch(fetch + bgs);
    }
    unit(mt, nt, a, t->a_line, b, t->b_line);
    a[0] += t->a_step[0], b[0] += b_step;
    if (mt > 1) a[1] += t->a_step[1];
    if (nt > 1) b[1] += b_step;
  }
  if (t->last_a[0])
    unit(mt, nt, t->last_a, LINE, t->last_b, LINE);
  else if (t->last_b[0])
    unit(mt, nt, a, t->a_line, t->last_b, LINE);
  end(mt, nt, t);
}

static void run_strip(int mt, int nt, const Strip *t) {
  if (mt > 1) {
    if (nt > 1)
      strip(2, 2, t);
    else
      strip(2, 1, t);
  } else if (nt > 1)
    strip(1, 2, t);
  else
    strip(1, 1, t);
}

/* ---- block ---- */

/* n lines of `words` words as a tile, zeros behind them */
static void padded_tile(int n, int words, const uint32_t *from, ptrdiff_t step,
                        uint32_t out[TILE_WORDS]) {
  memset(out, 0, sizeof(uint32_t) * TILE_WORDS);
  for (int i = 0; i < n; i++, from += step)
    memcpy(out + i * UNIT, from, sizeof(uint32_t) * (size_t)words);
}

/* Columns that are partly outside c go through `edge`, a tile of sums a row tile. */
typedef struct Edge {
  real sums[2][ROWS * GROUP];
  int cols;
} Edge;

static void edge_in(Edge *e, int rows, const real *c, ptrdiff_t ldc, bool add) {
  for (int i = 0; i < rows && add; i++)
    memcpy(e->sums[i / ROWS] + i % ROWS * GROUP, c + i * ldc, sizeof(real) * (size_t)e->cols);
}

static void edge_out(const Edge *e, int rows, real *c, ptrdiff_t ldc) {
  for (int i = 0; i < rows; i++)
    memcpy(c + i * ldc, e->sums[i / ROWS] + i % ROWS * GROUP, sizeof(real) * (size_t)e->cols);
}

typedef struct Block {
  int m, pairs;
  const uint32_t *a;
  real *c;
  ptrdiff_t ldc;
  bool add;
} Block;

/* One or two groups of columns, all rows: c at the first column, `partial` columns (0: all) in the last
 * group. */
static void columns(const Block *q, int groups, const uint32_t *b, ptrdiff_t bgs, int partial,
                    const uint32_t *next) {
  const int units = q->pairs / UNIT, tail = q->pairs % UNIT, strips = kern_ceil(q->m, 2 * ROWS);
  const ptrdiff_t row_words = round_up(q->pairs, UNIT);
  uint32_t last[2][TILE_WORDS];
  Edge edge = {.cols = partial};
  const bool fetching = next && strips <= SHARES;
  const int each = fetching ? kern_ceil(UNIT, strips) : 0;
  Strip t = {.units = units, .a_line = LINE, .b = {b, b + bgs}, .b_line = LINE, .add = q->add};
  t.lines = each, t.fetch = next ? next : b, t.fetch_bgs = groups > 1 ? bgs : 0;
  for (int g = 0; g < groups && tail; g++) {
    padded_tile(tail, GROUP, b + g * bgs + units * TILE_WORDS, GROUP, last[g]);
    t.last_b[g] = last[g];
  }
  for (int i = 0; i < q->m; i += 2 * ROWS) {
    const int upper = kern_min(ROWS, q->m - i), lower = kern_min(ROWS, q->m - i - upper);
    real *c = q->c + i * q->ldc;
    if (i == 0 || lower < ROWS) configure(upper, lower);
    for (int r = 0; r < 2; r++) {
      t.a[r] = q->a + (i + r * ROWS) * row_words;
      t.a_step[r] = (r ? lower : upper) * UNIT;
      for (int g = 0; g < groups; g++) {
        const bool outside = partial && g == groups - 1;
        t.c[r][g] = outside ? edge.sums[r] : c + r * ROWS * q->ldc + g * GROUP;
        t.ldc[g] = outside ? GROUP : q->ldc;
      }
    }
    real *at = c + (groups - 1) * GROUP;
    if (partial) edge_in(&edge, upper + lower, at, q->ldc, q->add);
    run_strip(lower > 0 ? 2 : 1, groups, &t);
    if (partial) edge_out(&edge, upper + lower, at, q->ldc);
    t.fetch += (ptrdiff_t)each * units * GROUP;
  }
}

static void block(int m, int n, int pairs, const uint32_t *a, const uint32_t *b, ptrdiff_t bgs,
                  const uint32_t *next, real *c, ptrdiff_t ldc, bool add) {
  Block q = {m, pairs, a, c, ldc, add};
  for (int j = 0; j < n; j += 2 * GROUP, q.c += 2 * GROUP, b += 2 * bgs) {
    const int left = n - j, groups = left > GROUP ? 2 : 1;
    const int partial = left < 2 * GROUP ? left % GROUP : 0;
    columns(&q, groups, b, bgs, partial, left > 2 * GROUP ? b + 2 * bgs : next);
  }
  _tile_release();
}

/* ---- attention's ----
 * Tiles are configured once for many products: 0, 1 and 4 for `upper` rows, 2, 3 and 5 for `lower`.
 */
typedef struct Rows {
  int upper, lower;
} Rows;

static _Thread_local Rows configured;

static void begin_rows(int upper, int lower) {
  if (configured.upper == upper && configured.lower == lower) return;
  configure(upper, lower);
  configured = (Rows){upper, lower};
}

static void end_rows(void) {
  if (configured.upper) _tile_release();
  configured = (Rows){0};
}

/* One or two groups of columns of a product of `upper` rows, `lower` rows, or both. */
typedef struct Kept {
  const uint32_t *a[2]; /* rows of both */
  ptrdiff_t a_line;     /* bytes, as all lines */
  int units;
  const uint32_t *first[2], *b[2], *last[2]; /* before and after b's units, or NULL */
  ptrdiff_t b_line;
  real *c[2][2]; /* [rows][column] */
  ptrdiff_t c_line;
  bool add;
} Kept;

static inline __attribute__((always_inline)) void
kept_unit(const bool up, const bool low, const int nt, const uint32_t *a0, const uint32_t *a1,
          ptrdiff_t a_line, const uint32_t *b0, const uint32_t *b1, ptrdiff_t b_line) {
  _tile_loadd(6, b0, b_line);
  if (up) {
    _tile_loadd(4, a0, a_line);
    _tile_dpbf16ps(0, 4, 6);
  }
  if (low) {
    _tile_loadd(5, a1, a_line);
    _tile_dpbf16ps(2, 5, 6);
  }
  if (nt < 2) return;
  _tile_loadd(7, b1, b_line);
  if (up) _tile_dpbf16ps(1, 4, 7);
  if (low) _tile_dpbf16ps(3, 5, 7);
}

static inline __attribute__((always_inline)) void kept_begin(const bool up, const bool low,
                                                             const int nt, const Kept *t) {
  if (!t->add) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    return;
  }
  if (up) _tile_loadd(0, t->c[0][0], t->c_line);
  if (up && nt > 1) _tile_loadd(1, t->c[0][1], t->c_line);
  if (low) _tile_loadd(2, t->c[1][0], t->c_line);
  if (low && nt > 1) _tile_loadd(3, t->c[1][1], t->c_line);
}

static inline __attribute__((always_inline)) void kept_end(const bool up, const bool low,
                                                           const int nt, const Kept *t) {
  if (up) _tile_stored(0, t->c[0][0], t->c_line);
  if (up && nt > 1) _tile_stored(1, t->c[0][1], t->c_line);
  if (low) _tile_stored(2, t->c[1][0], t->c_line);
  if (low && nt > 1) _tile_stored(3, t->c[1][1], t->c_line);
}

static inline __attribute__((always_inline)) void kept(const bool up, const bool low, const int nt,
                                                       const Kept *t) {
  const uint32_t *a0 = t->a[0], *a1 = t->a[1], *b0 = t->b[0], *b1 = t->b[1];
  const ptrdiff_t b_step = t->b_line / (ptrdiff_t)sizeof(uint32_t) * UNIT;
  kept_begin(up, low, nt, t);
  if (t->first[0]) {
    kept_unit(up, low, nt, a0, a1, t->a_line, t->first[0], t->first[1], t->b_line);
    a0 += UNIT, a1 += UNIT;
  }
  for (int u = t->units; u > 0; u--, a0 += UNIT, a1 += UNIT, b0 += b_step, b1 += b_step)
    kept_unit(up, low, nt, a0, a1, t->a_line, b0, b1, t->b_line);
  if (t->last[0]) kept_unit(up, low, nt, a0, a1, t->a_line, t->last[0], t->last[1], LINE);
  kept_end(up, low, nt, t);
}

static void run_kept(int m, int nt, const Kept *t) {
  const bool up = m >= configured.upper, low = m != configured.upper;
  if (up && low) {
    if (nt > 1)
      kept(true, true, 2, t);
    else
      kept(true, true, 1, t);
  } else if (up) {
    if (nt > 1)
      kept(true, false, 2, t);
    else
      kept(true, false, 1, t);
  } else if (nt > 1)
    kept(false, true, 2, t);
  else
    kept(false, true, 1, t);
}

static void kept_rows(Kept *t, int m, const uint32_t *a, ptrdiff_t ars) {
  t->a[0] = a, t->a[1] = m > configured.upper ? a + configured.upper * ars : a;
  t->a_line = ars * (ptrdiff_t)sizeof *a;
}

static void kept_sums(Kept *t, int m, real *c, ptrdiff_t ldc) {
  real *lower = m > configured.upper ? c + configured.upper * ldc : c;
  t->c[0][0] = c, t->c[0][1] = c + GROUP, t->c[1][0] = lower, t->c[1][1] = lower + GROUP;
  t->c_line = ldc * (ptrdiff_t)sizeof *c;
}

static void scores(int m, int n, int pairs, const uint32_t *a, ptrdiff_t ars, const uint32_t *b,
                   ptrdiff_t bgs, real *c, ptrdiff_t ldc) {
  const int units = pairs / UNIT, tail = pairs % UNIT;
  uint32_t last[2][TILE_WORDS];
  Kept t = {.units = units, .b_line = LINE};
  kept_rows(&t, m, a, ars);
  if (tail) memset(last, 0, sizeof last);
  for (int j = 0; j < n; j += 2 * GROUP, b += 2 * bgs) {
    const int groups = n - j > GROUP ? 2 : 1;
    for (int g = 0; g < 2; g++) {
      t.b[g] = b + (g < groups ? g : 0) * bgs;
      if (!tail) continue;
      memcpy(last[g], t.b[g] + units * TILE_WORDS, (size_t)(tail * LINE));
      t.last[g] = last[g];
    }
    kept_sums(&t, m, c + j, ldc);
    run_kept(m, groups, &t);
  }
}

static void values(int m, int n, int units, const uint32_t *a, ptrdiff_t ars, const uint32_t *first,
                   const uint32_t *b, ptrdiff_t bps, real *c, ptrdiff_t ldc, bool add) {
  Kept t = {.units = units, .b_line = bps * (ptrdiff_t)sizeof *b, .add = add};
  kept_rows(&t, m, a, ars);
  for (int j = 0; j < n; j += 2 * GROUP) {
    const int groups = n - j > GROUP ? 2 : 1;
    for (int g = 0; g < 2; g++) {
      const int at = j + (g < groups ? g : 0) * GROUP;
      t.b[g] = b + at, t.first[g] = first ? first + at : NULL;
    }
    kept_sums(&t, m, c + j, ldc);
    run_kept(m, groups, &t);
  }
}

#include "kern/inner/softmax16.inc.c"

/* ---- rows ---- */

static void pair_rows(int m, int k, const real *x, ptrdiff_t ldx, uint32_t *a) {
  const ptrdiff_t lda = round_up(kern_ceil(k, 2), UNIT);
  for (int i = 0, rows; i < m; i += rows) {
    rows = kern_min(ROWS, m - i);
    uint32_t *to = a + i * lda;
    for (int p = 0; p < k; p += 2 * UNIT)
      for (int r = 0; r < rows; r++, to += UNIT)
        _mm512_storeu_si512(to, pairs_at(x + (i + r) * ldx + p, k - p));
  }
}

/* Interleaving the first half of 16 lines with the second, four times, transposes them. */
static inline void transpose16(__m512i x[UNIT]) {
  __m512i y[UNIT];
  UNROLL for (int round = 0; round < 4; round++) {
    UNROLL for (int i = 0; i < UNIT / 2; i++) {
      y[2 * i] = zip_low(x[i], x[i + UNIT / 2]);
      y[2 * i + 1] = zip_high(x[i], x[i + UNIT / 2]);
    }
    UNROLL for (int i = 0; i < UNIT; i++) x[i] = y[i];
  }
}

static void pair_column_tile(int rows, int depth, const real *x, ptrdiff_t ldx, uint32_t *a) {
  const __mmask16 present = first_lanes(rows);
  for (int p = 0; p < depth; p += 2 * UNIT, x += 2 * UNIT * ldx, a += rows * UNIT) {
    __m512i t[UNIT];
    UNROLL for (int i = 0; i < UNIT; i++) {
      const int left = depth - p - 2 * i;
      const real *from = x + 2 * i * ldx;
      __builtin_prefetch(from + COLUMNS_AHEAD * ldx);
      __builtin_prefetch(from + (COLUMNS_AHEAD + 1) * ldx);
      t[i] = pair_lanes(_mm512_maskz_loadu_ps(left > 0 ? present : 0, from),
                        _mm512_maskz_loadu_ps(left > 1 ? present : 0, from + ldx));
    }
    transpose16(t);
    for (int r = 0; r < rows; r++) _mm512_storeu_si512(a + r * UNIT, t[r]);
  }
}

static void pair_columns(int m, int depth, const real *x, ptrdiff_t ldx, uint32_t *a) {
  const ptrdiff_t lda = round_up(kern_ceil(depth, 2), UNIT);
  for (int i = 0; i < m; i += ROWS)
    pair_column_tile(kern_min(ROWS, m - i), depth, x + i, ldx, a + i * lda);
}

const Kernels16 kern_amx = {
    .mr = ROWS,
    .unit = UNIT,
    .block = block,
    .begin = begin_rows,
    .end = end_rows,
    .scores = scores,
    .values = values,
    .softmax = softmax16,
    .pair_rows = pair_rows,
    .pair_row = pair_row,
    .pair_columns = pair_columns,
    .pair_group = pair_group,
    .widen_f32 = widen_f32,
    .widen_f16 = widen_f16,
    .widen_int8 = widen_int8,
    .widen_nf4 = widen_nf4,
    .turn = turn,
};
