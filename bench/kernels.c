/* kernels.c - the speed of the kernels on this machine, beside OpenBLAS.
 *
 *   kernels [threads] [seconds a row] [products|bf16|weights|attention|context|rows]
 *
 * Every figure is the best of some repetitions; with one thread, of its CPU time.  OpenBLAS is
 * timed with one thread on the same product and multiplied by the threads: the rate it could reach
 * if it scaled perfectly.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/pool.h"
#include "kern/attention.h"
#include "kern/attention_grad.h"
#include "kern/blas.h"
#include "kern/dispatch.h"
#include "kern/elementwise.h"
#include "kern/gemm_bf16.h"
#include "kern/gemm_dw.h"
#include "kern/gemm_quant.h"
#include "kern/kernels.h"
#include "kern/logits.h"
#include "kern/norm_rope.h"
#include "kern/optimizers.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#ifdef __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

typedef struct Bench {
  Ctx cx;
  int threads;
  double seconds;
  int m, n, k;
  float *x, *w, *packed, *y, *g;
  uint16_t *packed_bf16;
  QuantWeight *quant;
  AttnShape shape;
  KvSeg seg[9];
  AttnSpan spans[9];
  int nsegs, nspans, rows;
} Bench;

/* One thread alone is timed by what it used, so that neighbours on a busy machine count less. */
static clockid_t clock_id = CLOCK_MONOTONIC;

