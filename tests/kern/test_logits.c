/* Rows of logits on every path: log-probabilities, entropies, KL and their gradients. */
#include "kern/elementwise.h"
#include "kern/logits.h"
#include "kern_test.h"

enum { V = 1003 };

typedef struct Row {
  double max, lse, entropy;
} Row;

static double shifted(const float *z, double t, double lse, int j) {
  return (double)z[j] * t - lse;
}

static Row reference(const float *z, int v, double t) {
  Row r = {-HUGE_VAL, 0, 0};
  double sum = 0;
  for (int j = 0; j < v; j++) r.max = fmax(r.max, (double)z[j] * t);
  for (int j = 0; j < v; j++) sum += exp((double)z[j] * t - r.max);
  r.lse = r.max + log(sum);
  for (int j = 0; j < v; j++) {
    const double l = shifted(z, t, r.lse, j), p = exp(l);
    if (p > 0) r.entropy -= p * l;
  }
  return r;
}

TEST(log_probabilities_and_entropies_agree_with_double) {
  static const int sizes[] = {1, 2, 15, 65, 1003, 50257, 151936};
  for (int p = 0; p < NPATHS; p++)
    for (int i = 0; i < 7 && use_path(p); i++) {
      const int v = sizes[i];
      Ctx cx = {.arena = &arena};
      float *z = randoms((size_t)(2 * v)), logp[2], ent[2], lse[2];
      int32_t target[2] = {v / 2, v - 1};
      for (int j = 0; j < v; j++) z[v + j] *= 8; /* a sharp row after a flat one */
      if (v > 2) z[v / 3] = -INFINITY, z[v + 1] = 60;
      logits_logp(&cx, 2, v, NULL, z, 0.7f, target, logp, ent, lse);
      for (int r = 0; r < 2; r++) {
        Row want = reference(z + r * v, v, (double)0.7f);
        CHECK_NEAR(lse[r], want.lse, 5e-6);
        CHECK_NEAR(ent[r], want.entropy, 2e-5);
        CHECK_NEAR(logp[r], shifted(z + r * v, (double)0.7f, want.lse, target[r]), 1e-5);
      }
      logits_logp(&cx, 2, v, NULL, z, 0.7f, NULL, NULL, NULL, lse);
      free(z);
    }
  kern_select(NULL);
}

TEST(uniform_and_certain_rows_have_exact_entropies) {
  for (int p = 0; p < NPATHS && use_path(p); p++) {
    Ctx cx = {.arena = &arena};
    float *z = floats(151936), ent, logp;
    const int32_t target = 5;
    logits_logp(&cx, 1, 151936, NULL, z, 1, &target, &logp, &ent, NULL);
    CHECK_NEAR(ent, log(151936), 2e-6);
    CHECK_NEAR(logp, -log(151936), 2e-6);
    for (int i = 0; i < 151936; i++) z[i] = -INFINITY;
    z[5] = 3;
    logits_logp(&cx, 1, 151936, NULL, z, 1, &target, &logp, &ent, NULL);
    CHECK(ent == 0 && logp == 0);
    free(z);
  }
  kern_select(NULL);
}

TEST(gradients_of_the_head_agree_with_double) {
  enum { ROWS = 5 };
  const double t = 0.5;
  for (int p = 0; p < NPATHS; p++)
    for (int with_entropy = 0; with_entropy < 2 && use_path(p); with_entropy++) {
      Ctx cx = {.arena = &arena};
      float *z = randoms(ROWS * V), *g = NULL, ent[ROWS], lse[ROWS], dl[ROWS], de[ROWS];
      int32_t target[ROWS];
      for (int r = 0; r < ROWS; r++)
        target[r] = (r * 411) % V, dl[r] = gauss(), de[r] = gauss(), z[r * V + 7] = -INFINITY;
      logits_logp(&cx, ROWS, V, NULL, z, (float)t, NULL, NULL, ent, lse);
      g = copy_of(z, ROWS * V);
      logits_logp_grad(&cx, ROWS, V, NULL, g, (float)t, target, lse, ent, dl,
                       with_entropy ? de : NULL);
      for (int r = 0; r < ROWS; r++) {
        Row w = reference(z + r * V, V, t);
        double want[V];
        for (int j = 0; j < V; j++) {
          const double l = shifted(z + r * V, t, w.lse, j), q = exp(l);
          want[j] = t * (double)dl[r] * ((j == target[r]) - q);
          if (with_entropy && q > 0) want[j] -= t * (double)de[r] * q * (l + w.entropy);
        }
        CHECK_NEAR(distance(g + r * V, want, V), 0, 1e-6);
      }
      free(z), free(g);
    }
  kern_select(NULL);
}

