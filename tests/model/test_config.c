/* config.json in its variants, and what is refused by name. */
#include "base/log.h"
#include "model/config_write.h"
#include "model/modeltest.h"

static Status parse(const char *text, Config *c) {
  Json *j = NULL;
  try(json_parse(text, strlen(text), "test", &j));
  Status s = config_read(c, j, "config.json");
  json_free(j);
  return s;
}

TEST(missing_keys_take_the_family_s_defaults) {
  Config c;
  REQUIRE(parse("{\"model_type\":\"gpt2\"}", &c));
  CHECK(c.vocab_size == 50257 && c.hidden_size == 768 && c.intermediate_size == 3072);
  CHECK(c.head_dim == 64 && c.max_position_embeddings == 1024 && c.tie_word_embeddings);
  CHECK(c.norm_eps == 1e-5 && c.bos_token_id == -1 && c.num_eos == 0);
  REQUIRE(parse("{\"model_type\":\"llama\"}", &c));
  CHECK(c.vocab_size == 32000 && c.hidden_size == 4096 && c.num_key_value_heads == 32);
  CHECK(c.head_dim == 128 && !c.tie_word_embeddings && c.rope_theta == 10000);
  CHECK(c.norm_eps == 1e-6 && !c.attention_bias && c.rope_scaling == ROPE_PLAIN);
}

TEST(families_differ_in_their_defaults) {
  Config c;
  REQUIRE(parse("{\"model_type\":\"qwen2\"}", &c));
  CHECK(c.max_position_embeddings == 32768 && config_traits(&c) & TRAIT_QKV_BIAS);
  CHECK(!(config_traits(&c) & TRAIT_O_BIAS) && config_window(&c, 30) == 0);
  REQUIRE(parse("{\"model_type\":\"qwen3\"}", &c));
  CHECK(c.head_dim == 128 && config_traits(&c) & TRAIT_QK_NORM && !c.tie_word_embeddings);
  REQUIRE(parse("{\"model_type\":\"mistral\"}", &c));
  CHECK(c.num_key_value_heads == 8 && config_window(&c, 0) == 4096 && c.embedding_scale == 0);
  REQUIRE(parse("{\"model_type\":\"gemma2\"}", &c));
  CHECK(c.attn_softcap == 50 && c.logit_softcap == 30 && c.query_pre_attn_scalar == 256);
  CHECK(c.tie_word_embeddings && c.head_dim == 256 && c.embedding_scale == 48);
  CHECK(config_window(&c, 0) == 4096 && config_window(&c, 1) == 0 && config_window(&c, 2) == 4096);
  REQUIRE(parse("{\"model_type\":\"gemma3_text\"}", &c));
  CHECK(c.attn_softcap == 0 && c.rope_theta == 1e6 && c.rope_local_theta == 10000);
  CHECK(config_window(&c, 4) == 4096 && config_window(&c, 5) == 0 && config_window(&c, 6) == 4096);
  REQUIRE(parse("{\"model_type\":\"phi3\"}", &c));
  CHECK(c.num_key_value_heads == 32 && c.norm_eps == 1e-5 && config_window(&c, 0) == 0);
  REQUIRE(parse("{\"model_type\":\"qwen3_5_text\",\"num_hidden_layers\":8}", &c));
  CHECK(config_layer_kind(&c, 2) == LAYER_DELTA && config_layer_kind(&c, 3) == LAYER_FULL);
  CHECK(config_rotary_dim(&c, false) == 64 && config_traits(&c) & TRAIT_OUTPUT_GATE);
}

TEST(gemma4_says_the_heads_of_full_layers_in_two_ways) {
  static const char *const ways[] = {
      "\"global_head_dim\":16,\"num_global_key_value_heads\":1",
      "\"per_layer_config\":{\"1\":{\"head_dim\":16,\"num_key_value_heads\":1},"
      "\"3\":{\"head_dim\":16,\"num_key_value_heads\":1}}"};
  for (int i = 0; i < 2; i++) {
    Config c;
    REQUIRE(
        parse(test_path("{\"model_type\":\"gemma4_text\",\"num_hidden_layers\":4,\"head_dim\":8,"
                        "\"num_key_value_heads\":2,\"num_kv_shared_layers\":2,"
                        "\"attention_k_eq_v\":true,\"use_double_wide_mlp\":true,"
                        "\"layer_types\":[\"sliding_attention\",\"full_attention\","
                        "\"sliding_attention\",\"full_attention\"],%s}",
                        ways[i]),
              &c));
    CHECK(config_head_dim(&c, 1) == 16 && config_kv_heads(&c, 1) == 1 && c.attention_scale == 1);
    CHECK(config_head_dim(&c, 2) == 8 && config_kv_heads(&c, 2) == 2);
    CHECK(config_keys_layer(&c, 2) == 0 && config_keys_layer(&c, 3) == 1);
    CHECK(config_is_shared(&c, 0) && config_is_shared(&c, 1) && !config_is_shared(&c, 2));
    CHECK(config_ffn_size(&c, 1) == 9216 && config_ffn_size(&c, 2) == 18432);
    CHECK(c.rope_scaling == ROPE_PROPORTIONAL && config_rotary_dim(&c, false) == 16);
  }
}

