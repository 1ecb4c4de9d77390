/* Classes of kernels that promise the same bits, whatever the width of their vectors: the portable
 * ones among themselves, and the fused ones of float32 among themselves. */
#include "kern/gemm_dw.h"
#include "kern/gemm_quant.h"
#include "kern/kernels.h"
#include "kern/quant.h"
#include "kern_test.h"

enum { N = 531, ROWS = 37, OUT = 1 << 18 };

/* Inputs of every case; x, y and z are [N * ROWS], w [N], ids ascending. */
typedef struct Inputs {
  float *x, *y, *z, *w;
} Inputs;

/* A case writes what a table of kernels computes, at most OUT floats. */
typedef void Case(const Kernels *k, const Inputs *in, float *out);

static void norms(const Kernels *k, const Inputs *in, float *out) {
  for (int n = 1; n < N; n = n * 3 / 2 + 1, out += 4 * N + 8) {
    k->rmsnorm(n, in->x, in->w, 1, 1e-6, out, out + N);
    k->rmsnorm_dx(n, in->x, in->w, 0, out[N], in->y, out + N + 1, false);
    float *second = out + 2 * N + 1;
    k->layernorm(n, in->x, in->w, in->y, 0, 1e-5, second, second + N, second + N + 1);
    k->layernorm_dx(n, in->x, in->w, 0, second[N], second[N + 1], in->y, second + N + 2, false);
    out[4 * N + 6] = k->dot(n, in->x, in->y);
    out[4 * N + 7] = (float)k->sumsq((size_t)n, in->x);
  }
}

static void elements(const Kernels *k, const Inputs *in, float *out) {
  k->exp(N, in->x, out), out += N;
  k->swiglu(N, in->x, in->y, out), out += N;
  k->swiglu_grad(N, in->x, in->y, in->z, out, false, out + N, false), out += 2 * N;
  k->geglu(N, in->x, in->y, out), out += N;
  k->geglu_grad(N, in->x, in->y, in->z, out, false, out + N, false), out += 2 * N;
  k->gelu(N, in->x, out), out += N;
  k->gelu_grad(N, in->x, in->y, out, false), out += N;
  k->softcap(N, 0.3F, 5, in->x, out), out += N;
  k->softcap_grad(N, 5, out - N, in->y, out, false), out += N;
  memcpy(out, in->x, 3 * N * sizeof *out);
  for (int i = 0; i < N; i++) out[2 * N + i] *= out[2 * N + i];
  k->adamw(N, out, in->y, out + N, out + 2 * N,
           &(AdamScalars){0.7F, 0.99F, 0.1F, 0.95F, 0.05F, 1e-3F, 1e-8F, 1.3F});
  out += 3 * N;
  memcpy(out, in->x, 2 * N * sizeof *out);
  k->lion(N, out, in->y, out + N, &(LionScalars){0.7F, 0.99F, 1e-3F, 0.9F, 0.1F, 0.99F, 0.01F});
  out += 2 * N;
  memcpy(out, in->z, N * sizeof *out);
  k->mix(N, 0.3F, out, 1.7F, in->x);
  k->lerp(N, 0.1F, in->y, out);
  k->rope(3, 64, 32, 29, in->x, in->y, in->z, out + N, false);
}

static void logits(const Kernels *k, const Inputs *in, float *out) {
  for (int v = 1; v <= 20 * N; v = v * 3 + 2) {
    RowStats st;
    double mean;
    k->row_stats(v, in->x, 0.8F, &st);
    const float lse = st.max + 3;
    *out++ = st.max, *out++ = (float)st.sum, *out++ = (float)st.sumz;
    *out++ = (float)k->kl(v, in->x, in->y, 0.8F, lse, 4);
    *out++ = (float)k->jsd(v, in->x, in->y, 0.8F, lse, 4, 0, &mean);
    *out++ = (float)k->jsd(v, in->x, in->y, 0.8F, lse, 4, 0.3F, &mean);
    *out++ = (float)mean;
    if (v > N) continue;
    memset(out, 0, (size_t)(4 * v) * sizeof *out);
    *out += (float)k->probs(v, in->x, 0.8F, lse, out + 1), out += v + 1;
    k->kl_grad(v, in->x, in->y, 0.8F, lse, 4, 0.1F, 2, out), out += v;
    k->jsd_grad(v, in->x, in->y, 0.8F, lse, 4, 0.3F, 0.1F, 2, out), out += v;
    memcpy(out, in->x, (size_t)v * sizeof *out);
    k->logp_grad(v, out, 0.8F, lse, 0.3F, 0.2F), out += v;
  }
}

