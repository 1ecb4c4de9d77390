/* resize.h - a vocabulary that grows: new rows of the embedding and the output projection are the
 * mean of the old ones, so that an untrained token is neither likely nor far from all others. */
#ifndef GRPO_MODEL_RESIZE_H
#define GRPO_MODEL_RESIZE_H

#include "model/model.h"

/* EARG for fewer tokens, and once the model is trainable, has an adapter or is held by somebody
 * else.  Params move. */
Status resize_vocab(Model *m, int n);

#endif
