/* Adapters: what they change, what they leave alone, merging, saving. */
#include "base/mem.h"
#include "checkpoint/peft.h"
#include "checkpoint/save.h"
#include "checkpoint/weights.h"
#include "kern/dispatch.h"
#include "model/decode.h"
#include "model/forward.h"
#include "model/frozen.h"
#include "model/lora.h"
#include "model/lora_merge.h"
#include "model/model_copy.h"
#include "model/modeltest.h"
#include "model/optimizer.h"
#include "model/panels.h"

static double norm_of(Optimizer *o, const Ctx *cx) {
  double norm = -1;
  OK(optimizer_grad_norm(o, cx, &norm));
  return norm;
}

static const char *const all_linear[] = {"all-linear"};

/* An adapter whose B is not zero, so that it matters. */
static void fill_adapter(Model *m, uint64_t seed, double size) {
  for (int i = 0; i < model_num_params(m); i++) {
    Param *p = model_param(m, i);
    const RngKey key = {.seed = seed, .stream = RNG_USER, .prompt = (uint32_t)i};
    if (!strstr(p->name, ".lora_")) continue;
    for (size_t k = 0; k < p->t.n; k++) p->t.data[k] = (real)(size * rng_normal(&key, k));
  }
  model_updated(m);
}

static Model *adapted_targets(const char *shape, int n, const char *const *targets) {
  Model *m = small_model(shape, NULL, 7);
  const LoraOptions o = {.rank = 3, .alpha = 6, .ntargets = n, .targets = targets};
  OK(lora_add(m, &o, 5));
  fill_adapter(m, 9, 0.15);
  return m;
}
static Model *adapted(const char *shape) { return adapted_targets(shape, 1, all_linear); }

enum { LEN = 23 };

static real *some_logits(Model *m) {
  int32_t ids[LEN];
  some_ids(ids, LEN, model_config(m)->vocab_size, 11);
  return plain_logits(m, ids, LEN);
}

static bool same_logits(Model *a, Model *b) {
  real *x = some_logits(a), *y = some_logits(b);
  const bool same = memcmp(x, y, LEN * (size_t)model_config(a)->vocab_size * sizeof *x) == 0;
  free(x), free(y);
  return same;
}

static double logits_distance(Model *a, Model *b) {
  real *x = some_logits(a), *y = some_logits(b);
  const double d = worst_difference(x, y, LEN * (size_t)model_config(a)->vocab_size);
  free(x), free(y);
  return d;
}

/* ---- making ---------------------------------------------------------------------- */

static void check_fresh(const char *shape) {
  Model *m = small_model(shape, NULL, 7), *plain = small_model(shape, NULL, 7);
  const LoraOptions o = {.rank = 4, .alpha = 8, .ntargets = 1, .targets = all_linear};
  OK(model_set_trainable(m, true));
  OK(lora_add(m, &o, 5));
  CHECK(lora_attached(m) && lora_rank(m) == 4 && model_count_trainable(m) == 0);
  CHECK(same_logits(m, plain));
  OK(model_set_trainable(m, true));
  uint64_t n = 0;
  for (int i = 0; i < model_num_params(m); i++) {
    const Param *p = model_param(m, i);
    const bool own = strstr(p->name, ".lora_");
    CHECK(p->trainable == own && p->t.needs_grad == own && !p->t.grad == !own);
    CHECK(model_find(m, p->name) == p && model_trains(m, i) == own);
    n += own ? p->t.n : 0;
  }
  CHECK(n > 0 && model_count_trainable(m) == n && model_count(m) == model_count(plain) + n);
  fill_adapter(m, 9, 0.15);
  CHECK(!same_logits(m, plain));
  CHECK(lora_switch(m, false));
  CHECK(same_logits(m, plain));
  CHECK(!lora_switch(m, true));
  CHECK(!same_logits(m, plain));
  model_release(m);
  model_release(plain);
}

TEST(a_fresh_adapter_changes_nothing_and_is_all_that_trains) {
  check_fresh(tiny_llama);
  check_fresh(biased_llama);
  check_fresh(tiny_gpt2);
}

