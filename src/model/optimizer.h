/* optimizer.h - AdamW or Lion over a model's parameters, with global-norm clipping. */
#ifndef GRPO_MODEL_OPTIMIZER_H
#define GRPO_MODEL_OPTIMIZER_H

#include "grad/adamw.h"
#include "grad/moments.h"
#include "model/model.h"

typedef struct OptimizerOptions {
#include "base/option_fields.h"
#include "model/optimizer.def"
  AdamWOptions adamw;          /* of every kind; Lion does not read eps */
  bool decay_bias, decay_norm; /* false: no weight decay for them */
} OptimizerOptions;
extern const OptionSet optimizer_option_set;
void optimizer_options_init(OptimizerOptions *o);

/* The default that an option has with one optimizer, in place of its row's. */
typedef struct OptimizerDefault {
  OptimizerKind kind;
  const char *path;
  double number;
} OptimizerDefault;
int optimizer_default_count(void);
const OptimizerDefault *optimizer_default_at(int i);

typedef struct Optimizer Optimizer;

/* m is trainable and outlives the optimizer.  A rank keeps the moments of its slice of the
 * parameters (slices.h) and makes their step; all ranks make the calls below together.  EIO: they
 * have lost one another. */
Status optimizer_new(Optimizer **out, Model *m, const OptimizerOptions *o);
void optimizer_free(Optimizer *o);
/* The L2 norm of all gradients, of which each rank has its slice's; NaN where one of them is. */
Status optimizer_grad_norm(Optimizer *o, const Ctx *cx, double *norm);
/* The name of the parameter whose own gradient had the largest norm when optimizer_grad_norm was
 * last called; NULL: it was not.  It is the model's. */
const char *optimizer_largest_gradient(const Optimizer *o);
/* Clips the gradients (max_norm <= 0: no clipping), makes a step, gives all ranks the weights, and
 * calls model_updated.  `norm` is the result of optimizer_grad_norm. */
Status optimizer_step(Optimizer *o, const Ctx *cx, double lr, double max_norm, double norm);
uint64_t optimizer_steps(const Optimizer *o);
/* The state is stored exactly, as safetensors "PARAM.exp_avg" and so on (moments.h), with the step
 * count in the metadata, and the optimizer's name where it is not AdamW.  All ranks make the call;
 * rank 0 writes what they have, and a failure to write is reported on rank 0 alone.  path NULL:
 * nothing is written. */
Status optimizer_save(const Optimizer *o, const char *path);
Status optimizer_load(Optimizer *o, const char *path);
/* The same state as bytes in memory, for one process alone: EARG on ranks.  The bytes are for this
 * machine and version; optimizer_put refuses others with EFORMAT, and changes nothing then. */
size_t optimizer_state_bytes(const Optimizer *o);
Status optimizer_get(const Optimizer *o, void *bytes);
Status optimizer_put(Optimizer *o, const void *bytes, size_t n);

#endif
