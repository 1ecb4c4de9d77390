#include "gguf/gguf_arch.h"

#include <stdio.h>
#include <string.h>

#include "gguf/gguf_order.h"

/* Names are without ".weight" or ".bias", and those of a layer without its prefix. */
typedef struct Pair {
  const char *hf, *gguf;
  unsigned change;
} Pair;

struct GgufArch {
  const char *name, *model_type, *hf_prefix;
  const Pair *model, *layer;
  unsigned traits; /* GgufTrait */
};

static const Pair gpt2_model[] = {
    {"transformer.wte", "token_embd", GGUF_VOCABULARY},
    {"transformer.wpe", "position_embd", GGUF_KEEP_F32},
    {"transformer.ln_f", "output_norm", 0},
    {"lm_head", "output", GGUF_VOCABULARY},
    {0},
};
static const Pair gpt2_layer[] = {
    {"ln_1", "attn_norm", 0},
    {"attn.c_attn", "attn_qkv", 0},
    {"attn.c_proj", "attn_output", 0},
    {"ln_2", "ffn_norm", 0},
    {"mlp.c_fc", "ffn_up", 0},
    {"mlp.c_proj", "ffn_down", 0},
    {0},
};

static const Pair plain_model[] = {
    {"model.embed_tokens", "token_embd", GGUF_VOCABULARY},
    {"model.norm", "output_norm", 0},
    {"lm_head", "output", GGUF_VOCABULARY},
    {0},
};
static const Pair plus_one_model[] = {
    {"model.embed_tokens", "token_embd", GGUF_VOCABULARY},
    {"model.norm", "output_norm", GGUF_PLUS_ONE},
    {"lm_head", "output", GGUF_VOCABULARY},
    {0},
};

static const Pair deepseek_model[] = {
    {"model.embed_tokens", "token_embd", GGUF_VOCABULARY},
    {"model.norm", "output_norm", 0},
    {"lm_head", "output", GGUF_VOCABULARY | GGUF_UNADAPTED},
    {0},
};

static const Pair neox_model[] = {
    {"gpt_neox.embed_in", "token_embd", GGUF_VOCABULARY},
    {"gpt_neox.final_layer_norm", "output_norm", 0},
    {"embed_out", "output", GGUF_VOCABULARY},
    {0},
};

static const Pair lfm2_model[] = {
    {"model.embed_tokens", "token_embd", GGUF_VOCABULARY},
    {"model.embedding_norm", "token_embd_norm", 0},
    {"lm_head", "output", GGUF_VOCABULARY},
    {0},
};

static const Pair gemma4_model[] = {
    {"model.embed_tokens", "token_embd", GGUF_VOCABULARY},
    {"model.embed_tokens_per_layer", "per_layer_token_embd", GGUF_VOCABULARY},
    {"model.per_layer_model_projection", "per_layer_model_proj", GGUF_UNADAPTED},
    {"model.per_layer_projection_norm", "per_layer_proj_norm", 0},
    {"model.norm", "output_norm", 0},
    {"lm_head", "output", GGUF_VOCABULARY},
    {0},
};

#define UP_DOWN                                                                                    \
  {"mlp.up_proj", "ffn_up", 0}, { "mlp.down_proj", "ffn_down", 0 }
#define MLP {"mlp.gate_proj", "ffn_gate", 0}, UP_DOWN
#define QUERIES                                                                                    \
  {"self_attn.q_proj", "attn_q", 0}, { "self_attn.k_proj", "attn_k", 0 }
#define PERMUTED                                                                                   \
  {"self_attn.q_proj", "attn_q", GGUF_PERMUTED}, { "self_attn.k_proj", "attn_k", GGUF_PERMUTED }
#define VALUES                                                                                     \
  {"self_attn.v_proj", "attn_v", 0}, { "self_attn.o_proj", "attn_output", 0 }
#define QK_NORMS                                                                                   \
  {"self_attn.q_norm", "attn_q_norm", 0}, { "self_attn.k_norm", "attn_k_norm", 0 }
#define NORMS                                                                                      \
  {"input_layernorm", "attn_norm", 0}, { "post_attention_layernorm", "ffn_norm", 0 }

