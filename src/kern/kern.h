/* kern.h - the arithmetic: loops over plain pointers, threaded by the pool.
 *
 * Inner loops exist per instruction set (generic.c, x86/avx2.c, x86/avx512.c,
 * arm/neon.c, all from the one source in inner/) and are chosen once, at run time, from what the
 * CPU has; GRPO_CPU=generic|blas|avx2|avx512|avx512bf16|amx|neon forces one (avx512bf16 and amx are avx512
 * but for products of bf16).  What all of them promise:
 *
 *   - Row invariance.  A forward output row depends on that row, the keys it
 *     may see and the weights: not on the number of rows, the row's place in a
 *     tile, the thread, or whether it is computed in decoding or in training.
 *     Inner products run over k in one fixed order, one accumulator per output.
 *   - The number of threads never changes a bit.  Reductions over rows (dW, db,
 *     dw of norms, sums) combine partial results of chunks of fixed size, in
 *     index order.
 *   - `add`: the result is added to what is there; else it overwrites.
 *
 * Scratch memory comes from cx->arena and is released before returning; the
 * only failure is GRPO_ENOMEM.  Matrices are row-major; ld = distance of rows.
 * All pointers are to `real` unless said.
 */
#ifndef GRPO_KERN_KERN_H
#define GRPO_KERN_KERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/pool.h"
#include "base/rng.h"
#include "kern/real.h"

/* How products with weights, and attention, are computed.  COMPUTE_BF16: both operands are rounded to
 * bf16 (nearest even), their products are exact, sums are float. */
typedef enum Compute { COMPUTE_F32, COMPUTE_BF16 } Compute;

/* Where to run: threads and scratch memory; and what quant_forward and quant_dx compute in. */
typedef struct Ctx {
  Pool *pool; /* NULL: the caller alone */
  Arena *arena;
  Compute compute;
} Ctx;

/* ---- dispatch ------------------------------------------------------------ */
const char *kern_name(void);  /* "amx", "avx512bf16", "avx512", "avx2", "neon", "blas", "generic" */
const char *kern_path(int i); /* the paths this CPU can take, "generic" first; NULL: no more */
Status kern_select(
    const char *name); /* NULL: by CPU and GRPO_CPU; EARG when the CPU lacks it. Not thread-safe. */

/* ---- matrix products ------------------------------------------------------
 * A weight is [n, k] (outputs, inputs), as Hugging Face's Linear stores it, or
 * [k, n] with in_out = true, as GPT-2's Conv1D does.  m rows of activations. */

/* reals that the packed form of an n x k weight takes (zero-padded panels): the same on every path;
 * what is in them is not, so pack again after kern_select. */
size_t gemm_packed_size(int n, int k);
void gemm_pack(const Ctx *cx, int n, int k, const real *w, bool in_out, real *packed);
/* y[m,n] = x[m,k] w^T + bias (NULL: none).  Row-invariant; m from 1 to any. */
void gemm_forward(const Ctx *cx, int m, int n, int k, const real *x, int ldx, const real *packed,
                  const real *bias, real *y, int ldy);
/* y += x w^T, as row-invariant. */
void gemm_forward_add(const Ctx *cx, int m, int n, int k, const real *x, int ldx,
                      const real *packed, real *y, int ldy);
/* dx[m,k] (+)= dy[m,n] w.  Row-invariant. */
Status gemm_dx(const Ctx *cx, int m, int n, int k, const real *dy, int lddy, const real *w,
               bool in_out, real *dx, int lddx, bool add);
/* What a low-rank adapter adds to a product, in float32: low[m, rank] up, where up is what gemm_pack
 * makes of a weight [columns of the product, rank].  The products *_low add it, behind the bias, to each
 * tile while that is in the cache: the bits of gemm_forward_add afterwards.  NULL: nothing. */
typedef struct LowRank {
  int rank;
  const real *low, *up;
} LowRank;
void gemm_forward_low(const Ctx *cx, int m, int n, int k, const real *x, int ldx,
                      const real *packed, const real *bias, const LowRank *low, real *y, int ldy);
