/* forward.h - a model that could be loaded computes: for the targets that load models. */
#ifndef GRPO_TESTS_FUZZ_FORWARD_H
#define GRPO_TESTS_FUZZ_FORWARD_H

#include "fuzz.h"
#include "model/forward_logits.h"
#include "model/model.h"

static inline void check_forward(Model *m) {
  static const int32_t ids[3] = {0}, pos[3] = {0, 1, 2};
  const PackSpan span = {0, 3, -1};
  const Pack pack = {.nrows = 3, .ids = ids, .pos = pos, .nspans = 1, .spans = &span};
  const Config *c = model_config(m);
  Tape t;
  Tensor *logits;
  FUZZ_CHECK(tape_init(&t, NULL) == GRPO_OK);
  if (forward_logits(m, &t, &pack, &logits) == GRPO_OK)
    FUZZ_CHECK(logits->n == 3 * (size_t)c->vocab_size);
  tape_free(&t);
}

#endif
