/* trainer.h - trainers, for the files of src/api that add functions to them. */
#ifndef GRPO_API_TRAINER_H
#define GRPO_API_TRAINER_H

#include "api/loss.h"
#include "api/samples.h"
#include "rl/engine.h"
#include "rl/update_options.h"

enum {
#define METRIC(field, name) METRIC_##field,
#include "rl/metrics.def"
#undef METRIC
  METRICS
};

typedef struct Slices Slices;

struct grpo_trainer {
  HANDLE_FIELDS;
  Engine *e;
  const Tokenizer *tok; /* held by the engine */
  char *base;           /* path of the policy's weights, which an adapter names; NULL: none */
  int prompts;          /* of the rollout in the batch; 0: none */
  int64_t step;
  Texts texts;
  double *reward, *advantage; /* [cap] */
  size_t cap;
  bool scored, has_advantages;
  grpo_metric metric[METRICS];
  grpo_metrics metrics;
  Slices *slices;                 /* NULL: no step was ever made in parts (slices.c) */
  void (*slices_free)(Slices *s); /* ends a step in progress, which changes nothing more */
};

/* The batch of the engine holds new completions of this many prompts. */
Status trainer_has_batch(grpo_trainer *t, int prompts);
/* The parts of a step, as the functions of grpo.h of these names make them. */
Status trainer_rollout(grpo_trainer *t, const grpo_prompt *p, size_t n, const grpo_sampling *o);
Status trainer_score_one(grpo_trainer *t, size_t i, grpo_reward_fn fn, void *user);
Status trainer_advantages(grpo_trainer *t, const grpo_advantage_options *o, double *out,
                          size_t capacity);
Status trainer_reference(grpo_trainer *t);
Status trainer_update(grpo_trainer *t, const grpo_update_options *o, const grpo_metrics **metrics);
Status trainer_sft(grpo_trainer *t, const grpo_example *examples, size_t n,
                   const grpo_update_options *o, const grpo_metrics **metrics);

/* Reads a host's options: *own are all of them, *out those of the engine. */
Status trainer_take_update(const grpo_update_options *o, grpo_update_options *own,
                           UpdateOptions *out);

#endif
