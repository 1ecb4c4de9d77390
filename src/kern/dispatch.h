/* dispatch.h - the inner loops, one table per instruction set.
 *
 * Every table is compiled from the one source in inner/ for another
 * vector width, so no algorithm is written twice; they differ in rounding only
 * where the CPU has a fused multiply-add.  Inner loops know nothing of threads:
 * the drivers (gemm.c, attention.c, norm_rope.c, logits.c, elementwise.c) cut the work.
 *
 * An element's or a row's result never depends on where it stands: tails run
 * through the same vector code, padded.
 */
#ifndef GRPO_KERN_DISPATCH_H
#define GRPO_KERN_DISPATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/minmax.h"
#include "base/rng.h"
#include "kern/kern.h"
#include "kern/quant.h"
#include "kern/real.h"

enum { GROUP = 16 };   /* columns of a product are walked in groups of this many */
enum { FEW_ROWS = 3 }; /* of products that keep more sums in registers than a tile does, at most */

/* Memory that is fetched into the cache while other memory is read, a line for a line: at .. end is
 * left. */
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

/* AdamW with everything that does not depend on the element worked out. */
typedef struct AdamScalars {
  real grad_scale, keep;    /* keep = 1 - lr weight_decay */
  real rest1, beta2, rest2; /* 1 - beta1, beta2, 1 - beta2 */
  real step, eps, root2;    /* lr / bias1; eps; 1 / sqrt(bias2) */
} AdamScalars;

/* What a row of logits comes to: z = logits * inv_temp, shifted by its maximum. */
typedef struct RowStats {
  real max;         /* of z */
  double sum, sumz; /* sum exp(z - max), sum exp(z - max) (z - max) */
} RowStats;

/* c[rows, groups] (+)= x w^T of a few rows by compact weights, without a copy of the values: all rows of c
 * may be touched up to Kernels.quant_few_rows. */
typedef struct QuantFew {
  QuantType type;
  bool round;              /* values, to bf16; with scales no value is subnormal, infinite or -0 */
  int rows, groups, depth; /* NF4: whole blocks */
  const real *x;
  ptrdiff_t ldx;
  const void *w;     /* the first group's first inner step */
  ptrdiff_t stride;  /* elements (NF4: words) between groups */
  const real *scale; /* [groups, GROUP], NF4: scale_ld behind one block's the next one's */
  ptrdiff_t scale_ld;
  real *c;
  ptrdiff_t ldc;
  bool add;
  real *values; /* [depth, GROUP]: becomes the values of the one group; or NULL */
} QuantFew;

