/* estimate.c - how much memory a model, a step and an optimizer take, from shapes alone. */
#include "base/pool.h"
#include "model/impl.h"
#include "model/optimizer.h"

/* Headers of tensors and nodes and the arena's rounding, for one operation.  Where kernels keep
 * partial results, at most: attention's backward a wave of copies (attn_grad.c), dw its blocks
 * (gemm.c). */
enum { PER_OP = 448, SLACK = 16 << 10 };
enum { ATTENTION_ROWS = 48, WAVE_REALS = 1 << 22, BLOCK_REALS = 48 << 10 };

static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }
static size_t max_size(size_t a, size_t b) { return a > b ? a : b; }

size_t block_bytes(size_t bytes) {
  const size_t page = (size_t)2 << 20;
  return bytes < page ? bytes : (bytes + page - 1) / page * page;
}

static size_t heads_width(const Config *c) {
  return (size_t)c->num_attention_heads * (size_t)c->head_dim;
}
static size_t kv_width(const Config *c) {
  return (size_t)c->num_key_value_heads * (size_t)c->head_dim;
}

static bool has(const Config *c, Trait t) { return (config_traits(c) & t) != 0; }

/* Reals of a row's results before attention's: norm, projections, q and k norms, rotations. */
static size_t first_reals(const Config *c) {
  const size_t h = (size_t)c->hidden_size, q = heads_width(c), kv = kv_width(c);
  return h + (q + 2 * kv) * (has(c, TRAIT_PACKED) ? 2 : 1) + (has(c, TRAIT_QK_NORM) ? q + kv : 0) +
         (has(c, TRAIT_ROPE) ? q + kv : 0);
}

/* Reals that a row's results in one layer take: the outputs of block()'s operations. */
static size_t row_reals(const Config *c) {
  const size_t h = (size_t)c->hidden_size, f = (size_t)c->intermediate_size;
  const size_t gated = has(c, TRAIT_PACKED) ? 5 : 3;
  return first_reals(c) + heads_width(c) + 5 * h + (has(c, TRAIT_POST_NORMS) ? 2 * h : 0) +
         (has(c, TRAIT_GATED) ? gated : 2) * f;
}

static size_t layer_ops(const Config *c) {
  return (size_t)(13 + (has(c, TRAIT_PACKED) ? 1 : 0) + (has(c, TRAIT_QK_NORM) ? 2 : 0) +
                  (has(c, TRAIT_ROPE) ? 2 : 0) + (has(c, TRAIT_POST_NORMS) ? 2 : 0));
}

/* What operations of a layer keep for backward: norms' statistics, and attention's log-sum-exps,
 * keys and values, each span rounded up to whole blocks (half a block on average). */
static size_t saved_reals(const Config *c, size_t rows, size_t spans) {
  const size_t heads = (size_t)c->num_attention_heads, kv_heads = (size_t)c->num_key_value_heads;
  size_t norms = has(c, TRAIT_CONV1D) || has(c, TRAIT_POST_NORMS) ? 4 : 2;
  if (has(c, TRAIT_QK_NORM)) norms += heads + kv_heads;
  const size_t keys = rows + spans * KV_BLOCK / 2;
  return (norms + heads) * rows + 2 * keys * kv_width(c);
}

/* Attention's forward: a row of scores for every query of a tile, per thread. */
static size_t score_reals(const Config *c, size_t keys) {
  return (size_t)pool_cores() * ATTENTION_ROWS * (keys + 2 * (size_t)c->head_dim + 64);
}

size_t model_forward_bytes(const Config *c, int nrows, int nspans, int keys) {
  const size_t rows = (size_t)nrows, h = (size_t)c->hidden_size;
  const size_t attention =
      rows * (first_reals(c) + heads_width(c)) + saved_reals(c, rows, (size_t)nspans);
  return (rows * h + max_size(rows * row_reals(c), attention) + score_reals(c, (size_t)keys)) *
             sizeof(real) +
         (layer_ops(c) + 8) * PER_OP + (size_t)nspans * 64 + SLACK;
}