TEST(lfm2_says_its_width_and_its_layers_in_two_ways) {
  Config c;
  REQUIRE(parse("{\"model_type\":\"lfm2\",\"block_ff_dim\":12288,\"num_hidden_layers\":4,"
                "\"full_attn_idxs\":[2]}",
                &c));
  CHECK(c.intermediate_size == 8192 && c.tie_word_embeddings && c.rope_theta == 1e6);
  CHECK(config_layer_kind(&c, 1) == LAYER_CONV && config_layer_kind(&c, 2) == LAYER_FULL);
  REQUIRE(parse("{\"model_type\":\"lfm2\",\"intermediate_size\":20,"
                "\"block_auto_adjust_ff_dim\":false,\"num_hidden_layers\":2,"
                "\"layer_types\":[\"conv\",\"full_attention\"]}",
                &c));
  CHECK(c.intermediate_size == 20 && config_layer_kind(&c, 0) == LAYER_CONV);
}

TEST(null_is_not_the_same_as_absent) {
  Config c;
  REQUIRE(parse("{\"model_type\":\"mistral\",\"sliding_window\":null,\"head_dim\":null,"
                "\"num_key_value_heads\":null,\"vocab_size\":null}",
                &c));
  CHECK(config_window(&c, 0) == 0 && c.head_dim == 128 && c.num_key_value_heads == 32);
  CHECK(c.vocab_size == 32000);
  REQUIRE(parse("{\"model_type\":\"gemma2\",\"attn_logit_softcapping\":null,"
                "\"final_logit_softcapping\":null}",
                &c));
  CHECK(c.attn_softcap == 0 && c.logit_softcap == 0);
}

TEST(layers_are_windowed_by_rule_or_by_list) {
  Config c;
  REQUIRE(parse("{\"model_type\":\"qwen2\",\"use_sliding_window\":true,\"num_hidden_layers\":4,"
                "\"max_window_layers\":2,\"sliding_window\":64}",
                &c));
  CHECK(!config_window(&c, 0) && !config_window(&c, 1));
  CHECK(config_window(&c, 2) == 64 && config_window(&c, 3) == 64);
  REQUIRE(parse("{\"model_type\":\"gemma3_text\",\"num_hidden_layers\":3,\"sliding_window\":8,"
                "\"layer_types\":[\"full_attention\",\"sliding_attention\",\"full_attention\"]}",
                &c));
  CHECK(!config_window(&c, 0) && config_window(&c, 1) == 8 && !config_window(&c, 2));
}

/* The square root of hidden_size as the checkpoint's own number type has it. */
TEST(embeddings_are_scaled_in_the_model_s_number_type) {
  static const char *const shape = "{\"model_type\":\"gemma2\",\"hidden_size\":3584%s}";
  Config c;
  REQUIRE(parse(test_path(shape, ",\"torch_dtype\":\"bfloat16\""), &c));
  CHECK(c.embedding_scale == 59.75);
  REQUIRE(parse(test_path(shape, ",\"dtype\":\"float16\""), &c));
  CHECK(c.embedding_scale == 59.875);
  REQUIRE(parse(test_path(shape, ""), &c));
  CHECK_NEAR(c.embedding_scale, sqrt(3584), 1e-5);
  REQUIRE(parse(test_path(shape, ",\"torch_dtype\":\"float32\",\"embedding_scale\":59.75"), &c));
  CHECK(c.embedding_scale == 59.75);
}

TEST(the_text_part_of_a_multimodal_file) {
  Config c;
  REQUIRE(parse("{\"model_type\":\"gemma3\",\"eos_token_id\":[1,106],\"torch_dtype\":\"bfloat16\","
                "\"vision_config\":{\"hidden_size\":1152},\"text_config\":{\"model_type\":"
                "\"gemma3_text\",\"hidden_size\":2560,\"num_hidden_layers\":34,"
                "\"intermediate_size\":10240,\"sliding_window\":1024,"
                "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8.0}}}",
                &c));
  CHECK(c.hidden_size == 2560 && c.num_hidden_layers == 34 && c.num_eos == 2);
  CHECK(c.rope_scaling == ROPE_LINEAR && c.rope_factor == 8 && c.num_key_value_heads == 4);
  CHECK(c.embedding_scale == 50.5);
}

