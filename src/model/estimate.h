/* estimate.h - how much memory a model will take, before it exists. */
#ifndef GRPO_MODEL_ESTIMATE_H
#define GRPO_MODEL_ESTIMATE_H

#include "model/model.h"
#include "model/source.h"

typedef struct ModelPlan {
  Config config;
  Storage storage;
  Compute compute; /* decides how large panels are */
  /* What STORE_AUTO keeps: the checkpoint's projections, and its embedding and head, which every
   * compact storage but STORE_BF16 keeps so. */
  SourceType stored, stored_embedding;
  bool packed_in_place; /* an adapter's base in float32: in panels alone (model_pack_in_place) */
  bool shared;          /* a view of another model's weights: only the adapter is its own */
  int lora_rank;        /* 0: no adapter */
  int lora_modules;     /* weights that have one */
  double lora_dropout;
  size_t lora_params, lora_panels; /* reals: all of A and B; packed */
} ModelPlan;

/* All in float32, without an adapter. */
void plan_of_config(ModelPlan *p, const Config *c);
/* From the headers of a checkpoint; its tensors are checked as for loading. */
Status plan_of_checkpoint(ModelPlan *p, const char *path, Storage storage);
void plan_of_model(ModelPlan *p, const Model *m); /* as it is now */
/* An adapter on the weights whose names end in one of these ("q_proj"), or, for "all-linear", on
 * all projections inside layers. */
Status plan_add_lora(ModelPlan *p, int rank, int ntargets, const char *const *targets);

/* Weights, panels and the adapter's (rotary tables: decoder_bytes); train: and the gradients of
 * what is trained. */
size_t plan_weight_bytes(const ModelPlan *p, bool train);
size_t plan_optimizer_bytes(const ModelPlan *p);
/* Reals a row that a training forward can take from decoding (grad/replay.h). */
size_t plan_kept_columns(const ModelPlan *p);
/* What the adapter and compact weights add to model_step_bytes (model.h). */
size_t plan_step_bytes(const ModelPlan *p, int nrows, StepMemory kind);

/* ENOMEM and what to do about it, when the weights alone exceed what the machine has free. */
Status plan_check_memory(const ModelPlan *p, const char *path);
const char *storage_name(Storage s); /* "f32", "auto", "bf16", "int8", "nf4" */

#endif
