/* forward.c - the forward pass, as a list of operations.  The tape runs it backward.
 *
 * All families are the same block: x += mixer(norm(x)), x += mlp(norm(x)).  The layer's kind says
 * what the mixer is.  Other differences between families are seen from the parameters that exist
 * (slots) and from Config.  Training and decoding run the same code; they differ in where keys and
 * values are (Rows in forward.h).
 */
#include "model/forward.h"

#include <math.h>

#include "base/mem.h"
#include "grad/recompute.h"
#include "kern/elementwise.h"
#include "model/forward_mlp.h"
#include "model/forward_state.h"
#include "model/layer_kind.h"
#include "model/lora.h"
#include "model/model_struct.h"
#include "model/panels.h"
#include "model/store_keys.h"

/* ---- one layer ----------------------------------------------------------------------- */

/* Attributes of a layer's attention, in the tape's arena. */
typedef struct Heads {
  RopeAttr rope_q, rope_k, rope_packed;
  AttentionAttr attention;
  LatentAttr latent;
} Heads;

static Status rope(Pass *p, Tensor *x, const RopeAttr *r, Tensor **y) {
  Tensor *in[] = {x};
  const Attr a = {.p = r};
  return tape_apply_over(p->t, OP_rope, in, &a, 0, y); /* a product or a norm made x */
}

/* y = x + branch; a product or a norm made the branch. */
static Status add(Pass *p, Tensor *x, Tensor *branch, Tensor **y) {
  Tensor *in[] = {x, branch};
  if (!p->in_place) return tape_apply_over(p->t, OP_add, in, NULL, 1, y);
  vec_acc(&p->t->cx, x->n, branch->data, x->data);
  *y = x;
  return GRPO_OK;
}

static Heads heads_of(const Pass *p, int layer) {
  const Model *m = p->m;
  const Rows *r = p->rows;
  const Config *c = &m->config;
  const bool windowed = config_window(c, layer) > 0;
  const AttnShape shape = layer_attention_shape(c, layer, m->compute, p->t->cx.cpu);
  const RopeAttr rope_attr = {.head_dim = shape.head_dim,
                              .rotary = config_rotary_dim(c, windowed),
                              .positions = rope_rows(c, rope_positions(m->rope)),
                              .pos = p->rope_rows,
                              .pairs = (config_traits(c) & TRAIT_PAIRS) != 0,
                              .cs = rope_table(m->rope, windowed ? ROPE_LOCAL : ROPE_FULL)};
  Heads k = {.rope_q = rope_attr,
             .rope_k = rope_attr,
             .rope_packed = rope_attr,
             .attention = {.shape = shape,
                           .npack = r->npack,
                           .pack = r->pack,
                           .nspans = r->nspans,
                           .spans = r->spans,
                           .keep_lse = r->replay != NULL},
             .latent = {.shape = layer_latent_shape(c),
                        .positions = rope_attr.positions,
                        .pos = rope_attr.pos,
                        .cs = rope_attr.cs}};
  if (!config_layer_rotates(c, layer)) k.rope_q.cs = k.rope_k.cs = k.rope_packed.cs = NULL;
  if (c->rope_query_beta != 0) k.rope_q.cs = rope_table(m->rope, ROPE_QUERY);
  k.rope_q.heads = shape.heads;
  k.rope_k.heads = shape.kv_heads;
  k.rope_packed.heads = shape.heads + shape.kv_heads;
  k.rope_packed.rest = shape.kv_heads * shape.head_dim;
  k.attention.shape.bidirectional = r->bidirectional;
  return k;
}

static Status new_heads(Pass *p, int layer, const Heads **out) {
  Heads *k = arena_alloc(&p->t->arena, sizeof *k);
  if (!k) return fail(GRPO_ENOMEM, "model: no memory for a forward pass");
  *k = heads_of(p, layer);
  *out = k;
  return GRPO_OK;
}

/* Columns of n parts head by head, such as q, k, v, become all q, all k, all v. */
static Status unpack_heads(Pass *p, const AttnShape *s, int n, Tensor *x, Tensor **y) {
  const int rows = x->dim[0], columns = x->dim[1];
  const Attr apart = {.i = {4, rows, s->heads, n, s->head_dim}}, swap = {.i = {1, 2}};
  const Attr flat = {.i = {2, rows, columns}};
  try(tape_apply(p->t, OP_reshape, (Tensor *[]){x}, &apart, y));
  try(tape_apply(p->t, OP_transpose, (Tensor *[]){*y}, &swap, y));
  return tape_apply(p->t, OP_reshape, (Tensor *[]){*y}, &flat, y);
}

