#include "model/layout.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "grad/attrs.h"
#include "model/config_fields.h"
#include "model/layer_kind.h"

/* The dimensions of parameters, by name. */
typedef enum Dim {
  NONE,
  VOCAB,
  LABELS,
  POSITIONS,
  HIDDEN,
  QKV,
  HEADS, /* queries, and what o_proj takes */
  KV,
  HEAD,
  FFN,
  GATE_UP,
  QUERIES, /* from here on those of latent attention */
  Q_RANK,
  KV_RANK,
  LATENT, /* the latent and the rotary key */
  KV_B,
  VALUES,
  QUERY_GATE, /* queries and the gate of the result */
  DELTA_QKV,  /* from here on those of gated DeltaNet */
  DELTA_HEADS,
  DELTA_HEAD,
  DELTA_VALUES,
  CONV_TAPS,
  CONV_IN, /* what is convolved, and two gates */
  EXPERTS,
  EXPERT_FFN,
  EXPERT_GATE_UP,
  SHARED_FFN,
  ALL_HEADS,
  DELTA_ALL, /* TRAIT_PACKED_DELTA's q, k, v and z, and b and a */
  DELTA_BA,
  PER_LAYER, /* a layer's own input */
  PER_LAYERS,
  ONE
} Dim;
/* EXPERT: the slot is an ExpertPart, and * in the name the number of an expert. */
enum {
  BIAS = 1,
  NORM = 2,
  IN_OUT = 4,
  BY_HEAD = 8,
  SAVED_F32 = 16,
  EXPERT = 32,
  ROUTER = 64,
  BUFFER = 128
};

enum { MAX_DIMS = 3 };

/* Kinds of layers, as bits; after the kinds of mixers those of feed-forward parts. */
enum {
  ANY = 0,
  SELF = 1 << LAYER_FULL | 1 << LAYER_WINDOWED | 1 << LAYER_UNROTATED,
  WINDOW = 1 << LAYER_WINDOWED,
  ATTENTION = SELF | 1 << LAYER_SHARING | 1 << LAYER_SHARING_WINDOW,
  LOW = 1 << LAYER_LATENT, /* attention by a latent of low rank */
  DELTA = 1 << LAYER_DELTA,
  CONV = 1 << LAYER_CONV,
  DENSE = 1 << LAYER_KINDS,
  MIXTURE = 2 << LAYER_KINDS,
  SHARED = 4 << LAYER_KINDS /* with an expert that every token takes */
};

/* A parameter.  Layers of these kinds have it, in models with all traits of `with` and none of
 * `without`. */
typedef struct ParamRow {
  int slot;
  const char *name; /* after the layer's prefix, for a layer's parameters */
  Dim dim[MAX_DIMS];
  int flags;
  unsigned kinds;
  Traits with, without;
} ParamRow;

/* Parameters of latent attention, the same in both layouts.  A norm's weight follows the weights
 * whose result it norms. */
/* clang-format off */
#define LATENT_ROWS(at)                                                                            \
    {L_Q_W, at "q_proj.weight", {QUERIES, HIDDEN}, 0, LOW, 0, TRAIT_LOW_QUERY},                    \
    {L_Q_A_W, at "q_a_proj.weight", {Q_RANK, HIDDEN}, 0, LOW, TRAIT_LOW_QUERY, 0},                 \
    {L_Q_A_B, at "q_a_proj.bias", {Q_RANK}, BIAS, LOW, TRAIT_LOW_QUERY | TRAIT_QKV_BIAS, 0},       \
    {L_QNORM_W, at "q_a_layernorm.weight", {Q_RANK}, NORM, LOW, TRAIT_LOW_QUERY, 0},               \
    {L_Q_W, at "q_b_proj.weight", {QUERIES, Q_RANK}, 0, LOW, TRAIT_LOW_QUERY, 0},                  \
    {L_KV_A_W, at "kv_a_proj_with_mqa.weight", {LATENT, HIDDEN}, 0, LOW, 0, 0},                    \
    {L_KV_A_B, at "kv_a_proj_with_mqa.bias", {LATENT}, BIAS, LOW, TRAIT_QKV_BIAS, 0},              \
    {L_KNORM_W, at "kv_a_layernorm.weight", {KV_RANK}, NORM, LOW, 0, 0},                           \
    {L_KV_B_W, at "kv_b_proj.weight", {KV_B, KV_RANK}, BY_HEAD, LOW, 0, 0}
