#include "text/unicode.h"

#include <stddef.h>

#include "text/unicode_table.h"

#include "text/unicode_tables.inc.c"

enum { FLAG_BITS = 11 };

unsigned unicode_class(uint32_t cp) {
  size_t lo = 0, hi = sizeof runs / sizeof *runs; /* runs[lo] <= cp < runs[hi] */
  while (hi - lo > 1) {
    size_t mid = lo + (hi - lo) / 2;
    if (runs[mid] >> FLAG_BITS <= cp)
      lo = mid;
    else
      hi = mid;
  }
  return runs[lo] & ((1 << FLAG_BITS) - 1);
}

uint32_t unicode_lower(uint32_t cp) {
  const char *row = table_row(lower_runs, sizeof lower_runs - 1, 3, 9, cp);
  if (!row) return cp;
  const uint32_t at = cp - table_number(row, 3), stride = table_number(row + 5, 1);
  if (at % stride || at / stride >= table_number(row + 3, 2)) return cp;
  return table_number(row + 6, 3) + at;
}
