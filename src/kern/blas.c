/* blas.c - the only user of OpenBLAS.  The products are our own (gemm.c): as
 * fast on large shapes, several times faster on small ones, and row-invariant.
 * OpenBLAS is asked only what it is, for `--version` and comparisons.
 */
#include <cblas.h>

#include "kern/kern.h"

const char *kern_blas(void) { return openblas_get_corename(); }