#define VALUE_ROWS (GGUF_VALUE_HEADS | GGUF_VALUE_ROWS)

static const Pair llama_layer[] = {
    PERMUTED, VALUES, MLP, NORMS, {0},
};
static const Pair qwen_layer[] = {QUERIES, VALUES, QK_NORMS, MLP, NORMS, {0}};
/* A stack of experts has the name of one expert's weight without the number. */
#define ROUTER                                                                                     \
  { "mlp.gate", "ffn_gate_inp", GGUF_KEEP_F32 }
#define EXPERTS                                                                                    \
  {"mlp.experts.gate_proj", "ffn_gate_exps", GGUF_STACK},                                          \
      {"mlp.experts.up_proj", "ffn_up_exps", GGUF_STACK}, {                                        \
    "mlp.experts.down_proj", "ffn_down_exps", GGUF_STACK                                           \
  }
/* Gate and up of all experts in one tensor of the checkpoint; files may have them in one, too. */
#define GATE_UP_EXPERTS(name, change)                                                              \
  {name, "ffn_gate_exps.weight", GGUF_STACK | GGUF_WHOLE_NAME | (change)}, {                       \
    name, "ffn_up_exps.weight", GGUF_STACK | GGUF_WHOLE_NAME | GGUF_SECOND | (change)              \
  }
#define SHARED                                                                                     \
  {"mlp.shared_expert_gate", "ffn_gate_inp_shexp", GGUF_VECTOR},                                   \
      {"mlp.shared_expert.gate_proj", "ffn_gate_shexp", 0},                                        \
      {"mlp.shared_expert.up_proj", "ffn_up_shexp", 0}, {                                          \
    "mlp.shared_expert.down_proj", "ffn_down_shexp", 0                                             \
  }
