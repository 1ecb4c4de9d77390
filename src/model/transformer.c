/* transformer.c - the forward pass, as a list of operations.  Backward is the tape's affair.
 *
 * Both families are the same block: x += attention(norm(x)), x += mlp(norm(x)).  Training and
 * decoding run this one code; they differ in where keys and values are (Rows in impl.h).
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "grad/recompute.h"
#include "model/impl.h"

/* ---- rotary positions ------------------------------------------------------------- */

/* Llama 3: long wavelengths are slowed by `factor`, short ones kept, those between interpolated. */
static double llama3_frequency(const Config *c, double f) {
  const double wavelength = 2 * M_PI / f, len = c->rope_original_max_position_embeddings;
  const double low = c->rope_low_freq_factor, high = c->rope_high_freq_factor;
  if (wavelength < len / high) return f;
  if (wavelength > len / low) return f / c->rope_factor;
  const double s = (len / wavelength - low) / (high - low);
  return (1 - s) * f / c->rope_factor + s * f;
}

void rope_frequencies(const Config *c, double *inv_freq) {
  for (int i = 0; i < c->head_dim / 2; i++) {
    const double f = pow(c->rope_theta, -2.0 * i / c->head_dim);
    inv_freq[i] = c->rope_scaling == ROPE_LINEAR   ? f / c->rope_factor
                  : c->rope_scaling == ROPE_LLAMA3 ? llama3_frequency(c, f)
                                                   : f;
  }
}

Status rope_table(const Config *c, real **out) {
  const size_t half = (size_t)c->head_dim / 2, n = (size_t)c->max_position_embeddings;
  double inv_freq[512]; /* head_dim is at most 1024 */
  real *cs = mem_alloc_aligned(n * half * 2 * sizeof *cs);
  if (!cs) return fail(GRPO_ENOMEM, "model: table of %zu rotary positions", n);
  rope_frequencies(c, inv_freq);
  for (size_t pos = 0; pos < n; pos++)
    for (size_t i = 0; i < half; i++) {
      cs[(pos * half + i) * 2] = (real)cos((double)pos * inv_freq[i]);
      cs[(pos * half + i) * 2 + 1] = (real)sin((double)pos * inv_freq[i]);
    }
  *out = cs;
  return GRPO_OK;
}

/* ---- one layer ----------------------------------------------------------------------- */

/* A forward in progress; attributes outlive it in the tape's arena. */
typedef struct Pass {
  Model *m;
  Tape *t;
  const Rows *rows;
  EmbeddingAttr embedding;
  RopeAttr rope_q, rope_k;
  AttentionAttr attention;
  const Lora *lora; /* NULL: none */
} Pass;

AttnShape model_attention(const Config *c) {
  return (AttnShape){.heads = c->num_attention_heads,
                     .kv_heads = c->num_key_value_heads,
                     .head_dim = c->head_dim,
                     .scale = (real)(1 / sqrt((double)c->head_dim))};
}

/* Attributes of an adapter's operation on the rows of this pass. */
static Status lora_attr(Tape *t, const Lora *l, const LoraModule *mod, const RngKey *key, Attr *a) {
  a->f[0] = mod->scale;
  if (!key || l->dropout == 0) return GRPO_OK;
  LoraDropout *d = arena_alloc(&t->arena, sizeof *d);
  if (!d) return fail(GRPO_ENOMEM, "adapter");
  *d = (LoraDropout){l->dropout, *key};
  d->key.stream = RNG_DROPOUT;
  d->key.sample = key->sample << 20 | mod->id;
  a->p = d;
  return GRPO_OK;
}

/* The projection in `slot`; its bias is in the next slot. */
static Status linear(Pass *p, const Layer *l, LayerSlot slot, Tensor *x, Tensor **y) {
  const LoraModule *mod = p->lora ? p->lora->at[(l - p->m->layer) * L_COUNT + slot] : NULL;
  if (mod) {
    Tensor *lora_in[] = {x, l->t[slot], l->t[slot + 1], &mod->a->t, &mod->b->t};
    Attr lora = {.i = {p->m->config.family == FAMILY_GPT2}};
    try(lora_attr(p->t, p->lora, mod, p->rows->dropout, &lora));
    return tape_apply(p->t, OP_lora_linear, lora_in, &lora, y);
  }
  Tensor *in[] = {x, l->t[slot], l->t[slot + 1]};
  const Attr a = {.i = {p->m->config.family == FAMILY_GPT2}};
  return tape_apply(p->t, OP_linear, in, &a, y);
}

static Status norm(Pass *p, Tensor *x, Tensor *w, Tensor *b, Tensor **y) {
  Tensor *in[] = {x, w, b};
  const Attr a = {.f = {p->m->config.norm_eps}};
  return tape_apply(p->t, b ? OP_layernorm : OP_rmsnorm, in, &a, y);
}

static Status narrow(Pass *p, Tensor *x, int from, int n, Tensor **y) {
  Tensor *in[] = {x};
  const Attr a = {.i = {1, from, n}};
  return tape_apply(p->t, OP_narrow, in, &a, y);
}

