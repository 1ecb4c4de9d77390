/* model_struct.h - the inside of a Model, for the files of this layer and its checkpoints. */
#ifndef GRPO_MODEL_MODEL_STRUCT_H
#define GRPO_MODEL_MODEL_STRUCT_H

#include "grad/panel_cache.h"
#include "model/config.h"
#include "model/lora_weights.h"
#include "model/param.h"
#include "model/rope.h"

/* A slot says what a parameter is for.  layout.c lists the parameters of all families with their
 * slots; the forward pass asks for slots and never for names.  In a layer the bias of a projection
 * follows its weight; a slot is NULL where a family has none. */
typedef enum LayerSlot {
  L_NORM1_W,
  L_NORM1_B,
  L_QKV_W,
  L_QKV_B,
  L_Q_A_W, /* latent attention: to a low rank; L_QNORM_W norms that, L_Q_W takes it from there */
  L_Q_A_B,
  L_Q_W,
  L_Q_B,
  L_K_W,
  L_K_B,
  L_V_W,
  L_V_B,
  L_KV_A_W, /* to the latent, which L_KNORM_W norms, and the rotary key */
  L_KV_A_B,
  L_KV_B_W, /* from there to keys and values, head by head (grad/latent.h) */
  L_O_W,
  L_O_B,
  L_SINKS, /* a score without a value, by head */
  L_QNORM_W,
  L_KNORM_W,
  L_Z_W, /* a gate of the mixer's result; then gated DeltaNet's beta and decay */
  L_Z_B,
  L_BETA_W,
  L_BETA_B,
  L_DECAY_W,
  L_DECAY_B,
  L_CONV_W,
  L_A_LOG,
  L_DT_BIAS,
  L_DELTA_NORM_W,
  L_POST1_W,
  L_NORM2_W,
  L_NORM2_B,
  L_ROUTER_W, /* scores of experts */
  L_ROUTER_B,
  L_ROUTER_FIX,   /* is added to scores for the choice alone */
  L_ROUTER_SCALE, /* TRAIT_BESIDE: of the router's input, and by expert of what it gives */
  L_ROUTER_FACTOR,
  L_DENSE_POST_W, /* TRAIT_BESIDE: norms of the dense part's result, and around the mixture */
  L_MIX_NORM_W,
  L_MIX_POST_W,
  L_SHARED_GATE_W, /* of the expert that every token takes, whose weights follow */
  L_SHARED_GATE_B,
  L_GATE_UP_W, /* of a dense layer, or of the expert that every token takes */
  L_GATE_UP_B,
  L_GATE_W,
  L_GATE_B,
  L_UP_W,
  L_UP_B,
  L_DOWN_W,
  L_DOWN_B,
  L_POST2_W,
  L_OWN_GATE_W, /* the layer's own input: it is gated, projected by L_OWN_W and normed */
  L_OWN_GATE_B,
  L_OWN_W,
  L_OWN_B,
  L_POST3_W,
  L_SCALE,
  L_COUNT
} LayerSlot;
typedef enum ModelSlot {
  M_EMBED,
  M_POSITION,
  M_OWN_EMBED, /* the layers' own inputs: a table, a projection of the embedding, and its norm */
  M_OWN_W,
  M_OWN_NORM_W,
  M_NORM_W,
  M_NORM_B,
  M_HEAD,
  M_HEAD_B,
  M_SCORE,
  M_COUNT
} ModelSlot;

typedef struct Layer {
  Tensor *t[L_COUNT];
  Tensor **expert; /* [config_layer_experts, EXPERT_PARTS] (attrs.h); NULL: the layer is dense */
  uint64_t in_out; /* bits: slots whose weight is stored [in, out] */
} Layer;

typedef struct Model Model;
struct Model {
  int refs;
  Model *shared; /* for a view: the model that owns its weights and all pointers below; or NULL */
  int views;     /* models that share this one's weights */
  Lora *lora;    /* the adapter; NULL: none */
  Lora *dropped; /* adapters that were merged: tensors of a script may still point at them */
  Pool *pool;
  const KernelClass *cpu; /* for forward passes that it starts itself; NULL: as in Ctx */
  const Backend *backend; /* of its tapes; NULL: the CPU */
  Config config;
  int nparams;
  Param *param;        /* [nparams], in the checkpoint's order */
  NameRef *by_name;    /* [nparams] sorted by name */
  char *names;         /* memory of all names */
  Layer *layer;        /* [num_hidden_layers] */
  Tensor **experts;    /* memory of the layers' tables of experts */
  Tensor *t[M_COUNT];  /* M_HEAD is the embedding when tied */
  real *weights;       /* all parameters, each 64-byte aligned */
  real *grads;         /* the same layout; NULL while frozen */
  size_t weight_reals; /* the length of weights, and of grads */
  Compute compute;     /* of products with its weights */
  PanelCache panels;   /* of its weights, of bf16 where compute is that, else of float32 */
  uint64_t version;    /* see model_version() */
  bool trainable;
  Storage storage;
  QuantWeight **quant; /* [nparams] quantised weights; NULL where a parameter is float32 */
  bool checkpointing;  /* gradient checkpointing: layers are computed again in backward */
  Rope *rope;
};

#endif
