/* portable_neon.c - the portable kernels with NEON: neon.c with a multiplication and an addition
 * instead of a fused one. */
#define PORTABLE
#include "kern/arm/neon.c"
