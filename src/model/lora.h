/* lora.h - low-rank adapters (LoRA, 2106.09685) beside a model's frozen weights.
 *
 * An adapted projection gives y = W x + s B A x, s = alpha / rank (or alpha / sqrt(rank)).  A and B
 * are further parameters of the model, under PEFT's names ("model.layers.0.self_attn.q_proj.
 * lora_A.weight", "model.embed_tokens.lora_embedding_A"); while there are any, only they are
 * trainable.  Decoding and training use the same operation, so the base weights are never touched
 * and an adapter can be switched off.
 *
 * On disk an adapter is PEFT's folder: adapter_config.json and adapter_model.safetensors.
 */
#ifndef GRPO_MODEL_LORA_H
#define GRPO_MODEL_LORA_H

#include "model/model.h"

typedef struct LoraOptions {
  int rank;
  double alpha, dropout; /* dropout: of A's inputs, in training only */
  bool use_rslora;       /* s = alpha / sqrt(rank) */
  int ntargets;
  const char *const *targets; /* names of modules ("q_proj", "lm_head", "embed_tokens"), or one
                                 "all-linear": every projection of the layers */
} LoraOptions;

/* A fresh adapter: A uniform in +-1/sqrt(inputs) from the seed, B zero, so nothing changes yet (on
 * the embedding, as PEFT: A zero, B normal).  EARG: a target that matches nothing (the message
 * names what exists), an adapter already there. */
Status model_add_lora(Model *m, const LoraOptions *o, uint64_t seed);
bool model_has_lora(const Model *m);
double model_lora_dropout(const Model *m); /* 0 without an adapter */
int model_lora_rank(const Model *m);       /* of adapter_config.json; 0 without an adapter */
/* Off: forward functions see the base model alone.  Returns what it was. */
bool model_use_lora(Model *m, bool on);
/* W += s B A, then the adapter is gone.  EARG when frozen views share the weights, or when the head
 * is tied to the embedding and one of them is adapted. */
Status model_merge_lora(Model *m, const Ctx *cx);

/* PEFT's folder onto a model without an adapter.  EFORMAT, one line, for every option that would
 * change the result and is not supported, and for missing, foreign or misshapen tensors. */
Status lora_load(Model *m, const char *dir);
/* base_name: base_model_name_or_path; NULL: as it was loaded, or empty.  Save, load, save gives the
 * same bytes. */
Status lora_save(const Model *m, const char *dir, const char *base_name);

/* What an adapter adds to the memory of a step on nrows rows, of which `train` keeps all layers'. */
size_t lora_step_bytes(const Model *m, int nrows, bool train);

#endif