static void scores(const Kernels *k, const Inputs *in, float *out) {
  enum { KEYS = 96, LD = 112 };
  float max[GROUP], sum[GROUP];
  for (int lo = 0; lo < 40; lo += 7) {
    memcpy(out, in->x, 4 * LD * sizeof *out);
    k->softmax(4, 0, KEYS, lo, 90 - lo, 0.4F, out, LD, max, sum);
    memcpy(out + 4 * LD, max, 4 * sizeof *max), memcpy(out + 4 * LD + 4, sum, 4 * sizeof *sum);
    out += 4 * LD + 8;
    int from[GROUP], to[GROUP];
    for (int i = 0; i < GROUP; i++) from[i] = lo, to[i] = 60 + i;
    memcpy(out, in->y, KEYS * GROUP * sizeof *out);
    k->softmax_down(lo, 76, from, to, 0.4F, out, GROUP, max, sum);
    memcpy(out, max, sizeof max), memcpy(out + GROUP, sum, sizeof sum);
    out += KEYS * GROUP;
    memcpy(out, in->x, 2 * KEYS * GROUP * sizeof *out);
    k->attn_ds(KEYS, GROUP, GROUP, 0.4F, lo % 2 ? 3 : 0, in->y, in->z, 0, from, to, out,
               out + KEYS * GROUP);
    out += 2 * KEYS * GROUP;
  }
}

static void recurrences(const Kernels *k, const Inputs *in, float *out) {
  enum { KEY = 24, STATE = KEY * DELTA_COLUMNS };
  float *s = out, *rest = s + STATE, *o = rest + DELTA_COLUMNS, *grad = o + DELTA_COLUMNS;
  const DeltaStep t = {KEY, 0.9F, 0.6F, in->x, in->y, in->z};
  memcpy(s, in->z, STATE * sizeof *s);
  k->delta_step(&t, s, rest, o);
  memset(grad, 0, (STATE + DELTA_COLUMNS + 2 * KEY + 2) * sizeof *grad);
  float *dv = grad + STATE, *dq = dv + DELTA_COLUMNS, *dk = dq + KEY;
  k->delta_step_back(
      &t, &(DeltaStepGrad){in->z, rest, in->x, grad, dv, dq, dk, dk + KEY, dk + KEY + 1});
  out = dk + KEY + 2;
  const real *rows[4] = {in->x, in->y, in->z, in->x + N};
  k->conv_step(211, 4, rows, in->y, true, out), out += 211;
  float *dx[4] = {out, out + N, out + 2 * N, out + 3 * N}, *dw = out + 4 * N;
  memset(out, 0, (4 * N + 4 * CONV_BLOCK) * sizeof *out);
  k->conv_step_back(211, 4, rows, in->y, true, in->z, dx, dw);
}

static void products(const Kernels *k, const Inputs *in, float *out) {
  enum { DEPTH = 75 };
  for (int m = 1; m <= 11; m++, out += 11 * 64)
    k->block(m, 50, DEPTH, in->x, DEPTH, 1, in->y, 64, GROUP, out, 64, false);
  for (int m = 1; m <= FEW_ROWS; m++, out += 3 * 96)
    k->few_rows(m, 96, DEPTH, in->x, DEPTH, in->z, 96, GROUP, out, 96, false, NULL);
  for (int m = 1; m <= FEW_ROWS; m++, out += 3 * GROUP)
    k->few_rows_transposed(m, GROUP, 64, in->x, 64, in->z, out, GROUP, NULL);
}

