/* Compact storages: the same bits as float32 with the same values, shared, saved, refused. */
#include "base/half.h"
#include "base/mem.h"
#include "checkpoint/save.h"
#include "checkpoint/weights.h"
#include "model/forward.h"
#include "model/frozen.h"
#include "model/layout.h"
#include "model/lora.h"
#include "model/lora_merge.h"
#include "model/model_copy.h"
#include "model/model_memory.h"
#include "model/model_struct.h"
#include "model/modeltest.h"
#include "model/panels.h"
#include "model/resize.h"

enum { TOKENS = 24 };

/* Wider than tiny_llama, so that panels, blocks of 64 and rows of blocks are all there. */
static const char *const untied_llama =
    "{\"model_type\":\"llama\",\"vocab_size\":203,\"hidden_size\":96,\"intermediate_size\":136,"
    "\"num_hidden_layers\":2,\"num_attention_heads\":6,\"num_key_value_heads\":2,\"head_dim\":16,"
    "\"max_position_embeddings\":96,\"initializer_range\":0.2,\"tie_word_embeddings\":false}";

static const char *shape(int k) {
  return k == 0 ? tiny_gpt2 : k == 1 ? tiny_llama : k == 2 ? biased_llama : untied_llama;
}
enum { SHAPES = 4 };

/* A checkpoint of this shape in this type; its directory. */
static const char *saved(int k, WeightType type, uint64_t shard_bytes) {
  const char *dir = test_path("%s/saved-%d-%d", test_tmp(), k, (int)type);
  Model *m = small_model(shape(k), NULL, 7);
  OK(save_model(m, dir, type, shard_bytes));
  model_release(m);
  return dir;
}

static Model *loaded(const char *dir, Storage storage) {
  Model *m = NULL;
  OK(weights_load(&m, NULL, dir, storage));
  return m;
}

/* Logits of all but the last token of a sequence. */
static void logits_of(Model *m, real *out /* [TOKENS - 1, vocab] */) {
  int32_t ids[TOKENS];
  const PackGroup g = {ids,        TOKENS - 1, 1, (const int32_t *const[]){ids + TOKENS - 1},
                       (int[]){1}, 0,          0};
  Tensor *logits;
  Tape t;
  Pack p;
  some_ids(ids, TOKENS, 97, 3); /* in every vocabulary here */
  OK(tape_init(&t, NULL));
  t.off = true;
  OK(pack_groups(&t.arena, model_config(m), 1, &g, &p));
  REQUIRE(forward_logits(m, &t, &p, &logits));
  memcpy(out, logits->data, logits->n * sizeof *out);
  tape_free(&t);
}

static bool same_logits(Model *a, Model *b) {
  static real x[TOKENS * 256], y[TOKENS * 256];
  const size_t n = (TOKENS - 1) * (size_t)model_config(a)->vocab_size;
  memset(x, 0, sizeof x);
  memset(y, 1, sizeof y);
  logits_of(a, x);
  logits_of(b, y);
  return memcmp(x, y, n * sizeof *x) == 0;
}

/* ---- the same bits ------------------------------------------------------------------- */

TEST(a_checkpoint_kept_as_it_is_gives_the_bits_of_float32) {
  static const WeightType types[] = {WEIGHT_F32, WEIGHT_F16, WEIGHT_BF16};
  for (int k = 0; k < SHAPES; k++)
    for (int t = 0; t < 3; t++) {
      const char *dir = saved(k, types[t], t == 1 ? 20000 : 0);
      Model *wide = loaded(dir, STORE_F32), *compact = loaded(dir, STORE_AUTO);
      CHECK(!frozen_any(wide) && frozen_any(compact));
      CHECK(compact->t[M_EMBED]->quant && !compact->t[M_EMBED]->data);
      CHECK(compact->t[M_NORM_W]->data && !compact->t[M_NORM_W]->quant);
      CHECK(!compact->t[M_POSITION] || compact->t[M_POSITION]->data);
      CHECK(same_logits(wide, compact));
      model_release(wide);
      model_release(compact);
    }
}

