/* A value that is not finite: the step is not taken, and what came first is named. */
#include "grad/value.h"
#include "model/model_copy.h"
#include "model/model_struct.h"
#include "rl/nonfinite.h"
#include "rl/ppo.h"
#include "rl/sft.h"
#include "tiny.h"

typedef struct Setup {
  CriticKind critic;
  bool lora, checkpointing;
} Setup;

static void open_engine(Tiny *t, const Setup *s) {
  *t = (Tiny){0};
  tiny_options(&t->o);
  t->o.critic = s->critic;
  t->o.gradient_checkpointing = s->checkpointing;
  tiny_models(t, 1, NULL, true);
  if (s->lora) tiny_lora(t, 0);
  tiny_engine(t);
}

/* With an output projection of its own. */
static void open_untied(Tiny *t, Config c) {
  *t = (Tiny){0};
  c.tie_word_embeddings = false;
  tiny_options(&t->o);
  tiny_models(t, 1, &c, false);
  tiny_engine(t);
}

/* Sets one value of a parameter. */
static void spoil(Tiny *t, const char *name, size_t i, double value) {
  Param *p = model_find(t->model, name);
  CHECK(p != NULL);
  if (p->t.data) {
    p->t.data[i] = (real)value;
  } else {
    real *x = values_of(t->model, (int)(p - model_param(t->model, 0)));
    x[i] = (real)value;
    CHECK(!param_set(&t->engine->tape.cx, p, x));
    free(x);
  }
  model_updated(t->model);
  t->model->panels.stale = true; /* a frozen base too */
}

static bool says(const char *text) {
  if (strstr(err_message(), text)) return true;
  fprintf(stderr, "# \"%s\" is not in: %s\n", text, err_message());
  return false;
}

/* An update that must fail, and change nothing. */
static void diverges(Tiny *t, Batch *b, const UpdateOptions *o) {
  StepMetrics m;
  Model *before;
  char text[1024];
  CHECK(!model_copy(&before, t->model));
  CHECK(engine_update(t->engine, b, o, &m) == GRPO_EDIVERGED);
  snprintf(text, sizeof text, "%s", err_message());
  CHECK(same_weights(before, t->model));
  CHECK(optimizer_steps(t->engine->optimizer) == 0);
  CHECK(t->engine->tape.look == NULL);
  model_release(before);
  err_set_(GRPO_EDIVERGED, "", 0, "%s", text);
  CHECK(says("training diverged at step 5: ") && says("the weights were not changed; "));
}

static Batch *batch_of(Tiny *t, double *adv, UpdateOptions *o) {
  update_options_init(o, LOSS_grpo);
  o->step = 5;
  o->lr = 1e-2;
  return tiny_batch(t, 1, adv, o);
}

/* After sampling, a NaN appears in a weight. */
static void spoilt_weight(const Setup *s, const char *name, const char *operation) {
  double adv[64];
  UpdateOptions o;
  Tiny t;
  open_engine(&t, s);
  Batch *b = batch_of(&t, adv, &o);
  spoil(&t, name, 3, NAN);
  diverges(&t, b, &o);
  CHECK(says(operation) && says(name) && says("itself holds such values; "));
  CHECK(says("go back to a checkpoint"));
  tiny_close(&t);
}

TEST_BOTH(a_weight_that_is_not_finite_is_named) {
  const Setup plain = {0}, saving = {.checkpointing = true};
  static const char name[] = "model.layers.1.mlp.down_proj.weight";
  spoilt_weight(&plain, name, "the result of linear (model.layers.1.mlp.down_proj.weight)");
  spoilt_weight(&saving, name, "the result of linear (model.layers.1.mlp.down_proj.weight)");
  spoilt_weight(&plain, "model.layers.0.input_layernorm.weight", "the result of rmsnorm (");
  spoilt_weight(&plain, "model.layers.1.self_attn.v_proj.weight", "the result of linear (");
}

/* The product of gate and up overflows in a layer whose weights are all finite. */
TEST_BOTH(an_operation_without_weights_is_named_by_its_layer) {
  const Setup plain = {0};
  double adv[64];
  UpdateOptions o;
  Tiny t;
  open_engine(&t, &plain);
  Batch *b = batch_of(&t, adv, &o);
  for (size_t i = 0; i < 64; i++) { /* two channels: the gate of one of them is open */
    spoil(&t, "model.layers.1.mlp.gate_proj.weight", i, i < 32 ? 1e25 : -1e25);
    spoil(&t, "model.layers.1.mlp.up_proj.weight", i, 1e25);
  }
  diverges(&t, b, &o);
  CHECK(says("the first such value is the result of ") && says(" (model.layers.1) at prompt 1, "));
  tiny_close(&t);
}

TEST_BOTH(so_is_an_adapter_s) {
  const Setup lora = {.lora = true};
  spoilt_weight(&lora, "model.layers.1.mlp.down_proj.lora_A.weight", "the result of lora_linear (");
  spoilt_weight(&lora, "model.layers.0.self_attn.k_proj.weight", "the result of linear (");
}