static const Pair mixture_layer[] = {QUERIES, VALUES, QK_NORMS, ROUTER, EXPERTS, NORMS, {0}};
static const Pair qwen2_mixture_layer[] = {QUERIES, VALUES, ROUTER, EXPERTS, SHARED, NORMS, {0}};
static const Pair mixtral_layer[] = {
    PERMUTED,
    VALUES,
    {"block_sparse_moe.gate", "ffn_gate_inp", GGUF_KEEP_F32},
    {"block_sparse_moe.w1", "ffn_gate_exps", GGUF_STACK},
    {"block_sparse_moe.w3", "ffn_up_exps", GGUF_STACK},
    {"block_sparse_moe.w2", "ffn_down_exps", GGUF_STACK},
    NORMS,
    {0},
};
static const Pair granite_mixture_layer[] = {
    PERMUTED,
    VALUES,
    {"block_sparse_moe.router.layer", "ffn_gate_inp", GGUF_KEEP_F32},
    {"block_sparse_moe.input_linear", "ffn_gate_exps", GGUF_STACK | GGUF_HALVES},
    {"block_sparse_moe.input_linear", "ffn_up_exps", GGUF_STACK | GGUF_HALVES | GGUF_SECOND},
    {"block_sparse_moe.output_linear", "ffn_down_exps", GGUF_STACK},
    NORMS,
    {0},
};
static const Pair granite4_layer[] = {
    PERMUTED,
    VALUES,
    {"shared_mlp.input_linear", "ffn_gate", GGUF_HALVES},
    {"shared_mlp.input_linear", "ffn_up", GGUF_HALVES | GGUF_SECOND},
    {"shared_mlp.output_linear", "ffn_down", 0},
    NORMS,
    {0},
};
static const Pair oss_layer[] = {
    QUERIES,
    VALUES,
    {"self_attn.sinks", "attn_sinks.weight", GGUF_WHOLE_NAME},
    {"mlp.router", "ffn_gate_inp", GGUF_KEEP_F32},
    GATE_UP_EXPERTS("mlp.experts.gate_up_proj", GGUF_IN_TURN),
    {"mlp.experts.gate_up_proj_bias", "ffn_gate_exps.bias",
     GGUF_STACK | GGUF_WHOLE_NAME | GGUF_KEEP_F32 | GGUF_IN_TURN},
    {"mlp.experts.gate_up_proj_bias", "ffn_up_exps.bias",
     GGUF_STACK | GGUF_WHOLE_NAME | GGUF_KEEP_F32 | GGUF_IN_TURN | GGUF_SECOND},
    {"mlp.experts.down_proj", "ffn_down_exps.weight", GGUF_STACK | GGUF_WHOLE_NAME},
    {"mlp.experts.down_proj_bias", "ffn_down_exps.bias",
     GGUF_STACK | GGUF_WHOLE_NAME | GGUF_KEEP_F32},
    {"input_layernorm", "attn_norm", 0},
    {"post_attention_layernorm", "post_attention_norm", 0},
    {0},
};
/* A dense layer of a mixture has the names of others. */
static const Pair deepseek_layer[] = {
    {"self_attn.q_proj", "attn_q", GGUF_UNADAPTED},
    {"self_attn.q_a_proj", "attn_q_a", GGUF_UNADAPTED},
    {"self_attn.q_a_layernorm", "attn_q_a_norm", 0},
    {"self_attn.q_b_proj", "attn_q_b", GGUF_UNADAPTED},
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa", GGUF_UNADAPTED},
    {"self_attn.kv_a_layernorm", "attn_kv_a_norm", 0},
    {"self_attn.kv_b_proj", "attn_k_b", GGUF_LATENT},
    {"self_attn.kv_b_proj", "attn_v_b", GGUF_LATENT | GGUF_SECOND},
    {"self_attn.o_proj", "attn_output", 0},
    ROUTER,
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias", GGUF_WHOLE_NAME},
    EXPERTS,
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp", 0},
    {"mlp.shared_experts.up_proj", "ffn_up_shexp", 0},
    {"mlp.shared_experts.down_proj", "ffn_down_shexp", 0},
    MLP,
    NORMS,
    {0},
};
static const Pair gemma_layer[] = {
    QUERIES,
    VALUES,
    {"self_attn.q_norm", "attn_q_norm", GGUF_PLUS_ONE},
    {"self_attn.k_norm", "attn_k_norm", GGUF_PLUS_ONE},
    MLP,
    {"input_layernorm", "attn_norm", GGUF_PLUS_ONE},
    {"post_attention_layernorm", "post_attention_norm", GGUF_PLUS_ONE},
    {"pre_feedforward_layernorm", "ffn_norm", GGUF_PLUS_ONE},
    {"post_feedforward_layernorm", "post_ffw_norm", GGUF_PLUS_ONE},
    {0},
};
static const Pair gemma4_layer[] = {
    QUERIES,
    VALUES,
    QK_NORMS,
    MLP,
    {"input_layernorm", "attn_norm", 0},
    {"post_attention_layernorm", "post_attention_norm", 0},
    {"pre_feedforward_layernorm", "ffn_norm", 0},
    {"post_feedforward_layernorm", "post_ffw_norm", 0},
    {"layer_scalar", "layer_output_scale.weight", GGUF_WHOLE_NAME},
    {"per_layer_input_gate", "inp_gate", 0},
    {"per_layer_projection", "proj", 0},
    {"post_per_layer_input_norm", "post_norm", 0},
    {"router.proj", "ffn_gate_inp", GGUF_KEEP_F32},
    {"router.scale", "ffn_gate_inp.scale", GGUF_WHOLE_NAME},
    {"router.per_expert_scale", "ffn_down_exps.scale", GGUF_WHOLE_NAME},
    {"experts.gate_up_proj", "ffn_gate_up_exps.weight", GGUF_STACK | GGUF_WHOLE_NAME},
    {"experts.down_proj", "ffn_down_exps.weight", GGUF_STACK | GGUF_WHOLE_NAME},
    {"post_feedforward_layernorm_1", "post_ffw_norm_1", 0},
    {"pre_feedforward_layernorm_2", "pre_ffw_norm_2", 0},
    {"post_feedforward_layernorm_2", "post_ffw_norm_2", 0},
    {0},
};
static const Pair phi3_layer[] = {
    {"self_attn.qkv_proj", "attn_qkv", 0},
    {"self_attn.o_proj", "attn_output", 0},
    {"mlp.gate_up_proj", "ffn_up", 0},
    {"mlp.down_proj", "ffn_down", 0},
    NORMS,
    {0},
};
/* Norms after the branches. */
static const Pair olmo_layer[] = {
    QUERIES,
    VALUES,
    QK_NORMS,
    MLP,
    {"post_attention_layernorm", "post_attention_norm", 0},
    {"post_feedforward_layernorm", "post_ffw_norm", 0},
    {0},
};
static const Pair seed_layer[] = {
    QUERIES,
    VALUES,
    MLP,
    {"input_layernorm", "attn_norm", 0},
    {"post_attention_layernorm", "post_attention_norm", 0},
    {0},
};
static const Pair hunyuan_layer[] = {
    QUERIES,
    VALUES,
    {"self_attn.query_layernorm", "attn_q_norm", 0},
    {"self_attn.key_layernorm", "attn_k_norm", 0},
    MLP,
    NORMS,
    {0},
};
static const Pair glm4_layer[] = {
    QUERIES,
    VALUES,
    {"mlp.gate_up_proj", "ffn_up", 0},
    {"mlp.down_proj", "ffn_down", 0},
    {"input_layernorm", "attn_norm", 0},
    {"post_self_attn_layernorm", "post_attention_norm", 0},
    {"post_attention_layernorm", "ffn_norm", 0},
    {"post_mlp_layernorm", "post_ffw_norm", 0},
    {0},
};
static const Pair starcoder_layer[] = {
    QUERIES, VALUES, {"mlp.c_fc", "ffn_up", 0}, {"mlp.c_proj", "ffn_down", 0}, NORMS, {0},
};
static const Pair nemotron_layer[] = {
    QUERIES,
    VALUES,
    UP_DOWN,
    {"input_layernorm", "attn_norm", GGUF_PLUS_ONE},
    {"post_attention_layernorm", "ffn_norm", GGUF_PLUS_ONE},
    {0},
};
/* The gate of attention's result is in attn_q, head by head, as in the checkpoint. */
#define GATED_ATTENTION                                                                            \
  QUERIES, VALUES, {"self_attn.q_norm", "attn_q_norm", GGUF_PLUS_ONE}, {                           \
    "self_attn.k_norm", "attn_k_norm", GGUF_PLUS_ONE                                               \
  }