TEST(a_takes_its_numbers_from_the_seed_within_its_bound) {
  Model *a = small_model(tiny_llama, NULL, 1), *b = small_model(tiny_llama, NULL, 1);
  const LoraOptions o = {.rank = 8, .alpha = 8, .ntargets = 1, .targets = all_linear};
  OK(lora_add(a, &o, 5));
  OK(lora_add(b, &o, 6));
  const Param *p = model_find(a, "model.layers.1.mlp.down_proj.lora_A.weight");
  const Param *q = model_find(b, "model.layers.1.mlp.down_proj.lora_A.weight");
  const Param *up = model_find(a, "model.layers.1.mlp.down_proj.lora_B.weight");
  CHECK(p && q && up && p->t.dim[0] == 8 && p->t.dim[1] == 88 && up->t.dim[0] == 64);
  const double bound = 1 / sqrt(88), top = largest_of(p->t.data, p->t.n);
  CHECK(top <= bound && top > 0.98 * bound);
  CHECK(memcmp(p->t.data, q->t.data, p->t.n * sizeof(real)) != 0);
  CHECK(largest_of(up->t.data, up->t.n) == 0);
  model_release(a);
  model_release(b);
}

TEST(targets_that_match_nothing_are_named_with_what_exists) {
  Model *m = small_model(tiny_gpt2, NULL, 1);
  static const char *const wrong[] = {"c_attn", "q_proj"}, *const none[] = {"wpe"};
  LoraOptions o = {.rank = 4, .alpha = 8, .ntargets = 2, .targets = wrong};
  REFUSED(lora_add(m, &o, 0), GRPO_EARG,
          "'q_proj' matches nothing in this model; it has wte, c_attn, c_proj, c_fc, lm_head");
  o = (LoraOptions){.rank = 4, .alpha = 8, .ntargets = 1, .targets = none};
  REFUSED(lora_add(m, &o, 0), GRPO_EARG, "'wpe' matches nothing");
  o = (LoraOptions){.rank = 0, .alpha = 8, .ntargets = 1, .targets = all_linear};
  REFUSED(lora_add(m, &o, 0), GRPO_EARG, "lora.rank");
  o = (LoraOptions){.rank = 1, .alpha = 8, .dropout = 1, .ntargets = 1, .targets = all_linear};
  REFUSED(lora_add(m, &o, 0), GRPO_EARG, "lora.dropout");
  CHECK(!lora_attached(m));
  o.dropout = 0;
  OK(lora_add(m, &o, 0));
  REFUSED(lora_add(m, &o, 0), GRPO_EARG, "has an adapter already");
  model_release(m);
}

/* ---- merging --------------------------------------------------------------------- */

typedef struct Greedy {
  int32_t ids[3][24];
  double margin; /* the smallest between the best and the second-best logit */
} Greedy;

/* The top two of the last row, after prompt and what came so far. */
static double margin_at(Model *m, Tape *t, const int32_t *ids, int n) {
  int32_t pos[64];
  const PackSpan span = {0, n, -1};
  const Pack p = {.nrows = n, .ids = ids, .pos = pos, .nspans = 1, .spans = &span};
  const int v = model_config(m)->vocab_size;
  Tensor *out = NULL;
  real best = -INFINITY, second = -INFINITY;
  for (int i = 0; i < n; i++) pos[i] = i;
  tape_reset(t);
  OK(forward_logits(m, t, &p, &out));
  for (int i = 0; i < v; i++) {
    const real z = out->data[(size_t)(n - 1) * (size_t)v + (size_t)i];
    if (z > best) {
      second = best;
      best = z;
    } else if (z > second) {
      second = z;
    }
  }
  return (double)best - (double)second;
}

static void greedy(Model *m, Greedy *g) {
  enum { PROMPT = 9, NEW = 24 };
  int32_t prompt[3][PROMPT + NEW];
  float logp[3][NEW];
  Request r[3];
  Completion out[3] = {0};
  Decoder *d;
  Sampling s;
  Tape t;
  ((Config *)(uintptr_t)model_config(m))->num_eos = 0;
  for (int i = 0; i < 3; i++) {
    some_ids(prompt[i], PROMPT, model_config(m)->vocab_size, 20 + (uint64_t)i);
    r[i] = (Request){prompt[i], PROMPT, 1, {0}, NULL, 0};
    out[i].ids = g->ids[i];
    out[i].logp = logp[i];
  }
  sampling_init(&s);
  s.temperature = 0;
  s.max_new_tokens = NEW;
  REQUIRE(decoder_new(&d, m, NULL, &(DecoderLimits){3, 3, 64, NEW}));
  REQUIRE(decoder_run(d, 3, r, &s, out, NULL));
  decoder_free(d);
  OK(tape_init(&t, NULL));
  t.off = true;
  g->margin = INFINITY;
  for (int i = 0; i < 3; i++)
    for (int k = 0; k < NEW; k++) {
      g->margin = fmin(g->margin, margin_at(m, &t, prompt[i], PROMPT + k));
      prompt[i][PROMPT + k] = g->ids[i][k];
    }
  tape_free(&t);
}

