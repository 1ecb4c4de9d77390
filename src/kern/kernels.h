/* kernels.h - the inner loops: one table of functions for each instruction set.
 *
 * Every table is compiled from the one source in inner/ for another vector width, so no
 * algorithm is written twice.  Sums over a row have GROUP lanes whatever the width (Wide), so
 * results differ in rounding only where a fused multiply-add is used.  The portable tables use
 * none, and give the same bits on every CPU.  Inner loops know nothing of threads: the drivers
 * (gemm.c, attention.c, norm_rope.c, logits.c, elementwise.c) cut the work for the pool.
 *
 * The result of an element or a row never depends on where it stands, because tails run through the
 * same vector code, padded.
 *
 * Two words recur.  A group is GROUP = 16 columns, the unit in which weights are packed and
 * outputs are computed.  A panel is some groups of a packed weight that one register tile
 * covers: the values of one inner step lie side by side, inner step after inner step.
 */
#ifndef GRPO_KERN_KERNELS_H
#define GRPO_KERN_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/minmax.h"
#include "base/rng.h"
#include "kern/quant_type.h"
#include "kern/real.h"

enum { GROUP = 16 };
enum {
  FEW_ROWS = 3
}; /* rows at most of the products that keep more sums in registers than a tile */

/* Memory from `at` to `end` that is prefetched while other memory is read, a line for a line. */
typedef struct Fetch {
  const char *at, *end;
} Fetch;
static inline __attribute__((always_inline)) void fetch_ahead(Fetch *f, const int n) {
  enum { LINE_BYTES = 64 };
  if (f->at >= f->end) return;
  for (int i = 0; i < n; i++) __builtin_prefetch(f->at + i * LINE_BYTES, 0, 2);
  f->at += n * LINE_BYTES;
}
static inline void fetch_some(Fetch *f, int lines) {
  for (; f && lines > 0 && f->at < f->end; lines -= 4) fetch_ahead(f, 4);
}
static inline void fetch_rest(Fetch *f) {
  while (f && f->at < f->end) fetch_ahead(f, 1);
}

/* The numbers of an AdamW step that do not depend on the element. */
typedef struct AdamScalars {
  real grad_scale, keep;    /* keep = 1 - lr weight_decay */
  real rest1, beta2, rest2; /* 1 - beta1, beta2, 1 - beta2 */
  real step, eps, root2;    /* lr / bias1; eps; 1 / sqrt(bias2) */
} AdamScalars;

/* The numbers of a step of Lion. */
typedef struct LionScalars {
  real grad_scale, keep, lr;       /* keep = 1 - lr weight_decay */
  real beta1, rest1, beta2, rest2; /* rest = 1 - beta */
} LionScalars;

/* Sums over a row of logits: z = logits * inv_temp, shifted by its maximum. */
typedef struct RowStats {
  real max;         /* of z */
  double sum, sumz; /* sum exp(z - max), sum exp(z - max) (z - max) */
} RowStats;

/* c[rows, groups] (+)= x w^T of a few rows with a quantised weight, whose values are unpacked in
 * registers. All rows of c up to Kernels.quant_few_rows may be written. */
typedef struct QuantFew {
  QuantType type;
  bool round;              /* values to bf16; then none may be subnormal, infinite or -0 */
  int rows, groups, depth; /* NF4: depth is whole blocks */
  const real *x;
  ptrdiff_t ldx;
  const void *w;     /* the first group's first inner step */
  ptrdiff_t stride;  /* from group to group in elements, or NF4: in 32-bit numbers */
  const real *scale; /* [groups, GROUP]; NF4: the next block's are scale_ld further on */
  ptrdiff_t scale_ld;
  real *c;
  ptrdiff_t ldc;
  bool add;
  real *values; /* [depth, GROUP]: receives the unpacked values of the one group; or NULL */
} QuantFew;

/* The numbers that scales of NF4 blocks are made from: of `blocks` blocks from number `block` on,
 * and as many of each further output, whose blocks begin row_blocks later (quant.h). */
typedef struct Nf4Nested {
  const uint8_t *absmax;
  const float *scale;
  float offset;
  size_t block, row_blocks;
  int blocks;
} Nf4Nested;

/* QuantFew with operands in bf16: c[rows, groups] (+)= a w^T + bias, where sums begin with the bias
 * (NULL: with 0; not with add). */
