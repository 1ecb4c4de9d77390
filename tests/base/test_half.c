#include "base/half.h"
#include "testing.h"

static uint32_t bits(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}
static float from_bits(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

TEST(every_value_comes_back) {
  for (uint32_t h = 0; h < 65536; h++) {
    const float b = bf16_to_f32((uint16_t)h), f = f16_to_f32((uint16_t)h);
    if (isnan(b) ? !isnan(bf16_to_f32(f32_to_bf16(b))) : f32_to_bf16(b) != h)
      test_fail(__FILE__, __LINE__, "bf16 %04x", h);
    if (isnan(f) ? !isnan(f16_to_f32(f32_to_f16(f))) : f32_to_f16(f) != h)
      test_fail(__FILE__, __LINE__, "f16 %04x", h);
  }
}

TEST(known_values) {
  CHECK(f16_to_f32(0x3c00) == 1 && f16_to_f32(0xc000) == -2 && f16_to_f32(0x7bff) == 65504);
  CHECK(f16_to_f32(0x0001) == 0x1p-24f && f16_to_f32(0x03ff) == 1023 * 0x1p-24f);
  CHECK(f16_to_f32(0x0400) == 0x1p-14f && isinf(f16_to_f32(0xfc00)) && isnan(f16_to_f32(0x7c01)));
  CHECK(bits(f16_to_f32(0x8000)) == 0x80000000u && f32_to_f16(-0.0f) == 0x8000);
  CHECK(bf16_to_f32(0x3f80) == 1 && f32_to_bf16(-2) == 0xc000);
  CHECK(isnan(bf16_to_f32(f32_to_bf16(from_bits(0x7f800001)))));
  CHECK(isnan(f16_to_f32(f32_to_f16(from_bits(0xff800001)))));
}

/* Between two neighbours a tie goes to the even one, anything else to the nearer. */
static void check_between(const char *what, uint16_t low, float a, float b,
                          uint16_t (*convert)(float)) {
  const float middle = (float)(((double)a + b) / 2);
  const uint16_t even = low & 1 ? (uint16_t)(low + 1) : low;
  if (convert(middle) != even || convert(nextafterf(middle, a)) != low ||
      convert(nextafterf(middle, b)) != low + 1)
    test_fail(__FILE__, __LINE__, "%s between %04x and the next", what, low);
}

TEST(ties_go_to_even) {
  for (uint16_t h = 0; h < 0x7bff; h++) {
    check_between("f16", h, f16_to_f32(h), f16_to_f32((uint16_t)(h + 1)), f32_to_f16);
    const uint16_t n = h | 0x8000;
    check_between("f16", n, f16_to_f32(n), f16_to_f32((uint16_t)(n + 1)), f32_to_f16);
  }
  for (uint16_t h = 0; h < 0x7f7f; h++)
    check_between("bf16", h, bf16_to_f32(h), bf16_to_f32((uint16_t)(h + 1)), f32_to_bf16);
}

TEST(what_is_too_large_becomes_infinite) {
  CHECK(f32_to_f16(65519.996f) == 0x7bff && f32_to_f16(65520) == 0x7c00);
  CHECK(f32_to_f16(-1e30f) == 0xfc00 && f32_to_f16(INFINITY) == 0x7c00);
  CHECK(f32_to_bf16(from_bits(0x7f7f7fff)) == 0x7f7f &&
        f32_to_bf16(from_bits(0x7f7f8000)) == 0x7f80);
  CHECK(f32_to_f16(0x1p-25f) == 0 && f32_to_f16(nextafterf(0x1p-25f, 1)) == 1);
}