static void check_merge(Model *m, const char *name) {
  Greedy with, merged;
  Arena arena = {0};
  Model *view, *copy;
  REQUIRE(model_copy(&copy, m));
  greedy(m, &with);
  REFUSED(lora_merge(m), GRPO_EARG, "shared with a frozen view");
  model_release(copy);
  REQUIRE(model_view(&view, m));
  CHECK(!same_logits(view, m));
  model_release(view);
  OK(lora_merge(m));
  CHECK(!lora_attached(m));
  greedy(m, &merged);
  CHECK(memcmp(with.ids, merged.ids, sizeof with.ids) == 0);
  printf("# %s: merged, the same 72 greedy tokens; smallest top-2 margin %.3g (%.3g merged)\n",
         name, with.margin, merged.margin);
  arena_free(&arena);
  model_release(m);
}

TEST(merged_weights_generate_what_the_adapter_generates) {
  check_merge(adapted(tiny_llama), "llama");
  check_merge(adapted(biased_llama), "llama with biases");
  check_merge(adapted(tiny_gpt2), "gpt2");
}

static void check_oracle_merge(const char *name) {
  Model *m = NULL;
  if (!test_oracle(name)) return;
  REQUIRE(weights_load(&m, NULL, test_path("%s/oracles/models/%s/checkpoint", test_shared(), name),
                       STORE_F32));
  OK(peft_load(m, test_path("%s/oracles/models/%s/adapter", test_shared(), name)));
  check_merge(m, name);
}

TEST(so_do_the_oracles_adapters) {
  static const char *const names[] = {"llama",           "llama_linear_sharded_bf16",
                                      "smollm_bf16",     "gpt2",
                                      "qwen2",           "qwen3",
                                      "mistral_f16",     "qwen3_newconfig_bf16",
                                      "mistral_window",  "gemma2",
                                      "gemma3_text_bf16"};
  NEEDS_ORACLES;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) check_oracle_merge(names[i]);
}

TEST(a_saved_model_has_the_adapter_in_its_weights) {
  Model *m = adapted(tiny_gpt2), *again;
  Arena arena = {0};
  OK(save_model(m, test_path("%s/merged", test_tmp()), WEIGHT_F32, 0));
  OK(lora_merge(m));
  REQUIRE(weights_load(&again, NULL, test_path("%s/merged", test_tmp()), STORE_F32));
  CHECK(same_logits(m, again));
  arena_free(&arena);
  model_release(again);
  model_release(m);
}

/* Greedy tokens' recorded log-probabilities against those of the training forward. */
static bool decoded_like_trained(Model *m) {
  enum { PROMPT = 9, NEW = 12 };
  int32_t prompt[PROMPT], ids[NEW];
  float logp[NEW];
  const Request r = {prompt, PROMPT, 1, {.seed = 3, .stream = RNG_SAMPLE}, NULL, 0};
  Completion out = {.ids = ids, .logp = logp};
  Decoder *d;
  Sampling s;
  Tape t;
  Pack p;
  Tensor *hidden, *y;
  ((Config *)(uintptr_t)model_config(m))->num_eos = 0;
  some_ids(prompt, PROMPT, model_config(m)->vocab_size, 31);
  sampling_init(&s);
  s.max_new_tokens = NEW;
  OK(decoder_new(&d, m, NULL, &(DecoderLimits){2, 2, 64, NEW}));
  OK(decoder_run(d, 1, &r, &s, &out, NULL));
  decoder_free(d);
  const int32_t *completion = ids;
  const PackGroup g = {prompt, PROMPT, 1, &completion, &out.len, 0, 0};
  OK(tape_init(&t, NULL));
  OK(pack_groups(&t.arena, model_config(m), 1, &g, &p));
  OK(forward_hidden(m, &t, &p, &hidden));
  OK(forward_logp(m, &t, &p, hidden, s.temperature, NULL, NULL, &y));
  const bool same = memcmp(y->data, logp, (size_t)out.len * sizeof *logp) == 0;
  tape_free(&t);
  return same;
}

