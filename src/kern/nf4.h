/* nf4.h - quantising to NF4, for quant.c and its tests; quant_type.h declares the tables. */
#ifndef GRPO_KERN_NF4_H
#define GRPO_KERN_NF4_H

#include <stddef.h>
#include <stdint.h>

#include "kern/kern.h"
#include "kern/quant_type.h"

/* Quantises one block of n <= NF4_BLOCK values; returns its absmax, which is NaN if one
 * of them is not finite. */
float nf4_quantise(const KernelClass *cpu, int n, const float *w, uint8_t *code);
/* Quantises the blocks' absmax, less their mean, to codes q [n] with one scale for each NF4_NEST of
 * them; returns the mean. */
float nf4_quantise_scales(const Ctx *cx, size_t n, const float *absmax, uint8_t *q, float *scale);

#endif
