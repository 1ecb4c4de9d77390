/* json_scan.h - checking a JSON text and preparing it for cJSON, which is lenient: it takes control
 * characters, bytes that are not UTF-8, numbers that begin with 0 and any text after a NUL.
 */
#ifndef GRPO_FORMATS_JSON_SCAN_H
#define GRPO_FORMATS_JSON_SCAN_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

enum { JSON_MAX_DEPTH = 200 };
/* \u0000 becomes these bytes where it is allowed. */
#define JSON_ZERO "\xc0\x80"

/* The kinds of text that json_parse(), json_parse_zeros() and json_parse_rows() take. */
typedef enum JsonAllowed { JSON_STRICT, JSON_ZEROS, JSON_ROWS } JsonAllowed;

/* A number that cJSON would not keep as it is written stands in the prepared text as a string that
 * begins with this byte, which is not UTF-8: an integer beyond 2^53, a whole number that is written
 * with a point or an exponent, one of many digits, NaN and the infinities. */
#define JSON_KEPT_NUMBER '\xff'

/* text[len] is NUL.  Appends to `out` the text that cJSON is to read in its place, and its NUL, or
 * nothing if it can read the text itself; *nodes counts the values.  Errors name `what`, line and
 * column. */
Status json_scan(const char *text, size_t len, const char *what, JsonAllowed allowed, Buf *out,
                 size_t *nodes);

#endif