static Status rope(Pass *p, Tensor *x, const RopeAttr *r, Tensor **y) {
  Tensor *in[] = {x};
  const Attr a = {.p = r};
  return tape_apply(p->t, OP_rope, in, &a, y);
}

static Status add(Pass *p, Tensor *x, Tensor *branch, Tensor **y) {
  Tensor *in[] = {x, branch};
  return tape_apply(p->t, OP_add, in, NULL, y);
}

static Status qkv_gpt2(Pass *p, const Layer *l, Tensor *h, Tensor *qkv[3]) {
  const int c = p->m->config.hidden_size;
  Tensor *all;
  try(linear(p, l, L_QKV_W, h, &all));
  for (int i = 0; i < 3; i++) try(narrow(p, all, i * c, c, &qkv[i]));
  return GRPO_OK;
}

static Status qkv_llama(Pass *p, const Layer *l, Tensor *h, Tensor *qkv[3]) {
  Tensor *q, *k;
  try(linear(p, l, L_Q_W, h, &q));
  try(linear(p, l, L_K_W, h, &k));
  try(linear(p, l, L_V_W, h, &qkv[2]));
  try(rope(p, q, &p->rope_q, &qkv[0]));
  return rope(p, k, &p->rope_k, &qkv[1]);
}

/* Decoding: the rows' keys and values join the cache before the queries look at it. */
static void store_keys(const Pass *p, Tensor *const qkv[3]) {
  const Rows *r = p->rows;
  const AttnShape *s = &p->attention.shape;
  const int ld = s->kv_heads * s->head_dim;
  for (int i = 0; i < r->nspans; i++) {
    const AttnSpan *a = &r->spans[i];
    const size_t at = (size_t)a->row * (size_t)ld;
    kv_store(s, a->own, a->own_at, a->n, qkv[1]->data + at, ld, qkv[2]->data + at, ld);
  }
}

static Status attention(Pass *p, const Layer *l, Tensor *x, Tensor **y) {
  Tensor *h, *qkv[3], *o;
  const Attr a = {.p = &p->attention};
  try(norm(p, x, l->t[L_NORM1_W], l->t[L_NORM1_B], &h));
  if (p->m->config.family == FAMILY_GPT2)
    try(qkv_gpt2(p, l, h, qkv));
  else
    try(qkv_llama(p, l, h, qkv));
  if (!p->rows->pack) store_keys(p, qkv);
  try(tape_apply(p->t, OP_attention, qkv, &a, &o));
  return linear(p, l, L_O_W, o, y);
}

static Status mlp(Pass *p, const Layer *l, Tensor *x, Tensor **y) {
  Tensor *h, *up, *act, *gate;
  try(norm(p, x, l->t[L_NORM2_W], l->t[L_NORM2_B], &h));
  if (p->m->config.family == FAMILY_GPT2) {
    try(linear(p, l, L_UP_W, h, &up));
    try(tape_apply(p->t, OP_gelu, &up, NULL, &act));
  } else {
    try(linear(p, l, L_GATE_W, h, &gate));
    try(linear(p, l, L_UP_W, h, &up));
    Tensor *in[] = {gate, up};
    try(tape_apply(p->t, OP_swiglu, in, NULL, &act));
  }
  return linear(p, l, L_DOWN_W, act, y);
}

static Status block(Pass *p, const Layer *l, Tensor *x, Tensor **out) {
  Tensor *branch, *mid;
  try(attention(p, l, x, &branch));
  try(add(p, x, branch, &mid));
  try(mlp(p, l, mid, &branch));
  return add(p, mid, branch, out);
}

/* ---- all layers -------------------------------------------------------------------------- */

static Status begin_pass(Model *m, Tape *t, const Rows *r, Pass **out) {
  const Config *c = &m->config;
  Pass *p = arena_alloc(&t->arena, sizeof *p);
  if (!p) return fail(GRPO_ENOMEM, "forward");
  try(model_pack(m, &t->cx));
  const RopeAttr rope_attr = {.head_dim = c->head_dim,
                              .positions = c->max_position_embeddings,
                              .pos = r->pos,
                              .cs = m->rope};
  *p = (Pass){.m = m,
              .t = t,
              .rows = r,
              .lora = lora_active(m),
              .embedding = {r->n, r->ids, r->pos},
              .rope_q = rope_attr,
              .rope_k = rope_attr,
              .attention = {.shape = model_attention(c),
                            .npack = r->npack,
                            .pack = r->pack,
                            .nspans = r->nspans,
                            .spans = r->spans}};
  p->rope_q.heads = c->num_attention_heads;
  p->rope_k.heads = c->num_key_value_heads;
  *out = p;
  return GRPO_OK;
}

static void next_layer(const Rows *r) {
  for (int i = 0; i < r->nspans; i++) {
    if (r->spans[i].prefix) r->spans[i].prefix++;
    r->spans[i].own++;
  }
}

