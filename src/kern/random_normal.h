/* random_normal.h - normally distributed numbers, addressed by a key (rng.h). */
#ifndef GRPO_KERN_RANDOM_NORMAL_H
#define GRPO_KERN_RANDOM_NORMAL_H

#include <stddef.h>

#include "base/rng.h"
#include "kern/kern.h"

/* out[i] = std * rng_normal(key, i), rounded to real: the same bits in every class of kernels. */
void random_normal(const Ctx *cx, const RngKey *key, size_t n, double std, real *out);

#endif
