#include "model/estimate.h"

#include "base/minmax.h"
#include "base/pool.h"
#include "grad/attrs.h"
#include "grad/op_loghead.h"
#include "kern/dispatch.h"
#include "kern/gemm_dw.h"
#include "kern/kv.h"
#include "model/layer_kind.h"
#include "model/model_struct.h"

/* Headers of tensors and nodes, and the arena's rounding, for one operation. */
enum { PER_OP = 448, SLACK = 16 << 10 };
/* Limits of partial results in kernels: a wave of copies in attention's backward
 * (attention_grad.c), the blocks of a weight's gradient (gemm_dw.c). */
enum { WAVE_REALS = 1 << 22, BLOCK_REALS = 48 << 10 };

static size_t heads_width(const Config *c) {
  return (size_t)c->num_attention_heads * (size_t)c->head_dim;
}
static size_t kv_width(const Config *c) {
  return (size_t)c->num_key_value_heads * (size_t)c->head_dim;
}

static bool has(const Config *c, Trait t) { return (config_traits(c) & t) != 0; }

/* Latent attention: the widths of a row's queries and of the values that its heads make. */
static size_t latent_queries(const Config *c) {
  return (size_t)c->num_attention_heads * (size_t)(c->qk_nope_head_dim + c->qk_rope_head_dim);
}
static size_t latent_values(const Config *c) {
  return (size_t)c->num_attention_heads * (size_t)c->v_head_dim;
}
/* The width of attention's result. */
static size_t read_width(const Config *c) {
  return (size_t)c->num_attention_heads *
         (size_t)(has(c, TRAIT_LATENT) ? c->kv_lora_rank : c->head_dim);
}
static size_t key_blocks(const Config *c) { return has(c, TRAIT_LATENT) ? 1 : 2; }

/* Reals of a row's results before attention: norm, projections, q and k norms.  Rotations are
 * computed in place. */
static size_t first_reals(const Config *c) {
  const size_t h = (size_t)c->hidden_size, q = heads_width(c), kv = kv_width(c);
  if (has(c, TRAIT_LATENT)) /* q_a and its norm, q, absorbed; kv_a, latent and its norm, keys */
    return h + 2 * (size_t)c->q_lora_rank + latent_queries(c) + q + 2 * kv +
           2 * (size_t)c->kv_lora_rank;
  return h + q + 2 * kv + (has(c, TRAIT_QK_NORM) ? q + kv : 0);
}

/* Reals of a row's results in one layer: the outputs of the operations of block() in forward.c.
 * Sums are computed in place of branches. */
static size_t row_reals(const Config *c) {
  const size_t h = (size_t)c->hidden_size, f = (size_t)c->intermediate_size;
  const size_t gated = has(c, TRAIT_PACKED) ? 5 : 3;
  return first_reals(c) + read_width(c) + (has(c, TRAIT_LATENT) ? latent_values(c) : 0) + 3 * h +
         (has(c, TRAIT_POST_NORMS) ? 2 * h : 0) + (has(c, TRAIT_GATED) ? gated : 2) * f;
}

/* The part of these that passes (tape.h): there is one for all layers. */
static size_t passing_reals(const Config *c) {
  return has(c, TRAIT_GATED) ? (size_t)c->intermediate_size : 0;
}

static size_t layer_ops(const Config *c) {
  return (size_t)(13 + (has(c, TRAIT_LATENT) ? 6 : 0) + (has(c, TRAIT_PACKED) ? 1 : 0) +
                  (has(c, TRAIT_QK_NORM) ? 2 : 0) + (has(c, TRAIT_ROPE) ? 2 : 0) +
                  (has(c, TRAIT_POST_NORMS) ? 2 : 0));
}

/* Reals that the channels of an attention head take in a segment of keys or values (kv.c). */
static size_t kept_channels(const Config *c, Compute compute) {
  const size_t d = (size_t)c->head_dim;
  return compute == COMPUTE_BF16 && kern_bf16() && !has(c, TRAIT_LATENT) ? (d + 15) / 16 * 8 : d;
}

