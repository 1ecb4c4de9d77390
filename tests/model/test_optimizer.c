/* AdamW: the oracle's trajectories; every optimizer's file, memory and progress. */
#include "base/mem.h"
#include "kern/elementwise.h"
#include "model/lora.h"
#include "model/model_copy.h"
#include "model/model_struct.h"
#include "model/modeltest.h"
#include "model/optimizer.h"

static double norm_of(Optimizer *o, const Ctx *cx) {
  double norm = -1;
  OK(optimizer_grad_norm(o, cx, &norm));
  return norm;
}

/* A bag of parameters; the optimizer needs no more of a model. */
typedef struct Bag {
  Model m;
  Param param[3];
} Bag;

static const char *const bag_names[] = {"w", "b", "emb"};

static bool listed(const Json *list, const char *name) {
  for (const Json *j = json_child(list); j; j = json_next(j))
    if (strcmp(json_string(j), name) == 0) return true;
  return false;
}

static void bag_init(Bag *b, const Safetensors *f, const char *name, const Json *no_decay) {
  *b = (Bag){.m = {.nparams = 3, .param = b->param, .trainable = true}};
  for (int i = 0; i < 3; i++) {
    const StTensor *t = safetensors_find(f, test_path("%s/param0/%s", name, bag_names[i]));
    const int dim[] = {(int)t->dim[0], (int)t->dim[1]};
    Param *p = &b->param[i];
    p->name = bag_names[i];
    p->trainable = true;
    p->is_bias = listed(no_decay, p->name);
    p->t = tensor_view(malloc(t->n * sizeof(real)), t->ndim, dim);
    p->t.grad = malloc(t->n * sizeof(real));
    st_read(t, 0, t->n, p->t.data);
  }
}

static void bag_free(Bag *b) {
  for (int i = 0; i < 3; i++) free(b->param[i].t.data), free(b->param[i].t.grad);
}

static void read_gradients(Bag *b, const Safetensors *f, const char *name, int step) {
  for (int i = 0; i < 3; i++) {
    const StTensor *t = safetensors_find(f, test_path("%s/grad%d/%s", name, step, bag_names[i]));
    CHECK(t != NULL);
    if (t) st_read(t, 0, t->n, b->param[i].t.grad);
  }
}

static void check_values(const Safetensors *f, const char *path, const real *x) {
  const StTensor *t = safetensors_find(f, path);
  real want[64];
  CHECK(t && t->n <= 64);
  if (!t) return;
  st_read(t, 0, t->n, want);
  const double d = worst_difference(x, want, t->n), scale = largest_of(want, t->n);
  if (!(d <= 1e-5 * scale)) test_fail(__FILE__, __LINE__, "%s differs by %g", path, d);
}

static double l2_of(const Bag *b) {
  double sum = 0;
  for (int i = 0; i < 3; i++) sum += vec_sumsq(&(Ctx){0}, b->param[i].t.n, b->param[i].t.data);
  return sqrt(sum);
}

static double at(const Json *list, int i) {
  const Json *j = json_child(list);
  while (i-- > 0) j = json_next(j);
  return json_number(j);
}

static void check_moments(const Safetensors *f, const char *name, const Optimizer *o) {
  const char *path = test_path("%s/moments.safetensors", test_tmp());
  Safetensors saved;
  OK(optimizer_save(o, path));
  REQUIRE(safetensors_open(&saved, path));
  for (int i = 0; i < 6; i++) {
    const char *moment = i % 2 ? "exp_avg_sq" : "exp_avg", *param = bag_names[i / 2];
    const StTensor *t = safetensors_find(&saved, test_path("%s.%s", param, moment));
    real x[64];
    CHECK(t != NULL);
    if (!t) continue;
    st_read(t, 0, t->n, x);
    check_values(f, test_path("%s/%s_final/%s", name, moment, param), x);
  }
  safetensors_close(&saved);
}