/* ---- embedding and head ---------------------------------------------------------- */

/* Sampled and trained log-probabilities agree to the bit; a merged model is near. */
static void check_ends(const char *shape, const char *embedding, bool tied) {
  const char *targets[] = {embedding, "lm_head", tied ? "c_fc" : "up_proj"};
  Model *m = adapted_targets(shape, 3, targets), *plain = small_model(shape, NULL, 7), *half;
  Arena arena = {0};
  char a[64];
  snprintf(a, sizeof a, "%s.lora_embedding_A", tied ? "transformer.wte" : "model.embed_tokens");
  const Param *e = model_find(m, a);
  CHECK(e && e->t.dim[0] == 3 && e->t.dim[1] == model_config(m)->vocab_size);
  CHECK(model_find(m, "lm_head.lora_B.weight"));
  CHECK(!same_logits(m, plain));
  CHECK(decoded_like_trained(m));
  REQUIRE(model_copy(&half, m));
  CHECK(same_logits(half, m));
  model_release(half);
  OK(peft_save(m, test_path("%s/ends", test_tmp()), NULL));
  OK(peft_load(plain, test_path("%s/ends", test_tmp())));
  CHECK(same_logits(m, plain));
  if (tied) {
    REFUSED(lora_merge(m), GRPO_EARG, "the output projection is tied");
    REFUSED(save_model(m, test_tmp(), WEIGHT_F32, 0), GRPO_EARG, "the output projection is tied");
  } else {
    OK(lora_merge(m));
    CHECK(logits_distance(m, plain) < 2e-5);
  }
  arena_free(&arena);
  model_release(m);
  model_release(plain);
}

TEST(embedding_and_head_have_adapters_when_named) {
  check_ends(biased_llama, "embed_tokens", false);
  check_ends(tiny_gpt2, "wte", true);
}

/* ---- views and copies ------------------------------------------------------------ */

TEST(copies_of_an_adapted_model_share_its_base_and_keep_it_alive) {
  Model *m = adapted(tiny_llama), *plain = small_model(tiny_llama, NULL, 7), *copy, *view;
  real *before = some_logits(m);
  REQUIRE(model_copy(&copy, m));
  REQUIRE(model_view(&view, copy));
  CHECK(same_logits(view, plain));
  CHECK(same_logits(copy, m));
  CHECK(model_param(copy, 0)->t.data == model_param(m, 0)->t.data);
  fill_adapter(m, 77, 0.2);
  CHECK(!same_logits(copy, m));
  OK(model_copy_weights(copy, m));
  CHECK(same_logits(copy, m));
  REFUSED(model_copy_weights(view, m), GRPO_ESHAPE, "different adapters");
  REFUSED(model_set_trainable(view, true), GRPO_EARG, "frozen view");
  fill_adapter(copy, 9, 0.15);
  OK(model_copy_lerp(m, copy, 1, &(Ctx){0}));
  model_release(m);
  real *after = some_logits(copy);
  CHECK(memcmp(before, after, LEN * 101 * sizeof *after) == 0);
  free(before), free(after);
  model_release(copy);
  CHECK(same_logits(view, plain));
  model_release(view);
  model_release(plain);
}

/* ---- on compact weights ---------------------------------------------------------- */

static void check_compact(const char *shape, Storage storage) {
  Model *full = small_model(shape, NULL, 7), *m, *view;
  const LoraOptions o = {.rank = 3, .alpha = 6, .ntargets = 1, .targets = all_linear};
  Arena arena = {0};
  OK(save_model(full, test_path("%s/full", test_tmp()), WEIGHT_F32, 0));
  REQUIRE(weights_load(&m, NULL, test_path("%s/full", test_tmp()), storage));
  REFUSED(model_set_trainable(m, true), GRPO_EARG, "add an adapter");
  OK(lora_add(m, &o, 5));
  REQUIRE(model_view(&view, m));
  CHECK(same_logits(m, view));
  fill_adapter(m, 9, 0.15);
  CHECK(!same_logits(m, view));
  model_release(view);
  OK(model_set_trainable(m, true));
  CHECK(decoded_like_trained(m));
  OK(model_copy(&view, m));
  OK(save_model(m, test_path("%s/merged", test_tmp()), WEIGHT_F32, 0));
  CHECK(same_logits(m, view));
  OK(model_set_trainable(m, false));
  REFUSED(lora_merge(m), GRPO_EARG, "shared with a frozen view");
  real *before = some_logits(view);
  model_release(view);
  OK(lora_merge(m));
  CHECK(!frozen_any(m));
  real *after = some_logits(m);
  const double d = worst_difference(before, after, LEN * (size_t)model_config(m)->vocab_size);
  if (!(d < 5e-5))
    test_fail(__FILE__, __LINE__, "storage %d: merged logits differ by %g", storage, d);
  free(before), free(after);
  REQUIRE(weights_load(&view, NULL, test_path("%s/merged", test_tmp()), STORE_F32));
  CHECK(same_logits(m, view));
  model_release(view);
  arena_free(&arena);
  model_release(full);
  model_release(m);
}

