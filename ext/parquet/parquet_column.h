/* parquet_column.h - one column of one row group, decoded from its pages. */
#ifndef GRPO_PARQUET_PARQUET_COLUMN_H
#define GRPO_PARQUET_PARQUET_COLUMN_H

#include <stdint.h>

#include "base/err.h"
#include "parquet/parquet_schema.h"
#include "parquet/parquet_values.h"

typedef struct ParquetColumn {
  uint8_t *def, *rep;    /* levels of the entries; NULL: all 0 */
  size_t entries;        /* those that are null or begin an empty list among them */
  uint32_t *first_entry; /* [rows + 1] where each row begins; NULL: a row is an entry */
  uint32_t *first_value; /* [rows + 1] among the values; NULL: a row is a value */
  ParquetValues values;
} ParquetColumn;

/* Decodes the chunk of a leaf, whose bytes are `data`.  `what` names file, column and row group for
 * messages.  Free it after a failure too. */
Status parquet_column_read(ParquetColumn *c, const ParquetLeaf *leaf, const ParquetChunk *chunk,
                           uint64_t rows, const uint8_t *data, const char *what);
void parquet_column_free(ParquetColumn *c);
uint64_t parquet_column_memory(const ParquetColumn *c, uint64_t rows);

#endif
