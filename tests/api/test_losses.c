/* Losses and advantages on arrays; tensors, their operations and AdamW. */
#include "host.h"

/* ---- losses on arrays ------------------------------------------------------------- */

enum { N = 5, VOCAB = 4 };
static const float logp[N] = {-1.f, -.5f, -2.f, -.2f, -1.5f},
                   old[N] = {-1.1f, -.9f, -1.8f, -.2f, -1.f};
static const float advantage[N] = {1, 1, 1, -1, -1};
static const int32_t lengths[] = {3, 2}, targets[N] = {0, 3, 1, 2, 2};

static grpo_loss_batch batch_of(const float *old_logp) {
  grpo_loss_batch b;
  OK(NULL, grpo_loss_batch_init(&b, sizeof b));
  b.count = N;
  b.sequences = 2;
  b.lengths = lengths;
  b.advantage = advantage;
  b.old_logp = old_logp;
  return b;
}

TEST(the_grpo_loss_is_its_formula) {
  grpo_context *c = NULL;
  const grpo_loss_batch b = batch_of(old);
  double value = 0, want = 0;
  float d[N];
  OK(NULL, grpo_context_new(NULL, &c));
  OK(c, grpo_policy_loss(c, NULL, &b, logp, NULL, &value, d, NULL));
  for (int i = 0; i < N; i++) { /* mean over tokens of a sequence, then over the two sequences */
    const double r = exp((double)logp[i] - (double)old[i]), a = (double)advantage[i];
    const double clipped = fmin(fmax(r, 0.8), 1.2), share = 1.0 / (2 * lengths[i >= 3]);
    want -= share * fmin(r * a, clipped * a);
    CHECK_NEAR(d[i], r * a <= clipped * a ? -share * r * a : 0, 1e-6);
  }
  CHECK_NEAR(value, want, 1e-6);
  grpo_context_free(c);
}

static double loss_at(grpo_context *c, const grpo_loss_options *o, const float *logits) {
  const grpo_loss_batch b = batch_of(old);
  double value = NAN;
  OK(c, grpo_policy_loss_from_logits(c, o, &b, logits, VOCAB, targets, 0.7, &value, NULL));
  return value;
}

TEST(without_options_a_loss_is_grpo_by_any_door) {
  grpo_context *c = NULL;
  grpo_loss_options o;
  float logits[N * VOCAB];
  OK(NULL, grpo_context_new(NULL, &c));
  OK(c, grpo_loss_options_init(&o, sizeof o));
  for (int i = 0; i < N * VOCAB; i++) logits[i] = (float)sin(1.7 * i);
  const double initial = loss_at(c, &o, logits), null = loss_at(c, NULL, logits);
  o.loss = "grpo";
  CHECK(null == initial && null == loss_at(c, &o, logits));
  o.loss = "dapo";
  CHECK(null != loss_at(c, &o, logits));
  grpo_context_free(c);
}

TEST(gradients_of_logits_agree_with_differences) {
  static const char *const names[] = {NULL, "grpo", "dapo", "dr_grpo", "gspo", "rloo"};
  grpo_context *c = NULL;
  OK(NULL, grpo_context_new(NULL, &c));
  for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
    float logits[N * VOCAB], d[N * VOCAB];
    grpo_loss_options o;
    grpo_loss_batch b = batch_of(old);
    double value;
    OK(c, grpo_loss_options_init(&o, sizeof o));
    o.loss = names[k];
    o.clip = o.clip_high = 0.5;
    o.entropy = 0.01;
    for (int i = 0; i < N * VOCAB; i++) logits[i] = (float)sin(1.7 * i);
    OK(c, grpo_policy_loss_from_logits(c, &o, &b, logits, VOCAB, targets, 0.7, &value, d));
    for (int i = 0; i < N * VOCAB; i++) {
      const float at = logits[i];
      logits[i] = at + 1e-2f;
      const double up = loss_at(c, &o, logits);
      logits[i] = at - 1e-2f;
      const double down = loss_at(c, &o, logits);
      logits[i] = at;
      CHECK_NEAR(d[i], (up - down) / 2e-2, 2e-3);
    }
  }
  grpo_context_free(c);
}

