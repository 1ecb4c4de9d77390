/* forward_state.h - layers with a state in place of keys: gated DeltaNet, and the gated
 * convolution of LFM2. */
#ifndef GRPO_MODEL_FORWARD_STATE_H
#define GRPO_MODEL_FORWARD_STATE_H

#include "model/forward_pass.h"

/* Mixers with a state: each row of the result is made of the rows of h up to it. */
Status pass_short_conv(Pass *p, int layer, Tensor *h, Tensor **o);
Status pass_delta_net(Pass *p, int layer, Tensor *h, Tensor **o);

#endif