#define DELTA                                                                                      \
  {"linear_attn.in_proj_qkv", "attn_qkv", VALUE_ROWS | GGUF_BEHIND_KEYS},                          \
      {"linear_attn.in_proj_z", "attn_gate", VALUE_ROWS},                                          \
      {"linear_attn.in_proj_b", "ssm_beta", GGUF_VALUE_HEADS},                                     \
      {"linear_attn.in_proj_a", "ssm_alpha", GGUF_VALUE_HEADS},                                    \
      {"linear_attn.conv1d", "ssm_conv1d", VALUE_ROWS | GGUF_BEHIND_KEYS | GGUF_FILTERS},          \
      {"linear_attn.A_log", "ssm_a", GGUF_VALUE_HEADS | GGUF_DECAY | GGUF_WHOLE_NAME},             \
      {"linear_attn.dt_bias", "ssm_dt.bias", GGUF_VALUE_HEADS | GGUF_WHOLE_NAME},                  \
      {"linear_attn.norm", "ssm_norm", 0}, {                                                       \
    "linear_attn.out_proj", "ssm_out", GGUF_VALUE_COLUMNS                                          \
  }
#define DELTA_NORMS                                                                                \
  {"input_layernorm", "attn_norm", GGUF_PLUS_ONE}, {                                               \
    "post_attention_layernorm", "post_attention_norm", GGUF_PLUS_ONE                               \
  }
#define STACKED_GATE_UP                                                                            \
  GATE_UP_EXPERTS("mlp.experts.gate_up_proj", GGUF_HALVES),                                        \
      {"mlp.experts.gate_up_proj", "ffn_gate_up_exps.weight", MERGED}, {                           \
    "mlp.experts.down_proj", "ffn_down_exps.weight", GGUF_STACK | GGUF_WHOLE_NAME                  \
  }
