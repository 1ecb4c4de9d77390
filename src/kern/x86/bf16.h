/* bf16.h - what tables of Kernels16 on x86 take from one another. */
#ifndef GRPO_KERN_X86_BF16_H
#define GRPO_KERN_X86_BF16_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kern/real.h"

/* Kernels16.in_order by AVX512_BF16 */
void avx512bf16_strided(int m, int n, int pairs, const uint32_t *a, ptrdiff_t ars,
                        const uint32_t *b, ptrdiff_t bps, ptrdiff_t bgs, real *c, ptrdiff_t ldc,
                        bool add);

#endif
