/* dispatch.h - the classes of kernels, and which one a context uses.
 *
 * The classes are `generic` (any CPU), `blas` (OpenBLAS for products, generic for all else),
 * `avx2`, `avx512`, `avx512bf16`, `amx` and `neon`; avx512bf16 and amx are avx512 except for
 * products of bf16.  `portable-avx2`, `portable-avx512` and `portable-neon` give the bits of
 * generic, faster; `portable` is the fastest of these that the CPU has.  A context names its class
 * (Ctx.cpu), and contexts of several classes can live side by side.  A context that names none uses
 * the process's choice: the best class that the CPU has, portable ones aside, or the one that the
 * environment variable GRPO_CPU names.  Other classes may give other bits.
 */
#ifndef GRPO_KERN_DISPATCH_H
#define GRPO_KERN_DISPATCH_H

#include <stdbool.h>

#include "base/err.h"
#include "kern/kern.h"

extern const KernelClass *kern_chosen; /* for reading; kern_select sets it */

const char *kern_name(const KernelClass *cpu); /* NULL, here and below: the process's choice */
/* "portable" where the class has the bits that are the same on every CPU; else its name. */
const char *kern_numbers(const KernelClass *cpu);
const char *
kern_path(int i); /* the classes that this CPU can use, "generic" first; NULL: no more */
/* NULL: the choice of GRPO_CPU, or the best.  EARG when the CPU lacks the class. */
Status kern_class(const char *name, const KernelClass **out);
Status kern_select(const char *name); /* makes it the process's choice; not thread-safe */
/* The class that GRPO_CPU names if it is a portable one, else `portable`; EARG if GRPO_CPU names
 * another.  Not thread-safe. */
Status kern_select_portable(void);
/* Does the CPU's own prefetching stop at the end of a page, as that of Intel's CPUs does?  Then our
 * prefetches stay in the page too, and rows that are pages apart are packed instead of being read
 * in place.  On other CPUs our prefetches reach further ahead, because memory is slow. */
bool kern_paged(void);

/* The tables of a class (kernels.h).  The second is NULL where bf16 has no instructions of its own:
 * then the first computes it, with operands rounded in float32. */
static inline const struct Kernels *kernels(const KernelClass *cpu) {
  return (cpu ? cpu : kern_chosen)->kernels;
}
static inline const struct KernelsBf16 *kernels_bf16(const KernelClass *cpu) {
  return (cpu ? cpu : kern_chosen)->bf16;
}
/* Does the class multiply bf16 by instructions of its own? */
static inline bool kern_bf16(const KernelClass *cpu) { return kernels_bf16(cpu) != NULL; }

#endif
