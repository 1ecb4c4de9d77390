/* by_name.h - an order for qsort and bsearch: strings, or structs that begin with a string. */
#ifndef GRPO_BASE_BY_NAME_H
#define GRPO_BASE_BY_NAME_H

#include <string.h>

static inline int by_name(const void *x, const void *y) {
  return strcmp(*(const char *const *)x, *(const char *const *)y);
}

#endif
