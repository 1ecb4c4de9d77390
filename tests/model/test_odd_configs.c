/* Odd edits of a family's config.json: each loads as the family computes it, or is refused in one
 * line that names what is odd.  test_config.c has the keys and values that all families share. */
#include "model/modeltest.h"

/* refused: a part of the message; NULL: it loads. */
static const struct Case {
  const char *family, *edit, *refused;
} cases[] = {
    /* keys that change the result and are not computed */
    {"phi", "'qk_layernorm':true", "qk_layernorm: it changes"},
    {"phi", "'bias':false", "bias: it changes"},
    {"phi", "'attention_bias':false", "attention_bias: it changes"},
    {"phi", "'attention_bias':true,'lm_head_bias':null", NULL},
    {"phi3", "'use_long_rope':true", "use_long_rope"},
    {"smollm3", "'use_sliding_window':true,'sliding_window':5", "sliding_window is not supported"},
    {"olmo2", "'clip_qkv':8", "clip_qkv"},
    {"olmo2", "'clip_qkv':null", NULL},
    {"granite", "'position_embedding_type':'nope'", "position_embedding_type"},
    {"granite", "'num_local_experts':4", "num_local_experts"},
    {"granite", "'num_local_experts':0,'position_embedding_type':'rope'", NULL},
    {"opt", "'do_layer_norm_before':false", "do_layer_norm_before"},
    {"opt", "'_remove_final_layer_norm':true", "_remove_final_layer_norm"},
    {"opt", "'word_embed_proj_dim':512", "word_embed_proj_dim"},
    {"opt", "'word_embed_proj_dim':768", NULL},
    {"starcoder2", "'norm_type':'rms_norm'", "norm_type"},
    {"starcoder2", "'norm_type':'layer_norm','use_bias':false", NULL},
    {"stablelm", "'qk_layernorm':true", "qk_layernorm"},
    {"cohere2", "'use_parallel_block':false", "use_parallel_block"},
    {"ernie4_5", "'moe_num_experts':4", "moe_num_experts"},
    {"hunyuan_v1_dense", "'use_qk_norm':false", "use_qk_norm"},
    {"hunyuan_v1_dense", "'use_cla':true", "use_cla"},
    {"hunyuan_v1_dense", "'num_experts':8", "num_experts"},
    {"hunyuan_v1_dense",
     "'use_cla':false,'cla_share_factor':2,'num_experts':1,'moe_topk':1,'attention_head_dim':128",
     NULL},
    /* activations */
    {"phi", "'hidden_act':'gelu'", "hidden_act 'gelu'"},
    {"gpt_neox", "'hidden_act':'gelu_new'", "hidden_act 'gelu_new'"},
    {"nemotron", "'hidden_act':'silu'", "hidden_act 'silu'"},
    {"opt", "'activation_function':7", "activation_function '?'"},
    /* nulls and wrong types */
    {"gpt_neox", "'use_parallel_residual':null", "use_parallel_residual must be true or false"},
    {"smollm3", "'mlp_bias':'yes'", "mlp_bias must be true or false"},
    {"granite", "'logits_scaling':null,'residual_multiplier':null", NULL},
    {"granite", "'embedding_multiplier':'12'", "embedding_multiplier must be a number"},
    {"exaone4", "'layer_types':'full_attention'", "layer_types must be a list"},
    {"exaone4", "'sliding_window_pattern':'LXG'", "sliding_window_pattern must be a whole number"},
    {"exaone4", "'sliding_window_pattern':'LLG'", NULL},
    {"seed_oss", "'attention_out_bias':null", NULL},
    {"glm4", "'eos_token_id':{}", "eos_token_id"},
    /* zero, negative and huge sizes */
    {"granite", "'logits_scaling':0", "logits_scaling must be a number from"},
    {"granite", "'attention_multiplier':0", "attention_multiplier must be a number from"},
    {"smollm3", "'no_rope_layer_interval':0", "no_rope_layer_interval = 0"},
    {"starcoder2", "'sliding_window':0", "sliding_window = 0"},
    {"olmo3", "'sliding_window':-1", "sliding_window = -1"},
    {"ministral", "'sliding_window':1e12", "sliding_window = 1000000000000"},
    {"cohere2", "'sliding_window_pattern':-2", "sliding_window_pattern = -2"},
    {"nemotron", "'norm_eps':-1", "norm_eps must be a number from"},
    {"seed_oss", "'intermediate_size':1e300", "intermediate_size"},
    {"lfm2", "'block_multiple_of':0", "block_multiple_of = 0"},
    {"lfm2", "'conv_L_cache':0", "conv_L_cache = 0"},
    {"lfm2_moe", "'num_dense_layers':-1", "num_dense_layers = -1"},
    {"lfm2_moe", "'num_experts':4,'num_experts_per_tok':5", "num_experts_per_tok = 5"},
    {"lfm2_moe", "'use_expert_bias':false", "use_expert_bias is supported only as true"},
    {"lfm2_moe", "'routed_scaling_factor':0", "routed_scaling_factor must be a number from"},
    {"lfm2_moe", "'num_dense_layers':99,'tie_embedding':true,'num_heads':32,'use_pos_enc':true",
     NULL},
    {"lfm3", "'conv_L_cache':9", "conv_L_cache = 9"},
    {"lfm3", "'conv_bias':true", "conv_bias is supported only as false"},
    {"lfm3", "'use_sandwich_norm':false", "use_sandwich_norm is supported only as true"},
    {"lfm3", "'use_attention_gate':false", "use_attention_gate is supported only as true"},
    {"lfm3", "'block_ff_dim':64,'block_multiple_of':8", NULL},
    {"lfm3", "'attention_multiplier':2", "attention_multiplier: it changes"},
    {"qwen3_5_text", "'full_attention_interval':0", "full_attention_interval = 0"},
    /* heads and parts of heads */
    {"phi", "'num_attention_heads':5", "not a multiple of 5 attention heads"},
    {"phi", "'num_key_value_heads':3", "not a multiple of 3 key/value heads"},
    {"phi", "'partial_rotary_factor':0", "partial_rotary_factor must be a number from"},
    {"glm4", "'head_dim':6", "3 channels"},
    {"stablelm", "'partial_rotary_factor':0.001", "0 channels"},
    {"gpt_neox", "'rotary_pct':2", "rotary_pct must be a number from"},
    /* lists of layers */
    {"olmo3", "'num_hidden_layers':4,'layer_types':['full_attention']", "lists 1 layers"},
    {"olmo3", "'layer_types':['conv']", "says conv for layer 0"},
    {"olmo3", "'sliding_window':null,'layer_types':['sliding_attention']", "layer 0"},
    {"smollm3", "'num_hidden_layers':4,'no_rope_layers':[1,0]", "lists 2 layers"},
    {"smollm3", "'no_rope_layers':[2]", "no_rope_layers = 2"},
    {"smollm3", "'num_hidden_layers':2,'no_rope_layers':[1,1]", NULL},
    {"lfm3", "'num_hidden_layers':2,'layer_types':['linear_attention','conv']", "linear_attention"},
    {"lfm3", "'sliding_window':null,'num_hidden_layers':1,'layer_types':['sliding_attention']",
     "layer 0"},
    {"lfm2", "'full_attn_idxs':[-1]", "full_attn_idxs = -1"},
    {"gemma4_text", "'per_layer_config':{'5':['head_dim']}", "layer '5' must be an object"},
    {"gemma4_text", "'per_layer_config':{'5':null}", "layer '5' must be an object"},
    {"gemma4_text", "'per_layer_config':{'99':{}}", "there is no layer '99'"},
    /* rope */
    {"hunyuan_v1_dense", "'rope_scaling':{'type':'dynamic','factor':2}", "without alpha"},
    {"hunyuan_v1_dense", "'rope_scaling':{'type':'dynamic','alpha':'x'}", "alpha must be a number"},
    {"ministral3", "'rope_parameters':{'llama_4_scaling_beta':-1}", "llama_4_scaling_beta"},
    {"ministral3", "'rope_parameters':{'rope_type':'longrope'}", "phi3 models only"},
    {"olmo3", "'rope_parameters':{'sliding_attention':{'rope_type':'yarn'}}", "sliding_attention"},
    {"lfm3", "'rope_parameters':{'full_attention':{'rope_type':'proportional','factor':0}}",
     "factor must be"},
    {"lfm3", "'rope_parameters':{'sliding_attention':{'rope_type':'proportional'}}",
     "not supported for sliding_attention"},
    {"lfm3", "'rope_parameters':{'full_attention':{'rope_type':'default'}}", NULL},
    {"ernie4_5", "'rope_scaling':{'type':'yarn','factor':2}", NULL},
    {"ernie4_5", "'rope_scaling':{'type':'yarn','factor':2,'beta_fast':0}", "beta_fast"},
    {"glm4", "'rope_scaling':{'type':7}", "rope type '?'"},
    {"phi3", "'rope_scaling':{'type':'longrope','short_factor':'x'}", "short_factor must list"},
    {"phi3", "'original_max_position_embeddings':0,'rope_scaling':{'type':'longrope'}",
     "original_max_position_embeddings = 0"},
};

static Status read_case(const struct Case *c) {
  char text[512];
  Config config;
  Json *j = NULL;
  snprintf(text, sizeof text, "{'model_type':'%s',%s}", c->family, c->edit);
  for (char *p = text; *p; p++)
    if (*p == '\'') *p = '"';
  try(json_parse(text, strlen(text), "config.json", &j));
  const Status s = config_read(&config, j, "config.json");
  json_free(j);
  return s;
}

TEST(odd_configurations_load_rightly_or_are_refused_in_one_line) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const struct Case *c = &cases[i];
    const Status s = read_case(c);
    const char *said = s ? err_message() : "it loads";
    const bool right = c->refused ? s && strstr(said, c->refused) && !strchr(said, '\n') : !s;
    if (!right) test_fail(__FILE__, __LINE__, "%s, %s: %s", c->family, c->edit, said);
  }
}