static void check_case(const Json *c, const Safetensors *f) {
  const char *name = json_string(json_get(c, "name"));
  const Json *betas = json_get(c, "betas"), *max = json_get(c, "max_grad_norm");
  const double max_norm = max && json_type(max) == JSON_NUMBER ? json_number(max) : 0;
  const Ctx cx = {0};
  Bag b;
  Optimizer *o;
  OptimizerOptions options;
  bag_init(&b, f, name, json_get(c, "no_decay"));
  optimizer_options_init(&options);
  options.adamw.beta1 = at(betas, 0), options.adamw.beta2 = at(betas, 1);
  options.adamw.eps = json_number(json_get(c, "eps"));
  options.adamw.weight_decay = json_number(json_get(c, "weight_decay"));
  REQUIRE(optimizer_new(&o, &b.m, &options));
  const int steps = (int)json_number(json_get(c, "steps"));
  for (int k = 0; k < steps; k++) {
    read_gradients(&b, f, name, k);
    const double norm = norm_of(o, &cx);
    CHECK_NEAR(norm, at(json_get(c, "grad_norms"), k), 1e-5 * norm);
    OK(optimizer_step(o, &cx, at(json_get(c, "lrs"), k), max_norm, norm));
    for (int i = 0; i < 3; i++)
      check_values(f, test_path("%s/param%d/%s", name, k + 1, bag_names[i]), b.param[i].t.data);
    CHECK_NEAR(l2_of(&b), at(json_get(c, "param_l2"), k), 1e-5 * l2_of(&b));
  }
  CHECK(optimizer_steps(o) == (uint64_t)steps && steps > 3);
  check_moments(f, name, o);
  optimizer_free(o);
  bag_free(&b);
}

TEST(adamw_follows_the_reference_s_trajectories) {
  NEEDS_ORACLES;
  Json *j = NULL;
  Safetensors f;
  REQUIRE(json_read_file(test_path("%s/oracles/optim/adamw.json", test_shared()), 0, &j));
  REQUIRE(safetensors_open(&f, test_path("%s/oracles/optim/adamw.safetensors", test_shared())));
  CHECK(json_count(j) == 3);
  for (const Json *c = json_child(j); c; c = json_next(c)) check_case(c, &f);
  safetensors_close(&f);
  json_free(j);
}

/* ---- a model's optimizer ----------------------------------------------------------------- */

static void some_steps(Optimizer *o, Model *m, int from, int to) {
  const Ctx cx = {.pool = m->pool};
  for (int k = from; k < to; k++) {
    random_gradients(m, (uint64_t)k);
    OK(optimizer_step(o, &cx, 1e-3, 1, norm_of(o, &cx)));
  }
}

static const OptimizerKind kinds[] = {OPTIMIZER_ADAMW, OPTIMIZER_ADAMW_8BIT, OPTIMIZER_LION};
enum { KINDS = 3 };

static void check_resume(OptimizerKind kind) {
  const char *path = test_path("%s/optimizer.safetensors", test_tmp());
  OptimizerOptions options;
  Optimizer *a, *b;
  Pool *pool;
  optimizer_options_init(&options);
  options.kind = kind;
  options.adamw.weight_decay = 0.1;
  REQUIRE(pool_new(&pool, 2));
  Model *m = small_model(tiny_gpt2, NULL, 1), *n = small_model(tiny_gpt2, pool, 2);
  OK(model_set_trainable(m, true));
  OK(model_set_trainable(n, true));
  REQUIRE(optimizer_new(&a, m, &options));
  REQUIRE(optimizer_new(&b, n, &options));
  some_steps(a, m, 0, 3);
  OK(optimizer_save(a, path));
  OK(model_copy_weights(n, m));
  OK(optimizer_load(b, path));
  CHECK(optimizer_steps(b) == 3);
  some_steps(a, m, 3, 6);
  some_steps(b, n, 3, 6);
  CHECK(same_weights(m, n));
  optimizer_free(a);
  optimizer_free(b);
  model_release(m);
  model_release(n);
  pool_free(pool);
}

TEST(the_parameter_with_the_largest_gradient_is_known) {
  const Ctx cx = {0};
  OptimizerOptions options;
  Optimizer *o;
  optimizer_options_init(&options);
  Model *m = small_model(tiny_gpt2, NULL, 1);
  OK(model_set_trainable(m, true));
  REQUIRE(optimizer_new(&o, m, &options));
  CHECK(optimizer_largest_gradient(o) == NULL);
  int count = 0;
  Param *p;
  for (int at = 0; (p = model_next_trainable(m, &at)); count++) {
    random_gradients(m, 1);
    p->t.grad[0] = 1000;
    double norm;
    OK(optimizer_grad_norm(o, &cx, &norm));
    CHECK(norm > 1000);
    CHECK_STR(optimizer_largest_gradient(o), p->name);
  }
  CHECK(count > 10);
  optimizer_free(o);
  model_release(m);
}

