/* Tensors of normal random numbers: the bits of rng_normal, on every path, for any threads. */
#include "kern_test.h"

#include "base/rng.h"
#include "kern/kernels.h"
#include "kern/random_normal.h"

static bool same_as_one_by_one(const RngKey *key, uint64_t first, int n, double std) {
  float *got = floats((size_t)n), *want = floats((size_t)n);
  for (int i = 0; i < n; i++) want[i] = (float)(std * rng_normal(key, first + (uint64_t)i));
  kernels(NULL)->normals(key, first, n, std, got);
  const bool same = same_bits(got, want, (size_t)n);
  free(got);
  free(want);
  return same;
}

TEST(normals_have_the_bits_of_rng_normal_on_every_path) {
  const RngKey key = {.seed = 0x123456789abcdefu, .stream = RNG_INIT, .step = 77, .prompt = 5};
  const uint64_t firsts[] = {0, 1, 63, 0xfffff000u, 0x300000000u};
  for (int p = 0; p < NPATHS; p++) {
    if (!use_path(p)) continue;
    for (int f = 0; f < 5; f++)
      for (int n = 0; n < 200; n += 33) CHECK(same_as_one_by_one(&key, firsts[f], n, 1));
    CHECK(same_as_one_by_one(&key, 1 << 20, 1 << 20, 0.02));
    CHECK(same_as_one_by_one(&key, 0, 100, 0));
    CHECK(same_as_one_by_one(&key, 0, 10000, 1e-39)); /* subnormal */
    CHECK(same_as_one_by_one(&key, 0, 10000, 1e37));
  }
  kern_select(NULL);
}

static void fill(const Ctx *cx, float *out, void *arg) { random_normal(cx, arg, 100000, 0.5, out); }

TEST(threads_do_not_change_normals) {
  RngKey key = {.seed = 3, .stream = RNG_USER};
  CHECK(threads_agree(fill, 100000, &key));
  float *x = floats(100000);
  random_normal(&(Ctx){0}, &key, 100000, 0.5, x);
  for (int i = 0; i < 100000; i++) CHECK(x[i] == (float)(0.5 * rng_normal(&key, (uint64_t)i)));
  free(x);
}
