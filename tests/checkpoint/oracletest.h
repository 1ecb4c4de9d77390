/* oracletest.h - what the tests of the oracles' checkpoints share. */
#ifndef GRPO_TESTS_ORACLETEST_H
#define GRPO_TESTS_ORACLETEST_H

#include "checkpoint/weights.h"
#include "model/modeltest.h"

/* Folders of oracles/models2 and of tests/cases/families, which have fewer variants. */
/* clang-format off */
static const char *const newer_names[] = {
    "smollm3", "granite", "olmo2", "olmo3", "ministral", "ministral3", "seed_oss", "exaone4",
    "hunyuan_v1_dense", "ernie4_5", "glm4", "starcoder2", "stablelm", "nemotron", "cohere2",
    "gpt_neox", "phi", "phi4_mini", "opt", "qwen3_5_text", "qwen3_5_nested", "lfm2",
    "qwen3_moe", "olmoe", "qwen3_5_moe", "qwen3_next", "deepseek_v3", "gpt_oss", "gemma4_e",
    "gemma4_moe", "lfm2_moe", "lfm3"
};
/* clang-format on */
enum { NEWER = sizeof newer_names / sizeof *newer_names };

static inline bool is_newer(const char *name) {
  for (int i = 0; i < NEWER; i++)
    if (strcmp(name, newer_names[i]) == 0) return true;
  return false;
}

/* Files of multimodal models have names of the outer model. */
static inline Param *find_param(Model *m, const char *name) {
  static const char outer[] = "language_model.", inner[] = "model.language_model.";
  if (strncmp(name, outer, strlen(outer)) == 0) name += strlen(outer);
  if (strncmp(name, inner, strlen(inner)) == 0) name = test_path("model.%s", name + strlen(inner));
  return model_find(m, name);
}

static inline Model *load(const char *name, Pool *pool) {
  Model *m = NULL;
  OK(weights_load_compute(&m, pool, test_oracle_path(name, "checkpoint"), STORE_F32, test_compute));
  return m;
}

static inline Json *read(const char *name, const char *file) {
  Json *j = NULL;
  OK(json_read_file(test_oracle_path(name, file), 0, &j));
  return j;
}

/* The tolerance in the mode of the test. */
static inline double within(double f32, double bf16) {
  return test_compute == COMPUTE_BF16 ? bf16 : f32;
}

static inline bool near_scalar(double a, double b) {
  return fabs(a - b) <= within(1e-4, 4e-2) * fmax(fabs(b), 0.3);
}

/* |x - want| / |want| */
static inline double relative_error(const real *x, const real *want, size_t n) {
  double diff = 0, norm = 0;
  for (size_t i = 0; i < n; i++) {
    const double d = (double)x[i] - (double)want[i];
    diff += d * d;
    norm += (double)want[i] * (double)want[i];
  }
  return sqrt(diff / norm);
}

#endif
