/* half.h - converts between float and the two 16-bit formats, bfloat16 and IEEE half. */
#ifndef GRPO_BASE_HALF_H
#define GRPO_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float bf16_to_f32(uint16_t h) {
  uint32_t u = (uint32_t)h << 16;
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

/* Rounds to nearest, ties to even; NaN stays NaN. */
static inline uint16_t f32_to_bf16(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40);
  return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

static inline float f16_to_f32(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exp = h >> 10 & 31, man = h & 1023u, u;
  if (exp == 31) {
    u = sign | 0x7f800000u | man << 13;
  } else if (exp) {
    u = sign | (exp + 112) << 23 | man << 13;
  } else { /* zero or subnormal: man * 2^-24 */
    float f = (float)man * 0x1p-24f;
    memcpy(&u, &f, sizeof u);
    u |= sign;
  }
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

/* Rounds to nearest, ties to even; overflow becomes infinity; NaN stays NaN. */
static inline uint16_t f32_to_f16(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  uint16_t sign = (uint16_t)(u >> 16 & 0x8000u);
  u &= 0x7fffffffu;
  if (u > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
  if (u >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
  if (u < 0x38800000u) { /* a subnormal half is a multiple of 2^-24 */
    float a;
    memcpy(&a, &u, sizeof a);
    float scaled = a * 0x1p24f;
    uint32_t m = (uint32_t)scaled;
    float rest = scaled - (float)m;
    if (rest > 0.5f || (rest == 0.5f && (m & 1))) m++;
    return (uint16_t)(sign | m);
  }
  uint32_t r = u + 0xfffu + (u >> 13 & 1);
  return (uint16_t)(sign | ((r >> 13) - (112u << 10)));
}

#endif