#define OSS (TRAIT_STACKED | TRAIT_ALTERNATING)
#define EXPERT_ROW(slot, name, n, k, with, without)                                                \
    {slot, "mlp.experts.*." name, {n, k}, EXPERT, MIXTURE, with, without}
/* clang-format on */

static const ParamRow gpt2_begin[] = {
    {M_EMBED, "transformer.wte.weight", {VOCAB, HIDDEN}, 0, ANY, 0, 0},
    {M_POSITION, "transformer.wpe.weight", {POSITIONS, HIDDEN}, 0, ANY, 0, 0},
    {0},
};
static const ParamRow gpt2_layer[] = {
    {L_NORM1_W, "ln_1.weight", {HIDDEN}, NORM, ANY, 0, 0},
    {L_NORM1_B, "ln_1.bias", {HIDDEN}, NORM | BIAS, ANY, 0, 0},
    {L_QKV_W, "attn.c_attn.weight", {HIDDEN, QKV}, IN_OUT, SELF, 0, 0},
    {L_QKV_B, "attn.c_attn.bias", {QKV}, BIAS, SELF, 0, 0},
    LATENT_ROWS("attn."),
    {L_O_W, "attn.c_proj.weight", {HEADS, HIDDEN}, IN_OUT, SELF, 0, 0},
    {L_O_W, "attn.c_proj.weight", {VALUES, HIDDEN}, IN_OUT, LOW, 0, 0},
    {L_O_B, "attn.c_proj.bias", {HIDDEN}, BIAS, SELF | LOW, 0, 0},
    {L_NORM2_W, "ln_2.weight", {HIDDEN}, NORM, ANY, 0, 0},
    {L_NORM2_B, "ln_2.bias", {HIDDEN}, NORM | BIAS, ANY, 0, 0},
    {L_UP_W, "mlp.c_fc.weight", {HIDDEN, FFN}, IN_OUT, ANY, 0, 0},
    {L_UP_B, "mlp.c_fc.bias", {FFN}, BIAS, ANY, 0, 0},
    {L_DOWN_W, "mlp.c_proj.weight", {FFN, HIDDEN}, IN_OUT, ANY, 0, 0},
    {L_DOWN_B, "mlp.c_proj.bias", {HIDDEN}, BIAS, ANY, 0, 0},
    {0},
};
static const ParamRow gpt2_end[] = {
    {M_NORM_W, "transformer.ln_f.weight", {HIDDEN}, NORM, ANY, 0, 0},
    {M_NORM_B, "transformer.ln_f.bias", {HIDDEN}, NORM | BIAS, ANY, 0, 0},
    {M_HEAD, "lm_head.weight", {VOCAB, HIDDEN}, 0, ANY, TRAIT_UNTIED, 0},
    {M_SCORE, "score.weight", {LABELS, HIDDEN}, 0, ANY, TRAIT_SCORE, 0},
    {0},
};

