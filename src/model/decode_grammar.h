/* decode_grammar.h - sampling bound to a grammar: which tokens may come next in each sequence.
 *
 * Each turn is a text of the grammar: behind injected tokens it starts from its beginning.  A run
 * has one grammar; in a feed each request may have its own.
 */
#ifndef GRPO_MODEL_DECODE_GRAMMAR_H
#define GRPO_MODEL_DECODE_GRAMMAR_H

#include "model/decode_struct.h"

/* A run begins.  EARG where no token of the vocabulary can begin a text of the grammar. */
Status decoder_grammar_begin(Decoder *d);
/* *m becomes the matcher of the grammar of *s; it stays where it fits.  EARG as above. */
Status decoder_grammar_open(Decoder *d, Matcher **m, const Sampling *s);
/* Sets job->allowed of all jobs; in a feed also job->barred, where a run would fail with EARG or
 * ELIMIT. */
Status decoder_grammar_jobs(Decoder *d);

#endif
