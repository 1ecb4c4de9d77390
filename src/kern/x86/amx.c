/* amx.c - products of bf16 by AMX: tiles of 16 rows by 16 outputs, 16 pairs of inner steps at once.
 *
 * The instruction TDPBF16PS sums a unit of UNIT pairs from zero, the first and the second of each
 * pair apart, and then adds it to an output.  The bits therefore differ from those of
 * avx512bf16.c.  As there, a row is the same whatever stands beside it, because units begin at
 * the first inner step of a product and blocks are whole units.
 *
 * The rows a are in tiles of 16, or what is left of them: [unit][row][UNIT], with the last unit
 * filled up with zeros.
 */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kern/kernels.h"
#include "kern/kv.h"

#define LANES 16
#include "kern/inner/types.inc.c"

enum {
  UNIT = 16,                /* pairs of a unit */
  ROWS = 16,                /* rows of a tile */
  TILE_WORDS = UNIT * ROWS, /* pairs of a tile of a or b; a tile of sums is ROWS x GROUP */
  LINE = 64,                /* bytes of a row of a tile */
  COLUMNS = 4,              /* tiles of columns of one tile of rows, at most */
  /* strips of rows at most that share the prefetching of what comes next */
  SHARES = 16
};

#include "kern/inner/pack_bf16_avx512.inc.c"

/* ---- tiles: 0 to 3 sums; 4 rows; 5 rows or columns; 6 and 7 columns ---- */

typedef struct TileConfig {
  uint8_t palette, start_row, reserved[14];
  uint16_t bytes[16];
  uint8_t rows[16];
} TileConfig;

/* Configures tiles for the rows of the upper and of the lower tile; lower is 0 if there is none,
 * and then there are up to 4 tiles of columns. */
static void configure(int upper, int lower) {
  TileConfig c = {.palette = 1};
  const int below = lower ? lower : upper;
  const int rows[8] = {upper, upper, below, below, upper, lower ? lower : UNIT, UNIT, UNIT};
  for (int i = 0; i < 8; i++) c.rows[i] = (uint8_t)rows[i], c.bytes[i] = LINE;
  __asm__ volatile("" : : "r"(&c) : "memory"); /* compilers believe that it reads 8 bytes */
  _tile_loadconfig(&c);
}

/* A product of one tile of rows by up to four of columns, or of two by up to two. */
typedef struct AmxStrip {
  int units;
  const uint32_t *a[2]; /* a unit is a_step pairs */
  ptrdiff_t a_step[2];
  const uint32_t *b[COLUMNS];      /* a unit is TILE_WORDS pairs */
  const uint32_t *last_b[COLUMNS]; /* for the last unit, if it is not whole; or NULL */
  const uint32_t
      *fetch; /* lines of each tile of columns that are prefetched meanwhile, `lines` per unit */
  ptrdiff_t fetch_bgs;
  int lines;
  const real *bias[COLUMNS]; /* sums begin with it; or NULL */
  real *c[2][COLUMNS];       /* rows ldc[column] apart */
  ptrdiff_t ldc[COLUMNS];
  bool add;
  /* rows of the next strip, prefetched to be written, next_rows per unit; or NULL */
  const real *next_c;
  ptrdiff_t next_ld;
  int next_rows;
} AmxStrip;

/* Tile instructions need literal numbers.  DO(number of a tile of sums, its tile of rows, its tile
 * of columns), for one tile of rows or for two. */
#define EACH_SUM(DO)                                                                               \
  DO(0, 0, 0);                                                                                     \
  if (nt > 1) DO(1, 0, 1);                                                                         \
  if (mt > 1) DO(2, 1, 0);                                                                         \
  if (mt > 1 && nt > 1) DO(3, 1, 1);                                                               \
  if (mt == 1 && nt > 2) DO(2, 0, 2);                                                              \
  if (mt == 1 && nt > 3) DO(3, 0, 3)

static inline __attribute__((always_inline)) void begin(const int mt, const int nt,
                                                        const AmxStrip *t) {
#define ZERO_SUM(i, r, g) _tile_zero(i)
#define LOAD_SUM(i, r, g) _tile_loadd(i, t->c[r][g], t->ldc[g] * (ptrdiff_t)sizeof(real))
#define BIAS_SUM(i, r, g) _tile_loadd(i, t->bias[g], 0)
  if (t->add) {
    EACH_SUM(LOAD_SUM);
  } else if (t->bias[0]) {
    EACH_SUM(BIAS_SUM);
  } else {
    EACH_SUM(ZERO_SUM);
  }
}

static inline __attribute__((always_inline)) void end(const int mt, const int nt,
                                                      const AmxStrip *t) {
#define STORE_SUM(i, r, g) _tile_stored(i, t->c[r][g], t->ldc[g] * (ptrdiff_t)sizeof(real))
  EACH_SUM(STORE_SUM);
}