typedef struct Kernels {
  int mr, ng; /* the register tile: rows, groups of columns; packed panels have ng groups */

  /* c[m,n] (+)= a[m,k] b[k,n], k in order, one accumulator per output.
   * a(i,p) = a[i ars + p aks]; b(p,j) = b[(j / GROUP) bgs + p brs + j % GROUP], readable to
   * whole groups. */
  void (*block)(int m, int n, int k, const real *a, ptrdiff_t ars, ptrdiff_t aks, const real *b,
                ptrdiff_t brs, ptrdiff_t bgs, real *c, ptrdiff_t ldc, bool add);

  /* block() for products with weights.  In the class `blas` it is OpenBLAS's (blas_kernels.c), which adds
   * inner steps in blocks of gemm_step: a driver that cuts the inner dimension cuts at multiples of it.
   * Elsewhere it is block() itself and gemm_step is 1. */
  void (*gemm_block)(int m, int n, int k, const real *a, ptrdiff_t ars, ptrdiff_t aks,
                     const real *b, ptrdiff_t brs, ptrdiff_t bgs, real *c, ptrdiff_t ldc, bool add);
  int gemm_step;

  /* block() with aks 1 of one panel, brs wide; next: k brs reals that are fetched meanwhile, or
   * NULL. */
  void (*stream)(int m, int n, int k, const real *a, ptrdiff_t ars, const real *b, ptrdiff_t brs,
                 const real *next, real *c, ptrdiff_t ldc, bool add);
  /* block() of tiles of a as pack_tiles makes them and one panel, brs wide */
  void (*outer)(int m, int n, int k, const real *a, const real *b, ptrdiff_t brs, real *c,
                ptrdiff_t ldc, bool add);
  /* block() with aks 1, faster for up to FEW_ROWS rows; n: a multiple of GROUP; next: fetched as far as b is
   * read, or NULL */
  void (*few_rows)(int m, int n, int k, const real *a, ptrdiff_t ars, const real *b, ptrdiff_t brs,
                   ptrdiff_t bgs, real *c, ptrdiff_t ldc, bool add, Fetch *next);
  /* The same of up to FEW_ROWS rows and n <= GROUP columns (whole vectors of c are written), b's columns in rows, a
   * square of GROUP after another: b(p, j) = b[p / GROUP GROUP^2 + j GROUP + p % GROUP]; k: a multiple of
   * GROUP */
  void (*few_rows_transposed)(int m, int n, int k, const real *a, ptrdiff_t ars, const real *b,
                              real *c, ptrdiff_t ldc, Fetch *next);
  /* rows of y += x[cols] */
  void (*add_to_rows)(int rows, int cols, const real *x, real *y, ptrdiff_t ld);
  /* sum[cols] += rows of x, in order */
  void (*add_rows)(int rows, int cols, const real *x, ptrdiff_t ld, real *sum);
  /* Panels of b: dst[p][width] = the first `cols` of a row of src, then zeros; width: 1 to ng
   * groups. */
  void (*pack_columns)(int depth, int cols, int width, const real *src, ptrdiff_t ld, real *dst);
  /* A transposed, tiles of mr columns of src side by side: dst[tile][p][mr]; round: to bf16 */
  void (*pack_tiles)(int depth, int cols, const real *src, ptrdiff_t ld, bool round, real *dst);

  /* m rows of scores: s[lo, hi) <- exp(scale s - max), zero elsewhere in [first, last), within
   * which [lo, hi) lies or is empty.  Touches whole groups.  max: [m], -inf for no key; sum: [m], by
   * lanes of the index. */
  void (*softmax)(int m, int first, int last, int lo, int hi, real scale, real *s, ptrdiff_t ld,
                  real *max, real *sum);
  /* The same of GROUP columns: s[j ld + i], j in [from, to), column i sees rows lo[i] .. hi[i] - 1;
   * from >= 0.  The same bits for the same numbers. */
  void (*softmax_down)(int from, int to, const int *lo, const int *hi, real scale, real *s,
                       ptrdiff_t ld, real *max, real *sum);
  /* y = a y + b x */
  void (*mix)(size_t n, real a, real *y, real b, const real *x);
  /* p, ds [keys, ld]: scores and dP of keys from `key` on by `units` (multiple of GROUP) queries
   * become P and dS.  Query i sees keys lo[i] .. hi[i] - 1, both ascending.  cap: of the scaled
   * scores; 0: none. */
  void (*attn_ds)(int keys, int units, ptrdiff_t ld, real scale, real cap, const real *lse,
                  const real *d, int key, const int *lo, const int *hi, real *p, real *ds);
  void (*transpose)(int rows, int cols, const real *x, ptrdiff_t ldx, real *y, ptrdiff_t ldy);

  /* Groups of a QuantWeight (quant.h) to reals: y[depth, GROUP]; scale: [GROUP].  bf16 comes in pairs of
   * inner steps, as words of GROUP outputs, the first step in the low half.  n: a multiple of GROUP.
   * NF4 comes in cells of 8 inner steps: word j holds output j's codes, the first step's
   * lowest; depth is rounded up to whole cells, in y too. */
  void (*widen_bf16)(int depth, const uint16_t *pairs, real *y);
  void (*widen_f16)(size_t n, const uint16_t *x, real *y);
  void (*widen_int8)(int depth, const int8_t *q, const real *scale, real *y);
  void (*widen_nf4)(int depth, const uint32_t *cells, const real *scale, real *y);
  /* y = x rounded to bf16 */
  void (*round_bf16)(size_t n, const real *x, real *y);
  /* The other way: x[depth, GROUP] with rows ldx apart, rounded to bf16, in pairs; an odd step is
   * paired with zeros. */
  void (*pair_bf16)(int depth, const real *x, ptrdiff_t ldx, uint16_t *pairs);
  /* Up to quant_few_rows rows at once; it is the better way up to quant_few_most.  Both by type. */
  int quant_few_rows[QUANT_TYPES], quant_few_most[QUANT_TYPES];
  int quant_few_shares; /* QuantFew.values is there for 3 to so many rows of INT8 and NF4, or rounded F16; or 0 */
  void (*quant_few)(const QuantFew *q);
  /* dx of compact weights: rows that share what is unpacked and transposed, and outputs (whole groups) and
   * columns (whole tiles) of that */
  struct {
    int rows, outputs, cols;
  } dx_block;

  real (*dot)(int n, const real *a, const real *b);
  void (*rmsnorm)(int c, const real *x, const real *w, real base, double eps, real *y, real *rstd);
  void (*rmsnorm_dx)(int c, const real *x, const real *w, real base, real rstd, const real *dy,
                     real *dx, bool add);
  void (*layernorm)(int c, const real *x, const real *w, const real *b, double eps, real *y,
                    real *mean, real *rstd);
  void (*layernorm_dx)(int c, const real *x, const real *w, real mean, real rstd, const real *dy,
                       real *dx, bool add);
  /* dw += dy (x - mean) rstd, db += dy (NULL: none) */
  void (*norm_dw)(int c, const real *x, real mean, real rstd, const real *dy, real *dw, real *db);
  /* the first n pairs (x_i, x_{i+half}) of each head of a row; c and s [n]: cosines and sines */
  void (*rope)(int heads, int d, int half, int n, const real *x, const real *c, const real *s,
               real *y, bool add);

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
  double (*sumsq)(size_t n, const real *x);

  void (*row_stats)(int v, const real *logits, real inv_temp, RowStats *st);
  double (*probs)(int n, const real *logits, real inv_temp, real lse, real *p);
  /* logits <- p (c0 + c1 log p) */
  void (*logp_grad)(int v, real *logits, real inv_temp, real lse, real c0, real c1);
  double (*kl)(int v, const real *logits, const real *ref, real inv_temp, real lse, real ref_lse);
  /* dlogits += c p (log p - log p_ref - kl) */
  void (*kl_grad)(int v, const real *logits, const real *ref, real inv_temp, real lse, real ref_lse,
                  real kl, real c, real *dlogits);

  /* NF4's codes of a block of n; returns its absmax */
  float (*nf4_codes)(int n, const float *w, uint8_t *code);

  /* out[i] = std * rng_normal(key, first + i); the lower half of the index must not wrap */
  void (*normals)(const RngKey *key, uint64_t first, int n, double std, real *out);
} Kernels;

