/* optimizer.h - AdamW over a model's parameters, with global-norm clipping. */
#ifndef GRPO_MODEL_OPTIMIZER_H
#define GRPO_MODEL_OPTIMIZER_H

#include "grad/adamw.h"
#include "model/model.h"

typedef struct OptimizerOptions {
  AdamWOptions adamw;
  bool decay_bias, decay_norm; /* false: no weight decay for them */
} OptimizerOptions;
void optimizer_options_init(OptimizerOptions *o);

typedef struct Optimizer Optimizer;

/* m is trainable and outlives the optimizer. */
Status optimizer_new(Optimizer **out, Model *m, const OptimizerOptions *o);
void optimizer_free(Optimizer *o);
/* The L2 norm of all gradients; NaN where one of them is NaN. */
double optimizer_grad_norm(Optimizer *o, const Ctx *cx);
/* Clips the gradients (max_norm <= 0: no clipping), makes a step, and calls model_updated.  `norm`
 * is the result of optimizer_grad_norm. */
Status optimizer_step(Optimizer *o, const Ctx *cx, double lr, double max_norm, double norm);
uint64_t optimizer_steps(const Optimizer *o);
/* Moments are stored exactly, as safetensors "PARAM.exp_avg" and "PARAM.exp_avg_sq" with the step
 * count in the metadata. */
Status optimizer_save(const Optimizer *o, const char *path);
Status optimizer_load(Optimizer *o, const char *path);

#endif
