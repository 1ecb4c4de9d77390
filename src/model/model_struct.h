/* model_struct.h - the inside of a Model, for the files of this layer and its checkpoints. */
#ifndef GRPO_MODEL_MODEL_STRUCT_H
#define GRPO_MODEL_MODEL_STRUCT_H

#include "model/config.h"
#include "model/lora_weights.h"
#include "model/names.h"
#include "model/param.h"
#include "model/rope.h"
#include "model/slots.h"
#include "model/storage.h"

typedef struct Model Model;
struct Model {
  int refs;
  Model *shared; /* for a view: whose weights these are, and all pointers below; NULL: its own */
  int views;     /* models that share this one's weights */
  Lora *lora;    /* the adapter; NULL: none */
  Lora *dropped; /* adapters that were merged: tensors of a script may still point at them */
  Pool *pool;
  Config config;
  int nparams;
  Param *param;          /* [nparams], in the checkpoint's order */
  NameRef *by_name;      /* [nparams] sorted by name */
  char *names;           /* memory of all names */
  Layer *layer;          /* [num_hidden_layers] */
  Tensor *t[M_COUNT];    /* M_HEAD is the embedding when tied */
  real *weights;         /* all parameters, each 64-byte aligned */
  real *grads;           /* the same layout; NULL while frozen */
  size_t weight_reals;   /* of either */
  Compute compute;       /* of products with its weights */
  void *panels;          /* packed panels, of bf16 where compute is that, else of float32 */
  const char *panels_of; /* kern_name() that the panels are laid out for */
  bool stale;            /* the weights changed since the panels were packed */
  uint64_t version;      /* see model_version() */
  bool trainable;
  Storage storage;
  QuantWeight **quant; /* [nparams] quantised weights; NULL where a parameter is float32 */
  bool checkpointing;  /* gradient checkpointing: layers are computed again in backward */
  Rope *rope;
};

#endif
