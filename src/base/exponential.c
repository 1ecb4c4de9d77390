#include "base/exponential.h"

#include "base/two_doubles.h"

#include <stdbool.h>

/* LN2_HIGH has 42 bits, so that its product with an exponent is exact. */
static const double LN2_HIGH = 0x1.62e42fefa38p-1, LN2_LOW = 0x1.ef35793c7673p-45;
static const Two LOG2_E = {0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56};
static const Two LOG10_E = {0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57};
static const double EXP_LARGEST = 709.8, EXP_LEAST = -745.2; /* beyond: infinity, zero */

/* ---- powers of e --------------------------------------------------------------------- */

/* x 2^k, rounded once; |x| is 0.2 to 4 */
static double scaled(double x, int k) {
  if (k > 1000) return x * power_of_two(1000) * power_of_two(k - 1000);
  if (k < -1000) return x * power_of_two(k + 1000) * power_of_two(-1000);
  return x * power_of_two(k);
}

/* exp(r) - 1 - r for |r| <= ln 2 / 2: the Taylor series, in which even and odd powers are summed
 * apart, because these sums do not wait for each other */
static double exp_rest(double r) {
  const double z = r * r;
  double even = 1.0 / 87178291200, odd = 1.0 / 6227020800; /* 1/14!, 1/13! */
  even = even * z + 1.0 / 479001600;
  odd = odd * z + 1.0 / 39916800;
  even = even * z + 1.0 / 3628800;
  odd = odd * z + 1.0 / 362880;
  even = even * z + 1.0 / 40320;
  odd = odd * z + 1.0 / 5040;
  even = even * z + 1.0 / 720;
  odd = odd * z + 1.0 / 120;
  even = even * z + 1.0 / 24;
  odd = odd * z + 1.0 / 6;
  even = even * z + 1.0 / 2;
  return z * (even + r * odd);
}

/* x + low = n ln 2 + r; returns r.  |x| <= 750 */
static Two reduced(double x, double low, int *n) {
  const double k = nearest_integer(x * LOG2_E.hi);
  *n = (int)k;
  return two_sum(x - k * LN2_HIGH, low - k * LN2_LOW);
}

/* exp(x + low) = 2^n times what is returned */
static Two exp_parts(double x, double low, int *n) {
  const Two r = reduced(x, low, n), one = two_quick(1, r.hi);
  return (Two){one.hi, one.lo + (exp_rest(r.hi) + r.lo * (1 + r.hi))};
}

double math_exp(double x) {
  if (!(x <= EXP_LARGEST)) return x > 0 ? (double)INFINITY : x == x ? x : (double)NAN;
  if (x < EXP_LEAST) return 0;
  int n;
  const Two e = exp_parts(x, 0, &n);
  return scaled(e.hi + e.lo, n);
}

/* exp(x) - 1 for -745 < x < 700 */
static Two expm1_parts(double x) {
  int n;
  const Two r = reduced(x, 0, &n);
  if (n == 0) return two_quick(x, exp_rest(x));
  const Two one = two_quick(1, r.hi);
  const double low = one.lo + (exp_rest(r.hi) + r.lo * (1 + r.hi)), power = scaled(1, n);
  const Two sum = two_sum(power * one.hi, -1);
  return two_quick(sum.hi, sum.lo + power * low);
}

double math_expm1(double x) {
  if (!(x < 700)) return math_exp(x);
  if (x < -40) return -1;
  if (fabs(x) < 0x1p-54) return x;
  const Two e = expm1_parts(x);
  return e.hi + e.lo;
}

/* With e = exp(2 x) - 1: tanh x = e / (e + 2) */
double math_tanh(double x) {
  const double a = fabs(x);
  if (!(a >= 0x1p-28)) return x == x ? x : (double)NAN;
  if (a > 22) return x < 0 ? -1 : 1;
  const Two e = expm1_parts(2 * a), t = two_over(e, two_add(e, (Two){2, 0}));
  return x < 0 ? -(t.hi + t.lo) : t.hi + t.lo;
}

/* exp(a) / 2 for a >= 40, where the other exponential is lost */
static double half_exp(double a) {
  if (!(a < 711)) return a == a ? (double)INFINITY : (double)NAN;
  int n;
  const Two e = exp_parts(a, 0, &n);
  return scaled(e.hi + e.lo, n - 1);
}

/* With e = exp(x) - 1: 2 sinh x = e + e / (e + 1) */
double math_sinh(double x) {
  const double a = fabs(x);
  if (a < 0x1p-28) return x;
  double y = half_exp(a);
  if (a < 40) {
    const Two e = expm1_parts(a), t = two_add(e, two_over(e, two_add(e, (Two){1, 0})));
    y = 0.5 * (t.hi + t.lo);
  }
  return x < 0 ? -y : y;
}

double math_cosh(double x) {
  const double a = fabs(x);
  if (!(a < 40)) return half_exp(a);
  const Two one = {1, 0}, e = two_add(expm1_parts(a), one), t = two_add(e, two_over(one, e));
  return 0.5 * (t.hi + t.lo);
}

/* ---- logarithms ---------------------------------------------------------------------- */

static const Two THIRD = {0x1.5555555555555p-2, 0x1.5555555555555p-56};
static const Two FIFTH = {0x1.999999999999ap-3, -0x1.999999999999ap-57};

/* artanh(s) / s - 1 - z/3 - z^2/5 over z^3, with z = s^2 <= 0.03: its terms are below 2^-17 of the
 * whole, so double is enough */