TEST(the_spellings_of_rope_scaling) {
  Config c;
  REQUIRE(
      parse("{\"model_type\":\"llama\",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}}", &c));
  CHECK(c.rope_scaling == ROPE_LINEAR && c.rope_factor == 2);
  REQUIRE(parse("{\"model_type\":\"llama\",\"rope_parameters\":{\"rope_theta\":1000000,"
                "\"rope_type\":\"default\"},\"rope_scaling\":null}",
                &c));
  CHECK(c.rope_scaling == ROPE_PLAIN && c.rope_theta == 1e6);
  REQUIRE(parse("{\"model_type\":\"llama\",\"rope_parameters\":{\"rope_theta\":5e5,"
                "\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,"
                "\"high_freq_factor\":4,\"original_max_position_embeddings\":64}}",
                &c));
  CHECK(c.rope_scaling == ROPE_LLAMA3 && c.rope_original_max_position_embeddings == 64);
  REQUIRE(parse("{\"model_type\":\"gemma3_text\",\"rope_parameters\":{\"full_attention\":"
                "{\"rope_type\":\"linear\",\"factor\":8,\"rope_theta\":2e6},\"sliding_attention\":"
                "{\"rope_type\":\"default\",\"rope_theta\":5000}}}",
                &c));
  CHECK(c.rope_scaling == ROPE_LINEAR && c.rope_theta == 2e6 && c.rope_local_theta == 5000);
  REQUIRE(parse("{\"model_type\":\"phi3\",\"hidden_size\":64,\"num_attention_heads\":8,"
                "\"max_position_embeddings\":8192,\"rope_parameters\":{\"rope_type\":\"longrope\","
                "\"rope_theta\":500,\"partial_rotary_factor\":0.5,\"short_factor\":[1,2],"
                "\"long_factor\":[3,4],\"original_max_position_embeddings\":1024}}",
                &c));
  CHECK(c.rope_scaling == ROPE_LONG && config_rotary_dim(&c, false) == 4 && c.rope_theta == 500);
  CHECK(c.rope_nfactors == 2 && c.rope_long[1] == 4 && c.max_position_embeddings == 8192);
  CHECK(!config_is_long(&c, 1024) && config_is_long(&c, 1025));
}

TEST(end_tokens_are_a_number_a_list_or_null) {
  Config c;
  REQUIRE(parse("{\"model_type\":\"llama\",\"eos_token_id\":[7,9,7],\"bos_token_id\":null,"
                "\"pad_token_id\":4}",
                &c));
  CHECK(c.num_eos == 2 && config_is_eos(&c, 9) && !config_is_eos(&c, 4) && c.pad_token_id == 4);
  REQUIRE(parse("{\"model_type\":\"llama\",\"eos_token_id\":null,\"unknown\":{\"a\":[1]}}", &c));
  CHECK(c.num_eos == 0 && !config_is_eos(&c, -1));
}

/* ---- keys that a family has no use for ------------------------------------------------- */

static char noted[400];
static void keep_note(void *user, LogLevel level, const char *message) {
  (void)user, (void)level;
  snprintf(noted, sizeof noted, "%s", message);
}

static Status parse_with(const char *type, const char *key_and_value) {
  Config c;
  return parse(
      test_path("{\"model_type\":\"%s\",\"n_routed_experts\":null,%s}", type, key_and_value), &c);
}

TEST(keys_that_change_the_result_are_refused) {
  static const char *const keys[] = {"\"logits_scaling\":8",
                                     "\"embedding_multiplier\":12",
                                     "\"attention_multiplier\":0.01",
                                     "\"residual_multiplier\":0.22",
                                     "\"no_rope_layers\":[1,1,0]",
                                     "\"no_rope_layer_interval\":4",
                                     "\"scale_emb\":12",
                                     "\"mlp_multipliers\":[1,0.5]",
                                     "\"clip_qkv\":8",
                                     "\"use_qk_norm\":true",
                                     "\"rotary_dim\":32",
                                     "\"alibi\":true",
                                     "\"num_local_experts\":8",
                                     "\"attention_chunk_size\":8192",
                                     "\"attn_output_gate\":true",
                                     "\"logit_scale\":0.0625",
                                     "\"output_logit_soft_cap\":30",
                                     "\"residual_multiplier\":0",
                                     "\"rope_interleave\":true",
                                     "\"layer_norm_type\":\"low_precision\"",
                                     "\"embedding_scale_by\":2",
                                     "\"qkv_bias_of_others\":true"};
  static const char *const types[] = {"llama",       "mistral", "qwen2", "qwen3",      "gemma2",
                                      "gemma3_text", "gpt2",    "phi3",  "deepseek_v2"};
  for (size_t t = 0; t < sizeof types / sizeof *types; t++)
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
      const Status s = parse_with(types[t], keys[i]);
      if (s != GRPO_EFORMAT || !strstr(err_message(), "it changes the result and is not computed"))
        test_fail(__FILE__, __LINE__, "%s: %s: %s", types[t], keys[i],
                  s ? err_message() : "accepted");
    }
  Config c;
  CHECK(parse("{\"model_type\":\"llama\",\"logits_scaling\":8}", &c) == GRPO_EFORMAT);
  CHECK(strstr(err_message(), "logits_scaling: it changes the result and is not computed for llama "
                              "models"));
  CHECK(parse_with("mistral", "\"attention_bias\":true") == GRPO_EFORMAT);
  CHECK(parse_with("gpt2", "\"moe_intermediate_size\":64") == GRPO_EFORMAT);
}

