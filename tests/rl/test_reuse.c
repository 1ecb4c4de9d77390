/* train.reuse_rollout: taking the activations of generation for the first forward changes no bit of
 * gradients, metrics or checkpoints, whatever happened to the groups on the way. */
#include "model/forward.h"
#include "rl/engine_memory.h"
#include "steps.h"

#define SHAPE(type, more)                                                                          \
  "{\"model_type\":\"" type "\",\"vocab_size\":258,\"hidden_size\":32,\"num_hidden_layers\":2,"    \
  "\"intermediate_size\":40,\"num_attention_heads\":4,\"max_position_embeddings\":96,"             \
  "\"initializer_range\":0.2,\"num_key_value_heads\":" more ",\"eos_token_id\":[7,99]}"

static const char *const shapes[] = {
    "{\"model_type\":\"gpt2\",\"vocab_size\":258,\"n_embd\":32,\"n_layer\":2,\"n_head\":4,"
    "\"n_positions\":96,\"initializer_range\":0.2,\"eos_token_id\":7}",
    SHAPE("qwen2", "2"),
    SHAPE("qwen3", "1,\"head_dim\":24,\"tie_word_embeddings\":true"),
    SHAPE("mistral", "2,\"head_dim\":12,\"sliding_window\":5"),
    SHAPE("gemma2", "2,\"head_dim\":20,\"sliding_window\":9,\"query_pre_attn_scalar\":24,"
                    "\"attn_logit_softcapping\":2,\"final_logit_softcapping\":3"),
    SHAPE("gemma3_text", "1,\"head_dim\":16,\"sliding_window\":13,\"sliding_window_pattern\":3,"
                         "\"rope_local_base_freq\":100,\"query_pre_attn_scalar\":16"),
    SHAPE("phi3", "2,\"partial_rotary_factor\":0.5"),
    SHAPE("qwen3_5_text", "2,\"head_dim\":16,\"full_attention_interval\":2,"
                          "\"linear_num_key_heads\":2,\"linear_num_value_heads\":4,"
                          "\"linear_key_head_dim\":6,\"linear_value_head_dim\":10"),
    SHAPE("lfm2", "2,\"block_multiple_of\":8,\"full_attn_idxs\":[1]"),
    SHAPE("deepseek_v2", "4,\"q_lora_rank\":null,\"kv_lora_rank\":16,\"qk_nope_head_dim\":8,"
                         "\"qk_rope_head_dim\":4,\"v_head_dim\":6,\"n_routed_experts\":null"),
    "{\"model_type\":\"gpt2_mla\",\"vocab_size\":258,\"n_embd\":32,\"n_layer\":2,\"n_head\":3,"
    "\"n_positions\":96,\"initializer_range\":0.2,\"eos_token_id\":7,\"q_lora_rank\":20,"
    "\"kv_lora_rank\":24,\"qk_nope_head_dim\":12,\"qk_rope_head_dim\":6,\"v_head_dim\":14}"};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void check_same(const Setup *s) {
  Setup with = *s;
  with.reuse = REUSE_ON;
  Result plain = run(*s, true), reused = run(with, false);
  check_equal(&plain, &reused);
  release(&plain);
  release(&reused);
  CHECK(uses_activations(with));
}

TEST_BOTH(reused_activations_change_no_bit) {
  const Setup setups[] = {
      {.entropy = 0.01},
      {.kl = 0.05, .estimator = KL_K3, .iterations = 3},
      {.kl = 0.05, .estimator = KL_FULL},
      {.entropy = 0.01, .micro_batch_tokens = 100},
      {.entropy = 0.01, .micro_batch_tokens = 100000},
      {.entropy = 0.01, .lora = true},
      {.own_loss = true, .lora = true, .untied = true},
      {.entropy = 0.01, .replace = true},
  };
  for (size_t i = 0; i < sizeof setups / sizeof *setups; i++) check_same(&setups[i]);
  check_same(&(Setup){0}); /* a group without advantages needs no forward */
}

TEST_BOTH(nor_do_they_in_any_family) {
  for (size_t i = 0; i < SHAPES; i++) {
    check_same(&(Setup){.shape = shapes[i], .entropy = 0.01});
    check_same(&(Setup){.shape = shapes[i], .entropy = 0.01, .lora = true});
  }
}

TEST_BOTH(sequences_that_wait_leave_and_join_are_kept) {
  check_same(&(Setup){.entropy = 0.01, .prompts = 5, .group = 40, .replace = true});
}

TEST_BOTH(prompts_prefilled_in_pieces_are_kept) {
  check_same(&(Setup){.entropy = 0.01, .prompts = 40, .group = 2, .max_prompt = 50, .max_new = 9});
}

