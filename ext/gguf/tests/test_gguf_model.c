/* Models through GGUF files: the same weights, the same bytes, and files that lie. */
#include "base/half.h"
#include "base/mem.h"
#include "checkpoint/save.h"
#include "checkpoint/weights.h"
#include "gguf/gguf_adapter.h"
#include "gguf/gguf_save.h"
#include "gguf/gguf_write.h"
#include "gguf/tests/gguf_shapes.h"
#include "gguf/tests/gguf_values.h"
#include "model/config_write.h"
#include "model/lora.h"
#include "model/model_struct.h"
#include "model/modeltest.h"
#include "text/tokenizer_files.h"
#include "text/tokenizer_make.h"

static bool same_config(const Config *a, const Config *b) {
  Buf x = {0}, y = {0};
  config_write(&x, a);
  config_write(&y, b);
  const bool same = strcmp(x.data, y.data) == 0;
  if (!same) test_fail(__FILE__, __LINE__, "%s became %s", x.data, y.data);
  buf_free(&x);
  buf_free(&y);
  return same;
}

static bool adds_one(const char *name) {
  return strncmp(name, "gemma", 5) == 0 || strcmp(name, "nemotron") == 0 ||
         strncmp(name, "qwen3_5", 7) == 0 || strcmp(name, "qwen3_next") == 0;
}

/* Every parameter by name, within a bound on its largest value; 0: bit for bit.  Norms of
 * gemma, nemotron and qwen3_5 are stored as 1 + w, and A_log as -exp(w), which are rounded once and
 * stay then. */
static void compare(Model *a, Model *b, double bound, const char *what) {
  CHECK(model_num_params(a) == model_num_params(b));
  for (int i = 0; i < model_num_params(a); i++) {
    Param *p = model_param(a, i), *q = model_find(b, p->name);
    if (!q || q->t.n != p->t.n) {
      test_fail(__FILE__, __LINE__, "%s: %s is not there", what, p->name);
      continue;
    }
    const double d = worst_difference(p->t.data, q->t.data, p->t.n);
    const double one = adds_one(what) && p->is_norm ? 0x1p-23 : 0;
    if (!(d <= bound * largest_of(p->t.data, p->t.n) + one))
      test_fail(__FILE__, __LINE__, "%s: %s differs by %g", what, p->name, d);
  }
}

TEST(every_family_comes_back_bit_for_bit) {
  Pool *pool = NULL;
  OK(pool_new(&pool, 2));
  for (int i = 0; i < NSHAPES; i++) {
    Model *m = small_model(shapes[i].shape, pool, 7), *back = NULL;
    const char *first = tmp("first"), *second = tmp("second");
    OK(gguf_save(m, NULL, first, GGML_F32));
    OK(weights_load(&back, pool, first, STORE_F32));
    if (back) {
      compare(m, back, 0, shapes[i].name);
      Config want = *model_config(m);
      want.initializer_range = model_config(back)->initializer_range; /* says nothing any more */
      CHECK(same_config(&want, model_config(back)));
      OK(gguf_save(back, NULL, second, GGML_F32));
      CHECK(same_file(first, second));
    }
    model_release(m);
    model_release(back);
  }
  pool_free(pool);
}

TEST(every_type_comes_back_within_its_step) {
  static const struct {
    GgmlType type;
    double bound;
  } types[] = {{GGML_F16, 0x1p-11}, {GGML_BF16, 0x1p-8}, {GGML_Q8_0, 0.0046}, {GGML_Q4_0, 0.13}};
  Pool *pool = NULL;
  OK(pool_new(&pool, 2));
  for (int t = 0; t < 4; t++)
    for (int i = 0; i < NSHAPES; i++) {
      Model *m = small_model(shapes[i].shape, pool, 7), *back = NULL;
      const char *first = tmp("first"), *second = tmp("second");
      OK(gguf_save(m, NULL, first, types[t].type));
      OK(weights_load(&back, pool, first, STORE_F32));
      if (back) compare(m, back, types[t].bound, shapes[i].name);
      if (back) OK(gguf_save(back, NULL, second, types[t].type));
      /* Q4_0 has one level for its extreme and 15 for the rest: reading it moves no level */
      if (back) CHECK(same_file(first, second));
      model_release(m);
      model_release(back);
    }
  pool_free(pool);
}

