#include "text/unicode.h"

#include <stddef.h>

#include "text/unicode_tables.inc.c"

unsigned unicode_class(uint32_t cp) {
  size_t lo = 0, hi = sizeof runs / sizeof *runs; /* runs[lo] <= cp < runs[hi] */
  while (hi - lo > 1) {
    size_t mid = lo + (hi - lo) / 2;
    if (runs[mid] >> 8 <= cp)
      lo = mid;
    else
      hi = mid;
  }
  return runs[lo] & 0xFF;
}
