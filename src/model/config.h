/* config.h - the shape of a decoder, as data.
 *
 * config.def lists the families and the fields once: Hugging Face's keys, defaults and ranges.
 * config_read.h makes a Config from JSON, config_write.h writes one, config_check.h checks one.
 */
#ifndef GRPO_MODEL_CONFIG_H
#define GRPO_MODEL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { CONFIG_MAX_EOS = 8, CONFIG_MAX_LAYERS = 1024, CONFIG_MAX_ROPE_FACTORS = 128 };

typedef enum Family {
#define FAMILY(name, type, architecture, activation_key, activation, traits) FAMILY_##name,
#include "model/config.def"
  FAMILY_COUNT
} Family;

/* The way in which a layer reads earlier tokens; its weights, cache and forward pass follow. */
typedef enum LayerKind {
#define LAYER_KIND(name, word) LAYER_##name,
#include "model/config.def"
  LAYER_KINDS
} LayerKind;

/* The parts of layers.  Some traits come with the family, the others from its fields. */
typedef uint64_t Traits;
#define TRAIT(bit)           ((Traits)1 << (bit))
#define TRAIT_CONV1D         TRAIT(0) /* weights [in, out], learned positions, LayerNorm */
#define TRAIT_ROPE           TRAIT(1) /* rotary positions */
#define TRAIT_GATED          TRAIT(2) /* act(gate) * up; otherwise act(up) */
#define TRAIT_GELU           TRAIT(3) /* the gate's activation is gelu (tanh), not silu */
#define TRAIT_PACKED         TRAIT(4) /* q, k, v in one matrix */
#define TRAIT_QK_NORM        TRAIT(5) /* RMSNorm of each head of q and k before the rotation */
#define TRAIT_PLUS_ONE       TRAIT(6) /* norms multiply by 1 + w */
#define TRAIT_POST_NORMS     TRAIT(7) /* a branch is normed before it is added to x */
#define TRAIT_QKV_BIAS       TRAIT(8)
#define TRAIT_O_BIAS         TRAIT(9)
#define TRAIT_MLP_BIAS       TRAIT(10)
#define TRAIT_UNTIED         TRAIT(11)
#define TRAIT_LATENT         TRAIT(12) /* keys and values come from a common latent */
#define TRAIT_LOW_QUERY      TRAIT(13) /* queries come from a latent of their own */
#define TRAIT_LEARNED        TRAIT(14) /* learned positions; two rows of the table are not used */
#define TRAIT_LAYERNORM      TRAIT(15) /* LayerNorm, not RMSNorm */
#define TRAIT_NORM_BIAS      TRAIT(16) /* norms of layers have a bias */
#define TRAIT_PACKED_MLP     TRAIT(17) /* gate and up in one matrix */
#define TRAIT_PACKED_BY_HEAD TRAIT(18) /* TRAIT_PACKED's matrix has q, k, v head by head */
#define TRAIT_NO_PRE_NORMS   TRAIT(19) /* branches read the residual stream without a norm */
#define TRAIT_WIDE_QK_NORM   TRAIT(20) /* RMSNorm of all heads of q, and of k, together */
#define TRAIT_QK_NORM_LAST   TRAIT(21) /* TRAIT_QK_NORM after the rotation */
#define TRAIT_PAIRS          TRAIT(22) /* neighbouring channels rotate together */
#define TRAIT_PARALLEL       TRAIT(23) /* x + attention + feed-forward, both of x */
#define TRAIT_ONE_NORM       TRAIT(24) /* both branches of TRAIT_PARALLEL have one norm */
#define TRAIT_NO_O_BIAS      TRAIT(25) /* attention_bias is about q, k, v */
#define TRAIT_MLP_BIAS_TOO   TRAIT(26) /* attention_bias is about feed-forward layers too */
#define TRAIT_OUTPUT_GATE    TRAIT(27) /* q_proj makes a gate of attention's result too, by head */
#define TRAIT_BARE_NORMS     TRAIT(28) /* norms have no weights; embeddings are normed too */
#define TRAIT_TURNS_BACK     TRAIT(29) /* rotary positions turn in the opposite direction */
#define TRAIT_HEAD_BIAS      TRAIT(30) /* an output projection of its own has a bias */
#define TRAIT_STACKED        TRAIT(31) /* files hold all experts of a layer in one tensor */
#define TRAIT_SHARED_GATE    TRAIT(32) /* the expert that every token takes has a gate */
#define TRAIT_PACKED_DELTA   TRAIT(33) /* gated DeltaNet: q, k, v, z in one matrix, by key head */
#define TRAIT_SINKS          TRAIT(35) /* heads have a score without a value */
#define TRAIT_ALTERNATING    TRAIT(36) /* experts [in, out], gate and up alternating; all biased */
#define TRAIT_ROUTER_BIAS    TRAIT(34) /* scores are sigmoids; a bias changes the choice alone */
#define TRAIT_VALUE_NORM     TRAIT(37) /* heads of values are normed, without a weight */
#define TRAIT_KEYS_AS_VALUES TRAIT(38) /* full layers: values are keys before their norm */
#define TRAIT_PER_LAYER      TRAIT(39) /* each layer has an input of its own, from a second table */
#define TRAIT_LAYER_SCALE    TRAIT(40) /* a layer's result is multiplied by a fixed number */
#define TRAIT_BESIDE         TRAIT(41) /* a mixture is added to the dense part of the same layer */
#define TRAIT_HEAD_GATE      TRAIT(42) /* a number for each head gates attention's result */
#define TRAIT_ROUTER_EPS     TRAIT(43) /* the sum of a token's scores gets 1e-6, not 1e-20 */
#define TRAIT_SCORE          TRAIT(44) /* a head for labels in place of the output projection */

