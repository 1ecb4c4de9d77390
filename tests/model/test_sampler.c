/* The sampler against a slow and plain version of transformers' filters, and its distribution. */
#include "kern/logits.h"
#include "kern/token_set.h"
#include "model/modeltest.h"
#include "model/sampler.h"

enum { VOCAB = 1000 };

static real inv_temp_of(const Sampling *s) {
  return (real)(s->temperature > 0 ? 1 / s->temperature : 1);
}

static uint32_t last_set[VOCAB + 1];

static int32_t draw(const Sampling *s, const real *logits, int vocab, double uniform,
                    const int32_t *seen, int nseen) {
  static _Alignas(8) char scratch[VOCAB * 16];
  LogitsRow row;
  logits_row(NULL, vocab, logits, inv_temp_of(s), &row);
  const SamplerInput d = {.sampling = s,
                          .vocab = vocab,
                          .logits = logits,
                          .inv_temp = inv_temp_of(s),
                          .max = row.max,
                          .lse = row.lse,
                          .uniform = uniform,
                          .prompt = seen,
                          .prompt_len = nseen / 2,
                          .ids = seen + nseen / 2,
                          .len = nseen - nseen / 2};
  CHECK(sampler_scratch_bytes(vocab) <= sizeof scratch);
  return sampler_token(&d, scratch, last_set);
}

/* Tokens that are forbidden have no probability, in any way of sampling; the others keep theirs. */
TEST(forbidden_tokens_are_not_sampled) {
  enum { ALL = 12, DRAWS = 4000 };
  static const int32_t forbidden[] = {0, 4, 9, 10, 11}, seen[] = {0, 3, 11};
  static const int32_t named[] = {1, 2, 3, 5, 6, 7, 8};
  static _Alignas(8) char scratch[ALL * 16];
  const real logits[ALL] = {9, 1, 0, 2, 9, -1, (real)0.5, 0, 1, 9, 8, 7};
  for (int way = 0; way < 6; way++) {
    Sampling s;
    uint32_t set[ALL + 1];
    int count[ALL] = {0};
    sampling_init(&s);
    if (way == 1) s.top_k = 3;
    if (way == 2) s.top_k = ALL - 1;
    if (way == 3) s.top_p = 0.9;
    if (way == 4) s.repetition_penalty = 1.2;
    if (way == 5) s.temperature = 0;
    LogitsRow row;
    logits_row(NULL, ALL, logits, inv_temp_of(&s), &row);
    for (int i = 0; i < DRAWS; i++) {
      const SamplerInput d = {.sampling = &s,
                              .vocab = ALL,
                              .logits = logits,
                              .inv_temp = inv_temp_of(&s),
                              .max = row.max,
                              .lse = row.lse,
                              .uniform = (i + 0.5) / DRAWS,
                              .prompt = seen,
                              .prompt_len = 3,
                              .forbidden = forbidden,
                              .nforbidden = 5};
      count[sampler_token(&d, scratch, set)]++;
      if (way > 0 && way < 4) CHECK(set[0] == (way == 1 ? 3 : way == 2 ? 7 : set[0]) && set[0] < 8);
    }
    for (int i = 0; i < 5; i++) CHECK(count[forbidden[i]] == 0);
    double mass = 0;
    for (int i = 0; i < 7; i++) mass += exp((double)logits[named[i]]);
    for (int i = 0; way == 0 && i < 7; i++)
      CHECK_NEAR((double)count[named[i]] / DRAWS, exp((double)logits[named[i]]) / mass, 1e-3);
    if (way == 5) CHECK(count[3] == DRAWS);
  }
}

/* ---- the plain version: sort everything, drop what goes ----------------------------------- */

static const real *sort_by;
static int larger_first(const void *x, const void *y) {
  const int a = *(const int *)x, b = *(const int *)y;
  if (sort_by[a] != sort_by[b]) return sort_by[a] > sort_by[b] ? -1 : 1;
  return a - b;
}

/* p[VOCAB]: 0 for what is dropped, else proportional to the probability. */
static void plain_filters(const Sampling *s, const real *logits, const int32_t *seen, int nseen,
                          double *p) {
  static real z[VOCAB];
  static int order[VOCAB];
  double sum = 0, before = 0;
  for (int i = 0; i < VOCAB; i++) z[i] = logits[i], order[i] = i;
  for (int i = 0; i < nseen; i++) {
    const real x = logits[seen[i]], by = (real)s->repetition_penalty;
    z[seen[i]] = x < 0 ? x * by : x / by;
  }
  for (int i = 0; i < VOCAB; i++) z[i] *= inv_temp_of(s);
  sort_by = z;
  qsort(order, VOCAB, sizeof *order, larger_first);
  const double max = (double)z[order[0]];
  int kept = s->top_k > 0 && s->top_k < VOCAB ? s->top_k : VOCAB;
  for (int k = 0; k < VOCAB; k++) {
    p[order[k]] = k < kept ? exp((double)z[order[k]] - max) : 0;
    sum += p[order[k]];
  }
  for (int k = 0; k < VOCAB && s->top_p < 1; k++) {
    const double mine = p[order[k]];
    if (k && before >= s->top_p * sum) p[order[k]] = 0;
    before += mine;
  }
  for (int i = 0; i < VOCAB; i++)
    if (p[i] < s->min_p) p[i] = 0;
}