/* The head works in chunks of this many rows (op_loghead.c). */
static size_t head_rows(const Config *c) {
  const size_t rows = ((size_t)16 << 20) / ((size_t)c->vocab_size * sizeof(real));
  return rows < 32 ? 32 : rows > 256 ? 256 : rows;
}

/* Backward reuses gradient buffers of equal size (tape.c): what is alive at once in block(). */
static size_t gradient_reals(const Config *c) {
  const size_t h = (size_t)c->hidden_size, f = (size_t)c->intermediate_size;
  const size_t q = heads_width(c), kv = kv_width(c);
  if (has(c, TRAIT_CONV1D)) return 5 * h + 3 * h + 2 * f;
  if (q == h && kv == h) return 5 * h + 3 * f;
  return 3 * h + (q == h ? 0 : 2 * q) + 3 * kv + 3 * f;
}

/* Attention's backward copies dk and dv for every span and head; a span sees its prefix too, here
 * taken to be one and a half times as long as itself. */
static size_t wave_reals(const Config *c, size_t rows) {
  const size_t keys = rows * 5 / 2, width = ((size_t)c->head_dim + 15) / 16 * 16;
  return min_size(WAVE_REALS, keys * width * 2 * (size_t)c->num_attention_heads);
}

size_t model_step_bytes(const Config *c, int nrows, int nout, int nspans, StepMemory kind) {
  const size_t rows = (size_t)nrows, out = (size_t)nout, h = (size_t)c->hidden_size;
  const size_t layers = (size_t)c->num_hidden_layers, spans = (size_t)nspans;
  const size_t copies = c->logit_softcap > 0 && kind != STEP_FORWARD ? 2 : 1;
  const size_t head = head_rows(c) * (copies * (size_t)c->vocab_size + 2 * h);
  const size_t pack = (2 * rows + 2 * out) * sizeof(int32_t) + spans * sizeof(PackSpan);
  const int keys = nrows < c->max_position_embeddings ? nrows : c->max_position_embeddings;
  if (kind == STEP_FORWARD) {
    const size_t end = (2 * rows * h + head + 4 * out) * sizeof(real) + SLACK;
    return pack + max_size(model_forward_bytes(c, nrows, nspans, keys), end);
  }
  const size_t whole = kind == STEP_CHECKPOINTED ? 1 : layers; /* layers kept with all results */
  const size_t inputs = (layers - whole) * rows * h;
  const size_t results = whole * rows * row_reals(c) + inputs + 2 * rows * h + 2 * out;
  const size_t saved = whole * saved_reals(c, rows, spans) + 2 * rows + 2 * out;
  const size_t scratch = wave_reals(c, rows) + (size_t)pool_cores() * BLOCK_REALS;
  return (results + saved + max_size(rows * gradient_reals(c) + scratch, head + rows * h)) *
             sizeof(real) +
         pack + whole * spans * 80 + (whole * layer_ops(c) + layers + 8) * PER_OP + SLACK;
}

size_t model_weight_bytes(const Config *c, bool train) {
  Model *m;
  size_t n = 0, rope = 0;
  if (model_layout(&m, NULL, c) != GRPO_OK) return 0;
  for (int i = 0; i < m->nparams; i++) n += (m->param[i].t.n + 15) / 16 * 16;
  rope = rope_reals(c);
  const size_t panels = model_panel_reals(m);
  model_destroy(m);
  return block_bytes(n * sizeof(real)) * (train ? 2 : 1) + block_bytes(panels * sizeof(real)) +
         block_bytes(rope * sizeof(real)) * (config_has_local_rope(c) ? 2 : 1);
}

size_t optimizer_bytes(const Config *c) {
  Model *m;
  size_t n = 0;
  if (model_layout(&m, NULL, c) != GRPO_OK) return 0;
  n = (size_t)model_count(m);
  model_destroy(m);
  return 2 * block_bytes(n * sizeof(real));
}
