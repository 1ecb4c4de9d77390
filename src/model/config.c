#include "model/config.h"

static const FamilyRow families[FAMILY_COUNT] = {
#define FAMILY(name, type, architecture, activation_key, activation, traits)                       \
  [FAMILY_##name] = {type, architecture, activation_key, activation, traits},
#include "model/config.def"
};

const FamilyRow *config_family(Family f) { return &families[f]; }

unsigned config_traits(const Config *c) {
  unsigned t = families[c->family].traits;
  if (c->attention_bias) t |= TRAIT_QKV_BIAS | TRAIT_O_BIAS;
  if (c->mlp_bias) t |= TRAIT_MLP_BIAS;
  if (!c->tie_word_embeddings) t |= TRAIT_UNTIED;
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

int config_window(const Config *c, int layer) {
  return config_layer_kind(c, layer) == LAYER_WINDOWED ? c->sliding_window : 0;
}

int config_rotary_dim(const Config *c) {
  const double part = c->partial_rotary_factor;
  if (config_traits(c) & TRAIT_LATENT) return c->qk_rope_head_dim;
  return part > 0 ? (int)(c->head_dim * part) : c->head_dim;
}

bool config_rotates(const Config *c) { return config_traits(c) & (TRAIT_ROPE | TRAIT_LATENT); }

bool config_has_local_rope(const Config *c) { return c->family == FAMILY_GEMMA3; }

bool config_is_eos(const Config *c, int id) {
  for (int i = 0; i < c->num_eos; i++)
    if (c->eos_token_id[i] == id) return true;
  return false;
}
