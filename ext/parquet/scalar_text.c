#include "parquet/scalar_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DAY = 86400 };

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

/* Days since 1970 to a date of the Gregorian calendar; the year begins in March here, so that the
 * leap day is its last. */
static bool date_of(int64_t days, int *year, int *month, int *day) {
  if (days < -719162 || days > 2932896) return false;
  const int64_t shifted = days + 719468, era = floor_div(shifted, 146097);
  const int64_t of_era = shifted - era * 146097;
  const int64_t years = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
  const int64_t of_year = of_era - (365 * years + years / 4 - years / 100);
  const int64_t from_march = (5 * of_year + 2) / 153;
  *day = (int)(of_year - (153 * from_march + 2) / 5 + 1);
  *month = (int)(from_march < 10 ? from_march + 3 : from_march - 9);
  *year = (int)(years + era * 400 + (*month <= 2));
  return true;
}

bool date_text(int64_t days, char *out) {
  int year, month, day;
  if (!date_of(days, &year, &month, &day)) return false;
  snprintf(out, SCALAR_TEXT_BYTES, "%04d-%02d-%02d", year, month, day);
  return true;
}

/* Microseconds have 6 digits, or none if they are 0; nanoseconds make it 9. */
static void clock_text(int64_t second, int64_t fraction, int64_t per_second, char *out, size_t n) {
  const int64_t ns = fraction * (1000000000 / per_second);
  const int length = snprintf(out, n, "%02d:%02d:%02d", (int)(second / 3600),
                              (int)(second / 60 % 60), (int)(second % 60));
  if (ns % 1000)
    snprintf(out + length, n - (size_t)length, ".%09d", (int)ns);
  else if (ns)
    snprintf(out + length, n - (size_t)length, ".%06d", (int)(ns / 1000));
}

/* The date, and the time of that day, as seconds and a fraction. */
static bool day_text(int64_t days, int64_t second, int64_t fraction, int64_t per_second,
                     char *out) {
  if (!date_text(days, out)) return false;
  const size_t n = strlen(out);
  out[n] = ' ';
  clock_text(second, fraction, per_second, out + n + 1, SCALAR_TEXT_BYTES - n - 10);
  return true;
}

bool timestamp_text(int64_t value, int64_t per_second, bool utc, char *out) {
  const int64_t seconds = floor_div(value, per_second), days = floor_div(seconds, DAY);
  if (!day_text(days, seconds - days * DAY, value - seconds * per_second, per_second, out))
    return false;
  if (utc) strcat(out, "+00:00");
  return true;
}

bool day_and_ns_text(int64_t days, int64_t ns, char *out) {
  const int64_t per_second = 1000000000;
  if (ns < 0 || ns / per_second >= DAY) return false;
  return day_text(days, ns / per_second, ns % per_second, per_second, out);
}

bool time_text(int64_t value, int64_t per_second, char *out) {
  if (value < 0 || value / per_second >= DAY) return false;
  clock_text(value / per_second, value % per_second, per_second, out, SCALAR_TEXT_BYTES);
  return true;
}

/* Divides by ten; returns the remainder. */
static int divide(uint8_t *bytes, size_t n, bool *zero) {
  unsigned rest = 0;
  *zero = true;
  for (size_t i = 0; i < n; i++) {
    const unsigned v = rest << 8 | bytes[i];
    bytes[i] = (uint8_t)(v / 10);
    rest = v % 10;
    if (bytes[i]) *zero = false;
  }
  return (int)rest;
}

static void negate(uint8_t *bytes, size_t n) {
  unsigned carry = 1;
  for (size_t i = n; i-- > 0;) {
    carry += (uint8_t)~bytes[i];
    bytes[i] = (uint8_t)carry;
    carry >>= 8;
  }
}

void decimal_text(const uint8_t *bytes, size_t n, int scale, char *out) {
  uint8_t rest[DECIMAL_BYTES];
  char digit[SCALAR_TEXT_BYTES]; /* the lowest first */
  int count = 0, at = 0;
  bool zero = n == 0;
  memcpy(rest, bytes, n);
  const bool minus = n && rest[0] & 0x80;
  if (minus) negate(rest, n);
  for (; count < -scale; count++) digit[count] = '0';
  while (!zero) digit[count++] = (char)('0' + divide(rest, n, &zero));
  while (count <= scale || !count) digit[count++] = '0';
  if (minus) out[at++] = '-';
  while (count-- > 0) {
    out[at++] = digit[count];
    if (count == scale && count) out[at++] = '.';
  }
  out[at] = 0;
}

void uuid_text(const uint8_t bytes[16], char *out) {
  for (int i = 0; i < 16; i++)
    out += sprintf(out, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", bytes[i]);
}

double half_number(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double size = exponent == 31  ? (fraction ? NAN : INFINITY)
                      : exponent == 0 ? ldexp(fraction, -24)
                                      : ldexp(fraction + 1024, exponent - 25);
  return bits >> 15 ? -size : size;
}