static Status packed_qkv(Pass *p, const Layer *l, const Heads *k, Tensor *h, Tensor **qkv) {
  try(pass_linear(p, l, L_QKV_W, h, qkv));
  if (config_traits(&p->m->config) & TRAIT_PACKED_BY_HEAD)
    try(unpack_heads(p, &k->attention.shape, 3, *qkv, qkv));
  return k->rope_packed.cs ? rope(p, *qkv, &k->rope_packed, qkv) : GRPO_OK;
}

/* A head's norm and its rotation, in the family's order. */
static Status turn_heads(Pass *p, Tensor *w, const RopeAttr *r, Tensor **x) {
  const Traits traits = config_traits(&p->m->config);
  if (traits & TRAIT_BARE_NORMS) try(pass_ones(p, r->head_dim, &w));
  if (w && !(traits & TRAIT_QK_NORM_LAST)) try(pass_norm(p, *x, w, NULL, x));
  if (r->cs) try(rope(p, *x, r, x));
  return w && traits & TRAIT_QK_NORM_LAST ? pass_norm(p, *x, w, NULL, x) : GRPO_OK;
}

/* Queries, and the gate of attention's result where q_proj makes one. */
static Status make_queries(Pass *p, const Layer *l, const AttnShape *s, Tensor *h, Tensor **q,
                           Tensor **gate) {
  const int width = s->heads * s->head_dim;
  *gate = NULL;
  try(pass_linear(p, l, L_Q_W, h, q));
  if (!(config_traits(&p->m->config) & TRAIT_OUTPUT_GATE)) return GRPO_OK;
  try(unpack_heads(p, s, 2, *q, q));
  try(pass_slice(p, *q, width, width, gate));
  return pass_slice(p, *q, 0, width, q);
}

/* Keys and values of a layer that has its own: kv[0] and kv[1]. */
static Status make_keys(Pass *p, const Layer *l, const Heads *k, Tensor *h, Tensor *kv[2]) {
  Tensor *w;
  try(pass_linear(p, l, L_K_W, h, &kv[0]));
  kv[1] = kv[0];
  if (l->t[L_V_W]) try(pass_linear(p, l, L_V_W, h, &kv[1]));
  if (config_traits(&p->m->config) & TRAIT_VALUE_NORM) {
    try(pass_ones(p, k->attention.shape.head_dim, &w));
    try(pass_norm(p, kv[1], w, NULL, &kv[1]));
  }
  return turn_heads(p, l->t[L_KNORM_W], &k->rope_k, &kv[0]);
}

/* Queries, keys and values: one tensor where one weight makes them (then qkv[1] is NULL), or
 * three. */
static Status make_qkv(Pass *p, int layer, const Heads *k, Tensor *h, Tensor *qkv[3],
                       Tensor **gate) {
  const Layer *l = &p->m->layer[layer];
  Tensor *const *shared = p->kv[config_window(&p->m->config, layer) > 0];
  qkv[1] = qkv[2] = *gate = NULL;
  if (l->t[L_QKV_W]) return packed_qkv(p, l, k, h, &qkv[0]);
  try(make_queries(p, l, &k->attention.shape, h, &qkv[0], gate));
  if (l->t[L_K_W])
    try(make_keys(p, l, k, h, &qkv[1]));
  else
    qkv[1] = shared[0], qkv[2] = shared[1];
  return turn_heads(p, l->t[L_QNORM_W], &k->rope_q, &qkv[0]);
}

/* The norm of the compressed states has its own eps, like that of transformers' DeepseekV2. */
static Status latent_norm(Pass *p, Tensor *x, Tensor *w, Tensor **y) {
  static const Attr a = {.f = {1e-6}};
  return tape_apply(p->t, OP_rmsnorm, (Tensor *[]){x, w}, &a, y);
}

