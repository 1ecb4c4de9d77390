/* Computing in bf16 beside float32, on random models of every family: how far log-probabilities
 * move, that gradients point the same way, what a model takes. */
#include <string.h>

#include "base/mem.h"
#include "model/forward.h"
#include "model/model_copy.h"
#include "model/modeltest.h"
#include "model/panels.h"
#include "model/resize.h"

enum { ROWS = 40, PROMPT = 8 };

/* Log-probabilities of a sequence of random tokens, and the gradients of their sum. */
static void log_probabilities(Model *m, Tape *t, real *logp) {
  static int32_t ids[ROWS];
  const int32_t *rest = ids + PROMPT;
  const int len = ROWS - PROMPT;
  const PackGroup g = {ids, PROMPT, 1, &rest, &len, 0, 0};
  real seed[2 * ROWS] = {0};
  Tensor *h, *out;
  Pack p;
  some_ids(ids, ROWS, 97, 5);
  for (int i = 0; i < len; i++) seed[i] = 1;
  OK(model_set_trainable(m, true));
  model_zero_grad(m);
  tape_reset(t);
  REQUIRE(pack_groups(&t->arena, model_config(m), 1, &g, &p));
  REQUIRE(forward_hidden(m, t, &p, &h));
  REQUIRE(forward_logp(m, t, &p, h, 1, NULL, NULL, &out));
  memcpy(logp, out->data, (size_t)len * sizeof *logp);
  REQUIRE(tape_backward_from(t, out, seed));
}

static double cosine(const Model *a, const Model *b) {
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < a->weight_reals; i++) {
    const double x = (double)a->grads[i], y = (double)b->grads[i];
    xy += x * y, xx += x * x, yy += y * y;
  }
  return xy / sqrt(xx * yy);
}

/* These models have large random weights, which is hard on them: found were log-probabilities
 * within 0.11 and cosines of 0.9990 and more; of 0.9964 with relu, whose slope jumps. */
TEST(bf16_moves_log_probabilities_a_little_and_no_gradient_s_direction) {
  Tape t;
  OK(tape_init(&t, NULL));
  for (int k = 0; k < SMALL_SHAPES; k++) {
    real full[ROWS], half[ROWS];
    test_compute = COMPUTE_F32;
    Model *a = small_model(*small_shapes[k], NULL, 3);
    test_compute = COMPUTE_BF16;
    Model *b = small_model(*small_shapes[k], NULL, 3);
    CHECK(model_compute(a) == COMPUTE_F32 && model_compute(b) == COMPUTE_BF16);
    log_probabilities(a, &t, full);
    log_probabilities(b, &t, half);
    const double d = worst_difference(full, half, ROWS - PROMPT), c = cosine(a, b);
    const bool mixture = model_config(a)->num_experts > 0; /* some tokens take other experts */
    const double least = mixture                                          ? 0.97
                         : config_activation(model_config(a)) == ACT_RELU ? 0.995
                                                                          : 0.998;
    if (!(d > 0 && d < (mixture ? 0.6 : 0.15) && c > least))
      test_fail(__FILE__, __LINE__, "%s: log-probabilities differ by %g, cosine of gradients %.6f",
                config_model_type(model_config(a)), d, c);
    OK(model_set_trainable(b, false)); /* and back: the weights are as they were */
    OK(model_set_compute(b, COMPUTE_F32));
    log_probabilities(b, &t, half);
    CHECK(memcmp(full, half, (ROWS - PROMPT) * sizeof *full) == 0);
    model_release(a);
    model_release(b);
  }
  test_compute = COMPUTE_F32;
  tape_free(&t);
}

TEST(out_of_memory_leaves_the_mode_as_it_was) {
  Model *m = small_model(tiny_llama, NULL, 3);
  real full[ROWS], half[ROWS];
  Status s = GRPO_ENOMEM;
  int attempts = 0;
  Tape t;
  OK(tape_init(&t, NULL));
  log_probabilities(m, &t, full);
  const uint64_t version = model_version(m);
  for (; s == GRPO_ENOMEM; attempts++) {
    mem_fail_after((uint64_t)attempts + 1);
    s = model_set_compute(m, COMPUTE_BF16);
    mem_fail_after(0);
    if (s == GRPO_OK) break;
    CHECK(model_compute(m) == COMPUTE_F32 && model_version(m) == version);
    log_probabilities(m, &t, half);
    CHECK(memcmp(full, half, (ROWS - PROMPT) * sizeof *full) == 0);
  }
  CHECK(s == GRPO_OK && attempts > 0);
  CHECK(model_compute(m) == COMPUTE_BF16 && model_version(m) > version);
  log_probabilities(m, &t, half);
  CHECK(memcmp(full, half, (ROWS - PROMPT) * sizeof *full) != 0);
  tape_free(&t);
  model_release(m);
}

TEST(copies_and_views_compute_in_the_same_precision) {
  test_compute = COMPUTE_BF16;
  Model *m = small_model(tiny_llama, NULL, 3), *copy, *view;
  test_compute = COMPUTE_F32;
  OK(model_copy(&copy, m));
  CHECK(model_compute(copy) == COMPUTE_BF16);
  OK(resize_vocab(copy, 128));
  CHECK(model_compute(copy) == COMPUTE_BF16 && copy->t[M_HEAD]->prepared);
  OK(model_view(&view, copy));
  CHECK(model_compute(view) == COMPUTE_BF16);
  REFUSED(model_set_compute(copy, COMPUTE_F32), GRPO_EARG, "shared");
  REFUSED(model_set_compute(view, COMPUTE_F32), GRPO_EARG, "shared");
  model_release(view);
  model_release(copy);
  model_release(m);
}

TEST(panels_in_bf16_take_half) {
  Model *a = small_model(tiny_gpt2, NULL, 3), *b = small_model(tiny_gpt2, NULL, 3);
  OK(model_set_compute(b, COMPUTE_BF16));
  const size_t full = a->panels.bytes, half = b->panels.bytes;
  CHECK(half > 0 && half <= full / 2 + 64 * (size_t)model_num_params(a));
  model_release(a);
  model_release(b);
}
