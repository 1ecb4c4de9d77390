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
    logits_kl(&cx, ROWS, V, NULL, NULL, z, ref, (float)t, lse, ref_lse, NULL, kl, NULL);
    logits_kl_grad(&cx, ROWS, V, NULL, NULL, z, ref, (float)t, lse, ref_lse, kl, dkl, NULL, g);
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
    logits_kl(&cx, 1, V, NULL, NULL, z, z, (float)t, lse, lse, NULL, kl, NULL);
    CHECK(kl[0] == 0);
    free(z), free(ref), free(g), free(before);
  }
  kern_select(NULL);
}

/* ---- divergences ------------------------------------------------------------------- */

/* The outcomes of a row: the tokens in `best`, then all others together; best NULL: all tokens. */
typedef struct Outcomes {
  int n;
  double p[V + 1], q[V + 1];
} Outcomes;

static Outcomes outcomes_of(const float *z, const float *ref, double t, const bool *best) {
  const Row a = reference(z, V, t), b = reference(ref, V, t);
  Outcomes o = {0};
  double rest_p = 0, rest_q = 0;
  for (int j = 0; j < V; j++) {
    const double p = exp(shifted(z, t, a.lse, j)), q = exp(shifted(ref, t, b.lse, j));
    if (best && !best[j]) {
      rest_p += p, rest_q += q;
      continue;
    }
    o.p[o.n] = p, o.q[o.n++] = q;
  }
  if (best) o.p[o.n] = rest_p, o.q[o.n++] = rest_q;
  return o;
}

static double x_log_ratio(double x, double y) { return x > 0 ? x * log(x / y) : 0; }

static double divergence_of(const Outcomes *o, double beta) {
  double sum = 0;
  for (int j = 0; j < o->n; j++) {
    const double p = o->p[j], q = o->q[j], m = beta * q + (1 - beta) * p;
    if (beta == 0)
      sum += x_log_ratio(q, p);
    else if (beta == 1)
      sum += x_log_ratio(p, q);
    else
      sum += beta * x_log_ratio(q, m) + (1 - beta) * x_log_ratio(p, m);
  }
  return sum;
}

/* The k tokens that ref likes best; false: all tokens are wanted. */
static bool best_of(const float *ref, int k, bool *best) {
  memset(best, 0, V * sizeof *best);
  for (int n = 0; n < k; n++) {
    int at = -1;
    for (int j = 0; j < V; j++)
      if (!best[j] && (at < 0 || ref[j] > ref[at])) at = j;
    best[at] = true;
  }
  return k > 0 && k < V;
}

/* By differences of the double-precision value, in some directions. */
static void check_slopes(float *z, const float *ref, double t, double beta, const bool *best,
                         const float *slope) {
  const double h = 1e-3;
  for (int j = 0; j < V; j += 83) {
    const float before = z[j];
    z[j] = before + (float)h;
    const double up = z[j];
    Outcomes o = outcomes_of(z, ref, t, best);
    const double above = divergence_of(&o, beta);
    z[j] = before - (float)h;
    o = outcomes_of(z, ref, t, best);
    CHECK_NEAR(slope[j], (above - divergence_of(&o, beta)) / (up - (double)z[j]), 1e-6);
    z[j] = before;
  }
}

TEST(divergences_and_their_gradients_agree_with_double) {
  enum { ROWS = 2 };
  static const float betas[] = {0, 0.1f, 0.5f, 0.9f, 1};
  static const int tops[] = {0, 1, 5, 100, V};
  static bool best[V];
  const double t = 1.25;
  const float one[ROWS] = {1, 1};
  for (int p = 0; p < NPATHS && use_path(p); p++)
    for (int i = 0; i < 25; i++) {
      const Divergence d = {betas[i % 5], tops[i / 5]};
      Ctx cx = {.arena = &arena};
      float *z = randoms(ROWS * V), *ref = randoms(ROWS * V), *g = floats(ROWS * V);
      float lse[ROWS], ref_lse[ROWS], kl[ROWS], mean[ROWS];
      int32_t top[ROWS * V];
      ref[9] = ref[700] = 4, ref[V + 3] = ref[V + 4] = ref[V + 5]; /* equals */
      logits_logp(&cx, ROWS, V, NULL, z, (float)t, NULL, NULL, NULL, lse);
      logits_logp(&cx, ROWS, V, NULL, ref, (float)t, NULL, NULL, NULL, ref_lse);
      logits_kl(&cx, ROWS, V, NULL, &d, z, ref, (float)t, lse, ref_lse, top, kl, mean);
      logits_kl_grad(&cx, ROWS, V, NULL, &d, z, ref, (float)t, lse, ref_lse, mean, one, top, g);
      for (int r = 0; r < ROWS; r++) {
        float *row = z + r * V;
        const bool *some = best_of(ref + r * V, d.top_k, best) ? best : NULL;
        const Outcomes o = outcomes_of(row, ref + r * V, t, some);
        CHECK_NEAR(kl[r], divergence_of(&o, (double)d.beta), 3e-6);
        check_slopes(row, ref + r * V, t, (double)d.beta, some, g + r * V);
      }
      free(z), free(ref), free(g);
    }
  kern_select(NULL);
}

TEST(a_divergence_of_equal_rows_is_0_and_of_impossible_tokens_finite) {
  for (int p = 0; p < NPATHS && use_path(p); p++)
    for (int i = 0; i < 6; i++) {
      const Divergence d = {(float)(i % 3) / 2, i / 3 * 7};
      Ctx cx = {.arena = &arena};
      float *z = randoms(V), *ref = randoms(V), *g = floats(V), lse, ref_lse, kl, mean, one = 1;
      int32_t top[7];
      z[3] = ref[3] = ref[8] = -INFINITY;
      if (d.beta < 1) z[5] = -INFINITY; /* the reverse KL would be infinite the other way round */
      if (d.beta == 1) ref[8] = 0;
      logits_logp(&cx, 1, V, NULL, z, 1, NULL, NULL, NULL, &lse);
      logits_logp(&cx, 1, V, NULL, ref, 1, NULL, NULL, NULL, &ref_lse);
      logits_kl(&cx, 1, V, NULL, &d, z, ref, 1, &lse, &ref_lse, top, &kl, &mean);
      logits_kl_grad(&cx, 1, V, NULL, &d, z, ref, 1, &lse, &ref_lse, &mean, &one, top, g);
      CHECK(isfinite(kl) && kl > 0);
      for (int j = 0; j < V; j++) CHECK(isfinite(g[j]));
      logits_kl(&cx, 1, V, NULL, &d, z, z, 1, &lse, &lse, top, &kl, &mean);
      CHECK_NEAR(kl, 0, 1e-6);
      free(z), free(ref), free(g);
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