/* Latent attention: queries in the latent space, and keys, which are the values too. */
static Status make_latent(Pass *p, const Layer *l, const Heads *k, Tensor *h, Tensor *qk[2]) {
  const Attr a = {.p = &k->latent};
  Tensor *q = h, *both, *latent;
  if (l->t[L_Q_A_W]) {
    try(pass_linear(p, l, L_Q_A_W, h, &q));
    try(latent_norm(p, q, l->t[L_QNORM_W], &q));
  }
  try(pass_linear(p, l, L_Q_W, q, &q));
  try(tape_apply(p->t, OP_latent_query, (Tensor *[]){q, l->t[L_KV_B_W]}, &a, &qk[0]));
  try(pass_linear(p, l, L_KV_A_W, h, &both));
  try(pass_slice(p, both, 0, k->latent.shape.rank, &latent));
  try(latent_norm(p, latent, l->t[L_KNORM_W], &latent));
  return tape_apply(p->t, OP_latent_key, (Tensor *[]){latent, both}, &a, &qk[1]);
}

static Status latent_attention(Pass *p, int layer, Tensor *h, Tensor **o) {
  const Layer *l = &p->m->layer[layer];
  const Heads *k;
  Tensor *qk[3] = {NULL};
  try(new_heads(p, layer, &k));
  const Attr a = {.p = &k->attention}, latent = {.p = &k->latent};
  try(make_latent(p, l, k, h, qk));
  if (!p->rows->pack)
    store_keys(p->t->cx.pool, p->rows->nspans, p->rows->spans, &k->attention.shape, qk);
  try(tape_apply(p->t, OP_attention_latent, qk, &a, o));
  return tape_apply(p->t, OP_latent_value, (Tensor *[]){*o, l->t[L_KV_B_W]}, &latent, o);
}

/* Keys and values that later layers read stay: where nothing is kept for backward, as copies. */
static Status share_keys(Pass *p, int layer, Tensor *const qkv[3]) {
  Tensor **kept = p->kv[config_window(&p->m->config, layer) > 0];
  if (!config_is_shared(&p->m->config, layer)) return GRPO_OK;
  for (int i = 0; i < 2; i++) {
    if (p->in_place)
      vec_copy(&p->t->cx, qkv[i + 1]->n, qkv[i + 1]->data, kept[i]->data);
    else
      kept[i] = qkv[i + 1];
  }
  return GRPO_OK;
}

/* o's heads times numbers from 0 to 1, which the layer's input makes. */
static Status gate_heads(Pass *p, const Layer *l, const AttnShape *s, Tensor *h, Tensor **o) {
  const int rows = h->dim[0];
  const Attr apart = {.i = {3, rows, s->heads, s->head_dim}}, each = {.i = {3, rows, s->heads, 1}};
  const Attr flat = {.i = {2, rows, s->heads * s->head_dim}};
  Tensor *gate;
  try(pass_linear(p, l, L_Z_W, h, &gate));
  try(tape_apply(p->t, OP_sigmoid, &gate, NULL, &gate));
  try(tape_apply(p->t, OP_reshape, &gate, &each, &gate));
  try(tape_apply(p->t, OP_reshape, o, &apart, o));
  try(tape_apply(p->t, OP_mul, (Tensor *[]){*o, gate}, NULL, o));
  return tape_apply(p->t, OP_reshape, o, &flat, o);
}

/* In decoding, segments of the layer that is `by` layers further. */
static void move_layers(const Rows *r, int by) {
  for (int i = 0; i < r->nspans; i++) {
    if (r->spans[i].prefix) r->spans[i].prefix += by;
    r->spans[i].own += by;
  }
}

static Status attention(Pass *p, int layer, Tensor *h, Tensor **o) {
  const int back = config_keys_layer(&p->m->config, layer) - layer;
  const Heads *k;
  Tensor *qkv[4], *gate;
  try(new_heads(p, layer, &k));
  const Attr a = {.p = &k->attention};
  try(make_qkv(p, layer, k, h, qkv, &gate));
  if (!p->rows->pack && !back)
    store_keys(p->t->cx.pool, p->rows->nspans, p->rows->spans, &k->attention.shape, qkv);
  try(share_keys(p, layer, qkv));
  qkv[3] = p->m->layer[layer].t[L_SINKS];
  const OpId op = qkv[3] ? OP_attention_sinks : qkv[1] ? OP_attention : OP_attention_packed;
  move_layers(p->rows, back);
  try(tape_apply(p->t, op, qkv, &a, o));
  move_layers(p->rows, -back);
  if (p->m->layer[layer].t[L_Z_W])
    return gate_heads(p, &p->m->layer[layer], &k->attention.shape, h, o);
  if (!gate) return GRPO_OK;
  try(tape_apply(p->t, OP_sigmoid, &gate, NULL, &gate));
  return tape_apply(p->t, OP_mul, (Tensor *[]){*o, gate}, NULL, o);
}

