/* dispatch.h - which class of kernels is in use.
 *
 * The classes are `generic` (any CPU), `blas` (OpenBLAS for products, generic for all else),
 * `avx2`, `avx512`, `avx512bf16`, `amx` and `neon`; avx512bf16 and amx are avx512 except for
 * products of bf16. The best one that the CPU has is chosen when the program starts; the
 * environment variable GRPO_CPU names another.  Bits are the same with one class, not from one
 * class to another.
 */
#ifndef GRPO_KERN_DISPATCH_H
#define GRPO_KERN_DISPATCH_H

#include <stdbool.h>

#include "base/err.h"

const char *kern_name(void);
const char *
kern_path(int i); /* the classes that this CPU can use, "generic" first; NULL: no more */
/* NULL: the choice of GRPO_CPU, or the best.  EARG when the CPU lacks the class.  Not
 * thread-safe. */
Status kern_select(const char *name);
bool kern_bf16(void); /* does the class in use multiply bf16 by instructions of its own? */
/* Does the CPU's own prefetching stop at the end of a page, as on Intel's?  Our prefetches then
 * stay in the page too, where on other CPUs they reach as far ahead as memory is slow; and rows
 * that are pages apart are better packed than read in place. */
bool kern_paged(void);

/* The tables of the class in use (kernels.h).  The second is NULL where bf16 has no instructions
 * of its own: then the first computes it, with operands rounded in float32. */
const struct Kernels *kernels(void);
const struct KernelsBf16 *kernels_bf16(void);

#endif
