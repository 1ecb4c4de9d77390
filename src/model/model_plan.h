/* model_plan.h - how much memory a model will take, before it exists. */
#ifndef GRPO_MODEL_MODEL_PLAN_H
#define GRPO_MODEL_MODEL_PLAN_H

#include "grad/moments.h"
#include "model/estimate.h"
#include "model/model.h"

typedef struct ModelPlan {
  Config config;
  Storage storage;
  Compute compute; /* decides how large panels are */
  /* The types that STORE_AUTO keeps: those of the checkpoint's projections, and of its embedding
   * and output projection, which every quantised storage but STORE_BF16 keeps as they are. */
  QuantType stored, stored_embedding;
  bool packed_in_place; /* float32 weights that an adapter freezes (frozen.h) */
  bool shared;          /* a view of another model's weights: only the adapter is its own */
  int lora_rank;        /* 0: no adapter */
  int lora_modules;     /* weights that have one */
  double lora_dropout;
  size_t lora_params, lora_panels; /* reals: all of A and B; packed */
  size_t lora_small;               /* of lora_params, those of matrices smaller than MOMENTS8_MIN */
} ModelPlan;

/* All in float32, without an adapter. */
void model_plan_of_config(ModelPlan *p, const Config *c);
void model_plan_of_model(ModelPlan *p, const Model *m); /* as it is now */
/* An adapter on the weights whose names end in one of these ("q_proj"), or, for "all-linear", on
 * all projections inside layers. */
Status model_plan_add_lora(ModelPlan *p, int rank, int ntargets, const char *const *targets);

/* Weights, panels and the adapter's (rotary tables: decoder_bytes); train: and the
 * gradients of the trained parameters. */
size_t model_plan_weight_bytes(const ModelPlan *p, bool train);
uint64_t model_plan_trained(const ModelPlan *p); /* numbers that training changes */
size_t model_plan_optimizer_bytes(const ModelPlan *p, OptimizerKind kind);
/* Bytes that the adapter and quantised weights add to estimate_step_bytes. */
size_t model_plan_step_bytes(const ModelPlan *p, int nrows, StepMemory kind);

/* ENOMEM and what to do about it, when the weights alone exceed what the machine has free. */
Status model_plan_check_memory(const ModelPlan *p, const char *path);
/* ENOMEM and what would fit, when a model made from the configuration, with random weights, exceeds
 * what the machine has free. */
Status model_plan_check_new(const Config *c);

#endif
