/* model.h - one decoder-only transformer, described by Config.
 *
 * Parameters are named and laid out as the family's Hugging Face checkpoint has
 * them (GPT-2's Conv1D weights stay [in, out]).  In float32 every weight of a
 * matrix product also has packed panels, of float32 or, where the model
 * computes in bf16, of that; after parameters change, call model_updated() and
 * the panels are renewed before the next forward.
 *
 * A model may instead be loaded in a compact storage: its matrices are then
 * frozen (t.quant, with t.data NULL); norms, biases and position embeddings stay
 * float32.  The same happens to float32 weights that an adapter freezes: they are
 * kept once, in panels (GPT-2's excepted).
 */
#ifndef GRPO_MODEL_MODEL_H
#define GRPO_MODEL_MODEL_H

#include "base/pool.h"
#include "grad/attrs.h"
#include "grad/tape.h"
#include "model/config.h"

typedef struct Param {
  const char *name;      /* "model.layers.0.self_attn.q_proj.weight" */
  Tensor t;              /* t.grad: owned by the model when trainable, zeroed by model_zero_grad;
                            t.data NULL and t.quant set: compact and frozen */
  bool trainable;        /* has a gradient now */
  bool in_out;           /* stored [in, out] */
  bool by_head;          /* used head by head: stays float32, takes no adapter (grad/latent.h) */
  bool is_bias, is_norm; /* for weight decay's exceptions */
} Param;

typedef struct Model Model; /* reference-counted */

/* Random weights: normal(0, initializer_range), gpt2's residual projections scaled by
 * 1/sqrt(2 layers), norms 1 (0 where 1 + w multiplies), biases 0. */
Status model_new(Model **out, Pool *pool, const Config *c, uint64_t seed);
/* How matrices are kept.  STORE_INT8 and STORE_NF4 are for the projections inside layers; the
 * embedding and the head stay as the checkpoint has them. */
typedef enum Storage {
  STORE_F32,  /* float32 with panels: the only form that full training takes */
  STORE_AUTO, /* as in the checkpoint; other block formats than bitsandbytes' NF4 become float32 */
  STORE_BF16,
  STORE_INT8,
  STORE_NF4
} Storage;
/* A directory in Hugging Face layout: config.json and model.safetensors, or its shards with an
 * index; f32, f16, bf16, or bitsandbytes' NF4.  Converted while it is read, a few rows at a time.
 * ENOMEM, before any memory is taken, when the weights exceed what the machine has free. */
Status model_load(Model **out, Pool *pool, const char *dir, Storage storage);
/* The same for a model that computes in bf16 from the start: what it takes is less. */
Status model_load_compute(Model **out, Pool *pool, const char *dir, Storage storage, Compute c);
/* A frozen copy: no gradients.  With an adapter (lora.h) A and B are copied and the base, which is
 * frozen then, is shared; so are compact weights, which never change. */
Status model_clone(Model **out, const Model *m);
/* The base model without its adapter, frozen: shares the weights and keeps them alive. */
Status model_view(Model **out, const Model *m);
Model *model_retain(Model *m);
void model_release(Model *m); /* NULL is fine */

/* WEIGHT_NF4: projections inside layers in bitsandbytes' 4-bit layout, everything else in bf16. */
typedef enum WeightType { WEIGHT_F32, WEIGHT_F16, WEIGHT_BF16, WEIGHT_NF4 } WeightType;
/* An adapter is merged into what is written.
 * config.json, generation_config.json, model.safetensors (or shards of at most shard_bytes and an
 * index; 0: one file).  Every file is complete or not there at all; config.json comes last. */
Status model_save(const Model *m, const char *dir, WeightType type, uint64_t shard_bytes);

const Config *model_config(const Model *m);
int model_num_params(const Model *m);
Param *model_param(Model *m, int i); /* fixed order, the checkpoint's; then the adapter's */
Param *model_find(Model *m, const char *name); /* NULL: none */
uint64_t model_count(const Model *m);          /* parameters, tied weights once */
uint64_t model_count_trainable(const Model *m);
bool model_trains(const Model *m, int i); /* would training on give parameter i a gradient? */
/* Allocates or frees the gradients: of all parameters, or of the adapter's alone where there is
 * one.  EARG for a compact model without an adapter. */
Status model_set_trainable(Model *m, bool on);
/* More tokens: new rows of embedding and head are the mean of the old ones.  EARG for fewer, and
 * once the model is trainable, has an adapter or is held by somebody else.  Params move. */
Status model_resize_vocab(Model *m, int n);
/* config.json's mask_token_id: the model fills in masks, seeing both ways; -1: it reads on. */
void model_set_mask(Model *m, int id);
/* A compact model, or one that an adapter froze, becomes float32 with panels.  EARG while views share its weights. */
Status model_widen(Model *m);
/* What "auto" stands for.  It is float32 until runs in both modes have learned alike
 * (experiments/precision.md): change it here and nowhere else. */
enum { COMPUTE_AUTO = COMPUTE_F32 };
const char *compute_name(Compute c); /* "f32", "bf16" */
/* How products with its weights, and attention, are computed, forward and backward; COMPUTE_F32 at
 * first, and one for good once there is a decoder, which keeps keys and values accordingly.  In bf16
 * the panels are bf16's instead of float32's, half as large; the weights stay what they are.
 * Copies and views have it too.  EARG while views share the weights. */
