/* param.h - one parameter of a model, and its values in whatever form they are kept. */
#ifndef GRPO_MODEL_PARAM_H
#define GRPO_MODEL_PARAM_H

#include "grad/tensor.h"
#include "kern/quant.h"

/* In which form a model keeps its weights.  STORE_INT8 and STORE_NF4 are for the projections inside
 * layers; the embedding and the output projection stay as the checkpoint has them. */
typedef enum Storage {
  STORE_F32,  /* float32 with packed panels: the only form that full training takes */
  STORE_AUTO, /* as in the checkpoint; block formats other than bitsandbytes' NF4 become float32 */
  STORE_BF16,
  STORE_INT8,
  STORE_NF4
} Storage;

const char *param_storage_name(Storage s); /* "f32", "auto", "bf16", "int8", "nf4" */
/* The type that a weight takes: of a projection inside a layer, or of the embedding or output
 * projection, which the checkpoint stores as `stored`.  Not for STORE_F32. */
QuantType param_storage_type(Storage s, bool projection, QuantType stored);

enum { PARAM_NAME_BYTES = 80 };

typedef struct Param {
  const char *name; /* "model.layers.0.self_attn.q_proj.weight" */
  /* t.grad is the model's while the parameter is trainable, and zeroed by model_zero_grad.
   * t.data is NULL where t.quant is set: the weight is frozen and quantised, or packed in place. */
  Tensor t;
  bool trainable;        /* has a gradient now */
  bool in_out;           /* stored [in, out] */
  bool by_head;          /* used head by head: stays float32, takes no adapter (grad/latent.h) */
  bool is_bias, is_norm; /* for weight decay's exceptions */
  bool saved_f32;        /* stays float32 in every checkpoint */
  bool is_expert;        /* belongs to one of a mixture's experts: takes no adapter */
  int expert;            /* its number */
  bool stacked;          /* files hold it in one tensor with those of the other experts */
  bool is_buffer;        /* is never trained */
  bool is_router;        /* scores experts: neither quantised nor adapted */
} Param;

/* The name of the tensor that holds a stacked parameter: name [PARAM_NAME_BYTES].  It has no
 * expert's number, and in Granite's files no word "experts". */
void param_stack_name(const Param *p, char *name);
/* The name of expert 0's parameter in a stack of this name; false: there is none. */
bool param_first_of_stack(const char *stack, char *name);

/* Numbers of outputs and inputs of a two-dimensional weight. */
void param_outputs_inputs(const Param *p, int *n, int *k);
size_t param_padded(size_t n);     /* n reals rounded up to whole cache lines */
size_t param_room(const Param *p); /* reals that a float32 parameter takes of the model's memory */

/* The values as float32, in the checkpoint's layout: out [t.n].  A quantised weight that is stored
 * [in, out] takes memory for a few rows meanwhile. */
Status param_values(const Ctx *cx, const Param *p, real *out);
/* Takes the memory of the values meanwhile; true where there is none. */
bool param_is_finite(const Ctx *cx, const Param *p);
/* Outputs row .. row + rows - 1 of a weight: out [rows, inputs], whatever its layout. */
void param_rows(const Ctx *cx, const Param *p, int row, int rows, real *out);
/* The parameter takes these values [t.n]; calling model_updated is the caller's task.  EARG for a
 * quantised weight; one that is packed in place can be set. */
Status param_set(const Ctx *cx, Param *p, const real *values);

/* Rows of a weight [n, k] to convert at a time: about a million values, a multiple of 64 rows. */
int param_block_rows(int n, int k);
/* w [rows, k] becomes columns at .. at + rows - 1 of out [k, n]. */
void param_put_columns(const real *w, int rows, int k, int at, int n, real *out);

/* For finding parameters by their names. */
typedef struct NameRef {
  const char *name;
  int index;
} NameRef;

/* refs[i] becomes the name of parameter i, then refs are sorted by name. */
void param_names_sort(NameRef *refs, const Param *param, int n);
int param_names_find(const NameRef *refs, int n,
                     const char *name); /* the parameter's index; -1: none */

#endif
