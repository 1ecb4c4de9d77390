/* kern.h - what all kernels share: the context that they run in, and what they promise.
 *
 * A kernel is a loop over plain pointers whose work is cut for the pool.  Its inner loops exist
 * once per instruction set; dispatch.h tells how one is chosen.  All of them keep these
 * promises:
 *
 *   - Row invariance.  A forward output row depends on that row, on the keys it may see and on the
 *     weights.  It does not depend on the number of rows, the row's place in a tile, the thread,
 *     or on whether it is computed in decoding or in training.  Inner products therefore run over
 *     k in one fixed order, with one accumulator per output.
 *   - The number of threads never changes a bit.  Reductions over rows (dW, db, dw of norms, sums)
 *     combine the partial results of chunks of fixed size in index order.
 *   - With `add` the result is added to what is there; otherwise it overwrites.
 *
 * Scratch memory comes from cx->arena and is released before a function returns; the only
 * failure is GRPO_ENOMEM.  Arrays are row-major, ld is the distance of rows in elements, and
 * pointers are to `real` unless said otherwise.
 */
#ifndef GRPO_KERN_KERN_H
#define GRPO_KERN_KERN_H

#include "base/arena.h"
#include "base/pool.h"
#include "kern/real.h"

/* A class of kernels: the tables of one instruction set (dispatch.h). */
typedef struct KernelClass {
  const char *name;
  const struct Kernels *kernels;
  const struct KernelsBf16 *bf16; /* NULL: bf16 has no instructions of its own */
} KernelClass;

/* How products with weights, and attention, are computed.  COMPUTE_BF16 rounds both operands to
 * bf16 (nearest even); their products are then exact, and sums are float. */
typedef enum Compute { COMPUTE_F32, COMPUTE_BF16 } Compute;

typedef struct Ctx {
  Pool *pool; /* NULL: the caller alone */
  Arena *arena;
  Compute compute;        /* of quant_forward and quant_dx; other kernels do not look at it */
  const KernelClass *cpu; /* NULL: the process's choice (kern_select) */
  /* Computes operations (grad/ops.h); NULL: the CPU.  Kernels do not look at it. */
  const struct Backend *backend;
} Ctx;

#endif