/* A mixture's weights are not inputs of its operation. */
static void spoilt_mixture(const char *name) {
  Config c = tiny_config();
  double adv[64];
  UpdateOptions o;
  Tiny t = {0};
  c.family = FAMILY_QWEN3_MOE;
  c.num_experts = c.num_experts_per_tok = 3;
  c.moe_intermediate_size = 16;
  c.decoder_sparse_step = 1;
  tiny_options(&t.o);
  tiny_models(&t, 1, &c, true);
  tiny_engine(&t);
  Batch *b = batch_of(&t, adv, &o);
  spoil(&t, name, 3, NAN);
  diverges(&t, b, &o);
  CHECK(says(name) && says("itself holds such values; "));
  tiny_close(&t);
}

TEST_BOTH(so_are_a_router_s_and_an_expert_s) {
  spoilt_mixture("model.layers.1.mlp.gate.weight");
  spoilt_mixture("model.layers.1.mlp.experts.2.down_proj.weight");
  spoilt_mixture("model.layers.0.mlp.experts.1.up_proj.weight");
}

/* Is the token in one of the first `prompts` groups? */
static bool occurs(const Batch *b, int prompts, int32_t id) {
  int n;
  for (int p = 0; p < prompts; p++) {
    const int32_t *ids = batch_prompt(b, p, &n);
    for (int i = 0; i < n; i++)
      if (ids[i] == id) return true;
  }
  for (int k = 0; k < prompts * b->group; k++)
    for (int i = 0; i < b->completion[k].len; i++)
      if (b->completion[k].ids[i] == id) return true;
  return false;
}

/* A row of the embedding that is used by a later prompt alone. */
TEST_BOTH(the_sample_is_named) {
  double adv[64];
  char place[64];
  UpdateOptions o;
  Tiny t;
  int p = 0, i = 0, n;
  open_untied(&t, tiny_config());
  Batch *b = batch_of(&t, adv, &o);
  const int32_t *ids = batch_prompt(b, 0, &n);
  while (p < 2 || occurs(b, p, ids[i])) {
    if (++i < n) continue;
    CHECK(++p < b->nprompts);
    ids = batch_prompt(b, p, &n);
    i = 0;
  }
  spoil(&t, "model.embed_tokens.weight", (size_t)ids[i] * 32, INFINITY);
  diverges(&t, b, &o);
  snprintf(place, sizeof place, " at prompt %d, its token %d: inf", p + 1, i + 1);
  CHECK(says("the result of embedding (model.embed_tokens.weight)") && says(place));
  tiny_close(&t);
}

TEST_BOTH(logits_that_overflow_are_named) {
  double adv[64];
  UpdateOptions o;
  Tiny t;
  open_untied(&t, tiny_config());
  Batch *b = batch_of(&t, adv, &o);
  spoil(&t, "lm_head.weight", 3, INFINITY);
  diverges(&t, b, &o);
  CHECK(says("the result of loghead (lm_head.weight) at prompt 1, completion 1, token 1: "));
  tiny_close(&t);
}

TEST_BOTH(sampling_names_it_too) {
  const Setup both[] = {{0}, {.lora = true}};
  for (int i = 0; i < 2; i++) {
    Tiny t;
    RolloutOptions ro = {.group = 2, .seed = 3};
    const int32_t ids[] = {65, 66, 67};
    const Prompt prompts[] = {{.ids = ids, .len = 3}, {.ids = ids + 1, .len = 2, .index = 1}};
    open_engine(&t, &both[i]);
    sampling_init(&ro.sampling);
    ro.sampling.max_new_tokens = 4;
    spoil(&t, "model.layers.1.self_attn.o_proj.weight", 0, NAN);
    CHECK(engine_rollout(t.engine, BATCH_SAMPLE, 2, prompts, &ro) == GRPO_EDIVERGED);
    CHECK(says("the logits for prompt 1, completion 1, token 1 are not finite"));
    CHECK(says("linear (model.layers.1.self_attn.o_proj.weight) at prompt 1, its token 1: nan"));
    tiny_close(&t);
  }
}

/* ---- advantages and losses --------------------------------------------------------- */

TEST_BOTH(an_advantage_that_is_not_finite_is_named) {
  const Setup plain = {0};
  const double bad[] = {NAN, INFINITY, 1e300};
  for (int i = 0; i < 3; i++) {
    double adv[64];
    UpdateOptions o;
    Tiny t;
    open_engine(&t, &plain);
    Batch *b = batch_of(&t, adv, &o);
    adv[9] = bad[i];
    diverges(&t, b, &o);
    CHECK(says("the first such value is the advantage at prompt 3, completion 2, token 1: "));
    CHECK(says("look at the rewards of this step"));
    tiny_close(&t);
  }
}

