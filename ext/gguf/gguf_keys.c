#include "gguf/gguf_keys.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/exponential.h"

const KeyPair gguf_integers[GGUF_INTEGERS] = {
    {"context_length", "max_position_embeddings"},
    {"embedding_length", "hidden_size"},
    {"block_count", "num_hidden_layers"},
    {"feed_forward_length", "intermediate_size"},
    {"attention.head_count", "num_attention_heads"},
    {"attention.head_count_kv", "num_key_value_heads"},
    {"attention.key_length", "head_dim"},
};
/* Keys of some families only. */
const KeyPair gguf_numbers[GGUF_NUMBERS] = {
    {"rope.freq_base", "rope_theta"},
    {"rope.freq_base_swa", "rope_local_base_freq"},
    {"attn_logit_softcapping", "attn_logit_softcapping"},
    {"final_logit_softcapping", "final_logit_softcapping"},
    {"attention.query_pre_attn_scalar", "query_pre_attn_scalar"},
    {"embedding_scale", "embedding_scale"},
    {"attention.scale", "attention_multiplier"},
    {"residual_scale", "residual_multiplier"},
    {"logit_scale", "logit_scale"},
    {"logit_scale", "logits_scaling"},
};

const KeyPair gguf_deltas[GGUF_DELTAS] = {
    {"ssm.conv_kernel", "linear_conv_kernel_dim"},
    {"ssm.group_count", "linear_num_key_heads"},
    {"ssm.time_step_rank", "linear_num_value_heads"},
    {"ssm.state_size", "linear_key_head_dim"},
};
const KeyPair gguf_filter = {"shortconv.l_cache", "linear_conv_kernel_dim"};

const char *gguf_key(char *out, const GgufArch *a, const char *key) {
  snprintf(out, GGUF_KEY_BYTES, "%s.%s", gguf_arch_name(a), key);
  return out;
}

Family gguf_family(const GgufArch *a) {
  int f = 0;
  while (strcmp(config_family((Family)f)->type, gguf_arch_model_type(a)) != 0) f++;
  return (Family)f;
}
bool gguf_has_trait(const GgufArch *a, Traits trait) {
  return config_family(gguf_family(a))->traits & trait;
}

/* The field of this key, by its common name; false where the family has none. */
bool gguf_find_field(const GgufArch *a, const char *hf, Field *out) {
  for (int i = 0; i < config_num_fields(); i++) {
    const Field f = config_field(gguf_family(a), i);
    if (!*f.key || (strcmp(hf, f.key) != 0 && strcmp(hf, f.common_key) != 0)) continue;
    *out = f;
    return true;
  }
  return false;
}
bool gguf_has_field(const GgufArch *a, const char *hf) {
  Field f;
  return gguf_find_field(a, hf, &f);
}

/* The names of the epsilon in files. */
const char *gguf_epsilon_key(const GgufArch *a) {
  return gguf_has_trait(a, TRAIT_CONV1D | TRAIT_LAYERNORM) ? "attention.layer_norm_epsilon"
                                                           : "attention.layer_norm_rms_epsilon";
}

/* longrope multiplies cosines and sines by this unless a file has its own factor. */
double gguf_long_factor(double positions, double original) {
  return positions <= original ? 1 : sqrt(1 + math_log(positions / original) / math_log(original));
}

double gguf_yarn_factor(double factor) { return factor <= 1 ? 1 : 0.1 * math_log(factor) + 1; }

/* Other programs divide gemma's scores by the square root of this: hidden size over heads in the
 * largest models, head_dim in the others. */
int64_t gguf_usual_query_scalar(const GgufArch *a, int64_t layers, int64_t hidden, int64_t heads,
                                int64_t head_dim) {
  const int64_t largest = strcmp(gguf_arch_name(a), "gemma2") == 0 ? 46 : 62;
  return layers == largest ? hidden / heads : head_dim;
}