TEST(wrong_losses_are_refused) {
  grpo_context *c = NULL;
  grpo_loss_options o;
  grpo_loss_batch b = batch_of(old);
  float x[N * VOCAB] = {0}, d[N];
  double value = 0;
  OK(NULL, grpo_context_new(NULL, &c));
  OK(c, grpo_loss_options_init(&o, sizeof o));
  o.loss = "gpro";
  REFUSED(c, GRPO_EARG, "gpro", grpo_policy_loss(c, &o, &b, logp, NULL, &value, d, NULL));
  o.loss = "grpo";
  o.clip = -1;
  REFUSED(c, GRPO_EARG, "train.clip", grpo_policy_loss(c, &o, &b, logp, NULL, &value, d, NULL));
  o.clip = NAN;
  o.kl = 0.1;
  REFUSED(c, GRPO_EARG, "ref_logp", grpo_policy_loss(c, &o, &b, logp, NULL, &value, d, NULL));
  o.kl_estimator = "k1";
  REFUSED(c, GRPO_EARG, "k1", grpo_policy_loss(c, &o, &b, logp, NULL, &value, d, NULL));
  o.kl = 0;
  o.entropy = 1;
  REFUSED(c, GRPO_EARG, "entrop", grpo_policy_loss(c, &o, &b, logp, NULL, &value, d, NULL));
  REFUSED(c, GRPO_EARG, "entropy", grpo_policy_loss(c, &o, &b, logp, NULL, &value, d, d));
  o.entropy = 0;
  o.mask_truncated = 1;
  REFUSED(c, GRPO_EARG, "trainer", grpo_policy_loss(c, &o, &b, logp, NULL, &value, d, NULL));
  REFUSED(c, GRPO_EARG, "batch", grpo_policy_loss(c, NULL, NULL, logp, NULL, &value, d, NULL));
  REFUSED(c, GRPO_EARG, "logp", grpo_policy_loss(c, NULL, &b, NULL, NULL, &value, d, NULL));
  REFUSED(c, GRPO_EARG, "value", grpo_policy_loss(c, NULL, &b, logp, NULL, NULL, d, NULL));
  b.advantage = NULL;
  REFUSED(c, GRPO_EARG, "advantages", grpo_policy_loss(c, NULL, &b, logp, NULL, &value, d, NULL));
  b = batch_of(old);
  b.count = N + 1;
  REFUSED(c, GRPO_ESHAPE, "add up", grpo_policy_loss(c, NULL, &b, logp, NULL, &value, d, NULL));
  b.lengths = NULL;
  REFUSED(c, GRPO_EARG, "lengths", grpo_policy_loss(c, NULL, &b, logp, NULL, &value, d, NULL));
  b = batch_of(old);
  REFUSED(c, GRPO_EARG, "vocabulary",
          grpo_policy_loss_from_logits(c, NULL, &b, x, 3, targets, 1, &value, NULL));
  REFUSED(c, GRPO_EARG, "temperature",
          grpo_policy_loss_from_logits(c, NULL, &b, x, VOCAB, targets, 0, &value, NULL));
  REFUSED(c, GRPO_EARG, "targets",
          grpo_policy_loss_from_logits(c, NULL, &b, x, VOCAB, NULL, 1, &value, NULL));
  grpo_context_free(c);
}

TEST(advantages_are_those_of_the_paper) {
  grpo_context *c = NULL;
  grpo_advantage_options o;
  const double rewards[] = {1, 0, 0, 1, 5, 5};
  double a[6], total[6];
  OK(NULL, grpo_context_new(NULL, &c));
  OK(c, grpo_advantage_options_init(&o, sizeof o));
  o.group = 2;
  OK(c, grpo_advantages(c, &o, 6, rewards, total, a));
  const double unit = 0.5 / (sqrt(0.5) + 1e-4);
  CHECK_NEAR(a[0], unit, 1e-12);
  CHECK_NEAR(a[1], -unit, 1e-12);
  CHECK(a[4] == 0 && a[5] == 0 && total[5] == 5);
  REFUSED(c, GRPO_ESHAPE, "groups of 2", grpo_advantages(c, &o, 5, rewards, total, a));
  o.scale = "groups";
  REFUSED(c, GRPO_EARG, "group|batch|none", grpo_advantages(c, &o, 6, rewards, total, a));
  o.scale = NULL;
  REFUSED(c, GRPO_EARG, "rewards", grpo_advantages(c, &o, 6, NULL, total, a));
  REFUSED(c, GRPO_EARG, "infinite", grpo_advantages(c, &o, 2, (double[]){1, INFINITY}, total, a));
  o.clip_low = 1, o.clip_high = -1;
  REFUSED(c, GRPO_EARG, "clip_low is 1, above clip_high",
          grpo_advantages(c, &o, 6, rewards, total, a));
  grpo_context_free(c);
}