/* What attention's dS is made of beside scores and dP: of each query, and of all. */
typedef struct AttnDs {
  const real *lse, *d;
  const int *lo, *hi;
  int key;
  real scale, cap; /* cap: of the scaled scores; 0: none */
} AttnDs;

/* Products of bf16, where the CPU has instructions for them.  A word is a pair of inner steps, the
 * first in the low half; an odd last step is paired with zero.
 *
 * a, the rows: row i's tile begins at word i * pairs, in whole units.  Whole tiles of mr rows are interleaved, [pair]
 * [mr]; of fewer than two tiles that are left at the end, rows may follow one another.  Made by
 * pair_rows or pair_columns of whole tiles, and of all that is left at once. */
typedef struct KernelsBf16 {
  int mr;
  int unit; /* pairs that are summed at once: a's are padded to whole units with zeros */
  /* Best are chunks of `rows`, which share a panel of b; panels `groups` wide, in blocks of up to `pairs`; for up to `few` rows few_groups, and as deep as can be; such a
   * block fetches what it needs itself (few_fetch), or wants `next` as others do. */
  int rows, pairs, groups, few, few_groups;
  bool few_fetch;
  /* c[m,n] (+)= a b, or a b + bias: sums begin with it (NULL: 0; not with add).  Word (p, j) of b is b[(j / GROUP) bgs + p GROUP + j % GROUP].  Pairs in order,
   * one accumulator an output.  next: b of the product that comes after this one, groups bgs apart, which
   * is fetched meanwhile; or NULL. */
  void (*block)(int m, int n, int pairs, const uint32_t *a, const uint32_t *b, ptrdiff_t bgs,
                const uint32_t *next, const real *bias, real *c, ptrdiff_t ldc, bool add);
  /* Attention's products, between begin() and end() on one thread: of `upper` rows, at most mr, of
   * `lower` rows, or of both at once.  Rows of a are ars apart, in whole units. */
  void (*begin)(int upper, int lower);
  void (*end)(void);
  /* c[m,n] (+)= a b, n a multiple of GROUP, b's groups bgs apart; a has zeros behind `pairs`.  next: fetched
   * as far as b is read, where rows are few; or NULL. */
  void (*scores)(int m, int n, int pairs, const uint32_t *a, ptrdiff_t ars, const uint32_t *b,
                 ptrdiff_t bgs, real *c, ptrdiff_t ldc, bool add, Fetch *next);
  /* The same, m a multiple of mr, pairs of unit; a as pair_columns makes it, of which a row
   * is `padded` pairs. */
  void (*columns)(int m, int n, int pairs, const uint32_t *a, ptrdiff_t padded, const uint32_t *b,
                  ptrdiff_t bgs, real *c, ptrdiff_t ldc, bool add);
  /* c[m,n] (+)= a b, b's pairs bps apart, after KV_UNIT / 2 pairs at `first`, which lie as they do,
   * if it is there; of a and b whole units of pairs are read.  Pairs in order, or units that are whole
   * from a's first pair on; of each pair the high half first. */
  void (*values)(int m, int n, int pairs, const uint32_t *a, ptrdiff_t ars, const uint32_t *first,
                 const uint32_t *b, ptrdiff_t bps, real *c, ptrdiff_t ldc, bool add, Fetch *next);
  /* Kernels.softmax of scores s into pairs p, the first of two in the high half; zeros from `first`
   * to `last` in whole units of KV_UNIT. */
  void (*softmax)(int m, int first, int last, int lo, int hi, real scale, const real *s,
                  ptrdiff_t ld, uint32_t *p, ptrdiff_t ldp, real *max, real *sum);
  /* P and dS of `units` queries (even), n keys from `key` on (whole units of KV_UNIT), from scores,
   * capped already if they are, and dP [units, ld]; query i sees keys lo[i] .. hi[i] - 1.  p, ds: pairs
   * of queries [keys / GROUP][..][GROUP], groups bgs apart; rows: dS of a query, pairs of keys. */
  void (*ds)(int units, int n, const AttnDs *x, const real *s, const real *dp, ptrdiff_t ld,
             uint32_t *p, uint32_t *ds, ptrdiff_t bgs, uint32_t *rows, ptrdiff_t ldr);
  /* `lines` of GROUP words: the first `lanes` of each from a, the others from b */
  void (*blend)(int lines, int lanes, const uint32_t *a, const uint32_t *b, uint32_t *to);
  void (*pair_rows)(int m, int k, const real *x, ptrdiff_t ldx, uint32_t *a); /* x [m, k] */
  void (*pair_row)(int k, const real *x, uint32_t *a);                        /* of one */
  /* Halves of k words become x, the others stay; whole groups are written. */
  void (*half_row)(int k, bool high, const real *x, uint32_t *words);
  /* x [depth, m]: pairs p0 on (whole units) of a, of which a row is `pairs` */
  void (*pair_columns)(int m, int depth, const real *x, ptrdiff_t ldx, ptrdiff_t pairs, int p0,
                       uint32_t *a);
  /* one group of b from x [depth, cols], cols <= GROUP */
  void (*pair_group)(int depth, int cols, const real *x, ptrdiff_t ldx, uint32_t *b);
  /* the same from compact weights, as Kernels.widen_* makes reals; depth of NF4: even; f32: steps are
   * ldx apart */
  void (*widen_f32)(int depth, const float *x, ptrdiff_t ldx, uint32_t *b);
  void (*widen_f16)(int depth, const uint16_t *x, uint32_t *b);
  void (*widen_int8)(int depth, const int8_t *q, const real *scale, uint32_t *b);
  void (*widen_nf4)(int depth, const uint32_t *cells, const real *scale, uint32_t *b);
  /* b of the transposed weight: from `lines` pairs of steps of one group of outputs w[lines, GROUP],
   * 8 pairs of outputs, [8, GROUP] for each group of steps, bgs apart */
  void (*transpose)(int lines, const uint32_t *w, uint32_t *b, ptrdiff_t bgs);
} KernelsBf16;

