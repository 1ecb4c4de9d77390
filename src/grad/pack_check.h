/* pack_check.h - whether the spans of a packed batch are what operations expect (PackSpan). */
#ifndef GRPO_GRAD_PACK_CHECK_H
#define GRPO_GRAD_PACK_CHECK_H

#include "base/err.h"
#include "grad/attrs.h"

/* ESHAPE, in the name of the operation, unless the spans cover all rows in order, and a prefix is
 * an earlier span without one. */
Status pack_check(const char *op, int npack, const PackSpan *pack, int rows);

#endif
