#include "model/config_keys.h"

#include <stdatomic.h>
#include <string.h>

#include "base/log.h"
#include "model/config_fields.h"

/* ---- keys that are known -------------------------------------------------------------------- */

typedef struct Others {
  Families families;
  const char *keys; /* separated by spaces */
} Others;

static const Others others[] = {
#define OTHER(families, keys) {families, keys},
#include "model/config.def"
};

static bool is_among(const char *keys, const char *key) {
  const size_t n = strlen(key);
  for (const char *at = keys; n && (at = strstr(at, key)); at += n)
    if ((at == keys || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return true;
  return false;
}

static bool is_computed(const Config *c, const char *key) {
  if (strcmp(key, config_family(c->family)->activation_key) == 0) return true;
  for (int i = 0; i < config_num_fields(); i++) {
    const Field f = config_field(c->family, i);
    if (*f.key && (strcmp(key, f.key) == 0 || strcmp(key, f.common_key) == 0)) return true;
  }
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (others[i].families >> c->family & 1 && is_among(others[i].keys, key)) return true;
  return false;
}

static bool has_word(const char *const *words, const char *key) {
  for (; *words; words++)
    if (strstr(key, *words)) return true;
  return false;
}

/* Training, tokens and the history of a file say nothing about the forward pass. */
static bool is_harmless(const char *key) {
  static const char *const words[] = {"dropout",  "pdrop",        "initializer",     "init_std",
                                      "loss",     "aux_",         "dtype",           "version",
                                      "token_id", "token_index",  "unsloth",         "summary",
                                      "torch",    "transformers", "_implementation", NULL};
  return has_word(words, key);
}

/* Names under which families have parts of their forward pass. */
static bool is_telling(const char *key) {
  static const char *const words[] = {"multiplier",
                                      "scal",
                                      "scoring",
                                      "softcap",
                                      "soft_cap",
                                      "clip",
                                      "clamp",
                                      "norm",
                                      "rope",
                                      "rotary",
                                      "alibi",
                                      "expert",
                                      "moe",
                                      "window",
                                      "bias",
                                      "residual",
                                      "parallel",
                                      "attn",
                                      "attention",
                                      "mamba",
                                      "ssm",
                                      "conv_",
                                      "mup",
                                      "head_dim",
                                      "qk_",
                                      "kv",
                                      "lora_rank",
                                      "sink",
                                      "swiglu",
                                      "per_layer",
                                      "gate",
                                      "chunk",
                                      "sparse",
                                      "loop",
                                      "position_embedding",
                                      "topk",
                                      "causal",
                                      "ntk",
                                      "key_value",
                                      "query",
                                      "bidirectional",
                                      "softmax",
                                      "glu",
                                      "positional",
                                      "layers_block",
                                      "layer_type",
                                      "act_fn",
                                      "factor",
                                      "unit_offset",
                                      "hidden_act",
                                      "logn",
                                      "sparsity",
                                      "pre_ln",
                                      "post_ln",
                                      "dim_model_base",
                                      "use_cla",
                                      NULL};
  return has_word(words, key);
}

/* ---- values that change nothing ---------------------------------------------------------- */

/* Values of telling keys that say what the families compute anyway; keys and values are separated
 * by spaces.  Any other value is refused. */
typedef struct Neutral {
  Families families;
  JsonType type;
  const char *values, *keys;
} Neutral;

static const Neutral neutral[] = {
    /* attention and positions */
    {ALL, JSON_BOOL, "true", "causal is_causal"},
    {ALL, JSON_BOOL, "false",
     "alibi use_alibi use_dynamic_ntk use_logn_attn parallel_attn use_parallel_residual "
     "multi_query attn_output_gate attention_sink attn_temperature_tuning use_mrope"},
    {ALL, JSON_STRING, "full full_attention causal", "attention_type"},
    {ALL, JSON_NUMBER, "0", "no_rope_layer_interval attention_chunk_size num_kv_shared_layers"},
    {ROPED, JSON_BOOL, "true", "use_rope"},
    {IN(GPT2), JSON_BOOL, "false", "use_rope"},
    {ROPED & ~LATENTS, JSON_BOOL, "false", "rope_interleave rope_interleaved"},
    {ROPED, JSON_NUMBER, "1", "no_rope_layers rotary_pct full_attn_mod"},
    {ROPED, JSON_STRING, "rope rotary", "position_embedding_type"},
    {IN(GPT2), JSON_STRING, "absolute learned", "position_embedding_type"},
    /* normalisation */
    {ALL, JSON_BOOL, "true", "final_norm do_layer_norm_before"},
    {ALL, JSON_BOOL, "false", "apply_residual_connection_post_layernorm"},
    {ALL & ~QK_NORMED, JSON_BOOL, "false", "qk_norm use_qk_norm qk_layernorm"},
    {IN(HUNYUAN), JSON_BOOL, "true", "use_qk_norm use_rotary_pos_emb norm_topk_prob"},
    {IN(HUNYUAN), JSON_BOOL, "false",
     "use_cla use_mixed_mlp_moe moe_drop_tokens moe_random_routing_dropped_token "
     "position_embedding_xdrope"},
    {IN(HUNYUAN), JSON_NUMBER, "0 1",
     "num_experts num_shared_expert moe_topk moe_layer_num_skipped"},
    {ROPED, JSON_BOOL, "true", "use_rms_norm"},
    {ALL & ~ROPED, JSON_BOOL, "false", "use_rms_norm"},
    {ROPED & ~LAYERNORMED, JSON_STRING, "rms rmsnorm rms_norm RMSNorm",
     "norm_type layer_norm_type"},
    {(ALL & ~ROPED) | LAYERNORMED, JSON_STRING, "layernorm layer_norm LayerNorm",
     "norm_type layer_norm_type"},
    {OLD_GEMMAS, JSON_NUMBER, "1", "rms_norm_offset"},
    {ALL & ~OLD_GEMMAS, JSON_NUMBER, "0", "rms_norm_offset"},
    /* biases */
    {IN(GPT2), JSON_BOOL, "true",
     "attention_bias qkv_bias attention_out_bias mlp_bias use_bias bias"},
    {IN(QWEN2) | IN(QWEN2_MOE) | IN(PHI), JSON_BOOL, "true", "attention_bias qkv_bias"},
    {ROPED & ~IN(QWEN2) & ~IN(QWEN2_MOE) & ~IN(PHI), JSON_BOOL, "false",
     "attention_bias qkv_bias use_bias bias"},
    {ROPED & ~IN(PHI), JSON_BOOL, "false", "attention_out_bias mlp_bias"},
    {ALL & ~IN(PHI), JSON_BOOL, "false", "lm_head_bias"},
    /* feed-forward layers and experts */
    {ROPED, JSON_BOOL, "true", "gated_mlp mlp_gate"},
    {ALL & ~ROPED, JSON_BOOL, "false", "gated_mlp mlp_gate"},
    {ALL, JSON_BOOL, "false", "use_moe norm_topk_prob"},
    {IN(DEEPSEEK3), JSON_NUMBER, "1", "moe_layer_freq ep_size"},
    {IN(DEEPSEEK3), JSON_STRING, "sigmoid", "scoring_func"},
    {IN(DEEPSEEK3), JSON_STRING, "noaux_tc", "topk_method"},
    {IN(DEEPSEEK3), JSON_BOOL, "true", "rope_interleave"},
    {ALL, JSON_NUMBER, "0",
     "num_local_experts num_experts n_routed_experts n_shared_experts num_experts_per_tok "
     "moe_intermediate_size"},
    /* the scale of the embeddings */
    {ALL & ~GEMMAS, JSON_BOOL, "false", "scale_embedding"},
    {ALL & ~GEMMAS, JSON_NUMBER, "1", "scale_emb"},
};

static bool ends_with(const char *key, const char *end) {
  const size_t n = strlen(key), m = strlen(end);
  return n >= m && strcmp(key + n - m, end) == 0;
}

/* A factor is 1 where it changes nothing.  A scale of the attention scores is different:
 * it takes the place of 1 / sqrt(head_dim). */
static bool is_factor(const char *key) {
  static const char *const scores[] = {"attention", "attn", "softmax", "qk", "query", NULL};
  static const char *const ends[] = {"multiplier", "multipliers", "scaling", "scale", "factor"};
  if (has_word(scores, key)) return false;
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    if (ends_with(key, ends[i])) return true;
  return false;
}

/* The value as the table spells it; empty for a number that is neither 0 nor 1. */
static const char *spelling(const Json *v) {
  if (json_type(v) == JSON_BOOL) return json_bool(v) ? "true" : "false";
  if (json_type(v) == JSON_STRING) return json_string(v);
  return json_number(v) == 1 ? "1" : json_number(v) == 0 ? "0" : "";
}

static bool is_neutral_value(const Config *c, const char *key, const Json *v) {
  const JsonType type = json_type(v);
  if (type == JSON_NUMBER && json_number(v) == 1 && is_factor(key)) return true;
  for (size_t i = 0; i < sizeof neutral / sizeof *neutral; i++)
    if (neutral[i].families >> c->family & 1 && neutral[i].type == type &&
        is_among(neutral[i].keys, key) && is_among(neutral[i].values, spelling(v)))
      return true;
  return false;
}

/* Has the key a value that is a word or a switch, and not a list or an object? */
static bool is_plain(const Config *c, const char *key) {
  for (size_t i = 0; i < sizeof neutral / sizeof *neutral; i++)
    if (neutral[i].families >> c->family & 1 && neutral[i].type != JSON_NUMBER &&
        is_among(neutral[i].keys, key))
      return true;
  return false;
}

static bool is_empty(const Config *c, const char *key, const Json *v) {
  const JsonType type = json_type(v);
  if (type == JSON_STRING) return !*json_string(v);
  if (type == JSON_NULL) return true;
  return (type == JSON_ARRAY || type == JSON_OBJECT) && !json_child(v) && !is_plain(c, key);
}

static bool is_neutral(const Config *c, const char *key, const Json *v) {
  if (json_type(v) != JSON_ARRAY || !json_child(v)) return is_neutral_value(c, key, v);
  for (const Json *e = json_child(v); e; e = json_next(e))
    if (!is_neutral_value(c, key, e)) return false;
  return true;
}

/* ---- all keys -------------------------------------------------------------------------------- */

/* Says it once: a configuration is read several times while a model is loaded. */
static void note(const Config *c, const Buf *names, const char *what) {
  static atomic_uint said;
  unsigned sum = 5381;
  for (const char *p = names->data; *p; p++) sum = sum * 33 + (unsigned char)*p;
  if (atomic_exchange(&said, sum) == sum) return;
  log_message(LOG_WARNING, "%s: not known for %s models and ignored: %s", what,
              config_model_type(c), names->data);
}

Status config_check_keys(const Config *c, const Json *j, const char *what) {
  enum { NOTED = 8 };
  Buf names = {0};
  int n = 0;
  Status s = GRPO_OK;
  for (const Json *v = json_child(j); v && s == GRPO_OK; v = json_next(v)) {
    const char *key = json_key(v);
    if (is_computed(c, key) || is_harmless(key) || is_empty(c, key, v) || is_neutral(c, key, v))
      continue;
    if (is_telling(key))
      s = fail(GRPO_EFORMAT,
               "%s: %.60s: it changes the result and is not computed for %s models; take a model "
               "without it",
               what, key, config_model_type(c));
    else if (n++ < NOTED)
      buf_printf(&names, "%s%.60s", names.len ? ", " : "", key);
  }
  if (n > NOTED) buf_printf(&names, " and %d more", n - NOTED);
  if (s == GRPO_OK) s = buf_status(&names);
  if (s == GRPO_OK && n) note(c, &names, what);
  buf_free(&names);
  return s;
}
