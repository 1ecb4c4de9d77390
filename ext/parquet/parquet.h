/* parquet.h - the rows of a Parquet file, read by number.
 *
 * Opening reads the footer alone.  A row group is decoded when one of its rows is asked for, and
 * kept until others need the memory: at least one is, and then as many as the cache holds.
 */
#ifndef GRPO_PARQUET_PARQUET_H
#define GRPO_PARQUET_PARQUET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "parquet/row_sink.h"

typedef struct Parquet Parquet;

enum { PARQUET_MIN_BYTES = 12 };

Status parquet_open(Parquet **out, const char *path);
void parquet_close(Parquet *p); /* NULL is fine */
uint64_t parquet_rows(const Parquet *p);
int parquet_columns(const Parquet *p);
const char *parquet_column_name(const Parquet *p, int i);
/* Before the first row: leaves a column out, which is then never read. */
void parquet_leave_out(Parquet *p, int i);
/* How many bytes of decoded row groups are kept beside the one that is read. */
void parquet_set_cache(Parquet *p, uint64_t bytes);
uint64_t parquet_cached(const Parquet *p); /* bytes of decoded row groups */
void parquet_forget(Parquet *p);           /* frees them */
/* Sends row i, 0 <= i < rows, as an object.  After a failure it is incomplete. */
Status parquet_row(Parquet *p, uint64_t i, const RowSink *to);

#endif