/* ROPE_PROPORTIONAL: whole heads rotate, but pairs from partial_rotary_factor on at frequency 0.
 * ROPE_ALPHA: the base is multiplied by factor^(d / (d - 2)), d the channels that rotate. */
typedef enum RopeScaling {
  ROPE_PLAIN,
  ROPE_LINEAR,
  ROPE_LLAMA3,
  ROPE_LONG,
  ROPE_YARN,
  ROPE_ALPHA,
  ROPE_PROPORTIONAL
} RopeScaling;

typedef enum Activation { ACT_SILU, ACT_GELU_TANH, ACT_GELU, ACT_RELU, ACT_RELU2 } Activation;

typedef struct Config {
  Family family;
  int vocab_size, hidden_size, intermediate_size, num_hidden_layers;
  int num_attention_heads, num_key_value_heads, head_dim, max_position_embeddings;
  int global_head_dim, global_kv_heads; /* of layers without a window; 0: as in the others */
  double norm_eps, initializer_range;
  bool tie_word_embeddings, attention_bias, o_bias, mlp_bias, parallel_residual;
  double query_pre_attn_scalar;              /* 0: head_dim */
  double attn_softcap, logit_softcap;        /* x becomes cap tanh(x / cap); 0: none */
  double embedding_scale;                    /* 0: none */
  double attention_scale;                    /* of the scores; 0: 1 / sqrt(query_pre_attn_scalar) */
  double residual_scale;                     /* of every branch; 0: none */
  double logit_scale, logit_divisor;         /* 0: none */
  bool keys_are_values, use_double_wide_mlp; /* this and the next two: Gemma 4 */
  int num_kv_shared_layers, per_layer_size;
  int no_rope_layer_interval;
  /* gated DeltaNet */
  int full_attention_interval, linear_conv_kernel_dim, linear_num_key_heads;
  int linear_num_value_heads, linear_key_head_dim, linear_value_head_dim;
  bool block_auto_adjust_ff_dim; /* this and the next two while a file is read */
  double block_ffn_dim_multiplier;
  int block_multiple_of;
  int q_lora_rank, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim; /* latent */
  int first_k_dense_replace;
  /* mixtures of experts; num_experts 0: every layer is dense */
  int num_experts, num_experts_per_tok, moe_intermediate_size, decoder_sparse_step;
  int shared_expert_intermediate_size; /* of the expert that every token takes; 0: there is none */
  int n_shared_experts, n_group, topk_group; /* deepseek_v3 */
  double routed_scaling_factor;              /* of the weights of experts */
  double swiglu_limit, swiglu_alpha;         /* of TRAIT_ALTERNATING (ExpertsAttr); limit 0: silu */
  bool norm_topk_prob, enable_moe_block;
  bool layer_dense[CONFIG_MAX_LAYERS]; /* listed in mlp_only_layers */
  bool use_sliding_window;
  int sliding_window, max_window_layers, sliding_window_pattern;
  uint8_t layer_kind[CONFIG_MAX_LAYERS]; /* as layer_types has it: see config_layer_kind */
  /* Rotary positions; windowed layers of some families have a base of their own and no
   * scaling. */
  double rope_theta, rope_local_theta, partial_rotary_factor; /* 0: all of head_dim */
  RopeScaling rope_scaling;
  double rope_factor, rope_low_freq_factor, rope_high_freq_factor;
  double rope_beta_fast, rope_beta_slow; /* ROPE_YARN */
  bool rope_truncate;                    /* ROPE_YARN: are the ends of its ramp whole numbers? */
  /* Queries at position t are multiplied by 1 + beta ln(1 + floor(t / original length)); 0: not. */
  double rope_query_beta;
  double rope_mscale_all_dim; /* ROPE_YARN with latent attention; 0: none */
  int rope_original_max_position_embeddings;
  int rope_nfactors;            /* ROPE_LONG */
  double rope_attention_factor; /* 0: the usual one */
  double rope_short[CONFIG_MAX_ROPE_FACTORS], rope_long[CONFIG_MAX_ROPE_FACTORS];
  int bos_token_id, pad_token_id;            /* -1: none */
  int num_eos, eos_token_id[CONFIG_MAX_EOS]; /* config.json and generation_config.json together */
  int num_labels; /* of score.weight, a head in place of the output projection; 0: there is none */
  bool denoiser;  /* trained to fill in masks */
  int mask_token_id; /* our own key; used where denoiser is set */
} Config;

