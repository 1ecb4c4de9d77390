/* panels.c - operands of products: packing weights into panels, moving them there in place, and
 * rounding rows to bf16. */
#include "kern/panels.h"

#include <string.h>

#include "base/arena.h"
#include "base/pool.h"
#include "kern/scratch.h"

enum {
  /* Inner steps that are packed and then rounded to bf16 while they are in the first-level
   * cache. */
  ROUND_STEPS = 128,
  /* Values that are worth a chunk of their own when rows are rounded. */
  ROUND_VALUES = 1 << 14,
  /* Rows of an operand are read in place if at least this many of them fit into the cache at once;
   * otherwise packing is faster. */
  LEAST_DEPTH = 128,
  /* The second-level cache that we count on: bytes of a line, bytes of a way, and ways. */
  LINE = 64,
  CACHE_WAY = 1 << 16,
  CACHE_WAYS = 12
};

void panels_pack_one(const KernelClass *cpu, int depth, int cols, int width, const real *src,
                     ptrdiff_t ps, ptrdiff_t cs, real *dst) {
  if (cs == 1) {
    kernels(cpu)->pack_columns(depth, cols, width, src, ps, dst);
    return;
  }
  kernels(cpu)->transpose(cols, depth, src, cs, dst, width); /* ps is 1 */
  for (ptrdiff_t p = 0; p < depth && cols < width; p++)
    memset(dst + p * width + cols, 0, sizeof(real) * (size_t)(width - cols));
}

typedef struct PanelPack {
  const KernelClass *cpu;
  int n, k, ng;
  const real *w;
  ptrdiff_t ps, cs;
  real *packed;
  bool round; /* to bf16 */
} PanelPack;

static void pack_chunk(void *arg, int p, int worker) {
  (void)worker;
  const PanelPack *j = arg;
  const int g0 = panels_first(j->n, j->ng, p), g1 = panels_first(j->n, j->ng, p + 1);
  const int at = g0 * GROUP, cols = min_int(j->n, g1 * GROUP) - at, width = (g1 - g0) * GROUP;
  const int some = j->round ? ROUND_STEPS : j->k;
  real *panel = j->packed + (size_t)at * (size_t)j->k;
  for (int p0 = 0, depth; p0 < j->k; p0 += depth, panel += (size_t)depth * (size_t)width) {
    depth = min_int(some, j->k - p0);
    panels_pack_one(j->cpu, depth, cols, width, j->w + at * j->cs + p0 * j->ps, j->ps, j->cs,
                    panel);
    if (j->round) kernels(j->cpu)->round_bf16((size_t)depth * (size_t)width, panel, panel);
  }
}

void panels_pack(const Ctx *cx, int n, int k, const real *w, ptrdiff_t ps, ptrdiff_t cs, bool round,
                 real *packed) {
  PanelPack j = {cx->cpu, n, k, kernels(cx->cpu)->ng, w, ps, cs, packed, round};
  pool_run(cx->pool, own_panels(cx->cpu, n), pack_chunk, &j);
}

typedef struct InPlace {
  const KernelClass *cpu;
  int n, k, ng;
  real *w;
  bool back;
  Scratch scratch;
} InPlace;

static void in_place_chunk(void *arg, int p, int worker) {
  const InPlace *s = arg;
  const int at = panels_first(s->n, s->ng, p) * GROUP;
  const int width = panels_first(s->n, s->ng, p + 1) * GROUP - at, rows = min_int(width, s->n - at);
  real *w = s->w + (size_t)at * (size_t)s->k, *copy = scratch_of(&s->scratch, worker);
  memcpy(copy, w, sizeof(real) * (size_t)(s->back ? width : rows) * (size_t)s->k);
  if (s->back)
    kernels(s->cpu)->transpose(s->k, rows, copy, width, w, s->k);
  else
    panels_pack_one(s->cpu, s->k, rows, width, copy, 1, s->k, w);
}

static Status in_place(const Ctx *cx, InPlace s) {
  const ArenaMark mark = arena_mark(cx->arena);
  try(scratch_new(cx, (size_t)(s.ng * GROUP) * (size_t)s.k, "panels", &s.scratch));
  pool_run(cx->pool, panels_of(s.n, s.ng), in_place_chunk, &s);
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

Status panels_in_place(const Ctx *cx, int n, int k, int ng, real *w) {
  return in_place(cx, (InPlace){.cpu = cx->cpu, .n = n, .k = k, .ng = ng, .w = w});
}

Status panels_to_rows(const Ctx *cx, int n, int k, int ng, real *w) {
  return in_place(cx, (InPlace){.cpu = cx->cpu, .n = n, .k = k, .ng = ng, .w = w, .back = true});
}

int rows_cached(ptrdiff_t ld) {
  const size_t bytes = sizeof(real) * (size_t)ld, apart = bytes & (0 - bytes); /* of a set's size */
  return CACHE_WAYS * (int)(apart >= CACHE_WAY ? 1 : CACHE_WAY / (apart > LINE ? apart : LINE));
}

bool rows_readable(int n, ptrdiff_t ld) { return n % GROUP == 0 && rows_cached(ld) >= LEAST_DEPTH; }

bool reads_lines(const KernelClass *cpu) { return kernels(cpu)->ng * GROUP * sizeof(real) <= LINE; }

/* ---- rounding operands that stay float32 ---- */

typedef struct Round {
  const KernelClass *cpu;
  int m, k, rows;
  const real *x;
  ptrdiff_t ldx;
  real *out;
} Round;

static void round_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const Round *r = arg;
  const int end = min_int(r->m, (chunk + 1) * r->rows);
  for (int i = chunk * r->rows; i < end; i++)
    kernels(r->cpu)->round_bf16((size_t)r->k, r->x + i * r->ldx,
                                r->out + (ptrdiff_t)i * rounded_ld(r->k));
}

Status rows_rounded(const Ctx *cx, int m, int k, const real *x, ptrdiff_t ldx, const real **out) {
  Round r = {cx->cpu, m, k, ROUND_VALUES / (k + 1) + 1, x, ldx, NULL};
  *out = r.out = arena_alloc(cx->arena, sizeof(real) * (size_t)m * (size_t)rounded_ld(k));
  if (!r.out) return fail(GRPO_ENOMEM, "product in bf16: scratch memory");
  pool_run(cx->pool, ceil_div(m, r.rows), round_chunk, &r);
  return GRPO_OK;
}
