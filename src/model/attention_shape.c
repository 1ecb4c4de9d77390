#include "model/attention_shape.h"

#include <math.h>

AttnShape attention_shape(const Config *c, Compute compute) {
  const bool latent = config_traits(c) & TRAIT_LATENT;
  const int head = latent ? c->qk_nope_head_dim + c->qk_rope_head_dim : c->head_dim;
  const double by = c->query_pre_attn_scalar > 0 ? c->query_pre_attn_scalar : head;
  return (AttnShape){.heads = c->num_attention_heads,
                     .kv_heads = c->num_key_value_heads,
                     .head_dim = c->head_dim,
                     .scale = (real)(1 / sqrt(by)),
                     .softcap = (real)c->attn_softcap,
                     .v_dim = latent ? c->kv_lora_rank : 0,
                     .compute = compute};
}

LatentShape attention_latent_shape(const Config *c) {
  return (LatentShape){.heads = c->num_attention_heads,
                       .nope = c->qk_nope_head_dim,
                       .rope = c->qk_rope_head_dim,
                       .v_dim = c->v_head_dim,
                       .rank = c->kv_lora_rank};
}
