/* config.json in its variants, and what is refused by name. */
#include "base/file.h"
#include "model/modeltest.h"

static Status parse(const char *text, Config *c) {
  Json *j = NULL;
  try(json_parse(text, strlen(text), "test", &j));
  Status s = config_from_json(c, j, "config.json");
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

TEST(what_is_not_supported_is_refused_by_name) {
  static const char *const cases[][2] = {
      {"{}", "no model_type"},
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
      {"{\"model_type\":\"llama\",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":2}}",
       "rope type 'yarn'"},
      {"{\"model_type\":\"llama\",\"rope_scaling\":{\"type\":\"dynamic\"}}", "'dynamic'"},
      {"{\"model_type\":\"llama\",\"rope_scaling\":{\"type\":\"linear\"}}", "needs a factor"},
      {"{\"model_type\":\"llama\",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8}}",
       "low_freq_factor"},
      {"{\"model_type\":\"llama\",\"rope_scaling\":3}", "rope_scaling must be an object"},
      {"{\"model_type\":\"llama\",\"partial_rotary_factor\":0.5}", "partial_rotary_factor"},
      {"{\"model_type\":\"llama\",\"quantization_config\":{}}", "quantization_config"},
      {"{\"model_type\":\"llama\",\"hidden_size\":\"64\"}", "hidden_size must be a whole number"},
      {"{\"model_type\":\"llama\",\"hidden_size\":-4}", "hidden_size = -4 is outside"},
      {"{\"model_type\":\"llama\",\"num_hidden_layers\":1e9}", "num_hidden_layers"},
      {"{\"model_type\":\"llama\",\"hidden_size\":100,\"num_attention_heads\":3}",
       "not a multiple of 3 attention heads"},
      {"{\"model_type\":\"llama\",\"num_key_value_heads\":5}", "key/value heads"},
      {"{\"model_type\":\"llama\",\"head_dim\":15}", "is odd"},
      {"{\"model_type\":\"llama\",\"vocab_size\":4194304,\"hidden_size\":65536,\"head_dim\":64,"
       "\"num_attention_heads\":32}",
       "parameters"},
      {"{\"model_type\":\"llama\",\"tie_word_embeddings\":1}", "true or false"},
      {"{\"model_type\":\"llama\",\"rms_norm_eps\":\"x\"}", "rms_norm_eps must be a number"},
      {"{\"model_type\":\"llama\",\"eos_token_id\":[1,2,3,4,5,6,7,8,9]}", "eos_token_id"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Config c;
    Status s = parse(cases[i][0], &c);
    if (s == GRPO_OK || !strstr(err_message(), cases[i][1]) ||
        !strstr(err_message(), "config.json"))
      test_fail(__FILE__, __LINE__, "%s: %s", cases[i][0], s ? err_message() : "accepted");
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

TEST(a_written_configuration_reads_back_the_same) {
  static const char linear[] =
      "{\"model_type\":\"llama\",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.5},"
      "\"eos_token_id\":[3,4],\"bos_token_id\":1}";
  const char *const shapes[] = {tiny_gpt2, tiny_llama, biased_llama, linear};
  for (int i = 0; i < 4; i++) {
    Config a, b;
    Buf text = {0}, again = {0};
    config_of(&a, shapes[i]);
    config_put_json(&text, &a);
    REQUIRE(parse(text.data, &b));
    config_put_json(&again, &b);
    CHECK_STR(again.data, text.data);
    CHECK(a.head_dim == b.head_dim && a.rope_factor == b.rope_factor && a.num_eos == b.num_eos);
    buf_free(&text);
    buf_free(&again);
  }
}

TEST(the_shapes_that_ship_are_valid) {
  static const char *const files[] = {"tiny", "gpt2", "gpt2-char", "smollm2-135m"};
  for (int i = 0; i < 4; i++) {
    Json *j = NULL;
    Config c;
    const char *path = test_path("configs/models/%s.json", files[i]);
    REQUIRE(json_read_file(path, 0, &j));
    OK(config_from_json(&c, j, path));
    json_free(j);
  }
}

TEST(generation_config_adds_end_tokens) {
  const char *dir = test_path("%s/generation", test_tmp());
  static const char config[] = "{\"model_type\":\"llama\",\"eos_token_id\":2}";
  static const char generation[] = "{\"eos_token_id\":[5,2],\"pad_token_id\":0}";
  Config c;
  REFUSED(config_load(&c, dir), GRPO_ENOENT, "no such model directory");
  OK(file_mkdirs(dir));
  REFUSED(config_load(&c, dir), GRPO_ENOENT, "config.json");
  OK(file_replace(test_path("%s/config.json", dir), config, strlen(config)));
  OK(file_replace(test_path("%s/generation_config.json", dir), generation, strlen(generation)));
  REQUIRE(config_load(&c, dir));
  CHECK(c.num_eos == 2 && c.eos_token_id[0] == 2 && c.eos_token_id[1] == 5 && c.pad_token_id == 0);
}