bool config_is_eos(const Config *c, int id);

typedef struct FamilyRow {
  const char *type, *architecture, *activation_key, *activation;
  Traits traits;
} FamilyRow;
const FamilyRow *config_family(Family f);

Traits config_traits(const Config *c);
const char *config_model_type(const Config *c); /* "llama" */
LayerKind config_layer_kind(const Config *c, int layer);
const char *config_layer_word(LayerKind k);           /* in layer_types: "full_attention" */
int config_layer_experts(const Config *c, int layer); /* 0: the layer is dense */
/* Do routers have an auxiliary loss? */
bool config_has_aux_loss(const Config *c);
int config_window(const Config *c, int layer); /* 0: the layer sees everything before it */
int config_head_dim(const Config *c, int layer);
int config_kv_heads(const Config *c, int layer);
int config_ffn_size(const Config *c, int layer);
int config_keys_layer(const Config *c, int layer); /* whose keys it reads: mostly its own */
bool config_is_shared(const Config *c, int layer); /* do later layers read its keys and values? */
/* The part of a head that is rotated.  local: in layers with a window. */
int config_rotary_dim(const Config *c, bool local);
bool config_rotates(const Config *c);       /* are there rotary positions? */
int config_first_position(const Config *c); /* the row of a learned table that it has */
/* Does a sequence that can have `length` tokens take the long factors of ROPE_LONG? */
bool config_is_long(const Config *c, int length);
bool config_layer_rotates(const Config *c, int layer);
Activation config_activation(const Config *c);
double config_yarn_mscale(double factor, double mscale); /* YaRN's factor of rotated channels */
double config_logit_scale(const Config *c);              /* 1: none */
bool config_has_local_rope(const Config *c); /* do windowed layers have a base of their own? */

#endif
