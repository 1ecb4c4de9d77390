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

int config_window(const Config *c, int layer) {
  return c->windowed[layer / 32] >> layer % 32 & 1 ? c->sliding_window : 0;
}

int config_rotary_dim(const Config *c) {
  const double part = c->partial_rotary_factor;
  if (config_traits(c) & TRAIT_LATENT) return c->qk_rope_head_dim;
  return part > 0 ? (int)(c->head_dim * part) : c->head_dim;
}

size_t config_cache_reals(const Config *c, bool every_head) {
  const size_t layers = (size_t)c->num_hidden_layers, heads = (size_t)c->num_attention_heads;
  const bool latent = config_traits(c) & TRAIT_LATENT;
  const size_t kv_heads = every_head ? heads : (size_t)c->num_key_value_heads;
  if (latent && every_head)
    return layers * heads * (size_t)(c->qk_nope_head_dim + c->qk_rope_head_dim + c->v_head_dim);
  return layers * kv_heads * (size_t)c->head_dim *
         (latent ? 1 : 2); /* latent keys are the values too */
}

bool config_rotates(const Config *c) { return config_traits(c) & (TRAIT_ROPE | TRAIT_LATENT); }

bool config_has_local_rope(const Config *c) { return c->family == FAMILY_GEMMA3; }

bool config_is_eos(const Config *c, int id) {
  for (int i = 0; i < c->num_eos; i++)
    if (c->eos_token_id[i] == id) return true;
  return false;
}