/* Every other family; NAME rows of config.def say where one has other names. */
static const ParamRow llama_begin[] = {
    {M_EMBED, "model.embed_tokens.weight", {VOCAB, HIDDEN}, 0, ANY, 0, 0},
    {M_OWN_EMBED,
     "model.embed_tokens_per_layer.weight",
     {VOCAB, PER_LAYERS},
     0,
     ANY,
     TRAIT_PER_LAYER,
     0},
    {M_OWN_W,
     "model.per_layer_model_projection.weight",
     {PER_LAYERS, HIDDEN},
     0,
     ANY,
     TRAIT_PER_LAYER,
     0},
    {M_OWN_NORM_W,
     "model.per_layer_projection_norm.weight",
     {PER_LAYER},
     NORM,
     ANY,
     TRAIT_PER_LAYER,
     0},
    {M_POSITION, "model.embed_positions.weight", {POSITIONS, HIDDEN}, 0, ANY, TRAIT_LEARNED, 0},
    {0},
};
static const ParamRow llama_layer[] = {
    {L_QKV_W, "self_attn.qkv_proj.weight", {QKV, HIDDEN}, 0, SELF, TRAIT_PACKED, 0},
    {L_QKV_B, "self_attn.qkv_proj.bias", {QKV}, BIAS, SELF, TRAIT_PACKED | TRAIT_QKV_BIAS, 0},
    LATENT_ROWS("self_attn."),
    {L_QKV_W, "conv.in_proj.weight", {CONV_IN, HIDDEN}, 0, CONV, 0, 0},
    {L_CONV_W, "conv.conv.weight", {HIDDEN, ONE, CONV_TAPS}, 0, CONV, 0, 0},
    {L_O_W, "conv.out_proj.weight", {HIDDEN, HIDDEN}, 0, CONV, 0, 0},
    {L_QKV_W,
     "linear_attn.in_proj_qkvz.weight",
     {DELTA_ALL, HIDDEN},
     0,
     DELTA,
     TRAIT_PACKED_DELTA,
     0},
    {L_BETA_W,
     "linear_attn.in_proj_ba.weight",
     {DELTA_BA, HIDDEN},
     0,
     DELTA,
     TRAIT_PACKED_DELTA,
     0},
    {L_QKV_W,
     "linear_attn.in_proj_qkv.weight",
     {DELTA_QKV, HIDDEN},
     0,
     DELTA,
     0,
     TRAIT_PACKED_DELTA},
    {L_Z_W,
     "linear_attn.in_proj_z.weight",
     {DELTA_VALUES, HIDDEN},
     0,
     DELTA,
     0,
     TRAIT_PACKED_DELTA},
    {L_BETA_W,
     "linear_attn.in_proj_b.weight",
     {DELTA_HEADS, HIDDEN},
     0,
     DELTA,
     0,
     TRAIT_PACKED_DELTA},
    {L_DECAY_W,
     "linear_attn.in_proj_a.weight",
     {DELTA_HEADS, HIDDEN},
     0,
     DELTA,
     0,
     TRAIT_PACKED_DELTA},
    {L_CONV_W, "linear_attn.conv1d.weight", {DELTA_QKV, ONE, CONV_TAPS}, 0, DELTA, 0, 0},
    {L_A_LOG, "linear_attn.A_log", {DELTA_HEADS}, NORM | SAVED_F32, DELTA, 0, 0},
    {L_DT_BIAS, "linear_attn.dt_bias", {DELTA_HEADS}, BIAS, DELTA, 0, 0},
    {L_DELTA_NORM_W, "linear_attn.norm.weight", {DELTA_HEAD}, NORM | SAVED_F32, DELTA, 0, 0},
    {L_O_W, "linear_attn.out_proj.weight", {HIDDEN, DELTA_VALUES}, 0, DELTA, 0, 0},
    {L_Q_W,
     "self_attn.q_proj.weight",
     {HEADS, HIDDEN},
     0,
     ATTENTION,
     0,
     TRAIT_PACKED | TRAIT_OUTPUT_GATE},
    {L_Q_W, "self_attn.q_proj.weight", {QUERY_GATE, HIDDEN}, 0, ATTENTION, TRAIT_OUTPUT_GATE, 0},
    {L_Q_B, "self_attn.q_proj.bias", {HEADS}, BIAS, ATTENTION, TRAIT_QKV_BIAS, TRAIT_PACKED},
    {L_K_W, "self_attn.k_proj.weight", {KV, HIDDEN}, 0, SELF, 0, TRAIT_PACKED},
    {L_K_B, "self_attn.k_proj.bias", {KV}, BIAS, SELF, TRAIT_QKV_BIAS, TRAIT_PACKED},
    {L_V_W,
     "self_attn.v_proj.weight",
     {KV, HIDDEN},
     0,
     SELF,
     0,
     TRAIT_PACKED | TRAIT_KEYS_AS_VALUES},
    {L_V_B,
     "self_attn.v_proj.bias",
     {KV},
     BIAS,
     SELF,
     TRAIT_QKV_BIAS,
     TRAIT_PACKED | TRAIT_KEYS_AS_VALUES},
    {L_V_W, "self_attn.v_proj.weight", {KV, HIDDEN}, 0, WINDOW, TRAIT_KEYS_AS_VALUES, 0},
    {L_V_B, "self_attn.v_proj.bias", {KV}, BIAS, WINDOW, TRAIT_KEYS_AS_VALUES | TRAIT_QKV_BIAS, 0},
    {L_Z_W, "self_attn.head_gate.weight", {ALL_HEADS, HIDDEN}, 0, SELF, TRAIT_HEAD_GATE, 0},
    {L_O_W, "self_attn.o_proj.weight", {HIDDEN, HEADS}, 0, ATTENTION, 0, 0},
    {L_O_W, "self_attn.o_proj.weight", {HIDDEN, VALUES}, 0, LOW, 0, 0},
    {L_O_B, "self_attn.o_proj.bias", {HIDDEN}, BIAS, ATTENTION | LOW, TRAIT_O_BIAS, 0},
    {L_QNORM_W, "self_attn.q_norm.weight", {HEAD}, NORM, ATTENTION, TRAIT_QK_NORM, 0},
    {L_KNORM_W, "self_attn.k_norm.weight", {HEAD}, NORM, SELF, TRAIT_QK_NORM, 0},
    {L_QNORM_W, "self_attn.q_norm.weight", {HEADS}, NORM, SELF, TRAIT_WIDE_QK_NORM, 0},
    {L_KNORM_W, "self_attn.k_norm.weight", {KV}, NORM, SELF, TRAIT_WIDE_QK_NORM, 0},
    {L_ROUTER_W, "mlp.gate.weight", {EXPERTS, HIDDEN}, ROUTER, MIXTURE, 0, 0},
    {L_ROUTER_FIX,
     "mlp.gate.e_score_correction_bias",
     {EXPERTS},
     BIAS | SAVED_F32 | BUFFER,
     MIXTURE,
     TRAIT_ROUTER_BIAS,
     0},
    {L_ROUTER_SCALE, "router.scale", {HIDDEN}, NORM, MIXTURE, TRAIT_BESIDE, 0},
    {L_ROUTER_FACTOR, "router.per_expert_scale", {EXPERTS}, NORM, MIXTURE, TRAIT_BESIDE, 0},
    EXPERT_ROW(EXPERT_GATE, "gate_proj.weight", EXPERT_FFN, HIDDEN, 0, TRAIT_STACKED),
    EXPERT_ROW(EXPERT_UP, "up_proj.weight", EXPERT_FFN, HIDDEN, 0, TRAIT_STACKED),
    EXPERT_ROW(EXPERT_DOWN, "down_proj.weight", HIDDEN, EXPERT_FFN, 0, TRAIT_STACKED),
    EXPERT_ROW(EXPERT_GATE, "gate_up_proj", EXPERT_GATE_UP, HIDDEN, TRAIT_STACKED,
               TRAIT_ALTERNATING),
    EXPERT_ROW(EXPERT_DOWN, "down_proj", HIDDEN, EXPERT_FFN, TRAIT_STACKED, TRAIT_ALTERNATING),
    {EXPERT_GATE,
     "mlp.experts.*.gate_up_proj",
     {HIDDEN, EXPERT_GATE_UP},
     EXPERT | IN_OUT,
     MIXTURE,
     OSS,
     0},
    {EXPERT_GATE_B,
     "mlp.experts.*.gate_up_proj_bias",
     {EXPERT_GATE_UP},
     EXPERT | BIAS,
     MIXTURE,
     OSS,
     0},
    {EXPERT_DOWN,
     "mlp.experts.*.down_proj",
     {EXPERT_FFN, HIDDEN},
     EXPERT | IN_OUT,
     MIXTURE,
     OSS,
     0},
    {EXPERT_DOWN_B, "mlp.experts.*.down_proj_bias", {HIDDEN}, EXPERT | BIAS, MIXTURE, OSS, 0},
    {L_ROUTER_B, "mlp.gate.bias", {EXPERTS}, BIAS, MIXTURE, TRAIT_ALTERNATING, 0},
    {L_SINKS, "self_attn.sinks", {ALL_HEADS}, BIAS, SELF, TRAIT_SINKS, 0},
    {L_SHARED_GATE_W,
     "mlp.shared_expert_gate.weight",
     {ONE, HIDDEN},
     0,
     SHARED,
     TRAIT_SHARED_GATE,
     0},
    {L_GATE_W, "mlp.shared_expert.gate_proj.weight", {SHARED_FFN, HIDDEN}, 0, SHARED, 0, 0},
    {L_UP_W, "mlp.shared_expert.up_proj.weight", {SHARED_FFN, HIDDEN}, 0, SHARED, 0, 0},
    {L_DOWN_W, "mlp.shared_expert.down_proj.weight", {HIDDEN, SHARED_FFN}, 0, SHARED, 0, 0},
    {L_GATE_UP_W, "mlp.gate_up_proj.weight", {GATE_UP, HIDDEN}, 0, DENSE, TRAIT_PACKED_MLP, 0},
    {L_GATE_W, "mlp.gate_proj.weight", {FFN, HIDDEN}, 0, DENSE, TRAIT_GATED, TRAIT_PACKED_MLP},
    {L_GATE_B,
     "mlp.gate_proj.bias",
     {FFN},
     BIAS,
     DENSE,
     TRAIT_GATED | TRAIT_MLP_BIAS,
     TRAIT_PACKED_MLP},
    {L_UP_W, "mlp.up_proj.weight", {FFN, HIDDEN}, 0, DENSE, 0, TRAIT_PACKED_MLP},
    {L_UP_B, "mlp.up_proj.bias", {FFN}, BIAS, DENSE, TRAIT_MLP_BIAS, TRAIT_PACKED_MLP},
    {L_DOWN_W, "mlp.down_proj.weight", {HIDDEN, FFN}, 0, DENSE, 0, 0},
    {L_DOWN_B, "mlp.down_proj.bias", {HIDDEN}, BIAS, DENSE, TRAIT_MLP_BIAS, 0},
    {L_NORM1_W,
     "input_layernorm.weight",
     {HIDDEN},
     NORM,
     ANY,
     0,
     TRAIT_NO_PRE_NORMS | TRAIT_BARE_NORMS},
    {L_NORM1_B,
     "input_layernorm.bias",
     {HIDDEN},
     NORM | BIAS,
     ANY,
     TRAIT_NORM_BIAS,
     TRAIT_NO_PRE_NORMS},
    {L_NORM2_W,
     "post_attention_layernorm.weight",
     {HIDDEN},
     NORM,
     ANY,
     0,
     TRAIT_POST_NORMS | TRAIT_ONE_NORM | TRAIT_BARE_NORMS},
    {L_NORM2_B,
     "post_attention_layernorm.bias",
     {HIDDEN},
     NORM | BIAS,
     ANY,
     TRAIT_NORM_BIAS,
     TRAIT_POST_NORMS | TRAIT_ONE_NORM | TRAIT_BARE_NORMS},
    {L_POST1_W, "post_attention_layernorm.weight", {HIDDEN}, NORM, ANY, TRAIT_POST_NORMS, 0},
    {L_NORM2_W,
     "pre_feedforward_layernorm.weight",
     {HIDDEN},
     NORM,
     ANY,
     TRAIT_POST_NORMS,
     TRAIT_NO_PRE_NORMS},
    {L_DENSE_POST_W,
     "post_feedforward_layernorm_1.weight",
     {HIDDEN},
     NORM,
     MIXTURE,
     TRAIT_BESIDE,
     0},
    {L_MIX_NORM_W, "pre_feedforward_layernorm_2.weight", {HIDDEN}, NORM, MIXTURE, TRAIT_BESIDE, 0},
    {L_MIX_POST_W, "post_feedforward_layernorm_2.weight", {HIDDEN}, NORM, MIXTURE, TRAIT_BESIDE, 0},
    {L_POST2_W, "post_feedforward_layernorm.weight", {HIDDEN}, NORM, ANY, TRAIT_POST_NORMS, 0},
    {L_OWN_GATE_W, "per_layer_input_gate.weight", {PER_LAYER, HIDDEN}, 0, ANY, TRAIT_PER_LAYER, 0},
    {L_OWN_W, "per_layer_projection.weight", {HIDDEN, PER_LAYER}, 0, ANY, TRAIT_PER_LAYER, 0},
    {L_POST3_W, "post_per_layer_input_norm.weight", {HIDDEN}, NORM, ANY, TRAIT_PER_LAYER, 0},
    {L_SCALE, "layer_scalar", {ONE}, NORM | BUFFER, ANY, TRAIT_LAYER_SCALE, 0},
    {0},
};
static const ParamRow llama_end[] = {
    {M_NORM_W, "model.norm.weight", {HIDDEN}, NORM, ANY, 0, TRAIT_BARE_NORMS},
    {M_NORM_B, "model.norm.bias", {HIDDEN}, NORM | BIAS, ANY, TRAIT_NORM_BIAS, 0},
    {M_HEAD, "lm_head.weight", {VOCAB, HIDDEN}, 0, ANY, TRAIT_UNTIED, 0},
    {M_SCORE, "score.weight", {LABELS, HIDDEN}, 0, ANY, TRAIT_SCORE, 0},
    {M_HEAD_B, "lm_head.bias", {VOCAB}, BIAS, ANY, TRAIT_UNTIED | TRAIT_HEAD_BIAS, 0},
    {0},
};

