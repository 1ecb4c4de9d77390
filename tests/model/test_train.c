/* Training: packs against plain sequences, threads, memory, copies. */
#include "base/mem.h"
#include "kern/elementwise.h"
#include "model/forward.h"
#include "model/model_copy.h"
#include "model/model_memory.h"
#include "model/modeltest.h"
#include "model/optimizer.h"
#include "model/panels.h"

static double norm_of(Optimizer *o, const Ctx *cx) {
  double norm = -1;
  OK(optimizer_grad_norm(o, cx, &norm));
  return norm;
}

enum { GROUPS = 3, PER_GROUP = 4 };

typedef struct Batch {
  int32_t prompt[GROUPS][40], ids[GROUPS][PER_GROUP][32];
  const int32_t *completion[GROUPS][PER_GROUP];
  int len[GROUPS][PER_GROUP], tokens;
  PackGroup group[GROUPS];
} Batch;

static void batch_init(Batch *b, int vocab) {
  static const int prompts[] = {1, 17, 33}, lens[] = {9, 1, 20, 16, 2, 5, 31, 1, 12, 17, 3, 8};
  b->tokens = 0;
  for (int g = 0; g < GROUPS; g++) {
    some_ids(b->prompt[g], prompts[g], vocab, (uint64_t)g + 1);
    for (int i = 0; i < PER_GROUP; i++) {
      b->len[g][i] = lens[g * PER_GROUP + i];
      b->tokens += b->len[g][i];
      some_ids(b->ids[g][i], b->len[g][i], vocab, (uint64_t)(100 + g * 10 + i));
      b->completion[g][i] = b->ids[g][i];
    }
    b->group[g] = (PackGroup){b->prompt[g], prompts[g], PER_GROUP,      b->completion[g],
                              b->len[g],    0,          prompts[g] + 31};
  }
}

/* Weight of output i in the sum that is differentiated: anything but regular. */
static real weight_of(int i) { return (real)(sin(1.7 * i) + 0.3); }

/* d (sum of weighted logp and entropies) for these groups; outputs are numbered from `first`. */
static Status backward(Model *m, Tape *t, const PackGroup *g, int n, int first, real *logp) {
  Pack p;
  Tensor *h, *out;
  tape_reset(t);
  try(pack_groups(&t->arena, model_config(m), n, g, &p));
  try(forward_hidden(m, t, &p, &h));
  try(forward_logp(m, t, &p, h, 0.9, NULL, NULL, &out));
  real *seed = arena_alloc(&t->arena, out->n * sizeof *seed);
  for (int i = 0; i < p.nout; i++) {
    seed[i] = weight_of(first + i);
    seed[p.nout + i] = (real)0.1 * weight_of(first + i + 5);
  }
  if (logp) memcpy(logp, out->data, (size_t)p.nout * sizeof *logp);
  return tape_backward_from(t, out, seed);
}

static Status backward_plain(Model *m, Tape *t, const Batch *b, real *logp) {
  int first = 0;
  for (int g = 0; g < GROUPS; g++)
    for (int i = 0; i < PER_GROUP; i++) {
      PackGroup one = b->group[g];
      one.n = 1;
      one.completion = &b->completion[g][i];
      one.completion_len = &b->len[g][i];
      try(backward(m, t, &one, 1, first, logp + first));
      first += b->len[g][i];
    }
  return GRPO_OK;
}

static real *copy_gradients(Model *m) {
  real *g = malloc(m->weight_reals * sizeof *g);
  memcpy(g, m->grads, m->weight_reals * sizeof *g);
  return g;
}

/* The softmax does not see a bias of keys that are not rotated: its gradient is rounding alone. */
static bool is_rounding(const Model *m, const Param *p) {
  return !config_rotates(model_config(m)) && strstr(p->name, "k_proj.bias");
}

static void compare_gradients(Model *m, const real *other, const char *what) {
  double largest = 0;
  for (int i = 0; i < model_num_params(m); i++)
    largest = fmax(largest, largest_of(model_param(m, i)->t.grad, model_param(m, i)->t.n));
  for (int i = 0; i < model_num_params(m); i++) {
    const Param *p = model_param(m, i);
    const double scale = fmax(largest_of(p->t.grad, p->t.n), 1e-3 * largest);
    const double d = worst_difference(p->t.grad, other + (p->t.grad - m->grads), p->t.n);
    if (!(d <= 1e-5 * scale) && !is_rounding(m, p))
      test_fail(__FILE__, __LINE__, "%s: gradient of %s differs by %g of %g", what, p->name, d,
                scale);
  }
}