#define MERGED (GGUF_STACK | GGUF_WHOLE_NAME | GGUF_READ_ONLY)

static const Pair delta_layer[] = {GATED_ATTENTION, DELTA, MLP, DELTA_NORMS, {0}};
static const Pair delta_mixture_layer[] = {
    GATED_ATTENTION, DELTA, ROUTER, STACKED_GATE_UP, SHARED, DELTA_NORMS, {0},
};
/* Value heads stay in the checkpoint's order. */
static const Pair next_layer[] = {
    GATED_ATTENTION,
    {"linear_attn.in_proj_qkvz", "attn_qkv", GGUF_KEY_GROUPS},
    {"linear_attn.in_proj_qkvz", "attn_gate", GGUF_KEY_GROUPS | GGUF_SECOND},
    {"linear_attn.in_proj_qkvz", "ssm_in", GGUF_READ_ONLY},
    {"linear_attn.in_proj_ba", "ssm_ba", 0},
    {"linear_attn.conv1d", "ssm_conv1d", GGUF_FILTERS},
    {"linear_attn.A_log", "ssm_a", GGUF_DECAY | GGUF_WHOLE_NAME},
    {"linear_attn.dt_bias", "ssm_dt.bias", GGUF_WHOLE_NAME},
    {"linear_attn.norm", "ssm_norm", 0},
    {"linear_attn.out_proj", "ssm_out", 0},
    ROUTER,
    EXPERTS,
    SHARED,
    DELTA_NORMS,
    {0},
};
static const Pair lfm2_layer[] = {
    QUERIES,
    {"self_attn.v_proj", "attn_v", 0},
    {"self_attn.out_proj", "attn_output", 0},
    {"self_attn.q_layernorm", "attn_q_norm", 0},
    {"self_attn.k_layernorm", "attn_k_norm", 0},
    {"conv.in_proj", "shortconv.in_proj", 0},
    {"conv.conv", "shortconv.conv", GGUF_FILTERS},
    {"conv.out_proj", "shortconv.out_proj", 0},
    {"feed_forward.w1", "ffn_gate", 0},
    {"feed_forward.w3", "ffn_up", 0},
    {"feed_forward.w2", "ffn_down", 0},
    {"operator_norm", "attn_norm", 0},
    {"ffn_norm", "ffn_norm", 0},
    {0},
};
static const Pair neox_layer[] = {
    {"attention.query_key_value", "attn_qkv", GGUF_BY_HEAD},
    {"attention.dense", "attn_output", 0},
    {"mlp.dense_h_to_4h", "ffn_up", 0},
    {"mlp.dense_4h_to_h", "ffn_down", 0},
    NORMS,
    {0},
};

static const Pair phi_model[] = {
    {"model.embed_tokens", "token_embd", GGUF_VOCABULARY},
    {"model.final_layernorm", "output_norm", 0},
    {"lm_head", "output", GGUF_VOCABULARY},
    {0},
};
static const Pair phi_layer[] = {
    QUERIES,
    {"self_attn.v_proj", "attn_v", 0},
    {"self_attn.dense", "attn_output", 0},
    {"mlp.fc1", "ffn_up", 0},
    {"mlp.fc2", "ffn_down", 0},
    {"input_layernorm", "attn_norm", 0},
    {0},
};

#define LAYERS "model.layers."
#define PERIOD GGUF_WINDOW_PERIOD
#define MIXED  (GGUF_MIXTURE | GGUF_DIVIDED)

/* Rows may have one name in files: the last belongs to files with a sliding window, or the one of
 * a mixture to files with experts. */
