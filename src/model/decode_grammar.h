/* decode_grammar.h - sampling bound to a grammar: which tokens may come next in each sequence.
 *
 * Each turn is a text of the grammar: behind injected tokens it starts from its beginning.
 */
#ifndef GRPO_MODEL_DECODE_GRAMMAR_H
#define GRPO_MODEL_DECODE_GRAMMAR_H

#include "model/decode_struct.h"

/* A run begins.  EARG where no token of the vocabulary can begin a text of the grammar. */
Status decoder_grammar_begin(Decoder *d);
/* Sets job->allowed of all jobs. */
Status decoder_grammar_jobs(Decoder *d);

#endif