static const char *shape_of(int i) { return *small_shapes[i]; }

TEST(a_shared_prompt_gives_the_gradients_of_plain_sequences) {
  for (int k = 0; k < SMALL_SHAPES; k++) {
    static Batch b;
    static real packed[512], plain[512];
    Tape t;
    Model *m = small_model(shape_of(k), NULL, 6);
    batch_init(&b, model_config(m)->vocab_size);
    OK(tape_init(&t, NULL));
    REQUIRE(model_set_trainable(m, true));
    REQUIRE(backward(m, &t, b.group, GROUPS, 0, packed));
    real *g = copy_gradients(m);
    model_zero_grad(m);
    REQUIRE(backward_plain(m, &t, &b, plain));
    compare_gradients(m, g, shape_of(k));
    CHECK(!memcmp(packed, plain, (size_t)b.tokens * sizeof *packed));
    free(g);
    tape_free(&t);
    model_release(m);
  }
}

TEST_BOTH(threads_and_tapes_change_no_bit_of_a_gradient) {
  for (int k = 0; k < SMALL_SHAPES; k++) {
    static Batch b;
    static real logp[2][512];
    real *g[2];
    for (int threads = 1; threads <= 2; threads++) {
      Pool *pool;
      Tape t;
      REQUIRE(pool_new(&pool, threads));
      Model *m = small_model(shape_of(k), pool, 6);
      batch_init(&b, model_config(m)->vocab_size);
      OK(tape_init(&t, pool));
      REQUIRE(model_set_trainable(m, true));
      for (int round = 0; round < 2; round++) { /* the second time with used memory */
        model_zero_grad(m);
        for (int i = 0; i < GROUPS; i++) REQUIRE(backward(m, &t, b.group + i, 1, 0, NULL));
        REQUIRE(backward(m, &t, b.group, GROUPS, 0, logp[threads - 1]));
      }
      g[threads - 1] = copy_gradients(m);
      for (int i = 0; i < model_num_params(m) && threads == 2; i++) {
        const Tensor *x = &model_param(m, i)->t;
        CHECK(!memcmp(x->grad, g[0] + (x->grad - m->grads), x->n * sizeof(real)));
      }
      tape_free(&t);
      model_release(m);
      pool_free(pool);
    }
    CHECK(!memcmp(logp[0], logp[1], (size_t)b.tokens * sizeof(real)));
    free(g[0]), free(g[1]);
  }
}

/* Inference drops what it does not need, with the same bits. */
TEST_BOTH(frozen_models_compute_the_same_in_less_memory) {
  static Batch b;
  for (int k = 0; k < SMALL_SHAPES; k++) {
    Model *m = small_model(shape_of(k), NULL, 6), *frozen;
    size_t high[3];
    static real logp[3][512];
    REQUIRE(model_copy(&frozen, m));
    REQUIRE(model_set_trainable(m, true));
    batch_init(&b, model_config(m)->vocab_size);
    for (int way = 0; way < 3; way++) {
      Pack p;
      Tape t;
      Tensor *h, *out;
      OK(tape_init(&t, NULL));
      t.off = way == 1;
      Model *use = way == 2 ? frozen : m;
      REQUIRE(pack_groups(&t.arena, model_config(m), GROUPS, b.group, &p));
      REQUIRE(forward_hidden(use, &t, &p, &h));
      high[way] = t.arena.high;
      REQUIRE(forward_logp(use, &t, &p, h, 1, NULL, NULL, &out));
      memcpy(logp[way], out->data, (size_t)p.nout * sizeof(real));
      CHECK((t.n > 0) == (way == 0));
      tape_free(&t);
    }
    CHECK(high[1] * 3 < high[0] * 2 && high[2] * 3 < high[0] * 2);
    CHECK(!memcmp(logp[0], logp[1], sizeof logp[0]) && !memcmp(logp[0], logp[2], sizeof logp[0]));
    model_release(m);
    model_release(frozen);
  }
}

