#include "grad/quantile.h"

#include <stdbool.h>

/* An order without ties. */
static bool less(const real *x, uint32_t a, uint32_t b) {
  return x[a] < x[b] || (x[a] == x[b] && a < b);
}

/* Quickselect: the k-th smallest comes to at[k], smaller ones before it. */
static void select_kth(const real *x, uint32_t *at, ptrdiff_t n, ptrdiff_t k) {
  ptrdiff_t lo = 0, hi = n - 1;
  while (lo < hi) {
    const uint32_t pivot = at[lo + (hi - lo) / 2];
    ptrdiff_t i = lo, j = hi;
    while (i <= j) {
      while (less(x, at[i], pivot)) i++;
      while (less(x, pivot, at[j])) j--;
      if (i > j) break;
      const uint32_t swap = at[i];
      at[i++] = at[j];
      at[j--] = swap;
    }
    if (k <= j)
      hi = j;
    else if (k >= i)
      lo = i;
    else
      break;
  }
}

Quantile quantile_of(const real *x, size_t n, uint32_t *at, double q) {
  const double rank = q * (double)(n - 1);
  const size_t below = (size_t)rank;
  select_kth(x, at, (ptrdiff_t)n, (ptrdiff_t)below);
  uint32_t high = at[below + 1 < n ? below + 1 : below];
  for (size_t i = below + 2; i < n; i++)
    if (less(x, at[i], high)) high = at[i];
  return (Quantile){at[below], high, rank - (double)below};
}

double quantile_value(const real *x, Quantile q) {
  const double low = (double)x[q.low], high = (double)x[q.high];
  return low + q.weight * (high - low);
}

void smallest(const real *x, uint32_t *at, size_t n, size_t k) {
  if (k > 0 && k < n) select_kth(x, at, (ptrdiff_t)n, (ptrdiff_t)k - 1);
}

void top_entropy_mask(size_t n, const real *mask, const real *entropy, double share, uint32_t *at,
                      real *kept) {
  size_t count = 0;
  for (size_t i = 0; i < n; i++) {
    kept[i] = 1;
    if (!mask || mask[i] != 0) at[count++] = (uint32_t)i;
  }
  if (!count) return;
  const double threshold = quantile_value(entropy, quantile_of(entropy, count, at, 1 - share));
  for (size_t i = 0; i < n; i++) kept[i] = (double)entropy[i] >= threshold;
}
