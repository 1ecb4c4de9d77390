/* decode.h - batched generation with a key/value cache, and no tape.
 *
 * A prompt is prefilled once per group; its completions share that part of the cache.  Finished
 * sequences leave the batch at once and waiting ones take their place.  The recorded
 * log-probabilities and entropies are those at the sampling temperature, bit for bit what the
 * training forward computes for the same tokens.
 *
 * All memory is taken in decoder_new(); decoder_run() takes none, but for Completion.sampling_mask.
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
  int first;             /* sample index of the first completion */
} Request;

/* The answer to a turn of the model: injected tokens, or the end of the completion. */
typedef struct Reply {
  bool continues;     /* false: the completion is over */
  const int32_t *ids; /* borrowed until the next call */
  int n;              /* 0: the model continues without injected tokens */
} Reply;

/* The sets of tokens that those of a completion were sampled from (kern/token_set.h), in order; an
 * injected token's is the whole vocabulary. */
typedef struct SamplingMask {
  uint32_t *words; /* [room] */
  size_t len, room;
} SamplingMask;
Status sampling_mask_reserve(SamplingMask *k, size_t room); /* keeps what is there */
void sampling_mask_free(SamplingMask *k);
/* The most words of the sets of max_new tokens; mask_tokens: sampling_mask_tokens(). */
size_t sampling_mask_words(int vocab, int mask_tokens, int max_new);

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
  int len;
  Finish finish;
  int request, sample;
} Completion;

typedef struct DecoderLimits {
  int max_sequences; /* decoded side by side */
  int max_prompts;   /* held in the cache at once */
  int max_prompt_tokens, max_new_tokens;
} DecoderLimits;

typedef struct Decoder Decoder;

Status decoder_new(Decoder **out, Model *m, const Tokenizer *tok /* NULL: no stop strings */,
                   const DecoderLimits *limits);
void decoder_free(Decoder *d);
/* From now on f is called after every token, with the completion so far.  A status other than
 * GRPO_OK ends the run, and decoder_run returns it.  NULL: nothing is called. */
void decoder_on_token(Decoder *d, Status (*f)(void *user, const Completion *c), void *user);
/* From now on f is called at the end of each turn.  An end token ends a turn, and so does a stop
 * string or pattern, which are looked for in the turn's own tokens.  c is the completion so far,
 * c->finish names the end, and the turn is c->ids[first .. c->len).  A reply that leaves no room
 * for a further token is not injected: the completion ends as FINISH_LENGTH.  Calls come after all
 * tokens of a decoding step, in the order of `out`.  A status other than GRPO_OK ends the run.
 * NULL: nothing is called, and the completion ends with its first turn. */
typedef Status (*TurnFn)(void *user, const Completion *c, int first, Reply *reply);
void decoder_on_turn(Decoder *d, TurnFn f, void *user);
/* From now on activations of request i go to slot slots[i] of a (slots NULL: i), which has room for
 * them; a NULL: they are forgotten. */
void decoder_record(Decoder *d, RolloutActivations *a, const int *slots);
/* bytes that decoder_new takes */
size_t decoder_bytes(const Config *c, Compute compute, const DecoderLimits *limits);

/* Completions of request 0 first: out[sum of n before r + sample].  `cancel` (may be NULL) is
 * looked at once a token; when it is set the call returns GRPO_ELIMIT. */
Status decoder_run(Decoder *d, int nrequests, const Request *requests, const Sampling *s,
                   Completion *out, const volatile int *cancel);
/* After a decoder_run that returned GRPO_EDIVERGED: the completion whose next token has logits that
 * are not finite; its request, sample, ids and len are filled in.  NULL: a callback returned it. */
const Completion *decoder_diverged(const Decoder *d);

#endif