Status gemm_dx_low(const Ctx *cx, int m, int n, int k, const real *dy, int lddy, const real *w,
                   bool in_out, const LowRank *low, real *dx, int lddx, bool add);
/* The same from panels of the transposed weight, gemm_pack(cx, k, n, w, !in_out, transposed): the same bits. */
void gemm_dx_transposed(const Ctx *cx, int m, int n, int k, const real *dy, int lddy,
                        const real *transposed, const LowRank *low, real *dx, int lddx, bool add);
/* dw (in the weight's own layout) (+)= dy^T x, summed over the m rows.  But in the class `blas` rows are
 * added one by one: a call for some rows, and one that adds the others, give the bits of one for all. */
Status gemm_dw(const Ctx *cx, int m, int n, int k, const real *dy, int lddy, const real *x, int ldx,
               bool in_out, real *dw, bool add);
/* Does it copy x as a rule, into the arena? */
bool gemm_dw_packs(void);
/* db[n] (+)= sum over rows of dy */
Status gemm_db(const Ctx *cx, int m, int n, const real *dy, int lddy, real *db, bool add);
/* c[m,n] = a[m,k] b[k,n], any orientation by strides of transposition flags; for small ops,
 * row-invariant in m. */
void gemm_plain(const Ctx *cx, int m, int n, int k, const real *a, bool ta, const real *b, bool tb,
                real *c, bool add);

/* ---- the same products in bf16 ---------------------------------------------------------------
 * Both operands are rounded to bf16 (nearest even, NaN stays NaN; a CPU that multiplies bf16 itself
 * takes subnormals as zero) and summed in float: row-invariant and independent of threads as above,
 * and the same bits from quant_forward and quant_dx (quant.h) of the same values.  cx->compute is
 * not looked at.  In the double twin only the weights are rounded.
 *
 * A weight is packed in pairs of inner steps: value (i, p) of w [n, k] is number
 *   ((i / 16 * ceil(k / 2) + p / 2) * 16 + i % 16) * 2 + p % 2
 * with zeros in the padding; on every path the same. */
bool kern_bf16(void);                       /* does the path in use multiply bf16 itself? */
size_t gemm_bf16_packed_size(int n, int k); /* values of a packed weight */
void gemm_bf16_pack(const Ctx *cx, int n, int k, const real *w, bool in_out, uint16_t *packed);
/* y[m,n] = x[m,k] w^T + bias (NULL: none) */
Status gemm_bf16_forward(const Ctx *cx, int m, int n, int k, const real *x, int ldx,
                         const uint16_t *packed, const real *bias, real *y, int ldy);
/* dx[m,k] (+)= dy[m,n] w */
Status gemm_bf16_dx(const Ctx *cx, int m, int n, int k, const real *dy, int lddy,
                    const uint16_t *packed, real *dx, int lddx, bool add);
Status gemm_bf16_forward_low(const Ctx *cx, int m, int n, int k, const real *x, int ldx,
                             const uint16_t *packed, const real *bias, const LowRank *low, real *y,
                             int ldy);
Status gemm_bf16_dx_low(const Ctx *cx, int m, int n, int k, const real *dy, int lddy,
                        const uint16_t *packed, const LowRank *low, real *dx, int lddx, bool add);
/* The same from gemm_bf16_pack(cx, k, n, w, !in_out, transposed), where kern_bf16(): the same bits. */
Status gemm_bf16_dx_transposed(const Ctx *cx, int m, int n, int k, const real *dy, int lddy,
                               const uint16_t *transposed, const LowRank *low, real *dx, int lddx,
                               bool add);
/* dw (in the weight's own layout) (+)= dy^T x, summed over the m rows */
Status gemm_bf16_dw(const Ctx *cx, int m, int n, int k, const real *dy, int lddy, const real *x,
                    int ldx, bool in_out, real *dw, bool add);