/* All values of a tensor; NULL, and a failed test, when it is not there. */
static float *values_of(const Gguf *g, const char *name, int rows, int columns) {
  const GgufTensor *t = gguf_tensor(g, name);
  const bool good = t && t->ndim == 2 ? t->dim[0] == (uint64_t)rows &&
                                            (!columns || t->dim[1] == (uint64_t)columns)
                                      : t && rows == 1; /* a vector */
  if (!good)
    test_fail(__FILE__, __LINE__, "%s: %s is not a matrix of %d rows", g->path, name, rows);
  float *x = good ? malloc(t->n * sizeof *x) : NULL;
  if (x) OK(gguf_read(t, 0, t->n, x));
  return x;
}

/* The merged file adds to the base's weights alpha / rank B A of the adapter's file. */
static void check_pair(const Gguf *files, const GgufTensor *a, double alpha) {
  const int r = (int)a->dim[0], in = (int)a->dim[1];
  char name[64], other[80];
  snprintf(name, sizeof name, "%.*s", (int)strlen(a->name) - (int)strlen(".lora_a"), a->name);
  const GgufTensor *w = gguf_tensor(&files[0], name);
  const int out = !w ? 0 : w->ndim == 1 ? 1 : (int)w->dim[0];
  snprintf(other, sizeof other, "%s.lora_b", name);
  float *x = values_of(&files[0], name, out, in), *y = values_of(&files[1], name, out, in);
  float *low = values_of(&files[2], a->name, r, in), *up = values_of(&files[2], other, out, r);
  double worst = 0;
  for (int o = 0; x && y && low && up && o < out; o++)
    for (int i = 0; i < in; i++) {
      double sum = 0;
      for (int k = 0; k < r; k++) sum += (double)up[o * r + k] * low[k * in + i];
      worst = fmax(worst, fabs(y[o * in + i] - x[o * in + i] - alpha / r * sum));
    }
  if (!(x && y && low && up && worst < 1e-5))
    test_fail(__FILE__, __LINE__, "%s differs by %g", name, worst);
  free(x), free(y), free(low), free(up);
}

static void check_adapter_file(const char *shape, const LoraOptions *o, int nmodules) {
  const char *const paths[] = {tmp("base"), tmp("merged"), tmp("adapter")};
  Gguf files[3] = {{0}};
  double alpha = 0;
  Model *m = small_model(shape, NULL, 7);
  OK(gguf_save(m, NULL, paths[0], GGML_F32));
  OK(lora_add(m, o, 5));
  for (int i = 0; i < model_num_params(m); i++) {
    Param *p = model_param(m, i);
    const RngKey key = {.seed = 3, .stream = RNG_USER, .prompt = (uint32_t)i};
    for (size_t k = 0; strstr(p->name, ".lora_") && k < p->t.n; k++)
      p->t.data[k] = (real)(0.2 * rng_normal(&key, k));
  }
  model_updated(m);
  OK(gguf_save(m, NULL, paths[1], GGML_F32));
  OK(gguf_adapter_save(m, paths[2]));
  for (int i = 0; i < 3; i++) OK(gguf_open(&files[i], paths[i]));
  OK(gguf_get_number(&files[2], "adapter.lora.alpha", &alpha, NULL));
  CHECK(alpha == o->alpha && files[2].ntensors == 2 * (size_t)nmodules);
  for (size_t i = 0; i < files[2].ntensors; i++)
    if (strstr(files[2].tensor[i].name, ".lora_a")) check_pair(files, &files[2].tensor[i], alpha);
  for (int i = 0; i < 3; i++) gguf_close(&files[i]);
  model_release(m);
}

TEST(an_adapter_alone_is_what_merging_adds) {
  static const int modules[] = {8,  14, 14, 14, 14, 14, 14, 8,  14, 14, 35, 14, 14, 14, 14,
                                14, 14, 14, 14, 12, 12, 14, 14, 12, 14, 12, 12, 8,  8,  8,
                                38, 19, 8,  8,  16, 8,  43, 40, 0,  0,  0,  13}; /* 0: refused */
  static const char *const all[] = {"all-linear"}, *const head[] = {"lm_head"};
  const LoraOptions o = {.rank = 3, .alpha = 6, .ntargets = 1, .targets = all};
  for (int i = 0; i < NSHAPES; i++)
    if (modules[i]) check_adapter_file(shapes[i].shape, &o, modules[i]);
  const LoraOptions on_head = {.rank = 3, .alpha = 6, .ntargets = 1, .targets = head};
  check_adapter_file(shapes[2].shape, &on_head, 1);
  const char *path = tmp("refused");
  Model *m = small_model(shapes[1].shape, NULL, 7); /* tied */
  REFUSED(gguf_adapter_save(m, path), GRPO_EARG, "no adapter");
  OK(lora_add(m, &on_head, 5));
  REFUSED(gguf_adapter_save(m, path), GRPO_EARG, "tied to it");
  CHECK(!file_exists(path));
  model_release(m);
}

