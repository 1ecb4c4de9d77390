/* gguf_values.h - files of a test, and single values of a file and of a model. */
#ifndef GRPO_TESTS_GGUF_VALUES_H
#define GRPO_TESTS_GGUF_VALUES_H

#include <math.h>

#include "gguf/gguf.h"
#include "model/modeltest.h"

static inline const char *tmp(const char *name) {
  return test_path("%s/%s.gguf", test_tmp(), name);
}

static inline float value(const Gguf *g, const char *name, uint64_t at) {
  const GgufTensor *t = gguf_tensor(g, name);
  float x = NAN;
  CHECK(t != NULL);
  if (t) OK(gguf_read(t, at, 1, &x));
  return x;
}

/* name: behind "model.layers.0." */
static inline float weight(Model *m, const char *name, size_t at) {
  const Param *p = model_find(m, test_path("model.layers.0.%s", name));
  CHECK(p != NULL);
  return p ? (float)p->t.data[at] : NAN;
}

#endif