TEST(saved_moments_continue_exactly_with_any_number_of_threads) {
  for (int k = 0; k < KINDS; k++) check_resume(kinds[k]);
}

static void check_decay(OptimizerKind kind) {
  OptimizerOptions options;
  Optimizer *o;
  Model *m = small_model(tiny_gpt2, NULL, 1), *before;
  OK(model_copy(&before, m));
  OK(model_set_trainable(m, true));
  optimizer_options_init(&options);
  options.kind = kind;
  options.adamw.weight_decay = 0.5;
  REQUIRE(optimizer_new(&o, m, &options));
  OK(optimizer_step(o, &(Ctx){0}, 0.1, 0, 0)); /* gradients are zero: only decay acts */
  for (int i = 0; i < model_num_params(m); i++) {
    const Param *p = model_param(m, i);
    const real was = model_param(before, i)->t.data[3], is = p->t.data[3];
    CHECK_NEAR(is, was * (p->is_bias || p->is_norm ? 1.0f : 0.95f), 1e-6);
    const bool weight = strstr(p->name, ".weight"), norm = strstr(p->name, "ln_");
    CHECK(p->is_bias == !weight && p->is_norm == norm);
  }
  optimizer_free(o);
  model_release(m);
  model_release(before);
}

TEST(decay_spares_biases_and_norms) {
  for (int k = 0; k < KINDS; k++) check_decay(kinds[k]);
}

/* Elements of a tensor of the file, of which there must be `type`; -1: it is not there. */
static int64_t elements_of(const Safetensors *f, const char *name, StType type) {
  const StTensor *t = safetensors_find(f, name);
  if (!t) return -1;
  CHECK(t->type == type);
  return (int64_t)t->n;
}

TEST(only_large_tensors_have_moments_in_8_bits) {
  const char *path = test_path("%s/eight.safetensors", test_tmp());
  OptimizerOptions options;
  Optimizer *o;
  Safetensors f;
  Model *m = small_model(tiny_gpt2, NULL, 1);
  OK(model_set_trainable(m, true));
  optimizer_options_init(&options);
  options.kind = OPTIMIZER_ADAMW_8BIT;
  REQUIRE(optimizer_new(&o, m, &options));
  OK(optimizer_save(o, path));
  REQUIRE(safetensors_open(&f, path));
  CHECK(!strcmp(safetensors_metadata(&f, "optimizer"), "adamw_8bit"));
  CHECK(elements_of(&f, "transformer.wte.weight.exp_avg", ST_U8) == 97 * 48);
  CHECK(elements_of(&f, "transformer.wte.weight.exp_avg_sq.absmax", ST_F32) ==
        (97 * 48 + 255) / 256);
  CHECK(elements_of(&f, "transformer.wpe.weight.exp_avg", ST_F32) ==
        80 * 48); /* fewer than 4,096 */
  CHECK(elements_of(&f, "transformer.wpe.weight.exp_avg.absmax", ST_F32) == -1);
  safetensors_close(&f);
  optimizer_free(o);
  model_release(m);
}

/* Bytes that each kind's optimizer takes, as it is measured before. */
static void measure(Model *m, size_t *bytes) {
  OK(model_set_trainable(m, true));
  for (int k = 0; k < KINDS; k++) {
    size_t measured = 0;
    for (int taken = 0; taken < 2; taken++) {
      OptimizerOptions options;
      Optimizer *o;
      optimizer_options_init(&options);
      options.kind = kinds[k];
      if (!taken) mem_measure_begin();
      const size_t before = mem_live_bytes();
      REQUIRE(optimizer_new(&o, m, &options));
      *(taken ? &bytes[k] : &measured) = mem_live_bytes() - before;
      optimizer_free(o);
      if (!taken) mem_measure_end();
    }
    if (measured + 256 < bytes[k] || bytes[k] + 4096 < measured)
      test_fail(__FILE__, __LINE__, "kind %d: took %zu, measured %zu", k, bytes[k], measured);
  }
}

TEST(memory_is_what_is_measured) {
  Model *m = small_model(tiny_gpt2, NULL, 1);
  size_t bytes[KINDS];
  measure(m, bytes);
  CHECK(bytes[1] < bytes[0] / 2 && bytes[2] < bytes[0] * 6 / 10);
  model_release(m);
  m = small_model(tiny_llama, NULL, 1); /* of whose adapter only some matrices are large */
  static const char *const targets[] = {"all-linear"};
  const LoraOptions lora = {.rank = 64, .alpha = 16, .ntargets = 1, .targets = targets};
  OK(lora_add(m, &lora, 1));
  measure(m, bytes);
  CHECK(bytes[1] < bytes[0] * 8 / 10);
  model_release(m);
}

