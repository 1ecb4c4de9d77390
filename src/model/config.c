#include "model/config.h"

#include <math.h>
#include <string.h>

#include "base/exponential.h"

static const FamilyRow families[FAMILY_COUNT] = {
#define FAMILY(name, type, architecture, activation_key, activation, traits)                       \
  [FAMILY_##name] = {type, architecture, activation_key, activation, traits},
#include "model/config.def"
};

const FamilyRow *config_family(Family f) { return &families[f]; }

Traits config_traits(const Config *c) {
  Traits t = families[c->family].traits;
  if (c->attention_bias) t |= TRAIT_QKV_BIAS;
  if (c->o_bias || (c->attention_bias && !(t & TRAIT_NO_O_BIAS))) t |= TRAIT_O_BIAS;
  if (c->mlp_bias || (c->attention_bias && t & TRAIT_MLP_BIAS_TOO)) t |= TRAIT_MLP_BIAS;
  if (c->parallel_residual) t |= TRAIT_PARALLEL;
  if (c->parallel_residual && c->family == FAMILY_STABLELM) t |= TRAIT_ONE_NORM;
  if (c->num_labels) t |= TRAIT_SCORE;
  if (!c->tie_word_embeddings && !c->num_labels) t |= TRAIT_UNTIED;
  if (c->keys_are_values) t |= TRAIT_KEYS_AS_VALUES;
  if (c->per_layer_size) t |= TRAIT_PER_LAYER;
  if (c->enable_moe_block) t |= TRAIT_BESIDE;
  if (c->q_lora_rank && t & TRAIT_LATENT) t |= TRAIT_LOW_QUERY;
  return t;
}

const char *config_model_type(const Config *c) { return families[c->family].type; }

LayerKind config_layer_kind(const Config *c, int layer) {
  if (config_traits(c) & TRAIT_LATENT) return LAYER_LATENT;
  const LayerKind kind = (LayerKind)c->layer_kind[layer];
  return kind == LAYER_WINDOWED && !c->sliding_window ? LAYER_FULL : kind;
}

const char *config_layer_word(LayerKind k) {
  static const char *const words[LAYER_KINDS] = {
#define LAYER_KIND(name, word) [LAYER_##name] = word,
#include "model/config.def"
  };
  return words[k];
}

int config_layer_experts(const Config *c, int layer) {
  const bool dense = c->layer_dense[layer] || layer < c->first_k_dense_replace ||
                     (c->decoder_sparse_step && (layer + 1) % c->decoder_sparse_step);
  return dense ? 0 : c->num_experts;
}

bool config_has_aux_loss(const Config *c) {
  return c->num_experts && !(config_traits(c) & (TRAIT_ROUTER_BIAS | TRAIT_BESIDE));
}

int config_window(const Config *c, int layer) {
  const LayerKind kind = config_layer_kind(c, layer);
  return kind == LAYER_WINDOWED || kind == LAYER_SHARING_WINDOW ? c->sliding_window : 0;
}

static bool has_keys(const Config *c, int layer) {
  const LayerKind kind = config_layer_kind(c, layer);
  return kind != LAYER_SHARING && kind != LAYER_SHARING_WINDOW;
}

int config_keys_layer(const Config *c, int layer) {
  if (has_keys(c, layer)) return layer;
  for (int i = layer - 1; i >= 0; i--)
    if (has_keys(c, i) && config_window(c, i) == config_window(c, layer)) return i;
  return layer;
}

bool config_is_shared(const Config *c, int layer) {
  if (!c->num_kv_shared_layers || !has_keys(c, layer)) return false;
  for (int i = layer + 1; i < c->num_hidden_layers; i++)
    if (config_window(c, i) == config_window(c, layer)) return !has_keys(c, i);
  return false;
}

int config_ffn_size(const Config *c, int layer) {
  const bool wide = c->use_double_wide_mlp && !has_keys(c, layer);
  return wide ? 2 * c->intermediate_size : c->intermediate_size;
}

static int head_dim(const Config *c, bool local) {
  return !local && c->global_head_dim ? c->global_head_dim : c->head_dim;
}

int config_head_dim(const Config *c, int layer) { return head_dim(c, config_window(c, layer) > 0); }

int config_kv_heads(const Config *c, int layer) {
  return c->global_kv_heads && !config_window(c, layer) ? c->global_kv_heads
                                                        : c->num_key_value_heads;
}

int config_rotary_dim(const Config *c, bool local) {
  const double part = c->partial_rotary_factor;
  if (config_traits(c) & TRAIT_LATENT) return c->qk_rope_head_dim;
  const bool all = part <= 0 || c->rope_scaling == ROPE_PROPORTIONAL;
  return all ? head_dim(c, local) : (int)(head_dim(c, local) * part);
}

bool config_rotates(const Config *c) { return config_traits(c) & (TRAIT_ROPE | TRAIT_LATENT); }

int config_first_position(const Config *c) { return config_traits(c) & TRAIT_LEARNED ? 2 : 0; }

bool config_is_long(const Config *c, int length) {
  return c->rope_scaling == ROPE_LONG && length > c->rope_original_max_position_embeddings &&
         c->max_position_embeddings > c->rope_original_max_position_embeddings;
}

bool config_layer_rotates(const Config *c, int layer) {
  return config_rotates(c) && config_layer_kind(c, layer) != LAYER_UNROTATED;
}

bool config_has_local_rope(const Config *c) {
  return c->family == FAMILY_GEMMA3 || c->family == FAMILY_GEMMA4 || c->family == FAMILY_OLMO3 ||
         c->family == FAMILY_LFM3;
}

Activation config_activation(const Config *c) {
  static const struct {
    const char *name;
    Activation activation;
  } rows[] = {{"silu", ACT_SILU}, {"gelu", ACT_GELU}, {"relu", ACT_RELU}, {"relu2", ACT_RELU2}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(families[c->family].activation, rows[i].name) == 0) return rows[i].activation;
  return ACT_GELU_TANH;
}

double config_logit_scale(const Config *c) {
  return (c->logit_scale > 0 ? c->logit_scale : 1) / (c->logit_divisor > 0 ? c->logit_divisor : 1);
}

double config_yarn_mscale(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * math_log(factor) + 1;
}

bool config_is_eos(const Config *c, int id) {
  for (int i = 0; i < c->num_eos; i++)
    if (c->eos_token_id[i] == id) return true;
  return false;
}
