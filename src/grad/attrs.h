/* attrs.h - what the fused operations need beside tensors (Attr.p). */
#ifndef GRPO_GRAD_ATTRS_H
#define GRPO_GRAD_ATTRS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "grad/latent.h"
#include "grad/tensor.h"
#include "kern/attention.h"
#include "kern/conv.h"
#include "kern/delta.h"
#include "kern/logits.h"

/* embedding: out[t] = scale wte[ids[t]] (+ wpe[pos[t]]).  out: [tokens, channels] */
typedef struct EmbeddingAttr {
  int tokens;
  const int32_t *ids, *pos; /* [tokens] */
  real scale;               /* 0: none */
  int first_position;       /* the row of wpe for position 0 */
} EmbeddingAttr;

/* layernorm, rmsnorm: Attr.f[0] = eps; w may be one head wide: the norm is then per head.
 * Attr.i[0] = 1: multiplies by 1 + w
 * scale: Attr.f[0] = factor.  activate: Attr.i[0] = an Act of kern/elementwise.h
 * softcap: Attr.f[0] = cap: out = cap tanh(x / cap) */
/* linear: Attr.i[0] = 1 when the weight is stored [in, out] (GPT-2's Conv1D) */

/* lora_linear, lora_low: Attr.f[0] = scale; Attr.i[0] as for linear; Attr.p: dropout, NULL: none.
 * lora_embedding: Attr.f[0] = scale, Attr.p = an EmbeddingAttr. */
typedef struct LoraDropout {
  double p;   /* probability that an input of A is zero */
  RngKey key; /* of the unit and the projection; an element's place is its row and column */
} LoraDropout;

/* rope: x [tokens, heads * head_dim + rest] */
typedef struct RopeAttr {
  int heads, head_dim, positions; /* positions: rows of cs */
  const int32_t *pos;             /* [tokens] */
  const real *cs;                 /* [positions, rotary / 2, 2] */
  int rotary;                     /* how much of a head turns: its first channels; 0: all */
  bool pairs; /* channels 2i and 2i + 1 turn together, not i and i + rotary / 2 */
  int rest;   /* channels after the heads that stay, whole heads: values beside queries and keys */
} RopeAttr;

/* One run of consecutive rows of a packed batch.  It sees the whole prefix span (-1: none; a prefix
 * has no prefix itself) and its own rows: causally, or with AttnShape.bidirectional all of them. */
typedef struct PackSpan {
  int row, n, prefix;
} PackSpan;

/* attention_packed is attention with q, k and v side by side: [tokens, (heads + 2 kv_heads)
 * head_dim]. */
/* attention_latent: shape.v_dim > 0 and one kv head; q [tokens, heads head_dim], k [tokens,
 * head_dim], out [tokens, heads v_dim]. */
/* attention in training: keys and values are rows of the same batch.
 * In decoding `spans` gives segments of the cache, already holding the new keys (k and v inputs are
 * then only checked for shape), and `pack` is NULL. */
typedef struct AttentionAttr {
  AttnShape shape;
  int npack;
  const PackSpan *pack;
  int nspans;
  const AttnSpan *spans;
  bool keep_lse; /* decoding: log-sum-exps are saved, to be kept for training (replay.h) */
} AttentionAttr;

/* latent_query, latent_key, latent_value */
typedef struct LatentAttr {
  LatentShape shape;
  int positions;      /* rows of cs */
  const int32_t *pos; /* [tokens] */
  const real *cs;     /* [positions, rope / 2, 2] */
} LatentAttr;

/* The sequences that rows belong to: as in AttentionAttr, spans where pack is NULL. */
typedef struct SequenceRows {
  int npack;
  const PackSpan *pack;
  int nspans;
  const AttnSpan *spans;
} SequenceRows;

/* causal_conv, delta_rule.  state_at: where their state begins in the layer's (KvSeg.k) */
typedef struct ConvAttr {
  ConvShape shape;
  SequenceRows rows;
  size_t state_at;
} ConvAttr;
typedef struct DeltaAttr {
  DeltaShape shape;
  SequenceRows rows;
  size_t state_at;
} DeltaAttr;

/* route: logits [tokens, experts], bias [experts] or NULL, factors [experts] or NULL ->
 * [tokens, 2 top_k]: the weights of the experts that a token takes, from the best score on (of
 * equal ones the earlier expert), then their numbers, which have no gradient.  The bias is added to
 * scores for the choice alone.  An expert's factor multiplies its weight at the end. */
