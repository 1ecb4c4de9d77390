/* portable_avx2.c - avx2.c with a multiplication and an addition in place of a fused one. */
#define PORTABLE
#include "kern/x86/avx2.c"