/* With latent attention llama.cpp multiplies by queries' weights without looking for an adapter. */
TEST(an_adapter_that_llama_cpp_ignores_is_refused) {
  static const struct {
    const char *name, *ignored;
    int others;
  } rows[] = {{"deepseek_v2", "q_proj", 104},
              {"deepseek_v3", "q_a_proj", 8},
              {"gemma4", "per_layer_model_projection", 50}};
  static const char *const targets[] = {"q_proj",
                                        "k_proj",
                                        "v_proj",
                                        "o_proj",
                                        "gate_proj",
                                        "up_proj",
                                        "down_proj",
                                        "per_layer_input_gate",
                                        "per_layer_projection"};
  for (int i = 0; i < NSHAPES; i++)
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
      if (strcmp(rows[k].name, shapes[i].name) != 0) continue;
      const int skip = k == 2 ? 0 : 3, n = k == 2 ? 9 : 4;
      const LoraOptions o = {.rank = 3, .alpha = 6, .ntargets = n, .targets = targets + skip};
      const LoraOptions one = {.rank = 3, .alpha = 6, .ntargets = 1, .targets = &rows[k].ignored};
      Model *m = small_model(shapes[i].shape, NULL, 7);
      OK(lora_add(m, &one, 5));
      REFUSED(gguf_adapter_save(m, tmp("ignored")), GRPO_EARG, "llama.cpp ignores it there");
      CHECK(!file_exists(tmp("ignored")));
      model_release(m);
      check_adapter_file(shapes[i].shape, &o, rows[k].others);
    }
}

TEST(compact_storages_read_gguf_too) {
  Pool *pool = NULL;
  OK(pool_new(&pool, 2));
  Model *m = small_model(shapes[1].shape, pool, 7), *hf = NULL, *gg = NULL;
  const char *dir = test_path("%s/hf", test_tmp()), *path = tmp("compact");
  OK(save_model(m, dir, WEIGHT_BF16, 0));
  OK(gguf_save(m, NULL, path, GGML_BF16));
  static const Storage storages[] = {STORE_F32, STORE_AUTO, STORE_BF16, STORE_INT8, STORE_NF4};
  for (int s = 0; s < 5; s++) {
    OK(weights_load(&hf, pool, dir, storages[s]));
    OK(weights_load(&gg, pool, path, storages[s]));
    for (int i = 0; hf && gg && i < model_num_params(hf); i++) {
      Param *p = model_param(hf, i), *q = model_find(gg, p->name);
      real *x = malloc(2 * p->t.n * sizeof *x);
      const Ctx cx = {.pool = pool};
      OK(param_values(&cx, p, x));
      OK(param_values(&cx, q, x + p->t.n));
      /* norms are bf16 in one and float32 in the other */
      CHECK(worst_difference(x, x + p->t.n, p->t.n) <= (p->is_norm ? 0x1p-7 : 0));
      free(x);
    }
    model_release(hf);
    model_release(gg);
    hf = gg = NULL;
  }
  model_release(m);
  pool_free(pool);
}