TEST(values_that_are_not_used_are_fine) {
  static const char *const fine[] = {
      "\"logits_scaling\":1,\"embedding_multiplier\":1.0,\"residual_multiplier\":null",
      "\"no_rope_layer_interval\":0,\"attn_output_gate\":false",
      "\"mlp_multipliers\":[1.0,1.0],\"num_local_experts\":0,\"clip_qkv\":null",
      "\"layer_norm_type\":\"\",\"per_layer_config\":{}",
      "\"torch_dtype\":\"float32\",\"use_cache\":true,\"pad_token_id\":3,\"architectures\":[\"X\"],"
      "\"auto_map\":{\"AutoModel\":\"x.y\"},\"transformers_version\":\"4.51\",\"_name_or_path\":"
      "\"a/b\",\"attention_dropout\":0.1,\"resid_pdrop\":0.1,\"router_aux_loss_coef\":0.01,"
      "\"initializer_range\":0.02,\"id2label\":{\"0\":\"a\"},\"unsloth_fixed\":true,"
      "\"image_token_index\":7,\"_attn_implementation_autoset\":true,\"pretraining_tp\":2,"
      "\"repetition_penalty\":1.1,\"cache_implementation\":\"hybrid\",\"max_length\":20"};
  log_set_sink(keep_note, NULL);
  for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
    if (parse_with("llama", fine[i]) || parse_with("gemma2", fine[i]) ||
        parse_with("gpt2", fine[i]))
      test_fail(__FILE__, __LINE__, "%s: %s", fine[i], err_message());
    CHECK_STR(noted, "");
  }
  CHECK(parse_with("llama", "\"no_rope_layers\":[1,1,1],\"position_embedding_type\":\"rope\"") ==
        GRPO_OK);
  CHECK(parse_with("qwen2", "\"attention_bias\":true,\"use_mrope\":false") == GRPO_OK);
  CHECK(parse_with("deepseek_v2", "\"moe_intermediate_size\":64,\"topk_method\":\"greedy\"") ==
        GRPO_OK);
  CHECK_STR(noted, "");
  CHECK(parse_with("llama", "\"hiden_size\":64,\"a\":\"b\"") == GRPO_OK);
  CHECK(strstr(noted, "not known for llama models and ignored: hiden_size, a"));
  noted[0] = 0;
  CHECK(parse_with("llama", "\"\":2,\" \":\" \"") == GRPO_OK);
  CHECK(parse_with("llama", "\"hiden_size\":64,\"a\":\"b\"") == GRPO_OK);
  noted[0] = 0;
  CHECK(parse_with("llama", "\"hiden_size\":64,\"a\":\"b\"") == GRPO_OK); /* said already */
  CHECK_STR(noted, "");
  log_set_sink(NULL, NULL);
}

