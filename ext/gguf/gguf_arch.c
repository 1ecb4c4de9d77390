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

#define UP_DOWN                                                                                    \
  {"mlp.up_proj", "ffn_up", 0}, { "mlp.down_proj", "ffn_down", 0 }
#define MLP {"mlp.gate_proj", "ffn_gate", 0}, UP_DOWN
#define QUERIES                                                                                    \
  {"self_attn.q_proj", "attn_q", 0}, { "self_attn.k_proj", "attn_k", 0 }
#define VALUES                                                                                     \
  {"self_attn.v_proj", "attn_v", 0}, { "self_attn.o_proj", "attn_output", 0 }
#define QK_NORMS                                                                                   \
  {"self_attn.q_norm", "attn_q_norm", 0}, { "self_attn.k_norm", "attn_k_norm", 0 }
#define NORMS                                                                                      \
  {"input_layernorm", "attn_norm", 0}, { "post_attention_layernorm", "ffn_norm", 0 }

#define VALUE_ROWS (GGUF_VALUE_HEADS | GGUF_VALUE_ROWS)

static const Pair llama_layer[] = {
    {"self_attn.q_proj", "attn_q", GGUF_PERMUTED},
    {"self_attn.k_proj", "attn_k", GGUF_PERMUTED},
    VALUES,
    MLP,
    NORMS,
    {0},
};
static const Pair qwen_layer[] = {QUERIES, VALUES, QK_NORMS, MLP, NORMS, {0}};
/* A stack of experts has the name of one expert's weight without the number. */
static const Pair mixture_layer[] = {
    QUERIES,
    VALUES,
    QK_NORMS,
    {"mlp.gate", "ffn_gate_inp", GGUF_KEEP_F32},
    {"mlp.experts.gate_proj", "ffn_gate_exps", 0},
    {"mlp.experts.up_proj", "ffn_up_exps", 0},
    {"mlp.experts.down_proj", "ffn_down_exps", 0},
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
static const Pair delta_layer[] = {
    QUERIES,
    VALUES,
    {"self_attn.q_norm", "attn_q_norm", GGUF_PLUS_ONE},
    {"self_attn.k_norm", "attn_k_norm", GGUF_PLUS_ONE},
    {"linear_attn.in_proj_qkv", "attn_qkv", VALUE_ROWS | GGUF_BEHIND_KEYS},
    {"linear_attn.in_proj_z", "attn_gate", VALUE_ROWS},
    {"linear_attn.in_proj_b", "ssm_beta", GGUF_VALUE_HEADS},
    {"linear_attn.in_proj_a", "ssm_alpha", GGUF_VALUE_HEADS},
    {"linear_attn.conv1d", "ssm_conv1d", VALUE_ROWS | GGUF_BEHIND_KEYS | GGUF_FILTERS},
    {"linear_attn.A_log", "ssm_a", GGUF_VALUE_HEADS | GGUF_DECAY | GGUF_WHOLE_NAME},
    {"linear_attn.dt_bias", "ssm_dt.bias", GGUF_VALUE_HEADS | GGUF_WHOLE_NAME},
    {"linear_attn.norm", "ssm_norm", 0},
    {"linear_attn.out_proj", "ssm_out", GGUF_VALUE_COLUMNS},
    MLP,
    {"input_layernorm", "attn_norm", GGUF_PLUS_ONE},
    {"post_attention_layernorm", "post_attention_norm", GGUF_PLUS_ONE},
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

/* Two rows may have one name in files: a file with a sliding window then belongs to the second. */
static const GgufArch archs[] = {
    {"llama", "llama", LAYERS, plain_model, llama_layer, 0},
    {"llama", "mistral", LAYERS, plain_model, llama_layer, GGUF_NO_WINDOW},
    {"qwen2", "qwen2", LAYERS, plain_model, qwen_layer, 0},
    {"qwen3", "qwen3", LAYERS, plain_model, qwen_layer, 0},
    {"qwen3moe", "qwen3_moe", LAYERS, plain_model, mixture_layer, GGUF_DIVIDED},
    {"olmoe", "olmoe", LAYERS, plain_model, mixture_layer, GGUF_UNTIED},
    {"gemma2", "gemma2", LAYERS, plus_one_model, gemma_layer, 0},
    {"gemma3", "gemma3_text", LAYERS, plus_one_model, gemma_layer, 0},
    {"phi3", "phi3", LAYERS, plain_model, phi3_layer, 0},
    {"gpt2", "gpt2", "transformer.h.", gpt2_model, gpt2_layer, 0},
    {"smollm3", "smollm3", LAYERS, plain_model, llama_layer, 0},
    {"granite", "granite", LAYERS, plain_model, llama_layer, 0},
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

const GgufArch *gguf_arch(const char *name, size_t n, bool has_window) {
  const GgufArch *found = NULL;
  for (int i = 0; i < NARCHS; i++)
    if (strlen(archs[i].name) == n && memcmp(archs[i].name, name, n) == 0 && (!found || has_window))
      found = &archs[i];
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

/* The pair whose name is s without its final ".weight" or ".bias", to which *suffix points. */
static const Pair *find_pair(const Pair *p, const char *s, bool hf, const char **suffix) {
  const char *dot = strrchr(s, '.'), *end = s + strlen(s);
  const bool has_suffix = dot && (strcmp(dot, ".weight") == 0 || strcmp(dot, ".bias") == 0);
  for (; p->hf; p++) {
    const char *name = hf ? p->hf : p->gguf;
    const bool whole = p->change & GGUF_WHOLE_NAME;
    *suffix = whole ? end : dot;
    if (!whole && !has_suffix) continue;
    if (strlen(name) == (size_t)(*suffix - s) && memcmp(name, s, strlen(name)) == 0) return p;
  }
  return NULL;
}

static bool translate(const GgufArch *a, const char *s, bool from_hf, char *out, size_t cap,
                      unsigned *change) {
  const char *from = from_hf ? a->hf_prefix : "blk.", *to = from_hf ? "blk." : a->hf_prefix;
  const char *suffix;
  int digits = 0, n;
  const char *number = after_layer(s, from, &digits);
  const Pair *p = number ? find_pair(a->layer, number + digits + 1, from_hf, &suffix)
                         : find_pair(a->model, s, from_hf, &suffix);
  if (!p) return false;
  const char *name = from_hf ? p->gguf : p->hf;
  if (number)
    n = snprintf(out, cap, "%s%.*s.%s%s", to, digits, number, name, suffix);
  else
    n = snprintf(out, cap, "%s%s", name, suffix);
  *change = strcmp(suffix, ".bias") == 0 ? p->change & ~(unsigned)GGUF_PLUS_ONE : p->change;
  return n > 0 && (size_t)n < cap;
}

bool gguf_arch_file_name(const GgufArch *a, const char *hf, char *out, size_t cap,
                         unsigned *change) {
  return translate(a, hf, true, out, cap, change);
}

bool gguf_arch_hf_name(const GgufArch *a, const char *name, char *out, size_t cap,
                       unsigned *change) {
  return translate(a, name, false, out, cap, change);
}
