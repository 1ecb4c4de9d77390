/* snappy.h - reading one block in Snappy's raw format, as Parquet's pages hold them. */
#ifndef GRPO_PARQUET_SNAPPY_H
#define GRPO_PARQUET_SNAPPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decompresses n bytes into exactly out_n; false if they are not such a block. */
bool snappy_decompress(const uint8_t *in, size_t n, uint8_t *out, size_t out_n);

#endif