extern const Kernels kern_generic;
#ifndef GRPO_DOUBLE
extern Kernels kern_openblas; /* is filled when the program starts */
#endif
#if defined(__x86_64__) && !defined(GRPO_DOUBLE)
extern const Kernels kern_avx2, kern_avx512;
extern const KernelsBf16 kern_avx512bf16, kern_amx;
#elif defined(__aarch64__) && !defined(GRPO_DOUBLE)
extern const Kernels kern_neon;
#endif

const Kernels *kernels(void);          /* the table in use */
const KernelsBf16 *kernels_bf16(void); /* beside it; NULL: bf16 is computed by kernels() */

/* Does what the CPU fetches by itself run ahead of a stream within its page only, as on Intel's?  There
 * fetches of ours stay in that page too, where others have to reach as far as memory is away, and rows
 * that are pages apart are better packed than read where they are. */
bool kern_paged(void);

/* ---- shared by the drivers ---- */
static inline int ceil_div(int a, int b) { return (a + b - 1) / b; }
static inline int round_up(int a, int b) { return ceil_div(a, b) * b; }
/* n cut into the fewest equal pieces of at most `most`: no short last one */
static inline int even_piece(int n, int most) {
  return max_int(1, ceil_div(n, max_int(1, ceil_div(n, most))));
}