/* Reals that the operations of a layer keep for backward: statistics of norms, and log-sum-exps,
 * keys and values of attention, each span rounded up to whole blocks (half a block on average), and
 * more in bf16. */
static size_t saved_reals(const Config *c, Compute compute, size_t rows, size_t spans) {
  const size_t heads = (size_t)c->num_attention_heads, kv_heads = (size_t)c->num_key_value_heads;
  size_t norms = has(c, TRAIT_CONV1D) || has(c, TRAIT_POST_NORMS) ? 4 : 2;
  if (has(c, TRAIT_QK_NORM)) norms += heads + kv_heads;
  if (has(c, TRAIT_LATENT)) norms += 2;
  const AttnShape s = layer_attention_shape(c, 0, compute);
  const size_t keys = rows + spans * (size_t)(kv_places(&s, KV_BLOCK, -1) - KV_BLOCK / 2);
  return (norms + heads) * rows + key_blocks(c) * keys * kv_heads * kept_channels(c, compute);
}

/* Attention's forward (attention.c) takes for each thread a strip's queries and scores, scores as
 * packed bf16 pairs and the sums of a tile; the list of strips; and, for a few rows with many keys,
 * the sums of every part of PART keys. */
static size_t score_reals(const Config *c, size_t rows, size_t keys) {
  enum { STRIP = 32, TILE = 64, SPREAD = 32, PART = 512 };
  const size_t group = (size_t)(c->num_attention_heads / c->num_key_value_heads);
  const size_t strip = max_size(STRIP, group + 15), tile = max_size(TILE, strip);
  const size_t d = (size_t)c->head_dim + 17, parts = (keys + PART - 1) / PART;
  const size_t units = rows * (size_t)c->num_attention_heads + SPREAD * strip;
  return (size_t)pool_cores() * ((strip + 8) * (3 * d + (PART + 48) * 3 / 2) + tile * d) +
         4 * rows + (parts > 1 ? min_size(units, SPREAD * tile) * parts * d : 0);
}

/* Products in bf16 take rounded copies of the activations (gemm_bf16.c); the product for a weight's
 * gradient takes copies of both operands, unless it packs them.  Copies are bf16 where the CPU
 * multiplies that, else float32. */
static size_t rounded(Compute compute, size_t values) {
  return compute == COMPUTE_F32 ? 0 : kern_bf16() ? values / 2 : values;
}

static size_t rounded_reals(const Config *c, Compute compute, size_t rows, bool train) {
  const size_t h = (size_t)c->hidden_size, f = (size_t)c->intermediate_size;
  const size_t q = heads_width(c), joint = has(c, TRAIT_PACKED);
  if (!train) return rounded(compute, rows * max_size(f, max_size(h, q)));
  const size_t attention = joint || has(c, TRAIT_CONV1D) ? q + 2 * kv_width(c) : q;
  return rounded(compute, rows * (h + max_size(joint ? 2 * f : f, attention)));
}

/* The product for a weight's gradient may pack the widest activations of a layer, and round them
 * then. */
static size_t packed_reals(const Config *c, Compute compute, size_t rows) {
  const bool in_bf16 = compute == COMPUTE_BF16 && kern_bf16();
  const size_t h = (size_t)c->hidden_size, f = (size_t)c->intermediate_size;
  return in_bf16 || !gemm_dw_packs() ? 0 : rows * max_size(f, max_size(h, heads_width(c)));
}

static size_t product_reals(const Config *c, Compute compute, size_t rows) {
  const size_t packed = packed_reals(c, compute, rows);
  return packed ? packed : rounded_reals(c, compute, rows, true);
}

