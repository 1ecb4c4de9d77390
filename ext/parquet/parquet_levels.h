/* parquet_levels.h - Parquet's hybrid of run lengths and packed bits, in which levels, dictionary
 * indices and some booleans are written.
 */
#ifndef GRPO_PARQUET_PARQUET_LEVELS_H
#define GRPO_PARQUET_PARQUET_LEVELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Hybrid {
  const uint8_t *p, *end;
  int width;      /* bits of a value, 0 .. 32 */
  uint64_t left;  /* values of the run that are still to come */
  bool packed;    /* a run of packed bits; else of one value */
  uint32_t value; /* of a run of one value */
  uint64_t bit;   /* the place within a packed run, which begins at `run` */
  const uint8_t *run;
} Hybrid;

static inline Hybrid hybrid(const uint8_t *p, const uint8_t *end, int width) {
  return (Hybrid){.p = p, .end = end, .width = width};
}
/* Reads n values; returns false if there are fewer. */
bool hybrid_read(Hybrid *h, uint32_t *out, size_t n);
/* The number of bits that hold 0 .. max. */
int level_width(int max);
/* `width` <= 64 bits from the bit on, which are within p .. end; the lowest bits come first. */
uint64_t packed_bits(const uint8_t *p, const uint8_t *end, uint64_t bit, int width);

#endif
