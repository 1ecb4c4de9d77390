/* scalar_text.h - dates, times, decimals and UUIDs of columnar files as text, as Python's str()
 * writes them.
 */
#ifndef GRPO_PARQUET_SCALAR_TEXT_H
#define GRPO_PARQUET_SCALAR_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SCALAR_TEXT_BYTES = 400, DECIMAL_BYTES = 32, DECIMAL_MAX_SCALE = 255 };

/* Each writes into out[SCALAR_TEXT_BYTES].  false: the year is not within 1 .. 9999. */
bool date_text(int64_t days, char *out); /* "2026-01-31" */
/* per_second: 1, 1000, 10^6 or 10^9 units a second since 1970.  "2026-01-31 12:00:00[.123456]",
 * with +00:00 behind it if it is known to be UTC. */
bool timestamp_text(int64_t value, int64_t per_second, bool utc, char *out);
/* The date and time of `ns` nanoseconds after a day begins, `days` days after 1970-01-01. */
bool day_and_ns_text(int64_t days, int64_t ns, char *out);
/* A time of day, "12:00:00[.123456]"; false: it is not within a day. */
bool time_text(int64_t value, int64_t per_second, char *out);
/* A two's complement number of n <= DECIMAL_BYTES bytes, the highest first, times 10^-scale;
 * -DECIMAL_MAX_SCALE <= scale <= DECIMAL_MAX_SCALE. */
void decimal_text(const uint8_t *bytes, size_t n, int scale, char *out);
void uuid_text(const uint8_t bytes[16], char *out);
double half_number(uint16_t bits); /* a float of 16 bits */

#endif
