/* vec.inc.c - a vector of LANES reals: loads, stores, tails, sums, exp, log.
 *
 * The file that includes this one has defined LANES, the types vec and ivec, v_fma, v_max, v_min,
 * v_sqrt, v_get and v_get_or; see generic.c.  If it has faster ways for v_sum and v_largest, for
 * v_sel or for p times 2^n it defines V_FOLDS, V_SEL or V_TIMES_POWER; the bits are the same.
 * v_max(a, b) is a > b ? a : b: with a constant first, NaN in b passes through. */
#ifdef GRPO_DOUBLE
#include "base/exponential.h"
#endif

static inline vec v_load(const real *p) { return *(const uvec *)p; }
static inline void v_store(real *p, vec x) { *(uvec *)p = x; }

/* x is loaded once, where a compiler would rather load it again for each use. */
#ifndef V_HOLD
#define V_HOLD(x) ((void)(x))
#endif

/* sum = v_fma(a, b, sum), where a compiler would move sums to and fro between registers */
#ifndef V_FMA_TO
#define V_FMA_TO(sum, a, b) ((sum) = v_fma(a, b, sum))
#endif

#ifndef V_SEL
/* mask ? a : b, mask of all ones or all zeros per lane */
static inline vec v_sel(ivec mask, vec a, vec b) {
  return (vec)((mask & (ivec)a) | (~mask & (ivec)b));
}
#endif

#ifndef V_FOLDS
/* Lanes 0, 1, 2, ... in one order on every path of one width: halves are folded. */
static inline real v_sum(vec x) {
  real t[LANES];
  memcpy(t, &x, sizeof t);
  for (int n = LANES / 2; n > 0; n /= 2)
    for (int i = 0; i < n; i++) t[i] += t[i + n];
  return t[0];
}

static inline real v_largest(vec x) {
  real t[LANES];
  memcpy(t, &x, sizeof t);
  for (int i = 1; i < LANES; i++)
    if (t[i] > t[0]) t[0] = t[i];
  return t[0];
}
#endif

/* exp: r = x - n ln 2, |r| <= ln 2 / 2, a polynomial in r, times 2^n.
 * Relative error below 2e-7; results below the smallest normal number are 0. */
static inline vec v_exp(vec x) {
#ifdef GRPO_DOUBLE
  for (int i = 0; i < LANES; i++) x[i] = math_exp(x[i]);
  return x;
#else
  const vec lo = v_set(-87.33654f), magic = v_set(12582912.0f);
#ifdef V_TIMES_POWER
  const vec c = v_min(v_set(89), v_max(lo, x));
#else
  const vec c = x; /* beyond the limits the result is replaced below */
#endif
  vec t = v_fma(c, v_set(1.44269504f), magic), n = t - magic;
  vec r = v_fma(n, v_set(-0.693359375f), c);
  r = v_fma(n, v_set(2.12194440e-4f), r);
  vec p = v_fma(v_set(1.9875691500e-4f), r, v_set(1.3981999507e-3f));
  p = v_fma(p, r, v_set(8.3334519073e-3f));
  p = v_fma(p, r, v_set(4.1665795894e-2f));
  p = v_fma(p, r, v_set(1.6666665459e-1f));
  p = v_fma(p, r, v_set(5.0000001201e-1f));
  p = v_fma(p, r * r, r) + 1;
#ifdef V_TIMES_POWER
  p = v_times_power(p, n);
#else
  /* n is added to the exponent; NaN, and what is too large, is x + inf */
  p = v_sel((ivec)(x <= 88.72283f), (vec)((uivec)p + ((uivec)t << 23)), x + (real)INFINITY);
#endif
  return v_keep(~(ivec)(x < lo), p);
#endif
}

/* log of a normal number above 0: x = 2^e m, sqrt(1/2) <= m < sqrt(2), and log m = 2 artanh((m - 1)
 * / (m + 1)) as a series.  Error below 2e-7, absolute where x is near 1. */
static inline vec v_log(vec x) {
#ifdef GRPO_DOUBLE
  for (int i = 0; i < LANES; i++) x[i] = math_log(x[i]);
  return x;
#else
  const int32_t half = 0x3f3504f3; /* sqrt(1/2) */
  const ivec e = ((ivec)x - half) >> 23;
  const vec m = (vec)((ivec)x - (e << 23)), s = (m - 1) / (m + 1), z = s * s;
  vec p = v_fma(z, v_set((real)(1.0 / 9)), v_set((real)(1.0 / 7)));
  p = v_fma(p, z, v_set((real)(1.0 / 5)));
  p = v_fma(p, z, v_set((real)(1.0 / 3)));
  p = v_fma(s * z, p, s);
  return v_fma(__builtin_convertvector(e, vec), v_set(0.69314718f), p + p);
#endif
}

static inline vec v_sigmoid(vec x) { return 1 / (1 + v_exp(-x)); }

/* tanh: for small x the continued fraction x / (1 + x^2 / (3 + x^2 / (5 + ...))) to the ninth
 * term, elsewhere by exp.  Relative error below 3e-7. */
static inline vec v_tanh(vec x) {
#ifdef GRPO_DOUBLE
  for (int i = 0; i < LANES; i++) x[i] = math_tanh(x[i]);
  return x;
#else
  const vec a = v_max(x, -x), z = x * x;
  vec num = v_fma(z + 105, z, v_set(945)),
      den = v_fma(v_fma(v_set(15), z, v_set(420)), z, v_set(945));
  vec big = 1 - 2 / (v_exp(2 * a) + 1);
  return v_sel((ivec)(a < (real)0.625), x * num / den, v_sel((ivec)(x < 0), -big, big));
#endif
}
