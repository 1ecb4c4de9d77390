/* lora.h - low-rank adapters (LoRA, 2106.09685) beside a model's frozen weights.
 *
 * An adapted projection gives y = W x + s B A x, s = alpha / rank (or alpha / sqrt(rank)).  A and B
 * are further parameters of the model, under PEFT's names
 * ("model.layers.0.self_attn.q_proj.lora_A.weight", "model.embed_tokens.lora_embedding_A"); while
 * there are any, only they are trainable.  Decoding and training use the same operation, so the
 * base weights are never touched and an adapter can be switched off.
 */
#ifndef GRPO_MODEL_LORA_H
#define GRPO_MODEL_LORA_H

#include "model/lora_weights.h"
#include "model/model.h"

/* ---- a fresh adapter ------------------------------------------------------------------- */

typedef struct LoraOptions {
  int rank;
  double alpha, dropout; /* dropout: of A's inputs, in training only */
  bool use_rslora;       /* s = alpha / sqrt(rank) */
  int ntargets;
  /* Names of modules ("q_proj", "lm_head", "embed_tokens"), or one "all-linear": every projection
   * of the layers. */
  const char *const *targets;
} LoraOptions;

/* A is uniform in +-1/sqrt(inputs) from the seed and B is zero, so nothing changes yet (on the
 * embedding, as PEFT: A zero, B normal).  EARG for a target that matches nothing (the message names
 * the modules that exist), and for a model that has an adapter. */
Status lora_add(Model *m, const LoraOptions *o, uint64_t seed);

/* ---- any adapter --------------------------------------------------------------------------- */

/* A weight that can have an adapter. */
typedef struct LoraSite {
  const char *path; /* "model.layers.0.self_attn.q_proj" */
  bool in_layer;    /* a projection of layer `layer`; else embedding or output projection */
  int layer;
} LoraSite;

/* Which weights get an adapter of which rank; `where` names the source in messages. */
typedef struct LoraPlan {
  const char *where;
  const char *config; /* adapter_config.json's text, for whoever saves the adapter */
  size_t config_len;
  int rank;
  double dropout;
  bool use_rslora;
  Status (*wants)(const void *user, const LoraSite *s, bool *yes);
  Status (*rank_of)(const void *user, const char *path, int *rank, double *alpha);
  const void *user;
} LoraPlan;

/* Names and shapes of A and B, without memory for weights.  The model is frozen from now on. */
Status lora_attach(Model *m, const LoraPlan *plan);
Status lora_allocate(Model *m); /* weights, all zero; on failure the adapter is gone */
void lora_detach(Model *m);     /* frees an adapter that nobody has seen yet */
void lora_drop(Model *m);       /* forgets the adapter; its memory stays until the model goes */
/* Does the path end in this name, which is the whole path or its last words? */
bool lora_name_matches(const char *path, const char *name);

bool lora_attached(const Model *m);
/* The adapter, switched on or off; NULL: none.  Its address is not used again while m lives. */
const Lora *lora_of(const Model *m);
double lora_dropout(const Model *m); /* 0 without an adapter */
int lora_rank(const Model *m);       /* of adapter_config.json; 0 without an adapter */
/* Off: forward functions see only the base model.  Returns the previous setting. */
bool lora_switch(Model *m, bool on);
const Lora *lora_active(const Model *m); /* the one in use; NULL: none, or switched off */

#endif
