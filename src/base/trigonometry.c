#include "base/trigonometry.h"

#include "base/two_doubles.h"

#include <stdbool.h>

static const Two PI = {MATH_PI, 0x1.1a62633145c07p-53};
static const Two HALF_PI = {MATH_PI / 2, 0x1.1a62633145c07p-54};
static const double TWO_OVER_PI = 0x1.45f306dc9c883p-1;

/* ---- x = q pi/2 + r, |r| <= pi/4 ------------------------------------------------------ */

/* pi/2 in pieces: the first three have 33 bits, so that products with q < 2^20 are exact. */
static const double PIECE_1 = 0x1.921fb544p+0, PIECE_2 = 0x1.0b4611a6p-34;
static const double PIECE_3 = 0x1.3198a2ep-69, PIECE_4 = 0x1.b839a252049c1p-104;

static int reduced_small(double x, Two *r) { /* |x| < 2^20 */
  const double q = nearest_integer(x * TWO_OVER_PI);
  const Two a = two_sum(x - q * PIECE_1, -q * PIECE_2);
  *r = two_add(a, two_sum(-q * PIECE_3, -q * PIECE_4));
  return (int)q & 3;
}

/* 2/pi after two words of zeros: 1,344 bits behind the point, by mpmath */
static const uint32_t two_over_pi[44] = {
    0x00000000, 0x00000000, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041,
    0xfe5163ab, 0xdebbc561, 0xb7246e3a, 0x424dd2e0, 0x06492eea, 0x09d1921c, 0xfe1deb1c, 0xb129a73e,
    0xe88235f5, 0x2ebb4484, 0xe99c7026, 0xb45f7e41, 0x3991d639, 0x835339f4, 0x9c845f8b, 0xbdf9283b,
    0x1ff897ff, 0xde05980f, 0xef2f118b, 0x5a0a6d1f, 0x6d367ecf, 0x27cb09b7, 0x4f463f66, 0x9e5fea2d,
    0x7527bac7, 0xebe5f17b, 0x3d0739f7, 0x8a5292ea, 0x6bfb5fb1, 0x1f8d5d08, 0x56033046, 0xfc7b6bab,
    0xf0cfbc20, 0x9af4361d, 0xa9e39161, 0x5ee61b08};
enum { WINDOW = 7, WORDS = WINDOW + 2 };

/* p = m times the words of a window; the highest word is the first of both */
static void times_window(uint64_t m, const uint32_t *window, uint32_t p[WORDS]) {
  memset(p, 0, WORDS * sizeof *p);
  for (int half = 0; half < 2; half++, m >>= 32) {
    uint64_t carry = 0;
    for (int i = WINDOW - 1; i >= 0; i--) {
      uint32_t *to = p + i + 2 - half;
      carry += (uint64_t)(uint32_t)m * window[i] + *to;
      *to = (uint32_t)carry;
      carry >>= 32;
    }
    p[1 - half] = (uint32_t)carry;
  }
}

static void shift_left(uint32_t p[WORDS], int by) { /* 0 <= by < 32 */
  for (int i = 0; i < WORDS && by > 0; i++)
    p[i] = p[i] << by | (i + 1 < WORDS ? p[i + 1] >> (32 - by) : 0);
}

/* The fraction in words 2 to 8; with all bits flipped it is one minus the fraction, to the last of
 * 224 bits. */
static Two fraction(const uint32_t p[WORDS], uint32_t flip) {
  Two sum = {0, 0};
  for (int i = 2; i < WORDS; i++)
    sum = two_add(sum, (Two){(double)(p[i] ^ flip) * power_of_two(-32 * (i - 1)), 0});
  return sum;
}

/* x = m 2^e with an integer m of 53 bits.  Words of 2/pi above a certain one add multiples of four
 * quarter turns, so x 2/pi is m times the seven words from there on; what follows those is below
 * 2^-138 (Payne and Hanek, Radian reduction for trigonometric functions, 1983). */
static int reduced_large(double x, Two *r) {
  const uint64_t u = bits_of_double(fabs(x));
  const int e = (int)(u >> 52) - 1075, first = (e + 62) / 32; /* e >= -32 */
  uint32_t p[WORDS];
  times_window((u & 0xfffffffffffff) | (uint64_t)1 << 52, two_over_pi + first, p);
  shift_left(p, (e + 62) % 32); /* now the quarter turns are the two highest bits of p[2] */
  int q = (int)(p[2] >> 30);
  shift_left(p, 2);
  const bool above = p[2] >> 31;
  *r = two_times(fraction(p, above ? UINT32_MAX : 0), HALF_PI);
  if (above) q++;
  if (above != (x < 0)) *r = two_negative(*r);
  return (x < 0 ? -q : q) & 3;
}

static int reduced(double x, Two *r) {
  if (fabs(x) <= MATH_PI / 4) {
    *r = (Two){x, 0};
    return 0;
  }
  return fabs(x) < 0x1p20 ? reduced_small(x, r) : reduced_large(x, r);
}

/* ---- sine and cosine: Taylor series for |r| <= pi/4 ----------------------------------- */

static Two sine(Two r) {
  const double z = r.hi * r.hi;
  double p = 1.0 / 355687428096000; /* 1/17! */
  p = p * z - 1.0 / 1307674368000;
  p = p * z + 1.0 / 6227020800;
  p = p * z - 1.0 / 39916800;
  p = p * z + 1.0 / 362880;
  p = p * z - 1.0 / 5040;
  p = p * z + 1.0 / 120;
  p = p * z - 1.0 / 6;
  return two_quick(r.hi, r.hi * z * p + r.lo * (1 - 0.5 * z));
}

