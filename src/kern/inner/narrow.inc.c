/* narrow.inc.c - few rows by compact weights: each value goes from its code to the multiply-add
 * within registers, so decoding runs at the speed of memory and not of a scratch copy.
 *
 * Sums are those of block.inc.c: k in order, one accumulator an output.
 */
typedef struct NarrowArgs {
  int depth;
  const real *x[NARROW_ROWS];
  const void *w;     /* of the first group */
  ptrdiff_t stride;  /* elements (NF4: words) between groups */
  const real *scale; /* [groups, GROUP] */
  real *c;           /* [rows, ldc] */
  ptrdiff_t ldc;
} NarrowArgs;

/* of a value; NF4: of a word */
static inline __attribute__((always_inline)) ptrdiff_t narrow_bytes(const MatType type) {
  return type == MAT_NF4 ? 4 : type == MAT_INT8 ? 1 : 2;
}

static inline __attribute__((always_inline)) vec narrow_rounded(const bool round, vec x) {
  return round ? v_round_bf16(x) : x;
}

static inline __attribute__((always_inline)) vec
narrow_value(const MatType type, const bool round, const void *w, ptrdiff_t at, vec scale) {
  if (type == MAT_F16) return narrow_rounded(round, v_f16((const uint16_t *)w + at));
  return narrow_rounded(round, v_int8((const int8_t *)w + at) * scale);
}

/* inner steps of a group that a line of memory holds */
static inline __attribute__((always_inline)) int narrow_line(const MatType type) {
  return type == MAT_NF4 ? NF4_STEPS : type == MAT_INT8 ? 4 : 2;
}

enum { NARROW_AHEAD = 48 }; /* lines fetched ahead: the groups' streams are too many for the CPU */

/* acc[i][j] += x[i][p] * value for all rows and vectors of a step: few registers beside acc */
#define NARROW_FMA(p, value)                                                                       \
  {                                                                                                \
    vec w[MAXV];                                                                                   \
    UNROLL for (int j = 0; j < nv; j++) w[j] = value;                                              \
    UNROLL for (int i = 0; i < mr; i++) {                                                          \
      const vec x = v_set(a->x[i][p]);                                                             \
      UNROLL for (int j = 0; j < nv; j++) acc[i][j] = v_fma(x, w[j], acc[i][j]);                   \
    }                                                                                              \
  }

static inline __attribute__((always_inline)) void
narrow_tile(const MatType type, const bool round, const int mr, const int ng, const NarrowArgs *a) {
  enum { MAXV = NARROW_GROUPS * PER_GROUP };
  const int nv = ng * PER_GROUP, line = narrow_line(type);
  const Nf4Table table = nf4_table();
  const char *at = a->w;
  vec acc[NARROW_ROWS][MAXV], scale[MAXV];
  ptrdiff_t p = 0;
  UNROLL for (int i = 0; i < mr; i++) UNROLL for (int j = 0; j < nv; j++) acc[i][j] =
      v_load(a->c + i * a->ldc + j * LANES);
  UNROLL for (int j = 0; j < nv; j++) scale[j] = v_load(a->scale + j * LANES);
#define NARROW_PAIR(at, j)                                                                         \
  ((const uint32_t *)(const void *)(at) + (j) / PER_GROUP * (a->stride / 2) +                      \
   (j) % PER_GROUP * LANES)
#define NARROW_AT(j, p) ((j) / PER_GROUP * a->stride + (p)*GROUP + (j) % PER_GROUP * LANES)
  for (; p + line <= a->depth; p += line, at += 64) {
    /* behind a group's last line is the next group, which is under way: on to the next tile's */
    const bool within = p + NARROW_AHEAD * line < a->depth;
    const ptrdiff_t over = within ? 0 : (ng - 1) * a->stride;
    UNROLL for (int g = 0; g < ng; g++)
        __builtin_prefetch(at + (g * a->stride + over) * narrow_bytes(type) + NARROW_AHEAD * 64);
    if (type == MAT_NF4) {
#ifdef V_NF4_CELL /* a cell's values are made at once, of one vector after another */
      UNROLL for (int j = 0; j < nv; j++) {
        vec value[NF4_STEPS];
        v_nf4_cell(table, v_words((const uint32_t *)at + NARROW_AT(j, 0)), value);
        UNROLL for (int s = 0; s < NF4_STEPS; s++) {
          const vec w = narrow_rounded(round, value[s] * scale[j]);
          UNROLL for (int i = 0; i < mr; i++) acc[i][j] =
              v_fma(v_set(a->x[i][p + s]), w, acc[i][j]);
        }
      }
#else
      ivec code[MAXV];
      UNROLL for (int j = 0; j < nv; j++) code[j] = v_words((const uint32_t *)at + NARROW_AT(j, 0));
      UNROLL for (int s = 0; s < NF4_STEPS; s++)
          NARROW_FMA(p + s, narrow_rounded(round, v_nf4(table, code[j] >> 4 * s) * scale[j]))
#endif
    } else if (type == MAT_BF16) {
      ivec pair[MAXV];
      UNROLL for (int j = 0; j < nv; j++) pair[j] = v_words(NARROW_PAIR(at, j));
      NARROW_FMA(p, v_bf16_low(pair[j]))
      NARROW_FMA(p + 1, v_bf16_high(pair[j]))
    } else {
      UNROLL for (int s = 0; s < line; s++)
          NARROW_FMA(p + s, narrow_value(type, round, at, NARROW_AT(j, s), scale[j]))
    }
  }
  if (type == MAT_BF16) {
    for (; p < a->depth; p++) NARROW_FMA(p, v_bf16_low(v_words(NARROW_PAIR(at, j))))
  } else if (type != MAT_NF4)
    for (; p < a->depth; p++)
      NARROW_FMA(p, narrow_value(type, round, a->w, NARROW_AT(j, p), scale[j]))
  UNROLL for (int i = 0; i < mr; i++) UNROLL for (int j = 0; j < nv; j++)
      v_store(a->c + i * a->ldc + j * LANES, acc[i][j]);
}

