/* sampler.h - from a row of logits to a token.
 *
 * Filters act in transformers' order: repetition penalty, temperature, top-k, top-p, min-p.  Each
 * keeps the best tokens under one order (larger logit first, then the smaller id), so together they
 * are the worst token that is still allowed.  Sampling inverts the cumulative distribution of the
 * allowed tokens, in id order and in double, at one uniform number.
 */
#ifndef GRPO_MODEL_SAMPLER_H
#define GRPO_MODEL_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/regex.h"
#include "kern/real.h"

typedef struct Sampling {
  int max_new_tokens;        /* >= 1 */
  double temperature;        /* 0: greedy (log-probabilities are then those at temperature 1) */
  double top_p, min_p;       /* 1 and 0: off */
  int top_k;                 /* 0: off */
  double repetition_penalty; /* 1: off; over prompt and completion, as transformers defines it */
  int num_stop;
  const char *const *stop; /* the stop string stays in the text */
  Regex *stop_regex;       /* NULL: none; tried on the completion's text after each token */
} Sampling;
void sampling_init(Sampling *s);
Status sampling_check(const Sampling *s);

typedef struct Candidate {
  real z;
  int32_t id;
} Candidate;

/* The memory of one thread. */
typedef struct SamplerScratch {
  real *z, *p;     /* [vocab] */
  Candidate *cand; /* [vocab] */
} SamplerScratch;

/* A row of logits and how to sample from it. */
typedef struct SamplerInput {
  const Sampling *sampling;
  int vocab;
  const real *logits;          /* [vocab] */
  real inv_temp, max, lse;     /* the largest and log sum exp of logits * inv_temp */
  double uniform;              /* [0, 1) */
  const int32_t *prompt, *ids; /* of the repetition penalty */
  int prompt_len, len;
} SamplerInput;

int32_t sampler_token(const SamplerInput *d, const SamplerScratch *scratch);

#endif