TEST(adapters_lie_on_compact_weights_and_merge_into_float32) {
  for (Storage s = STORE_BF16; s <= STORE_NF4; s++) {
    check_compact(tiny_llama, s);
    check_compact(tiny_gpt2, s);
  }
}

/* ---- a float32 base is kept once ----------------------------------------------------- */

static bool same_values(const Model *a, const Model *b, int n) {
  for (int i = 0; i < n; i++) {
    const Param *p = &a->param[i], *q = &b->param[i];
    real *x = malloc(p->t.n * sizeof *x), *y = malloc(p->t.n * sizeof *y);
    OK(param_values(&(Ctx){0}, p, x));
    OK(param_values(&(Ctx){0}, q, y));
    const bool same = memcmp(x, y, p->t.n * sizeof *x) == 0;
    free(x), free(y);
    if (!same) return false;
  }
  return true;
}

/* Vocabularies that are not a multiple of a group, output projections tied and untied. */
TEST(a_float32_base_under_an_adapter_is_kept_once_with_the_same_bits) {
  const char *const shapes[] = {tiny_llama, tiny_gpt2, biased_llama};
  const LoraOptions o = {.rank = 3, .alpha = 6, .ntargets = 1, .targets = all_linear};
  for (int s = 0; s < 3; s++)
    for (int path = 0; kern_path(path); path++) {
      OK(kern_select(kern_path(path)));
      Model *m = small_model(shapes[s], NULL, 7), *plain = small_model(shapes[s], NULL, 7), *copy;
      OK(panels_renew(m, &(Ctx){0}));
      const size_t before = mem_live_bytes();
      OK(lora_add(m, &o, 5)); /* B is zero */
      OK(panels_renew(m, &(Ctx){0}));
      CHECK(frozen_is_packed_in_place(m) && (s == 1 || mem_live_bytes() < before));
      CHECK(m->param[0].t.quant == NULL || m->param[0].t.data == NULL);
      CHECK(same_logits(m, plain) && same_values(m, plain, m->nparams));
      OK(kern_select("generic")); /* panels of another path */
      Model *narrow = small_model(shapes[s], NULL, 7);
      CHECK(same_logits(m, narrow));
      OK(kern_select(kern_path(path)));
      OK(save_model(m, test_path("%s/a", test_tmp()), WEIGHT_F32, 0));
      REQUIRE(weights_load(&copy, NULL, test_path("%s/a", test_tmp()), STORE_F32));
      CHECK(same_values(copy, plain, m->nparams));
      OK(frozen_widen(m));
      CHECK(!frozen_any(m) && same_logits(m, plain) && same_values(m, plain, m->nparams));
      model_release(m), model_release(plain), model_release(copy), model_release(narrow);
    }
  OK(kern_select(NULL));
}

