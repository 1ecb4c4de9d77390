/* decode.h - batched generation with a key/value cache, and no tape.
 *
 * A prompt is prefilled once per group; its completions share that part of the cache.  Finished
 * sequences leave the batch at once and waiting ones take their place.  The recorded
 * log-probabilities and entropies are those at the sampling temperature, bit for bit what the
 * training forward computes for the same tokens.
 *
 * All memory is taken in decoder_new(); decoder_run() takes none, except for
 * Completion.sampling_mask and for the states of a grammar.
 */
#ifndef GRPO_MODEL_DECODE_H
#define GRPO_MODEL_DECODE_H

#include "model/completion.h"
#include "model/model.h"
#include "model/rollout_activations.h"
#include "model/sampler.h"
#include "text/tokenizer.h"

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
void decoder_on_turn(Decoder *d, TurnFn f, void *user);
/* From now on activations of request i go to slot slots[i] of a (slots NULL: i), which has room for
 * them; a NULL: they are forgotten. */
void decoder_record(Decoder *d, RolloutActivations *a, const int *slots);
/* From now on a forward over fewer rows, at most 16, is filled up to `rows` with guesses at the
 * next tokens (decode_draft.h); 0: never.  No bit of a completion changes, only how many forwards
 * there are, and so the order in which different completions come to the ends of their turns.  A
 * new decoder guesses where that was measured to gain. */
Status decoder_draft(Decoder *d, int rows);

/* Completions of request 0 first: out[sum of n before r + sample].  `cancel` (may be NULL) is
 * looked at once a token; when it is set the call returns GRPO_ELIMIT. */
Status decoder_run(Decoder *d, int nrequests, const Request *requests, const Sampling *s,
                   Completion *out, const volatile int *cancel);
/* After a decoder_run that returned GRPO_EDIVERGED: the completion whose next token has logits that
 * are not finite; its request, sample, ids and len are filled in.  NULL: a callback returned it. */
const Completion *decoder_diverged(const Decoder *d);

#endif
