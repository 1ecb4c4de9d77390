/* gemm_quant_few.inc.c - few rows times a quantised weight.  Each value goes from its code to the
 * multiply-add within registers, so decoding runs at the speed of memory and needs no unpacked
 * copy.
 *
 * Sums are those of gemm_tile.inc.c: k in order, one accumulator per output. */
typedef struct QuantFewArgs {
  const QuantFew *q;
  const real *x[QUANT_FEW_ROWS];
  const void *w;     /* of the first group */
  const real *scale; /* [blocks, groups, GROUP] */
  real *c, *values;
} QuantFewArgs;

/* bytes of a value; NF4: of a 32-bit number */
static inline __attribute__((always_inline)) ptrdiff_t quant_few_bytes(const QuantType type) {
  return type == QUANT_NF4 ? 4 : type == QUANT_INT8 ? 1 : 2;
}

static inline __attribute__((always_inline)) vec quant_few_scaled(const bool round, vec x,
                                                                  vec scale) {
  return round ? v_round_tame(x * scale) : x * scale;
}

static inline __attribute__((always_inline)) vec
quant_few_value(const QuantType type, const bool round, const void *w, ptrdiff_t at, vec scale) {
  if (type == QUANT_INT8) return quant_few_scaled(round, v_int8((const int8_t *)w + at), scale);
  const vec x = v_f16((const uint16_t *)w + at);
  return round ? v_round_bf16(x) : x;
}

/* inner steps of a group in one cache line */
static inline __attribute__((always_inline)) int quant_few_line(const QuantType type) {
  return type == QUANT_NF4 ? NF4_STEPS : type == QUANT_INT8 ? 4 : 2;
}

/* lines that are prefetched: the groups are too many streams for the CPU */
enum { QUANT_FEW_AHEAD = 48 };

#define QUANT_FEW_STORE(p, j, w)                                                                   \
  if (share) v_store(values + (p)*GROUP + (j)*LANES, w)

/* acc[i][j] += x[i][p] * value for all rows and vectors of a step, with few registers beside acc */
#define QUANT_FEW_FMA(p, value)                                                                    \
  if (mr == 1 && round) {                                                                          \
    const vec x = v_set(x0[0][p]);                                                                 \
    UNROLL for (int j = 0; j < nv; j++) V_FMA_TO(acc[0][j], x, value);                             \
  } else {                                                                                         \
    vec w[MAXV];                                                                                   \
    UNROLL for (int j = 0; j < nv; j++) {                                                          \
      w[j] = value;                                                                                \
      QUANT_FEW_STORE(p, j, w[j]);                                                                 \
    }                                                                                              \
    UNROLL for (int i = 0; i < mr; i++) {                                                          \
      const vec x = v_set(x0[i][p]);                                                               \
      UNROLL for (int j = 0; j < nv; j++) V_FMA_TO(acc[i][j], x, w[j]);                            \
    }                                                                                              \
  }