TEST(rows_of_queries_are_where_llama_cpp_wants_them) {
  Pool *pool = NULL;
  OK(pool_new(&pool, 1));
  for (int i = 0; i < 2; i++) { /* gpt2, llama */
    Model *m = small_model(shapes[i].shape, pool, 7);
    const char *path = tmp("rows");
    Gguf g;
    float x[64], y[64];
    OK(gguf_save(m, NULL, path, GGML_F32));
    OK(gguf_open(&g, path));
    if (i) { /* row 1 of head 2: the first of its second half, 16 x 2 + 8 */
      const GgufTensor *t = gguf_tensor(&g, "blk.1.attn_q.weight");
      gguf_read(t, (32 + 1) * 64, 64, x);
      memcpy(y, model_find(m, "model.layers.1.self_attn.q_proj.weight")->t.data + (32 + 8) * 64,
             sizeof y);
      CHECK(memcmp(x, y, sizeof x) == 0);
      const GgufTensor *v = gguf_tensor(&g, "blk.1.attn_v.weight");
      float *values = malloc(v->n * sizeof *values);
      OK(gguf_read(v, 0, v->n, values));
      CHECK(memcmp(values, model_find(m, "model.layers.1.self_attn.v_proj.weight")->t.data,
                   v->bytes) == 0);
      free(values);
      CHECK(!gguf_tensor(&g, "output.weight"));
    } else { /* [in, out] is transposed */
      const GgufTensor *t = gguf_tensor(&g, "blk.0.ffn_up.weight");
      CHECK(t && t->dim[0] == 192 && t->dim[1] == 48);
      gguf_read(t, 5 * 48 + 7, 1, x);
      CHECK(x[0] == model_find(m, "transformer.h.0.mlp.c_fc.weight")->t.data[7 * 192 + 5]);
      CHECK(gguf_tensor(&g, "position_embd.weight")->type == GGML_F32);
    }
    gguf_close(&g);
    model_release(m);
  }
  pool_free(pool);
}

TEST(types_of_tensors_are_chosen_as_documented) {
  Pool *pool = NULL;
  OK(pool_new(&pool, 1));
  Model *m = small_model(shapes[0].shape, pool, 7); /* rows of 48: no whole blocks */
  Gguf g;
  const char *path = tmp("types");
  OK(gguf_save(m, NULL, path, GGML_Q8_0));
  OK(gguf_open(&g, path));
  CHECK(gguf_tensor(&g, "blk.0.ffn_up.weight")->type == GGML_F16);
  CHECK(gguf_tensor(&g, "blk.0.ffn_down.weight")->type == GGML_Q8_0);
  CHECK(gguf_tensor(&g, "blk.0.attn_norm.weight")->type == GGML_F32);
  gguf_close(&g);
  model_release(m);
  m = small_model(shapes[2].shape, pool, 7);
  OK(gguf_save(m, NULL, path, GGML_Q4_0));
  OK(gguf_open(&g, path));
  CHECK(gguf_tensor(&g, "blk.0.ffn_up.weight")->type == GGML_Q4_0);
  CHECK(gguf_tensor(&g, "token_embd.weight")->type == GGML_Q8_0);
  CHECK(gguf_tensor(&g, "output.weight")->type == GGML_Q8_0);
  CHECK(gguf_tensor(&g, "rope_freqs.weight")->type == GGML_F32);
  int64_t n = 0;
  OK(gguf_get_int(&g, "general.quantization_version", 0, 9, &n, NULL));
  CHECK(n == 2);
  gguf_close(&g);
  model_release(m);
  pool_free(pool);
}

TEST(a_value_that_a_block_cannot_hold_leaves_no_file) {
  Pool *pool = NULL;
  OK(pool_new(&pool, 1));
  Model *m = small_model(shapes[1].shape, pool, 7);
  model_find(m, "model.layers.1.mlp.up_proj.weight")->t.data[100] = NAN;
  REFUSED(gguf_save(m, NULL, tmp("nan"), GGML_Q8_0), GRPO_EARG,
          "tensor 'blk.1.ffn_up.weight': a value is not finite");
  CHECK(!file_exists(tmp("nan")));
  model_release(m);
  pool_free(pool);
}

TEST(a_tokenizer_travels_with_the_model) {
  Pool *pool = NULL;
  Tokenizer *t = NULL, *u = NULL;
  OK(pool_new(&pool, 1));
  OK(tokenizer_bytes(&t));
  Config c;
  Model *m = NULL, *back = NULL;
  config_of(&c, "{\"model_type\":\"llama\",\"vocab_size\":270,\"hidden_size\":32,"
                "\"num_hidden_layers\":1,\"num_attention_heads\":2,\"intermediate_size\":32,"
                "\"eos_token_id\":[256,12,13],\"bos_token_id\":5}");
  OK(model_new(&m, pool, &c, 1));
  const char *path = tmp("tokens"), *again = tmp("tokens2");
  OK(gguf_save(m, t, path, GGML_F32));
  OK(tokenizer_load(&u, path));
  OK(weights_load(&back, pool, path, STORE_F32));
  CHECK(u && tokenizer_size(u) == 258 && tokenizer_eos(u) == 256);
  CHECK(back && back->config.num_eos == 3 && back->config.eos_token_id[1] == 12);
  CHECK(back && back->config.bos_token_id == 5);
  if (back && u) OK(gguf_save(back, u, again, GGML_F32));
  CHECK(same_file(path, again));
  Gguf g;
  const GgufValue *v;
  OK(gguf_open(&g, path));
  OK(gguf_get_array(&g, "tokenizer.ggml.tokens", GGUF_STRING, &v));
  CHECK(v && v->count == 270);
  const char *at = v->data, *s = NULL;
  size_t n = 0;
  for (int i = 0; i <= 260; i++) gguf_next_string(&at, &s, &n);
  CHECK(n == 8 && memcmp(s, "[PAD260]", 8) == 0);
  gguf_close(&g);
  tokenizer_free(t);
  tokenizer_free(u);
  model_release(m);
  model_release(back);
  pool_free(pool);
}

