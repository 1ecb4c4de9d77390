/* thrift.h - reading Thrift's compact protocol, in which Parquet's headers are written.
 *
 * A reader never leaves its bytes: what does not fit sets `bad`, and later calls return zeros, so
 * that callers check once, at the end.  Fields that a caller does not know are skipped.
 */
#ifndef GRPO_PARQUET_THRIFT_H
#define GRPO_PARQUET_THRIFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Thrift {
  const uint8_t *p, *end;
  bool bad;
} Thrift;

typedef struct ThriftField {
  int id, type; /* {0} before the first field of a struct */
} ThriftField;

enum { THRIFT_TRUE = 1, THRIFT_FALSE = 2, THRIFT_STRUCT = 12 };

/* Goes to the next field of a struct; false at its end.  The value is read or skipped next. */
bool thrift_field(Thrift *t, ThriftField *f);
int64_t thrift_integer(Thrift *t, int type); /* of 8 to 64 bits */
bool thrift_bool(Thrift *t, int type);
/* *s points into the bytes; returns the length. */
size_t thrift_text(Thrift *t, int type, const char **s);
/* Returns the length of a list, which is at most that of the bytes that are left; *of: the type of
 * its elements. */
size_t thrift_list(Thrift *t, int type, int *of);
/* Is this a struct, whose fields come next? */
bool thrift_struct(Thrift *t, int type);
void thrift_skip(Thrift *t, int type);

#endif
