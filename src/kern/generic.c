/* generic.c - the portable kernels for any CPU: vectors of 16 bytes (SSE2, NEON, WASM), with a
 * multiplication and an addition instead of a fused one.  The double-precision twin has only these.
 */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "kern/kernels.h"

#ifdef GRPO_DOUBLE
#define LANES 2
#else
#define LANES 4
#endif
#include "kern/inner/types.inc.c"

static inline vec v_set(real x) { return x - (vec){0}; }
static inline vec v_fma(vec a, vec b, vec c) { return a * b + c; }
static inline vec v_keep(ivec mask, vec a) { return (vec)(mask & (ivec)a); }
static inline vec v_max(vec a, vec b) {
  ivec m = (ivec)(a > b);
  return (vec)((m & (ivec)a) | (~m & (ivec)b));
}
static inline vec v_min(vec a, vec b) {
  ivec m = (ivec)(a < b);
  return (vec)((m & (ivec)a) | (~m & (ivec)b));
}
static inline vec v_sqrt(vec a) {
  for (int i = 0; i < LANES; i++) a[i] = (real)sqrt((double)a[i]);
  return a;
}

/* The first `left` lanes come from memory; the others are `fill`. */
static inline vec v_get_or(const real *p, ptrdiff_t left, real fill) {
  if (left >= LANES) return *(const uvec *)p;
  vec x = v_set(fill);
  for (int i = 0; i < left; i++) x[i] = p[i];
  return x;
}
static inline vec v_get(const real *p, ptrdiff_t left) { return v_get_or(p, left, 0); }
static inline void v_put(real *p, ptrdiff_t left, vec x) {
  if (left >= LANES)
    *(uvec *)p = x;
  else
    for (int i = 0; i < left; i++) p[i] = x[i];
}

/* ---- quantised weights: LANES values ---- */
static inline vec v_f16(const uint16_t *p) {
  vec x = {0};
  for (int i = 0; i < LANES; i++) x[i] = (real)f16_to_f32(p[i]);
  return x;
}
static inline vec v_int8(const int8_t *p) {
  vec x = {0};
  for (int i = 0; i < LANES; i++) x[i] = p[i];
  return x;
}
static inline ivec v_words(const uint32_t *p) {
  ivec x = {0};
  for (int i = 0; i < LANES; i++) x[i] = (lane_int)p[i];
  return x;
}

typedef const float *Nf4Table;
static inline Nf4Table nf4_table(void) { return nf4_code; }
static inline vec v_nf4(Nf4Table table, ivec code) {
  vec x = {0};
  for (int i = 0; i < LANES; i++) x[i] = (real)table[code[i] & 15];
  return x;
}

static inline vec v_zip_low(vec a, vec b) {
  vec x = {0};
  for (int i = 0; i < LANES / 2; i++) x[2 * i] = a[i], x[2 * i + 1] = b[i];
  return x;
}
static inline vec v_zip_high(vec a, vec b) {
  vec x = {0};
  for (int i = 0; i < LANES / 2; i++) x[2 * i] = a[LANES / 2 + i], x[2 * i + 1] = b[LANES / 2 + i];
  return x;
}

#define FEW_SUMS 12
#define TILE_MR  2
#define TILE_NG  1
#define TILES(X) X(1, 1) X(2, 1)
#define TABLE    kern_generic
#include "kern/inner/table.inc.c"