/* ---- oracles ------------------------------------------------------------------------- */

TEST(checkpoints_of_the_oracles_are_the_same_through_gguf) {
  NEEDS_ORACLES;
  /* clang-format off */
  static const char *const names[] = {
    "models/llama", "models/smollm_bf16", "models/qwen2", "models/qwen3", "models/mistral_f16",
    "models/mistral_window", "models/gpt2", "models/qwen3_newconfig_bf16", "models/gemma2",
    "models/gemma3_text_bf16", "models2/granite", "models2/olmo2", "models2/ministral3",
    "models2/seed_oss", "models2/hunyuan_v1_dense", "models2/ernie4_5", "models2/glm4",
    "models2/starcoder2", "models2/stablelm", "models2/nemotron", "models2/cohere2",
    "models2/gpt_neox", "models2/phi", "models2/lfm2", "models2/qwen3_moe", "models2/olmoe",
    "models2/deepseek_v3", "models2/gemma4_e", "models2/gemma4_moe"
  };
  /* clang-format on */
  Pool *pool = NULL;
  int seen = 0;
  OK(pool_new(&pool, 2));
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *dir = test_path("%s/oracles/%s/checkpoint", test_shared(), names[i]);
    const char *name = strchr(names[i], '/') + 1;
    Model *m = NULL, *back = NULL;
    Tokenizer *t = NULL, *u = NULL;
    if (!file_exists(test_path("%s/model.safetensors", dir))) continue;
    seen++;
    const char *path = tmp(name), *again = tmp("again");
    OK(weights_load(&m, pool, dir, STORE_F32));
    OK(tokenizer_load(&t, dir));
    OK(gguf_save(m, t, path, GGML_F32));
    OK(weights_load(&back, pool, path, STORE_F32));
    OK(tokenizer_load(&u, path));
    if (m && back) compare(m, back, 0, name);
    if (back && u) OK(gguf_save(back, u, again, GGML_F32));
    CHECK(same_file(path, again));
    tokenizer_free(t), tokenizer_free(u);
    model_release(m), model_release(back);
  }
  CHECK(seen > 0);
  pool_free(pool);
}

/* ---- files that lie ------------------------------------------------------------------------ */

/* A small llama's file with its keys and tensors changed. */
typedef struct Lie {
  const char *key; /* left out, and written as ... */
  const char *words;
  uint32_t value;
  bool absent;
} Lie;

static void put_key(GgufMeta *m, const Lie *l, const char *key, uint32_t v) {
  if (l && l->key && strcmp(l->key, key) == 0) {
    if (!l->absent) gguf_put_u32(m, key, l->value);
    return;
  }
  gguf_put_u32(m, key, v);
}

static void put_keys(GgufMeta *m, const char *arch, const Lie *l) {
  gguf_put_string(m, "general.architecture", arch, strlen(arch));
  put_key(m, l, "llama.context_length", 64);
  put_key(m, l, "llama.embedding_length", 32);
  put_key(m, l, "llama.block_count", 1);
  put_key(m, l, "llama.feed_forward_length", 32);
  put_key(m, l, "llama.attention.head_count", 4);
  if (!(l && l->absent && strcmp(l->key, "epsilon") == 0))
    gguf_put_f32(m, "llama.attention.layer_norm_rms_epsilon", 1e-6f);
  static const char *const known[] = {"llama.context_length", "llama.embedding_length",
                                      "llama.block_count", "llama.feed_forward_length",
                                      "llama.attention.head_count"};
  bool seen = !l || !l->key || l->absent;
  for (int i = 0; i < 5; i++) seen = seen || strcmp(l->key, known[i]) == 0;
  if (!seen) gguf_put_u32(m, l->key, l->value);
}

