/* Differences of float32: exact for any bits, short for small steps, and nothing else is taken. */
#include "formats/float_delta.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/rng.h"
#include "testing.h"

enum { MOST = 1000 };

static uint32_t bits_at(uint64_t i) {
  return (uint32_t)rng_u64(&(RngKey){.seed = 5, .stream = RNG_USER}, i);
}

static size_t check_round_trip(const float *was, const float *now, size_t n) {
  float x[MOST];
  Buf b = {0};
  float_delta_put(&b, was, now, n);
  if (n) memcpy(x, was, n * sizeof *x);
  CHECK(float_delta_apply(b.data, b.len, x, n) == GRPO_OK);
  CHECK(!n || memcmp(x, now, n * sizeof *x) == 0);
  const size_t len = b.len;
  buf_free(&b);
  return len;
}

TEST(any_bits_become_any_others) {
  static uint32_t a[MOST], b[MOST];
  float was[MOST], now[MOST];
  for (size_t i = 0; i < MOST; i++) {
    a[i] = bits_at(i);
    b[i] = bits_at(MOST + i) >> i % 33 % 32;
  }
  memcpy(was, a, sizeof a);
  memcpy(now, b, sizeof b);
  for (size_t n = 0; n <= 40; n++) check_round_trip(was, now, n);
  check_round_trip(was, now, MOST);
  check_round_trip(now, was, MOST);
}

TEST(what_has_not_changed_is_two_bytes_for_each_group) {
  static float x[MOST];
  CHECK(check_round_trip(x, x, MOST) == 2 * (size_t)((MOST + 31) / 32));
}

TEST(a_small_step_takes_less_than_half) {
  static float was[MOST], now[MOST];
  for (size_t i = 0; i < MOST; i++) {
    was[i] = (float)(0.02 * rng_normal(&(RngKey){.seed = 1}, i));
    now[i] = was[i] - (float)(1e-6 * (i % 2 ? 1 : -1));
  }
  CHECK(check_round_trip(was, now, MOST) < (size_t)(MOST * 4 * 0.45));
}

TEST(other_bytes_are_refused_and_change_nothing) {
  static const float was[20] = {1, 2}, now[20] = {1.5F, 2};
  float x[20];
  Buf b = {0};
  float_delta_put(&b, was, now, 20);
  memcpy(x, was, sizeof x);
  for (size_t len = 0; len < b.len; len++)
    CHECK(float_delta_apply(b.data, len, x, 20) == GRPO_EFORMAT);
  CHECK(float_delta_apply(b.data, b.len, x, 0) == GRPO_EFORMAT);
  CHECK(float_delta_apply(b.data, b.len, x, 40) == GRPO_EFORMAT);
  b.data[1] = 2;
  CHECK(float_delta_apply(b.data, b.len, x, 20) == GRPO_EFORMAT);
  CHECK(memcmp(x, was, sizeof x) == 0);
  buf_free(&b);
}
