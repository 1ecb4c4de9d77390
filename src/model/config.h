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
typedef enum Trait {
  TRAIT_CONV1D = 1,       /* weights [in, out], learned positions, LayerNorm with bias */
  TRAIT_ROPE = 2,         /* rotary positions, RMSNorm */
  TRAIT_GATED = 4,        /* act(gate) * up */
  TRAIT_GELU = 8,         /* the gate's activation is gelu (tanh), not silu */
  TRAIT_PACKED = 16,      /* q, k, v in one matrix; so are gate and up */
  TRAIT_QK_NORM = 32,     /* RMSNorm of each head of q and k before the rotation */
  TRAIT_PLUS_ONE = 64,    /* RMSNorm multiplies by 1 + w; embeddings are scaled */
  TRAIT_POST_NORMS = 128, /* a branch is normed before it is added to the residual stream */
  TRAIT_QKV_BIAS = 256,
  TRAIT_O_BIAS = 512,
  TRAIT_MLP_BIAS = 1024,
  TRAIT_UNTIED = 2048,
  TRAIT_LATENT = 4096,   /* keys and values from a common latent; some channels rotate, in pairs */
  TRAIT_LOW_QUERY = 8192 /* queries come from a latent of their own */
} Trait;

typedef enum RopeScaling { ROPE_PLAIN, ROPE_LINEAR, ROPE_LLAMA3, ROPE_LONG } RopeScaling;

typedef struct Config {
  Family family;
  int vocab_size, hidden_size, intermediate_size, num_hidden_layers;
  int num_attention_heads, num_key_value_heads, head_dim, max_position_embeddings;
  double norm_eps, initializer_range;
  bool tie_word_embeddings, attention_bias, mlp_bias;
  double query_pre_attn_scalar;       /* 0: head_dim */
  double attn_softcap, logit_softcap; /* x becomes cap tanh(x / cap); 0: none */
  double embedding_scale;             /* 0: none */
  int q_lora_rank, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim; /* latent */
  int first_k_dense_replace;
  bool use_sliding_window;
  int sliding_window, max_window_layers, sliding_window_pattern;
  uint8_t layer_kind[CONFIG_MAX_LAYERS]; /* as layer_types has it: see config_layer_kind */
  /* Rotary positions; windowed layers of gemma3 have a base of their own and no scaling. */
  double rope_theta, rope_local_theta, partial_rotary_factor; /* 0: all of head_dim */
  RopeScaling rope_scaling;
  double rope_factor, rope_low_freq_factor, rope_high_freq_factor;
  int rope_original_max_position_embeddings;
  /* ROPE_LONG: max_position_embeddings of the file; ours is the length that the chosen factors are
   * for. */
  int rope_file_positions, rope_nfactors;
  bool use_long_rope;
  double rope_attention_factor; /* 0: the usual one */
  double rope_short[CONFIG_MAX_ROPE_FACTORS], rope_long[CONFIG_MAX_ROPE_FACTORS];
  int bos_token_id, pad_token_id;            /* -1: none */
  int num_eos, eos_token_id[CONFIG_MAX_EOS]; /* config.json and generation_config.json together */
  bool denoiser;                             /* trained to fill in masks (rl/denoise.h) */
  int mask_token_id;                         /* our own key; used where denoiser is set */
} Config;

bool config_is_eos(const Config *c, int id);

typedef struct FamilyRow {
  const char *type, *architecture, *activation_key, *activation;
  unsigned traits;
} FamilyRow;
const FamilyRow *config_family(Family f);

unsigned config_traits(const Config *c);
const char *config_model_type(const Config *c); /* "llama" */
LayerKind config_layer_kind(const Config *c, int layer);
const char *config_layer_word(LayerKind k);    /* in layer_types: "full_attention" */
int config_window(const Config *c, int layer); /* 0: the layer sees everything before it */
int config_rotary_dim(const Config *c);        /* of a head; the rest is not rotated */
bool config_rotates(const Config *c);          /* are there rotary positions? */
bool config_has_local_rope(const Config *c);   /* do windowed layers have a base of their own? */

#endif