/* ---- attention -------------------------------------------------------------
 * Keys and values live in segments: a prompt's, and each completion's own.  A
 * span is a run of consecutive query rows that sees the whole prefix segment
 * (if any) and its own segment, causally or (AttnShape.bidirectional) whole.  The same structure serves training
 * (segments filled from the step's k and v) and decoding (segments are the cache).
 */
enum { KV_BLOCK = 16, KV_UNIT = 32 };

/* Latent attention (AttnShape.v_dim) keeps keys once, as rows, which are the values too.  Segments in
 * words (kv_in_bf16) hold bf16: k [kv_heads, places / KV_BLOCK, head_dim / 2, KV_BLOCK] words of two
 * channels, v [kv_heads, places / 2, head_dim in groups of 16] words of two keys (kv.c). */
typedef struct KvSeg {
  real *k;    /* [kv_heads, cap / KV_BLOCK, head_dim, KV_BLOCK]: keys transposed in blocks; or v */
  real *v;    /* [kv_heads, cap, head_dim] */
  int cap;    /* multiple of KV_BLOCK */
  int places; /* keys that there is memory for: kv_places */
  int len;    /* keys present */
  int row0;   /* training: row of the step's k and v that holds key 0; else -1 */
  int before; /* keys of the prefix that it is seen with; set before keys are stored */
  bool grows; /* decoding: keys come one by one, so that kv_join, and a last block in rows (kv.c) */
} KvSeg;

typedef struct AttnSpan {
  const KvSeg *prefix; /* seen whole; NULL: none */
  const KvSeg *own;    /* query i sees own keys 0 .. own_at + i, or all */
  int row, n;          /* query rows row .. row + n - 1 of q and o */
  int own_at;          /* own keys before this span's first row; logical position of row i is
                          (prefix ? prefix->len : 0) + own_at + i */
} AttnSpan;

typedef struct AttnShape {
  int heads, kv_heads,
      head_dim; /* heads is a multiple of kv_heads; head h uses kv head h / (heads / kv_heads) */
  real scale;   /* of the scores, usually 1 / sqrt(head_dim) */
  int window;   /* 0: all; else key j is visible to position i when i - window < j <= i */
  real softcap; /* 0: none; else a scaled score s becomes softcap tanh(s / softcap) */
  bool bidirectional; /* a query sees its whole own segment (and the prefix), what follows too; with
                         a window: i - window < j < i + window */
  int v_dim; /* 0: values are as wide as keys; else there are none of their own: a value is the
                   first v_dim channels of its key (latent attention), and so wide is a head of o */
  Compute
      compute; /* COMPUTE_BF16: queries, keys, values and probabilities are rounded to bf16, sums
                      are float; not with v_dim.  Segments are filled and read in one mode. */
} AttnShape;

static inline int attn_value_dim(const AttnShape *s) { return s->v_dim ? s->v_dim : s->head_dim; }
/* Blocks of kv_size reals that a segment takes: k and v, or one for both. */
static inline int kv_blocks(const AttnShape *s) { return s->v_dim ? 1 : 2; }
/* Is anything rounded?  Not in latent attention, nor in the double twin, which checks formulas. */
static inline bool attn_rounds(const AttnShape *s) {
  return s->compute == COMPUTE_BF16 && !s->v_dim && sizeof(real) == sizeof(float);
}
bool kv_in_bf16(
    const AttnShape *s); /* it is, and segments hold bf16: the path in use multiplies it */
/* Keys that a segment of `cap` behind a prefix of `before` (-1: of any length) has memory for. */
int kv_places(const AttnShape *s, int cap, int before);
/* reals for k, and the same for v, of one segment; the last few are padding that is read */
size_t kv_size(const AttnShape *s, int places);
/* A segment without keys in kv_blocks * kv_size(kv_places(cap, before)) reals. */
KvSeg kv_segment(const AttnShape *s, real *memory, int cap, int before);
/* Write n keys and values at positions at.. of the segment; k, v: [n, kv_heads * head_dim], with
 * v_dim v is not looked at.  Sets no len.  Keys come in order; several threads may store where
 * kv_cut has cut. */