TEST(rounded_storages_give_the_bits_of_float32_with_their_values) {
  static const Storage storages[] = {STORE_BF16, STORE_INT8, STORE_NF4};
  for (int k = 0; k < SHAPES; k++)
    for (int s = 0; s < 3; s++) {
      const char *dir = saved(k, WEIGHT_F32, 0);
      Model *wide = loaded(dir, STORE_F32), *compact = loaded(dir, storages[s]);
      CHECK(!same_logits(wide, compact));
      OK(model_copy_weights(wide, compact));
      CHECK(same_logits(wide, compact));
      OK(frozen_widen(compact));
      CHECK(!frozen_any(compact) && compact->storage == STORE_F32);
      CHECK(same_logits(wide, compact));
      OK(model_set_trainable(compact, true));
      model_release(wide);
      model_release(compact);
    }
}

static double worst_error(Model *a, Model *b, int i) {
  const Param *p = model_param(a, i), *q = model_param(b, i);
  real *x = malloc(2 * p->t.n * sizeof *x), *y = x + p->t.n;
  OK(param_values(&(Ctx){0}, p, x));
  OK(param_values(&(Ctx){0}, q, y));
  const double worst = worst_difference(x, y, p->t.n) / largest_of(x, p->t.n);
  free(x);
  return worst;
}

TEST(only_projections_inside_layers_are_quantised) {
  for (int k = 0; k < SHAPES; k++) {
    const char *dir = saved(k, WEIGHT_BF16, 0);
    Model *wide = loaded(dir, STORE_F32), *q8 = loaded(dir, STORE_INT8);
    Model *q4 = loaded(dir, STORE_NF4);
    for (int i = 0; i < model_num_params(wide); i++) {
      const bool inside = layout_is_projection(wide, i) && layout_is_matrix(wide, i);
      const double e8 = worst_error(wide, q8, i), e4 = worst_error(wide, q4, i);
      CHECK(inside ? e8 > 0 && e8 < 0.005 : e8 == 0);
      CHECK(inside ? e4 > 0 && e4 < 0.17 : e4 == 0);
    }
    CHECK(q4->t[M_EMBED]->quant->type == QUANT_BF16 &&
          q4->layer[0].t[L_DOWN_W]->quant->type == QUANT_NF4);
    CHECK(q8->layer[1].t[L_O_W]->quant->type == QUANT_INT8);
    model_release(wide);
    model_release(q8);
    model_release(q4);
  }
}

/* ---- files ------------------------------------------------------------------------------ */

TEST(compact_models_are_saved_with_the_bytes_they_came_from) {
  static const WeightType types[] = {WEIGHT_F32, WEIGHT_F16, WEIGHT_BF16};
  for (int k = 0; k < SHAPES; k++)
    for (int t = 0; t < 3; t++) {
      const char *dir = saved(k, types[t], 0), *again = test_path("%s/again", test_tmp());
      Model *m = loaded(dir, STORE_AUTO);
      OK(save_model(m, again, types[t], 0));
      CHECK(same_file(test_path("%s/model.safetensors", dir),
                      test_path("%s/model.safetensors", again)));
      model_release(m);
    }
}

static bool same_matrix(const QuantWeight *a, const QuantWeight *b) {
  const size_t n = (size_t)a->n * (size_t)a->k, blocks = (n + NF4_BLOCK - 1) / NF4_BLOCK;
  const size_t nests = (blocks + NF4_NEST - 1) / NF4_NEST;
  uint8_t *x = calloc(2, n), *y = x + n;
  if (a->type != QUANT_NF4 || b->type != QUANT_NF4) return false;
  quant_nf4_export(a, x);
  quant_nf4_export(b, y);
  const bool same = !memcmp(x, y, (n + 1) / 2) && !memcmp(a->absmax, b->absmax, blocks) &&
                    !memcmp(a->scale, b->scale, nests * sizeof(float)) && a->offset == b->offset;
  free(x);
  return same;
}

/* Experts are never packed, as in transformers, and modules that look like packed ones but are not
 * are named. */