static const GgufArch archs[] = {
    {"llama", "llama", LAYERS, plain_model, llama_layer, 0},
    {"llama", "mistral", LAYERS, plain_model, llama_layer, GGUF_NO_WINDOW},
    {"qwen2", "qwen2", LAYERS, plain_model, qwen_layer, 0},
    {"qwen3", "qwen3", LAYERS, plain_model, qwen_layer, 0},
    {"llama", "mixtral", LAYERS, plain_model, mixtral_layer, MIXED | GGUF_NO_WINDOW},
    {"granitemoe", "granitemoe", LAYERS, plain_model, granite_mixture_layer, MIXED},
    {"qwen2moe", "qwen2_moe", LAYERS, plain_model, qwen2_mixture_layer,
     GGUF_MIXTURE | GGUF_UNTIED | GGUF_NO_WINDOW},
    {"qwen3moe", "qwen3_moe", LAYERS, plain_model, mixture_layer, MIXED},
    {"olmoe", "olmoe", LAYERS, plain_model, mixture_layer, GGUF_MIXTURE | GGUF_UNTIED},
    {"gpt-oss", "gpt_oss", LAYERS, plain_model, oss_layer, MIXED | GGUF_UNTIED | PERIOD},
    {"qwen35moe", "qwen3_5_moe_text", LAYERS, plus_one_model, delta_mixture_layer, MIXED},
    {"qwen3next", "qwen3_next", LAYERS, plus_one_model, next_layer, MIXED},
    {"deepseek2", "deepseek_v2", LAYERS, deepseek_model, deepseek_layer, 0},
    {"deepseek2", "deepseek_v3", LAYERS, deepseek_model, deepseek_layer, GGUF_MIXTURE},
    {"gemma2", "gemma2", LAYERS, plus_one_model, gemma_layer, 0},
    {"gemma3", "gemma3_text", LAYERS, plus_one_model, gemma_layer, 0},
    {"gemma4", "gemma4_text", LAYERS, gemma4_model, gemma4_layer, 0},
    {"phi3", "phi3", LAYERS, plain_model, phi3_layer, 0},
    {"gpt2", "gpt2", "transformer.h.", gpt2_model, gpt2_layer, 0},
    {"smollm3", "smollm3", LAYERS, plain_model, llama_layer, 0},
    {"granite", "granite", LAYERS, plain_model, llama_layer, 0},
    {"granite", "granitemoehybrid", LAYERS, plain_model, granite4_layer, GGUF_WRITTEN_ONLY},
    {"olmo2", "olmo2", LAYERS, plain_model, olmo_layer, GGUF_UNTIED},
    {"olmo2", "olmo3", LAYERS, plain_model, olmo_layer, GGUF_UNTIED | PERIOD},
    {"mistral3", "ministral3", LAYERS, plain_model, llama_layer, GGUF_NO_WINDOW},
    {"seed_oss", "seed_oss", LAYERS, plain_model, seed_layer, 0},
    {"exaone4", "exaone4", LAYERS, plain_model, olmo_layer, PERIOD},
    {"hunyuan-dense", "hunyuan_v1_dense", LAYERS, plain_model, hunyuan_layer, 0},
    {"ernie4_5", "ernie4_5", LAYERS, plain_model, qwen_layer, 0},
    {"glm4", "glm4", LAYERS, plain_model, glm4_layer, 0},
    {"starcoder2", "starcoder2", LAYERS, plain_model, starcoder_layer, GGUF_NO_WINDOW},
    {"stablelm", "stablelm", LAYERS, plain_model, qwen_layer, GGUF_UNTIED},
    {"nemotron", "nemotron", LAYERS, plus_one_model, nemotron_layer, GGUF_UNTIED},
    {"cohere2", "cohere2", LAYERS, plain_model, qwen_layer, GGUF_TIED | PERIOD},
    {"arcee", "arcee", LAYERS, plain_model, llama_layer, 0},
    {"phi2", "phi", LAYERS, phi_model, phi_layer, GGUF_UNTIED},
    {"qwen35", "qwen3_5_text", LAYERS, plus_one_model, delta_layer, 0},
    {"lfm2", "lfm2", LAYERS, lfm2_model, lfm2_layer, 0},
    {"gptneox", "gpt_neox", "gpt_neox.layers.", neox_model, neox_layer, GGUF_UNTIED},
};
enum { NARCHS = sizeof archs / sizeof *archs };

const GgufArch *gguf_arch(const char *name, size_t n, bool has_window, bool has_experts) {
  const GgufArch *found = NULL;
  for (int i = 0; i < NARCHS; i++) {
    const bool mixture = archs[i].traits & GGUF_MIXTURE;
    if (strlen(archs[i].name) != n || memcmp(archs[i].name, name, n) != 0 ||
        archs[i].traits & GGUF_WRITTEN_ONLY)
      continue;
    if (!found || (mixture ? has_experts : has_window)) found = &archs[i];
  }
  return found;
}