static void random_numbers(const Kernels *k, const Inputs *in, float *out) {
  const RngKey key = {.seed = 7, .stream = 3, .step = 1, .prompt = 2, .sample = 5};
  k->normals(&key, 11, 4000, 0.02, out);
  uint8_t code[64];
  for (int i = 0; i < 8; i++, out += 65) {
    out[4000] = k->nf4_codes(64, in->x + 64 * i, code);
    for (int j = 0; j < 64; j++) out[4001 + j] = code[j];
  }
}

/* ---- the drivers, whose blocks differ with the class ---- */

static void weights(const Kernels *k, const Inputs *in, float *out) {
  static const QuantType types[] = {QUANT_F32, QUANT_BF16, QUANT_F16, QUANT_INT8, QUANT_NF4};
  const Ctx cx = {.arena = &arena};
  enum { OUTPUTS = 83, INNER = 128 };
  (void)k;
  for (int type = 0; type < 5; type++)
    for (int m = 1; m <= 30; m = 3 * m + 1, out += 40 * (OUTPUTS + INNER)) {
      QuantWeight *w;
      CHECK(!quant_new(&w, types[type], OUTPUTS, INNER));
      CHECK(!quant_put(&cx, w, 0, OUTPUTS, in->x) && !quant_done(&cx, w));
      CHECK(!quant_forward(&cx, m, w, in->y, INNER, NULL, out, OUTPUTS));
      CHECK(!quant_dx(&cx, m, w, in->z, OUTPUTS, out + 40 * OUTPUTS, INNER, false));
      quant_free(w);
    }
  CHECK(!gemm_dw(&cx, ROWS, 61, 94, in->x, 61, in->y, 94, false, out, false));
}

static const struct {
  const char *name;
  Case *run;
} cases[] = {{"norms", norms},
             {"elements", elements},
             {"logits", logits},
             {"scores", scores},
             {"recurrences", recurrences},
             {"products", products},
             {"random numbers", random_numbers},
             {"quantised weights", weights}};
enum { CASES = sizeof cases / sizeof *cases };

/* All classes whose name is accepted have the bits of the first of them. */
static void check_same(bool (*accepted)(const char *name)) {
  const Inputs in = {randoms(N * ROWS), randoms(N * ROWS), randoms(N * ROWS), randoms(N)};
  float *want = floats(OUT), *got = floats(OUT);
  for (int c = 0; c < CASES; c++) {
    const char *first = NULL;
    for (int p = 0; kern_path(p); p++) {
      const char *name = kern_path(p);
      if (!accepted(name)) continue;
      CHECK(!kern_select(name));
      memset(got, 0, OUT * sizeof *got);
      cases[c].run(kernels(NULL), &in, got);
      if (!first) memcpy(want, got, OUT * sizeof *got), first = name;
      for (int i = 0; i < OUT; i++)
        if (memcmp(want + i, got + i, sizeof *got) != 0) {
          test_fail(__FILE__, __LINE__, "%s: number %d is %.9g in %s and %.9g in %s", cases[c].name,
                    i, (double)got[i], name, (double)want[i], first);
          break;
        }
    }
  }
  kern_select(NULL);
  free(in.x), free(in.y), free(in.z), free(in.w), free(want), free(got);
}

static bool is_portable(const char *name) {
  return strcmp(name, "generic") == 0 || strncmp(name, "portable", 8) == 0;
}
static bool is_fused(const char *name) {
  return strcmp(name, "avx2") == 0 || strcmp(name, "avx512") == 0 || strcmp(name, "neon") == 0;
}

TEST(portable_kernels_have_the_bits_of_generic_ones) { check_same(is_portable); }
TEST(fused_kernels_have_the_same_bits_at_any_width) { check_same(is_fused); }
