/* layout.h - which parameters a family has: names, shapes, slots. */
#ifndef GRPO_MODEL_LAYOUT_H
#define GRPO_MODEL_LAYOUT_H

#include "model/model_struct.h"

/* Lists the parameters of m->config in m, without memory for weights.  On failure the tables that
 * were made are m's to free. */
Status layout_params(Model *m);
/* Is parameter i the matrix of a projection inside a layer, an embedding or an output projection?
 * Position embeddings and weights that are used head by head are not. */
bool layout_is_matrix(const Model *m, int i);
bool layout_is_projection(const Model *m, int i);   /* inside a layer */
int layout_index(const Model *m, const char *name); /* of a parameter; -1: none */

#endif