/* Gradients, and the panels that only they need (GPT-2's; in bf16, all). */
TEST_BOTH(what_training_a_base_took_is_given_back_to_an_adapter) {
  const char *const shapes[] = {tiny_llama, tiny_gpt2};
  const LoraOptions o = {.rank = 3, .alpha = 6, .ntargets = 1, .targets = all_linear};
  for (int s = 0; s < 2; s++)
    for (int path = 0; kern_path(path); path++) {
      size_t bytes[2];
      OK(kern_select(kern_path(path)));
      for (int trained = 0; trained < 2; trained++) {
        const size_t before = mem_live_bytes();
        Model *m = small_model(shapes[s], NULL, 7);
        if (trained) {
          OK(model_set_trainable(m, true));
          OK(panels_renew(m, &(Ctx){0}));
        }
        OK(lora_add(m, &o, 5));
        OK(model_set_trainable(m, true));
        OK(panels_renew(m, &(Ctx){0}));
        for (int i = 0; i < m->nparams; i++) {
          const Panels *p = m->param[i].t.prepared;
          CHECK((!p || !p->transposed) && !m->param[i].t.grad);
        }
        bytes[trained] = mem_live_bytes() - before;
        model_release(m);
      }
      CHECK(bytes[1] < bytes[0] + 1024); /* malloc may give a little more than it was asked for */
    }
  OK(kern_select(NULL));
}

TEST(a_base_packed_in_place_is_copied_set_and_mixed_like_any_other) {
  const LoraOptions o = {.rank = 3, .alpha = 6, .ntargets = 1, .targets = all_linear};
  Model *m = small_model(tiny_llama, NULL, 7), *n = small_model(tiny_llama, NULL, 8), *view;
  Model *a = small_model(tiny_llama, NULL, 7), *b = small_model(tiny_llama, NULL, 8);
  OK(lora_add(m, &o, 5));
  OK(lora_add(n, &o, 5));
  OK(model_copy_lerp(m, n, 0.25, &(Ctx){0}));
  OK(model_copy_lerp(a, b, 0.25, &(Ctx){0}));
  CHECK(same_values(m, a, m->nparams) && same_logits(m, a));
  OK(model_copy_weights(m, n));
  CHECK(same_values(m, b, m->nparams) && same_logits(m, b));
  real *w = malloc(a->param[1].t.n * sizeof *w);
  OK(param_values(&(Ctx){0}, &a->param[1], w));
  OK(param_set(&(Ctx){0}, &m->param[1], w));
  OK(param_set(&(Ctx){0}, &b->param[1], w));
  model_updated(b);
  CHECK(same_logits(m, b));
  REQUIRE(model_view(&view, m));
  model_release(n);
  OK(model_copy(&n, view)); /* its own */
  model_release(view);
  OK(model_set_trainable(n, true));
  CHECK(!frozen_any(n) && same_logits(n, b));
  free(w);
  model_release(m), model_release(n), model_release(a), model_release(b);
}

TEST(a_model_that_others_hold_is_left_where_it_is) {
  const LoraOptions o = {.rank = 3, .alpha = 6, .ntargets = 1, .targets = all_linear};
  Model *m = small_model(tiny_llama, NULL, 7);
  const real *w = m->param[0].t.data, first = w[0];
  model_retain(m);
  OK(lora_add(m, &o, 5));
  CHECK(!frozen_is_packed_in_place(m) && m->param[0].t.data == w && w[0] == first);
  model_release(m);
  model_release(m);
}

/* ---- on disk --------------------------------------------------------------------- */

static void check_reload(const char *shape, const LoraOptions *o) {
  static const char *const files[] = {"adapter_config.json", "adapter_model.safetensors"};
  Model *m = small_model(shape, NULL, 7), *again = small_model(shape, NULL, 7);
  REQUIRE(lora_add(m, o, 5));
  fill_adapter(m, 9, 0.15);
  OK(peft_save(m, test_path("%s/a", test_tmp()), "some/base"));
  REQUIRE(peft_load(again, test_path("%s/a", test_tmp())));
  CHECK(same_logits(m, again));
  CHECK(lora_dropout(again) == o->dropout && lora_rank(again) == o->rank);
  OK(peft_save(again, test_path("%s/b", test_tmp()), NULL));
  for (int i = 0; i < 2; i++) {
    char *a = strdup(test_path("%s/a/%s", test_tmp(), files[i]));
    CHECK(same_file(a, test_path("%s/b/%s", test_tmp(), files[i])));
    free(a);
  }
  model_release(m);
  model_release(again);
}