/* ---- tensors ---------------------------------------------------------------------- */

static grpo_tensor *tensor(grpo_context *c, int rows, int columns, double scale, int grad) {
  grpo_tensor *t = NULL;
  OK(c, grpo_tensor_randn(c, 2, (int32_t[]){rows, columns}, scale, (uint64_t)rows * 100 + 1, grad,
                          &t));
  return t;
}

TEST(the_loss_as_an_operation_is_the_loss_on_arrays) {
  grpo_context *c = NULL;
  grpo_tensor *x = NULL, *loss = NULL;
  float *data = NULL, d[N * VOCAB];
  const float *grad = NULL;
  double value = 0;
  const grpo_loss_batch b = batch_of(NULL);
  OK(NULL, grpo_context_new(NULL, &c));
  x = tensor(c, N, VOCAB, 1, 1);
  OK(c, grpo_tensor_policy_loss(x, targets, NULL, &b, 1, &loss));
  OK(c, grpo_tensor_data(x, &data, NULL));
  OK(c, grpo_policy_loss_from_logits(c, NULL, &b, data, VOCAB, targets, 1, &value, d));
  OK(c, grpo_tensor_backward(loss));
  OK(c, grpo_tensor_grad(x, &grad, NULL));
  CHECK(grad && memcmp(grad, d, sizeof d) == 0);
  OK(c, grpo_tensor_data(loss, &data, NULL));
  CHECK((double)data[0] == value);
  REFUSED(c, GRPO_EARG, "freed", grpo_tensor_backward(loss));
  grpo_tensor_free(x), grpo_tensor_free(loss), grpo_tensor_free(NULL);
  grpo_context_free(c);
}

TEST(cross_entropy_leaves_negative_targets_out) {
  grpo_context *c = NULL;
  grpo_tensor *x = NULL, *loss = NULL;
  const float logits[] = {0, 0, 1, 3}; /* two rows of two */
  float *v = NULL;
  const float *grad = NULL;
  OK(NULL, grpo_context_new(NULL, &c));
  OK(c, grpo_tensor_new(c, 2, (int32_t[]){2, 2}, logits, 1, &x));
  OK(c, grpo_tensor_cross_entropy(x, (int32_t[]){-1, 0}, 0, &loss));
  OK(c, grpo_tensor_data(loss, &v, NULL));
  CHECK_NEAR(v[0], log(1 + exp(2)), 1e-6);
  OK(c, grpo_tensor_backward(loss));
  OK(c, grpo_tensor_grad(x, &grad, NULL));
  CHECK(grad[0] == 0 && grad[1] == 0);
  CHECK_NEAR(grad[2], 1 / (1 + exp(2)) - 1, 1e-6);
  REFUSED(c, GRPO_EARG, "vocabulary", grpo_tensor_cross_entropy(x, (int32_t[]){2, 0}, 0, &loss));
  REFUSED(c, GRPO_EARG, "normalizer", grpo_tensor_cross_entropy(x, (int32_t[]){1, 0}, -1, &loss));
  grpo_tensor_free(x), grpo_tensor_free(loss);
  grpo_context_free(c);
}