void kv_store(const AttnShape *s, const KvSeg *seg, int at, int n, const real *k, int ldk,
              const real *v, int ldv);
/* The lines that a key at position `at` will be written to are asked for. */
void kv_fetch(const AttnShape *s, const KvSeg *seg, int at);
/* Before the first key of a segment that grows is stored, with its prefix. */
void kv_join(const AttnShape *s, const KvSeg *prefix, const KvSeg *own);
/* The first key from `key` on with which another thread may begin. */
int kv_cut(const AttnShape *s, const KvSeg *seg, int key);
/* Numbers where none are stored yet that are read; seg->len is set. */
void kv_clear_tail(const AttnShape *s, const KvSeg *seg);

/* o[rows, heads * attn_value_dim]; lse[rows, heads] = log sum exp of the scaled scores, or NULL.
 * Row-invariant. */
Status attn_forward(const Ctx *cx, const AttnShape *s, int nspans, const AttnSpan *spans,
                    const real *q, int ldq, real *o, int ldo, real *lse);
/* Gradients for training spans (every segment has row0 >= 0, own_at == 0).  dq, dk, dv are added to;
 * any may be NULL.  With v_dim dk and dv may be the same: what keys get in either role. */
Status attn_backward(const Ctx *cx, const AttnShape *s, int nspans, const AttnSpan *spans,
                     const real *q, int ldq, const real *o, int ldo, const real *lse,
                     const real *dout, int lddo, real *dq, int lddq, real *dk, real *dv, int lddkv);

/* ---- rows [rows, c] --------------------------------------------------------- */
/* y = x * rstd * (base + w), rstd[rows] = 1 / sqrt(mean x^2 + eps); base: 0, or 1 as gemma has it */
void rmsnorm_forward(const Ctx *cx, int rows, int c, const real *x, const real *w, real base,
                     double eps, real *y, real *rstd);
Status rmsnorm_backward(const Ctx *cx, int rows, int c, const real *x, const real *w, real base,
                        const real *rstd, const real *dy, real *dx, bool add_dx, real *dw /* += */);
/* y = (x - mean) * rstd * w + b; mean[rows], rstd[rows] = 1 / sqrt(var + eps), var over c (biased) */
void layernorm_forward(const Ctx *cx, int rows, int c, const real *x, const real *w, const real *b,
                       double eps, real *y, real *mean, real *rstd);
Status layernorm_backward(const Ctx *cx, int rows, int c, const real *x, const real *w,
                          const real *mean, const real *rstd, const real *dy, real *dx, bool add_dx,
                          real *dw /* += */, real *db /* += */);
/* Rotate halves: for each head of d and i < r/2, (x_i, x_{i+r/2}) by angle pos * inv_freq[i]; the
 * rest of the head, r .. d - 1, stays.  cs: [positions, r/2, 2] cos and sin.  inverse = true is the
 * backward. */
void rope_apply(const Ctx *cx, int rows, int heads, int d, int r, const real *x, int ldx,
                const int32_t *pos, const real *cs, bool inverse, real *y, int ldy, bool add);
/* Rotate neighbours: of r channels of each head, which begin x_head (y_head) apart, (x_2i, x_2i+1) by
 * pos * inv_freq[i].  cs and inverse as above. */
typedef struct RopePairs {
  int rows, heads, r;
  const real *x;
  ptrdiff_t ldx, x_head;
  real *y;
  ptrdiff_t ldy, y_head;
  const int32_t *pos;
  const real *cs;
  bool inverse, add;
} RopePairs;
void rope_pairs(const Ctx *cx, const RopePairs *p);
/* y = act(gate) * up, n elements; act: silu, or gelu (tanh approximation) */
typedef enum GateAct { GATE_SILU, GATE_GELU } GateAct;
void gated_forward(const Ctx *cx, GateAct act, size_t n, const real *gate, const real *up, real *y);
void gated_backward(const Ctx *cx, GateAct act, size_t n, const real *gate, const real *up,
                    const real *dy, real *dgate, bool add_gate, real *dup,
                    bool add_up); /* dgate or dup may be NULL */