size_t estimate_forward_bytes(const Config *c, Compute compute, int nrows, int nspans, int keys) {
  const size_t rows = (size_t)nrows, h = (size_t)c->hidden_size;
  const size_t attention =
      rows * (first_reals(c) + read_width(c)) + saved_reals(c, compute, rows, (size_t)nspans);
  const size_t scratch =
      max_size(score_reals(c, rows, (size_t)keys), rounded_reals(c, compute, rows, false));
  return (rows * h + max_size(rows * row_reals(c), attention) + scratch) * sizeof(real) +
         (layer_ops(c) + 8) * PER_OP + (size_t)nspans * 64 + SLACK;
}

/* Gradients in latent attention, in the order in which they are made.  Of `width` two neighbours
 * are alive at once, of `pair` two of the same size. */
static size_t latent_gradients(const Config *c) {
  const size_t width[] = {latent_values(c), read_width(c), heads_width(c), latent_queries(c)};
  const size_t pair[] = {kv_width(c), (size_t)c->kv_lora_rank, (size_t)c->q_lora_rank};
  size_t n = 0;
  for (int i = 0; i < 4; i++) {
    bool there = width[i] == (size_t)c->hidden_size;
    for (int k = 0; k < i - 1; k++) there |= width[k] == width[i];
    n += there ? 0 : width[i];
  }
  for (int i = 0; i < 3; i++) {
    bool there = pair[i] == (size_t)c->hidden_size;
    for (int k = 0; k < i; k++) there |= pair[k] == pair[i];
    n += there ? 0 : 2 * pair[i];
  }
  return n;
}

/* Backward reuses gradient buffers of equal size (tape.c), so these are the ones that are alive at
 * once in block(). */
static size_t gradient_reals(const Config *c) {
  const size_t h = (size_t)c->hidden_size, f = (size_t)c->intermediate_size;
  const size_t q = heads_width(c), kv = kv_width(c);
  if (has(c, TRAIT_LATENT)) return 5 * h + (has(c, TRAIT_GATED) ? 3 : 2) * f + latent_gradients(c);
  if (has(c, TRAIT_CONV1D)) return 5 * h + 3 * h + 2 * f;
  const size_t packed = has(c, TRAIT_PACKED) ? q + 2 * kv + 2 * f : 0;
  if (q == h && kv == h) return 5 * h + 3 * f + packed;
  return 3 * h + (q == h ? 0 : 2 * q) + 3 * kv + 3 * f + packed;
}

/* A thread's tile and its keys in attention's backward: as reals (attention_grad.c), or as packed
 * bf16 pairs (attention_grad_bf16.c). */
static size_t piece_reals(const Config *c, Compute compute, size_t keys) {
  enum { UNITS = 48, KEYS = 64, TILE = 128, BLOCK = 128 };
  const size_t group = (size_t)(c->num_attention_heads / c->num_key_value_heads);
  const size_t width = ((size_t)c->head_dim + 15) / 16 * 16, units = max_size(UNITS, group + 15);
  const size_t reals = units * (5 * width + 2 * KEYS + 4) + 2 * (keys + KV_BLOCK) * width;
  const size_t tile = max_size(TILE, group) + KV_UNIT;
  const size_t pairs =
      tile * (5 * width + 2 * BLOCK) + KV_UNIT * 3 * BLOCK + 3 * (keys + 2 * KV_UNIT) * width;
  return compute == COMPUTE_BF16 && kern_bf16() ? max_size(reals, pairs) : reals;
}

/* Attention's backward copies dk and dv of the prefix for every span (a prefix is taken to be one
 * and a half times as long as the span), and those of the keys before it for every PIECE rows of a
 * longer span.  Each thread has a piece. */
static size_t wave_reals(const Config *c, Compute compute, size_t rows, size_t keys) {
  enum { PIECE = 512 };
  const size_t width = ((size_t)c->head_dim + 15) / 16 * 16;
  const size_t copied = rows * 3 / 2 + (keys > PIECE ? rows * (keys / PIECE + 1) : 0);
  return min_size(WAVE_REALS, copied * width * 2 * (size_t)c->num_key_value_heads) +
         (size_t)pool_cores() * piece_reals(c, compute, keys);
}