TEST(adamw_takes_its_first_step_of_lr_against_the_sign) {
  grpo_context *c = NULL;
  grpo_tensor *x = NULL, *sum = NULL, *square = NULL;
  grpo_adamw *a = NULL;
  float *v = NULL;
  double norm = 0;
  OK(NULL, grpo_context_new(NULL, &c));
  OK(c, grpo_tensor_new(c, 1, (int32_t[]){2}, (float[]){3, -4}, 1, &x));
  OK(c, grpo_adamw_new(c, 1, &x, NULL, &a));
  OK(c, grpo_tensor_apply(c, "mul", 2, (grpo_tensor *[]){x, x}, 0, NULL, &square));
  OK(c, grpo_tensor_apply(c, "sum", 1, &square, 0, NULL, &sum));
  OK(c, grpo_tensor_backward(sum));
  OK(c, grpo_adamw_step(a, 0.5, 0, &norm));
  CHECK_NEAR(norm, 10, 1e-5);
  OK(c, grpo_tensor_data(x, &v, NULL));
  CHECK_NEAR(v[0], 2.5, 1e-5);
  CHECK_NEAR(v[1], -3.5, 1e-5);
  OK(c, grpo_adamw_step(a, 0.5, 0, &norm)); /* gradients are used up */
  CHECK(norm == 0 && v[0] == 2.5f);
  REFUSED(c, GRPO_EARG, "learning rate", grpo_adamw_step(a, NAN, 0, NULL));
  REFUSED(c, GRPO_EARG, "max_grad_norm", grpo_adamw_step(a, 0, -1, NULL));
  grpo_adamw_options o;
  grpo_adamw *other = NULL;
  OK(c, grpo_adamw_options_init(&o, sizeof o));
  o.beta1 = 1;
  REFUSED(c, GRPO_EARG, "beta1", grpo_adamw_new(c, 1, &x, &o, &other));
  grpo_tensor *fixed = tensor(c, 1, 1, 1, 0);
  REFUSED(c, GRPO_EARG, "gradient", grpo_adamw_new(c, 1, &fixed, NULL, &other));
  grpo_tensor_free(fixed);
  REFUSED(c, GRPO_EARG, "0 tensors", grpo_adamw_new(c, 0, &x, NULL, &other));
  grpo_adamw_free(a), grpo_adamw_free(NULL);
  grpo_tensor_free(x), grpo_tensor_free(sum), grpo_tensor_free(square);
  grpo_context_free(c);
}

TEST(layers_are_checked_and_attention_is_causal) {
  grpo_context *c = NULL, *other = NULL;
  grpo_tensor *out = NULL, *out2 = NULL;
  float *y = NULL, *z = NULL, *qd = NULL;
  int32_t ndim = 0, shape[4];
  OK(NULL, grpo_context_new(NULL, &c));
  OK(NULL, grpo_context_new(NULL, &other));
  grpo_tensor *q = tensor(c, 4, 8, 1, 0), *k = tensor(c, 4, 8, 2, 0), *v = tensor(c, 4, 8, 3, 0);
  grpo_tensor *w = tensor(c, 3, 8, 1, 0), *far = tensor(other, 4, 8, 1, 0);
  OK(c, grpo_tensor_attention(q, k, v, 2, 2, (int32_t[]){4}, 1, &out));
  OK(c, grpo_tensor_data(k, &qd, NULL));
  qd[3 * 8] += 5; /* the last key: only the last row may see it */
  OK(c, grpo_tensor_attention(q, k, v, 2, 2, (int32_t[]){4}, 1, &out2));
  OK(c, grpo_tensor_data(out, &y, NULL));
  OK(c, grpo_tensor_data(out2, &z, NULL));
  CHECK(memcmp(y, z, 24 * sizeof *y) == 0 && memcmp(y + 24, z + 24, 8 * sizeof *y) != 0);
  grpo_tensor_free(out), grpo_tensor_free(out2);
  OK(c, grpo_tensor_linear(q, w, NULL, &out));
  OK(c, grpo_tensor_shape(out, &ndim, shape));
  CHECK(ndim == 2 && shape[0] == 4 && shape[1] == 3);
  grpo_tensor_free(out);
  REFUSED(c, GRPO_ESHAPE, "cover 3", grpo_tensor_attention(q, k, v, 2, 2, (int32_t[]){3}, 1, &out));
  REFUSED(c, GRPO_ESHAPE, "heads", grpo_tensor_attention(q, k, v, 3, 3, (int32_t[]){4}, 1, &out));
  REFUSED(c, GRPO_EARG, "different", grpo_tensor_attention(q, q, v, 2, 2, (int32_t[]){4}, 1, &out));
  REFUSED(c, GRPO_EARG, "NULL", grpo_tensor_attention(q, NULL, v, 2, 2, (int32_t[]){4}, 1, &out));
  REFUSED(c, GRPO_EARG, "context", grpo_tensor_linear(q, far, NULL, &out));
  grpo_tensor *narrow = tensor(c, 2, 5, 1, 0);
  REFUSED(c, GRPO_ESHAPE, "linear", grpo_tensor_linear(w, narrow, NULL, &out));
  grpo_tensor_free(narrow);
  REFUSED(c, GRPO_EARG, "layernorm", grpo_tensor_layernorm(q, w, w, -1, &out));
  REFUSED(c, GRPO_EARG, "outside", grpo_tensor_embedding(w, (int32_t[]){3}, 1, NULL, NULL, &out));
  REFUSED(c, GRPO_EARG, "positions", grpo_tensor_embedding(w, (int32_t[]){1}, 1, w, NULL, &out));
  grpo_tensor_free(q), grpo_tensor_free(k), grpo_tensor_free(v);
  grpo_tensor_free(w), grpo_tensor_free(far);
  grpo_context_free(c), grpo_context_free(other);
}