typedef struct Table {
  const ParamRow *begin, *layer, *end;
  const char *layer_prefix;
} Table;

static const Table gpt2_table = {gpt2_begin, gpt2_layer, gpt2_end, "transformer.h."};
static const Table llama_table = {llama_begin, llama_layer, llama_end, "model.layers."};

enum { NAME_MAX_BYTES = PARAM_NAME_BYTES };

/* Of layers with a state, of mixtures and of inputs by layer. */
static int special_size(const Config *c, Dim d) {
  switch (d) {
  case DELTA_QKV:
    return layer_conv_shape(c, LAYER_DELTA).channels;
  case DELTA_HEADS:
    return c->linear_num_value_heads;
  case DELTA_HEAD:
    return c->linear_value_head_dim;
  case DELTA_VALUES:
    return c->linear_num_value_heads * c->linear_value_head_dim;
  case CONV_TAPS:
    return c->linear_conv_kernel_dim;
  case CONV_IN:
    return 3 * c->hidden_size;
  case EXPERTS:
    return c->num_experts;
  case EXPERT_FFN:
    return c->moe_intermediate_size;
  case EXPERT_GATE_UP:
    return 2 * c->moe_intermediate_size;
  case ALL_HEADS:
    return c->num_attention_heads;
  case SHARED_FFN:
    return c->shared_expert_intermediate_size;
  case DELTA_ALL:
    return special_size(c, DELTA_QKV) + special_size(c, DELTA_VALUES);
  case DELTA_BA:
    return 2 * c->linear_num_value_heads;
  case PER_LAYER:
    return c->per_layer_size;
  case PER_LAYERS:
    return c->num_hidden_layers * c->per_layer_size;
  case ONE:
    return 1;
  default:
    return 0;
  }
}

