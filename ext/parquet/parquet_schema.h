/* parquet_schema.h - the footer of a Parquet file: the tree of its columns, its row groups.
 *
 * Nothing in a footer is trusted.  Levels follow the format's rules (Dremel): a leaf's definition
 * level counts the optional and repeated nodes above it that are there, its repetition level says
 * in which list an entry continues.
 */
#ifndef GRPO_PARQUET_PARQUET_SCHEMA_H
#define GRPO_PARQUET_PARQUET_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

typedef enum ParquetType {
  PARQUET_BOOLEAN,
  PARQUET_INT32,
  PARQUET_INT64,
  PARQUET_INT96,
  PARQUET_FLOAT,
  PARQUET_DOUBLE,
  PARQUET_BYTE_ARRAY,
  PARQUET_FIXED /* byte arrays of one length */
} ParquetType;

typedef enum ParquetMeaning {
  MEANS_ITSELF, /* numbers, bytes */
  MEANS_TEXT,
  MEANS_UNSIGNED,
  MEANS_DECIMAL,
  MEANS_DATE,
  MEANS_TIME,
  MEANS_TIMESTAMP,
  MEANS_UUID,
  MEANS_HALF,
  MEANS_INTERVAL /* not read */
} ParquetMeaning;

typedef struct ParquetLeaf {
  const char *path; /* "messages.list.element.role" */
  ParquetType type;
  ParquetMeaning meaning;
  int length;         /* of FIXED, bytes */
  int scale;          /* of DECIMAL */
  int64_t per_second; /* of TIME, TIMESTAMP */
  bool utc;           /* of TIMESTAMP */
  int max_def, max_rep;
  int top; /* the column of the row that it belongs to */
} ParquetLeaf;

typedef struct ParquetNode {
  const char *name;
  enum {
    PARQUET_LEAF,
    PARQUET_STRUCT,
    PARQUET_LIST,
    PARQUET_PAIR /* key and value of a map */
  } kind;
  bool optional;
  int def;          /* the level at which it is there; a list: perhaps without elements */
  int rep;          /* of a list: the level of its further elements */
  int leaf, leaves; /* the first of the leaves below it, and how many there are */
  int child, next;  /* nodes: the first child, the next sibling; -1: none */
} ParquetNode;

typedef struct ParquetChunk {
  uint64_t at, bytes; /* of the file; checked to be within it */
  int64_t values;     /* entries, nulls among them */
  int codec;
  int type;
} ParquetChunk;

typedef struct ParquetGroup {
  uint64_t first, rows; /* of the file */
  ParquetChunk *chunk;  /* [leaves] */
} ParquetGroup;

typedef struct ParquetSchema {
  ParquetNode *node;
  int *top; /* the nodes of the columns, [columns] */
  ParquetLeaf *leaf;
  ParquetGroup *group;
  int nodes, columns, leaves;
  size_t groups;
  uint64_t rows;
  Buf names; /* what the names point into */
} ParquetSchema;

/* Reads the n bytes of a footer of a file that has `data` bytes in front of it.  `what`: the path,
 * for messages.  Free it after a failure too. */
Status parquet_schema_read(ParquetSchema *s, const uint8_t *footer, size_t n, uint64_t data,
                           const char *what);
void parquet_schema_free(ParquetSchema *s);

#endif
