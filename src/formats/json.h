/* json.h - reading and writing JSON.
 *
 * cJSON builds the tree; json_scan.h checks the text before.
 * A parsed document is a tree of read-only nodes owned by its root.  Objects are lists of members
 * in the order of the text: walk them; json_get() is linear and for small objects only.  A NULL
 * node reads as null without members, so lookups may be nested.
 *
 * Reading is strict: UTF-8, nesting up to JSON_MAX_DEPTH, numbers that a double can hold, nothing
 * after the value.  \u0000 is refused, because a C string cannot hold it; but see
 * json_parse_zeros().
 */
#ifndef GRPO_FORMATS_JSON_H
#define GRPO_FORMATS_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "formats/json_scan.h" /* JSON_MAX_DEPTH and JSON_ZERO */

typedef struct cJSON Json;
typedef enum JsonType {
  JSON_NULL,
  JSON_BOOL,
  JSON_NUMBER,
  JSON_STRING,
  JSON_ARRAY,
  JSON_OBJECT
} JsonType;

/* `what` names the source in messages ("models/a/config.json"); errors carry line and column. */
Status json_parse(const char *text, size_t len, const char *what, Json **out);
/* For readers whose strings may hold zero bytes: each \u0000 stands in the tree as JSON_ZERO,
 * which is not UTF-8 and so cannot stand for anything else. */
Status json_parse_zeros(const char *text, size_t len, const char *what, Json **out);
/* For rows of data, which other programs have written: as above, and NaN, Infinity and -Infinity
 * are numbers, half of a surrogate pair becomes U+FFFD, and an integer beyond 64 bits is a string,
 * so that it keeps its digits. */
Status json_parse_rows(const char *text, size_t len, const char *what, Json **out);
Status json_read_file(const char *path, size_t max_bytes, Json **out);
void json_free(Json *root); /* NULL is fine */

JsonType json_type(const Json *j);
const Json *json_child(const Json *j); /* first element or member; NULL when empty or a scalar */
const Json *json_next(const Json *j);  /* next sibling or NULL */
const char *json_key(const Json *j);   /* of a member of an object, else NULL */
/* The last member of that name, as other decoders and json_decode of scripts take it; NULL when
 * absent or not an object. */
const Json *json_get(const Json *j, const char *key);
size_t json_count(const Json *j);               /* elements or members */
const char *json_string(const Json *j);         /* NULL when not a string */
double json_number(const Json *j);              /* NaN when not a number */
bool json_bool(const Json *j);                  /* false when not true */
bool json_integer(const Json *j, int64_t *out); /* false when not an exact integer within +-2^53 */
/* False when the number is written with a point or an exponent, or does not fit. */
bool json_int64(const Json *j, int64_t *out);

/* Writers append to a Buf.  Strings are escaped; bytes that are not UTF-8
 * become U+FFFD; numbers are the shortest text that reads back to the same
 * double (integers without a point); NaN and infinities become null. */
void json_put_string(Buf *b, const char *s, size_t n);
void json_put_number(Buf *b, double v);

#endif