typedef struct QuantFewBf16 {
  QuantType type;          /* F16, INT8 or NF4 */
  int rows, groups, depth; /* NF4: depth is whole blocks; of the others only the last may be odd */
  const uint32_t *a;       /* pairs: those of a whole tile are interleaved, other rows lda apart */
  ptrdiff_t lda;
  const void *w;     /* the first group's first inner step */
  ptrdiff_t stride;  /* from group to group in bytes */
  const real *scale; /* as in QuantFew */
  ptrdiff_t scale_ld;
  const real *bias;
  real *c;
  ptrdiff_t ldc;
  bool add;
} QuantFewBf16;

enum {
  DELTA_COLUMNS = 32, /* values whose states are updated together */
  CONV_BLOCK = 256    /* channels of a convolution that are computed together */
};

/* A token of the gated delta rule (delta.h), for DELTA_COLUMNS columns of a head's state. */
typedef struct DeltaStep {
  int n; /* channels of a key */
  real decay, beta;
  const real *q, *k; /* [n] normed */
  const real *v;     /* [DELTA_COLUMNS] */
} DeltaStep;

typedef struct DeltaStepGrad {
  const real *before; /* [n, DELTA_COLUMNS] the state before the token */
  const real *rest;   /* [DELTA_COLUMNS] v - decay before^T k */
  const real *dout;   /* [DELTA_COLUMNS] */
  real *ds;           /* [n, DELTA_COLUMNS] of the state behind the token; becomes that before it */
  real *dv;           /* [DELTA_COLUMNS] */
  real *dq, *dk;      /* [n] added to, as the two below are */
  real *dlog, *dbeta; /* of log decay and of beta */
} DeltaStepGrad;