/* layer -1: of no layer */
static int size_of(const Config *c, int layer, Dim d) {
  const int head = layer < 0 ? 0 : config_head_dim(c, layer);
  const int kv_heads = layer < 0 ? 0 : config_kv_heads(c, layer);
  const int ffn = layer < 0 ? 0 : config_ffn_size(c, layer);
  switch (d) {
  case VOCAB:
    return c->vocab_size;
  case LABELS:
    return c->num_labels;
  case POSITIONS:
    return c->max_position_embeddings + config_first_position(c);
  case HIDDEN:
    return c->hidden_size;
  case QKV:
    return (c->num_attention_heads + 2 * kv_heads) * head;
  case HEADS:
    return c->num_attention_heads * head;
  case KV:
    return kv_heads * head;
  case HEAD:
    return head;
  case FFN:
    return ffn;
  case GATE_UP:
    return 2 * ffn;
  case QUERIES:
    return c->num_attention_heads * (c->qk_nope_head_dim + c->qk_rope_head_dim);
  case Q_RANK:
    return c->q_lora_rank;
  case KV_RANK:
    return c->kv_lora_rank;
  case LATENT:
    return c->kv_lora_rank + c->qk_rope_head_dim;
  case KV_B:
    return c->num_attention_heads * (c->qk_nope_head_dim + c->v_head_dim);
  case VALUES:
    return c->num_attention_heads * c->v_head_dim;
  case QUERY_GATE:
    return 2 * c->num_attention_heads * head;
  default:
    return special_size(c, d);
  }
}