size_t estimate_step_bytes(const Config *c, Compute compute, int nrows, int nout, int nspans,
                           StepMemory kind) {
  const size_t rows = (size_t)nrows, out = (size_t)nout, h = (size_t)c->hidden_size;
  const size_t layers = (size_t)c->num_hidden_layers, spans = (size_t)nspans;
  const size_t copies = c->logit_softcap > 0 && kind != STEP_FORWARD ? 2 : 1;
  const size_t logits = (size_t)c->vocab_size, operands = kind == STEP_FORWARD ? h : logits + h;
  const size_t head =
      (size_t)loghead_rows(c->vocab_size) * (copies * logits + 2 * h + rounded(compute, operands));
  const size_t pack = (2 * rows + 2 * out) * sizeof(int32_t) + spans * sizeof(PackSpan);
  const int keys = nrows < c->max_position_embeddings ? nrows : c->max_position_embeddings;
  if (kind == STEP_FORWARD) {
    const size_t end = (2 * rows * h + head + 4 * out) * sizeof(real) + SLACK;
    return pack + max_size(estimate_forward_bytes(c, compute, nrows, nspans, keys), end);
  }
  const size_t whole = kind == STEP_CHECKPOINTED ? 1 : layers; /* layers that keep all results */
  const size_t inputs = (layers - whole) * rows * h;
  const size_t passing = passing_reals(c);
  const size_t in_layers = whole * rows * (row_reals(c) - passing) + rows * passing;
  const size_t results = in_layers + inputs + 2 * rows * h + 2 * out;
  const size_t saved = whole * saved_reals(c, compute, rows, spans) + 2 * rows + 2 * out;
  const size_t scratch =
      max_size(wave_reals(c, compute, rows, (size_t)keys) + (size_t)pool_cores() * BLOCK_REALS,
               product_reals(c, compute, rows));
  return (results + saved + max_size(rows * gradient_reals(c) + scratch, head + rows * h)) *
             sizeof(real) +
         pack + whole * spans * 80 + (whole * layer_ops(c) + layers + 8) * PER_OP + SLACK;
}

/* ---- adapters, rollout activations -------------------------------------------------------- */

/* Training keeps A x of every module.  Dropout copies the widest input, and its backward does
 * again. */
size_t estimate_lora_bytes(const Model *m, int nrows, bool train) {
  const Lora *l = m->lora;
  size_t kept = 0, rank = 0, widest = 0;
  for (int i = 0; l && i < l->nmodules; i++) {
    const Tensor *a = &l->module[i].a->t;
    kept += (size_t)a->dim[0];
    if ((size_t)a->dim[0] > rank) rank = (size_t)a->dim[0];
    if ((size_t)a->dim[1] > widest && &l->module[i] != l->embedding) widest = (size_t)a->dim[1];
  }
  if (!l) return 0;
  const size_t copies =
      train ? (l->dropout > 0 ? 2 : 1) : 0; /* the product for dA packs an input */
  return (size_t)nrows * ((train ? kept : rank) + 3 * rank + copies * widest) * sizeof(real) +
         (train ? (size_t)l->nmodules * 256 : 0) + 4096;
}

/* Results of the products and of attention in every layer, and A x of the adapters. */
size_t estimate_activation_columns(const Config *c, int lora_rank, int lora_modules) {
  const size_t q = heads_width(c), f = (size_t)c->intermediate_size;
  const size_t latent = (size_t)c->q_lora_rank + latent_queries(c) + kv_width(c) + read_width(c);
  const size_t attention =
      (has(c, TRAIT_LATENT) ? latent : 2 * q + 2 * kv_width(c)) + (size_t)c->num_attention_heads;
  const size_t mlp = has(c, TRAIT_GATED) ? 2 * f : f;
  return (size_t)c->num_hidden_layers * (attention + mlp + 2 * (size_t)c->hidden_size) +
         (size_t)lora_rank * (size_t)lora_modules;
}
