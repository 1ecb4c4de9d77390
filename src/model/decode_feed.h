/* decode_feed.h - decoding of requests that come one by one, as a server needs it.
 *
 * Between two steps a request may join the others, with its own sampling options, or be dropped.
 * Rows never influence each other, so a completion has the bits that decoder_run would give it.
 * A decoder that has been opened is for the feed until the next decoder_run, which drops what is
 * left.
 */
#ifndef GRPO_MODEL_DECODE_FEED_H
#define GRPO_MODEL_DECODE_FEED_H

#include "model/decode.h"

/* Drops all that was being decoded. */
void decoder_feed_open(Decoder *d);
/* Gives a request a place.  It is borrowed, with *s and out[r->n], until all its completions are
 * over or it is dropped.  *taken: false, every place for a prompt is taken.  A completion whose
 * grammar cannot be continued ends with FINISH_LENGTH.  A sampling_mask is not recorded. */
Status decoder_feed_add(Decoder *d, const Request *r, const Sampling *s, Completion *out,
                        bool *taken);
/* One forward of waiting prompts and one of all sequences.  *busy: something is left to decode.
 * After a failure nothing is: the feed is as after decoder_feed_open. */
Status decoder_feed_step(Decoder *d, bool *busy);
/* Ends what is left of the request whose completions are at `out`. */
void decoder_feed_drop(Decoder *d, const Completion *out);

#endif