TEST_BOTH(the_reference_s_full_divergence_is_zero_against_itself_only) {
  static Batch b;
  Model *m = small_model(tiny_llama, NULL, 6), *ref = small_model(tiny_llama, NULL, 7), *same;
  REQUIRE(model_copy(&same, m));
  batch_init(&b, 101);
  for (int k = 0; k < 2; k++) {
    Model *r = k ? ref : same;
    Pack p;
    Tape t;
    Tensor *h, *hr, *out;
    real *rows;
    double sum = 0;
    OK(tape_init(&t, NULL));
    REQUIRE(pack_groups(&t.arena, model_config(m), GROUPS, b.group, &p));
    REQUIRE(forward_hidden(r, &t, &p, &hr));
    REQUIRE(forward_out_hidden(&t, &p, hr, &rows));
    REQUIRE(forward_hidden(m, &t, &p, &h));
    REQUIRE(forward_logp(m, &t, &p, h, 1, r, rows, &out));
    CHECK(out->dim[0] == 3);
    for (int i = 0; i < p.nout; i++) sum += (double)out->data[2 * p.nout + i];
    CHECK(k ? sum > 0.1 * p.nout : fabs(sum) < 1e-4);
    tape_free(&t);
  }
  model_release(m);
  model_release(ref);
  model_release(same);
}

TEST(groups_that_cannot_be_packed_are_refused_by_number) {
  static Batch b;
  Config c;
  Arena a = {0};
  Pack p;
  config_of(&c, tiny_llama); /* 96 positions, 101 tokens */
  batch_init(&b, 101);
  REQUIRE(pack_groups(&a, &c, GROUPS, b.group, &p));
  CHECK(p.nout == b.tokens && p.nrows == 51 + b.tokens - 12);
  b.ids[1][2][4] = 101;
  REFUSED(pack_groups(&a, &c, GROUPS, b.group, &p), GRPO_EARG,
          "group 2: completion token 5 has id 101");
  config_of(&c, tiny_phi3);
  b.ids[1][2][4] = 0, b.group[1].longest = 0; /* 17 tokens, and 2 to 31 behind them */
  REFUSED(pack_groups(&a, &c, GROUPS, b.group, &p), GRPO_EARG,
          "group 2: some of its sequences are longer than 40 tokens");
  config_of(&c, tiny_llama);
  b.ids[1][2][4] = 0, b.prompt[2][0] = -1;
  REFUSED(pack_groups(&a, &c, GROUPS, b.group, &p), GRPO_EARG, "group 3: prompt token 1");
  b.prompt[2][0] = 1, b.len[0][1] = 0;
  REFUSED(pack_groups(&a, &c, GROUPS, b.group, &p), GRPO_EARG, "group 1: completion 2 is empty");
  b.len[0][1] = 1, c.max_position_embeddings = 40;
  REFUSED(pack_groups(&a, &c, GROUPS, b.group, &p), GRPO_EARG, "context of 40");
  b.group[0].prompt_len = 0;
  REFUSED(pack_groups(&a, &c, GROUPS, b.group, &p), GRPO_EARG, "group 1: the prompt is empty");
  arena_free(&a);
}

/* ---- memory ------------------------------------------------------------------------------ */

TEST_BOTH(a_step_in_the_steady_state_allocates_nothing) {
  for (int k = 0; k < SMALL_SHAPES; k++) {
    static Batch b;
    Pool *pool;
    Tape t;
    Optimizer *o;
    OptimizerOptions options;
    REQUIRE(pool_new(&pool, 2));
    Model *m = small_model(shape_of(k), pool, 6);
    batch_init(&b, model_config(m)->vocab_size);
    optimizer_options_init(&options);
    OK(tape_init(&t, pool));
    REQUIRE(model_set_trainable(m, true));
    REQUIRE(optimizer_new(&o, m, &options));
    uint64_t before = 0;
    for (int step = 0; step < 6; step++) {
      if (step == 1) before = mem_allocations();
      model_zero_grad(m);
      const int groups = step % 3 ? 2 : GROUPS; /* lengths vary */
      REQUIRE(backward(m, &t, b.group, groups, 0, NULL));
      OK(optimizer_step(o, &t.cx, 1e-4, 1, norm_of(o, &t.cx)));
    }
    CHECK(mem_allocations() == before);
    optimizer_free(o);
    tape_free(&t);
    model_release(m);
    pool_free(pool);
  }
}