/* The same value is what one family computes and what another family does not. */
static const char *const parts[][3] = {
    /* a key and value, families that compute it, families that do not */
    {"\"use_rope\":true", "llama mistral qwen2 qwen3 gemma2 gemma3_text phi3 deepseek_v2", "gpt2"},
    {"\"use_rope\":false", "gpt2",
     "llama mistral qwen2 qwen3 gemma2 gemma3_text phi3 deepseek_v2 gpt2_mla"},
    {"\"causal\":true", "llama gpt2 gpt2_mla gemma2", ""},
    {"\"causal\":false", "", "llama mistral qwen2 qwen3 gemma2 gemma3_text phi3 deepseek_v2 gpt2"},
    {"\"is_causal\":false", "", "llama gpt2 gemma2"},
    {"\"final_norm\":true", "llama gpt2 gemma3_text", ""},
    {"\"final_norm\":false", "", "llama mistral qwen2 qwen3 gemma2 gemma3_text phi3 gpt2 gpt2_mla"},
    {"\"do_layer_norm_before\":true", "gpt2 llama", ""},
    {"\"do_layer_norm_before\":false", "", "gpt2 llama gemma2"},
    {"\"gated_mlp\":true", "llama qwen3 gemma2 phi3 deepseek_v2", "gpt2 gpt2_mla"},
    {"\"gated_mlp\":false", "gpt2 gpt2_mla", "llama qwen3 gemma2 phi3 deepseek_v2"},
    {"\"mlp_gate\":false", "gpt2 gpt2_mla", "llama mistral gemma3_text"},
    {"\"rms_norm_offset\":1", "gemma2 gemma3_text", "llama mistral qwen2 qwen3 phi3 gpt2"},
    {"\"rms_norm_offset\":0.0", "llama mistral qwen2 qwen3 phi3", "gemma2 gemma3_text"},
    {"\"use_rms_norm\":false", "gpt2 gpt2_mla", "llama qwen2 gemma2"},
    {"\"norm_type\":\"layernorm\"", "gpt2", "llama qwen2 gemma2"},
    {"\"norm_type\":\"rmsnorm\"", "llama qwen2 gemma2", "gpt2 gpt2_mla"},
    {"\"use_qk_norm\":false", "llama mistral qwen2 gemma2 phi3 gpt2", "qwen3 gemma3_text"},
    {"\"qkv_bias\":false", "llama mistral qwen3 gemma2 phi3", "qwen2 gpt2"},
    {"\"qkv_bias\":true", "qwen2 gpt2", "llama mistral qwen3 gemma2 phi3"},
    {"\"attention_bias\":false", "llama mistral qwen3 gemma2 gemma3_text phi3 deepseek_v2",
     "qwen2 gpt2"},
    {"\"mlp_bias\":false", "llama mistral qwen2 qwen3 gemma2 phi3 deepseek_v2", "gpt2"},
    {"\"position_embedding_type\":\"rope\"", "llama mistral qwen2 gemma2", "gpt2 gpt2_mla"},
    {"\"position_embedding_type\":\"absolute\"", "gpt2", "llama qwen2 gemma2 gpt2_mla"},
    {"\"position_embedding_type\":\"alibi\"", "", "llama gpt2"},
    {"\"no_rope_layers\":[1,1]", "llama qwen3 phi3", "gpt2 gpt2_mla"},
    {"\"no_rope_layers\":[1,\"1\"]", "", "llama"},
    {"\"no_rope_layers\":[true]", "", "llama"},
    {"\"full_attn_mod\":1,\"interpolate_factor\":1,\"lm_head_bias\":false", "phi3", ""},
    {"\"full_attn_mod\":2", "", "phi3"},
    {"\"n_head_kv\":1", "", "gpt2 gpt2_mla llama"},
    {"\"multi_query\":true", "", "gpt2 llama"},
    {"\"multi_query\":false", "gpt2 llama", ""},
    {"\"use_dynamic_ntk\":true", "", "llama qwen2 gpt2"},
    {"\"use_dynamic_ntk\":false", "llama qwen2 gpt2", ""},
    {"\"use_logn_attn\":true", "", "qwen2 llama"},
    {"\"attention_multiplier\":1", "", "llama gemma2 gpt2"},
    {"\"attention_type\":\"sliding\"", "", "llama gpt2"},
    {"\"scale_embedding\":false", "llama gpt2", "gemma2 gemma3_text"},
    {"\"scale_emb\":1", "llama gpt2", "gemma2 gemma3_text"},
    {"\"num_local_experts\":1", "", "llama gpt2"},
    {"\"clip_qkv\":1", "", "llama gpt2"},
    {"\"use_mrope\":true", "", "qwen2 llama"},
    {"\"rotary_dim\":1", "", "llama gpt2"},
    {"\"unheard_of_norm\":false", "", "llama gpt2 gemma2"},
    {"\"use_sliding_window\":false,\"max_window_layers\":28", "llama mistral qwen2 qwen3 phi3", ""},
};

static void check_parts(const char *key_and_value, const char *families, bool computed) {
  char list[128], *rest = list;
  snprintf(list, sizeof list, "%s", families);
  for (char *type; (type = strtok_r(rest, " ", &rest)) != NULL;) {
    const Status s = parse_with(type, key_and_value);
    if (computed ? s != GRPO_OK : s != GRPO_EFORMAT)
      test_fail(__FILE__, __LINE__, "%s: %s: %s", type, key_and_value,
                s ? err_message() : "accepted");
  }
}

TEST(a_value_is_fine_only_where_the_family_computes_it) {
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    check_parts(parts[i][0], parts[i][1], true);
    check_parts(parts[i][0], parts[i][2], false);
  }
}

