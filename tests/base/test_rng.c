#include <stdlib.h>

#include "base/rng.h"
#include "testing.h"

static void check_philox(uint32_t c, uint32_t k, const uint32_t want[4]) {
  const uint32_t counter[4] = {c, c, c, c}, key[2] = {k, k};
  uint32_t out[4];
  philox4x32(counter, key, out);
  for (int i = 0; i < 4; i++)
    if (out[i] != want[i]) test_fail(__FILE__, __LINE__, "word %d: %08x", i, out[i]);
}

TEST(philox_gives_the_known_answers_of_random123) {
  check_philox(0, 0, (const uint32_t[]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  check_philox(~0u, ~0u, (const uint32_t[]){0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  const uint32_t counter[4] = {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344};
  const uint32_t key[2] = {0xa4093822, 0x299f31d0};
  const uint32_t want[4] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
  uint32_t out[4];
  philox4x32(counter, key, out);
  CHECK(memcmp(out, want, sizeof want) == 0);
}

TEST(every_part_of_the_address_matters) {
  const RngKey k = {.seed = 1, .stream = RNG_SAMPLE, .step = 2, .prompt = 3, .sample = 4};
  RngKey other[5] = {k, k, k, k, k};
  other[0].seed++, other[1].stream++, other[2].step++, other[3].prompt++, other[4].sample++;
  for (int i = 0; i < 5; i++) CHECK(rng_u64(&k, 9) != rng_u64(&other[i], 9));
  CHECK(rng_u64(&k, 9) == rng_u64(&k, 9) && rng_u64(&k, 9) != rng_u64(&k, 10));
  CHECK(rng_u64(&k, 9) != rng_u64(&k, 9 + ((uint64_t)1 << 32)));
}

TEST(uniform_numbers_are_uniform) {
  const RngKey k = {.seed = 42, .stream = RNG_USER};
  enum { N = 200000 };
  int bin[16] = {0};
  double sum = 0, squares = 0, chi = 0;
  for (uint64_t i = 0; i < N; i++) {
    const double u = rng_uniform(&k, i);
    CHECK(u >= 0 && u < 1);
    sum += u, squares += u * u;
    bin[(int)(u * 16)]++;
  }
  CHECK_NEAR(sum / N, 0.5, 0.003);
  CHECK_NEAR(squares / N - 0.25, 1.0 / 12, 0.002);
  for (int i = 0; i < 16; i++) chi += pow(bin[i] - N / 16.0, 2) / (N / 16.0);
  CHECK(chi < 45); /* 15 degrees of freedom: exceeded once in 10,000 seeds */
}

TEST(normal_numbers_have_the_moments_of_the_normal) {
  const RngKey k = {.seed = 7, .stream = RNG_INIT};
  enum { N = 200000 };
  double m[5] = {0}, product = 0, last = 0;
  for (uint64_t i = 0; i < N; i++) {
    const double x = rng_normal(&k, i);
    CHECK(isfinite(x));
    for (int p = 1; p <= 4; p++) m[p] += pow(x, p) / N;
    product += x * last / N;
    last = x;
  }
  CHECK_NEAR(m[1], 0, 0.01);
  CHECK_NEAR(m[2], 1, 0.02);
  CHECK_NEAR(m[3], 0, 0.05);
  CHECK_NEAR(m[4], 3, 0.15);
  CHECK_NEAR(product, 0, 0.01); /* neighbours are independent */
}

TEST(a_permutation_hits_every_element_once) {
  static const uint64_t sizes[] = {1, 2, 3, 4, 5, 8, 16, 17, 100, 1023, 1024, 1025, 7473, 65537};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (uint64_t seed = 0; seed < 3; seed++) {
      const uint64_t n = sizes[s];
      char *seen = calloc(n, 1);
      uint64_t wrong = 0;
      for (uint64_t i = 0; i < n; i++) {
        const uint64_t j = rng_permute(seed, n, i);
        wrong += j >= n || seen[j]++;
      }
      if (wrong) test_fail(__FILE__, __LINE__, "n = %d: %d wrong", (int)n, (int)wrong);
      free(seen);
    }
  CHECK(rng_permute(1, (uint64_t)1 << 63, 12345) < (uint64_t)1 << 63);
}

TEST(permutations_of_few_elements_are_fair) {
  enum { SEEDS = 20000 };
  for (uint64_t n = 2; n <= 12; n++) {
    double chi = 0;
    for (uint64_t i = 0; i < n; i++) {
      int count[12] = {0};
      for (uint64_t seed = 0; seed < SEEDS; seed++) count[rng_permute(seed, n, i)]++;
      for (uint64_t j = 0; j < n; j++)
        chi += pow(count[j] - SEEDS / (double)n, 2) / (SEEDS / (double)n);
    }
    const double freedom = (double)((n - 1) * (n - 1));
    if (chi > freedom + 5 * sqrt(2 * freedom) + 10)
      test_fail(__FILE__, __LINE__, "n = %d: chi square %.1f of %.0f", (int)n, chi, freedom);
  }
}
