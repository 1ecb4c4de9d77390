/* portable_avx2.c - the portable kernels with vectors of 8 floats: avx2.c with a multiplication and an addition
 * instead of a fused one. */
#define PORTABLE
#include "kern/x86/avx2.c"
