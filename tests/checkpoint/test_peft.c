/* PEFT's folders: which modules a configuration adapts, and tensors that lie. */
#include "base/mem.h"
#include "checkpoint/peft.h"
#include "model/lora.h"
#include "model/lora_merge.h"
#include "model/modeltest.h"

/* ---- adapter_config.json --------------------------------------------------------- */

/* Which modules of tiny_llama (three layers, seven projections) a configuration adapts: their
 * parameters' ranks, "q0:8 ..." */
static const char *modules(const char *options) {
  static char text[1024];
  Model *m = small_model(tiny_llama, NULL, 7);
  Buf b = {0};
  buf_printf(&b, "{\"peft_type\": \"LORA\", %s}", options);
  size_t len = 0;
  text[0] = '\0';
  if (peft_attach(m, b.data, b.len, "adapter") != GRPO_OK) {
    snprintf(text, sizeof text, "%s", err_message());
  } else {
    for (int i = 0; i < model_num_params(m); i++) {
      const Param *p = model_param(m, i);
      const char *end = strstr(p->name, "_proj.lora_A.weight"), *word = end;
      if (!end) continue;
      while (word[-1] != '.') word--;
      len += (size_t)snprintf(text + len, sizeof text - len, "%s%.*s%c:%d", len ? " " : "",
                              (int)(end - word), word, p->name[13], p->t.dim[0]);
    }
  }
  buf_free(&b);
  model_release(m);
  return text;
}

TEST(modules_are_chosen_as_peft_chooses_them) {
  CHECK_STR(modules("\"target_modules\": [\"q_proj\"]"), "q0:8 q1:8 q2:8");
  CHECK_STR(modules("\"target_modules\": [\"self_attn.v_proj\", \"nothing\"], \"r\": 2"),
            "v0:2 v1:2 v2:2");
  CHECK_STR(modules("\"target_modules\": [\"roj\"]"),
            "adapter: target_modules match nothing in this model; it has embed_tokens, q_proj, "
            "k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, lm_head");
  CHECK_STR(modules("\"target_modules\": \".*\\\\.[02]\\\\..*(up|down)_proj\""),
            "up0:8 down0:8 up2:8 down2:8");
  CHECK_STR(modules("\"target_modules\": \"all-linear\", \"layers_to_transform\": 1"),
            "q1:8 k1:8 v1:8 o1:8 gate1:8 up1:8 down1:8");
  CHECK_STR(modules("\"target_modules\": [\"q_proj\"], \"layers_to_transform\": [0, 2], "
                    "\"layers_pattern\": \"layers\""),
            "q0:8 q2:8");
  CHECK_STR(modules("\"target_modules\": [\"q_proj\", \"k_proj\"], "
                    "\"exclude_modules\": [\"layers.1.self_attn.q_proj\", \"k_proj\"]"),
            "q0:8 q2:8");
  CHECK_STR(modules("\"target_modules\": [\"o_proj\"], \"exclude_modules\": \".*[12].*\""), "o0:8");
  CHECK_STR(modules("\"target_modules\": [\"q_proj\", \"k_proj\"], \"rank_pattern\": "
                    "{\"layers.0.self_attn.q_proj\": 3, \"q_proj\": 4}"),
            "q0:3 k0:8 q1:4 k1:8 q2:4 k2:8");
}

static double scale_of(const char *options, const char *name) {
  Model *m = small_model(tiny_llama, NULL, 7), *plain = small_model(tiny_llama, NULL, 7);
  Buf b = {0};
  Arena arena = {0};
  buf_printf(&b, "{\"target_modules\": [\"q_proj\"], %s}", options);
  OK(peft_attach(m, b.data, b.len, "adapter"));
  OK(lora_allocate(m));
  for (int i = 0; i < model_num_params(m); i++) {
    Param *p = model_param(m, i);
    if (strstr(p->name, ".lora_")) p->t.data[0] = 1; /* B A is 1 in one place */
  }
  OK(lora_merge(m));
  const double d =
      (double)model_find(m, name)->t.data[0] - (double)model_find(plain, name)->t.data[0];
  buf_free(&b);
  arena_free(&arena);
  model_release(m);
  model_release(plain);
  return d;
}