/* tanh approximation ("gelu_new", "gelu_pytorch_tanh") */
void gelu_forward(const Ctx *cx, size_t n, const real *x, real *y);
void gelu_backward(const Ctx *cx, size_t n, const real *x, const real *dy, real *dx, bool add);
/* y = cap tanh(x / cap); may be in place */
void softcap_forward(const Ctx *cx, size_t n, real cap, const real *x, real *y);
/* dx (+)= dy (1 - (y / cap)^2); dx may be dy */
void softcap_backward(const Ctx *cx, size_t n, real cap, const real *y, const real *dy, real *dx,
                      bool add);
void vec_add(const Ctx *cx, size_t n, const real *a, const real *b, real *y);
void vec_acc(const Ctx *cx, size_t n, const real *x, real *y); /* y += x */
void vec_copy(const Ctx *cx, size_t n, const real *x, real *y);
void vec_exp(size_t n, const real *x,
             real *y); /* relative error below 2e-7 in float; below FLT_MIN 0 */

/* ---- the head ----------------------------------------------------------------
 * logits [rows, v] (ld = v); z = logits * inv_temp.  Row-invariant: decoding and training get the
 * same bits.
 * logp[r] = z[target] - lse, entropy[r] = -sum p log p (either may be NULL; targets
 * NULL: only lse and entropy) */
void logits_logp(const Ctx *cx, int rows, int v, const real *logits, real inv_temp,
                 const int32_t *targets, real *logp, real *entropy, real *lse);
/* One row, in the same bits: all that its tokens' log-probabilities need. */
typedef struct LogitsRow {
  real max, lse, entropy;
  double log_sum; /* lse - max */
} LogitsRow;
void logits_row(int v, const real *logits, real inv_temp, LogitsRow *out);
real logits_row_logp(const LogitsRow *h, real logit, real inv_temp);
/* p = exp(z - lse) of a piece of a row; returns their sum, added up by index modulo 4 */
double logits_probs(int n, const real *logits, real inv_temp, real lse, real *p);
/* logits are overwritten with d loss / d logits, given d loss / d logp and d loss / d entropy
 * (NULL: none) */
void logits_logp_grad(const Ctx *cx, int rows, int v, real *logits, real inv_temp,
                      const int32_t *targets, const real *lse, const real *entropy,
                      const real *dlogp, const real *dentropy);
/* kl[r] = sum over the vocabulary of p (log p - log p_ref) */
void logits_kl(const Ctx *cx, int rows, int v, const real *logits, const real *ref_logits,
               real inv_temp, const real *lse, const real *ref_lse, real *kl);
/* dlogits += d kl part: inv_temp * dkl * p (log p - log p_ref - kl); needs the logits, not yet
 * overwritten */
void logits_kl_grad(const Ctx *cx, int rows, int v, const real *logits, const real *ref_logits,
                    real inv_temp, const real *lse, const real *ref_lse, const real *kl,
                    const real *dkl, real *dlogits);

/* ---- the optimizer ------------------------------------------------------------ */
typedef struct AdamW {
  double lr, beta1, beta2, eps, weight_decay;
  double bias1, bias2; /* 1 - beta^t */
  double grad_scale;   /* of the gradient before use: clipping */
} AdamW;
/* torch.optim.AdamW: p *= 1 - lr wd; p -= lr m^ / (sqrt(v^) + eps) */
void adamw_step(const Ctx *cx, size_t n, real *p, const real *g, real *m, real *v, const AdamW *o);
double vec_sumsq(const Ctx *cx, size_t n,
                 const real *x); /* in double, chunks of fixed size in index order */
void vec_lerp(const Ctx *cx, size_t n, const real *x, real alpha,
              real *y); /* y = alpha x + (1 - alpha) y */

/* ---- random numbers ------------------------------------------------------------- */
/* out[i] = std * rng_normal(key, i), rounded to real: the same on every path */
void random_normal(const Ctx *cx, const RngKey *key, size_t n, double std, real *out);

#endif
