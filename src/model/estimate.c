/* estimate.c - how much memory a model, a step and an optimizer take, from shapes alone. */
#include "base/mem.h"
#include "model/impl.h"
#include "model/optimizer.h"

/* Tensor headers, nodes and the arena's rounding, for one operation. */
enum { PER_OP = 448, OPS_GPT2 = 14, OPS_LLAMA = 15, SLACK = 64 << 10 };

static size_t max_size(size_t a, size_t b) { return a > b ? a : b; }

static size_t heads_width(const Config *c) {
  return (size_t)c->num_attention_heads * (size_t)c->head_dim;
}
static size_t kv_width(const Config *c) {
  return (size_t)c->num_key_value_heads * (size_t)c->head_dim;
}

/* Reals that a row's intermediate results in one layer take: the outputs of block()'s operations. */
static size_t row_reals(const Config *c) {
  const size_t h = (size_t)c->hidden_size, f = (size_t)c->intermediate_size;
  if (c->family == FAMILY_GPT2) return 12 * h + 2 * f;
  return 6 * h + 3 * heads_width(c) + 3 * kv_width(c) + 3 * f;
}

static size_t layer_ops(const Config *c) { return c->family == FAMILY_GPT2 ? OPS_GPT2 : OPS_LLAMA; }

/* What operations of a layer keep for backward: norms' statistics, and attention's log-sum-exps,
 * keys and values, each span rounded up to whole blocks (half a block on average). */
static size_t saved_reals(const Config *c, size_t rows, size_t spans) {
  const size_t norms = (c->family == FAMILY_GPT2 ? 4 : 2) * rows;
  const size_t keys = rows + spans * KV_BLOCK / 2;
  return norms + rows * (size_t)c->num_attention_heads + 2 * keys * kv_width(c);
}

size_t model_forward_bytes(const Config *c, int nrows, int nspans) {
  const size_t rows = (size_t)nrows, h = (size_t)c->hidden_size;
  const size_t saved = saved_reals(c, rows, (size_t)nspans);
  return (rows * (row_reals(c) + 4 * h) + saved) * sizeof(real) + (layer_ops(c) + 8) * PER_OP +
         SLACK;
}

/* The head works in chunks of this many rows (op_loghead.c). */
static size_t head_rows(const Config *c) {
  const size_t rows = ((size_t)16 << 20) / ((size_t)c->vocab_size * sizeof(real));
  return rows < 32 ? 32 : rows > 256 ? 256 : rows;
}

size_t model_step_bytes(const Config *c, int nrows, int nout, int nspans, bool train) {
  const size_t rows = (size_t)nrows, out = (size_t)nout, h = (size_t)c->hidden_size;
  const size_t layers = (size_t)c->num_hidden_layers;
  const size_t head = head_rows(c) * ((size_t)c->vocab_size + 2 * h);
  const size_t pack = (2 * rows + 2 * out) * sizeof(int32_t) + (size_t)nspans * sizeof(PackSpan);
  if (!train) return model_forward_bytes(c, nrows, nspans) + (head + 4 * out) * sizeof(real) + pack;
  const size_t results = layers * rows * row_reals(c) + 2 * rows * h + 2 * out;
  const size_t saved = layers * saved_reals(c, rows, (size_t)nspans) + 2 * rows + 2 * out;
  return (results + saved + max_size(results, head + rows * h)) * sizeof(real) + pack +
         (layers * layer_ops(c) + 8) * PER_OP + SLACK;
}

size_t model_weight_bytes(const Config *c, bool train) {
  Model *m;
  size_t n = 0;
  if (model_layout(&m, NULL, c) != GRPO_OK) return 0;
  for (int i = 0; i < m->nparams; i++) n += (m->param[i].t.n + 15) / 16 * 16;
  n = n * (train ? 2 : 1) + model_panel_reals(m);
  if (c->family == FAMILY_LLAMA) n += (size_t)c->max_position_embeddings * (size_t)c->head_dim;
  model_destroy(m);
  return n * sizeof(real);
}

size_t optimizer_bytes(const Config *c) {
  Model *m;
  size_t n = 0;
  if (model_layout(&m, NULL, c) != GRPO_OK) return 0;
  n = (size_t)model_count(m);
  model_destroy(m);
  return 2 * n * sizeof(real);
}