#define GEMMA4 "{\"model_type\":\"gemma4_text\",\"num_hidden_layers\":6,"
static const char *const refused[][2] = {
    {"{}", "model_type is missing"},
    {"[]", "not a JSON object"},
    {"{\"model_type\":\"mamba\"}", "model_type 'mamba'"},
    {"{\"model_type\":\"llama\",\"hidden_act\":\"gelu\"}", "hidden_act 'gelu'"},
    {"{\"model_type\":\"gpt2\",\"activation_function\":\"relu\"}", "activation_function 'relu'"},
    {"{\"model_type\":\"gpt2\",\"scale_attn_by_inverse_layer_idx\":true}",
     "scale_attn_by_inverse_layer_idx is supported only as false"},
    {"{\"model_type\":\"gpt2\",\"scale_attn_weights\":false}", "scale_attn_weights"},
    {"{\"model_type\":\"gpt2\",\"reorder_and_upcast_attn\":true}", "reorder_and_upcast_attn"},
    {"{\"model_type\":\"llama\",\"sliding_window\":4096}", "sliding_window"},
    {"{\"model_type\":\"llama\",\"layer_types\":[\"full_attention\",\"sliding_attention\"]}",
     "sliding_attention"},
    {"{\"model_type\":\"llama\",\"rope_scaling\":{\"rope_type\":\"dynamic\",\"factor\":2}}",
     "rope type 'dynamic'"},
    {"{\"model_type\":\"llama\",\"rope_scaling\":{\"type\":\"dynamic\"}}", "'dynamic'"},
    {"{\"model_type\":\"llama\",\"rope_scaling\":{\"type\":\"linear\"}}", "needs a factor"},
    {"{\"model_type\":\"llama\",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8}}",
     "low_freq_factor"},
    {"{\"model_type\":\"llama\",\"rope_scaling\":{\"type\":\"longrope\"}}", "phi3 models only"},
    {"{\"model_type\":\"phi3\",\"rope_scaling\":{\"type\":\"longrope\",\"short_factor\":[1]}}",
     "short_factor must list 48 numbers"},
    {"{\"model_type\":\"phi3\",\"rope_scaling\":{\"type\":\"longrope\",\"factor\":3}}", "factor"},
    {"{\"model_type\":\"phi3\",\"partial_rotary_factor\":2}", "partial_rotary_factor"},
    {"{\"model_type\":\"qwen3\",\"rope_parameters\":{\"full_attention\":{}}}",
     "rope_parameters for each type of layer"},
    {"{\"model_type\":\"gemma3_text\",\"rope_parameters\":{\"sliding_attention\":"
     "{\"rope_type\":\"linear\",\"factor\":2}}}",
     "not supported for sliding_attention"},
    {"{\"model_type\":\"qwen2\",\"num_hidden_layers\":2,\"use_sliding_window\":true,"
     "\"layer_types\":[\"full_attention\"]}",
     "layer_types lists 1 layers, but there are 2"},
    {"{\"model_type\":\"mistral\",\"layer_types\":[\"full_attention\"]}", "the other keys do not"},
    {"{\"model_type\":\"qwen2\",\"layer_types\":[\"chunked_attention\"]}", "'chunked_attention'"},
    {"{\"model_type\":\"qwen2\",\"layer_types\":[\"linear_attention\"]}",
     "says linear_attention for layer 0"},
    {"{\"model_type\":\"qwen3_5_text\",\"layer_types\":5}", "layer_types must be a list"},
    {"{\"model_type\":\"lfm2\",\"full_attn_idxs\":\"x\"}", "full_attn_idxs must be a list"},
    {"{\"model_type\":\"lfm2\",\"full_attn_idxs\":[99]}", "full_attn_idxs"},
    {"{\"model_type\":\"smollm3\",\"no_rope_layers\":1}", "no_rope_layers must be a list"},
    {"{\"model_type\":\"qwen3_5_text\",\"attn_output_gate\":false}", "attn_output_gate"},
    {"{\"model_type\":\"mistral\",\"sliding_window\":0}", "sliding_window = 0 is outside"},
    {"{\"model_type\":\"llama\",\"final_logit_softcapping\":30}", "only as null"},
    {"{\"model_type\":\"gemma3_text\",\"use_bidirectional_attention\":true}", "bidirectional"},
    {"{\"model_type\":\"gemma2\",\"hidden_activation\":\"gelu\"}", "hidden_activation 'gelu'"},
    {"{\"model_type\":\"gemma3\"}", "model_type 'gemma3'"},
    {"{\"model_type\":\"llama\",\"rope_scaling\":3}", "rope_scaling must be an object"},
    {"{\"model_type\":\"llama\",\"partial_rotary_factor\":0.5}", "partial_rotary_factor"},
    {"{\"model_type\":\"llama\",\"quantization_config\":{}}", "quantization_config"},
    {"{\"model_type\":\"llama\",\"hidden_size\":\"64\"}", "hidden_size must be a whole number"},
    {"{\"model_type\":\"llama\",\"hidden_size\":-4}", "hidden_size = -4 is outside"},
    {"{\"model_type\":\"llama\",\"num_hidden_layers\":1e9}", "num_hidden_layers"},
    {"{\"model_type\":\"llama\",\"hidden_size\":100,\"num_attention_heads\":3}",
     "not a multiple of 3 attention heads"},
    {"{\"model_type\":\"llama\",\"num_key_value_heads\":5}", "key/value heads"},
    {"{\"model_type\":\"qwen3_5_text\",\"linear_num_key_heads\":5}", "not a multiple of 5 key"},
    {"{\"model_type\":\"llama\",\"head_dim\":15}", "15 channels"},
    {"{\"model_type\":\"llama\",\"vocab_size\":4194304,\"hidden_size\":65536,\"head_dim\":64,"
     "\"num_attention_heads\":32}",
     "parameters"},
    {"{\"model_type\":\"llama\",\"tie_word_embeddings\":1}", "true or false"},
    {"{\"model_type\":\"llama\",\"rms_norm_eps\":\"x\"}", "rms_norm_eps must be a number"},
    {"{\"model_type\":\"llama\",\"eos_token_id\":[1,2,3,4,5,6,7,8,9]}", "eos_token_id"},
    {"{\"model_type\":\"deepseek_v2\",\"hidden_size\":64}", "mixtures of experts"},
    {"{\"model_type\":\"deepseek_v2\",\"num_hidden_layers\":4,\"first_k_dense_replace\":1}",
     "first_k_dense_replace = 1"},
    {"{\"model_type\":\"deepseek_v2\",\"n_routed_experts\":null,\"qk_rope_head_dim\":5}",
     "qk_rope_head_dim 5 is odd"},
    {"{\"model_type\":\"deepseek_v2\",\"n_routed_experts\":null,\"kv_lora_rank\":0}",
     "kv_lora_rank = 0 is outside"},
    {"{\"model_type\":\"deepseek_v2\",\"n_routed_experts\":null,\"kv_lora_rank\":null,\"qk_rope_"
     "head_dim\":1024}",
     "is more than 1024"},
    {"{\"model_type\":\"deepseek_v2\",\"n_routed_experts\":null,\"kv_lora_rank\":-1}",
     "kv_lora_rank = -1 is outside"},
    {"{\"model_type\":\"deepseek_v2\",\"n_routed_experts\":null,\"q_lora_rank\":0}",
     "q_lora_rank = 0 is outside"},
    {"{\"model_type\":\"deepseek_v2\",\"n_routed_experts\":null,\"v_head_dim\":\"x\"}",
     "v_head_dim must be a whole number"},
    {"{\"model_type\":\"deepseek_v3\",\"n_group\":7}", "into n_group = 7 equal groups"},
    {"{\"model_type\":\"deepseek_v3\",\"num_hidden_layers\":4,\"scoring_func\":\"softmax\"}",
     "scoring_func"},
    {"{\"model_type\":\"deepseek_v3\",\"num_hidden_layers\":4,\"topk_method\":\"greedy\"}",
     "topk_method"},
    {"{\"model_type\":\"deepseek_v3\",\"num_hidden_layers\":4,\"moe_layer_freq\":2}",
     "moe_layer_freq"},
    {"{\"model_type\":\"qwen3_moe\",\"num_experts\":4}", "more than the 4 experts that"},
    {"{\"model_type\":\"qwen3_moe\",\"mlp_only_layers\":3}", "mlp_only_layers must be a list"},
    {"{\"model_type\":\"qwen3_moe\",\"mlp_only_layers\":[-1]}", "mlp_only_layers = -1"},
    {"{\"model_type\":\"olmoe\",\"clip_qkv\":8}", "clip_qkv"},
    {"{\"model_type\":\"gpt_oss\",\"swiglu_limit\":0}", "swiglu_limit must be a number"},
    {"{\"model_type\":\"gpt_oss\",\"num_local_experts\":8,\"experts_per_token\":2}",
     "experts_per_token is supported only as num_experts_per_tok = 4"},
    {"{\"model_type\":\"deepseek_v3\",\"num_hidden_layers\":4,\"n_group\":256,\"topk_group\":8}",
     "n_group = 256 leaves 1 expert in a group"},
    {"{\"model_type\":\"deepseek_v3\",\"num_hidden_layers\":4,\"scoring_func\":[]}",
     "scoring_func"},
    {"{\"model_type\":\"deepseek_v3\",\"num_hidden_layers\":4,\"rope_interleave\":{}}",
     "rope_interleave"},
    {"{\"model_type\":\"olmo3\",\"layer_types\":[]}", "layer_types lists 0 layers"},
    {"{\"model_type\":\"smollm3\",\"no_rope_layers\":[]}", "no_rope_layers lists 0 layers"},
    {"{\"model_type\":\"gemma3_text\",\"rope_parameters\":{\"sliding_attention\":[]}}",
     "sliding_attention must be an object"},
    {GEMMA4 "\"use_bidirectional_attention\":\"all\"}", "use_bidirectional_attention is supported"},
    {GEMMA4 "\"vocab_size_per_layer_input\":9}", "supported only as vocab_size"},
    {GEMMA4 "\"enable_moe_block\":true}", "the number of experts"},
    {GEMMA4 "\"enable_moe_block\":1}", "enable_moe_block must be true or false"},
    {GEMMA4 "\"enable_moe_block\":true,\"num_experts\":4,\"top_k_experts\":5,"
            "\"moe_intermediate_size\":8}",
     "more than the 4 experts"},
    {"{\"model_type\":\"qwen3_moe\",\"num_experts\":null}", "the number of experts"},
    {GEMMA4 "\"query_pre_attn_scalar\":8}", "query_pre_attn_scalar"},
    {GEMMA4 "\"num_kv_shared_layers\":6}", "no earlier layer has the keys"},
    {GEMMA4 "\"num_kv_shared_layers\":1}", "no earlier layer has the keys"},
    {GEMMA4 "\"per_layer_config\":[1]}", "must be an object or null"},
    {GEMMA4 "\"per_layer_config\":{\"6\":{}}}", "no layer '6'"},
    {GEMMA4 "\"per_layer_config\":{\"5\":{\"window\":1}}}", "window is not supported"},
    {GEMMA4 "\"per_layer_config\":{\"0\":{\"head_dim\":8}}}", "layer 0 has 4 heads of 8"},
    {"{\"model_type\":\"gemma3n_text\"}", "'gemma3n_text' is not supported"},
    {"{\"model_type\":\"deepseek_v2\",\"n_routed_experts\":null,\"sliding_window\":8}",
     "sliding_window is not supported"},
    {"{\"model_type\":\"gpt2_mla\",\"qk_nope_head_dim\":0}", "qk_nope_head_dim = 0 is outside"},
};