static unsigned kinds_of(const Config *c, int layer) {
  const unsigned mixer = 1u << config_layer_kind(c, layer);
  if (!config_layer_experts(c, layer)) return mixer | DENSE;
  return mixer | MIXTURE | (c->shared_expert_intermediate_size ? SHARED : 0) |
         (config_traits(c) & TRAIT_BESIDE ? DENSE : 0);
}

/* layer -1: the parameter belongs to no layer */
static bool present(const Config *c, int layer, const ParamRow *r) {
  const Traits traits = config_traits(c);
  if (r->kinds != ANY && !(r->kinds & kinds_of(c, layer))) return false;
  return (traits & r->with) == r->with && !(traits & r->without);
}

/* How many parameters a row stands for. */
static int copies(const Config *c, int layer, const ParamRow *r) {
  return r->flags & EXPERT ? config_layer_experts(c, layer) : 1;
}

static int count_rows(const Config *c, int layer, const ParamRow *r) {
  int n = 0;
  for (; r->name; r++)
    if (present(c, layer, r)) n += copies(c, layer, r);
  return n;
}

static int count_layer_rows(const Config *c, const ParamRow *r) {
  int n = 0;
  for (int i = 0; i < c->num_hidden_layers; i++) n += count_rows(c, i, r);
  return n;
}

