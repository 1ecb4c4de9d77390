/* sampler.h - from a row of logits to a token.
 *
 * A grammar says which tokens are allowed.  Among these, filters act in transformers' order:
 * repetition penalty, temperature, top-k, top-p, min-p.  Each keeps the best tokens under one order
 * (larger logit first, then the smaller id), so together they are the worst token that is still
 * allowed.  Sampling inverts the cumulative distribution of the allowed tokens, in id order and in
 * double, at one uniform number.
 */
#ifndef GRPO_MODEL_SAMPLER_H
#define GRPO_MODEL_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/options.h"
#include "base/regex.h"
#include "kern/kern.h"
#include "text/grammar.h"

/* At temperature 0 log-probabilities are those at temperature 1; the repetition penalty is over
 * prompt and completion, as transformers defines it. */
typedef struct Sampling {
#include "base/option_fields.h"
#include "model/sampling.def"
  int num_stop;
  const char *const *stop; /* the stop string stays in the text */
  Regex *stop_regex;       /* NULL: none; tried on the completion's text after each token */
  Grammar *grammar;        /* every completion, or turn of one, is a text of it; NULL: any text */
} Sampling;
extern const OptionSet sampling_option_set;
void sampling_init(Sampling *s);
Status sampling_check(const Sampling *s);

/* A row of logits and how to sample from it. */
typedef struct SamplerInput {
  const Sampling *sampling;
  const KernelClass *cpu;
  int vocab;
  const real *logits;          /* [vocab] */
  real inv_temp, max, lse;     /* the largest and log sum exp of logits * inv_temp */
  double uniform;              /* [0, 1) */
  const int32_t *prompt, *ids; /* of the repetition penalty */
  int prompt_len, len;
  const int32_t *forbidden; /* [nforbidden] tokens with probability 0, whatever their logits */
  int nforbidden;
  const uint32_t
      *allowed; /* a bit for each token, 0: its probability is 0; NULL: all are allowed */
} SamplerInput;

/* Do filters leave tokens out?  Not at temperature 0, where nothing is sampled. */
bool sampling_is_truncated(const Sampling *s);
/* The most tokens that the filters can leave: vocab or less; 0: there are no filters. */
int sampling_mask_tokens(const Sampling *s, int vocab);

size_t sampler_scratch_bytes(int vocab); /* memory of one thread, for sampler_token */
/* set: NULL, or receives the set of tokens that the filters have left (token_set.h). */
int32_t sampler_token(const SamplerInput *d, void *scratch, uint32_t *set);

#endif
