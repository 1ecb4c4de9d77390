/* compute.h - tests that run in float32 and in bf16: what the test's models compute in. */
#ifndef GRPO_TESTS_COMPUTE_H
#define GRPO_TESTS_COMPUTE_H

#include "model/model.h"
#include "testing.h"

static Compute test_compute = COMPUTE_F32;

/* A test in both modes; small_model and tiny_open (modeltest.h, tiny.h) follow test_compute. */
#define TEST_BOTH(name)                                                                            \
  static void name##_once(void);                                                                   \
  TEST(name) {                                                                                     \
    for (int mode_ = 0; mode_ < 2; mode_++) {                                                      \
      test_compute = mode_ ? COMPUTE_BF16 : COMPUTE_F32;                                           \
      name##_once();                                                                               \
    }                                                                                              \
    test_compute = COMPUTE_F32;                                                                    \
  }                                                                                                \
  static void name##_once(void)

#endif