static int32_t plain_draw(const double *p, double uniform) {
  double sum = 0, at = 0;
  int32_t last = 0;
  for (int i = 0; i < VOCAB; i++) sum += p[i];
  for (int i = 0; i < VOCAB; i++) {
    at += p[i];
    if (p[i] > 0) last = i;
    if (at > uniform * sum) return i;
  }
  return last;
}

static void some_logits(real *z, double spread, uint64_t seed, bool ties) {
  const RngKey key = {.seed = seed, .stream = RNG_USER};
  for (int i = 0; i < VOCAB; i++) {
    z[i] = (real)(spread * rng_normal(&key, (uint64_t)i));
    if (ties) z[i] = (real)floor((double)z[i]);
  }
}

/* Is the set of the last token what the plain version keeps? */
static bool same_set(const Sampling *s, const double *p) {
  const bool filters = sampling_is_truncated(s);
  bool same = true;
  int n = 0;
  for (int i = 0; i < VOCAB; i++) {
    const bool in = token_set_place(last_set, VOCAB, i) >= 0;
    same &= in == (filters ? p[i] > 0 : true);
    n += in;
  }
  CHECK(!filters || n <= sampling_mask_tokens(s, VOCAB));
  return same;
}

static void check_settings(const Sampling *s, double spread, bool ties) {
  static real z[VOCAB];
  static double p[VOCAB];
  int32_t seen[40];
  int differ = 0, different_sets = 0;
  for (int round = 0; round < 40; round++) {
    some_logits(z, spread, (uint64_t)round + 1, ties);
    some_ids(seen, 40, VOCAB, (uint64_t)round);
    plain_filters(s, z, seen, 40, p);
    for (int k = 0; k < 20; k++) {
      const RngKey key = {.seed = 3, .stream = RNG_SAMPLE, .step = (uint32_t)round};
      const double u = k == 19 ? 0.99999999999 : rng_uniform(&key, (uint64_t)k);
      const int32_t got = draw(s, z, VOCAB, u, seen, 40);
      CHECK(p[got] > 0);
      if (k == 0) different_sets += !same_set(s, p);
      differ += got != plain_draw(p, u);
    }
  }
  /* single precision may decide otherwise where a sum comes close to the uniform number */
  if (differ > 2)
    test_fail(__FILE__, __LINE__, "top_k %d top_p %g min_p %g: %d of 800 differ", s->top_k,
              s->top_p, s->min_p, differ);
  /* so where the sum of the best comes close to top_p */
  if (different_sets > (s->top_p < 1 ? 1 : 0))
    test_fail(__FILE__, __LINE__, "top_k %d top_p %g min_p %g: %d of 40 sets differ", s->top_k,
              s->top_p, s->min_p, different_sets);
}

TEST(every_combination_of_filters_agrees_with_the_plain_version) {
  static const int top_k[] = {0, 1, 7, 50, 999, 5000};
  static const double top_p[] = {1, 0.999, 0.9, 0.3, 1e-6}, min_p[] = {0, 0.05, 1};
  for (int a = 0; a < 6; a++)
    for (int b = 0; b < 5; b++)
      for (int c = 0; c < 3; c++) {
        Sampling s;
        sampling_init(&s);
        s.top_k = top_k[a], s.top_p = top_p[b], s.min_p = min_p[c];
        s.temperature = 0.7;
        s.repetition_penalty = a % 2 ? 1.3 : 1;
        check_settings(&s, b % 2 ? 4 : 0.5, c == 1);
      }
}

TEST(drawn_tokens_follow_the_distribution) {
  enum { V = 8, N = 200000 };
  const real z[V] = {0.5f, -1, 2, 0, -3, 1, 1.5f, -20};
  const RngKey key = {.seed = 11, .stream = RNG_SAMPLE};
  double p[V], sum = 0;
  int count[V] = {0};
  Sampling s;
  sampling_init(&s);
  s.temperature = 1.25;
  for (int i = 0; i < V; i++) sum += p[i] = exp((double)z[i] / 1.25);
  for (int i = 0; i < N; i++) count[draw(&s, z, V, rng_uniform(&key, (uint64_t)i), NULL, 0)]++;
  for (int i = 0; i < V; i++) {
    const double want = p[i] / sum, sigma = sqrt(want * (1 - want) / N);
    CHECK_NEAR((double)count[i] / N, want, 4.5 * sigma + 1e-6);
  }
}

TEST(greedy_takes_the_first_of_the_largest) {
  const real z[] = {1, 3, -2, 3, 0};
  const int32_t seen[] = {1, 1, 4, 2};
  Sampling s;
  sampling_init(&s);
  s.temperature = 0;
  CHECK(draw(&s, z, 5, 0.99, NULL, 0) == 1);
  s.repetition_penalty = 1.5; /* token 1 falls to 2, once */
  CHECK(draw(&s, z, 5, 0.99, seen, 4) == 3);
}

TEST(the_penalty_divides_positive_and_multiplies_negative_logits) {
  const real z[] = {2, 1.5f, -1, -1.5f};
  const int32_t seen[] = {0, 2, 0, 2};
  Sampling s;
  sampling_init(&s);
  s.temperature = 0;
  s.repetition_penalty = 2; /* becomes 1, 1.5, -2, -1.5 */
  CHECK(draw(&s, z, 4, 0, seen, 4) == 1);
  CHECK(draw(&s, z + 2, 2, 0, (const int32_t[]){0, 0}, 2) == 1);
}
