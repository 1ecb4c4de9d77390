#include "grad/pack_check.h"

Status pack_check(const char *op, int npack, const PackSpan *pack, int rows) {
  int row = 0;
  for (int i = 0; i < npack; i++) {
    const PackSpan *p = &pack[i];
    if (p->row != row || p->n < 0)
      return fail(GRPO_ESHAPE, "%s: span %d covers rows %d .. %d, want it to start at %d", op, i,
                  p->row, p->row + p->n - 1, row);
    if (p->prefix >= i || (p->prefix >= 0 && pack[p->prefix].prefix >= 0))
      return fail(
          GRPO_ESHAPE,
          "%s: span %d names %d as its prefix: want an earlier span without a prefix, or -1", op, i,
          p->prefix);
    row += p->n;
  }
  if (row != rows) return fail(GRPO_ESHAPE, "%s: the spans cover %d rows of %d", op, row, rows);
  return GRPO_OK;
}
