/* decode_steps.h - the steps of decoding, for a run of requests (decode.h) and for a feed of them
 * (decode_feed.h): a prompt gets a place, its rows are prefilled, its completions start and
 * advance. */
#ifndef GRPO_MODEL_DECODE_STEPS_H
#define GRPO_MODEL_DECODE_STEPS_H

#include "model/decode_struct.h"

int decoder_max_spans(const DecoderLimits *l);  /* of a forward */
int decoder_logit_rows(const DecoderLimits *l); /* rows of Decoder.logits */

/* number: of the request in the messages */
Status decoder_check_request(const Decoder *d, const Request *r, int number);
void decoder_forget(Decoder *d); /* all prompts and sequences */

Status decoder_run_rows(Decoder *d, Tensor **x); /* the rows that d->ids, pos and span describe */

Resident *decoder_unused_resident(Decoder *d); /* NULL: there is none */
/* Gives a prompt a place; the caller knows that there is one. */
void decoder_admit(Decoder *d, const Resident *r);
/* Runs one forward over rows of waiting prompts; *more: some are left. */
Status decoder_prefill_some(Decoder *d, bool *more);
/* Starts completions of prompts that are prefilled, while there is room. */
Status decoder_start_sequences(Decoder *d);
Status decoder_advance(Decoder *d); /* every sequence by a token or more */

/* The sequence's slot becomes -1, and decoder_drop_finished has to follow. */
void decoder_leave(Decoder *d, ActiveSequence *s);
void decoder_drop_finished(Decoder *d);

#endif
