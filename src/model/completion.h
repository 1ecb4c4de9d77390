/* completion.h - what the decoder is asked for and what it gives: requests, completions, replies at
 * the ends of turns; its limits. */
#ifndef GRPO_MODEL_COMPLETION_H
#define GRPO_MODEL_COMPLETION_H

#include <stdbool.h>

#include "base/rng.h"
#include "model/sampling_mask.h"

typedef enum Finish { FINISH_EOS, FINISH_STOP, FINISH_LENGTH } Finish;
const char *finish_name(Finish f); /* "eos", "stop", "length" */

typedef struct Request {
  const int32_t *prompt; /* at least 1 token */
  int prompt_len;
  int n;                 /* completions of this prompt */
  RngKey key;            /* of the first completion; the sample and token index are added */
  const int32_t *target; /* [target_len] a text to compare with: see Completion.target_logp */
  int target_len;        /* 0: none */
} Request;

/* The answer to a turn of the model: injected tokens, or the end of the completion. */
typedef struct Reply {
  bool continues;     /* false: the completion is over */
  const int32_t *ids; /* borrowed until the next call */
  int n;              /* 0: the model continues without injected tokens */
} Reply;

typedef struct Completion {
  int32_t *ids;          /* [max_new_tokens] caller's memory; the end token is included */
  float *logp, *entropy; /* [max_new_tokens] caller's memory; entropy may be NULL */
  /* [max_new_tokens] or NULL: at each position of the request's target, the log-probability of its
   * token there, after the tokens sampled so far. */
  float *target_logp;
  /* [max_new_tokens] caller's memory: 1 sampled, 0 injected (logp and entropy are 0 then).  NULL:
   * nothing can be injected. */
  uint8_t *sampled;
  /* Caller's: the completion's sets begin at len 0 and are recorded, memory is taken as they grow,
   * and logp and entropy are those of the distributions renormalised over them.  NULL: nothing is
   * recorded, and logp and entropy are those of all tokens. */
  SamplingMask *sampling_mask;
  /* Caller's: the top_n likeliest tokens at each position, the best one first, and their
   * log-probabilities over all tokens: [max_new_tokens, top_n].  top_n 0: nothing is recorded. */
  int top_n;
  int32_t *top_ids;
  float *top_logp;
  int len;
  bool over; /* it has ended, by `finish` */
  Finish finish;
  int request, sample;
} Completion;

typedef struct DecoderLimits {
  int max_sequences; /* decoded side by side */
  int max_prompts;   /* held in the cache at once */
  int max_prompt_tokens, max_new_tokens;
} DecoderLimits;

/* At the end of a turn: see decoder_on_turn (decode.h). */
typedef Status (*TurnFn)(void *user, const Completion *c, int first, Reply *reply);

#endif
