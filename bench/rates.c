/* rates.c - timing of products, of a model's weights and of reading memory. */
#include "rates.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/mem.h"
#include "kern/blas.h"
#include "kern/dispatch.h"
#include "kern/gemm_bf16.h"
#include "kern/gemm_dw.h"
#include "kern/gemm_quant.h"
#include "kern/kernels.h"

enum {
  READ_LEAST = 256 << 20, /* bytes read: at least these, or twice the last-level cache, */
  READ_MOST = 1 << 30,    /* and at most these */
  READ_CHUNK = 1 << 16,   /* reals a chunk */
  REPETITIONS = 256       /* of which the median is taken: the last ones, if there are more */
};

typedef struct Probe {
  const Ctx *cx;
  RateProduct what;
  int m, n, k;
  real *x, *w, *packed, *y, *out; /* [m, k], [n, k], panels, [m, n], as long as the longest */
  uint16_t *packed_bf16;
  Status status;
} Probe;

static double now(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns freed memory to the system, so that the next measurement does not count it. */
static void give_back(void) {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The rate of fn, each call of which does `work`. */
static Rate rate_of(const Ctx *cx, void (*fn)(void *), void *arg, double work, double seconds) {
  double least = 1e9, least_cores = 1e9, took[REPETITIONS];
  int n = 0;
  const int threads = pool_threads(cx->pool), cores = pool_cores();
  fn(arg); /* warm up */
  const double until = now(CLOCK_MONOTONIC) + seconds;
  double t = until - seconds;
  do {
    const double start = t, before = now(CLOCK_PROCESS_CPUTIME_ID);
    fn(arg);
    const double used = now(CLOCK_PROCESS_CPUTIME_ID) - before;
    t = now(CLOCK_MONOTONIC);
    if (t - start < least) least = t - start;
    took[n++ % REPETITIONS] = t - start;
    if (used < least_cores) least_cores = used;
  } while (t < until);
  n = min_int(n, REPETITIONS);
  qsort(took, (size_t)n, sizeof *took, ascending);
  return (Rate){.clock = work / least,
                .cores = work * min_int(threads, cores) / least_cores,
                .median = work * 2 / (took[(n - 1) / 2] + took[n / 2])};
}

/* ---- OpenBLAS ------------------------------------------------------------------------ */

typedef struct BlasChunks {
  BlasGemm all;
  int size; /* rows a chunk, or columns */
  bool columns;
} BlasChunks;

static void blas_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const BlasChunks *p = arg;
  BlasGemm g = p->all;
  const int at = chunk * p->size;
  if (p->columns) {
    g.n = min_int(p->size, g.n - at);
    g.b += (size_t)at * (size_t)(g.tb ? g.ldb : 1);
    g.c += at;
  } else {
    g.m = min_int(p->size, g.m - at);
    g.a += (size_t)at * (size_t)(g.ta ? 1 : g.lda);
    g.c += (size_t)at * (size_t)g.ldc;
  }
  blas_gemm(&g);
}

static Status need_blas(void) {
  return blas_load() ? GRPO_OK : fail(GRPO_EARG, "bench: libopenblas.so.0 is not there");
}

/* One thread of OpenBLAS on each of our threads' share of the rows. */
static void blas_product(const Ctx *cx, int m, int n, int k, const real *a, bool ta, const real *b,
                         bool tb, real *c) {
  const int before = blas_threads();
  BlasChunks p = {{m, n, k, a, ta ? m : k, ta, b, tb ? k : n, tb, 0, c, n}, 0, false};
  p.size = ceil_div(m, pool_threads(cx->pool));
  blas_set_threads(1);
  pool_run(cx->pool, ceil_div(m, p.size), blas_chunk, &p);
  blas_set_threads(before);
}

/* y[m,n] = x[m,k] w[n,k]^T: by OpenBLAS's own threads, or cut along n for ours. */
static void blas_weight(const Ctx *cx, int m, int n, int k, const real *x, const real *w, bool cut,
                        real *y) {
  const int threads = pool_threads(cx->pool), before = blas_threads();
  BlasChunks p = {
      {m, n, k, x, k, false, w, k, true, 0, y, n}, cut ? ceil_div(n, threads) : n, true};
  blas_set_threads(cut ? 1 : threads);
  if (cut)
    pool_run(cx->pool, ceil_div(n, p.size), blas_chunk, &p);
  else
    blas_chunk(&p, 0, 0);
  blas_set_threads(before);
}

/* ---- products ---------------------------------------------------------------------- */

static void multiply(void *arg) {
  Probe *p = arg;
  const Ctx *cx = p->cx;
  const int m = p->m, n = p->n, k = p->k;
  switch (p->what) {
  case RATE_FORWARD:
    gemm_forward(cx, m, n, k, p->x, k, p->packed, NULL, p->out, n);
    break;
  case RATE_DX:
    p->status = gemm_dx(cx, m, n, k, p->y, n, p->w, false, p->out, k, false);
    break;
  case RATE_DW:
    p->status = gemm_dw(cx, m, n, k, p->y, n, p->x, k, false, p->out, false);
    break;
  case RATE_BF16_FORWARD:
    p->status = gemm_bf16_forward(cx, m, n, k, p->x, k, p->packed_bf16, NULL, p->out, n);
    break;
  case RATE_BF16_DX:
    p->status = gemm_bf16_dx(cx, m, n, k, p->y, n, p->packed_bf16, p->out, k, false);
    break;
  case RATE_BF16_DW:
    p->status = gemm_bf16_dw(cx, m, n, k, p->y, n, p->x, k, false, p->out, false);
    break;
  case RATE_BLAS_FORWARD:
    blas_product(cx, m, n, k, p->x, false, p->w, true, p->out);
    break;
  case RATE_BLAS_DX:
    blas_product(cx, m, k, n, p->y, false, p->w, false, p->out);
    break;
  default:
    blas_product(cx, n, k, m, p->y, true, p->x, false, p->out);
    break;
  }
}

static Status numbers(size_t n, real **out) {
  real *x = *out = mem_alloc_aligned(n * sizeof *x);
  if (!x) return fail(GRPO_ENOMEM, "bench: no memory for %zu numbers", n);
  for (size_t i = 0; i < n; i++) x[i] = (real)(i * 2654435761u % 1000) / 500 - 1;
  return GRPO_OK;
}

static Status pack16(const Ctx *cx, int n, int k, const real *w, uint16_t **packed) {
  *packed = mem_alloc_aligned(gemm_bf16_packed_size(n, k) * sizeof **packed);
  if (!*packed) return fail(GRPO_ENOMEM, "bench: no memory for a weight of %d x %d", n, k);
  gemm_bf16_pack(cx, n, k, w, false, *packed);
  return GRPO_OK;
}

static Status probe_new(Probe *p) {
  const size_t m = (size_t)p->m, n = (size_t)p->n, k = (size_t)p->k;
  const size_t longest = m * k > m * n ? m * k : m * n;
  try(numbers(m * k, &p->x));
  try(numbers(n * k, &p->w));
  try(numbers(m * n, &p->y));
  try(numbers(longest > n * k ? longest : n * k, &p->out));
  if (p->what == RATE_BF16_FORWARD || p->what == RATE_BF16_DX)
    return pack16(p->cx, p->n, p->k, p->w, &p->packed_bf16);
  if (p->what != RATE_FORWARD) return GRPO_OK;
  try(numbers(gemm_packed_size(p->n, p->k), &p->packed));
  gemm_pack(p->cx, p->n, p->k, p->w, false, p->packed);
  return GRPO_OK;
}

static void probe_free(Probe *p) {
  mem_free_aligned(p->x);
  mem_free_aligned(p->w);
  mem_free_aligned(p->packed);
  mem_free_aligned(p->packed_bf16);
  mem_free_aligned(p->y);
  mem_free_aligned(p->out);
  give_back();
}

Status rate_product(const Ctx *cx, RateProduct what, int m, int n, int k, double seconds,
                    Rate *flops) {
  if (what >= RATE_BLAS_FORWARD) try(need_blas());
  Probe p = {.cx = cx, .what = what, .m = m, .n = n, .k = k};
  p.status = probe_new(&p);
  if (p.status == GRPO_OK) *flops = rate_of(cx, multiply, &p, 2.0 * m * n * k, seconds);
  probe_free(&p);
  return p.status;
}

/* ---- the weights of a model ---------------------------------------------------------- */

typedef struct Weight {
  int n, k;
  real *f32; /* panels, or as OpenBLAS takes it */
  uint16_t *bf16;
  QuantWeight *quant;
} Weight;

typedef struct Weights {
  const Ctx *cx;
  RateWeights how;
  int m, count;
  Weight *all;
  real *x, *w, *y; /* [most rows, the largest k], the largest weight, [.., the largest n] */
  Status status;
} Weights;

static void multiply_weight(Weights *s, const Weight *w) {
  switch (s->how) {
  case WEIGHTS_F32:
    gemm_forward(s->cx, s->m, w->n, w->k, s->x, w->k, w->f32, NULL, s->y, w->n);
    break;
  case WEIGHTS_BF16_BF16:
    s->status = gemm_bf16_forward(s->cx, s->m, w->n, w->k, s->x, w->k, w->bf16, NULL, s->y, w->n);
    break;
  case WEIGHTS_BLAS:
  case WEIGHTS_BLAS_CUT:
    blas_weight(s->cx, s->m, w->n, w->k, s->x, w->f32, s->how == WEIGHTS_BLAS_CUT, s->y);
    break;
  default:
    s->status = quant_forward(s->cx, s->m, w->quant, s->x, w->k, NULL, s->y, w->n);
    break;
  }
}

static void multiply_weights(void *arg) {
  Weights *s = arg;
  for (int i = 0; i < s->count && s->status == GRPO_OK; i++) multiply_weight(s, &s->all[i]);
}

static Status weight_new(const Weights *s, Weight *w) {
  static const QuantType types[NWEIGHTS] = {
      [WEIGHTS_BF16] = QUANT_BF16, [WEIGHTS_INT8] = QUANT_INT8, [WEIGHTS_NF4] = QUANT_NF4};
  switch (s->how) {
  case WEIGHTS_F32:
    try(numbers(gemm_packed_size(w->n, w->k), &w->f32));
    gemm_pack(s->cx, w->n, w->k, s->w, false, w->f32);
    return GRPO_OK;
  case WEIGHTS_BF16_BF16:
    return pack16(s->cx, w->n, w->k, s->w, &w->bf16);
  case WEIGHTS_BLAS:
  case WEIGHTS_BLAS_CUT:
    return numbers((size_t)w->n * (size_t)w->k, &w->f32);
  default:
    try(quant_new(&w->quant, types[s->how], w->n, w->k));
    try(quant_put(s->cx, w->quant, 0, w->n, (const void *)s->w)); /* floats: the twin times none */
    return quant_done(s->cx, w->quant);
  }
}

static Status weights_new(Weights *s, int nshapes, const WeightShape *shapes) {
  size_t n = 1, k = 1, largest = 1;
  for (int i = 0; i < nshapes; i++) {
    const size_t ni = (size_t)shapes[i].n, ki = (size_t)shapes[i].k;
    if (ni > n) n = ni;
    if (ki > k) k = ki;
    if (ni * ki > largest) largest = ni * ki;
    s->count += shapes[i].count;
  }
  s->all = mem_alloc((size_t)s->count * sizeof *s->all);
  if (!s->all) return fail(GRPO_ENOMEM, "bench: no memory for %d weights", s->count);
  memset(s->all, 0, (size_t)s->count * sizeof *s->all);
  try(numbers((size_t)s->m * k, &s->x));
  try(numbers((size_t)s->m * n, &s->y));
  try(numbers(largest, &s->w));
  Weight *w = s->all;
  for (int i = 0; i < nshapes; i++)
    for (int c = 0; c < shapes[i].count; c++, w++) {
      w->n = shapes[i].n, w->k = shapes[i].k;
      try(weight_new(s, w));
    }
  return GRPO_OK;
}

static void weights_free(Weights *s) {
  for (int i = 0; s->all && i < s->count; i++) {
    mem_free_aligned(s->all[i].f32);
    mem_free_aligned(s->all[i].bf16);
    quant_free(s->all[i].quant);
  }
  mem_free(s->all);
  mem_free_aligned(s->x);
  mem_free_aligned(s->w);
  mem_free_aligned(s->y);
}

Status rate_weights(const Ctx *cx, RateWeights how, int nm, const int *m, int nshapes,
                    const WeightShape *shapes, double seconds, Rate *flops) {
  if (how >= WEIGHTS_BLAS) try(need_blas());
  Weights s = {.cx = cx, .how = how};
  double work = 0; /* of one row */
  for (int i = 0; i < nm; i++)
    if (m[i] > s.m) s.m = m[i];
  for (int i = 0; i < nshapes; i++) work += 2.0 * shapes[i].n * shapes[i].k * shapes[i].count;
  s.status = weights_new(&s, nshapes, shapes);
  for (int i = 0; i < nm && s.status == GRPO_OK; i++) {
    s.m = m[i];
    flops[i] = rate_of(cx, multiply_weights, &s, work * s.m, seconds);
  }
  weights_free(&s);
  return s.status;
}

/* ---- memory ------------------------------------------------------------------------ */

typedef struct Reading {
  const Ctx *cx;
  real *x;
  int chunks;
  volatile real sink; /* so that nothing is optimised away */
} Reading;

static void read_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  Reading *r = arg;
  const real *x = r->x + (size_t)chunk * READ_CHUNK;
  const real sum = kernels(NULL)->dot(READ_CHUNK / 2, x, x + READ_CHUNK / 2);
  if (sum == 1) r->sink = sum;
}