/* skip: a tensor left out; odd: one with another shape; extra: one more. */
static void write_llama(const char *path, const GgufMeta *m, const char *skip, const char *odd,
                        const char *extra) {
  static const struct {
    const char *name;
    int rows;
  } tensors[] = {{"token_embd.weight", 10},        {"output_norm.weight", 0},
                 {"blk.0.attn_norm.weight", 0},    {"blk.0.attn_q.weight", 32},
                 {"blk.0.attn_k.weight", 32},      {"blk.0.attn_v.weight", 32},
                 {"blk.0.attn_output.weight", 32}, {"blk.0.ffn_norm.weight", 0},
                 {"blk.0.ffn_gate.weight", 32},    {"blk.0.ffn_up.weight", 32},
                 {"blk.0.ffn_down.weight", 32},    {NULL, 0}};
  GgufEntry e[16];
  GgufWriter *w = NULL;
  float zeros[33 * 32] = {0};
  int n = 0;
  for (int i = 0; i < 12; i++) {
    const char *name = tensors[i].name ? tensors[i].name : extra;
    if (!name || (skip && strcmp(name, skip) == 0)) continue;
    e[n] = (GgufEntry){.type = GGML_F32, .ndim = tensors[i].rows ? 2 : 1};
    snprintf(e[n].name, sizeof e[n].name, "%s", name);
    e[n].dim[0] = tensors[i].rows ? (uint64_t)tensors[i].rows + (odd && !strcmp(odd, name)) : 32;
    e[n++].dim[1] = 32;
  }
  OK(gguf_writer_open(&w, path, m, (size_t)n, e));
  for (int i = 0; i < n; i++) OK(gguf_writer_put(w, zeros, e[i].ndim == 2 ? e[i].dim[0] * 32 : 32));
  OK(gguf_writer_commit(w));
}

static Status load_lie(const char *arch, const Lie *l, const char *skip, const char *odd,
                       const char *extra) {
  GgufMeta m = {0};
  Pool *pool = NULL;
  Model *model = NULL;
  const char *path = tmp("lie");
  OK(pool_new(&pool, 1));
  put_keys(&m, arch, l);
  write_llama(path, &m, skip, odd, extra);
  gguf_meta_free(&m);
  const Status s = weights_load(&model, pool, path, STORE_F32);
  if (s != GRPO_OK && strncmp(err_message(), path, strlen(path)) != 0)
    test_fail(__FILE__, __LINE__, "the file is not named: %s", err_message());
  model_release(model);
  pool_free(pool);
  return s;
}

TEST(metadata_that_lies_is_refused) {
  OK(load_lie("llama", NULL, NULL, NULL, NULL));
  static const Lie lies[] = {
      {"llama.context_length", "'llama.context_length' is missing", 0, true},
      {"llama.block_count", "'llama.block_count' is missing", 0, true},
      {"epsilon", "layer_norm_rms_epsilon' is missing", 0, true},
      {"llama.embedding_length", "'llama.embedding_length' = 0 is outside", 0, false},
      {"llama.embedding_length", "has shape [32, 32]", 64, false},
      {"llama.block_count", "num_hidden_layers = 100000", 100000, false},
      {"llama.block_count", "is missing", 2, false},
      {"llama.attention.head_count", "", 5, false},
      {"llama.attention.key_length", "has shape", 16, false},
      {"llama.attention.value_length", "", 16, false},
      {"llama.rope.dimension_count", "'llama.rope.dimension_count' = 4 must equal the head's 8", 4,
       false},
      {"llama.expert_count", "'llama.expert_used_count' is missing", 8, false},
      {"llama.rope.scaling.type", "'llama.rope.scaling.type' is u32, want a string", 1, false},
      {"tokenizer.ggml.eos_token_id", "", 9, false},
  };
  for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
    const Lie *l = &lies[i];
    const Status s = load_lie("llama", l, NULL, NULL, NULL);
    const bool fine = strcmp(l->key, "tokenizer.ggml.eos_token_id") == 0 ||
                      strcmp(l->key, "llama.attention.value_length") == 0;
    if (fine) CHECK(s == GRPO_OK);
    if (!fine) REFUSED(s, GRPO_EFORMAT, l->words);
  }
  REFUSED(load_lie("mamba", NULL, NULL, NULL, NULL), GRPO_EFORMAT,
          "general.architecture 'mamba' is not supported");
}

typedef struct Number {
  const char *key;
  float value;
} Number;

