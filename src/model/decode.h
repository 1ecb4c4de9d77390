/* decode.h - batched generation with a key/value cache, and no tape.
 *
 * A prompt is prefilled once per group; its completions share that part of the
 * cache.  Finished sequences leave the batch at once and waiting ones take
 * their place.  The recorded log-probabilities and entropies are those of the
 * unfiltered distribution at the sampling temperature, bit for bit what the
 * training forward computes for the same tokens.
 *
 * All memory is taken in decoder_new(); decoder_run() takes none.
 */
#ifndef GRPO_MODEL_DECODE_H
#define GRPO_MODEL_DECODE_H

#include "base/rng.h"
#include "model/model.h"
#include "model/rollout_activations.h"
#include "model/sampler.h"
#include "text/tokenizer.h"

typedef enum Finish { FINISH_EOS, FINISH_STOP, FINISH_LENGTH } Finish;
const char *finish_name(Finish f); /* "eos", "stop", "length" */

typedef struct Request {
  const int32_t *prompt; /* at least 1 token */
  int prompt_len;
  int n;                 /* completions of this prompt */
  RngKey key;            /* sample index and token index are filled in */
  const int32_t *target; /* [target_len] a text to compare with: see Completion.target_logp */
  int target_len;        /* 0: none */
} Request;

/* What follows a turn of the model: tokens that are put in, or the end of the completion. */
typedef struct Reply {
  bool continues;     /* false: the completion is over */
  const int32_t *ids; /* borrowed until the next call; continues with n = 0: it just continues */
  int n;
} Reply;

typedef struct Completion {
  int32_t *ids;          /* [max_new_tokens] caller's memory; the end token is included */
  float *logp, *entropy; /* [max_new_tokens] caller's memory; entropy may be NULL */
  float *target_logp; /* [max_new_tokens] or NULL: at each position that the request's target has,
                            the log-probability of its token there, after what was drawn so far */
  uint8_t *sampled; /* [max_new_tokens] caller's memory: 1 drawn, 0 put in (its logp and entropy are
                     * 0); NULL: nobody asks, and nothing may be put in */
  int len;
  Finish finish;
  int request, sample;
} Completion;

typedef struct DecoderLimits {
  int max_sequences; /* that decode side by side */
  int max_prompts;   /* whose cache is held at once */
  int max_prompt_tokens, max_new_tokens;
} DecoderLimits;

typedef struct Decoder Decoder;

Status decoder_new(Decoder **out, Model *m, const Tokenizer *tok /* NULL: no stop strings */,
                   const DecoderLimits *limits);
void decoder_free(Decoder *d);
/* From now on f is called after every token, with the completion so far; what it returns other than
 * GRPO_OK ends the run and is what decoder_run returns.  NULL: nobody. */
void decoder_on_token(Decoder *d, Status (*f)(void *user, const Completion *c), void *user);
/* From now on f is called at the end of each turn: an end token, or a stop string or pattern, which are
 * looked for in the turn's own tokens.  c is the completion so far, c->finish says which, the turn is
 * c->ids[first .. c->len).  A reply that leaves no room for a further token is not put in: the
 * completion ends as FINISH_LENGTH.  Calls come after all tokens of a decoding step, in the order
 * of `out`.  What f returns other than GRPO_OK ends the run.  NULL: nobody, a turn's end is the
 * completion's. */
typedef Status (*TurnFn)(void *user, const Completion *c, int first, Reply *reply);
void decoder_on_turn(Decoder *d, TurnFn f, void *user);
/* From now on activations of request i go to slot slots[i] of a (slots NULL: i), which has room for
 * them; a NULL: they are forgotten. */
void decoder_record(Decoder *d, RolloutActivations *a, const int *slots);
/* what decoder_new takes */
size_t decoder_bytes(const Config *c, Compute compute, const DecoderLimits *limits);

/* Completions of request 0 first: out[sum of n before r + sample].  `cancel` (may be NULL) is
 * looked at once a token; when it is set the call returns GRPO_ELIMIT. */
Status decoder_run(Decoder *d, int nrequests, const Request *requests, const Sampling *s,
                   Completion *out, const volatile int *cancel);

#endif
