/* train.router_aux_loss_coef: the auxiliary loss of a mixture's routers in every kind of step, the
 * same bits however it is computed. */
#include "grad/balance.h"
#include "model/forward.h"
#include "rl/sft.h"
#include "steps.h"

static const char shape[] =
    "{\"model_type\":\"qwen3_moe\",\"vocab_size\":258,\"hidden_size\":32,\"num_hidden_layers\":3,"
    "\"intermediate_size\":40,\"num_attention_heads\":4,\"max_position_embeddings\":96,"
    "\"initializer_range\":0.2,\"num_key_value_heads\":2,\"head_dim\":8,\"num_experts\":6,"
    "\"num_experts_per_tok\":2,\"moe_intermediate_size\":24,\"norm_topk_prob\":true,"
    "\"mlp_only_layers\":[1],\"eos_token_id\":[7,99]}";

enum { MANY = 100 };

TEST_BOTH(no_way_of_computing_the_auxiliary_loss_changes_a_bit) {
  const Setup plain = {.shape = shape, .aux = 0.1, .threads = 1, .iterations = 2};
  Setup ways[6];
  for (int i = 0; i < 6; i++) ways[i] = plain;
  ways[0].threads = 2;
  ways[1].threads = 3, ways[1].micro_batch_tokens = 100;
  ways[2].micro_batch_tokens = 100000;
  ways[3].checkpointing = true;
  ways[4].reuse = REUSE_ON;
  ways[5].reuse = REUSE_ON, ways[5].threads = 2, ways[5].micro_batch_tokens = 100000;
  Result want = run(plain, false);
  CHECK(want.m.aux_loss > 1 && want.m.aux_loss < 6);
  for (int i = 0; i < 6; i++) {
    Result got = run(ways[i], false);
    check_equal(&want, &got);
    release(&got);
  }
  release(&want);
}

/* With a rate of 0 the weights stay, so the loss grows by what the coefficient says. */
static double loss_with(double aux, double *aux_loss) {
  StepMetrics m;
  Tiny t;
  const Setup s = {.shape = shape, .aux = aux, .kl = 0.1, .estimator = KL_FULL};
  open_engine(&t, &s);
  step(&t, &s, 1, &m);
  *aux_loss = m.aux_loss;
  tiny_close(&t);
  return m.loss;
}

TEST(the_auxiliary_loss_is_added_to_the_loss_and_is_a_metric) {
  double none, some;
  const double before = loss_with(0, &none), after = loss_with(0.5, &some);
  CHECK(isnan(none) && some > 1);
  CHECK_NEAR(after - before, 0.5 * some, 1e-9);
}

TEST(it_takes_part_where_no_completion_has_an_advantage) {
  double adv[TINY_PROMPTS * TINY_GROUP] = {0};
  UpdateOptions o;
  StepMetrics m;
  Tiny t;
  const Setup s = {.shape = shape, .aux = 0.1};
  open_engine(&t, &s);
  Batch *b = roll_out(&t, &s, 1);
  update_options_init(&o, LOSS_grpo);
  o.advantage = adv;
  OK(engine_update(t.engine, b, &o, &m));
  CHECK(m.grad_norm > 0 && m.ratio_max_deviation == 0);
  CHECK_NEAR(m.loss, 0.1 * m.aux_loss, 1e-12);
  tiny_close(&t);
}

/* A group's prompt counts in each of its sequences, as it would if they were apart. */
static double of_pack(Model *m, int n, const PackGroup *g) {
  Tape t;
  Pack p;
  Tensor *h;
  OK(model_tape(m, &t));
  OK(pack_groups(&t.arena, model_config(m), n, g, &p));
  OK(balance_new(&t.arena, model_config(m)->num_experts, p.sequences, &p.balance));
  OK(forward_hidden(m, &t, &p, &h));
  const double loss = balance_end(p.balance, 1);
  tape_free(&t);
  return loss;
}

TEST(a_shared_prompt_counts_in_each_of_its_sequences) {
  int32_t ids[20];
  const int32_t *completion[] = {ids + 3, ids + 5, ids + 9};
  const int len[] = {7, 1, 4};
  PackGroup apart[3];
  Tiny t;
  const Setup s = {.shape = shape};
  open_engine(&t, &s);
  for (int i = 0; i < 20; i++) ids[i] = 11 * i;
  for (int i = 0; i < 3; i++) apart[i] = (PackGroup){ids, 9, 1, completion + i, len + i, 0, 0};
  const PackGroup together = {ids, 9, 3, completion, len, 0, 0};
  CHECK_NEAR(of_pack(t.model, 1, &together), of_pack(t.model, 3, apart), 1e-12);
  tiny_close(&t);
}

/* ---- demonstrations ------------------------------------------------------------------------- */

static void demonstrate(const Setup *s, StepMetrics *m, Model **out) {
  Tiny t;
  Example x[MANY];
  int32_t ids[MANY][30];
  open_engine(&t, s);
  for (int i = 0; i < MANY; i++) {
    for (int k = 0; k < 30; k++) ids[i][k] = (i * 13 + k * k) % 256;
    x[i] = (Example){ids[i], ids[i] + i % 10, i % 10, 2 + (i * 7) % 18, NULL};
  }
  const SftOptions o = {.lr = 1e-2, .max_grad_norm = 1};
  for (int k = 0; k < 2; k++) OK(engine_sft(t.engine, MANY, x, &o, m));
  CHECK(!model_copy(out, t.model));
  tiny_close(&t);
}

TEST(demonstrations_have_it_too_with_the_same_bits) {
  Setup s = {.shape = shape, .aux = 0.1, .threads = 1};
  StepMetrics a, b;
  Model *x, *y;
  demonstrate(&s, &a, &x);
  s.threads = 3;
  s.checkpointing = true;
  demonstrate(&s, &b, &y);
  CHECK(a.aux_loss > 1 && a.aux_loss < 6);
  CHECK(a.aux_loss == b.aux_loss && a.loss == b.loss && same_weights(x, y));
  model_release(y);
  s.aux = 0;
  demonstrate(&s, &b, &y);
  CHECK(isnan(b.aux_loss) && !same_weights(x, y));
  model_release(x);
  model_release(y);
}

/* Many steps with nothing but this loss even out what the routers choose. */
TEST(routers_become_balanced) {
  StepMetrics first, m;
  Tiny t;
  Setup s = {.shape = shape, .aux = 1};
  open_engine(&t, &s);
  UpdateOptions o;
  double adv[TINY_PROMPTS * TINY_GROUP] = {0};
  update_options_init(&o, LOSS_grpo);
  o.advantage = adv;
  o.lr = 3e-3;
  OK(engine_update(t.engine, roll_out(&t, &s, 1), &o, &first));
  for (uint32_t k = 2; k < 30; k++) OK(engine_update(t.engine, roll_out(&t, &s, k), &o, &m));
  CHECK(first.aux_loss > 2.05 && m.aux_loss < first.aux_loss - 0.02);
  tiny_close(&t);
}

TEST(models_without_this_loss_are_refused_by_name) {
  Tiny t = {0};
  tiny_options(&t.o);
  t.o.router_aux_loss_coef = 0.01;
  tiny_models(&t, 1, NULL, false);
  CHECK(engine_new(&t.engine, t.pool, t.model, NULL, t.tok, &t.o) == GRPO_EARG);
  CHECK(strstr(err_message(), "train.router_aux_loss_coef") && strstr(err_message(), "llama"));
  tiny_close(&t);
}

TEST(a_steady_step_with_it_takes_no_memory) {
  check_no_memory(&(Setup){.shape = shape, .aux = 0.1}, 4);
}