static void check_nf4_file(const char *shape, const char *plain, const char *module) {
  const char *dir = test_path("%s/apart", test_tmp());
  Model *m = small_model(shape, NULL, 7), *back = NULL;
  Safetensors f;
  Json *j = NULL;
  OK(save_model(m, dir, WEIGHT_NF4, 0));
  OK(safetensors_open(&f, test_path("%s/model.safetensors", dir)));
  const StTensor *t = safetensors_find(&f, plain);
  CHECK(t && t->type == ST_BF16);
  safetensors_close(&f);
  OK(json_read_file(test_path("%s/config.json", dir), 0, &j));
  const Json *list = json_get(json_get(j, "quantization_config"), "llm_int8_skip_modules");
  CHECK_STR(json_string(json_child(list)), "lm_head");
  CHECK_STR(json_string(json_next(json_child(list))), module);
  CHECK(json_count(list) == 2);
  OK(weights_load(&back, NULL, dir, STORE_NF4));
  json_free(j);
  model_release(m);
  model_release(back);
}

TEST(what_transformers_does_not_pack_is_not_packed) {
  check_nf4_file(tiny_qwen3_moe, "model.layers.0.mlp.experts.3.up_proj.weight", "mlp.gate");
  check_nf4_file(tiny_deepseek, "model.layers.1.self_attn.kv_b_proj.weight", "self_attn.kv_b_proj");
}

TEST(bitsandbytes_checkpoints_come_back_exactly) {
  for (int k = 0; k < SHAPES; k++)
    for (int shards = 0; shards < 2; shards++) {
      const char *dir = saved(k, WEIGHT_BF16, 0), *out = test_path("%s/nf4", test_tmp());
      const char *twice = test_path("%s/nf4-twice", test_tmp());
      Model *m = loaded(dir, STORE_NF4);
      OK(save_model(m, out, WEIGHT_NF4, shards ? 30000 : 0));
      Model *back = loaded(out, STORE_AUTO), *wide = loaded(out, STORE_F32);
      for (int i = 0; i < model_num_params(m); i++)
        if (layout_is_projection(m, i)) CHECK(same_matrix(m->quant[i], back->quant[i]));
      CHECK(same_logits(m, back) && same_logits(m, wide));
      OK(save_model(back, twice, WEIGHT_NF4, shards ? 30000 : 0));
      for (int i = 0; i < 2; i++) {
        const char *name = i        ? "config.json"
                           : shards ? "model-00001-of-00003.safetensors"
                                    : "model.safetensors";
        const char *a = test_path("%s/%s", out, name), *b = test_path("%s/%s", twice, name);
        CHECK(file_exists(a) == file_exists(b));
        if (file_exists(a)) CHECK(same_file(a, b));
      }
      /* from float32 weights: the same as from the compact ones they were made of */
      Model *plain = loaded(dir, STORE_F32);
      OK(save_model(plain, twice, WEIGHT_NF4, shards ? 30000 : 0));
      Model *direct = loaded(twice, STORE_AUTO);
      CHECK(same_logits(m, direct));
      model_release(m);
      model_release(back);
      model_release(wide);
      model_release(plain);
      model_release(direct);
      OK(file_remove_tree(out));
      OK(file_remove_tree(twice));
    }
}

/* ---- sharing ------------------------------------------------------------------------------ */

TEST(compact_weights_are_frozen_and_shared) {
  const char *dir = saved(3, WEIGHT_BF16, 0);
  const size_t before = mem_live_bytes();
  Model *m = loaded(dir, STORE_AUTO), *view, *copy, *wide = loaded(dir, STORE_F32);
  const size_t with = mem_live_bytes();
  REQUIRE(model_view(&view, m));
  REQUIRE(model_copy(&copy, m));
  CHECK(mem_live_bytes() - with <= 2 * (sizeof(Model) + 64));
  CHECK(same_logits(view, copy) && same_logits(view, m));
  REFUSED(model_set_trainable(m, true), GRPO_EARG, "dtype = \"f32\", or add an adapter");
  REFUSED(model_set_trainable(view, true), GRPO_EARG, "frozen view");
  REFUSED(model_copy_weights(m, wide), GRPO_EARG, "quantised weights");
  REFUSED(model_copy_lerp(view, wide, 0.5, &(Ctx){0}), GRPO_EARG, "view");
  REFUSED(frozen_widen(m), GRPO_EARG, "view");
  OK(model_copy_lerp(wide, m, 0.5, &(Ctx){0}));
  CHECK(same_logits(wide, m));
  model_release(m);
  CHECK(same_logits(view, copy));
  model_release(view);
  model_release(copy);
  model_release(wide);
  CHECK(mem_live_bytes() == before);
}