/* share: the unpacked values of one group are stored too */
static inline __attribute__((always_inline)) void
quant_few_tile(const QuantType type, const bool round, const bool share, const int mr, const int ng,
               const QuantFewArgs *a) {
  enum { MAXV = QUANT_FEW_GROUPS * PER_GROUP };
  const int nv = ng * PER_GROUP, line = quant_few_line(type);
  const Nf4Table table = nf4_table();
  const ptrdiff_t depth = a->q->depth, stride = a->q->stride, ldc = a->q->ldc;
  const char *at = a->w;
  const real *scales = a->scale;
  const real *x0[QUANT_FEW_ROWS]; /* storing values could overwrite a->x */
  real *const values = a->values;
  vec acc[QUANT_FEW_ROWS][MAXV], scale[MAXV];
  UNROLL for (int i = 0; i < mr; i++) x0[i] = a->x[i];
  /* the end of the steps that share scales */
  ptrdiff_t p = 0, end = type == QUANT_NF4 ? NF4_BLOCK : depth;
  UNROLL for (int i = 0; i < mr; i++) UNROLL for (int j = 0; j < nv; j++) acc[i][j] =
      a->q->add ? v_load(a->c + i * ldc + j * LANES) : v_set(0);
#define QUANT_FEW_PAIR(at, j)                                                                      \
  ((const uint32_t *)(const void *)(at) + (j) / PER_GROUP * (stride / 2) + (j) % PER_GROUP * LANES)
#define QUANT_FEW_AT(j, p) ((j) / PER_GROUP * stride + (p)*GROUP + (j) % PER_GROUP * LANES)
  do {
    UNROLL for (int j = 0; j < nv; j++) scale[j] = v_load(scales + j * LANES);
    for (; p + line <= end; p += line, at += 64) {
      /* behind a group's last line is the next group, which is prefetched already: take the
       * next tile's */
      const bool within = p + QUANT_FEW_AHEAD * line < depth;
      const ptrdiff_t over = within ? 0 : (ng - 1) * stride;
      UNROLL for (int g = 0; g < ng; g++)
          __builtin_prefetch(at + (g * stride + over) * quant_few_bytes(type) +
                             QUANT_FEW_AHEAD * 64);
      if (type == QUANT_NF4) {
#ifdef V_NF4_CELL /* a cell's values are unpacked at once, one vector after another */
        UNROLL for (int j = 0; j < nv; j++) {
          vec value[NF4_STEPS];
          v_nf4_cell(table, v_words((const uint32_t *)at + QUANT_FEW_AT(j, 0)), value);
          UNROLL for (int s = 0; s < NF4_STEPS; s++) {
            const vec w = quant_few_scaled(round, value[s], scale[j]);
            QUANT_FEW_STORE(p + s, j, w);
            UNROLL for (int i = 0; i < mr; i++) acc[i][j] =
                v_fma(v_set(x0[i][p + s]), w, acc[i][j]);
          }
        }
#else
        ivec code[MAXV];
        UNROLL for (int j = 0; j < nv; j++) code[j] =
            v_words((const uint32_t *)at + QUANT_FEW_AT(j, 0));
        UNROLL for (int s = 0; s < NF4_STEPS; s++)
            QUANT_FEW_FMA(p + s, quant_few_scaled(round, v_nf4(table, code[j] >> 4 * s), scale[j]))
#endif
      } else if (type == QUANT_BF16) {
        ivec pair[MAXV];
        UNROLL for (int j = 0; j < nv; j++) pair[j] = v_words(QUANT_FEW_PAIR(at, j));
        QUANT_FEW_FMA(p, v_bf16_low(pair[j]))
        QUANT_FEW_FMA(p + 1, v_bf16_high(pair[j]))
      } else {
        UNROLL for (int s = 0; s < line; s++)
            QUANT_FEW_FMA(p + s, quant_few_value(type, round, at, QUANT_FEW_AT(j, s), scale[j]))
      }
    }
    if (type == QUANT_BF16) {
      for (; p < end; p++) QUANT_FEW_FMA(p, v_bf16_low(v_words(QUANT_FEW_PAIR(at, j))))
    } else if (type != QUANT_NF4) {
      for (; p < end; p++)
        QUANT_FEW_FMA(p, quant_few_value(type, round, a->w, QUANT_FEW_AT(j, p), scale[j]))
    }
    end += NF4_BLOCK;
    scales += a->q->scale_ld;
  } while (type == QUANT_NF4 && p < depth);
  UNROLL for (int i = 0; i < mr; i++) UNROLL for (int j = 0; j < nv; j++)
      v_store(a->c + i * ldc + j * LANES, acc[i][j]);
}

#define QUANT_FEW_TILE_AS(type, round, name, m, g)                                                 \
  static void name##_##m(const QuantFewArgs *a) {                                                  \
    quant_few_tile(QUANT_##type, round, false, m, g, a);                                           \
  }                                                                                                \
  static void name##_##m##_last(const QuantFewArgs *a) {                                           \
    quant_few_tile(QUANT_##type, round, false, m, 1, a);                                           \
  }
#define QUANT_FEW_TILE(type, m, g)  QUANT_FEW_TILE_AS(type, false, quant_few_##type, m, g)
#define ROUNDED_TILE(type, m, g) QUANT_FEW_TILE_AS(type, true, rounded_##type, m, g)
QUANT_FEW_SIZES(QUANT_FEW_TILE, BF16)
QUANT_FEW_SIZES(QUANT_FEW_TILE, F16)
QUANT_FEW_SIZES(QUANT_FEW_TILE, INT8)
QUANT_FEW_SIZES(QUANT_FEW_TILE, NF4)
QUANT_FEW_SIZES(ROUNDED_TILE, F16)
QUANT_FEW_SIZES(ROUNDED_TILE, INT8)
QUANT_FEW_SIZES(ROUNDED_TILE, NF4)