typedef struct Kernels {
  /* The register tile has mr rows and ng groups of columns.  Packed panels have ng groups. */
  int mr, ng;

  /* c[m,n] (+)= a[m,k] b[k,n], k in order, one accumulator per output.  a(i,p) = a[i ars + p
   * aks] and b(p,j) = b[(j / GROUP) bgs + p brs + j % GROUP]; b is readable to whole groups. */
  void (*block)(int m, int n, int k, const real *a, ptrdiff_t ars, ptrdiff_t aks, const real *b,
                ptrdiff_t brs, ptrdiff_t bgs, real *c, ptrdiff_t ldc, bool add);

  /* block() for products with weights.  In the class `blas` it is OpenBLAS's (blas_kernels.c),
   * which adds inner steps in blocks of gemm_step: a driver that cuts the inner dimension cuts
   * at multiples of it.  Elsewhere it is block() itself, and gemm_step is 1. */
  void (*gemm_block)(int m, int n, int k, const real *a, ptrdiff_t ars, ptrdiff_t aks,
                     const real *b, ptrdiff_t brs, ptrdiff_t bgs, real *c, ptrdiff_t ldc, bool add);
  int gemm_step;

  /* block() with aks = 1 and one panel of width brs; the k brs reals at `next` are prefetched
   * meanwhile, or NULL. */
  void (*stream)(int m, int n, int k, const real *a, ptrdiff_t ars, const real *b, ptrdiff_t brs,
                 const real *next, real *c, ptrdiff_t ldc, bool add);
  /* block() of tiles of a that pack_tiles has made, and one panel of width brs. */
  void (*outer)(int m, int n, int k, const real *a, const real *b, ptrdiff_t brs, real *c,
                ptrdiff_t ldc, bool add);
  /* block() with aks = 1 and n a multiple of GROUP, faster for up to FEW_ROWS rows.  `next` is
   * prefetched as far as b is read; NULL: nothing is. */
  void (*few_rows)(int m, int n, int k, const real *a, ptrdiff_t ars, const real *b, ptrdiff_t brs,
                   ptrdiff_t bgs, real *c, ptrdiff_t ldc, bool add, Fetch *next);
  /* few_rows() for n <= GROUP columns that are stored as rows, in squares of GROUP x GROUP:
   * b(p, j) = b[p / GROUP GROUP^2 + j GROUP + p % GROUP].  k is a multiple of GROUP, and whole
   * vectors of c are written. */
  void (*few_rows_transposed)(int m, int n, int k, const real *a, ptrdiff_t ars, const real *b,
                              real *c, ptrdiff_t ldc, Fetch *next);
  /* rows of y += x[cols] */
  void (*add_to_rows)(int rows, int cols, const real *x, real *y, ptrdiff_t ld);
  /* sum[cols] += rows of x, in order */
  void (*add_rows)(int rows, int cols, const real *x, ptrdiff_t ld, real *sum);
  /* One panel of b, 1 to ng groups wide: dst[p][width] = the first `cols` of a row of src, then
   * zeros. */
  void (*pack_columns)(int depth, int cols, int width, const real *src, ptrdiff_t ld, real *dst);
  /* a transposed, for outer(): dst[tile][p][mr] has mr columns of src side by side.  round: to
   * bf16 */
  void (*pack_tiles)(int depth, int cols, const real *src, ptrdiff_t ld, bool round, real *dst);
  /* y[cols, rows] = x[rows, cols] transposed */
  void (*transpose)(int rows, int cols, const real *x, ptrdiff_t ldx, real *y, ptrdiff_t ldy);

  /* ---- attention ---- */
  /* m rows of scores: s[lo, hi) becomes exp(scale s - max), and zero elsewhere in [first, last),
   * which contains [lo, hi).  Whole groups are written.  max: [m], -inf where no key is seen;
   * sum: [m], added by lanes of the index. */
  void (*softmax)(int m, int first, int last, int lo, int hi, real scale, real *s, ptrdiff_t ld,
                  real *max, real *sum);
  /* softmax of GROUP columns, with the same bits: column i of s[j ld + i], j in [from, to), sees
   * rows lo[i] .. hi[i] - 1; from >= 0. */
  void (*softmax_down)(int from, int to, const int *lo, const int *hi, real scale, real *s,
                       ptrdiff_t ld, real *max, real *sum);
  /* y = a y + b x */
  void (*mix)(size_t n, real a, real *y, real b, const real *x);
  /* p and ds [keys, ld] hold scores and dP of keys from `key` on by `units` queries (a multiple
   * of GROUP), and receive P and dS.  Query i sees keys lo[i] .. hi[i] - 1, both ascending.  cap
   * is of the scaled scores; 0: none. */
  void (*attn_ds)(int keys, int units, ptrdiff_t ld, real scale, real cap, const real *lse,
                  const real *d, int key, const int *lo, const int *hi, real *p, real *ds);

  /* ---- quantised weights and bf16 ---- */
  /* A group of a QuantWeight (quant.h) to reals: y[depth, GROUP]; scale: [GROUP].  bf16 comes in
   * packed pairs of inner steps, the first step in the low half; n is a multiple of GROUP.  NF4
   * comes in cells of 8 inner steps: number j holds the codes of output j, the first step's
   * lowest; depth is rounded up to whole cells, also in y. */
  void (*widen_bf16)(int depth, const uint16_t *pairs, real *y);
  void (*widen_f16)(size_t n, const uint16_t *x, real *y);
  void (*widen_int8)(int depth, const int8_t *q, const real *scale, real *y);
  void (*widen_nf4)(int depth, const uint32_t *cells, const real *scale, real *y);
  /* y = x rounded to bf16 */
  void (*round_bf16)(size_t n, const real *x, real *y);
  /* x[depth, GROUP], rows ldx apart, rounded and packed in pairs; an odd step is paired with
   * zeros. */
  void (*pair_bf16)(int depth, const real *x, ptrdiff_t ldx, uint16_t *pairs);
  /* quant_few takes up to quant_few_rows rows at once, and is the faster way for up to
   * quant_few_most rows; both by type. */
  int quant_few_rows[QUANT_TYPES], quant_few_most[QUANT_TYPES];
  /* QuantFew.values may be asked for with 3 to quant_few_shares rows, of INT8, NF4 and rounded F16;
   * 0: never. */
  int quant_few_shares;
  void (*quant_few)(const QuantFew *q);
  /* dx of a quantised weight: the rows that share one unpacked and transposed block of the
   * weight, and the block's outputs (whole groups) and columns (whole tiles). */
  struct {
    int rows, outputs, cols;
  } dx_block;
  /* scale[b ld + i] of GROUP outputs i and each block b.  NULL: quant.c makes them one by one. */
  void (*nf4_scales)(const Nf4Nested *n, real *scale, ptrdiff_t ld);
  /* NF4 codes of a block of n values; returns its absmax. */
  float (*nf4_codes)(int n, const float *w, uint8_t *code);

  /* ---- rows: formulas in norm_rope.h ---- */
  real (*dot)(int n, const real *a, const real *b);
  void (*rmsnorm)(int c, const real *x, const real *w, real base, double eps, real *y, real *rstd);
  void (*rmsnorm_dx)(int c, const real *x, const real *w, real base, real rstd, const real *dy,
                     real *dx, bool add);
  void (*layernorm)(int c, const real *x, const real *w, const real *b, real base, double eps,
                    real *y, real *mean, real *rstd);
  void (*layernorm_dx)(int c, const real *x, const real *w, real base, real mean, real rstd,
                       const real *dy, real *dx, bool add);
  /* dw += dy (x - mean) rstd, db += dy (NULL: none) */
  void (*norm_dw)(int c, const real *x, real mean, real rstd, const real *dy, real *dw, real *db);
  /* the first n pairs (x_i, x_{i+half}) of each head of a row; c and s [n]: cosines and sines */
  void (*rope)(int heads, int d, int half, int n, const real *x, const real *c, const real *s,
               real *y, bool add);

  /* ---- elements: formulas in elementwise.h and optimizers.h ---- */
  /* relative error below 2e-7 in float; results below FLT_MIN are 0 */
  void (*exp)(size_t n, const real *x, real *y);
  void (*swiglu)(size_t n, const real *gate, const real *up, real *y);
  void (*swiglu_grad)(size_t n, const real *gate, const real *up, const real *dy, real *dgate,
                      bool add_gate, real *dup, bool add_up);
  void (*geglu)(size_t n, const real *gate, const real *up, real *y);
  void (*geglu_grad)(size_t n, const real *gate, const real *up, const real *dy, real *dgate,
                     bool add_gate, real *dup, bool add_up);
  /* y = cap tanh(scale x / cap) */
  void (*softcap)(size_t n, real scale, real cap, const real *x, real *y);
  void (*softcap_grad)(size_t n, real cap, const real *y, const real *dy, real *dx, bool add);
  void (*gelu)(size_t n, const real *x, real *y);
  void (*gelu_grad)(size_t n, const real *x, const real *dy, real *dx, bool add);
  void (*add)(size_t n, const real *a, const real *b, real *y);
  void (*scale)(size_t n, real alpha, const real *x, real *y);
  void (*lerp)(size_t n, real alpha, const real *x, real *y);
  void (*adamw)(size_t n, real *p, const real *g, real *m, real *v, const AdamScalars *o);
  void (*lion)(size_t n, real *p, const real *g, real *m, const LionScalars *o);
  double (*sumsq)(size_t n, const real *x);

  /* ---- rows of logits ---- */
  void (*row_stats)(int v, const real *logits, real inv_temp, RowStats *st);
  double (*probs)(int n, const real *logits, real inv_temp, real lse, real *p);
  /* logits <- p (c0 + c1 log p) */
  void (*logp_grad)(int v, real *logits, real inv_temp, real lse, real c0, real c1);
  double (*kl)(int v, const real *logits, const real *ref, real inv_temp, real lse, real ref_lse);
  /* dlogits += c p (log p - log p_ref - kl) */
  void (*kl_grad)(int v, const real *logits, const real *ref, real inv_temp, real lse, real ref_lse,
                  real kl, real c, real *dlogits);
  /* The generalised Jensen-Shannon divergence of logits.h for 0 <= beta < 1; mean: see there. */
  double (*jsd)(int v, const real *logits, const real *ref, real inv_temp, real lse, real ref_lse,
                real beta, double *mean);
  /* dlogits += c p (slope - mean) */
  void (*jsd_grad)(int v, const real *logits, const real *ref, real inv_temp, real lse,
                   real ref_lse, real beta, real mean, real c, real *dlogits);

  /* out[i] = std * rng_normal(key, first + i); the lower half of the index must not wrap around */
  void (*normals)(const RngKey *key, uint64_t first, int n, double std, real *out);

  /* ---- recurrences: formulas in delta.h and conv.h ---- */
  /* The state s becomes that behind the token; rest, o [DELTA_COLUMNS]. */
  void (*delta_step)(const DeltaStep *t, real *s, real *rest, real *o);
  void (*delta_step_back)(const DeltaStep *t, const DeltaStepGrad *g);
  /* n channels of a token; x[taps] are the rows up to its own; w [taps, CONV_BLOCK] */
  void (*conv_step)(int n, int taps, const real *const *x, const real *w, bool silu, real *y);
  /* dx[j] and dw are added to; whole vectors of dw are written */
  void (*conv_step_back)(int n, int taps, const real *const *x, const real *w, bool silu,
                         const real *dy, real *const *dx, real *dw);
} Kernels;

