/* parquet_values.h - the values of a column in memory, and the encodings that they come in.
 *
 * Numbers and byte arrays of one length stand one behind the other; byte arrays are spans of a
 * buffer, so that a text that a dictionary repeats is there once.
 */
#ifndef GRPO_PARQUET_PARQUET_VALUES_H
#define GRPO_PARQUET_PARQUET_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "parquet/parquet_schema.h"

typedef struct ParquetSpan {
  uint64_t at, n;
} ParquetSpan;

typedef struct ParquetValues {
  ParquetType type;
  size_t width;      /* bytes of a value; 0: byte arrays */
  size_t count;      /* of values */
  uint8_t *fixed;    /* [room * width] */
  ParquetSpan *span; /* [room] */
  uint8_t *bytes;
  uint64_t used, bytes_room;
  size_t room;
} ParquetValues;

/* The most bytes of one column's byte arrays in a row group. */
#define PARQUET_MOST_BYTES ((uint64_t)4 << 30)

ParquetValues parquet_values(ParquetType type, int length);
void parquet_values_free(ParquetValues *v);
uint64_t parquet_values_memory(const ParquetValues *v);
/* The reason for which values were refused; NULL: none. */
typedef const char *Refusal;
/* Each appends n values from the bytes p .. end. */
Refusal values_plain(ParquetValues *v, const uint8_t *p, const uint8_t *end, size_t n);
/* `dictionary`: its values; those at `base` and later in v->span are its copy, when they are byte
 * arrays (values_adopt). */
Refusal values_indexed(ParquetValues *v, const ParquetValues *dictionary, uint64_t base,
                       const uint8_t *p, const uint8_t *end, size_t n);
/* Copies the bytes of a dictionary's byte arrays; *base is where they begin. */
Refusal values_adopt(ParquetValues *v, const ParquetValues *dictionary, uint64_t *base);
Refusal values_runs(ParquetValues *v, const uint8_t *p, const uint8_t *end, size_t n);
Refusal values_delta(ParquetValues *v, const uint8_t *p, const uint8_t *end, size_t n);
Refusal values_delta_length(ParquetValues *v, const uint8_t *p, const uint8_t *end, size_t n);
Refusal values_delta_bytes(ParquetValues *v, const uint8_t *p, const uint8_t *end, size_t n);
Refusal values_split(ParquetValues *v, const uint8_t *p, const uint8_t *end, size_t n);

/* This refusal is for want of memory. */
extern const char parquet_no_memory[];

#endif