static void read_all(void *arg) {
  Reading *r = arg;
  pool_run(r->cx->pool, r->chunks, read_chunk, r);
}

/* Twice the last-level cache, because a server's may have hundreds of megabytes. */
static int chunks_to_read(void) {
  long bytes = READ_LEAST;
#ifdef _SC_LEVEL3_CACHE_SIZE
  const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE), room = (long)(mem_available() / 4);
  if (2 * cache > bytes) bytes = 2 * cache < READ_MOST ? 2 * cache : READ_MOST;
  if (bytes > READ_LEAST && bytes > room) bytes = room > READ_LEAST ? room : READ_LEAST;
#endif
  return (int)(bytes / (long)sizeof(real) / READ_CHUNK);
}

Status rate_read(const Ctx *cx, double seconds, Rate *bytes) {
  Reading r = {.cx = cx, .chunks = chunks_to_read()};
  const size_t size = (size_t)r.chunks * READ_CHUNK * sizeof(real);
  r.x = mem_alloc_aligned(size);
  if (!r.x) return fail(GRPO_ENOMEM, "bench: no memory for %zu bytes", size);
  memset(r.x, 0, size); /* pages of our own */
  *bytes = rate_of(cx, read_all, &r, (double)size, seconds);
  mem_free_aligned(r.x);
  give_back();
  return GRPO_OK;
}