static Status one_step(Model *m, real *grad, size_t *n) {
  int32_t ids[32];
  const PackGroup g = {ids,           10, 2, (const int32_t *const[]){ids + 10, ids + 16},
                       (int[]){6, 9}, 0,  0};
  Tape t;
  Pack p;
  Tensor *h, *out;
  real seed[64];
  some_ids(ids, 32, model_config(m)->vocab_size, 5);
  for (int i = 0; i < 64; i++) seed[i] = (real)(i % 5 - 2);
  try(tape_init(&t, m->pool));
  try(model_set_trainable(m, true));
  model_zero_grad(m);
  try(pack_groups(&t.arena, model_config(m), 1, &g, &p));
  try(forward_hidden(m, &t, &p, &h));
  try(forward_logp(m, &t, &p, h, 0.7, NULL, NULL, &out));
  try(tape_backward_from(&t, out, seed));
  *n = 0;
  for (int i = 0; i < model_num_params(m); i++) {
    const Param *q = model_param(m, i);
    if (!q->trainable) continue;
    memcpy(grad + *n, q->t.grad, q->t.n * sizeof *grad);
    *n += q->t.n;
  }
  tape_free(&t);
  return GRPO_OK;
}

TEST(an_adapter_on_compact_weights_has_the_gradients_of_float32) {
  static const Storage storages[] = {STORE_AUTO, STORE_INT8, STORE_NF4};
  const LoraOptions o = {
      .rank = 4, .alpha = 8, .ntargets = 1, .targets = (const char *const[]){"all-linear"}};
  static real x[1 << 16], y[1 << 16];
  for (int k = 0; k < SHAPES; k++)
    for (int s = 0; s < 3; s++) {
      const char *dir = saved(k, WEIGHT_BF16, 0);
      size_t n = 0, n2 = 0;
      Model *wide = loaded(dir, STORE_F32), *compact = loaded(dir, storages[s]), *view;
      OK(model_copy_weights(wide, compact));
      REQUIRE(lora_add(wide, &o, 1));
      REQUIRE(lora_add(compact, &o, 1));
      for (int i = wide->nparams; i < model_num_params(wide); i++)
        for (size_t j = 0; j < model_param(wide, i)->t.n; j++)
          model_param(wide, i)->t.data[j] = model_param(compact, i)->t.data[j] =
              (real)(j % 7) * (real)0.01;
      model_updated(wide);
      model_updated(compact);
      REQUIRE(one_step(wide, x, &n));
      REQUIRE(one_step(compact, y, &n2));
      CHECK(n == n2 && n > 0 && largest_of(x, n) > 0 && !memcmp(x, y, n * sizeof *x));
      REQUIRE(model_view(&view, compact));
      CHECK(!same_logits(view, compact));
      model_release(view);
      OK(lora_merge(compact));
      CHECK(!frozen_any(compact));
      OK(lora_merge(wide));
      CHECK(same_logits(wide, compact));
      model_release(wide);
      model_release(compact);
    }
}

/* ---- growing -------------------------------------------------------------------------------- */

