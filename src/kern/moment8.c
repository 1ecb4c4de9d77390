#include "kern/moment8.h"

#include <math.h>
#include <string.h>

enum { DECADES = 7, SHIFT = 16 };

static const uint32_t first_bucket = 0x34000000u >> SHIFT; /* of 2^-23 */

static uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static float from_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* The middles of `parts` equal parts of 0.1 .. 1, times the decade, in float arithmetic with the
 * roundings of torch.linspace, so that the bits are those of bitsandbytes. */
static int add_decade(float *to, int parts, float decade) {
  const float step = (1.0f - 0.1f) / (float)parts;
  float bound = 0.1f;
  for (int k = 1; k <= parts; k++) {
    /* in double, where product and sum are exact: one rounding, as of a fused multiply-add */
    const double s = (double)step;
    const float next = (float)(k < (parts + 1) / 2 ? s * k + (double)0.1f : 1.0 - s * (parts - k));
    to[k - 1] = (bound + next) / 2 * decade;
    bound = next;
  }
  return parts;
}

static void fill_values(Moment8Map *m, bool has_sign) {
  static const float decade[DECADES] = {1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1};
  const int zero = has_sign ? 127 : 0;
  int n = zero + 1;
  m->value[zero] = 0;
  for (int i = 0; i < DECADES; i++)
    n += add_decade(m->value + n, has_sign ? 1 << i : 2 << i, decade[i]);
  m->value[n] = 1;
  for (int i = 0; i < zero; i++) m->value[i] = -m->value[2 * zero - i];
}

/* The last value below x, or not above it where `reached`; 0 where there is none. */
static uint8_t last_below(const Moment8Map *m, float x, bool reached) {
  int i = 255;
  while (i > 0 && !(m->value[i] < x || (reached && m->value[i] == x))) i--;
  return (uint8_t)i;
}

void moment8_map_init(Moment8Map *m, bool has_sign) {
  fill_values(m, has_sign);
  for (uint32_t i = 0; i < MOMENT8_BUCKETS; i++) {
    const float low = i ? from_bits((first_bucket + i) << SHIFT) : 0;
    const float high = from_bits((first_bucket + i + 1) << SHIFT);
    m->lower[0][i] = last_below(m, low, false);
    m->lower[1][i] = last_below(m, -high, true);
  }
}

static inline uint8_t code_of(const Moment8Map *m, float a) {
  const uint32_t bits = bits_of(a), bucket = (bits & 0x7fffffffu) >> SHIFT;
  int low = m->lower[bits >> 31][bucket < first_bucket ? 0 : bucket - first_bucket];
  low += m->value[low + 1] < a;
  return (uint8_t)(low + !(a - m->value[low] <= m->value[low + 1] - a));
}

uint8_t moment8_code(const Moment8Map *m, float a) { return code_of(m, a); }

void moment8_read(const Moment8Map *m, int n, const uint8_t *code, float scale, real *x) {
  for (int i = 0; i < n; i++) x[i] = (real)(m->value[code[i]] * scale);
}

void moment8_write(const Moment8Map *m, int n, const real *x, uint8_t *code, float *scale) {
  float largest = 0;
  for (int i = 0; i < n; i++) {
    const float a = fabsf((float)x[i]);
    largest = a > largest ? a : largest;
  }
  *scale = largest > 0 ? largest : 1;
  for (int i = 0; i < n; i++) code[i] = code_of(m, (float)x[i] / *scale);
}
