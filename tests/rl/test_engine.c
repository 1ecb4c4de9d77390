/* Rollouts, demonstrations, and state that survives. */
#include "base/mem.h"
#include "checkpoint/save.h"
#include "checkpoint/weights.h"
#include "model/model_copy.h"
#include "os/file.h"
#include "rl/sft.h"
#include "tiny.h"

/* ---- sampling -------------------------------------------------------------------- */

TEST_BOTH(a_group_rolled_out_alone_is_the_same_group) {
  Tiny t;
  int32_t first[TINY_NEW], again[TINY_NEW];
  tiny_open(&t, 2, NULL);
  Batch *b = tiny_rollout(&t, 5);
  const int slot = 2, i = slot * TINY_GROUP + 1, len = b->completion[i].len;
  memcpy(first, b->completion[i].ids, sizeof first);
  Prompt p = {.index = 5 * 16 + slot};
  int32_t ids[TINY_PROMPT];
  p.ids = memcpy(ids, batch_prompt(b, slot, &p.len), sizeof ids);
  RolloutOptions ro = {.group = TINY_GROUP, .seed = 3, .step = 5};
  sampling_init(&ro.sampling);
  ro.sampling.max_new_tokens = TINY_NEW;
  CHECK(!engine_replace(t.engine, BATCH_SAMPLE, 1, &slot, &p, &ro));
  memcpy(again, b->completion[i].ids, sizeof again);
  CHECK(b->completion[i].len == len);
  CHECK(memcmp(first, again, (size_t)len * sizeof *first) == 0);
  ro.group = 2;
  CHECK(engine_replace(t.engine, BATCH_SAMPLE, 1, &slot, &p, &ro) == GRPO_EARG);
  tiny_close(&t);
}

TEST(evaluation_has_a_batch_of_its_own_and_grows) {
  Tiny t;
  enum { MANY = 150 };
  static int32_t ids[MANY][4];
  Prompt prompts[MANY];
  tiny_open(&t, 2, NULL);
  Batch *b = tiny_rollout(&t, 1);
  const int32_t kept = b->completion[0].ids[0];
  for (int i = 0; i < MANY; i++) {
    for (int k = 0; k < 4; k++) ids[i][k] = (i * 7 + k) % 200;
    prompts[i] = (Prompt){.ids = ids[i], .len = 1 + i % 4, .index = (uint32_t)i};
  }
  RolloutOptions ro = {.group = 1, .seed = 3};
  sampling_init(&ro.sampling);
  ro.sampling.temperature = 0;
  ro.sampling.max_new_tokens = TINY_NEW;
  for (int round = 0; round < 2; round++) {
    CHECK(!engine_rollout(t.engine, BATCH_EVAL, MANY, prompts, &ro));
    CHECK(batch_size(engine_batch(t.engine, BATCH_EVAL)) == MANY);
  }
  CHECK(batch_size(b) == TINY_PROMPTS * TINY_GROUP && b->completion[0].ids[0] == kept);
  prompts[3].len = TINY_PROMPT + 1;
  REFUSED(engine_rollout(t.engine, BATCH_EVAL, 4, prompts, &ro), GRPO_EARG, "prompt 4");
  tiny_close(&t);
}

TEST_BOTH(reference_log_probabilities_of_the_policy_itself_are_those_recorded) {
  Tiny t;
  tiny_open(&t, 2, NULL);
  CHECK(!model_copy_weights(t.reference, t.model));
  Batch *b = tiny_rollout(&t, 1);
  CHECK(!engine_reference(t.engine, b));
  for (int i = 0; i < batch_size(b); i++)
    CHECK(memcmp(b->completion[i].logp, b->ref_logp + (size_t)i * TINY_NEW,
                 (size_t)b->completion[i].len * sizeof(float)) == 0);
  tiny_close(&t);
}

/* ---- demonstrations -------------------------------------------------------------- */

static void demonstrations(Example *x, int32_t (*ids)[30], int n) {
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < 30; k++) ids[i][k] = (i * 13 + k * k) % 256;
    const int prompt = i % 10, target = 2 + (i * 7) % 18;
    x[i] = (Example){ids[i], ids[i] + prompt, prompt, target, NULL};
  }
}

TEST_BOTH(demonstrations_are_learned) {
  StepMetrics m;
  Tiny t;
  Example x[90];
  int32_t ids[90][30];
  double before, after;
  int64_t tokens;
  tiny_open(&t, 2, NULL);
  demonstrations(x, ids, 90); /* several units */
  CHECK(!engine_nll(t.engine, 90, x, &before, &tokens));
  const SftOptions so = {.lr = 3e-3, .max_grad_norm = 1};
  CHECK(!engine_sft(t.engine, 90, x, &so, &m));
  CHECK_NEAR(m.loss, before, 1e-9);
  CHECK(m.trained_tokens == (double)tokens && m.grad_norm > 0 && isnan(m.kl));
  const uint64_t allocations = mem_allocations();
  for (int s = 0; s < 30; s++) CHECK(!engine_sft(t.engine, 60 + s, x, &so, &m));
  CHECK(mem_allocations() == allocations);
  CHECK(!engine_nll(t.engine, 90, x, &after, &tokens));
  CHECK(after < 0.6 * before);
  tiny_close(&t);
}

