/* parquet_footer.h - the Thrift structs of a Parquet file's footer, as they are written there. */
#ifndef GRPO_PARQUET_PARQUET_FOOTER_H
#define GRPO_PARQUET_PARQUET_FOOTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parquet/thrift.h"

enum { PARQUET_REQUIRED, PARQUET_OPTIONAL, PARQUET_REPEATED };

/* The kinds of LogicalType, by their numbers in the union. */
enum {
  LOGICAL_NONE = 0,
  LOGICAL_STRING = 1,
  LOGICAL_MAP = 2,
  LOGICAL_LIST = 3,
  LOGICAL_ENUM = 4,
  LOGICAL_DECIMAL = 5,
  LOGICAL_DATE = 6,
  LOGICAL_TIME = 7,
  LOGICAL_TIMESTAMP = 8,
  LOGICAL_INTEGER = 10,
  LOGICAL_NULL = 11,
  LOGICAL_JSON = 12,
  LOGICAL_UUID = 14,
  LOGICAL_HALF = 15,
  LOGICAL_INTERVAL = 100 /* has no number there, only a converted type */
};

typedef struct ParquetElement {
  const char *name; /* points into the footer */
  size_t name_bytes;
  int type, length, repetition, children; /* type -1: a group */
  int logical, scale, bits;
  bool is_signed, utc;
  int64_t per_second;
} ParquetElement;

/* Each reads one struct; the reader's `bad` says whether it could. */
void parquet_element(Thrift *t, ParquetElement *e);

typedef struct ParquetChunkInfo {
  int64_t values, bytes, data_at, dictionary_at; /* dictionary_at -1: none */
  int type, codec;
  bool elsewhere, encrypted; /* its data are in another file; are encrypted */
} ParquetChunkInfo;
void parquet_chunk_info(Thrift *t, ParquetChunkInfo *c);

typedef struct ParquetPage {
  enum { PAGE_DATA, PAGE_INDEX, PAGE_DICTIONARY, PAGE_DATA_V2 } type;
  int64_t bytes, compressed; /* of the body, decompressed and as it is stored */
  int64_t values;
  int encoding, def_encoding, rep_encoding;
  int64_t def_bytes, rep_bytes; /* of V2 */
  bool is_compressed;           /* of V2 */
} ParquetPage;
void parquet_page_header(Thrift *t, ParquetPage *p);

#endif
