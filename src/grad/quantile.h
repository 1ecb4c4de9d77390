/* quantile.h - torch.quantile's: linear interpolation at rank q (n - 1), found without sorting. */
#ifndef GRPO_GRAD_QUANTILE_H
#define GRPO_GRAD_QUANTILE_H

#include <stddef.h>
#include <stdint.h>

#include "kern/real.h"

typedef struct Quantile {
  size_t low, high; /* places of the two neighbours in x; of equals the earlier one is smaller */
  double weight;    /* of `high` */
} Quantile;

/* The q-quantile (0 to 1) of the n > 0 numbers x[at[0]], x[at[1]], ...; reorders `at`. */
Quantile quantile_of(const real *x, size_t n, uint32_t *at, double q);
double quantile_value(const real *x, Quantile q);

/* Brings the k of these n numbers that are smallest to at[0 .. k), of equals the earlier ones. */
void smallest(const real *x, uint32_t *at, size_t n, size_t k);

/* kept[i] = 1 where the entropy is in the given share of the highest among tokens whose mask is not
 * 0 (NULL: all), else 0; all 1 when no token is masked in.  at [n] is scratch. */
void top_entropy_mask(size_t n, const real *mask, const real *entropy, double share, uint32_t *at,
                      real *kept);

#endif