TEST_BOTH(the_gradient_of_demonstrations_does_not_depend_on_threads) {
  StepMetrics m[2];
  Model *w[2];
  for (int k = 0; k < 2; k++) {
    Tiny t;
    Example x[90];
    int32_t ids[90][30];
    tiny_open(&t, k + 1, NULL);
    demonstrations(x, ids, 90);
    const SftOptions so = {.lr = 3e-3, .max_grad_norm = 1};
    for (int s = 0; s < 3; s++) CHECK(!engine_sft(t.engine, 90, x, &so, &m[k]));
    CHECK(!model_copy(&w[k], t.model));
    tiny_close(&t);
  }
  CHECK(m[0].loss == m[1].loss && m[0].grad_norm == m[1].grad_norm);
  CHECK(same_weights(w[0], w[1]));
  model_release(w[0]);
  model_release(w[1]);
}

/* Masked tokens at the start of a target might as well be in the prompt. */
TEST_BOTH(what_a_mask_leaves_out_is_only_read) {
  StepMetrics m[2];
  Example x[90], y[90];
  int32_t ids[90][30];
  uint8_t mask[30] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  double mean[2];
  int64_t tokens[2];
  memset(mask + 3, 1, sizeof mask - 3);
  demonstrations(x, ids, 90);
  memcpy(y, x, sizeof x);
  for (int i = 0; i < 90; i++) {
    const int out = x[i].target_len > 4 ? 3 : 0;
    if (!out) continue;
    x[i].mask = mask;
    y[i] = (Example){y[i].prompt, y[i].target + out, y[i].prompt_len + out, y[i].target_len - out,
                     NULL};
    if (!x[i].prompt_len) y[i].prompt = x[i].target;
  }
  for (int k = 0; k < 2; k++) {
    Tiny t;
    tiny_open(&t, 2, NULL);
    const SftOptions so = {.lr = 1e-3};
    CHECK(!engine_nll(t.engine, 90, k ? y : x, &mean[k], &tokens[k]));
    CHECK(!engine_sft(t.engine, 90, k ? y : x, &so, &m[k]));
    tiny_close(&t);
  }
  CHECK(tokens[0] == tokens[1] && m[0].trained_tokens == (double)tokens[0]);
  CHECK_NEAR(mean[0], mean[1], 1e-6);
  CHECK_NEAR(m[0].grad_norm, m[1].grad_norm, 1e-3 * m[1].grad_norm);
}

TEST(an_example_without_a_target_is_named) {
  StepMetrics m;
  Tiny t;
  const int32_t ids[80] = {1, 2, 3};
  Example x[2] = {{ids, ids + 1, 1, 1, NULL}, {ids, ids + 1, 1, 0, NULL}};
  const SftOptions so = {.lr = 1e-3};
  tiny_open(&t, 1, NULL);
  REFUSED(engine_sft(t.engine, 2, x, &so, &m), GRPO_EARG, "example 2");
  x[1] = (Example){ids, ids, 40, 40, NULL};
  REFUSED(engine_sft(t.engine, 2, x, &so, &m), GRPO_EARG, "context");
  tiny_close(&t);
}

/* ---- state ----------------------------------------------------------------------- */

static void train(Tiny *t, uint32_t from, uint32_t to) {
  UpdateOptions o;
  StepMetrics m;
  update_options_init(&o, LOSS_grpo);
  o.lr = 1e-3;
  for (uint32_t s = from; s <= to; s++) tiny_step(t, s, &o, &m);
}

TEST_BOTH(saved_and_loaded_is_as_if_nothing_happened) {
  Tiny whole, first, second;
  const char *dir = test_path("%s/state", test_tmp());
  tiny_open(&whole, 2, NULL);
  train(&whole, 1, 6);
  tiny_open(&first, 2, NULL);
  train(&first, 1, 3);
  CHECK(!file_mkdirs(dir));
  CHECK(!save_model(first.model, dir, WEIGHT_F32, 0));
  CHECK(!engine_save(first.engine, dir));
  tiny_close(&first);
  tiny_open(&second, 1, NULL);
  Model *loaded;
  CHECK(!weights_load(&loaded, second.pool, dir, STORE_F32));
  CHECK(!model_copy_weights(second.model, loaded));
  CHECK(!engine_load(second.engine, dir));
  train(&second, 4, 6);
  CHECK(same_weights(whole.model, second.model));
  model_release(loaded);
  tiny_close(&second);
  tiny_close(&whole);
}