enum { ROUTE_MAX_EXPERTS = 1024 };
typedef struct RouteAttr {
  int top_k;
  int groups, top_groups;  /* experts are taken from the best groups of experts only; 0: from all */
  bool sigmoid;            /* scores are sigmoids of the logits, not their softmax */
  bool normed;             /* the weights of a token are divided by their sum */
  double eps;              /* sigmoid: is added to that sum */
  real scale;              /* of the weights */
  struct Balance *balance; /* softmax alone: counts the routes (balance.h); NULL: nobody does */
} RouteAttr;

/* The weights of an expert; a bias follows its weight. */
typedef enum ExpertPart {
  EXPERT_GATE, /* or gate and up in one matrix */
  EXPERT_GATE_B,
  EXPERT_UP,
  EXPERT_UP_B,
  EXPERT_DOWN,
  EXPERT_DOWN_B,
  EXPERT_PARTS
} ExpertPart;

/* experts: x [tokens, hidden], route's result -> [tokens, hidden], the sum over a token's experts
 * of weight * down(act(gate x) * (up x)), act: silu or gelu.  Gradients of experts' weights, whose
 * buffers must exist, are made where x or the weights of the route need one too. */
typedef struct ExpertsAttr {
  int experts, top_k, width; /* width: of gate and of up */
  bool in_out;               /* weights are stored [in, out] */
  bool alternating;          /* columns of a common matrix are gate, up, gate, up ... */
  bool gelu;                 /* (tanh), not silu */
  /* > 0: the activation is (u + 1) g sigmoid(alpha g), with g at most and u within the limit */
  real limit, alpha;
  Tensor *const *weight; /* [experts, EXPERT_PARTS], NULL where there is none */
} ExpertsAttr;

/* A reference that knows the token before only: fills its row of logits, [v].  Any thread calls it.
 * NULL: there is none. */
typedef struct ReferenceRows {
  void (*fill)(const void *of, int32_t prev, real *logits);
  const void *of;
} ReferenceRows;

/* loghead, lora_loghead: log-probabilities of target tokens, entropies and, with ref_hidden or
 * ref_rows, the KL over the whole vocabulary, or another divergence.  hidden [tokens, c], head
 * weight [v, c], its bias [v] or NULL.  out: [2 or 3, n].  The logits are never held whole: forward
 * and backward each make them in chunks of rows. one_pass is for callers who know what they will
 * send back without having seen the result: forward then makes nothing (out is NaN) and backward,
 * which makes the logits anyway, fills out in. */
typedef struct LogheadAttr {
  int n; /* outputs */
  const int32_t
      *rows; /* [n] row of hidden that predicts output i; may repeat (a prompt's last row) */
  const int32_t *targets; /* [n] */
  /* [n] the tokens that each target was sampled from (kern/token_set.h), over which the policy's
   * distribution is renormalised; NULL, also for a single output: all tokens.  The reference's
   * distribution is not renormalised. */
  const uint32_t *const *token_sets;
  bool one_pass; /* without a gradient to come it has no effect */
  real inv_temp;
  real softcap, ref_softcap; /* of the logits, before the temperature; 0: none */
  const real *ref_hidden;    /* [n, c_ref] or NULL */
  const Tensor *ref_head;    /* [v, c_ref]: the reference's head */
  const Tensor *ref_bias;    /* [v] or NULL */
  const real *ref_low;       /* [n, r] of the reference's adapter on the head, NULL: none */
  const Tensor *ref_lora_b;
  ReferenceRows ref_rows;
  const int32_t *ref_prev; /* [n] the row of ref_rows that output i is compared with */
  /* How far the reference is (kern/logits.h); NULL: the reverse KL over all tokens, the only one
   * that goes with token_sets. */
  const Divergence *divergence;
} LogheadAttr;

/* token_logp: logits [n, v] -> [2, n] */
typedef struct TokenLogpAttr {
  const int32_t *targets; /* [n] */
  real inv_temp;
} TokenLogpAttr;

/* gather: one index per line along `axis` (the axis disappears); of a vector, any n elements. */
typedef struct GatherAttr {
  int axis, n;
  const int32_t *ids; /* [n] 0-based */
} GatherAttr;

/* segment_sum, segment_mean, spread */
typedef struct SegmentAttr {
  int n, count;       /* sequences, elements */
  const int32_t *ids; /* [count] 1-based sequence of each element */
} SegmentAttr;