TEST(small_operations_take_their_arguments) {
  grpo_context *c = NULL;
  grpo_tensor *out = NULL;
  int32_t ndim = 0, shape[4];
  OK(NULL, grpo_context_new(NULL, &c));
  grpo_tensor *x = tensor(c, 4, 6, 1, 1), *y = tensor(c, 6, 2, 1, 0), *pair[] = {x, y};
  const struct {
    const char *name;
    size_t inputs, nargs;
    double args[4];
    int ndim, first, last;
  } rows[] = {{"matmul", 2, 0, {0}, 2, 4, 2},       {"sum", 1, 0, {0}, 0, 0, 0},
              {"sum", 1, 1, {0}, 1, 6, 6},          {"softmax", 1, 1, {1}, 2, 4, 6},
              {"transpose", 1, 2, {0, 1}, 2, 6, 4}, {"reshape", 1, 3, {2, -1, 3}, 3, 2, 3},
              {"narrow", 1, 3, {1, 2, 3}, 2, 4, 3}, {"clamp", 1, 2, {-1, 1}, 2, 4, 6},
              {"quantile", 1, 1, {0.5}, 0, 0, 0},   {"gelu", 1, 0, {0}, 2, 4, 6}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    OK(c,
       grpo_tensor_apply(c, rows[i].name, rows[i].inputs, pair, rows[i].nargs, rows[i].args, &out));
    OK(c, grpo_tensor_shape(out, &ndim, shape));
    CHECK(ndim == rows[i].ndim);
    if (ndim) CHECK(shape[0] == rows[i].first && shape[ndim - 1] == rows[i].last);
    grpo_tensor_free(out);
  }
  const double half = 0.5, far = 7;
  REFUSED(c, GRPO_EARG, "not one of", grpo_tensor_apply(c, "linear", 2, pair, 0, NULL, &out));
  REFUSED(c, GRPO_EARG, "not one of", grpo_tensor_apply(c, "nothing", 2, pair, 0, NULL, &out));
  REFUSED(c, GRPO_EARG, "inputs", grpo_tensor_apply(c, "add", 1, pair, 0, NULL, &out));
  REFUSED(c, GRPO_ESHAPE, "add", grpo_tensor_apply(c, "add", 2, pair, 0, NULL, &out));
  REFUSED(c, GRPO_EARG, "arguments", grpo_tensor_apply(c, "softmax", 1, pair, 0, NULL, &out));
  REFUSED(c, GRPO_EARG, "whole", grpo_tensor_apply(c, "softmax", 1, pair, 1, &half, &out));
  CHECK(grpo_tensor_apply(c, "softmax", 1, pair, 1, &far, &out) != GRPO_OK);
  CHECK(grpo_tensor_apply(c, "narrow", 1, pair, 3, (double[]){0, 3, 3}, &out) != GRPO_OK);
  REFUSED(c, GRPO_EARG, "NULL", grpo_tensor_apply(c, NULL, 1, pair, 0, NULL, &out));
  REFUSED(c, GRPO_EARG, "NULL", grpo_tensor_apply(c, "exp", 1, NULL, 0, NULL, &out));
  REFUSED(c, GRPO_ESHAPE, "dimensions", grpo_tensor_new(c, 5, shape, NULL, 0, &out));
  REFUSED(c, GRPO_ESHAPE, "shape[0]", grpo_tensor_new(c, 1, (int32_t[]){-1}, NULL, 0, &out));
  REFUSED(c, GRPO_ENOMEM, "elements",
          grpo_tensor_new(c, 3, (int32_t[]){1 << 30, 1 << 30, 1 << 30}, NULL, 0, &out));
  OK(c, grpo_set_recording(c, 0));
  OK(c, grpo_tensor_apply(c, "sum", 1, pair, 0, NULL, &out));
  REFUSED(c, GRPO_EARG, "gradient", grpo_tensor_backward(out));
  grpo_tensor_free(out), grpo_tensor_free(x), grpo_tensor_free(y);
  grpo_context_free(c);
}
