/* forward_logits.h - from hidden states through the output projection to logits and
 * log-probabilities. */
#ifndef GRPO_MODEL_FORWARD_LOGITS_H
#define GRPO_MODEL_FORWARD_LOGITS_H

#include "grad/tape.h"
#include "model/model.h"
#include "model/pack.h"

/* out [2, nout]: log-probabilities of the targets at this temperature, entropies.  With ref (a
 * frozen model of the same vocabulary) or the pack's ref_rows [3, nout]: also the full KL, or the
 * pack's divergence;
 * ref_hidden: [nout, c_ref] from forward_out_hidden. */
Status forward_logp(Model *m, Tape *t, const Pack *p, Tensor *hidden, double temperature,
                    Model *ref, const real *ref_hidden, Tensor **out);
/* The rows of hidden that predict outputs, copied: [nout, hidden_size] in the tape's arena. */
Status forward_out_hidden(Tape *t, const Pack *p, const Tensor *hidden, real **out);
/* Logits [nrows, vocab] of a plain sequence; no gradient unless recorded. */
Status forward_logits(Model *m, Tape *t, const Pack *p, Tensor **logits);
/* Logits [n, vocab_size] of normed hidden states, without gradients: bit for bit those that
 * forward_logp computes with. */
Status forward_row_logits(Model *m, const Ctx *cx, int n, const real *hidden, real *logits);
/* EDIVERGED, for logits that are not finite: names a parameter that is not. */
Status forward_diverged(Model *m, const Ctx *cx);

#endif
