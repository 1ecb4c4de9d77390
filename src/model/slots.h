/* slots.h - what each parameter of a model is for.
 *
 * layout.c lists the parameters of all families with their slots; the forward pass asks for slots
 * and never for names.
 */
#ifndef GRPO_MODEL_SLOTS_H
#define GRPO_MODEL_SLOTS_H

#include "grad/tensor.h"

/* Parameters of a layer; NULL where a family has none.  The bias of a projection follows its
 * weight.
 */
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
  L_QNORM_W,
  L_KNORM_W,
  L_POST1_W,
  L_NORM2_W,
  L_NORM2_B,
  L_GATE_UP_W,
  L_GATE_UP_B,
  L_GATE_W,
  L_GATE_B,
  L_UP_W,
  L_UP_B,
  L_DOWN_W,
  L_DOWN_B,
  L_POST2_W,
  L_COUNT
} LayerSlot;
typedef enum ModelSlot { M_EMBED, M_POSITION, M_NORM_W, M_NORM_B, M_HEAD, M_COUNT } ModelSlot;

typedef struct Layer {
  Tensor *t[L_COUNT];
  uint64_t in_out; /* bits: slots whose weight is stored [in, out] */
} Layer;

#endif