TEST(what_is_not_supported_is_refused_by_name) {
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    Config c;
    Status s = parse(refused[i][0], &c);
    if (s == GRPO_OK || !strstr(err_message(), refused[i][1]) ||
        !strstr(err_message(), "config.json"))
      test_fail(__FILE__, __LINE__, "%s: %s", refused[i][0], s ? err_message() : "accepted");
  }
}

TEST(harmless_values_of_refused_keys_are_accepted) {
  Config c;
  OK(parse("{\"model_type\":\"llama\",\"sliding_window\":4096,\"use_sliding_window\":false,"
           "\"layer_types\":[\"full_attention\"],\"partial_rotary_factor\":1.0,"
           "\"rope_scaling\":null,\"rope_interleaved\":false,\"pretraining_tp\":1}",
           &c));
  OK(parse("{\"model_type\":\"gpt2\",\"activation_function\":\"gelu_pytorch_tanh\","
           "\"scale_attn_weights\":true,\"reorder_and_upcast_attn\":false,\"n_inner\":null}",
           &c));
}

/* transformers 5 refuses a whole number where it wants a float, and the other way round. */
TEST(soft_caps_are_written_as_floats) {
  Config c;
  Buf text = {0};
  config_of(&c, "{\"model_type\":\"gemma2\"}");
  config_write(&text, &c);
  CHECK(strstr(text.data, "\"attn_logit_softcapping\": 50.0,") != NULL);
  CHECK(strstr(text.data, "\"final_logit_softcapping\": 30.0,") != NULL);
  CHECK(strstr(text.data, "\"query_pre_attn_scalar\": 256,") != NULL);
  buf_free(&text);
}

