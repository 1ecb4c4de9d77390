/* moment8.h - a moment of an optimizer in 8 bits, block by block, as bitsandbytes defines it.
 *
 * Every MOMENT8_BLOCK numbers share a scale, their largest magnitude; a number is the code of the
 * nearest value of a dynamic map (arXiv:2110.02861), times the scale.  A map has values in seven
 * decades below 1, half as many of them in each decade as in the next: 127 of each sign, or 254
 * without signs, and 0 and 1.
 */
#ifndef GRPO_KERN_MOMENT8_H
#define GRPO_KERN_MOMENT8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kern/real.h"

enum {
  MOMENT8_BLOCK = 256,
  /* A bucket is the float32 magnitudes that agree in all but their last 16 bits.  Those from 2^-23
   * to 1 have one each, and the smaller ones share the first; none holds two values of a map. */
  MOMENT8_BUCKETS = 23 * 128 + 1
};

typedef struct Moment8Map {
  float value[256];                  /* ascending */
  uint8_t lower[2][MOMENT8_BUCKETS]; /* by sign and bucket: the last value below all of it, or 0 */
} Moment8Map;
void moment8_map_init(Moment8Map *m, bool has_sign);

/* The nearest value's code for a from -1 (without signs: 0) to 1; the lower one of two that are
 * equally near. */
uint8_t moment8_code(const Moment8Map *m, float a);

static inline size_t moment8_blocks(size_t n) { return (n + MOMENT8_BLOCK - 1) / MOMENT8_BLOCK; }
/* One block, n <= MOMENT8_BLOCK: x from its codes and its scale, and both from finite x. */
void moment8_read(const Moment8Map *m, int n, const uint8_t *code, float scale, real *x);
void moment8_write(const Moment8Map *m, int n, const real *x, uint8_t *code, float *scale);

#endif
