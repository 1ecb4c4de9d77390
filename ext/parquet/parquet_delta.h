/* parquet_delta.h - Parquet's DELTA_BINARY_PACKED: differences in blocks of packed bits. */
#ifndef GRPO_PARQUET_PARQUET_DELTA_H
#define GRPO_PARQUET_PARQUET_DELTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads exactly n integers, sums modulo 2^64; *p moves behind them. */
bool delta_read(const uint8_t **p, const uint8_t *end, int64_t *out, size_t n);

#endif
