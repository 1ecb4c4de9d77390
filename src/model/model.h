/* model.h - one decoder-only transformer, described by Config.
 *
 * Parameters are named and laid out as the family's Hugging Face checkpoint has them (GPT-2's
 * Conv1D weights stay [in, out]).  In float32 every weight of a product also has packed panels, of
 * float32 or, where the model computes in bf16, of that.  After parameters change, call
 * model_updated(); the panels are then renewed before the next forward.
 *
 * A model may instead keep its weights quantised, or packed in place (frozen.h): they are frozen
 * then.  Norms, biases and position embeddings stay float32.
 */
#ifndef GRPO_MODEL_MODEL_H
#define GRPO_MODEL_MODEL_H

#include "base/pool.h"
#include "grad/tape.h"
#include "model/config.h"
#include "model/param.h"

typedef struct Model Model; /* reference-counted */

/* ---- making -------------------------------------------------------------------------- */

/* Random weights: normal(0, initializer_range), gpt2's residual projections scaled by
 * 1/sqrt(2 layers), norms 1 (0 where 1 + w multiplies), biases 0. */
Status model_new(Model **out, Pool *pool, const Config *c, uint64_t seed);
/* The base model without its adapter, frozen: it shares the weights and keeps them alive. */
Status model_view(Model **out, const Model *m);
Model *model_retain(Model *m);
void model_release(Model *m); /* NULL is fine */

/* For those who fill the weights: names, shapes and slots of every parameter, then memory for the
 * weights (not initialised), panels and the rope table. */
Status model_layout(Model **out, Pool *pool, const Config *c);
Status model_allocate(Model *m);

/* ---- looking in ------------------------------------------------------------------------ */

const Config *model_config(const Model *m);
int model_num_params(const Model *m);
Param *model_param(Model *m, int i);           /* in the checkpoint's order; then the adapter's */
Param *model_find(Model *m, const char *name); /* NULL: none */
uint64_t model_count(const Model *m);          /* parameters, tied weights once */
uint64_t model_count_trainable(const Model *m);
/* The next trainable parameter from *i on; *i becomes the number after it.  NULL: no more; m may be
 * NULL. */
Param *model_next_trainable(Model *m, int *i);
bool model_trains(const Model *m, int i); /* would training give parameter i a gradient? */
/* Bytes of a token's keys and values in all layers; every_head: if no heads shared them. */
size_t model_cache_bytes(const Model *m, bool every_head);
/* A number, never 0, that changes whenever the results of the model may have changed: after
 * model_updated(), and when an adapter came, went or was switched. */
uint64_t model_version(const Model *m);
void model_updated(Model *m); /* call it after parameters changed */

/* ---- settings --------------------------------------------------------------------------- */

/* Allocates or frees the gradients: of all parameters, or of the adapter's alone where there is
 * one.  EARG for quantised weights without an adapter. */
Status model_set_trainable(Model *m, bool on);
void model_zero_grad(Model *m);
/* Gradient checkpointing: training keeps only the input of each layer and computes the layer again
 * in backward; the same bits, less memory, about a third more time. */
void model_set_checkpointing(Model *m, bool on);
/* config.json's mask_token_id: the model fills in masks and sees both ways; -1: it is causal. */
void model_set_mask(Model *m, int id);
/* The class of kernels that its tapes and decoders get; NULL, as at first: the process's choice.
 * It must not change once there is a decoder. */
void model_set_kernels(Model *m, const KernelClass *cpu);
/* The backend that computes the operations of its tapes; NULL, as at first: the CPU. */
void model_set_backend(Model *m, const Backend *backend);
/* A tape on the model's pool, class of kernels and backend. */
Status model_tape(const Model *m, Tape *t);
/* Takes memory for sequences of this length now instead of with the first one. */
Status model_reserve_positions(Model *m, int positions);

const char *compute_name(Compute c); /* "f32", "bf16" */
/* How products with its weights, and attention, are computed, forward and backward; COMPUTE_F32 at
 * first.  It must not change once there is a decoder, which keeps keys and values accordingly.  In
 * bf16 the panels are bf16's, half as large; the weights stay what they are.  Copies and views have
 * the setting too.  EARG while views share the weights. */
Status model_set_compute(Model *m, Compute compute);
Compute model_compute(const Model *m);

#endif
