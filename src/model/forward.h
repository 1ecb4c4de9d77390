/* forward.h - the forward pass of a model, in training and in decoding. */
#ifndef GRPO_MODEL_FORWARD_H
#define GRPO_MODEL_FORWARD_H

#include "grad/tape.h"
#include "model/model.h"
#include "model/pack.h"
#include "model/rows.h"

/* The residual stream after the last layer, before the final norm: [n, hidden_size]. */
Status forward_layers(Model *m, Tape *t, const Rows *r, Tensor **out);
Status forward_final_norm(Model *m, Tape *t, Tensor *x, Tensor **out);
/* Training: hidden [nrows, hidden_size] after the final norm. */
Status forward_hidden(Model *m, Tape *t, const Pack *p, Tensor **hidden);

#endif