static Tensor shape_of(const Config *c, int layer, const ParamRow *r) {
  int dim[MAX_DIMS], ndim = 0;
  for (; ndim < MAX_DIMS && r->dim[ndim] != NONE; ndim++)
    dim[ndim] = size_of(c, layer, r->dim[ndim]);
  return tensor_view(NULL, ndim, dim);
}

/* Parts of names that families write in another way, applied in this order. */
static const struct Rename {
  Families families;
  const char *ours, *theirs;
} renames[] = {
#define NAME(families, ours, theirs) {families, ours, theirs},
#include "model/config.def"
};

/* In the place of * in `ours` stands the number of an expert. */
static void name_of(const Config *c, const char *prefix, const char *ours, int expert, char *name) {
  char rest[NAME_MAX_BYTES];
  const char *star = strchr(ours, '*');
  if (star)
    snprintf(name, NAME_MAX_BYTES, "%.32s%.*s%d%.32s", prefix, (int)(star - ours), ours, expert,
             star + 1);
  else
    snprintf(name, NAME_MAX_BYTES, "%.32s%.46s", prefix, ours);
  for (size_t i = 0; i < sizeof renames / sizeof *renames; i++) {
    const struct Rename *r = &renames[i];
    char *at = r->families >> c->family & 1 ? strstr(name, r->ours) : NULL;
    if (!at) continue;
    snprintf(rest, sizeof rest, "%s", at + strlen(r->ours));
    snprintf(at, (size_t)(name + NAME_MAX_BYTES - at), "%s%s", r->theirs, rest);
  }
}

typedef struct Place {
  int layer; /* -1: none */
  const char *prefix;
  Tensor **slots;
} Place;

static Tensor *add_param(Model *m, const Place *at, const ParamRow *r, int expert) {
  char *name = m->names + (size_t)m->nparams * NAME_MAX_BYTES;
  name_of(&m->config, at->prefix, r->name, expert, name);
  Param *p = &m->param[m->nparams++];
  *p = (Param){.name = name,
               .t = shape_of(&m->config, at->layer, r),
               .in_out = r->flags & IN_OUT,
               .is_bias = r->flags & BIAS,
               .is_norm = r->flags & NORM,
               .saved_f32 = r->flags & SAVED_F32,
               .is_expert = r->flags & EXPERT,
               .expert = expert,
               .stacked = r->flags & EXPERT && r->with & TRAIT_STACKED,
               .is_router = r->flags & ROUTER,
               .is_buffer = r->flags & BUFFER,
               .by_head = r->flags & BY_HEAD};
  return &p->t;
}

