/* generic.c - the kernels for any CPU: vectors of 16 bytes (SSE2, NEON), plain
 * multiply and add.  Also the whole of the double-precision twin.
 */
#include <math.h>
#include <string.h>

#include "kern/dispatch.h"

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

/* The first `left` lanes from memory, the others `fill`. */
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

#define TILE_MR  2
#define TILE_NG  1
#define TILES(X) X(1, 1) X(2, 1)
#define TABLE    kern_generic
#define NAME     "generic"
#include "kern/inner/table.inc.c"
