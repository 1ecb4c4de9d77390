/* portable_avx512.c - avx512.c with a multiplication and an addition in place of a fused one. */
#define PORTABLE
#include "kern/x86/avx512.c"
