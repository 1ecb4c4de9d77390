/* portable_neon.c - neon.c with a multiplication and an addition in place of a fused one. */
#define PORTABLE
#include "kern/arm/neon.c"