static double now(void) {
  struct timespec t;
  clock_gettime(clock_id, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* seconds of the fastest call */
static double best_of(void (*fn)(Bench *), Bench *b) {
  double best = 1e9;
  const double until = now() + b->seconds;
  fn(b);
  do {
    const double t0 = now();
    fn(b);
    const double t = now() - t0;
    if (t < best) best = t;
  } while (now() < until);
  return best;
}

static float *numbers(size_t n) {
  float *x = mem_alloc_aligned(n * sizeof *x);
  if (!x) exit(5);
  for (size_t i = 0; i < n; i++) x[i] = (float)(i * 2654435761u % 1000) / 500 - 1;
  return x;
}

static void forward(Bench *b) {
  gemm_forward(&b->cx, b->m, b->n, b->k, b->x, b->k, b->packed, NULL, b->y, b->n);
}
static void dx(Bench *b) {
  (void)!gemm_dx(&b->cx, b->m, b->n, b->k, b->y, b->n, b->w, false, b->g, b->k, false);
}
static void dw(Bench *b) {
  (void)!gemm_dw(&b->cx, b->m, b->n, b->k, b->y, b->n, b->x, b->k, false, b->packed, false);
}
static void dx_in_out(Bench *b) {
  (void)!gemm_dx(&b->cx, b->m, b->n, b->k, b->y, b->n, b->w, true, b->g, b->k, false);
}
static void pack(Bench *b) { gemm_pack(&b->cx, b->n, b->k, b->w, false, b->packed); }
static void blas(Bench *b) {
  blas_gemm(&(BlasGemm){b->m, b->n, b->k, b->x, b->k, false, b->w, b->k, true, 0, b->y, b->n});
}
static void blas_dx(Bench *b) {
  blas_gemm(&(BlasGemm){b->m, b->k, b->n, b->y, b->n, false, b->w, b->k, false, 0, b->g, b->k});
}
static void blas_dw(Bench *b) {
  blas_gemm(&(BlasGemm){b->n, b->k, b->m, b->y, b->n, true, b->x, b->k, false, 0, b->packed, b->k});
}

static void products(Bench *b) {
  static const int shapes[][2] = {{256, 256}, {688, 256}, {576, 576}, {1536, 576}, {896, 4864}};
  static const int rows[] = {1, 8, 16, 64, 400, 1500};
  printf("%-12s %6s %10s %10s %10s %10s %10s %10s  GF/s\n", "n x k", "rows", "forward", "OpenBLAS*",
         "dx", "OpenBLAS*", "dw", "OpenBLAS*");
  for (int s = 0; s < 5; s++) {
    b->n = shapes[s][0], b->k = shapes[s][1];
    const size_t nk = gemm_packed_size(b->n, b->k);
    b->w = numbers(nk), b->packed = numbers(nk);
    for (int r = 0; r < 6; r++) {
      b->m = rows[r];
      b->x = numbers((size_t)(b->m * b->k)), b->g = numbers((size_t)(b->m * b->k));
      b->y = numbers((size_t)(b->m * b->n));
      gemm_pack(&b->cx, b->n, b->k, b->w, false, b->packed);
      const double gf = 2e-9 * b->m * b->n * b->k, t = b->threads;
      printf("%5d x %-5d %5d %10.1f %10.1f", b->n, b->k, b->m, gf / best_of(forward, b),
             gf * t / best_of(blas, b));
      if (b->m >= 64)
        printf(" %10.1f %10.1f %10.1f %10.1f", gf / best_of(dx, b), gf * t / best_of(blas_dx, b),
               gf / best_of(dw, b), gf * t / best_of(blas_dw, b));
      printf("\n");
      mem_free_aligned(b->x), mem_free_aligned(b->y), mem_free_aligned(b->g);
    }
    b->m = 400, b->x = b->g = numbers((size_t)(b->m * b->k)), b->y = numbers((size_t)(b->m * b->n));
    printf("%5d x %-5d packing %.2f ns a weight; dx of an in_out weight, 400 rows: %.1f GF/s\n",
           b->n, b->k, best_of(pack, b) * 1e9 / b->n / b->k,
           2e-9 * b->m * b->n * b->k / best_of(dx_in_out, b));
    mem_free_aligned(b->x), mem_free_aligned(b->y);
    mem_free_aligned(b->w), mem_free_aligned(b->packed);
  }
  printf("* one thread, times %d\n\n", b->threads);
}

/* ---- products in bf16, as shares of what the registers could do ---- */
#ifdef __x86_64__
__attribute__((target("avx512f,avx512bf16"))) static void dot_in_registers(Bench *b) {
  enum { STEPS = 20000, SUMS = 12 };
  __m512 sum[SUMS];
  __m512i x = _mm512_set1_epi32(b->m), y = _mm512_set1_epi32(b->n);
  UNROLL for (int i = 0; i < SUMS; i++) sum[i] = _mm512_set1_ps(0);
  for (int s = 0; s < STEPS; s++) {
    __asm__ volatile("" : "+v"(x), "+v"(y));
    UNROLL for (int i = 0; i < SUMS; i++) sum[i] =
        _mm512_dpbf16_ps(sum[i], (__m512bh)x, (__m512bh)y);
  }
  UNROLL for (int i = 0; i < SUMS; i++) b->y[i] += _mm512_reduce_add_ps(sum[i]);
}
/* GF/s of all threads, were they undisturbed */
static double dot_peak(Bench *b) {
  float y[12] = {0};
  if (!kern_bf16(b->cx.cpu)) return 0;
  b->y = y;
  const double peak = 20000.0 * 12 * 64 * 1e-9 / best_of(dot_in_registers, b) * b->threads;
  b->y = NULL;
  return peak;
}
#else
static double dot_peak(Bench *b) {
  (void)b;
  return 0;
}
#endif

static void forward16(Bench *b) {
  (void)!gemm_bf16_forward(&b->cx, b->m, b->n, b->k, b->x, b->k, b->packed_bf16, NULL, b->y, b->n);
}
static void dx16(Bench *b) {
  (void)!gemm_bf16_dx(&b->cx, b->m, b->n, b->k, b->y, b->n, b->packed_bf16, b->g, b->k, false);
}
static void dw16(Bench *b) {
  (void)!gemm_bf16_dw(&b->cx, b->m, b->n, b->k, b->y, b->n, b->x, b->k, false, b->packed, false);
}
static void pack16(Bench *b) { gemm_bf16_pack(&b->cx, b->n, b->k, b->w, false, b->packed_bf16); }

static void bf16_row(Bench *b, int m, double peak) {
  b->m = m;
  b->x = numbers((size_t)(m * b->k)), b->g = numbers((size_t)(m * b->k));
  b->y = numbers((size_t)(m * b->n));
  const double gf = 2e-9 * m * b->n * b->k, t = best_of(forward16, b), most = peak > 0 ? peak : 1;
  printf("%5d x %-5d %5d %8.1f %4.0f %% %8.1f", b->n, b->k, m, gf / t, 100 * gf / t / most,
         2e-9 * b->n * b->k / t);
  if (m >= 64) {
    const double back = gf / best_of(dx16, b), outer = gf / best_of(dw16, b);
    printf(" %8.1f %4.0f %% %8.1f %4.0f %%", back, 100 * back / most, outer, 100 * outer / most);
  }
  printf("\n");
  mem_free_aligned(b->x), mem_free_aligned(b->y), mem_free_aligned(b->g);
}

static void bf16(Bench *b) {
  static const int shapes[][2] = {{256, 256},  {688, 256},  {576, 576},   {1536, 576},
                                  {896, 4864}, {4864, 896}, {14336, 4096}};
  static const int rows[] = {1, 8, 16, 64, 400, 1500};
  const double peak = dot_peak(b);
  printf("dot products of bf16 in registers: %.0f GF/s; %% of it below\n", peak);
  printf("%-13s %5s %15s %8s %15s %15s\n", "n x k", "rows", "forward GF/s", "GB/s", "dx", "dw");
  for (int s = 0; s < 7; s++) {
    b->n = shapes[s][0], b->k = shapes[s][1];
    const size_t nk = gemm_packed_size(b->n, b->k);
    b->w = numbers(nk), b->packed = numbers(nk);
    b->packed_bf16 = mem_alloc_aligned(gemm_bf16_packed_size(b->n, b->k) * sizeof *b->packed_bf16);
    if (!b->packed_bf16) exit(5);
    pack16(b);
    for (int r = 0; r < (s < 6 ? 6 : 4); r++) bf16_row(b, rows[r], peak);
    printf("%5d x %-5d packing %.2f ns a weight\n", b->n, b->k,
           best_of(pack16, b) * 1e9 / b->n / b->k);
    mem_free_aligned(b->w), mem_free_aligned(b->packed), mem_free_aligned(b->packed_bf16);
  }
  printf("\n");
}

/* ---- compact weights: billions of weights a second, and times float's speed ---- */
static void compact_forward(Bench *b) {
  (void)!quant_forward(&b->cx, b->m, b->quant, b->x, b->k, NULL, b->y, b->n);
}
static void compact_dx(Bench *b) {
  (void)!quant_dx(&b->cx, b->m, b->quant, b->y, b->n, b->g, b->k, false);
}

static void weights_row(Bench *b, QuantWeight *const quant[5]) {
  const double w = 1e-9 * b->n * b->k, plain = best_of(forward, b);
  printf("%5d x %-5d %5d %8.2f", b->n, b->k, b->m, w / plain);
  for (int t = 0; t < 5; t++) {
    b->quant = quant[t];
    const double s = best_of(compact_forward, b);
    printf(" %8.2f x %4.2f", w / s, plain / s);
  }
  printf("\n");
  if (b->m < 64) return;
  const double back = best_of(dx, b);
  printf("%13s %5s %8.2f", "", "dx", w / back);
  for (int t = 0; t < 5; t++) {
    b->quant = quant[t];
    const double s = best_of(compact_dx, b);
    printf(" %8.2f x %4.2f", w / s, back / s);
  }
  printf("\n");
}

static void weights_in(Bench *b, Compute compute) {
  static const int shapes[][2] = {{14336, 4096}, {4096, 4096}, {1536, 576}};
  static const int rows[][5] = {{1, 2, 4, 8}, {1, 8, 64, 512}, {1, 8, 64, 512}};
  b->cx.compute = compute;
  printf("compute %s\n", compute == COMPUTE_BF16 ? "bf16" : "f32");
  printf("%-13s %5s %8s %15s %15s %15s %15s %15s  1e9 weights/s\n", "n x k", "rows", "panels",
         "f32", "bf16", "f16", "int8", "nf4");
  for (int s = 0; s < 3; s++) {
    QuantWeight *quant[5];
    b->n = shapes[s][0], b->k = shapes[s][1];
    const size_t nk = gemm_packed_size(b->n, b->k);
    b->w = numbers(nk), b->packed = numbers(nk);
    gemm_pack(&b->cx, b->n, b->k, b->w, false, b->packed);
    for (int t = 0; t < 5; t++)
      if (quant_new(&quant[t], (QuantType)t, b->n, b->k) ||
          quant_put(&b->cx, quant[t], 0, b->n, b->w) || quant_done(&b->cx, quant[t]))
        exit(5);
    for (int r = 0; r < 4; r++) {
      b->m = rows[s][r];
      b->x = numbers((size_t)(b->m * b->k)), b->g = numbers((size_t)(b->m * b->k));
      b->y = numbers((size_t)(b->m * b->n));
      weights_row(b, quant);
      mem_free_aligned(b->x), mem_free_aligned(b->y), mem_free_aligned(b->g);
    }
    for (int t = 0; t < 5; t++) quant_free(quant[t]);
    mem_free_aligned(b->w), mem_free_aligned(b->packed);
  }
  b->cx.compute = COMPUTE_F32;
  printf("\n");
}

static void weights(Bench *b) {
  weights_in(b, COMPUTE_F32);
  weights_in(b, COMPUTE_BF16);
}

/* ---- attention: a prompt and its completions ---- */
static float *q, *k, *v, *o, *lse, *grad;

static void attend(Bench *b) {
  const int w = b->shape.heads * b->shape.head_dim;
  (void)!attn_forward(&b->cx, &b->shape, b->nspans, b->spans, q, w, o, w, lse);
}
static void attend_back(Bench *b) {
  const int w = b->shape.heads * b->shape.head_dim, kw = b->shape.kv_heads * b->shape.head_dim;
  (void)!attn_backward(&b->cx, &b->shape, b->nspans, b->spans, q, w, o, w, lse, q, w, grad, w, grad,
                       grad, kw);
}
static void store(Bench *b) {
  const int w = b->shape.kv_heads * b->shape.head_dim;
  for (int i = 0; i < b->nsegs; i++)
    kv_store(&b->shape, &b->seg[i], 0, b->seg[i].len, k + b->seg[i].row0 * w, w,
             v + b->seg[i].row0 * w, w);
}

/* Multiply-adds of the scores and of the sums over values, as if nothing were masked needlessly. */
static double attend_work(const Bench *b) {
  double pairs = 0;
  for (int i = 0; i < b->nspans; i++) {
    const AttnSpan *s = &b->spans[i];
    pairs += s->n * ((s->prefix ? s->prefix->len : 0) + s->own_at + (s->n + 1) / 2.0);
  }
  return 4e-9 * pairs * b->shape.heads * b->shape.head_dim;
}

/* A prompt (of 0 tokens: none) and `group` completions, as training sees them. */
static void group_of(Bench *b, AttnShape s, int prompt, int group, int own) {
  b->shape = s;
  b->rows = b->nspans = b->nsegs = 0;
  for (int i = 0; i <= group; i++) {
    const int len = i ? own : prompt, cap = (len + KV_BLOCK) / KV_BLOCK * KV_BLOCK;
    KvSeg *seg = &b->seg[b->nsegs++];
    *seg = kv_segment(&s, numbers(2 * kv_size(&s, kv_places(&s, cap, -1))), cap, i ? prompt : 0);
    seg->len = len, seg->row0 = b->rows;
    if (len)
      b->spans[b->nspans++] = (AttnSpan){i && prompt ? &b->seg[0] : NULL, seg, b->rows, len, 0};
    b->rows += len;
  }
  const size_t n = (size_t)(b->rows * s.heads * s.head_dim);
  q = numbers(n), k = numbers(n), v = numbers(n), o = numbers(n), grad = numbers(n);
  lse = numbers((size_t)(b->rows * s.heads));
}

static void forget_group(Bench *b) {
  for (int i = 0; i < b->nsegs; i++) mem_free_aligned(b->seg[i].k); /* and v behind it */
  mem_free_aligned(q), mem_free_aligned(k), mem_free_aligned(v), mem_free_aligned(o);
  mem_free_aligned(grad), mem_free_aligned(lse);
}

/* The spans become one decode step: the last row of each completion. */
static void decode_spans(Bench *b, int group) {
  const KvSeg *prompt = b->seg[0].len ? &b->seg[0] : NULL;
  for (int c = 0; c < group; c++)
    b->spans[c] = (AttnSpan){prompt, &b->seg[c + 1], c, 1, b->seg[c + 1].len - 1};
  b->nspans = group;
}

static void attention_in(Bench *b, Compute compute) {
  static const struct {
    AttnShape s;
    int prompt, group, own;
  } cases[] = {{{6, 6, 64, 0.125f, 0, 0, false, 0, COMPUTE_F32, NULL}, 1, 4, 70},
               {{8, 4, 32, 0.18f, 0, 0, false, 0, COMPUTE_F32, NULL}, 96, 8, 96},
               {{9, 3, 64, 0.125f, 0, 0, false, 0, COMPUTE_F32, NULL}, 128, 8, 64},
               {{14, 2, 64, 0.125f, 0, 0, false, 0, COMPUTE_F32, NULL}, 160, 8, 32},
               {{16, 8, 128, 0.09f, 0, 0, false, 0, COMPUTE_F32, NULL}, 500, 8, 300},
               {{4, 4, 40, 0.16f, 0, 0, false, 0, COMPUTE_F32, NULL}, 100, 4, 100},
               {{8, 4, 32, 0.18f, 64, 0, false, 0, COMPUTE_F32, NULL}, 96, 8, 96},
               {{8, 4, 32, 0.18f, 0, 30, false, 0, COMPUTE_F32, NULL}, 96, 8, 96}};
  printf("compute %s\n", compute == COMPUTE_BF16 ? "bf16" : "f32");
  printf("%-28s %10s %10s %10s %12s %12s\n", "heads/kv x dim, prompt + own", "forward", "backward",
         "decode", "decode step", "store keys");
  printf("%-28s %10s %10s %10s %12s %12s\n", "", "GF/s", "GF/s", "GF/s", "us", "ns/float");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    AttnShape s = cases[i].s;
    s.compute = compute;
    group_of(b, s, cases[i].prompt, cases[i].group, cases[i].own);
    const double st = best_of(store, b) / (2.0 * b->rows * s.kv_heads * s.head_dim);
    const double f = attend_work(b) / best_of(attend, b);
    const double g = attend_work(b) * 2.5 / best_of(attend_back, b);
    decode_spans(b, cases[i].group);
    const double d = best_of(attend, b);
    printf("%3d/%-2d x %-3d %4d + %d x %-4d%s %8.1f %10.1f %10.1f %12.1f %12.2f\n", s.heads,
           s.kv_heads, s.head_dim, cases[i].prompt, cases[i].group, cases[i].own,
           s.window        ? " w"
           : s.softcap > 0 ? " c"
                           : "  ",
           f, g, attend_work(b) / d, d * 1e6, st * 1e9);
    forget_group(b);
  }
  printf("(backward counted as 2.5 times the forward's products; w: a window, c: soft-capped; both "
         "counted whole)\n\n");
}

static void attention(Bench *b) {
  attention_in(b, COMPUTE_F32);
  attention_in(b, COMPUTE_BF16);
}

/* ---- how attention grows with the context ---- */
enum { LENGTHS = 5 };

/* the slope of log(time) over log(length) */
static double exponent(const double *seconds) {
  double sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (int i = 0; i < LENGTHS; i++) {
    const double x = i * log(2), y = log(seconds[i]);
    sx += x, sy += y, sxx += x * x, sxy += x * y;
  }
  return (LENGTHS * sxy - sx * sy) / (LENGTHS * sxx - sx * sx);
}

static void context(Bench *b) {
  static const AttnShape s = {9, 3, 64, 0.125f, 0, 0, false, 0, COMPUTE_F32, NULL};
  static const char *const names[] = {"forward, one sequence", "backward", "decode, 1 alone",
                                      "decode, 8 of one prompt", "decode, 8 prompts"};
  double t[5][LENGTHS];
  for (int i = 0; i < LENGTHS; i++) {
    const int n = 512 << i;
    group_of(b, s, 0, 1, n);
    t[0][i] = best_of(attend, b), t[1][i] = best_of(attend_back, b);
    decode_spans(b, 1);
    t[2][i] = best_of(attend, b);
    forget_group(b);
    group_of(b, s, n - 64, 8, 64);
    decode_spans(b, 8);
    t[3][i] = best_of(attend, b);
    forget_group(b);
    group_of(b, s, 0, 8, n);
    decode_spans(b, 8);
    t[4][i] = best_of(attend, b);
    forget_group(b);
  }
  printf("%-26s", "9/3 x 64, us at a context of");
  for (int i = 0; i < LENGTHS; i++) printf(" %9d", 512 << i);
  printf("  exponent\n");
  for (int r = 0; r < 5; r++) {
    printf("%-28s", names[r]);
    for (int i = 0; i < LENGTHS; i++) printf(" %9.1f", t[r][i] * 1e6);
    printf(" %9.2f\n", exponent(t[r]));
  }
  printf("\n");
}

/* ---- rows ---- */
enum { N = 1 << 20, VOCAB = 151936, LOGIT_ROWS = 8 };
static int32_t targets[LOGIT_ROWS];
static void run_exp(Bench *b) { kernels(NULL)->exp(1 << 12, b->x, b->y); }
static void run_swiglu(Bench *b) { gated_forward(&b->cx, GATE_SILU, N, b->x, b->w, b->y); }
static void run_rmsnorm(Bench *b) {
  rmsnorm_forward(&b->cx, N / 512, 512, b->x, b->w, 0, 1e-6, b->y, lse);
}
static void run_logp(Bench *b) {
  logits_logp(&b->cx, LOGIT_ROWS, VOCAB, NULL, b->x, 1, targets, b->g, b->g + 8, b->g + 16);
}
static const AdamW adamw = {1e-9, 0.9, 0.999, 1e-8, 0, 1, 1, 1};
static void run_adamw(Bench *b) { adamw_step(&b->cx, N, b->y, b->w, b->g, b->packed, &adamw); }
static void run_lion(Bench *b) { lion_step(&b->cx, N, b->y, b->w, b->g, &adamw); }

static Moment8Map maps[2];
static uint8_t codes[2][N];
static float scales[2][N / MOMENT8_BLOCK];
static void run_adamw8(Bench *b) {
  const Moment8 first = {&maps[0], codes[0], scales[0]}, second = {&maps[1], codes[1], scales[1]};
  adamw8_step(&b->cx, N, b->y, b->w, &first, &second, &adamw);
}

static void rows(Bench *b) {
  const size_t n = (size_t)LOGIT_ROWS * VOCAB;
  b->x = numbers(n), b->w = numbers(n), b->y = numbers(n), b->g = numbers(n),
  b->packed = numbers(n);
  lse = numbers(N / 512);
  for (size_t i = 0; i < n; i++) b->packed[i] += 1;
  moment8_map_init(&maps[0], true);
  moment8_map_init(&maps[1], false);
  printf(
      "billions of elements a second: exp, one thread, in cache %.2f; swiglu %.2f; rmsnorm %.2f; "
      "logits_logp %.2f; adamw %.2f; adamw_8bit %.2f; lion %.2f\n",
      4.096e-6 / best_of(run_exp, b), N * 1e-9 / best_of(run_swiglu, b),
      N * 1e-9 / best_of(run_rmsnorm, b), (double)n * 1e-9 / best_of(run_logp, b),
      N * 1e-9 / best_of(run_adamw, b), N * 1e-9 / best_of(run_adamw8, b),
      N * 1e-9 / best_of(run_lion, b));
}

int main(int argc, char **argv) {
  static Arena arena;
  Bench b = {.threads = argc > 1 ? atoi(argv[1]) : 0, .seconds = argc > 2 ? atof(argv[2]) : 0.05};
  if (pool_new(&b.cx.pool, b.threads)) return fprintf(stderr, "%s\n", err_message()), 2;
  b.cx.arena = &arena;
  b.threads = pool_threads(b.cx.pool);
  if (b.threads == 1) clock_id = CLOCK_PROCESS_CPUTIME_ID;
  if (!blas_load()) {
    fprintf(stderr, "kernels: libopenblas.so.0 is not there; install it\n");
    return 1;
  }
  blas_set_threads(1);
  printf("path %s, %d threads; OpenBLAS kernels %s\n\n", kern_name(NULL), b.threads,
         blas_core_name());
  static const struct {
    const char *name;
    void (*fn)(Bench *);
  } parts[] = {{"products", products},   {"bf16", bf16},       {"weights", weights},
               {"attention", attention}, {"context", context}, {"rows", rows}};
  for (int i = 0; i < 6; i++)
    if (argc < 4 || strcmp(argv[3], parts[i].name) == 0) parts[i].fn(&b);
  pool_free(b.cx.pool);
  return 0;
}