/* sum of logp * scale, where the gradient of token 7 is not finite */
static Status bad_gradient(void *user, const LossInput *in, Value **loss) {
  Value *scale, *product;
  try(value_new(&scale, 1, &in->ntokens));
  for (int i = 0; i < in->ntokens; i++) value_tensor(scale)->data[i] = 1;
  if (in->ntokens > 7) value_tensor(scale)->data[7] = (real)INFINITY;
  try(value_apply(user, OP_mul, (Value *[]){in->logp, scale}, NULL, 0, true, &product));
  const Attr all = {.i = {-1}};
  const Status s = value_apply(user, OP_sum, (Value *[]){product}, &all, 0, true, loss);
  value_release(scale);
  value_release(product);
  return s;
}

TEST_BOTH(a_loss_of_the_user_s_is_named) {
  const Setup plain = {0};
  double adv[64];
  UpdateOptions o;
  Tiny t;
  open_engine(&t, &plain);
  Batch *b = batch_of(&t, adv, &o);
  o.loss_fn = bad_gradient;
  o.loss_user = &t.engine->loss_tape.cx;
  diverges(&t, b, &o);
  CHECK(says("the loss's gradient by the log-probability at prompt 1, completion "));
  CHECK(says("look at train.loss"));
  tiny_close(&t);
}

/* Where the states are 0, a norm with a tiny eps multiplies gradients by a million. */
TEST_BOTH(a_gradient_that_overflows_is_named) {
  double adv[64];
  UpdateOptions o;
  Config c = tiny_config();
  Tiny t;
  c.norm_eps = 1e-12;
  open_untied(&t, c);
  for (size_t i = 0; i < 258 * 32; i++) spoil(&t, "model.embed_tokens.weight", i, 0);
  Batch *b = batch_of(&t, adv, &o);
  for (int i = 0; i < 16; i++) adv[i] *= 1e36;
  diverges(&t, b, &o);
  CHECK(says("the first such value is the gradient"));
  CHECK(says(" at prompt ") && says("lower train.lr or train.max_grad_norm"));
  tiny_close(&t);
}

/* ---- other kinds of steps ------------------------------------------------------------ */

TEST_BOTH(a_step_of_ppo_names_it) {
  const CriticKind kinds[] = {CRITIC_SHARED, CRITIC_SEPARATE};
  for (int i = 0; i < 2; i++) {
    const Setup s = {.critic = kinds[i]};
    double score[16];
    PpoOptions o;
    StepMetrics m;
    Model *before;
    Tiny t;
    open_engine(&t, &s);
    ppo_options_init(&o);
    Batch *b = tiny_rollout(&t, 1);
    for (int k = 0; k < 16; k++) score[k] = k % 3;
    o.score = score;
    o.kl_coef = 0;
    spoil(&t, "model.layers.0.mlp.up_proj.weight", 1, NAN);
    CHECK(!model_copy(&before, t.model));
    CHECK(engine_ppo(t.engine, b, &o, NULL, &m) == GRPO_EDIVERGED);
    CHECK(says("linear (model.layers.0.mlp.up_proj.weight) at prompt 1, its token 1: nan"));
    CHECK(same_weights(before, t.model) && optimizer_steps(t.engine->optimizer) == 0);
    model_release(before);
    tiny_close(&t);
  }
}

TEST_BOTH(a_score_of_ppo_is_named) {
  const Setup s = {.critic = CRITIC_SEPARATE};
  double score[16] = {0};
  PpoOptions o;
  StepMetrics m;
  Tiny t;
  open_engine(&t, &s);
  ppo_options_init(&o);
  Batch *b = tiny_rollout(&t, 1);
  score[5] = INFINITY;
  o.score = score;
  o.kl_coef = 0;
  CHECK(engine_ppo(t.engine, b, &o, NULL, &m) == GRPO_EDIVERGED);
  CHECK(says("the first such value is the advantage at prompt "));
  CHECK(optimizer_steps(t.engine->optimizer) == 0);
  tiny_close(&t);
}

TEST_BOTH(demonstrations_are_named) {
  const Setup plain = {0};
  const int32_t ids[] = {65, 66, 67, 68, 69, 70};
  const Example x[] = {{.prompt = ids, .prompt_len = 2, .target = ids + 2, .target_len = 2},
                       {.prompt = ids, .prompt_len = 3, .target = ids + 3, .target_len = 3}};
  SftOptions o;
  StepMetrics m;
  Model *before;
  Tiny t;
  open_engine(&t, &plain);
  sft_options_init(&o);
  o.step = 5;
  spoil(&t, "model.embed_tokens.weight", 68 * 32, INFINITY); /* a row of the second example alone */
  CHECK(!model_copy(&before, t.model));
  CHECK(engine_sft(t.engine, 2, x, &o, &m) == GRPO_EDIVERGED);
  CHECK(says("training diverged at step 5: "));
  CHECK(says("embedding (model.embed_tokens.weight) at example 2, its token 4: inf"));
  CHECK(same_weights(before, t.model) && optimizer_steps(t.engine->optimizer) == 0);
  model_release(before);
  tiny_close(&t);
}