TEST_BOTH(checkpointed_gradients_have_the_same_bits) {
  Pool *pool;
  REQUIRE(pool_new(&pool, 2));
  for (int i = 0; i < SMALL_SHAPES; i++) {
    Model *m = small_model(shape_of(i), pool, 3);
    Batch b;
    Tape t;
    batch_init(&b, model_config(m)->vocab_size);
    OK(tape_init(&t, pool));
    OK(model_set_trainable(m, true));
    OK(backward(m, &t, b.group, GROUPS, 0, NULL));
    real *plain = copy_gradients(m);
    const size_t high = t.arena.high;
    tape_free(&t);
    OK(tape_init(&t, pool));
    model_zero_grad(m);
    model_set_checkpointing(m, true);
    OK(backward(m, &t, b.group, GROUPS, 0, NULL));
    CHECK(memcmp(plain, m->grads, m->weight_reals * sizeof *plain) == 0);
    CHECK(t.arena.high < high);
    free(plain);
    tape_free(&t);
    model_release(m);
  }
  pool_free(pool);
}

static void check_estimate(const char *what, size_t took, size_t said) {
  if (fabs((double)said - (double)took) > 0.02 * (double)took)
    test_fail(__FILE__, __LINE__, "%s: took %zu, said %zu", what, took, said);
}

/* The bytes of the tape's arena that forward and backward take of groups of 8 completions of 3 to
 * 24 tokens on prompts of 30, or, without training, the forward. */
static size_t arena_of_step(Model *m, int groups, bool train) {
  enum { MOST = 24, G = 8 };
  PackGroup g[MOST];
  int32_t ids[64];
  const int32_t *completion[G];
  int len[G];
  Tape t;
  Pack p;
  Tensor *h, *out;
  some_ids(ids, 64, model_config(m)->vocab_size, 1);
  for (int i = 0; i < G; i++) completion[i] = ids + i, len[i] = 3 + 3 * i;
  for (int i = 0; i < groups; i++) g[i] = (PackGroup){ids, 30, G, completion, len, 0, 0};
  OK(tape_init(&t, m->pool));
  OK(pack_groups(&t.arena, model_config(m), groups, g, &p));
  OK(forward_hidden(m, &t, &p, &h));
  OK(forward_logp(m, &t, &p, h, 1, NULL, NULL, &out));
  real *seed = calloc(out->n, sizeof *seed);
  if (train) OK(tape_backward_from(&t, out, seed));
  free(seed);
  const size_t bytes = t.arena.high;
  tape_free(&t);
  return bytes;
}

/* An outline of the model takes exactly as much, in no memory. */
static void check_step_bytes(Model *m, int groups, bool train, bool checkpointing) {
  OK(model_set_trainable(m, train));
  model_set_checkpointing(m, checkpointing);
  const size_t took = arena_of_step(m, groups, train), live = mem_live_bytes();
  Model *outline;
  mem_measure_begin();
  OK(model_outline(&outline, m, NULL));
  OK(model_set_trainable(outline, train));
  model_set_checkpointing(outline, checkpointing);
  const size_t said = arena_of_step(outline, groups, train);
  model_release(outline);
  CHECK(mem_live_bytes() == 0);
  mem_measure_end();
  CHECK(mem_live_bytes() == live);
  if (said != took)
    test_fail(__FILE__, __LINE__, "%s, training %d, checkpointing %d: took %zu, said %zu",
              config_model_type(model_config(m)), train, checkpointing, took, said);
}