TEST(a_written_configuration_reads_back_the_same) {
  static const char linear[] =
      "{\"model_type\":\"llama\",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.5},"
      "\"eos_token_id\":[3,4],\"bos_token_id\":1}";
  static const char irregular[] =
      "{\"model_type\":\"qwen3\",\"num_hidden_layers\":3,\"use_sliding_window\":true,"
      "\"layer_types\":[\"sliding_attention\",\"full_attention\",\"sliding_attention\"]}";
  for (int i = 0; i < SMALL_SHAPES + 2; i++) {
    Config a, b;
    Buf text = {0}, again = {0};
    config_of(&a, i == SMALL_SHAPES ? linear : i > SMALL_SHAPES ? irregular : *small_shapes[i]);
    config_write(&text, &a);
    REQUIRE(parse(text.data, &b));
    config_write(&again, &b);
    CHECK_STR(again.data, text.data);
    CHECK(a.head_dim == b.head_dim && a.rope_factor == b.rope_factor && a.num_eos == b.num_eos);
    CHECK(a.embedding_scale == b.embedding_scale && a.rope_theta == b.rope_theta);
    CHECK(a.max_position_embeddings == b.max_position_embeddings);
    CHECK(config_traits(&a) == config_traits(&b) && a.rope_scaling == b.rope_scaling);
    for (int k = 0; k < a.num_hidden_layers; k++)
      CHECK(config_window(&a, k) == config_window(&b, k));
    buf_free(&text);
    buf_free(&again);
  }
}

TEST(the_shapes_that_ship_are_valid) {
  static const char *const files[] = {
      "tiny",         "gpt2",       "gpt2-char",    "gpt2-mla",
      "smollm2-135m", "qwen3-0.6b", "qwen3.5-0.8b", "qwen3-30b-a3b-cut"};
  for (int i = 0; i < (int)(sizeof files / sizeof *files); i++) {
    Json *j = NULL;
    Config c;
    const char *path = test_path("configs/models/%s.json", files[i]);
    REQUIRE(json_read_file(path, 0, &j));
    OK(config_read(&c, j, path));
    json_free(j);
  }
}
