/* minmax.h - the smaller and the larger of two numbers, for the types that the code counts with. */
#ifndef GRPO_BASE_MINMAX_H
#define GRPO_BASE_MINMAX_H

#include <stddef.h>

static inline int min_int(int a, int b) { return a < b ? a : b; }
static inline int max_int(int a, int b) { return a > b ? a : b; }
static inline size_t min_size(size_t a, size_t b) { return a < b ? a : b; }
static inline size_t max_size(size_t a, size_t b) { return a > b ? a : b; }

#endif