/* Least squares towards the weights of another model: the gradient is the difference. */
static double distance_to(Model *m, Model *aim) {
  double sum = 0;
  for (int i = 0; i < model_num_params(m); i++) {
    Param *p = model_param(m, i);
    const real *want = model_param(aim, i)->t.data;
    for (size_t k = 0; k < p->t.n; k++) {
      p->t.grad[k] = p->t.data[k] - want[k];
      sum += (double)p->t.grad[k] * (double)p->t.grad[k];
    }
  }
  return sum;
}

TEST(every_optimizer_converges) {
  for (int k = 0; k < KINDS; k++) {
    Model *m = small_model(tiny_gpt2, NULL, 1), *aim = small_model(tiny_gpt2, NULL, 2);
    OptimizerOptions options;
    Optimizer *o;
    OK(model_set_trainable(m, true));
    optimizer_options_init(&options);
    options.kind = kinds[k];
    REQUIRE(optimizer_new(&o, m, &options));
    const double before = distance_to(m, aim);
    for (int step = 0; step < 200; step++) {
      distance_to(m, aim);
      OK(optimizer_step(o, &(Ctx){0}, 2e-2 * (1 - step / 200.0), 0, 0));
    }
    CHECK_NEAR(distance_to(m, aim) / before, 0, 1e-3);
    optimizer_free(o);
    model_release(m);
    model_release(aim);
  }
}

TEST(the_state_of_another_optimizer_is_refused) {
  const char *path = test_path("%s/lion.safetensors", test_tmp());
  OptimizerOptions options;
  Optimizer *lion, *adamw;
  Model *m = small_model(tiny_gpt2, NULL, 1);
  OK(model_set_trainable(m, true));
  optimizer_options_init(&options);
  REQUIRE(optimizer_new(&adamw, m, &options));
  options.kind = OPTIMIZER_LION;
  REQUIRE(optimizer_new(&lion, m, &options));
  some_steps(lion, m, 0, 2);
  OK(optimizer_save(lion, path));
  REFUSED(optimizer_load(adamw, path), GRPO_EFORMAT, "the optimizer lion, but");
  OK(optimizer_save(adamw, path));
  REFUSED(optimizer_load(lion, path), GRPO_EFORMAT, "optimizer adamw, but train.optimizer.name is");
  CHECK(optimizer_steps(adamw) == 0 && optimizer_steps(lion) == 2);
  optimizer_free(lion);
  optimizer_free(adamw);
  model_release(m);
}

TEST(a_foreign_optimizer_file_is_refused_and_changes_nothing) {
  const char *path = test_path("%s/foreign.safetensors", test_tmp());
  OptimizerOptions options;
  Optimizer *a, *b;
  optimizer_options_init(&options);
  Model *m = small_model(tiny_gpt2, NULL, 1), *n = small_model(tiny_llama, NULL, 2);
  OK(model_set_trainable(m, true));
  OK(model_set_trainable(n, true));
  REQUIRE(optimizer_new(&a, m, &options));
  REQUIRE(optimizer_new(&b, n, &options));
  some_steps(a, m, 0, 2);
  OK(optimizer_save(a, path));
  REFUSED(optimizer_load(b, path), GRPO_EFORMAT, "model.embed_tokens.weight.exp_avg' is missing");
  CHECK(optimizer_steps(b) == 0);
  const char *weights = test_path("%s/weights.safetensors", test_tmp());
  const StEntry entry = {.name = "weight", .type = ST_F32, .ndim = 1, .dim = {1}};
  StWriter *w;
  REQUIRE(st_writer_open(&w, weights, 1, &entry, NULL));
  OK(st_writer_put(w, (float[]){1}, 1));
  REQUIRE(st_writer_commit(w));
  REFUSED(optimizer_load(a, weights), GRPO_EFORMAT, "no step count");
  CHECK(optimizer_steps(a) == 2);
  REFUSED(optimizer_load(a, "/nowhere"), GRPO_ENOENT, "/nowhere");
  OK(model_set_trainable(n, false));
  REFUSED(optimizer_step(b, &(Ctx){0}, 1, 1, 1), GRPO_EARG, "frozen");
  optimizer_free(a);
  optimizer_free(b);
  model_release(m);
  model_release(n);
}
