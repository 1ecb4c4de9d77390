/* moments.h - an optimizer's state of one tensor: which arrays it has, and its step. */
#ifndef GRPO_GRAD_MOMENTS_H
#define GRPO_GRAD_MOMENTS_H

#include "kern/optimizers.h"

/* in the order of the choices of train.optimizer.name */
typedef enum OptimizerKind { OPTIMIZER_ADAMW, OPTIMIZER_ADAMW_8BIT, OPTIMIZER_LION } OptimizerKind;

enum {
  /* A smaller tensor has float32 moments with OPTIMIZER_ADAMW_8BIT too, as with bitsandbytes. */
  MOMENTS8_MIN = 4096,
  MOMENT_ARRAYS = 4 /* at most */
};

typedef enum MomentType {
  MOMENT_REAL, /* [n] reals */
  MOMENT_CODE, /* [n] bytes (moment8.h) */
  MOMENT_SCALE /* [moment8_blocks(n)] floats, of the codes before */
} MomentType;

typedef struct MomentArray {
  const char *name; /* "exp_avg" */
  MomentType type;
  size_t n;
  void *data;
} MomentArray;

/* How a whole tensor of n numbers is kept: small ones as with OPTIMIZER_ADAMW. */
OptimizerKind moments_kind(OptimizerKind kind, size_t n);
/* The arrays of n numbers of a tensor, of the kind that moments_kind() gives for it, in `memory`,
 * which is 64-byte aligned; returns how many.  Where they are a part of a tensor, the part begins
 * and ends with a block, or with the tensor.  All zero is the state before the first step. */
int moments_arrays(OptimizerKind kind, size_t n, void *memory, MomentArray *out);
size_t moments_bytes(OptimizerKind kind, size_t n); /* of `memory`, a multiple of 64 */

typedef struct MomentMaps {
  Moment8Map with_sign, without_sign;
} MomentMaps;

/* Takes the step o.  kind, memory: as for moments_arrays(); maps: NULL unless kind is
 * OPTIMIZER_ADAMW_8BIT. */
void moments_step(const Ctx *cx, OptimizerKind kind, const MomentMaps *maps, size_t n, real *p,
                  const real *g, void *memory, const AdamW *o);

#endif