Status model_set_compute(Model *m, Compute compute);
Compute model_compute(const Model *m);
/* Bytes of a token's keys and values in all layers; every_head: if no heads shared them. */
size_t model_cache_bytes(const Model *m, bool every_head);
bool model_is_compact(const Model *m);
Storage model_storage(const Model *m); /* as it was loaded; STORE_F32 otherwise */
/* A parameter's values as float32, in the checkpoint's layout: out [t.n].  Takes memory for a few
 * rows when it is compact and stored [in, out]. */
Status param_values(const Ctx *cx, const Param *p, real *out);
/* The other way; model_updated is the caller's.  EARG for a compact weight, unless it is a float32 one
 * that an adapter has frozen. */
Status param_set(const Ctx *cx, Param *p, const real *values);
/* Outputs row .. row + rows - 1 of a weight, [rows, inputs] whatever its layout. */
void param_rows(const Ctx *cx, const Param *p, int row, int rows, real *out);
/* Takes memory for sequences of this length now, not with the first one. */
Status model_reserve_positions(Model *m, int positions);
/* Gradient checkpointing: training keeps each layer's input only and computes the layer again in
 * backward; the same bits, less memory, about a third more time. */
void model_set_checkpointing(Model *m, bool on);
void model_zero_grad(Model *m);
void model_updated(Model *m); /* parameters changed: panels are stale */
/* Another number whenever what the model computes may have changed: after model_updated(), when an
 * adapter came, went or was switched.  Never 0. */
uint64_t model_version(const Model *m);
Status model_pack(Model *m, const Ctx *cx); /* renew stale panels; forward functions call it */
/* EARG when `to` was loaded compact; `from` may have been. */
Status model_copy_weights(Model *to, const Model *from);
/* to = alpha from + (1 - alpha) to */
Status model_lerp_weights(Model *to, const Model *from, double alpha, const Ctx *cx);

/* ---- a packed batch of rows ------------------------------------------------------
 * Rows are tokens.  A group is laid out as prompt, completion 1, ... completion G; a completion's
 * last token predicts nothing and is no row.  Outputs are the completion tokens, in order.  A critic
 * also wants a value of the state after the last token: `end_below` makes that token a row. */
typedef struct Pack {
  int nrows;
  const int32_t *ids, *pos; /* [nrows]; pos: logical */
  int nspans;
  const PackSpan *spans;
  int nout;
  const int32_t *out_rows;   /* [nout] the row that predicts output i */
  const int32_t *targets;    /* [nout] */
  int nvalues;               /* with end_below, states that a critic judges: before each token of a
                              completion, and after the last one where that is a row */
  const int32_t *value_rows; /* [nvalues], completion after completion */
  const RngKey *dropout;     /* an adapter's dropout is on; seed, step and prompt (the unit) are the
                              caller's, sample holds the iteration; NULL: off */
  bool one_pass; /* what will be sent back through model_logp does not depend on its result: the
                    head is multiplied with once less, backward fills the result in (attrs.h) */
  const real *ref_table; /* [vocab, vocab] logits of a reference that looks at the token before
                            only; NULL: none */
  Replay *replay;     /* results of these rows that were kept while decoding; NULL: none.  Not with
                     gradient checkpointing */
  bool bidirectional; /* a token sees what follows in its span too: no replay then */
} Pack;

typedef struct PackGroup {
  const int32_t *prompt; /* at least 1 token */
  int prompt_len;
  int n; /* completions; each at least 1 token */
  const int32_t *const *completion;
  const int *completion_len;
  int end_below; /* the last token of a shorter completion is a row too; 0: of none */
} PackGroup;

/* One pack of several groups, in arena memory.  Refuses ids outside the vocabulary and sequences
 * past max_position_embeddings, naming the group. */
Status pack_groups(Arena *a, const Config *c, int ngroups, const PackGroup *groups, Pack *out);

/* ---- forward ---------------------------------------------------------------------- */
/* hidden [nrows, hidden_size] after the final norm */
Status model_hidden(Model *m, Tape *t, const Pack *p, Tensor **hidden);
/* out [2, nout]: log-probabilities of the targets at this temperature, entropies.  With ref (a
 * frozen model of the same vocabulary) or the pack's ref_table [3, nout]: also the full KL;
 * ref_hidden: [nout, c_ref] from model_out_hidden. */
Status model_logp(Model *m, Tape *t, const Pack *p, Tensor *hidden, double temperature, Model *ref,
                  const real *ref_hidden, Tensor **out);
/* rows of hidden that the head reads, copied: [nout, hidden_size] in the tape's arena */
Status model_out_hidden(Tape *t, const Pack *p, const Tensor *hidden, real **out);
/* logits [nrows, vocab] of a plain sequence, no gradient unless recorded */
Status model_logits(Model *m, Tape *t, const Pack *p, Tensor **logits);

/* Bytes that forward and backward of a pack of nrows rows and nout outputs take in the tape's
 * arena, within 10 % where that is more than a few MiB. */
typedef enum StepMemory { STEP_FORWARD, STEP_TRAIN, STEP_CHECKPOINTED } StepMemory;
size_t model_step_bytes(const Config *c, Compute compute, int nrows, int nout, int nspans,
                        StepMemory kind);

#endif