TEST(kl_and_its_gradient_agree_with_double) {
  enum { ROWS = 3 };
  const double t = 1.25;
  for (int p = 0; p < NPATHS && use_path(p); p++) {
    Ctx cx = {.arena = &arena};
    float *z = randoms(ROWS * V), *ref = randoms(ROWS * V), *g = randoms(ROWS * V);
    float *before = copy_of(g, ROWS * V), lse[ROWS], ref_lse[ROWS], kl[ROWS], dkl[ROWS];
    for (int r = 0; r < ROWS; r++) dkl[r] = gauss(), z[r * V + 3] = ref[r * V + 3] = -INFINITY;
    logits_logp(&cx, ROWS, V, NULL, z, (float)t, NULL, NULL, NULL, lse);
    logits_logp(&cx, ROWS, V, NULL, ref, (float)t, NULL, NULL, NULL, ref_lse);
    logits_kl(&cx, ROWS, V, NULL, z, ref, (float)t, lse, ref_lse, kl);
    logits_kl_grad(&cx, ROWS, V, NULL, z, ref, (float)t, lse, ref_lse, kl, dkl, g);
    for (int r = 0; r < ROWS; r++) {
      Row a = reference(z + r * V, V, t), b = reference(ref + r * V, V, t);
      double want = 0, grad[V];
      for (int pass = 0; pass < 2; pass++)
        for (int j = 0; j < V; j++) {
          const double l = shifted(z + r * V, t, a.lse, j), q = exp(l);
          const double d = q > 0 ? l - shifted(ref + r * V, t, b.lse, j) : 0;
          if (!pass) want += q * d;
          grad[j] = (double)before[r * V + j] + t * (double)dkl[r] * q * (d - want);
        }
      CHECK_NEAR(kl[r], want, 3e-6);
      CHECK_NEAR(distance(g + r * V, grad, V), 0, 1e-6);
    }
    logits_kl(&cx, 1, V, NULL, z, z, (float)t, lse, lse, kl);
    CHECK(kl[0] == 0);
    free(z), free(ref), free(g), free(before);
  }
  kern_select(NULL);
}

static float *logits;
static int32_t targets[MAX_ROWS];

/* logp, entropy, lse one after another */
static void rows_from(const Ctx *cx, int at, int m, float *out) {
  logits_logp(cx, m, V, NULL, logits + at * V, 0.9f, targets + at, out, out + m, out + 2 * m);
}
static void all_rows(const Ctx *cx, float *out, void *arg) {
  (void)arg;
  rows_from(cx, 0, MAX_ROWS, out);
}

TEST(rows_of_logits_depend_on_nothing_else) {
  logits = randoms(MAX_ROWS * V);
  for (int i = 0; i < MAX_ROWS; i++) targets[i] = (i * 37) % V;
  for (int p = 0; p < NPATHS && use_path(p); p++) {
    Ctx cx = {.arena = &arena};
    float all[3 * MAX_ROWS], some[3 * MAX_ROWS];
    rows_from(&cx, 0, MAX_ROWS, all);
    for (int i = 0; i < NCOUNTS; i++) {
      const int m = row_counts[i], at = (MAX_ROWS - m) / 3;
      rows_from(&cx, at, m, some);
      for (int part = 0; part < 3; part++)
        CHECK(same_bits(some + part * m, all + part * MAX_ROWS + at, (size_t)m));
    }
    CHECK(threads_agree(all_rows, 3 * MAX_ROWS, NULL));
  }
  free(logits);
  kern_select(NULL);
}