/* even_piece() for cutting the inner dimension of a product with a weight */
static inline int gemm_piece(int k, int most) {
  return round_up(even_piece(k, most), kernels()->gemm_step);
}

/* Do threads share the m rows of a product with n outputs, or the outputs?  Rows, unless there are few of
 * them: then a thread reads next what it wrote itself, but all of the weight. */
static inline bool shares_rows(int m, int n) { return m > n / 4; }

/* The keys [lo, hi) that position pos sees of a sequence of `keys`. */
static inline void attn_sees(const AttnShape *s, int pos, int keys, int *lo, int *hi) {
  const int w = s->window;
  *lo = w > 0 ? max_int(0, pos - w + 1) : 0;
  *hi = !s->bidirectional ? pos + 1 : w > 0 && w < keys - pos ? pos + w : keys;
}

/* Scratch of `size` reals per thread; the worker's own piece. */
typedef struct Scratch {
  real *data;
  size_t size;
  int workers;
} Scratch;
Status scratch_new(const Ctx *cx, size_t size, const char *what, Scratch *out);
static inline real *scratch_of(const Scratch *s, int worker) {
  return s->data + s->size * (size_t)(worker < s->workers ? worker : 0);
}
/* out[m,k] = x rounded to bf16, in the arena */
Status bf16_rounded(const Ctx *cx, int m, int k, const real *x, ptrdiff_t ldx, const real **out);
/* Its rows are so far apart: an odd number of lines, which do not fall into few sets of a cache. */
static inline int rounded_ld(int k) { return round_up(k, GROUP) | GROUP; }

#endif