/* Each row of the result is made of the rows of h up to it, as the layer's kind has it. */
static Status mix(Pass *p, int layer, Tensor *h, Tensor **o) {
  switch (config_layer_kind(&p->m->config, layer)) {
  case LAYER_FULL:
  case LAYER_WINDOWED:
  case LAYER_UNROTATED:
  case LAYER_SHARING:
  case LAYER_SHARING_WINDOW:
    return attention(p, layer, h, o);
  case LAYER_LATENT:
    return latent_attention(p, layer, h, o);
  case LAYER_DELTA:
    return pass_delta_net(p, layer, h, o);
  case LAYER_CONV:
    return pass_short_conv(p, layer, h, o);
  case LAYER_KINDS:
    break;
  }
  return fail(GRPO_EARG, "model: layer %d has no kind", layer);
}

/* Makes the input of a branch: x, normed where the layer has this norm. */
static Status normed(Pass *p, const Layer *l, LayerSlot slot, Tensor *x, Tensor **y) {
  Tensor *w = l->t[slot];
  *y = x;
  if (config_traits(&p->m->config) & TRAIT_BARE_NORMS)
    try(pass_ones(p, p->m->config.hidden_size, &w));
  return w ? pass_norm(p, x, w, l->t[slot + 1], y) : GRPO_OK;
}

static Status mixer(Pass *p, int layer, Tensor *h, Tensor **y) {
  const Layer *l = &p->m->layer[layer];
  Tensor *o;
  try(mix(p, layer, h, &o));
  try(pass_linear(p, l, L_O_W, o, y));
  if (l->t[L_POST1_W]) try(pass_norm(p, *y, l->t[L_POST1_W], NULL, y));
  return pass_scaled(p, *y, p->m->config.residual_scale, y);
}

/* x + attention + feed-forward, which both read x. */
static Status parallel_block(Pass *p, int layer, Tensor *x, Tensor **out) {
  const Layer *l = &p->m->layer[layer];
  Tensor *h, *h2, *branch[2];
  try(normed(p, l, L_NORM1_W, x, &h));
  h2 = h;
  if (l->t[L_NORM2_W]) try(normed(p, l, L_NORM2_W, x, &h2));
  try(mixer(p, layer, h, &branch[0]));
  try(pass_mlp(p, l, x, h2, &branch[1]));
  try(tape_apply_over(p->t, OP_add, branch, NULL, 0, &branch[0]));
  return add(p, x, branch[0], out);
}

/* x + pass_norm(W (gelu(G x) * the layer's own input)) */
static Status add_own_input(Pass *p, int layer, Tensor *x, Tensor **y) {
  const Layer *l = &p->m->layer[layer];
  const int width = p->m->config.per_layer_size;
  Tensor *in[2], *act, *branch;
  try(pass_linear(p, l, L_OWN_GATE_W, x, &in[0]));
  try(pass_slice(p, p->own, layer * width, width, &in[1]));
  try(pass_gated(p, in, &act));
  try(pass_linear(p, l, L_OWN_W, act, &branch));
  try(pass_norm(p, branch, l->t[L_POST3_W], NULL, &branch));
  return add(p, x, branch, y);
}

static Status block(Pass *p, int layer, Tensor *x, Tensor **out) {
  const Layer *l = &p->m->layer[layer];
  Tensor *h, *branch, *mid;
  if (config_traits(&p->m->config) & TRAIT_PARALLEL) return parallel_block(p, layer, x, out);
  try(normed(p, l, L_NORM1_W, x, &h));
  try(mixer(p, layer, h, &branch));
  try(add(p, x, branch, &mid));
  try(normed(p, l, L_NORM2_W, mid, &h));
  try(pass_mlp(p, l, mid, h, &branch));
  try(add(p, mid, branch, out));
  if (p->own) try(add_own_input(p, layer, *out, out));
  if (!l->t[L_SCALE]) return GRPO_OK;
  const Attr a = {.f = {mem_measuring() ? 1 : (double)l->t[L_SCALE]->data[0]}};
  return tape_apply_over(p->t, OP_scale, (Tensor *[]){*out}, &a, 0, out);
}

/* ---- all layers -------------------------------------------------------------------------- */

static int last_position(const Rows *r) {
  int last = 0;
  for (int i = 0; i < r->n; i++)
    if (r->pos[i] > last) last = r->pos[i];
  return last;
}

