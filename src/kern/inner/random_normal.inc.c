/* random_normal.inc.c - normal random numbers, with the bits of rng_normal after rounding to real.
 *
 * Philox is integer arithmetic, so it is the same.  Logarithm and cosine are not those of the C
 * library, but both are within EPS / 4 of the exact value.  Only where a value that much smaller or
 * larger would round to another float, once in a million times, is rng_normal called. */
#ifdef GRPO_DOUBLE
static void normals(const RngKey *key, uint64_t first, int n, double std, real *out) {
  for (int i = 0; i < n; i++) out[i] = std * rng_normal(key, first + (uint64_t)i);
}
#else
typedef double dvec __attribute__((vector_size(VEC_BYTES)));
typedef uint64_t lvec __attribute__((vector_size(VEC_BYTES)));
enum { WIDE = VEC_BYTES / 8, NORMALS = 64 };
#define NORMAL_EPS 0x1p-46

/* the 64-bit products of lanes below 2^32 */
static inline lvec times(lvec x, uint32_t by) {
#if defined(__AVX512F__)
  return (lvec)_mm512_mul_epu32((__m512i)x, _mm512_set1_epi64(by));
#elif defined(__AVX2__)
  return (lvec)_mm256_mul_epu32((__m256i)x, _mm256_set1_epi64x(by));
#else
  return x * (uint64_t)by;
#endif
}

/* words[4][lane]: rng_block of counters c0, c0 + 1, ... */
static inline void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t c0,
                          lvec word[4]) {
  const lvec low = (lvec){0} + 0xffffffff;
  lvec a = {0}, b, c, d;
  b = a + counter[1], c = a + counter[2], d = a + counter[3];
  for (int i = 0; i < WIDE; i++) a[i] = (uint32_t)(c0 + (uint32_t)i);
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    const lvec p = times(a, 0xD2511F53), q = times(c, 0xCD9E8D57);
    a = (q >> 32) ^ b ^ (uint64_t)k0;
    c = (p >> 32) ^ d ^ (uint64_t)k1;
    b = q & low;
    d = p & low;
  }
  word[0] = a, word[1] = b, word[2] = c, word[3] = d;
}

/* 52 bits of two words, as a double */
static inline dvec bits52(lvec low, lvec high) {
  const dvec two52 = (dvec){0} + 0x1p52;
  return (dvec)((high << 20 | low >> 12) | (lvec)two52) - two52;
}

/* -2 log u, 0 < u < 1: u = 2^e m, sqrt(1/2) < m < sqrt(2), log m = 2 artanh((m - 1) / (m + 1)) */
static inline dvec minus_two_log(dvec u) {
  const dvec one = (dvec){0} + 1.0, two52 = (dvec){0} + 0x1p52;
  const lvec mantissa = ((lvec)u & 0xfffffffffffff) | (lvec)one;
  const lvec large = (lvec)((dvec)mantissa > 1.4142135623730951);
  const dvec m = (dvec)(mantissa - (large & (1ULL << 52)));
  const dvec e = (dvec)((((lvec)u >> 52) - large) | (lvec)two52) - (0x1p52 + 1023);
  const dvec s = (m - 1) / (m + 1), z = s * s;
  dvec p = z * (1.0 / 21) + 1.0 / 19;
  p = p * z + 1.0 / 17, p = p * z + 1.0 / 15, p = p * z + 1.0 / 13, p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9, p = p * z + 1.0 / 7, p = p * z + 1.0 / 5, p = p * z + 1.0 / 3;
  return -2 * (e * 0.69314718055994531 + 2 * (s + s * z * p));
}

/* cos x, 0 <= x < 7, less exact where it is near 0: series around the multiple q of pi / 2 */
static inline dvec cosine(dvec x) {
  const dvec magic = (dvec){0} + 0x1.8p52;
  const dvec t = x * 0.63661977236758134 + magic, q = t - magic;
  const dvec r = (x - q * 0x1.921fb544p0) - q * 0x1.0b4611a626331p-34, z = r * r;
  dvec s = z * (-1.0 / 1307674368000) + 1.0 / 6227020800;
  s = s * z - 1.0 / 39916800, s = s * z + 1.0 / 362880, s = s * z - 1.0 / 5040;
  s = s * z + 1.0 / 120, s = s * z - 1.0 / 6, s = r + r * z * s;
  dvec c = z * (1.0 / 20922789888000) - 1.0 / 87178291200;
  c = c * z + 1.0 / 479001600, c = c * z - 1.0 / 3628800, c = c * z + 1.0 / 40320;
  c = c * z - 1.0 / 720, c = c * z + 1.0 / 24, c = c * z - 0.5, c = 1 + z * c;
  const lvec quarter = (lvec)t, odd = -(quarter & 1), sign = ((quarter + 1) & 2) << 62;
  return (dvec)(((odd & (lvec)s) | (~odd & (lvec)c)) ^ sign);
}

/* out[i] = std * rng_normal(key, first + i); the lower half of the index must not wrap. */
static void normals(const RngKey *key, uint64_t first, int n, double std, real *out) {
  double log_part[NORMALS], cos_part[NORMALS];
  uint32_t counter[4], words[2];
  rng_address(key, first, counter, words);
  for (int at = 0; at < n; at += NORMALS) {
    for (int i = 0; i < NORMALS; i += WIDE) {
      lvec r[4];
      philox(counter, words, counter[0] + (uint32_t)(at + i), r);
      const dvec u = (bits52(r[0], r[1]) + 0.5) * 0x1p-52, v = bits52(r[2], r[3]) * 0x1p-52;
      const dvec l = minus_two_log(u), c = cosine(6.283185307179586477 * v);
      memcpy(log_part + i, &l, sizeof l);
      memcpy(cos_part + i, &c, sizeof c);
    }
    float low[NORMALS];
    int unsure[NORMALS], any = 0;
    for (int i = 0; i < NORMALS; i++) {
      const double x = std * (sqrt(log_part[i]) * cos_part[i]);
      low[i] = (float)(x * (1 - NORMAL_EPS));
      unsure[i] = !(low[i] == (float)(x * (1 + NORMAL_EPS))) | (fabs(cos_part[i]) < 1e-6);
      any |= unsure[i];
    }
    const int count = n - at < NORMALS ? n - at : NORMALS;
    for (int i = 0; any && i < count; i++)
      if (unsure[i]) low[i] = (float)(std * rng_normal(key, first + (uint64_t)(at + i)));
    memcpy(out + at, low, sizeof(float) * (size_t)count);
  }
}
#endif