static double artanh_rest(double z) {
  const double z2 = z * z;
  double even = 1.0 / 27, odd = 1.0 / 25;
  even = even * z2 + 1.0 / 23;
  odd = odd * z2 + 1.0 / 21;
  even = even * z2 + 1.0 / 19;
  odd = odd * z2 + 1.0 / 17;
  even = even * z2 + 1.0 / 15;
  odd = odd * z2 + 1.0 / 13;
  even = even * z2 + 1.0 / 11;
  odd = odd * z2 + 1.0 / 9;
  even = even * z2 + 1.0 / 7;
  return even + z * odd;
}

/* log(1 + f) for sqrt(1/2) <= 1 + f <= sqrt(2), to 2^-68 of itself: with s = f / (2 + f) it is
 * 2 artanh(s) = 2 s (1 + s^2/3 + s^4/5 + ...) */
static Two log_near_one(Two f) {
  Two d = two_quick(2, f.hi);
  d.lo += f.lo;
  const Two s = two_over(f, d), z = two_times(s, s);
  Two w = two_times(z, FIFTH);
  w.lo += z.hi * z.hi * artanh_rest(z.hi);
  w = two_times(z, two_add(THIRD, w));
  w = two_times(s, w);
  w = two_add(s, w);
  return (Two){2 * w.hi, 2 * w.lo};
}

/* x = 2^k m for a positive finite x, with sqrt(1/2) <= m < sqrt(2) */
static double mantissa(double x, int *k) {
  *k = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    *k = -54;
  }
  const uint64_t u = bits_of_double(x), root = 0x3ff6a09e667f3bcd; /* sqrt(2) */
  const uint64_t m = (u & 0xfffffffffffff) | (uint64_t)1023 << 52;
  const int half = m >= root;
  *k += (int)(u >> 52) - 1023 + half;
  return double_of_bits(m - ((uint64_t)half << 52));
}

static Two plus_exponent(Two l, int k) {
  if (k == 0) return l;
  return two_add((Two){k * LN2_HIGH, 0}, two_add((Two){k * LN2_LOW, 0}, l));
}

static Two log_parts(double x) {
  int k;
  const double m = mantissa(x, &k);
  return plus_exponent(log_near_one((Two){m - 1, 0}), k);
}

/* Has the logarithm of x no sum of ours?  Then *y is its value. */
static bool log_special(double x, double *y) {
  if (x > 0 && x < (double)INFINITY) return false;
  *y = x == 0 ? -(double)INFINITY : x > 0 ? x : (double)NAN;
  return true;
}

/* The sum of log_near_one in another form, for which most operations may be rounded:
 * f - f^2/2 + s (f^2/2 + 2 s^2/3 + 2 s^4/5 + ...) */
double math_log(double x) {
  double y;
  if (log_special(x, &y)) return y;
  int k;
  const double f = mantissa(x, &k) - 1, s = f / (2 + f), z = s * s;
  const Two square = two_product(f, f), sum = two_quick(f, -0.5 * square.hi);
  const double series = 2 * z * (1.0 / 3 + z * (1.0 / 5 + z * artanh_rest(z)));
  const double low = sum.lo - 0.5 * square.lo + s * (0.5 * square.hi + series);
  const Two all = two_sum(k * LN2_HIGH, sum.hi);
  return all.hi + (all.lo + (low + k * LN2_LOW));
}

double math_log2(double x) {
  double y;
  if (log_special(x, &y)) return y;
  int k;
  const double m = mantissa(x, &k);
  const Two l = two_times(log_near_one((Two){m - 1, 0}), LOG2_E), sum = two_add((Two){k, 0}, l);
  return sum.hi + sum.lo;
}

double math_log10(double x) {
  double y;
  if (log_special(x, &y)) return y;
  const Two l = two_times(log_parts(x), LOG10_E);
  return l.hi + l.lo;
}

double math_log1p(double x) {
  double y;
  if (fabs(x) < 0x1p-54) return x;
  if (log_special(1 + x, &y)) return y;
  const Two sum = two_sum(1, x);
  int k;
  const double m = mantissa(sum.hi, &k);
  /* beyond 2^900 the part `lo` is nothing, and its power of two would be too small */
  const double low = k > 900 ? 0 : sum.lo * power_of_two(-k);
  const Two l = plus_exponent(log_near_one(two_sum(m - 1, low)), k);
  return l.hi + l.lo;
}

/* ---- x^y = exp(y log x) -------------------------------------------------------------- */

static bool is_odd(double y) {
  return fabs(y) < 0x1p53 && floor(y) == y && floor(0.5 * y) != 0.5 * y;
}

/* |x|^y for 0 < |x| < infinity and a finite y */
static double power_of(double x, double y) {
  const Two l = log_parts(fabs(x));
  const double all = y * l.hi;
  if (all > EXP_LARGEST) return (double)INFINITY;
  if (all < EXP_LEAST) return 0;
  if (fabs(all) < 0x1p-60) return 1;
  int n;
  const Two p = two_product(y, l.hi), e = exp_parts(p.hi, p.lo + y * l.lo, &n);
  return scaled(e.hi + e.lo, n);
}

double math_pow(double x, double y) {
  if (y == 0 || x == 1) return 1;
  if (x != x || y != y) return (double)NAN;
  const double a = fabs(x);
  if (isinf(y)) return a == 1 ? 1 : (a > 1) == (y > 0) ? (double)INFINITY : 0;
  if (x < 0 && a < (double)INFINITY && floor(y) != y) return (double)NAN;
  double p;
  if (a == 0 || isinf(x))
    p = (a == 0) == (y > 0) ? 0 : (double)INFINITY;
  else
    p = power_of(x, y);
  return signbit(x) && is_odd(y) ? -p : p;
}