/* The configuration of a llama with these numbers, and with a type of scaling unless it is NULL. */
static Status config_with(Config *c, const char *type, const Number *number, size_t n) {
  GgufMeta m = {0};
  const char *path = tmp("numbers");
  put_keys(&m, "llama", NULL);
  if (type) gguf_put_string(&m, "llama.rope.scaling.type", type, strlen(type));
  for (size_t i = 0; i < n; i++) gguf_put_f32(&m, number[i].key, number[i].value);
  write_llama(path, &m, NULL, NULL, NULL);
  gguf_meta_free(&m);
  return weights_config(c, path);
}

/* The type is "linear" where none is said, as in llama.cpp. */
TEST(a_factor_of_positions_needs_no_type) {
  static const Number both[] = {{"llama.rope.scaling.factor", 2}, {"llama.rope.scale_linear", 8}};
  static const Number zero = {"llama.rope.scaling.factor", 0};
  Config c;
  for (int i = 0; i < 2; i++) {
    OK(config_with(&c, i ? "linear" : NULL, both, 1));
    CHECK(c.rope_scaling == ROPE_LINEAR && c.rope_factor == 2);
    OK(config_with(&c, i ? "linear" : NULL, both + 1, 1));
    CHECK(c.rope_scaling == ROPE_LINEAR && c.rope_factor == 8);
    OK(config_with(&c, i ? "linear" : NULL, both, 2));
    CHECK(c.rope_scaling == ROPE_LINEAR && c.rope_factor == 2);
    OK(config_with(&c, i ? "linear" : NULL, &zero, 1));
    CHECK(c.rope_scaling == ROPE_PLAIN);
    OK(config_with(&c, "none", both, 2));
    CHECK(c.rope_scaling == ROPE_PLAIN);
  }
  REFUSED(config_with(&c, "su", both, 1), GRPO_EFORMAT, "'su' is not supported");
  OK(config_with(&c, "yarn", both, 1));
  CHECK(c.rope_scaling == ROPE_YARN && c.rope_factor == 2);
}

TEST(multipliers_that_are_not_computed_and_parts_of_a_model_are_refused) {
  static const char *const keys[] = {"attention.scale", "logit_scale", "embedding_scale",
                                     "residual_scale", "attention.clamp_kqv"};
  Config c;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    const Number odd = {test_path("llama.%s", keys[i]), 0.5f}, one = {odd.key, 1};
    REFUSED(config_with(&c, NULL, &odd, 1), GRPO_EFORMAT, "= 0.5 changes the result");
    OK(config_with(&c, NULL, &one, 1));
  }
  const Lie split = {"split.count", "", 3, false}, whole = {"split.count", "", 1, false};
  REFUSED(load_lie("llama", &split, NULL, NULL, NULL), GRPO_EFORMAT,
          "the model is split over 3 files, which are not read; join them: llama-gguf-split");
  OK(load_lie("llama", &whole, NULL, NULL, NULL));
}

TEST(tensors_that_do_not_belong_or_are_missing_are_refused) {
  REFUSED(load_lie("llama", NULL, "blk.0.attn_k.weight", NULL, NULL), GRPO_EFORMAT,
          "tensor 'model.layers.0.self_attn.k_proj.weight' is missing");
  REFUSED(load_lie("llama", NULL, "token_embd.weight", NULL, NULL), GRPO_EFORMAT,
          "'token_embd.weight' is missing");
  REFUSED(load_lie("llama", NULL, NULL, "blk.0.ffn_up.weight", NULL), GRPO_EFORMAT,
          "has shape [33, 32]");
  REFUSED(load_lie("llama", NULL, NULL, "blk.0.attn_q.weight", NULL), GRPO_EFORMAT,
          "has shape [33, 32]");
  REFUSED(load_lie("llama", NULL, NULL, NULL, "blk.0.surprise.weight"), GRPO_EFORMAT,
          "tensor 'blk.0.surprise.weight' does not belong");
  REFUSED(load_lie("llama", NULL, NULL, NULL, "blk.1.ffn_up.weight"), GRPO_EFORMAT,
          "does not belong");
  REFUSED(load_lie("llama", NULL, NULL, NULL, "rope_freqs.weight"), GRPO_EFORMAT, "rope_freqs");
  REFUSED(load_lie("llama", NULL, NULL, NULL, "rope_factors_long.weight"), GRPO_EFORMAT,
          "rope_factors_long.weight must both be there");
}