#define NARROW_TILE_AS(type, round, name, m, g)                                                    \
  static void name##_##m(const NarrowArgs *a) { narrow_tile(MAT_##type, round, m, g, a); }         \
  static void name##_##m##_last(const NarrowArgs *a) { narrow_tile(MAT_##type, round, m, 1, a); }
#define NARROW_TILE(type, m, g)  NARROW_TILE_AS(type, false, narrow_##type, m, g)
#define ROUNDED_TILE(type, m, g) NARROW_TILE_AS(type, true, rounded_##type, m, g)
NARROW_SIZES(NARROW_TILE, BF16)
NARROW_SIZES(NARROW_TILE, F16)
NARROW_SIZES(NARROW_TILE, INT8)
NARROW_SIZES(NARROW_TILE, NF4)
NARROW_SIZES(ROUNDED_TILE, F16)
NARROW_SIZES(ROUNDED_TILE, INT8)
NARROW_SIZES(ROUNDED_TILE, NF4)

typedef void NarrowFn(const NarrowArgs *a);
typedef struct NarrowTile {
  int rows, groups;
  NarrowFn *whole, *last; /* that many groups; one */
} NarrowTile;
#define NARROW_ENTRY(type, m, g)  {m, g, narrow_##type##_##m, narrow_##type##_##m##_last},
#define ROUNDED_ENTRY(type, m, g) {m, g, rounded_##type##_##m, rounded_##type##_##m##_last},
static const NarrowTile narrow_tiles[2][MAT_TYPES][NARROW_ROWS] = {
    /* by rows, ascending; values as they are, */
    {[MAT_BF16] = {NARROW_SIZES(NARROW_ENTRY, BF16)},
     [MAT_F16] = {NARROW_SIZES(NARROW_ENTRY, F16)},
     [MAT_INT8] = {NARROW_SIZES(NARROW_ENTRY, INT8)},
     [MAT_NF4] = {NARROW_SIZES(NARROW_ENTRY, NF4)}},
    /* and rounded */
    {[MAT_BF16] = {NARROW_SIZES(NARROW_ENTRY, BF16)},
     [MAT_F16] = {NARROW_SIZES(ROUNDED_ENTRY, F16)},
     [MAT_INT8] = {NARROW_SIZES(ROUNDED_ENTRY, INT8)},
     [MAT_NF4] = {NARROW_SIZES(ROUNDED_ENTRY, NF4)}},
};

static void narrow(MatType type, bool round, int m, int groups, int depth, const real *x,
                   ptrdiff_t ldx, const void *w, ptrdiff_t stride, const real *scale, real *c,
                   ptrdiff_t ldc) {
  NarrowArgs a = {.depth = depth, .stride = stride, .ldc = ldc};
  const NarrowTile *t = narrow_tiles[round][type];
  while (t->rows < m) t++;
  for (int i = 0; i < NARROW_ROWS; i++) a.x[i] = x + (i < m ? i : m - 1) * ldx;
  for (int g = 0; g < groups;) {
    const bool whole = groups - g >= t->groups;
    a.w = (const char *)w + g * stride * narrow_bytes(type);
    a.scale = scale + g * GROUP;
    a.c = c + g * GROUP;
    (whole ? t->whole : t->last)(&a);
    g += whole ? t->groups : 1;
  }
}