static Two cosine(Two r) {
  const Two z = two_product(r.hi, r.hi), one = two_quick(1, -0.5 * z.hi);
  double p = -1.0 / 6402373705728000; /* 1/18! */
  p = p * z.hi + 1.0 / 20922789888000;
  p = p * z.hi - 1.0 / 87178291200;
  p = p * z.hi + 1.0 / 479001600;
  p = p * z.hi - 1.0 / 3628800;
  p = p * z.hi + 1.0 / 40320;
  p = p * z.hi - 1.0 / 720;
  p = p * z.hi + 1.0 / 24;
  return two_quick(one.hi, one.lo + (z.hi * z.hi * p - 0.5 * z.lo - r.hi * r.lo));
}

/* The sine of q quarter turns and r */
static Two sine_at(int q, Two r) {
  const Two s = q & 1 ? cosine(r) : sine(r);
  return q & 2 ? two_negative(s) : s;
}

double math_sin(double x) {
  if (fabs(x) < 0x1p-27) return x;
  if (!isfinite(x)) return (double)NAN;
  Two r;
  const int q = reduced(x, &r);
  const Two s = sine_at(q, r);
  return s.hi + s.lo;
}

double math_cos(double x) {
  if (!isfinite(x)) return (double)NAN;
  Two r;
  const int q = reduced(x, &r);
  const Two s = sine_at(q + 1, r);
  return s.hi + s.lo;
}

double math_tan(double x) {
  if (fabs(x) < 0x1p-27) return x;
  if (!isfinite(x)) return (double)NAN;
  Two r;
  const int q = reduced(x, &r);
  const Two t = two_over(sine_at(q, r), sine_at(q + 1, r));
  return t.hi + t.lo;
}

/* ---- angles --------------------------------------------------------------------------- */

/* arctan(k/8), by mpmath */
static const Two arctan_of_eighths[9] = {{0, 0},
                                         {0x1.fd5ba9aac2f6ep-4, -0x1.cd37686760c17p-59},
                                         {0x1.f5b75f92c80ddp-3, 0x1.8ab6e3cf7afbdp-57},
                                         {0x1.6f61941e4def1p-2, -0x1.c63aae6f6e918p-56},
                                         {0x1.dac670561bb4fp-2, 0x1.a2b7f222f65e2p-56},
                                         {0x1.1e00babdefeb4p-1, -0x1.928df287a668fp-58},
                                         {0x1.4978fa3269ee1p-1, 0x1.2419a87f2a458p-56},
                                         {0x1.700a7c5784634p-1, -0x1.8c34d25aadef6p-56},
                                         {0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55}};

/* arctan(n / d) for 0 <= n <= d.  With the nearest c = k/8 the rest is the arctangent of
 * t = (n - c d) / (d + c n), |t| <= 1/15, by its Taylor series. */
static Two arctan_of_ratio(Two n, Two d) {
  const int k = (int)(8 * (n.hi / d.hi) + 0.5);
  const Two c = {0.125 * k, 0};
  const Two t = two_over(two_add(n, two_negative(two_times(c, d))), two_add(d, two_times(c, n)));
  const double z = t.hi * t.hi;
  double p = -1.0 / 15;
  p = p * z + 1.0 / 13;
  p = p * z - 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z - 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z - 1.0 / 3;
  const Two rest = two_quick(t.hi, t.lo + t.hi * z * p);
  return two_add(arctan_of_eighths[k], rest);
}

/* The angle of the point (x, y), y >= 0: 0 to pi */
static Two angle(Two x, Two y) {
  const bool left = signbit(x.hi);
  if (left) x = two_negative(x);
  const bool steep = y.hi > x.hi;
  Two a = steep ? arctan_of_ratio(x, y) : arctan_of_ratio(y, x);
  if (steep) a = two_add(HALF_PI, two_negative(a));
  return left ? two_add(PI, two_negative(a)) : a;
}

/* sqrt(1 - x^2) */
static Two other_leg(double x) {
  return two_root(two_add((Two){1, 0}, two_negative(two_product(x, x))));
}

double math_asin(double x) {
  const double a = fabs(x);
  if (a < 0x1p-27) return x;
  if (!(a <= 1)) return (double)NAN;
  const Two y = angle(other_leg(x), (Two){a, 0});
  return x < 0 ? -(y.hi + y.lo) : y.hi + y.lo;
}

double math_acos(double x) {
  if (!(fabs(x) <= 1)) return (double)NAN;
  const Two y = angle((Two){x, 0}, other_leg(x));
  return y.hi + y.lo;
}

double math_atan(double x) { return math_atan2(x, 1); }

/* arctan2 of y >= 0 where the quotient is so small or large that its arctangent is its limit */
static bool far_apart(double y, double x, double *a) {
  const double ax = fabs(x);
  if (isinf(y) && isinf(x))
    *a = x > 0 ? MATH_PI / 4 : 3 * (MATH_PI / 4);
  else if (isinf(y) || (y > 0 && ax / y < 0x1p-60))
    *a = MATH_PI / 2;
  else if (signbit(x) && (y == 0 || y / ax < 0x1p-60))
    *a = MATH_PI;
  else if (y == 0 || y / ax < 0x1p-60)
    *a = y == 0 ? 0 : y / ax;
  else
    return false;
  return true;
}

double math_atan2(double y, double x) {
  if (x != x || y != y) return (double)NAN;
  const double ay = fabs(y);
  double a;
  if (!far_apart(ay, x, &a)) {
    /* away from the limits of doubles: both are within 2^60 of each other */
    const double by = ay > 0x1p100 ? 0x1p-100 : ay < 0x1p-100 ? 0x1p200 : 1;
    const Two whole = angle((Two){x * by, 0}, (Two){ay * by, 0});
    a = whole.hi + whole.lo;
  }
  return signbit(y) ? -a : a;
}