TEST_BOTH(step_bytes_is_what_a_step_takes) {
#define WIDE(type, more)                                                                           \
  "{\"model_type\":\"" type "\",\"vocab_size\":2000,\"num_hidden_layers\":4,"                      \
  "\"max_position_embeddings\":128,\"num_attention_heads\":4,\"hidden_size\":" more "}"
  static const char *const wide[] = {
      "{\"model_type\":\"gpt2\",\"vocab_size\":2000,\"n_embd\":96,\"n_layer\":4,\"n_head\":3,"
      "\"n_positions\":128}",
      WIDE("llama", "128,\"intermediate_size\":344,\"num_key_value_heads\":2"),
      WIDE("llama", "96,\"intermediate_size\":200,\"head_dim\":32"),
      WIDE("qwen2", "128,\"intermediate_size\":256,\"num_key_value_heads\":1"),
      WIDE("qwen3", "96,\"intermediate_size\":200,\"num_key_value_heads\":2,\"head_dim\":48"),
      WIDE("qwen3", "128,\"intermediate_size\":384,\"num_key_value_heads\":4,\"head_dim\":32"),
      WIDE("gemma2", "96,\"intermediate_size\":384,\"num_key_value_heads\":2,\"head_dim\":32"),
      WIDE("gemma3_text",
           "128,\"intermediate_size\":256,\"num_key_value_heads\":1,\"head_dim\":32"),
      WIDE("phi3", "128,\"intermediate_size\":256,\"num_key_value_heads\":4"),
      WIDE("phi3", "128,\"intermediate_size\":344,\"num_key_value_heads\":2"),
      WIDE("deepseek_v2",
           "128,\"intermediate_size\":344,\"first_k_dense_replace\":4,\"q_lora_rank\":64,"
           "\"kv_lora_rank\":48,\"qk_nope_head_dim\":32,\"qk_rope_head_dim\":16,"
           "\"v_head_dim\":32"),
      "{\"model_type\":\"gpt2_mla\",\"vocab_size\":2000,\"n_embd\":96,\"n_layer\":4,\"n_head\":3,"
      "\"n_positions\":128,\"kv_lora_rank\":64,\"qk_nope_head_dim\":32,\"qk_rope_head_dim\":16,"
      "\"v_head_dim\":24}"};
  Pool *pool;
  REQUIRE(pool_new(&pool, 2));
  for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
    Model *m = small_model(wide[i], pool, 1);
    for (int groups = 8; groups <= 24; groups += 16) {
      check_step_bytes(m, groups, false, false);
      check_step_bytes(m, groups, true, false);
      check_step_bytes(m, groups, true, true);
    }
    model_release(m);
  }
  pool_free(pool);
}

TEST_BOTH(weight_bytes_is_what_a_model_takes) {
  static const char *const shape =
      "{\"model_type\":\"llama\",\"vocab_size\":8000,\"hidden_size\":512,"
      "\"intermediate_size\":1376,\"num_hidden_layers\":4,\"num_attention_heads\":8}";
  Config c;
  Model *m;
  size_t took[2], said = 0;
  config_of(&c, shape);
  OK(model_new_bytes(&c, &said));
  for (int taken = 0; taken < 2; taken++) {
    Optimizer *o;
    OptimizerOptions options;
    if (!taken) mem_measure_begin();
    const size_t before = mem_live_bytes();
    REQUIRE(model_new(&m, NULL, &c, 1));
    if (taken) check_estimate("frozen", mem_live_bytes() - before, said);
    OK(model_set_compute(m, test_compute));
    REQUIRE(model_set_trainable(m, true));
    optimizer_options_init(&options);
    REQUIRE(optimizer_new(&o, m, &options));
    took[taken] = mem_live_bytes() - before;
    optimizer_free(o);
    model_release(m);
    CHECK(mem_live_bytes() == before);
    if (!taken) mem_measure_end();
  }
  check_estimate("trainable", took[1], took[0]);
}

/* ---- training on and off --------------------------------------------------------------------- */

static void try_switching(Model *m, bool on) {
  Status s = GRPO_ENOMEM;
  for (uint64_t n = 1; s == GRPO_ENOMEM; n++) {
    mem_fail_after(n);
    s = model_set_trainable(m, on);
    mem_fail_after(0);
    const bool is = s == GRPO_OK ? on : !on;
    CHECK(m->trainable == is && (m->grads != NULL) == is && (m->param[0].t.grad != NULL) == is);
  }
  CHECK(s == GRPO_OK);
}

