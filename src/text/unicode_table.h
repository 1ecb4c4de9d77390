/* unicode_table.h - reads the tables of tools/gen-unicode.  Private to src/text. */
#ifndef GRPO_TEXT_UNICODE_TABLE_H
#define GRPO_TEXT_UNICODE_TABLE_H

#include <stddef.h>
#include <stdint.h>

/* A number in base 90.  The digits are the characters '#' .. '~' without '?' and '\\'. */
static inline uint32_t table_number(const char *text, int digits) {
  uint32_t n = 0;
  for (; digits > 0; digits--, text++)
    n = 90 * n + (uint32_t)(*text - '#' - (*text > '?') - (*text > '\\'));
  return n;
}

/* The last row that begins with a number up to cp; NULL: there is none.  That number has `digits`
 * digits; `bytes` is the size of the table without its NUL, `width` that of a row. */
static inline const char *table_row(const char *table, size_t bytes, int digits, size_t width,
                                    uint32_t cp) {
  size_t lo = 0,
         hi = bytes / width; /* rows before `lo` begin up to cp, rows from `hi` on past it */
  while (lo < hi) {
    const size_t mid = lo + (hi - lo) / 2;
    if (table_number(table + mid * width, digits) <= cp)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo ? table + (lo - 1) * width : NULL;
}

#endif
