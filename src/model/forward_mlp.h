/* forward_mlp.h - feed-forward layers, and mixtures of experts. */
#ifndef GRPO_MODEL_FORWARD_MLP_H
#define GRPO_MODEL_FORWARD_MLP_H

#include "model/forward_pass.h"

/* act(in[0]) * in[1].  Only these are kept for backward, which computes their product again. */
Status pass_gated(Pass *p, Tensor *const in[2], Tensor **act);
/* The feed-forward part of a layer, dense, a mixture or both.  h: x, the residual stream, normed
 * where the layer has this norm. */
Status pass_mlp(Pass *p, const Layer *l, Tensor *x, Tensor *h, Tensor **y);

#endif
