/* model_tree.h - a model's weights as a tree, which print(model) shows. */
#ifndef GRPO_SCRIPT_MODEL_TREE_H
#define GRPO_SCRIPT_MODEL_TREE_H

#include "base/buf.h"
#include "model/model.h"

/* Appends a line for each part, and for each weight with its shape.  Layers stand once, with their
 * number; a weight that only some of them have says in how many it is. */
void model_tree(Model *m, Buf *out);

#endif