/* Files of other programs leave out what follows from the rest. */
TEST(what_a_file_does_not_say_follows_from_what_it_says) {
  Pool *pool = NULL;
  OK(pool_new(&pool, 1));
  static const char *const types[] = {"llama", "qwen2", "qwen3", "gemma2"};
  static const char *const keys[] = {"attention.head_count_kv", "attention.key_length",
                                     "attention.value_length", "rope.freq_base"};
  for (int i = 0; i < 4; i++) {
    const char *shape = test_path("{\"model_type\":\"%s\",\"vocab_size\":20,\"hidden_size\":64,"
                                  "\"intermediate_size\":32,\"num_hidden_layers\":1,"
                                  "\"num_attention_heads\":4,\"num_key_value_heads\":4,"
                                  "\"head_dim\":16%s}",
                                  types[i], i == 3 ? ",\"query_pre_attn_scalar\":16" : "");
    Model *m = small_model(shape, pool, 3);
    const char *path = tmp("unsaid");
    Buf b = {0};
    OK(gguf_save(m, NULL, path, GGML_F32));
    OK(file_read(path, 0, &b));
    for (int k = 0; k < 4; k++) {
      const char *key = test_path("%s.%s", types[i], keys[k]);
      char *p = memmem(b.data, b.len, key, strlen(key));
      CHECK(p != NULL);
      if (p) *p = 'X';
    }
    OK(file_replace(path, b.data, b.len));
    Config c, want = *model_config(m);
    OK(weights_config(&c, path));
    want.initializer_range = c.initializer_range;
    CHECK(same_config(&want, &c));
    buf_free(&b);
    model_release(m);
  }
  pool_free(pool);
}

/* Llama 3.1's file as others write it: divisors and no key of ours. */
TEST(llama_3_1s_scaling_is_told_from_its_divisors) {
  Pool *pool = NULL;
  OK(pool_new(&pool, 1));
  Model *m = small_model("{\"model_type\":\"llama\",\"vocab_size\":20,\"hidden_size\":64,"
                         "\"intermediate_size\":32,\"num_hidden_layers\":1,\"rope_theta\":500000.0,"
                         "\"num_attention_heads\":1,\"max_position_embeddings\":64,"
                         "\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,"
                         "\"low_freq_factor\":1,\"high_freq_factor\":4,"
                         "\"original_max_position_embeddings\":8192}}",
                         pool, 3);
  const char *path = tmp("llama31");
  OK(gguf_save(m, NULL, path, GGML_F32));
  Buf b = {0};
  OK(file_read(path, 0, &b));
  for (char *p; (p = memmem(b.data, b.len, "grpo.rope", 9));) *p = 'x';
  char *p = memmem(b.data, b.len, "original_context_length", 23);
  if (p) *p = 'x';
  OK(file_replace(path, b.data, b.len));
  Config c;
  OK(weights_config(&c, path));
  CHECK(c.rope_scaling == ROPE_LLAMA3 && c.rope_factor == 8 && c.rope_low_freq_factor == 1);
  p = memmem(b.data, b.len, "llama.rope.freq_base",
             20); /* other frequencies: no longer Llama 3's */
  if (p) p[20 + 4 + 2] = 0;
  OK(file_replace(path, b.data, b.len));
  REFUSED(weights_config(&c, path), GRPO_EFORMAT, "rope_freqs.weight is not Llama 3's scaling");
  buf_free(&b);
  model_release(m);
  pool_free(pool);
}

TEST(no_memory_is_a_status_in_loading_and_saving) {
  Pool *pool = NULL;
  OK(pool_new(&pool, 1));
  Model *m = small_model(shapes[2].shape, pool, 7);
  const char *path = tmp("oom");
  int saved = 0, loaded = 0;
  for (uint64_t n = 1; n < 3000 && !(saved && loaded); n += saved ? 7 : 1) {
    Model *back = NULL;
    mem_fail_after(n);
    const Status s =
        saved ? weights_load(&back, pool, path, STORE_F32) : gguf_save(m, NULL, path, GGML_Q8_0);
    mem_fail_after(0);
    if (s != GRPO_OK) CHECK(s == GRPO_ENOMEM);
    if (s == GRPO_OK && saved) loaded = 1;
    if (s == GRPO_OK && !saved) saved = 1, n = 0;
    model_release(back);
  }
  CHECK(saved && loaded);
  model_release(m);
  pool_free(pool);
}
