/* portable_avx512.c - the portable kernels with vectors of 16 floats: avx512.c with a multiplication and an addition
 * instead of a fused one. */
#define PORTABLE
#include "kern/x86/avx512.c"
