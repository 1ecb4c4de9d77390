/* forward_pass.h - what the parts of a forward pass share: the pass in progress, and projections,
 * norms and cuts of rows.  forward.c puts layers together.
 */
#ifndef GRPO_MODEL_FORWARD_PASS_H
#define GRPO_MODEL_FORWARD_PASS_H

#include "grad/tape.h"
#include "model/lora.h"
#include "model/model_struct.h"
#include "model/rows.h"

/* A forward in progress; attributes outlive it in the tape's arena. */
typedef struct Pass {
  Model *m;
  Tape *t;
  const Rows *rows;
  const int32_t *rope_rows; /* of the tables of rotary positions */
  EmbeddingAttr embedding;
  const Lora *lora; /* NULL: none */
  bool in_place;    /* no gradients: branches are added to the residual stream in place */
  Tensor *own;      /* [n, layers * per_layer_size] the layers' own inputs; NULL: none */
  Tensor *kv[2][2]; /* keys and values that later layers read: full ones', those with a window */
} Pass;

/* y = w x + b, and an adapter's part. */
Status pass_project(Pass *p, const LoraModule *mod, Tensor *w, Tensor *b, int in_out, Tensor *x,
                    Tensor **y);
/* The projection in `slot`; its bias is in the next slot. */
Status pass_linear(Pass *p, const Layer *l, LayerSlot slot, Tensor *x, Tensor **y);
/* A norm's weight of ones, for families whose norms have none. */
Status pass_ones(Pass *p, int n, Tensor **w);
Status pass_norm(Pass *p, Tensor *x, Tensor *w, Tensor *b, Tensor **y);
/* y = factor x; 0 and 1: y is x.  A product or a norm made x. */
Status pass_scaled(Pass *p, Tensor *x, double factor, Tensor **y);
Status pass_slice(Pass *p, Tensor *x, int from, int n, Tensor **y); /* columns */
/* Cuts the columns of x into n tensors of these widths. */
Status pass_split(Pass *p, Tensor *x, int n, const int *width, Tensor **y);

#endif