TEST(an_adapter_saved_and_loaded_is_the_same_to_the_bit) {
  static const char *const two[] = {"v_proj", "self_attn.q_proj"}, *const c[] = {"c_proj"};
  /* the module of LFM3's gate has another name than its tensor */
  check_reload(tiny_lfm3,
               &(LoraOptions){.rank = 3, .alpha = 6, .ntargets = 1, .targets = all_linear});
  check_reload(tiny_llama,
               &(LoraOptions){.rank = 4, .alpha = 7.5, .ntargets = 1, .targets = all_linear});
  check_reload(tiny_llama, &(LoraOptions){.rank = 5,
                                          .alpha = 3,
                                          .dropout = 0.125,
                                          .use_rslora = true,
                                          .ntargets = 2,
                                          .targets = two});
  check_reload(tiny_gpt2,
               &(LoraOptions){.rank = 4, .alpha = 8, .ntargets = 1, .targets = all_linear});
  check_reload(tiny_gpt2, &(LoraOptions){.rank = 1, .alpha = 8, .ntargets = 1, .targets = c});
}

TEST(out_of_memory_leaves_the_model_as_it_was) {
  Model *m = adapted(tiny_gpt2), *n = small_model(tiny_gpt2, NULL, 7), *copy;
  Arena arena = {0};
  char dir[4096];
  snprintf(dir, sizeof dir, "%s/oom", test_tmp());
  OK(peft_save(m, dir, NULL));
  Status s = GRPO_ENOMEM;
  int attempts = 0;
  for (; s == GRPO_ENOMEM; attempts++) {
    mem_fail_after((uint64_t)attempts + 1);
    s = peft_load(n, dir);
    mem_fail_after(0);
    CHECK(s != GRPO_ENOMEM || !lora_attached(n));
  }
  CHECK(s == GRPO_OK && attempts > 10 && same_logits(m, n));
  for (s = GRPO_ENOMEM, attempts = 0; s == GRPO_ENOMEM; attempts++) {
    mem_fail_after((uint64_t)attempts + 1);
    s = model_copy(&copy, m);
    mem_fail_after(0);
  }
  CHECK(s == GRPO_OK && attempts > 10 && same_logits(m, copy));
  model_release(copy);
  for (s = GRPO_ENOMEM, attempts = 0; s == GRPO_ENOMEM; attempts++) {
    CHECK(same_logits(m, n));
    mem_fail_after((uint64_t)attempts + 1);
    s = lora_merge(m);
    mem_fail_after(0);
  }
  CHECK(s == GRPO_OK && attempts > 1);
  arena_free(&arena);
  model_release(m);
  model_release(n);
}

/* ---- the optimizer --------------------------------------------------------------- */

TEST(adamw_moves_the_adapter_alone_and_its_state_returns) {
  Model *m = adapted(tiny_llama), *n = adapted(tiny_llama),
        *plain = small_model(tiny_llama, NULL, 7);
  OptimizerOptions o;
  Optimizer *a, *b;
  Arena arena = {0};
  const Ctx cx = {.arena = &arena};
  char path[4096];
  snprintf(path, sizeof path, "%s/optimizer.safetensors", test_tmp());
  optimizer_options_init(&o);
  OK(model_set_trainable(m, true));
  OK(model_set_trainable(n, true));
  REQUIRE(optimizer_new(&a, m, &o));
  REQUIRE(optimizer_new(&b, n, &o));
  random_gradients(m, 1);
  OK(optimizer_step(a, &cx, 1e-2, 0, 0));
  OK(optimizer_save(a, path));
  OK(optimizer_load(b, path));
  OK(model_copy_weights(n, m));
  random_gradients(m, 2), random_gradients(n, 2);
  CHECK(norm_of(a, &cx) == norm_of(b, &cx));
  OK(optimizer_step(a, &cx, 1e-2, 1, 5));
  OK(optimizer_step(b, &cx, 1e-2, 1, 5));
  CHECK(same_logits(m, n));
  CHECK(logits_distance(m, plain) > 0.01);
  lora_switch(m, false);
  CHECK(same_logits(m, plain));
  Safetensors f;
  REQUIRE(safetensors_open(&f, path));
  CHECK((int)f.count == 2 * 2 * 7 * 3);
  CHECK(safetensors_find(&f, "model.layers.2.mlp.up_proj.lora_B.weight.exp_avg_sq"));
  safetensors_close(&f);
  OK(lora_merge(m)); /* an optimizer without its parameters stops, and does no harm */
  OK(model_set_trainable(m, true));
  REFUSED(optimizer_step(a, &cx, 1e-2, 0, 0), GRPO_EARG, "are not those it was made for");
  optimizer_free(a);
  optimizer_free(b);
  arena_free(&arena);
  model_release(m);
  model_release(n);
  model_release(plain);
}
