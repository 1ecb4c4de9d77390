/* engine_options.h - the sizes and parts that an engine is made for. */
#ifndef GRPO_RL_ENGINE_OPTIONS_H
#define GRPO_RL_ENGINE_OPTIONS_H

#include "model/optimizer.h"
#include "rl/critic.h"
#include "rl/reference_source.h"

/* Are the rollout's activations recorded for the first iteration's forward?  Results are the same.
 * REUSE_AUTO: when they take at most a quarter of the machine's memory and half of what is free
 * beside the engine's own; not with gradient checkpointing, nor with an adapter's dropout. */
typedef enum ReuseRollout { REUSE_OFF, REUSE_AUTO, REUSE_ON } ReuseRollout;

/* max_prompt_tokens and max_new_tokens are together within the model's context; micro_batch_tokens
 * 0: one unit, the least; gradient_blocks: see gradient_tree.h; gradient_checkpointing: see
 * model_set_checkpointing(); critic: for engine_ppo, CRITIC_SHARED not with reuse_rollout. */
typedef struct EngineOptions {
#include "base/option_fields.h"
#include "rl/engine_options.def"
  int max_new_tokens;    /* sampling.max_new_tokens */
  int ref_prompt_tokens; /* longest prompt that the reference alone reads; 0: it reads none */
  int mask_tokens; /* tokens that the filters of sampling leave at most (0: there are none), which
                    the estimate counts; any sampling works */
  ReuseRollout reuse_rollout; /* REUSE_ON: EARG or ENOMEM where it cannot be */
  bool train;                 /* take gradients and optimizer state */
  bool turns;                 /* tokens may be injected while sampling; the batches record which */
  bool examples; /* take memory for engine_sft and engine_nll at once, not when first called */
  OptimizerOptions optimizer;
  ReferenceSource source; /* the reference, in place of a model; the engine holds it too */
} EngineOptions;
extern const OptionSet engine_option_set;
void engine_options_init(EngineOptions *o); /* the rows' initial values, without a critic */
/* Rows of a whole step: every prompt once, and every token of its completions. */
int64_t engine_step_rows(const EngineOptions *o);
/* Refuses options that contradict each other, whatever the model; dropout: of its adapter, or 0. */
Status engine_options_check(const EngineOptions *o, double dropout);

#endif