TEST(new_tokens_get_the_mean_of_the_old_ones) {
  static const Storage storages[] = {STORE_F32, STORE_AUTO, STORE_NF4};
  for (int k = 0; k < SHAPES; k++)
    for (int s = 0; s < 3; s++) {
      const char *dir = saved(k, WEIGHT_BF16, 0);
      Model *m = loaded(dir, storages[s]), *old = loaded(dir, STORE_F32), *view;
      const int v = m->config.vocab_size, c = m->config.hidden_size, n = v + 70;
      REFUSED(resize_vocab(m, v - 1), GRPO_EARG, "cannot shrink");
      OK(resize_vocab(m, v));
      REQUIRE(model_view(&view, m));
      REFUSED(resize_vocab(m, n), GRPO_EARG, "before it is trained or shared");
      model_release(view);
      REQUIRE(resize_vocab(m, n));
      CHECK(m->config.vocab_size == n && m->t[M_EMBED]->dim[0] == n && m->t[M_HEAD]->dim[0] == n);
      CHECK((m->t[M_EMBED] == m->t[M_HEAD]) == m->config.tie_word_embeddings);
      real *x = malloc((size_t)n * (size_t)c * sizeof *x);
      const Param *p = &m->param[0];
      OK(param_values(&(Ctx){0}, p, x));
      CHECK(!memcmp(x, old->param[0].t.data, (size_t)v * (size_t)c * sizeof *x));
      double mean = 0;
      for (int i = 0; i < v; i++) mean += (double)x[i * c + 5] / v;
      CHECK_NEAR(x[(n - 1) * c + 5], mean, storages[s] ? 0.004 * fabs(mean) : 1e-7);
      free(x);
      static real a[TOKENS * 400], b[TOKENS * 400];
      logits_of(m, a);
      logits_of(old, b);
      CHECK(storages[s] == STORE_NF4 || a[3] == b[3]);
      model_release(m);
      model_release(old);
    }
}

/* ---- memory ------------------------------------------------------------------------------ */

static const char *const wide_llama =
    "{\"model_type\":\"llama\",\"vocab_size\":3000,\"hidden_size\":384,"
    "\"intermediate_size\":1024,\"num_hidden_layers\":3,\"num_attention_heads\":6,"
    "\"num_key_value_heads\":2,\"tie_word_embeddings\":false}";

/* Bytes of an outline of the model, in this form. */
static size_t outlined(const Model *m, const ModelForm *form, bool train) {
  Model *outline;
  mem_measure_begin();
  OK(model_outline(&outline, m, form));
  if (train) OK(model_set_trainable(outline, true));
  const size_t bytes = mem_live_bytes();
  model_release(outline);
  mem_measure_end();
  return bytes;
}

static void near_estimate(const char *what, size_t took, size_t said) {
  if (fabs((double)said - (double)took) > 0.03 * (double)took)
    test_fail(__FILE__, __LINE__, "%s: took %zu, said %zu", what, took, said);
}

TEST(an_outline_takes_what_the_model_takes) {
  static const Storage storages[] = {STORE_F32, STORE_AUTO, STORE_BF16, STORE_INT8, STORE_NF4};
  const char *dir = test_path("%s/wide", test_tmp());
  Model *m, *wide = small_model(wide_llama, NULL, 1);
  OK(save_model(wide, dir, WEIGHT_F16, 0));
  size_t last = SIZE_MAX;
  for (int s = 0; s < 5; s++) {
    const size_t before = mem_live_bytes();
    m = loaded(dir, storages[s]);
    const size_t took = mem_live_bytes() - before;
    near_estimate(param_storage_name(storages[s]), took, outlined(m, NULL, false));
    const ModelForm form = {.storage = &storages[s]};
    if (storages[s] == STORE_F32 || storages[s] == STORE_BF16)
      near_estimate("in another form", took, outlined(wide, &form, false));
    CHECK(took <= last || storages[s] == STORE_BF16);
    last = took;
    model_release(m);
  }
  model_release(wide);
}