TEST_BOTH(out_of_memory_leaves_it_trainable_or_not_as_it_was) {
  static const char *const *const shapes[] = {&tiny_gpt2, &tiny_llama};
  for (int k = 0; k < 2; k++) {
    static Batch b;
    static real logp[2][512];
    Model *m[2];
    Tape t;
    OK(tape_init(&t, NULL));
    for (int i = 0; i < 2; i++) {
      m[i] = small_model(*shapes[k], NULL, 6);
      try_switching(m[i], true);
      if (i) try_switching(m[i], false), try_switching(m[i], true);
      batch_init(&b, model_config(m[i])->vocab_size);
      REQUIRE(backward(m[i], &t, b.group, GROUPS, 0, logp[i]));
    }
    CHECK(!memcmp(logp[0], logp[1], (size_t)b.tokens * sizeof **logp));
    CHECK(!memcmp(m[0]->grads, m[1]->grads, m[0]->weight_reals * sizeof(real)));
    tape_free(&t);
    for (int i = 0; i < 2; i++) model_release(m[i]);
  }
}

TEST(panels_stay_where_training_reads_no_others) {
  Model *m = small_model(tiny_llama, NULL, 6);
  OK(panels_renew(m, &(Ctx){0}));
  OK(model_set_trainable(m, true));
  CHECK(!m->panels.stale);
  OK(model_set_trainable(m, false));
  CHECK(!m->panels.stale);
  model_release(m);
}

/* ---- copies ---------------------------------------------------------------------------------- */

TEST_BOTH(a_clone_is_equal_frozen_and_independent) {
  Model *m = small_model(tiny_gpt2, NULL, 6), *copy;
  OK(model_set_trainable(m, true));
  REQUIRE(model_copy(&copy, m));
  const Param *p = model_find(m, "transformer.h.1.mlp.c_fc.weight");
  const Param *q = model_find(copy, "transformer.h.1.mlp.c_fc.weight");
  CHECK(p && q && p != q && p->t.data != q->t.data && p->in_out && !q->t.needs_grad);
  CHECK(!memcmp(p->t.data, q->t.data, p->t.n * sizeof(real)));
  p->t.data[5] = 3;
  q->t.data[5] = 1;
  OK(model_copy_lerp(copy, m, 0.25, &(Ctx){0}));
  CHECK_NEAR(q->t.data[5], 1.5, 1e-6);
  Model *other = small_model(tiny_llama, NULL, 1);
  REFUSED(model_copy_weights(copy, other), GRPO_ESHAPE, "different shapes");
  CHECK(model_find(m, "nothing") == NULL && model_count(m) > 0);
  model_release(m);
  model_release(model_retain(copy));
  model_release(copy);
  model_release(other);
}

TEST(initial_weights_depend_on_the_seed_alone) {
  Pool *pool;
  Config c;
  Model *a, *b, *other;
  REQUIRE(pool_new(&pool, 2));
  config_of(&c, tiny_gpt2);
  REQUIRE(model_new(&a, NULL, &c, 1));
  REQUIRE(model_new(&b, pool, &c, 1));
  REQUIRE(model_new(&other, NULL, &c, 2));
  double sq[2] = {0};
  const Param *fc = model_find(a, "transformer.h.0.mlp.c_fc.weight");
  const Param *proj = model_find(a, "transformer.h.0.mlp.c_proj.weight");
  for (int i = 0; i < model_num_params(a); i++) {
    const Tensor *x = &model_param(a, i)->t, *y = &model_param(b, i)->t;
    CHECK(!memcmp(x->data, y->data, x->n * sizeof(real)));
  }
  CHECK(memcmp(fc->t.data, model_find(other, fc->name)->t.data, 64) != 0);
  sq[0] = sqrt(vec_sumsq(&(Ctx){0}, fc->t.n, fc->t.data) / (double)fc->t.n);
  sq[1] = sqrt(vec_sumsq(&(Ctx){0}, proj->t.n, proj->t.data) / (double)proj->t.n);
  CHECK_NEAR(sq[0], 0.2, 0.01);
  CHECK_NEAR(sq[1], 0.2 / sqrt(6), 0.005);
  model_release(a);
  model_release(b);
  model_release(other);
  pool_free(pool);
}