TEST(the_scale_follows_rank_alpha_and_their_patterns) {
  const char *q0 = "model.layers.0.self_attn.q_proj.weight";
  CHECK_NEAR(scale_of("\"r\": 4, \"lora_alpha\": 10", q0), 2.5, 1e-6);
  CHECK_NEAR(scale_of("\"r\": 4, \"lora_alpha\": 10, \"use_rslora\": true", q0), 5, 1e-6);
  CHECK_NEAR(scale_of("\"r\": 4, \"alpha_pattern\": {\"q_proj\": 2}", q0), 0.5, 1e-6);
  CHECK_NEAR(scale_of("\"rank_pattern\": {\"0.self_attn.q_proj\": 2}, \"lora_alpha\": 3", q0), 1.5,
             1e-6);
}

TEST(what_is_not_supported_is_refused_by_name) {
  static const char *const cases[][2] = {
      {"\"use_dora\": true", "adapter: use_dora: DoRA is not supported"},
      {"\"lora_bias\": true", "adapter: lora_bias"},
      {"\"bias\": \"all\"", "adapter: bias is 'all', but only 'none'"},
      {"\"layer_replication\": [[0, 2]]", "adapter: layer_replication"},
      {"\"target_parameters\": [\"x\"]", "adapter: target_parameters"},
      {"\"modules_to_save\": [\"lm_head\"]", "adapter: modules_to_save"},
      {"\"trainable_token_indices\": [1]", "adapter: trainable_token_indices"},
      {"\"init_lora_weights\": \"pissa_niter_4\"", "changes the base weights"},
      {"\"task_type\": \"SEQ_CLS\"", "adapter: task_type is 'SEQ_CLS'"},
      {"\"something_new\": 1", "adapter: the key 'something_new' is unknown"},
      {"\"r\": 2.5", "adapter: r is 2.5"},
      {"\"r\": 0", "adapter: r must be a number from 1"},
      {"\"lora_alpha\": \"x\"", "adapter: lora_alpha"},
      {"\"lora_dropout\": 1", "adapter: lora_dropout"},
      {"\"rank_pattern\": [1]", "adapter: rank_pattern"},
      {"\"rank_pattern\": {\"q_proj\": 1e9}", "adapter: rank"},
      {"\"exclude_modules\": [1]", "adapter: exclude_modules"},
      {"\"exclude_modules\": \"(\"", "adapter: '(' is not a regular expression"},
  };
  char text[256];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    snprintf(text, sizeof text, "\"target_modules\": [\"q_proj\"], %s", cases[i][0]);
    const char *said = modules(text);
    if (!strstr(said, cases[i][1]) || strchr(said, '\n'))
      test_fail(__FILE__, __LINE__, "%s: '%s'", cases[i][0], said);
  }
  CHECK(strstr(modules("\"r\": 8"), "target_modules is missing"));
  CHECK(strstr(modules("\"target_modules\": 5"), "must be a list of names or a pattern"));
}

/* ---- adapter_model.safetensors --------------------------------------------------- */

static void put_file(const char *name, const char *text) {
  OK(file_mkdirs(test_path("%s/x", test_tmp())));
  OK(file_replace(test_path("%s/x/%s", test_tmp(), name), text, strlen(text)));
}

/* q_proj of a one-layer llama: tensors of these names and rows */
static void put_tensors(int n, const StEntry *e) {
  static const real zeros[4096];
  StWriter *w;
  put_file("adapter_config.json", "{\"r\": 2, \"target_modules\": [\"q_proj\"]}");
  REQUIRE(st_writer_open(&w, test_path("%s/x/adapter_model.safetensors", test_tmp()), (size_t)n, e,
                         NULL));
  for (int i = 0; i < n; i++) OK(st_writer_put(w, zeros, e[i].dim[0] * e[i].dim[1]));
  OK(st_writer_commit(w));
}