static inline __attribute__((always_inline)) void
unit(const int mt, const int nt, const uint32_t *const a[2], const uint32_t *const b[COLUMNS]) {
  _tile_loadd(6, b[0], LINE);
  _tile_loadd(4, a[0], LINE);
  _tile_dpbf16ps(0, 4, 6);
  if (nt > 1) {
    _tile_loadd(7, b[1], LINE);
    _tile_dpbf16ps(1, 4, 7);
  }
  if (mt > 1) {
    _tile_loadd(5, a[1], LINE);
    _tile_dpbf16ps(2, 5, 6);
    if (nt > 1) _tile_dpbf16ps(3, 5, 7);
    return;
  }
  if (nt > 2) {
    _tile_loadd(5, b[2], LINE);
    _tile_dpbf16ps(2, 4, 5);
  }
  if (nt > 3) {
    _tile_loadd(6, b[3], LINE);
    _tile_dpbf16ps(3, 4, 6);
  }
}

static inline __attribute__((always_inline)) void strip(const int mt, const int nt,
                                                        const AmxStrip *t) {
  const uint32_t *a[2] = {t->a[0], t->a[1]}, *b[COLUMNS], *fetch = t->fetch;
  const real *next_c = t->next_c;
  const ptrdiff_t bgs = t->fetch_bgs;
  UNROLL for (int g = 0; g < nt; g++) b[g] = t->b[g];
  begin(mt, nt, t);
  for (int u = t->units; u > 0; u--) {
    for (int i = t->lines; i > 0; i--, fetch += GROUP)
      UNROLL for (int g = 0; g < nt; g++) __builtin_prefetch(fetch + g * bgs, 0, 2);
    for (int i = next_c ? t->next_rows : 0; i > 0; i--, next_c += t->next_ld)
      UNROLL for (int g = 0; g < nt; g++) __builtin_prefetch(next_c + g * GROUP, 1, 2);
    unit(mt, nt, a, b);
    a[0] += t->a_step[0];
    if (mt > 1) a[1] += t->a_step[1];
    UNROLL for (int g = 0; g < nt; g++) b[g] += TILE_WORDS;
  }
  if (t->last_b[0]) unit(mt, nt, a, t->last_b);
  end(mt, nt, t);
}

static void strip_1_1(const AmxStrip *t) { strip(1, 1, t); }
static void strip_1_2(const AmxStrip *t) { strip(1, 2, t); }
static void strip_1_3(const AmxStrip *t) { strip(1, 3, t); }
static void strip_1_4(const AmxStrip *t) { strip(1, 4, t); }
static void strip_2_1(const AmxStrip *t) { strip(2, 1, t); }
static void strip_2_2(const AmxStrip *t) { strip(2, 2, t); }

static void run_strip(int mt, int nt, const AmxStrip *t) {
  static void (*const shapes[2][COLUMNS])(const AmxStrip *) = {
      {strip_1_1, strip_1_2, strip_1_3, strip_1_4}, {strip_2_1, strip_2_2}};
  shapes[mt - 1][nt - 1](t);
}

/* ---- block ---- */

/* Copies n lines of b to a tile, with zeros behind them. */
static void padded_tile(int n, const uint32_t *b, uint32_t out[TILE_WORDS]) {
  memset(out, 0, sizeof(uint32_t) * TILE_WORDS);
  memcpy(out, b, sizeof(uint32_t) * GROUP * (size_t)n);
}