static void add_rows(Model *m, const Place *at, const ParamRow *r) {
  for (; r->name; r++) {
    if (!present(&m->config, at->layer, r)) continue;
    Layer *l = at->layer < 0 ? NULL : &m->layer[at->layer];
    for (int e = 0; e < copies(&m->config, at->layer, r); e++) {
      Tensor *t = add_param(m, at, r, e);
      *(r->flags & EXPERT ? &l->expert[e * EXPERT_PARTS + r->slot] : &at->slots[r->slot]) = t;
    }
    if (l && r->flags & IN_OUT && !(r->flags & EXPERT)) l->in_out |= (uint64_t)1 << r->slot;
  }
}

/* An optimizer's moments take twice the memory of the weights. */
static Status check_size(const Model *m) {
  double n = 0;
  for (int i = 0; i < m->nparams; i++) {
    double numbers = 1;
    for (int k = 0; k < m->param[i].t.ndim; k++) numbers *= m->param[i].t.dim[k];
    n += numbers;
  }
  if (mem_fits(2 * sizeof(real) * n)) return GRPO_OK;
  return fail(GRPO_ELIMIT, "model: %.4g parameters are more than this machine can address", n);
}

int layout_index(const Model *m, const char *name) {
  return param_names_find(m->by_name, m->nparams, name);
}

bool layout_is_matrix(const Model *m, int i) {
  const Tensor *t = &m->param[i].t;
  return t->ndim == 2 && t != m->t[M_POSITION] && t != m->t[M_SCORE] && !m->param[i].by_head;
}

bool layout_is_projection(const Model *m, int i) {
  const Tensor *t = &m->param[i].t;
  return layout_is_matrix(m, i) && t != m->t[M_EMBED] && t != m->t[M_OWN_EMBED] &&
         t != m->t[M_HEAD] && !m->param[i].is_router;
}

Status layout_params(Model *m) {
  const Config *c = &m->config;
  const Table *t = config_traits(c) & TRAIT_CONV1D ? &gpt2_table : &llama_table;
  const int layers = c->num_hidden_layers;
  const size_t n = (size_t)(count_rows(c, -1, t->begin) + count_rows(c, -1, t->end)) +
                   (size_t)count_layer_rows(c, t->layer);
  if (!mem_fits((double)n * (sizeof *m->param + NAME_MAX_BYTES)))
    return fail(GRPO_ENOMEM, "model: no memory for a table of %zu parameters", n);
  m->param = mem_zalloc(n * sizeof *m->param);
  m->by_name = mem_alloc(n * sizeof *m->by_name);
  m->names = mem_alloc(n * NAME_MAX_BYTES);
  m->layer = mem_zalloc((size_t)layers * sizeof *m->layer);
  m->quant = mem_zalloc(n * sizeof *m->quant);
  const size_t experts = (size_t)layers * (size_t)c->num_experts * EXPERT_PARTS;
  m->experts = experts ? mem_zalloc(experts * sizeof *m->experts) : NULL;
  if (!m->param || !m->by_name || !m->names || !m->layer || !m->quant || (experts && !m->experts))
    return fail(GRPO_ENOMEM, "model: no memory for a table of %zu parameters", n);
  const Place outside = {-1, "", m->t};
  add_rows(m, &outside, t->begin);
  for (int i = 0; i < layers; i++) {
    char prefix[NAME_MAX_BYTES];
    snprintf(prefix, sizeof prefix, "%s%d.", t->layer_prefix, i);
    if (config_layer_experts(c, i))
      m->layer[i].expert = m->experts + experts / (size_t)layers * (size_t)i;
    add_rows(m, &(Place){i, prefix, m->layer[i].t}, t->layer);
  }
  add_rows(m, &outside, t->end);
  try(check_size(m));
  if (!m->t[M_HEAD]) m->t[M_HEAD] = m->t[M_EMBED];
  param_names_sort(m->by_name, m->param, m->nparams);
  return GRPO_OK;
}
