/* two_doubles.h - the sum hi + lo of two doubles stands for a number of some 100 bits.
 *
 * Only + - * / and sqrt occur here, so every machine that has IEEE 754 gives the same bits.  The
 * sums and products without an error are Knuth's, Dekker's and Veltkamp's (Muller et al., Handbook
 * of Floating-Point Arithmetic, 2nd edition, 4.3 and 4.4).  A compiler must neither contract nor
 * reorder: -ffp-contract=off, and doubles that are computed as doubles.
 */
#ifndef GRPO_BASE_TWO_DOUBLES_H
#define GRPO_BASE_TWO_DOUBLES_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __FAST_MATH__
#error "-ffast-math lets a compiler change the results, and no two agree; build without it"
#endif
_Static_assert(FLT_EVAL_METHOD == 0, "doubles must be computed as doubles: x86 needs SSE2");

typedef struct Two {
  double hi, lo; /* |lo| is at most half a unit in the last place of hi */
} Two;

static inline uint64_t bits_of_double(double x) {
  uint64_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

static inline double double_of_bits(uint64_t u) {
  double x;
  memcpy(&x, &u, sizeof x);
  return x;
}

static inline double power_of_two(int k) { /* -1022 <= k <= 1023 */
  return double_of_bits((uint64_t)(k + 1023) << 52);
}

/* The nearest integer, ties to even; |x| < 2^51 */
static inline double nearest_integer(double x) { return (x + 0x1.8p52) - 0x1.8p52; }

/* a + b, exactly; |a| >= |b|, or a = 0 */
static inline Two two_quick(double a, double b) {
  const double s = a + b;
  return (Two){s, b - (s - a)};
}

/* a + b, exactly */
static inline Two two_sum(double a, double b) {
  const double s = a + b, part = s - a;
  return (Two){s, (a - (s - part)) + (b - part)};
}

/* a b, exactly, where nothing overflows or is below 2^-968 */
static inline Two two_product(double a, double b) {
  const double p = a * b, ga = a * 0x1.0000002p27, gb = b * 0x1.0000002p27;
  const double ah = ga - (ga - a), bh = gb - (gb - b), al = a - ah, bl = b - bh;
  return (Two){p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
}

static inline Two two_add(Two a, Two b) {
  const Two s = two_sum(a.hi, b.hi), t = two_sum(a.lo, b.lo);
  const Two u = two_quick(s.hi, s.lo + t.hi);
  return two_quick(u.hi, t.lo + u.lo);
}

static inline Two two_times(Two a, Two b) {
  const Two p = two_product(a.hi, b.hi);
  return two_quick(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}

static inline Two two_over(Two a, Two b) {
  const double q = a.hi / b.hi;
  const Two p = two_product(q, b.hi);
  return two_quick(q, (((a.hi - p.hi) - p.lo) + a.lo - q * b.lo) / b.hi);
}

static inline Two two_root(Two a) {
  if (!(a.hi > 0)) return (Two){0, 0};
  const double s = sqrt(a.hi);
  const Two p = two_product(s, s);
  return two_quick(s, (((a.hi - p.hi) - p.lo) + a.lo) / (2 * s));
}

static inline Two two_negative(Two a) { return (Two){-a.hi, -a.lo}; }

#endif