typedef struct LayerPass {
  Pass *pass;
  int layer;
} LayerPass;

static Status run_layer(void *user, Tape *t, Tensor *x, Tensor **y) {
  const LayerPass *lp = user;
  (void)t;
  return block(lp->pass, &lp->pass->m->layer[lp->layer], x, y);
}

/* Gradient checkpointing: a layer keeps its input only. */
static Status checkpointed_layer(Pass *p, int layer, Tensor *x, Tensor **y) {
  LayerPass *lp = arena_alloc(&p->t->arena, sizeof *lp);
  if (!lp) return fail(GRPO_ENOMEM, "forward");
  *lp = (LayerPass){p, layer};
  return tape_recompute(p->t, run_layer, lp, x, y);
}

/* Without gradients a layer's intermediate results are dropped at once: its output moves into the
 * place of its input. */
Status forward_layers(Model *m, Tape *t, const Rows *r, Tensor **out) {
  const bool keep = (m->trainable || (m->shared && m->shared->trainable)) && !t->off;
  Pass *p = NULL;
  Tensor *x, *y;
  try(begin_pass(m, t, r, &p));
  Tensor *in[] = {m->t[M_EMBED], m->t[M_POSITION]};
  const Attr a = {.p = &p->embedding};
  try(tape_apply(t, OP_embedding, in, &a, &x));
  for (int i = 0; i < m->config.num_hidden_layers; i++) {
    const ArenaMark mark = arena_mark(&t->arena);
    if (keep && m->checkpointing)
      try(checkpointed_layer(p, i, x, &y));
    else
      try(block(p, &m->layer[i], x, &y));
    if (keep) {
      x = y;
    } else {
      memcpy(x->data, y->data, x->n * sizeof *x->data);
      arena_release(&t->arena, mark);
    }
    next_layer(r);
  }
  *out = x;
  return GRPO_OK;
}

Status forward_final_norm(Model *m, Tape *t, Tensor *x, Tensor **out) {
  Pass p = {.m = m, .t = t};
  return norm(&p, x, m->t[M_NORM_W], m->t[M_NORM_B], out);
}

/* ---- what training calls -------------------------------------------------------------------- */

Status model_hidden(Model *m, Tape *t, const Pack *p, Tensor **hidden) {
  Rows *r = arena_alloc(&t->arena, sizeof *r); /* a layer may run again in backward */
  if (!r) return fail(GRPO_ENOMEM, "forward");
  *r = (Rows){.n = p->nrows,
              .ids = p->ids,
              .pos = p->pos,
              .npack = p->nspans,
              .pack = p->spans,
              .dropout = p->dropout};
  Tensor *x;
  try(forward_layers(m, t, r, &x));
  return forward_final_norm(m, t, x, hidden);
}

Status model_logp(Model *m, Tape *t, const Pack *p, Tensor *hidden, double temperature, Model *ref,
                  const real *ref_hidden, Tensor **out) {
  if (!(temperature > 0)) return fail(GRPO_EARG, "model: temperature %g must be > 0", temperature);
  if (ref && ref->config.vocab_size != m->config.vocab_size)
    return fail(GRPO_ESHAPE, "model: the reference has a vocabulary of %d, the policy of %d",
                ref->config.vocab_size, m->config.vocab_size);
  LogheadAttr *a = arena_alloc(&t->arena, sizeof *a);
  if (!a) return fail(GRPO_ENOMEM, "model: head");
  try(model_pack(m, &t->cx));
  *a = (LogheadAttr){.n = p->nout,
                     .rows = p->out_rows,
                     .targets = p->targets,
                     .inv_temp = (real)(1 / temperature)};
  if (ref) {
    try(model_pack(ref, &t->cx));
    a->ref_hidden = ref_hidden;
    a->ref_packed = ref->t[M_HEAD]->packed;
    a->ref_mat = ref->t[M_HEAD]->mat;
    a->ref_c = ref->config.hidden_size;
  }
  Tensor *in[] = {hidden, m->t[M_HEAD]};
  const Attr attr = {.p = a};
  return tape_apply(t, OP_loghead, in, &attr, out);
}

Status model_out_hidden(Tape *t, const Pack *p, const Tensor *hidden, real **out) {
  const size_t c = (size_t)hidden->dim[1];
  real *y = arena_alloc(&t->arena, (size_t)p->nout * c * sizeof *y);
  if (!y) return fail(GRPO_ENOMEM, "model: %d rows of the reference", p->nout);
  for (int i = 0; i < p->nout; i++)
    memcpy(y + (size_t)i * c, hidden->data + (size_t)p->out_rows[i] * c, c * sizeof *y);
  *out = y;
  return GRPO_OK;
}

Status model_logits(Model *m, Tape *t, const Pack *p, Tensor **logits) {
  Tensor *hidden;
  try(model_hidden(m, t, p, &hidden));
  Tensor *in[] = {hidden, m->t[M_HEAD], NULL};
  return tape_apply(t, OP_linear, in, NULL, logits);
}