typedef void QuantFewFn(const QuantFewArgs *a);
typedef struct QuantFewTile {
  int rows, groups;
  QuantFewFn *whole, *last; /* for `groups` groups; for the last one alone */
} QuantFewTile;
#define QUANT_FEW_ENTRY(type, m, g)  {m, g, quant_few_##type##_##m, quant_few_##type##_##m##_last},
#define ROUNDED_ENTRY(type, m, g) {m, g, rounded_##type##_##m, rounded_##type##_##m##_last},
static const QuantFewTile quant_few_tiles[2][QUANT_TYPES][QUANT_FEW_ROWS] = {
    /* by rows, ascending; values as they are */
    {[QUANT_BF16] = {QUANT_FEW_SIZES(QUANT_FEW_ENTRY, BF16)},
     [QUANT_F16] = {QUANT_FEW_SIZES(QUANT_FEW_ENTRY, F16)},
     [QUANT_INT8] = {QUANT_FEW_SIZES(QUANT_FEW_ENTRY, INT8)},
     [QUANT_NF4] = {QUANT_FEW_SIZES(QUANT_FEW_ENTRY, NF4)}},
    /* values rounded */
    {[QUANT_BF16] = {QUANT_FEW_SIZES(QUANT_FEW_ENTRY, BF16)},
     [QUANT_F16] = {QUANT_FEW_SIZES(ROUNDED_ENTRY, F16)},
     [QUANT_INT8] = {QUANT_FEW_SIZES(ROUNDED_ENTRY, INT8)},
     [QUANT_NF4] = {QUANT_FEW_SIZES(ROUNDED_ENTRY, NF4)}},
};

#ifdef QUANT_FEW_SHARES
/* Tiles of three and four rows store the values for other rows, of the types whose values other
 * rows would not unpack again. */
#define SHARED_TILE_AS(type, round, name, m)                                                       \
  static void shared_##name##_##m(const QuantFewArgs *a) {                                         \
    quant_few_tile(QUANT_##type, round, true, m, 1, a);                                            \
  }
#define SHARED_TILE(m)                                                                             \
  SHARED_TILE_AS(INT8, false, quant_few_INT8, m)                                                   \
  SHARED_TILE_AS(NF4, false, quant_few_NF4, m)                                                     \
  SHARED_TILE_AS(F16, true, rounded_F16, m)                                                        \
  SHARED_TILE_AS(INT8, true, rounded_INT8, m) SHARED_TILE_AS(NF4, true, rounded_NF4, m)
SHARED_TILE(3)
SHARED_TILE(4)
#define SHARED_ENTRY(m)                                                                            \
  [m] = {{[QUANT_INT8] = shared_quant_few_INT8_##m, [QUANT_NF4] = shared_quant_few_NF4_##m},       \
         {[QUANT_F16] = shared_rounded_F16_##m,                                                    \
          [QUANT_INT8] = shared_rounded_INT8_##m,                                                  \
          [QUANT_NF4] = shared_rounded_NF4_##m}},
static QuantFewFn *const shared_tiles[QUANT_FEW_SHARES + 1][2][QUANT_TYPES] = {
    SHARED_ENTRY(3) SHARED_ENTRY(4)};
#define QUANT_FEW_SHARED_TILE(q) shared_tiles[(q)->rows][(q)->round][(q)->type]
#else
#define QUANT_FEW_SHARED_TILE(q) NULL
#endif

static void quant_few(const QuantFew *q) {
  QuantFewArgs a = {.q = q};
  const QuantFewTile *t = quant_few_tiles[q->round][q->type];
  const int m = q->rows;
  while (t->rows < m) t++;
  for (int i = 0; i < QUANT_FEW_ROWS; i++) a.x[i] = q->x + (i < m ? i : m - 1) * q->ldx;
  for (int g = 0, n; g < q->groups; g += n) {
    n = !q->values && q->groups - g >= t->groups ? t->groups : 1;
    a.w = (const char *)q->w + g * q->stride * quant_few_bytes(q->type);
    a.scale = q->scale + g * GROUP;
    a.c = q->c + g * GROUP;
    a.values = q->values;
    (q->values ? QUANT_FEW_SHARED_TILE(q) : n == t->groups ? t->whole : t->last)(&a);
  }
}
