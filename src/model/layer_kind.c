#include "model/layer_kind.h"

#include <math.h>

AttnShape layer_attention_shape(const Config *c, int layer, Compute compute,
                                const KernelClass *cpu) {
  const bool latent = config_layer_kind(c, layer) == LAYER_LATENT;
  const int head = latent ? c->qk_nope_head_dim + c->qk_rope_head_dim : config_head_dim(c, layer);
  const double by = c->query_pre_attn_scalar > 0 ? c->query_pre_attn_scalar : head;
  const double mscale = config_yarn_mscale(c->rope_factor, c->rope_mscale_all_dim);
  return (AttnShape){
      .heads = c->num_attention_heads,
      .kv_heads = config_kv_heads(c, layer),
      .head_dim = config_head_dim(c, layer),
      .scale = (real)(c->attention_scale > 0 ? c->attention_scale : mscale * mscale / sqrt(by)),
      .window = config_window(c, layer),
      .softcap = (real)c->attn_softcap,
      .v_dim = latent ? c->kv_lora_rank : 0,
      .compute = compute,
      .cpu = cpu};
}

LatentShape layer_latent_shape(const Config *c) {
  return (LatentShape){.heads = c->num_attention_heads,
                       .nope = c->qk_nope_head_dim,
                       .rope = c->qk_rope_head_dim,
                       .v_dim = c->v_head_dim,
                       .rank = c->kv_lora_rank};
}

DeltaShape layer_delta_shape(const Config *c) {
  return (DeltaShape){.key_heads = c->linear_num_key_heads,
                      .value_heads = c->linear_num_value_heads,
                      .key_dim = c->linear_key_head_dim,
                      .value_dim = c->linear_value_head_dim};
}

ConvShape layer_conv_shape(const Config *c, LayerKind kind) {
  const DeltaShape s = layer_delta_shape(c);
  const bool delta = kind == LAYER_DELTA;
  return (ConvShape){.channels = delta ? delta_width(&s) : c->hidden_size,
                     .taps = c->linear_conv_kernel_dim,
                     .silu = delta};
}

static size_t layer_state(const Config *c, LayerKind kind) {
  const DeltaShape s = layer_delta_shape(c);
  const ConvShape conv = layer_conv_shape(c, kind);
  return conv_tail(&conv) + (kind == LAYER_DELTA ? delta_state(&s) : 0);
}

LayerCache layer_cache(const Config *c, int layer, Compute compute, const KernelClass *cpu) {
  switch (config_layer_kind(c, layer)) {
  case LAYER_FULL:
  case LAYER_WINDOWED:
  case LAYER_LATENT:
  case LAYER_UNROTATED:
    return (LayerCache){.shape = layer_attention_shape(c, layer, compute, cpu)};
  case LAYER_DELTA:
  case LAYER_CONV:
    return (LayerCache){.state = layer_state(c, config_layer_kind(c, layer))};
  case LAYER_SHARING: /* another layer's serve */
  case LAYER_SHARING_WINDOW:
  case LAYER_KINDS:
    break;
  }
  return (LayerCache){0};
}

void layer_caches(const Config *c, Compute compute, const KernelClass *cpu, LayerCache *out) {
  for (int i = 0; i < c->num_hidden_layers; i++) out[i] = layer_cache(c, i, compute, cpu);
}

/* Latent attention would have keys and values of different widths in every head. */
static size_t head_reals(const Config *c, const AttnShape *s) {
  if (s->v_dim) return (size_t)(c->qk_nope_head_dim + c->qk_rope_head_dim + c->v_head_dim);
  return 2 * (size_t)s->head_dim;
}

size_t layer_cache_reals(const Config *c, bool every_head) {
  size_t n = 0;
  for (int i = 0; i < c->num_hidden_layers; i++) {
    const AttnShape s = layer_cache(c, i, COMPUTE_F32, NULL).shape;
    n += every_head ? (size_t)s.heads * head_reals(c, &s)
                    : (size_t)kv_blocks(&s) * (size_t)s.kv_heads * (size_t)s.head_dim;
  }
  return n;
}
