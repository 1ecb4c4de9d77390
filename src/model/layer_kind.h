/* layer_kind.h - what a kind of layer (config.def) needs of kernels and caches.
 *
 * A layer's weights are rows of layout.c, and its forward pass is a case of mix() in forward.c.
 * Every other file asks here, layer by layer.
 */
#ifndef GRPO_MODEL_LAYER_KIND_H
#define GRPO_MODEL_LAYER_KIND_H

#include "grad/latent.h"
#include "kern/conv.h"
#include "kern/delta.h"
#include "kern/kv.h"
#include "model/config.h"

/* A layer caches keys and values of every token of a sequence, or one state for all of them, or
 * nothing where it reads the keys of another. */
typedef struct LayerCache {
  AttnShape shape; /* of the keys and values; zeros: there are none */
  size_t state;    /* reals of the state; 0: there is none */
} LayerCache;

AttnShape layer_attention_shape(const Config *c, int layer, Compute compute,
                                const KernelClass *cpu);
LatentShape layer_latent_shape(const Config *c);
/* Gated DeltaNet, whose state is that of the delta rule and the tail of the convolution. */
DeltaShape layer_delta_shape(const Config *c);
ConvShape layer_conv_shape(const Config *c, LayerKind kind); /* of LAYER_DELTA or LAYER_CONV */
LayerCache layer_cache(const Config *c, int layer, Compute compute, const KernelClass *cpu);
/* The kinds of all layers: out [CONFIG_MAX_LAYERS]. */
void layer_caches(const Config *c, Compute compute, const KernelClass *cpu, LayerCache *out);
/* Reals of a token in the key/value cache, over all layers; every_head: if no heads shared them. */
size_t layer_cache_reals(const Config *c, bool every_head);

#endif