/* Only with longrope there are two rows for a position. */
static Status rotary_rows(const Config *c, Tape *t, const Rows *r, const int32_t **out) {
  *out = r->pos;
  if (c->rope_scaling != ROPE_LONG) return GRPO_OK;
  int32_t *rows = arena_alloc(&t->arena, (size_t)r->n * sizeof *rows);
  if (!rows) return fail(GRPO_ENOMEM, "model: no memory for %d rotary positions", r->n);
  for (int i = 0; i < r->n; i++) rows[i] = rope_row(c, r->pos[i], r->length ? r->length[i] : r->n);
  *out = rows;
  return GRPO_OK;
}

static Status begin_pass(Model *m, Tape *t, const Rows *r, Pass **out) {
  Pass *p = arena_alloc(&t->arena, sizeof *p);
  if (!p) return fail(GRPO_ENOMEM, "model: no memory for a forward pass");
  try(panels_renew(m, &t->cx));
  try(model_reserve_positions(m, last_position(r) + 1));
  *p = (Pass){.m = m,
              .t = t,
              .rows = r,
              .lora = lora_active(m),
              .embedding = {r->n, r->ids, r->pos, (real)m->config.embedding_scale,
                            config_first_position(&m->config)}};
  *out = p;
  return rotary_rows(&m->config, t, r, &p->rope_rows);
}

typedef struct LayerPass {
  Pass *pass;
  int layer;
} LayerPass;

static Status run_layer(void *user, Tape *t, Tensor *x, Tensor **y) {
  const LayerPass *lp = user;
  (void)t;
  return block(lp->pass, lp->layer, x, y);
}

/* Gradient checkpointing: a layer keeps only its input; one whose keys later layers read keeps
 * all. */
static Status checkpointed_layer(Pass *p, int layer, Tensor *x, Tensor **y) {
  Tensor *const *kv = p->kv[config_window(&p->m->config, layer) > 0];
  Tensor *const others[RECOMPUTE_OTHERS] = {p->own, kv[0], kv[1]};
  if (config_is_shared(&p->m->config, layer)) return block(p, layer, x, y);
  LayerPass *lp = arena_alloc(&p->t->arena, sizeof *lp);
  if (!lp) return fail(GRPO_ENOMEM, "model: no memory for a forward pass");
  *lp = (LayerPass){p, layer};
  return tape_recompute(p->t, run_layer, lp, x, others, y);
}

static Status adapted_embedding(Pass *p, const LoraModule *mod, Attr *a, Tensor **x) {
  Tensor *lora_in[] = {*x, &mod->a->t, &mod->b->t};
  a->f[0] = mod->scale * (p->embedding.scale > 0 ? (double)p->embedding.scale : 1);
  return tape_apply(p->t, OP_lora_embedding, lora_in, a, x);
}

static Status embed(Pass *p, Tensor **x) {
  Tensor *in[] = {p->m->t[M_EMBED], p->m->t[M_POSITION]};
  const LoraModule *mod = p->lora ? p->lora->embedding : NULL;
  Attr a = {.p = &p->embedding};
  try(tape_apply(p->t, OP_embedding, in, &a, x));
  if (mod) try(adapted_embedding(p, mod, &a, x));
  if (!(config_traits(&p->m->config) & TRAIT_BARE_NORMS)) return GRPO_OK;
  Tensor *w;
  try(pass_ones(p, p->m->config.hidden_size, &w));
  return pass_norm(p, *x, w, NULL, x);
}

/* The inputs of all layers: (pass_norm(W x / sqrt(hidden)) + sqrt(width) table[id]) / sqrt(2). */
static Status make_own_inputs(Pass *p, Tensor *x, Tensor **own) {
  const Config *c = &p->m->config;
  Tensor *const *w = p->m->t;
  const LoraModule *mod = p->lora ? p->lora->at[c->num_hidden_layers * L_COUNT + M_OWN_W] : NULL;
  EmbeddingAttr *table = arena_alloc(&p->t->arena, sizeof *table);
  if (!table) return fail(GRPO_ENOMEM, "model: no memory for a forward pass");
  *table = p->embedding;
  table->scale = (real)sqrt(c->per_layer_size);
  const Attr a = {.p = table};
  Tensor *in[2];
  try(pass_project(p, mod, w[M_OWN_W], NULL, 0, x, &in[0]));
  try(pass_scaled(p, in[0], 1 / sqrt(c->hidden_size), &in[0]));
  try(pass_norm(p, in[0], w[M_OWN_NORM_W], NULL, &in[0]));
  try(tape_apply(p->t, OP_embedding, (Tensor *[]){w[M_OWN_EMBED], NULL}, &a, &in[1]));
  try(tape_apply_over(p->t, OP_add, in, NULL, 1, own));
  return pass_scaled(p, *own, sqrt(0.5), own);
}