TEST_BOTH(pieces_of_a_large_group_are_taken) {
  const Setup s = {.entropy = 0.01,
                   .shape = shapes[1],
                   .prompts = 3,
                   .group = 300,
                   .max_prompt = 4,
                   .max_new = 60};
  check_same(&s);
}

TEST(a_damaged_store_is_found) {
  const Setup s = {.entropy = 0.01, .reuse = REUSE_ON};
  static double adv[64];
  StepMetrics m;
  UpdateOptions o;
  Tiny t;
  open_engine(&t, &s);
  Batch *b = roll_out(&t, &s, 1);
  tiny_advantages(b, adv);
  update_options_init(&o, LOSS_grpo);
  o.advantage = adv;
  o.loss.entropy = 0.01;
  spoil_activations(&t);
  CHECK(!engine_update(t.engine, b, &o, &m));
  CHECK(m.ratio_max_deviation == 0); /* the second try computed */
  tiny_close(&t);
}

TEST(the_store_is_as_wide_as_was_planned) {
  for (size_t i = 0; i < SHAPES; i++) {
    const Setup s = {.shape = shapes[i], .reuse = REUSE_ON, .lora = i % 2 == 1};
    ReplayRun run = {0, 1, 0};
    Tensor *x;
    Tiny t;
    open_engine(&t, &s);
    const int32_t id = 1, pos = 0;
    const PackSpan span = {0, 1, -1};
    Replay r = {.store = &t.engine->activations.store, .nruns = 1, .run = &run};
    const Pack p = {.nrows = 1, .ids = &id, .pos = &pos, .nspans = 1, .spans = &span, .replay = &r};
    tape_reset(&t.engine->tape);
    CHECK(!forward_hidden(t.model, &t.engine->tape, &p, &x));
    CHECK(r.column == r.store->columns);
    r.store->operations++; /* as if something else had been kept */
    CHECK(forward_hidden(t.model, &t.engine->tape, &p, &x) == GRPO_EARG);
    CHECK(!t.engine->tape.replay);
    tiny_close(&t);
  }
}

TEST_BOTH(a_step_with_reuse_takes_no_memory) {
  check_no_memory(&(Setup){.kl = 0.05, .estimator = KL_K3, .reuse = REUSE_ON, .replace = true}, 25);
}

TEST(the_store_is_in_the_estimate) {
  const Setup s = {.prompts = 40, .group = 8, .max_prompt = 40, .max_new = 20, .reuse = REUSE_ON};
  EngineNeeds needs;
  Tiny t;
  const size_t before = mem_live_bytes();
  open_engine(&t, &s);
  const double taken = (double)(mem_live_bytes() - before);
  OK(engine_measure(t.pool, t.model, t.reference, &t.o, NULL, &needs));
  const EngineBytes *b = &needs.bytes;
  CHECK(b->kept == mem_aligned_size(t.engine->activations.store.rows *
                                    t.engine->activations.store.columns * sizeof(real)));
  CHECK(b->kept > b->total / 4);
  CHECK((double)b->total > 0.9 * taken && (double)b->total < 1.05 * taken);
  tiny_close(&t);
}

static Status refused(const Setup *s) {
  Tiny t;
  Engine *e = NULL;
  Setup plain = *s;
  plain.reuse = REUSE_OFF;
  open_engine(&t, &plain);
  t.o.reuse_rollout = s->reuse;
  const Status st = engine_new(&e, t.pool, t.model, t.reference, t.tok, &t.o);
  engine_free(e);
  tiny_close(&t);
  return st;
}

TEST(what_excludes_reuse_is_named_and_auto_does_without) {
  Setup s = {.checkpointing = true, .reuse = REUSE_ON};
  CHECK(refused(&s) == GRPO_EARG && strstr(err_message(), "gradient_checkpointing"));
  s.reuse = REUSE_AUTO;
  CHECK(refused(&s) == GRPO_OK);
  s = (Setup){.lora = true, .dropout = 0.1, .reuse = REUSE_ON};
  CHECK(refused(&s) == GRPO_EARG && strstr(err_message(), "dropout"));
  s = (Setup){.prompts = 30000, .group = 100, .max_prompt = 40, .max_new = 24, .reuse = REUSE_ON};
  Tiny t;
  Engine *e = NULL;
  open_engine(&t, &(Setup){0});
  t.o.prompts_per_step = s.prompts;
  t.o.group_size = s.group;
  t.o.reuse_rollout = REUSE_ON;
  REFUSED(engine_new(&e, t.pool, t.model, t.reference, t.tok, &t.o), GRPO_ENOMEM,
          "train.reuse_rollout: the activations of");
  tiny_close(&t);
}