#define Q(what) "base_model.model.model.layers.0.self_attn.q_proj.lora_" what

TEST(tensors_that_are_missing_foreign_or_misshapen_are_named) {
  static const char one_layer[] =
      "{\"model_type\":\"llama\",\"vocab_size\":101,\"hidden_size\":64,\"intermediate_size\":88,"
      "\"num_hidden_layers\":1,\"num_attention_heads\":4,\"max_position_embeddings\":96}";
  Model *m = small_model(one_layer, NULL, 1);
  const char *dir = strdup(test_path("%s/x", test_tmp()));
  const StEntry a = {Q("A.weight"), ST_F32, 2, {2, 64}}, b = {Q("B.weight"), ST_BF16, 2, {64, 2}};
  put_tensors(1, &a);
  REFUSED(peft_load(m, dir), GRPO_EFORMAT, "'" Q("B.weight") "' is missing (1 of 2 are)");
  put_tensors(2, (StEntry[]){a, {Q("B.weight"), ST_F32, 2, {64, 3}}});
  REFUSED(peft_load(m, dir), GRPO_EFORMAT, "has shape [64, 3]");
  put_tensors(3, (StEntry[]){a, b, {"base_model.model.model.norm.weight", ST_F32, 2, {1, 1}}});
  REFUSED(peft_load(m, dir), GRPO_EFORMAT, "'base_model.model.model.norm.weight' belongs to none");
  put_tensors(
      3, (StEntry[]){
             a, b, {"model.layers.0.self_attn.q_proj.lora_A.default.weight", ST_F32, 2, {2, 64}}});
  REFUSED(peft_load(m, dir), GRPO_EFORMAT, "occurs twice");
  CHECK(!lora_attached(m));
  put_tensors(
      2,
      (StEntry[]){
          {"base_model.model.layers.0.self_attn.q_proj.lora_A.default.weight", ST_F16, 2, {2, 64}},
          {"layers.0.self_attn.q_proj.lora_B.weight", ST_F32, 2, {64, 2}}});
  OK(peft_load(m, dir));
  CHECK(lora_attached(m));
  REFUSED(peft_load(m, dir), GRPO_EARG, "has an adapter already");
  OK(file_remove_tree(test_path("%s/x/adapter_model.safetensors", test_tmp())));
  REFUSED(peft_load(m, dir), GRPO_ENOENT, "adapter_model.safetensors is missing");
  put_file("adapter_model.bin", "x");
  REFUSED(peft_load(m, dir), GRPO_EFORMAT, "a pickle, which can run code");
  model_release(m);
  free((void *)(uintptr_t)dir);
}

TEST(a_lying_rank_takes_no_memory) {
  static const char small_layer[] =
      "{\"model_type\":\"llama\",\"vocab_size\":101,\"hidden_size\":256,"
      "\"intermediate_size\":88,\"num_hidden_layers\":1,\"num_attention_heads\":4,"
      "\"max_position_embeddings\":96}";
  Model *m = small_model(small_layer, NULL, 1);
  const StEntry a = {Q("A.weight"), ST_F32, 2, {2, 256}}, b = {Q("B.weight"), ST_F32, 2, {256, 2}};
  put_tensors(2, (StEntry[]){a, b});
  put_file("adapter_config.json",
           "{\"peft_type\":\"LORA\",\"r\":65536,\"target_modules\":[\"q_proj\"]}");
  const size_t before = mem_peak_rss();
  REFUSED(peft_load(m, test_path("%s/x", test_tmp())), GRPO_EFORMAT, "has shape [2, 256]");
  CHECK(!lora_attached(m));
  CHECK(mem_peak_rss() - before < (size_t)64 << 20);
  model_release(m);
}
