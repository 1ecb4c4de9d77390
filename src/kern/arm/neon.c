/* neon.c - the kernels with NEON: vectors of 4 floats and fused multiply-add, which every aarch64
 * has.
 *
 * Of 32 registers the tile's 6 rows of 4 vectors, a row of weights and one broadcast take 29. */
#include <arm_neon.h>
#include <math.h>
#include <string.h>

#include "kern/kernels.h"

#define LANES 4
#include "kern/inner/types.inc.c"

static inline vec v_set(real x) { return (vec)vdupq_n_f32(x); }
#ifdef PORTABLE
static inline vec v_fma(vec a, vec b, vec c) { return a * b + c; }
#else
static inline vec v_fma(vec a, vec b, vec c) {
  return (vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
#endif
static inline vec v_sqrt(vec a) { return (vec)vsqrtq_f32((float32x4_t)a); }
static inline vec v_keep(ivec mask, vec a) { return (vec)(mask & (ivec)a); }

/* by comparison: FMAX would let NaN in a through */
static inline vec v_max(vec a, vec b) {
  return (vec)vbslq_f32((uint32x4_t)(a > b), (float32x4_t)a, (float32x4_t)b);
}
static inline vec v_min(vec a, vec b) {
  return (vec)vbslq_f32((uint32x4_t)(a < b), (float32x4_t)a, (float32x4_t)b);
}

static inline vec v_get_or(const real *p, ptrdiff_t left, real fill) {
  if (left >= LANES) return *(const uvec *)p;
  vec x = v_set(fill);
  if (left > 0) x[0] = p[0];
  if (left > 1) x[1] = p[1];
  if (left > 2) x[2] = p[2];
  return x;
}
static inline vec v_get(const real *p, ptrdiff_t left) { return v_get_or(p, left, 0); }
static inline void v_put(real *p, ptrdiff_t left, vec x) {
  if (left >= LANES) {
    *(uvec *)p = x;
    return;
  }
  if (left > 0) p[0] = x[0];
  if (left > 1) p[1] = x[1];
  if (left > 2) p[2] = x[2];
}

/* ---- quantised weights: LANES values ---- */
static inline vec v_f16(const uint16_t *p) {
  return (vec)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
static inline vec v_int8(const int8_t *p) {
  uint32_t four;
  memcpy(&four, p, sizeof four);
  const int16x8_t x = vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(four)));
  return (vec)vcvtq_f32_s32(vmovl_s16(vget_low_s16(x)));
}
static inline ivec v_words(const uint32_t *p) { return (ivec)vld1q_u32(p); }

/* four registers of bytes: code c is bytes 4 c to 4 c + 3 */
typedef uint8x16x4_t Nf4Table;
static inline Nf4Table nf4_table(void) {
  const uint8_t *p = (const uint8_t *)nf4_code;
  return (Nf4Table){{vld1q_u8(p), vld1q_u8(p + 16), vld1q_u8(p + 32), vld1q_u8(p + 48)}};
}
static inline vec v_nf4(Nf4Table table, ivec code) {
  const uint32x4_t c = vandq_u32((uint32x4_t)code, vdupq_n_u32(15));
  const uint32x4_t at = vmlaq_u32(vdupq_n_u32(0x03020100), c, vdupq_n_u32(0x04040404));
  return (vec)vqtbl4q_u8(table, vreinterpretq_u8_u32(at));
}

static inline vec v_zip_low(vec a, vec b) {
  return (vec)vzip1q_f32((float32x4_t)a, (float32x4_t)b);
}
static inline vec v_zip_high(vec a, vec b) {
  return (vec)vzip2q_f32((float32x4_t)a, (float32x4_t)b);
}

/* Products of few rows with quantised weights: tiles by rows and groups (NF4's table takes 4
 * registers); rows at most, by type. */
#define QUANT_FEW_ROWS           4
#define QUANT_FEW_GROUPS         2
#define QUANT_FEW_SIZES(X, type) QUANT_FEW_##type(X, type)
#define QUANT_FEW_BF16(X, type)  X(type, 1, 2) X(type, 2, 2) X(type, 4, 1)
#define QUANT_FEW_F16            QUANT_FEW_BF16
#define QUANT_FEW_INT8           QUANT_FEW_BF16
#define QUANT_FEW_NF4(X, type)   X(type, 1, 1) X(type, 2, 1) X(type, 4, 1)
#define QUANT_FEW_MOST           12, 12, 8, 2
#define FEW_SUMS                 24
#define TILE_MR                  6
#define TILE_NG                  1
#define TILES(X)                 X(1, 1) X(2, 1) X(3, 1) X(4, 1) X(5, 1) X(6, 1)
#ifdef PORTABLE
#define TABLE kern_portable_neon
#else
#define TABLE kern_neon
#endif
#include "kern/inner/table.inc.c"