TEST(rotary_tables_grow_with_the_positions_in_use) {
  static const char *const long_llama =
      "{\"model_type\":\"llama\",\"vocab_size\":97,\"hidden_size\":32,\"intermediate_size\":48,"
      "\"num_hidden_layers\":1,\"num_attention_heads\":2,\"max_position_embeddings\":5000}";
  Model *m = small_model(long_llama, NULL, 1), *view;
  static real x[TOKENS * 128], y[TOKENS * 128];
  REQUIRE(model_view(&view, m));
  CHECK(rope_positions(m->rope) == 0);
  logits_of(m, x);
  CHECK(rope_positions(m->rope) == 1024);
  const real *table = rope_table(m->rope, ROPE_FULL);
  const real at_900 = table[900 * 16 + 3];
  OK(model_reserve_positions(view, 1500));
  CHECK(rope_positions(m->rope) == 2048 && rope_table(m->rope, ROPE_FULL)[900 * 16 + 3] == at_900);
  CHECK(table[900 * 16 + 3] == at_900); /* a tape may still use it */
  logits_of(view, y);
  CHECK(!memcmp(x, y, sizeof x));
  OK(model_reserve_positions(m, 4999));
  OK(model_reserve_positions(m, 1 << 20));
  CHECK(rope_positions(m->rope) == 5000);
  model_release(view);
  model_release(m);
}

TEST(an_adapter_is_estimated_too) {
  static const char *const targets[] = {"q_proj", "up_proj", "down_proj"};
  static const Storage storages[] = {STORE_F32, STORE_NF4};
  const LoraOptions o = {.rank = 16, .alpha = 8, .ntargets = 3, .targets = targets};
  const char *dir = test_path("%s/wide-lora", test_tmp());
  Model *m = small_model(wide_llama, NULL, 1);
  OK(save_model(m, dir, WEIGHT_BF16, 0));
  model_release(m);
  for (int s = 0; s < 2; s++) {
    const size_t before = mem_live_bytes();
    m = loaded(dir, storages[s]);
    const size_t said = outlined(m, &(ModelForm){.lora = &o}, true);
    REQUIRE(lora_add(m, &o, 1));
    OK(model_set_trainable(m, true));
    OK(panels_renew(m, &(Ctx){0}));
    near_estimate("to be added", mem_live_bytes() - before, said);
    near_estimate("of its model", mem_live_bytes() - before, outlined(m, NULL, true));
    model_release(m);
  }
}

TEST(a_failing_allocation_while_quantising_is_an_error_and_leaks_nothing) {
  static const Storage storages[] = {STORE_AUTO, STORE_INT8, STORE_NF4};
  const char *dir = saved(2, WEIGHT_BF16, 8000);
  for (int s = 0; s < 3; s++) {
    const size_t before = mem_live_bytes();
    int failures = 0;
    Model *back = NULL;
    for (uint64_t n = 1; n < 3000; n++) {
      mem_fail_after(n);
      const Status st = weights_load(&back, NULL, dir, storages[s]);
      mem_fail_after(0);
      if (st == GRPO_OK) break;
      failures++;
      CHECK(mem_live_bytes() == before);
    }
    CHECK(failures > 10 && back);
    for (uint64_t n = 1; n < 1000; n++) { /* growing leaves the model as it was */
      const size_t with = mem_live_bytes();
      mem_fail_after(n);
      const Status st = resize_vocab(back, 300);
      mem_fail_after(0);
      if (st == GRPO_OK) break;
      CHECK(mem_live_bytes() == with && back->config.vocab_size == 101);
    }
    CHECK(back->config.vocab_size == 300);
    model_release(back);
    CHECK(mem_live_bytes() == before);
  }
}

TEST(a_checkpoint_in_bf16_computes_the_same_in_either_storage) {
  static real x[(TOKENS - 1) * 256], y[(TOKENS - 1) * 256];
  const char *dir = saved(1, WEIGHT_BF16, 0);
  Model *wide, *compact;
  REQUIRE(weights_load_compute(&wide, NULL, dir, STORE_F32, COMPUTE_BF16));
  REQUIRE(weights_load_compute(&compact, NULL, dir, STORE_AUTO, COMPUTE_BF16));
  CHECK(model_compute(wide) == COMPUTE_BF16 && model_compute(compact) == COMPUTE_BF16);
  OK(frozen_widen(compact));
  logits_of(wide, x);
  logits_of(compact, y);
  CHECK(memcmp(x, y, (TOKENS - 1) * 101 * sizeof *x) == 0);
  model_release(wide);
  model_release(compact);
}