/* Columns that are partly outside c go through `edge`, a tile of sums for each tile of rows. */
typedef struct Edge {
  real sums[2][ROWS * GROUP], bias[GROUP];
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

typedef struct AmxBlock {
  int m, pairs;
  const uint32_t *a;
  const real *bias; /* or NULL */
  real *c;
  ptrdiff_t ldc;
  bool add;
} AmxBlock;

/* Computes some groups of columns for all rows; c is at the first column, and the last group has
 * `partial` columns (0: all). */
static void columns(const AmxBlock *q, int groups, const uint32_t *b, ptrdiff_t bgs, int partial,
                    const uint32_t *next) {
  const int units = q->pairs / UNIT, tail = q->pairs % UNIT, strips = ceil_div(q->m, 2 * ROWS);
  const ptrdiff_t row_words = round_up(q->pairs, UNIT);
  uint32_t last[COLUMNS][TILE_WORDS];
  Edge edge = {.cols = partial};
  AmxStrip t = {.units = units, .add = q->add, .next_ld = q->ldc};
  t.next_rows = ceil_div(2 * ROWS, max_int(units, 1));
  t.lines = next && strips <= SHARES ? ceil_div(UNIT, strips) : 0;
  t.fetch = next ? next : b, t.fetch_bgs = bgs;
  for (int g = 0; g < groups; g++) {
    t.b[g] = b + g * bgs;
    if (q->bias) t.bias[g] = q->bias + g * GROUP;
    if (q->bias && partial && g == groups - 1)
      t.bias[g] = memcpy(edge.bias, t.bias[g], sizeof(real) * (size_t)partial);
    if (!tail) continue;
    padded_tile(tail, t.b[g] + units * TILE_WORDS, last[g]);
    t.last_b[g] = last[g];
  }
  for (int i = 0; i < q->m; i += 2 * ROWS) {
    const int upper = min_int(ROWS, q->m - i), lower = min_int(ROWS, q->m - i - upper);
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
    t.next_c = i + 2 * ROWS < q->m ? c + 2 * ROWS * q->ldc : NULL;
    if (partial) edge_in(&edge, upper + lower, at, q->ldc, q->add);
    run_strip(lower > 0 ? 2 : 1, groups, &t);
    if (partial) edge_out(&edge, upper + lower, at, q->ldc);
    t.fetch += (ptrdiff_t)t.lines * units * GROUP;
  }
}

static void block(int m, int n, int pairs, const uint32_t *a, const uint32_t *b, ptrdiff_t bgs,
                  const uint32_t *next, const real *bias, real *c, ptrdiff_t ldc, bool add) {
  const int most = m > ROWS ? 2 : COLUMNS;
  AmxBlock q = {m, pairs, a, bias, c, ldc, add};
  for (int left = n, groups; left > 0; left -= groups * GROUP) {
    groups = min_int(most, ceil_div(left, GROUP));
    const int partial = left < groups * GROUP ? left % GROUP : 0;
    const uint32_t *then = b + groups * bgs;
    columns(&q, groups, b, bgs, partial, left > groups * GROUP ? then : next);
    q.c += groups * GROUP, b = then;
    if (bias) q.bias += groups * GROUP;
  }
  _tile_release();
}

#include "kern/inner/attention_row_bf16.inc.c"

#include "kern/inner/attention_amx.inc.c"
#define EXP_OF_TWO
#include "kern/inner/attention_softmax_bf16.inc.c"

#include "kern/inner/attention_ds_bf16.inc.c"

/* ---- rows ---- */

static void pair_rows(int m, int k, const real *x, ptrdiff_t ldx, uint32_t *a) {
  const ptrdiff_t lda = round_up(ceil_div(k, 2), UNIT);
  for (int i = 0, rows; i < m; i += rows) {
    rows = min_int(ROWS, m - i);
    uint32_t *to = a + i * lda;
    for (int p = 0; p < k; p += 2 * UNIT)
      for (int r = 0; r < rows; r++, to += UNIT)
        _mm512_storeu_si512(to, pairs_at(x + (i + r) * ldx + p, k - p));
  }
}

/* Interleaving the first half of 16 lines with the second, four times, transposes them. */
static inline void transpose_16(__m512i x[UNIT]) {
  __m512i y[UNIT];
  UNROLL for (int round = 0; round < 4; round++) {
    UNROLL for (int i = 0; i < UNIT / 2; i++) {
      y[2 * i] = zip_low(x[i], x[i + UNIT / 2]);
      y[2 * i + 1] = zip_high(x[i], x[i + UNIT / 2]);
    }
    UNROLL for (int i = 0; i < UNIT; i++) x[i] = y[i];
  }
}

/* Packs 2 * UNIT steps of some rows, of which `left` exist.  They are prefetched into the
 * second-level cache only, because rows may be so far apart that few fit into the first. */
static inline __attribute__((always_inline)) void
pair_column_unit(const int rows, const int left, const real *x, ptrdiff_t ldx, uint32_t *a) {
  const __mmask16 present = first_lanes(rows);
  __m512i t[UNIT];
  UNROLL for (int i = 0; i < UNIT; i++) {
    const real *from = x + 2 * i * ldx;
    __builtin_prefetch(from + VALUES_AHEAD, 0, 2);
    __builtin_prefetch(from + VALUES_AHEAD + ldx, 0, 2);
    t[i] = pair_lanes(_mm512_maskz_loadu_ps(left > 2 * i ? present : 0, from),
                      _mm512_maskz_loadu_ps(left > 2 * i + 1 ? present : 0, from + ldx));
  }
  transpose_16(t);
  UNROLL for (int r = 0; r < ROWS; r++) if (r < rows) _mm512_storeu_si512(a + r * UNIT, t[r]);
}

/* Reads lines of x that follow one another at once. */
static void pair_columns(int m, int depth, const real *x, ptrdiff_t ldx, ptrdiff_t pairs, int p0,
                         uint32_t *a) {
  for (int p = 0; p < depth; p += 2 * UNIT, x += 2 * UNIT * ldx)
    for (int i = 0; i < m; i += ROWS) {
      const int rows = min_int(ROWS, m - i);
      uint32_t *to = a + i * pairs + (p0 + p / 2) * rows;
      if (rows == ROWS && depth - p >= 2 * UNIT)
        pair_column_unit(ROWS, 2 * UNIT, x + i, ldx, to);
      else
        pair_column_unit(rows, depth - p, x + i, ldx, to);
    }
}

const KernelsBf16 kern_amx = {
    .mr = ROWS,
    .unit = UNIT,
    .rows = 448,
    .pairs = 1024,
    .groups = 4,
    .few = 2 * ROWS,
    .few_groups = 4,
    .block = block,
    .begin = begin_rows,
    .end = end_rows,
    .scores = scores,
    .values = values,
    .softmax = softmax_bf16,
    .columns = turned_columns,
    .ds = ds_bf16,
    PACKING_BF16,
};