/* They are wide, so nothing but the sum stays where nothing else is needed. */
static Status embed_own(Pass *p, Tensor *x) {
  const Config *c = &p->m->config;
  const int dim[2] = {p->rows->n, c->num_hidden_layers * c->per_layer_size};
  Tensor *kept = NULL, *own;
  if (!p->m->t[M_OWN_EMBED]) return GRPO_OK;
  if (p->in_place || p->lora) try(tape_tensor(p->t, 2, dim, &kept));
  const ArenaMark mark = arena_mark(&p->t->arena);
  try(make_own_inputs(p, x, &own));
  p->own = own;
  if (!kept || own->needs_grad) return GRPO_OK;
  vec_copy(&p->t->cx, own->n, own->data, kept->data);
  arena_release(&p->t->arena, mark);
  p->own = kept;
  return GRPO_OK;
}

/* Room for the keys and values that later layers read. */
static Status room_for_shared(Pass *p) {
  const Config *c = &p->m->config;
  for (int i = 0; i < c->num_hidden_layers && p->in_place; i++) {
    const int dim[2] = {p->rows->n, config_kv_heads(c, i) * config_head_dim(c, i)};
    Tensor **kv = p->kv[config_window(c, i) > 0];
    if (!config_is_shared(c, i)) continue;
    for (int k = 0; k < 2; k++) try(tape_tensor(p->t, 2, dim, &kv[k]));
  }
  return GRPO_OK;
}

/* Without gradients the intermediate results of a layer are dropped at once; the residual stream is
 * updated in place. */
static Status run_layers(Model *m, Tape *t, const Rows *r, Tensor **out) {
  const bool keep = (m->trainable || (m->shared && m->shared->trainable)) && !t->off;
  Pass *p = NULL;
  Tensor *x, *y;
  try(begin_pass(m, t, r, &p));
  p->in_place = !keep;
  try(embed(p, &x));
  try(embed_own(p, x));
  try(room_for_shared(p));
  for (int i = 0; i < m->config.num_hidden_layers; i++) {
    const ArenaMark mark = arena_mark(&t->arena);
    if (keep && m->checkpointing)
      try(checkpointed_layer(p, i, x, &y));
    else
      try(block(p, i, x, &y));
    if (keep)
      x = y;
    else
      arena_release(&t->arena, mark);
    move_layers(r, 1);
  }
  *out = x;
  return GRPO_OK;
}

Status forward_layers(Model *m, Tape *t, const Rows *r, Tensor **out) {
  if (!r->replay) return run_layers(m, t, r, out);
  replay_begin(r->replay);
  t->replay = r->replay;
  const Status s = run_layers(m, t, r, out);
  t->replay = NULL;
  return s == GRPO_OK ? replay_end(r->replay) : s;
}

Status forward_final_norm(Model *m, Tape *t, Tensor *x, Tensor **out) {
  Pass p = {.m = m, .t = t};
  Tensor *w = m->t[M_NORM_W];
  if (!w) try(pass_ones(&p, m->config.hidden_size, &w));
  try(pass_norm(&p, x, w, m->t[M_NORM_B], out));
  return pass_scaled(&p, *out, config_logit_scale(&m->config),
                     out); /* the logits are linear in it */
}

/* ---- the forward pass of training ----------------------------------------------------------- */

Status forward_hidden(Model *m, Tape *t, const Pack *p, Tensor **hidden) {
  if (p->bidirectional && p->replay)
    return fail(GRPO_EARG,
                "model: activations of causal decoding cannot be reused in a bidirectional pass");
  Rows *r = arena_alloc(&t->arena,
                        sizeof *r); /* on the arena, because a layer may run again in backward */
  if (!r) return fail(GRPO_ENOMEM, "model: no memory for a forward pass");
  *r = (Rows){.n = p->nrows,
              .ids = p->ids,
              .pos = p->pos,
              .length = p->length,
              .npack = p->nspans,
              .pack = p->spans,
              .dropout = p->dropout,
              .replay = p->replay,
              .bidirectional = p->bidirectional,
              .balance = p->balance};
  Tensor *x;
  try(forward_layers(m, t, r, &x));
  return forward_final_norm(m, t, x, hidden);
}