/* Attr of the small operations, 0-based: "a", "i" fill Attr.i in order, "f" Attr.f; "A" is
 * Attr.i[0] with -1 for everything; "d" is Attr.i[0] dimensions in Attr.i[1..],
 * one of them may be -1. */

typedef enum LossKind {
#define LOSS(name, ...) LOSS_##name,
#include "grad/losses.def"
  LOSS_COUNT
} LossKind;

typedef enum Importance {
  IMPORTANCE_TOKEN,
  IMPORTANCE_SEQUENCE,
  IMPORTANCE_SEQUENCE_TOKEN /* the sequence's ratio, with the gradient of the token's own */
} Importance;
typedef enum KlEstimator { KL_K1, KL_K2, KL_K3, KL_FULL } KlEstimator;
typedef enum SamplerMode {
  SAMPLER_NONE,
  SAMPLER_TOKEN_TRUNCATE,
  SAMPLER_TOKEN_MASK,
  SAMPLER_SEQUENCE_TRUNCATE,
  SAMPLER_SEQUENCE_MASK
} SamplerMode;

/* The settings of a loss; formulas and symbols: docs/algorithms.md.  Whoever makes the masks of
 * PolicyLossAttr reads top_entropy_quantile, mask_truncated, clip_cov and kl_cov.ratio; the
 * operation does not. */
typedef struct LossOptions {
  LossKind kind;
  int max_new_tokens; /* dr_grpo's denominator */
#include "base/option_fields.h"
#include "grad/loss_options.def"
} LossOptions;

/* Metrics a loss leaves behind; sums, so that micro-batches add up. */
typedef struct LossMetrics {
  double kl_sum, entropy_sum, tokens; /* over masked tokens */
  double clip_low, clip_high;         /* clipped elements */
  double clip_count;                  /* elements looked at: tokens, or sequences */
  double clip_low_min,
      clip_high_max;           /* over sequences: share of clipped elements; start at 1 and 0 */
  double ratio_min, ratio_max; /* of exp(logp - old_logp) over masked tokens; start at +inf, -inf */
  /* of the sampler's correction before its bounds, over masked tokens, or over sequences where it
   * has one weight for each */
  double sampler_sum, sampler_count, sampler_min, sampler_max;
} LossMetrics;

enum { CHOSEN_CLIP = 1, CHOSEN_KL = 2 }; /* the token leaves the policy term; it has a KL */

/* policy_loss: inputs logp [N], entropy [N] or NULL, full KL [N] or NULL; out: a number.
 * Everything else is per token and carries no gradient.  Sequences are consecutive. */
typedef struct PolicyLossAttr {
  LossOptions options;
  int nseq;
  const int *lengths;       /* [nseq], sums to N */
  const real *mask;         /* [N] 0 or 1; NULL: all 1 */
  const real *kept;         /* [N] top-entropy mask; NULL: all 1 */
  const real *advantage;    /* [N] */
  const real *old_logp;     /* [N]; NULL: logp itself, detached */
  const real *ref_logp;     /* [N]; NULL when kl == 0 or kl_estimator == KL_FULL */
  const real *kl_mask;      /* [N] 0: the token has no KL; NULL: all 1 */
  const real *sampler_logp; /* [N]; NULL without sampler correction */
  const uint8_t *chosen;    /* [N] CHOSEN_CLIP, CHOSEN_KL (covariance.h); NULL: no token */
  double num_sequences;     /* of the whole optimizer step */
  double num_tokens;        /* masked tokens of the whole optimizer step */
  double num_kept_tokens;   /* of the step: masked and kept, for the entropy bonus */
  double batch_tokens;      /* bnpo: masked tokens of this micro-batch */
  double batch_share;   /* bnpo: what this micro-batch counts for (1 / number of micro-batches) */
  LossMetrics *metrics; /* added to by forward; NULL: not wanted */
} PolicyLossAttr;

/* value_head: hidden [tokens, c], weight [1, c] -> [n], a value for each of these rows; repeats are
 * fine. */
typedef struct ValueHeadAttr {
  int n;
  const int32_t *rows; /* [n] */
} ValueHeadAttr;

/* value_loss: values [n] -> number. */
typedef struct ValueLossAttr {
  const real *old;     /* [n] when the rollout was done */
  const real *returns; /* [n] */
  const real *mask;    /* [n] 0 or 1; NULL: all 1 */
  double clip;         /* how far a value may move from the old one; >= 0 */
  double count;        /* masked values of the whole optimizer step */
  double *clipped;     /* forward adds the values that were held back; NULL: not wanted */
} ValueLossAttr;

#endif