const GgufArch *gguf_arch_of(const char *model_type) {
  for (int i = 0; i < NARCHS; i++)
    if (strcmp(archs[i].model_type, model_type) == 0) return &archs[i];
  return NULL;
}

const char *gguf_arch_name(const GgufArch *a) { return a->name; }
const char *gguf_arch_model_type(const GgufArch *a) { return a->model_type; }
unsigned gguf_arch_traits(const GgufArch *a) { return a->traits; }

/* ---- translating ----------------------------------------------------------------------- */

/* The digits in "prefixN.rest"; NULL when s has another form. */
static const char *after_layer(const char *s, const char *prefix, int *digits) {
  const size_t n = strlen(prefix);
  if (strncmp(s, prefix, n) != 0) return NULL;
  *digits = (int)strspn(s + n, "0123456789");
  return *digits && *digits <= 5 && s[n + (size_t)*digits] == '.' ? s + n : NULL;
}

/* Is name, with a final ".weight" or ".bias" unless it is whole, the string s?  *suffix: of s. */
static bool is_named(const char *name, bool whole, const char *s, const char **suffix) {
  const char *dot = strrchr(s, '.');
  *suffix = whole ? s + strlen(s) : dot;
  if (!whole && !(dot && (strcmp(dot, ".weight") == 0 || strcmp(dot, ".bias") == 0))) return false;
  return strlen(name) == (size_t)(*suffix - s) && memcmp(name, s, strlen(name)) == 0;
}

/* The pair of s, a name of Hugging Face's, for this part of the weight. */
static const Pair *pair_of_hf(const Pair *p, const char *s, int part, const char **suffix) {
  for (; p->hf; p++)
    if (!(p->change & GGUF_READ_ONLY) && part == !!(p->change & GGUF_SECOND) &&
        is_named(p->hf, p->change & GGUF_WHOLE_NAME, s, suffix))
      return p;
  return NULL;
}

static const Pair *pair_of_file(const Pair *p, const char *s, const char **suffix) {
  for (; p->hf; p++)
    if (is_named(p->gguf, p->change & GGUF_WHOLE_NAME, s, suffix)) return p;
  return NULL;
}

/* The name behind a layer's prefix, with its number, or outside of layers (number NULL). */
static bool put_name(const char *prefix, const char *number, int digits, const char *name,
                     const char *suffix, char *out, size_t cap) {
  const int n = number ? snprintf(out, cap, "%s%.*s.%s%s", prefix, digits, number, name, suffix)
                       : snprintf(out, cap, "%s%s", name, suffix);
  return n > 0 && (size_t)n < cap;
}

static unsigned change_of(const Pair *p, const char *suffix) {
  return strcmp(suffix, ".bias") == 0 ? p->change & ~(unsigned)GGUF_PLUS_ONE : p->change;
}

bool gguf_arch_file_name(const GgufArch *a, const char *hf, int part, char *out, size_t cap,
                         unsigned *change) {
  const char *suffix;
  int digits = 0;
  const char *number = after_layer(hf, a->hf_prefix, &digits);
  const Pair *p = number ? pair_of_hf(a->layer, number + digits + 1, part, &suffix)
                         : pair_of_hf(a->model, hf, part, &suffix);
  if (!p) return false;
  *change = change_of(p, suffix);
  return put_name("blk.", number, digits, p->gguf, suffix, out, cap);
}

bool gguf_arch_hf_name(const GgufArch *a, const char *name, char *out, size_t cap,
                       unsigned *change) {
  const char *suffix;
  int digits = 0;
  const char *number = after_layer(name, "blk.", &digits);
  const Pair *p = number ? pair_of_file(a->layer, number + digits + 1, &suffix)
                         : pair_of_file(a->model, name, &suffix);
  if (!p) return false;
  *change = change_of(p, suffix);
  return put_name(a->hf_prefix, number, digits, p->hf, suffix, out, cap);
}