/* The numbers that attention's dS needs beside scores and dP.  lse, d, lo and hi have a value for
 * each query; the other fields are common to all queries. */
typedef struct AttnDs {
  const real *lse, *d;
  const int *lo, *hi;
  int key;
  real scale, cap; /* cap is of the scaled scores; 0: none */
} AttnDs;

/* Products of bf16, where the CPU has instructions for them.
 *
 * Operands are packed bf16 pairs: a 32-bit number holds two consecutive inner steps, the first
 * in the low half; an odd last step is paired with zero.  Of the rows a, the tile of row i
 * begins at number i * pairs, with pairs in whole units.  Whole tiles of mr rows are
 * interleaved, [pair][mr]; the rows left at the end, fewer than two tiles, may follow one
 * another.  pair_rows and pair_columns make a; a call packs one whole tile or all rows that are
 * left. */
typedef struct KernelsBf16 {
  int mr;
  int unit; /* pairs that are summed at once: a is padded to whole units with zeros */
  /* The best cut of a product: chunks of `rows` rows that share a panel of b, and panels of
   * `groups` groups in blocks of up to `pairs` pairs.  For up to `few` rows the best panels have
   * few_groups groups and are as deep as can be; then a block either prefetches what it needs
   * itself (few_fetch) or wants `next`, as others do. */
  int rows, pairs, groups, few, few_groups;
  bool few_fetch;
  /* c[m,n] (+)= a b + bias, where sums begin with bias (NULL: with 0; not with add).  Pair (p,
   * j) of b is b[(j / GROUP) bgs + p GROUP + j % GROUP].  Pairs are added in order, one
   * accumulator per output. next: b of the product that comes after this one, groups bgs apart,
   * which is prefetched meanwhile; or NULL. */
  void (*block)(int m, int n, int pairs, const uint32_t *a, const uint32_t *b, ptrdiff_t bgs,
                const uint32_t *next, const real *bias, real *c, ptrdiff_t ldc, bool add);

  /* The product of up to mr rows with a quantised weight, whose values are unpacked in registers.
   * NULL: there is none. */
  void (*quant_few)(const QuantFewBf16 *q);

  /* ---- attention: between begin() and end() on one thread ---- */
  /* Products of `upper` rows, at most mr, of `lower` rows, or of both at once may follow.  In
   * them rows of a are ars apart, in whole units. */
  void (*begin)(int upper, int lower);
  void (*end)(void);
  /* c[m,n] (+)= a b; n is a multiple of GROUP and b's groups are bgs apart; a has zeros behind
   * `pairs`. next: prefetched as far as b is read, where rows are few; or NULL. */
  void (*scores)(int m, int n, int pairs, const uint32_t *a, ptrdiff_t ars, const uint32_t *b,
                 ptrdiff_t bgs, real *c, ptrdiff_t ldc, bool add, Fetch *next);
  /* scores() with m a multiple of mr and pairs of unit; a is made by pair_columns, with rows of
   * `padded` pairs. */
  void (*columns)(int m, int n, int pairs, const uint32_t *a, ptrdiff_t padded, const uint32_t *b,
                  ptrdiff_t bgs, real *c, ptrdiff_t ldc, bool add);
  /* c[m,n] (+)= a b, with b's pairs bps apart.  The first KV_UNIT / 2 pairs are at `first`,
   * unless that is NULL; b's follow.  Whole units of pairs are read.  Pairs are added in order,
   * or in whole units counted from a's first pair; of each pair the high half comes first. */
  void (*values)(int m, int n, int pairs, const uint32_t *a, ptrdiff_t ars, const uint32_t *first,
                 const uint32_t *b, ptrdiff_t bps, real *c, ptrdiff_t ldc, bool add, Fetch *next);
  /* Kernels.softmax of scores s into pairs p, the first of two in the high half, with zeros from
   * `first` to `last` in whole units of KV_UNIT. */
  void (*softmax)(int m, int first, int last, int lo, int hi, real scale, const real *s,
                  ptrdiff_t ld, uint32_t *p, ptrdiff_t ldp, real *max, real *sum);
  /* P and dS of `units` queries (even) and n keys from `key` on (whole units of KV_UNIT), from
   * scores that are capped already, and dP [units, ld]; query i sees keys lo[i] .. hi[i] - 1.  p
   * and ds are pairs of queries [keys / GROUP][..][GROUP], groups bgs apart; rows is dS of each
   * query in pairs of keys. */
  void (*ds)(int units, int n, const AttnDs *x, const real *s, const real *dp, ptrdiff_t ld,
             uint32_t *p, uint32_t *ds, ptrdiff_t bgs, uint32_t *rows, ptrdiff_t ldr);
  /* `lines` of GROUP pairs: the first `lanes` of each line from a, the others from b. */
  void (*blend)(int lines, int lanes, const uint32_t *a, const uint32_t *b, uint32_t *to);

  /* ---- packing ---- */
  void (*pair_rows)(int m, int k, const real *x, ptrdiff_t ldx, uint32_t *a); /* x [m, k] */
  void (*pair_row)(int k, const real *x, uint32_t *a);                        /* one row */
  /* One half of each of k pairs becomes x, the other stays; whole groups are written. */
  void (*half_row)(int k, bool high, const real *x, uint32_t *pairs);
  /* x [depth, m] becomes the pairs from p0 on (whole units) of an a with rows of `pairs` pairs */
  void (*pair_columns)(int m, int depth, const real *x, ptrdiff_t ldx, ptrdiff_t pairs, int p0,
                       uint32_t *a);
  /* one group of b from x [depth, cols], cols <= GROUP */
  void (*pair_group)(int depth, int cols, const real *x, ptrdiff_t ldx, uint32_t *b);
  /* One group of b from a quantised weight, as Kernels.widen_* makes reals.  depth of NF4 is
   * even; of f32 inner steps are ldx apart. */
  void (*widen_f32)(int depth, const float *x, ptrdiff_t ldx, uint32_t *b);
  void (*widen_f16)(int depth, const uint16_t *x, uint32_t *b);
  void (*widen_int8)(int depth, const int8_t *q, const real *scale, uint32_t *b);
  void (*widen_nf4)(int depth, const uint32_t *cells, const real *scale, uint32_t *b);
  /* b of the transposed weight: `lines` pairs of inner steps of one group of outputs, w[lines,
   * GROUP], become 8 pairs of outputs, [8, GROUP] for each group of inner steps, bgs apart. */
  void (*transpose)(int lines, const uint32_t *w, uint32_t *b, ptrdiff_t bgs);
} KernelsBf16;

extern const Kernels kern_generic;
#ifndef GRPO_DOUBLE
extern Kernels kern_openblas; /* is filled when the program starts */
#endif
#if defined(__x86_64__) && !defined(GRPO_DOUBLE)
extern const Kernels kern_avx2, kern_avx512, kern_portable_avx2, kern_portable_avx512;
extern const KernelsBf16 kern_avx512bf16, kern_amx;
#elif defined(__aarch64__) && !defined(GRPO_DOUBLE)
extern const Kernels kern_neon, kern_portable_neon;
#endif

/* ---- how drivers cut work ---- */
static inline int ceil_div(int a, int b) { return (a + b - 1) / b; }
static inline int round_up(int a, int b) { return ceil_div(a, b) * b; }
/* The size of the fewest equal pieces of at most `most` that n is cut into: no last piece is
 * short. */
static inline int even_piece(int n, int most) {
  return max_int(1, ceil_div(n, max_int(1, ceil_div(n, most))));
}
/* Do threads share the m rows of a product with n outputs, or its outputs?  They share rows
 * unless those are few: then each thread reads next what it has written itself, but it reads the
 * whole weight. */
static inline bool shares_rows(int m, int n) { return m > n / 4; }

#endif
