#include "gguf/gguf_arch.h"

#include <stdio.h>
#include <string.h>

/* Names are without ".weight" or ".bias", and those of a layer without its prefix. */
typedef struct Pair {
  const char *hf, *gguf;
  unsigned change;
} Pair;

struct GgufArch {
  const char *name, *model_type, *hf_prefix;
  const Pair *model, *layer;
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
static const Pair gemma_model[] = {
    {"model.embed_tokens", "token_embd", GGUF_VOCABULARY},
    {"model.norm", "output_norm", GGUF_PLUS_ONE},
    {"lm_head", "output", GGUF_VOCABULARY},
    {0},
};

#define MLP                                                                                        \
  {"mlp.gate_proj", "ffn_gate", 0}, {"mlp.up_proj", "ffn_up", 0}, { "mlp.down_proj", "ffn_down", 0 }
#define VALUES                                                                                     \
  {"self_attn.v_proj", "attn_v", 0}, { "self_attn.o_proj", "attn_output", 0 }
#define NORMS                                                                                      \
  {"input_layernorm", "attn_norm", 0}, { "post_attention_layernorm", "ffn_norm", 0 }

static const Pair llama_layer[] = {
    {"self_attn.q_proj", "attn_q", GGUF_PERMUTED_Q},
    {"self_attn.k_proj", "attn_k", GGUF_PERMUTED_K},
    VALUES,
    MLP,
    NORMS,
    {0},
};
static const Pair qwen_layer[] = {
    {"self_attn.q_proj", "attn_q", 0},
    {"self_attn.k_proj", "attn_k", 0},
    VALUES,
    {"self_attn.q_norm", "attn_q_norm", 0},
    {"self_attn.k_norm", "attn_k_norm", 0},
    MLP,
    NORMS,
    {0},
};
static const Pair gemma_layer[] = {
    {"self_attn.q_proj", "attn_q", 0},
    {"self_attn.k_proj", "attn_k", 0},
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

/* Where several have one name in files, a file is read as the first unless it says more. */
static const GgufArch archs[] = {
    {"llama", "llama", "model.layers.", plain_model, llama_layer},
    {"llama", "mistral", "model.layers.", plain_model, llama_layer},
    {"qwen2", "qwen2", "model.layers.", plain_model, qwen_layer},
    {"qwen3", "qwen3", "model.layers.", plain_model, qwen_layer},
    {"gemma2", "gemma2", "model.layers.", gemma_model, gemma_layer},
    {"gemma3", "gemma3_text", "model.layers.", gemma_model, gemma_layer},
    {"phi3", "phi3", "model.layers.", plain_model, phi3_layer},
    {"gpt2", "gpt2", "transformer.h.", gpt2_model, gpt2_layer},
};
enum { NARCHS = sizeof archs / sizeof *archs };

const GgufArch *gguf_arch(const char *name, size_t n) {
  for (int i = 0; i < NARCHS; i++)
    if (strlen(archs[i].name) == n && memcmp(archs[i].name, name, n) == 0) return &archs[i];
  return NULL;
}

const GgufArch *gguf_arch_of(const char *model_type) {
  for (int i = 0; i < NARCHS; i++)
    if (strcmp(archs[i].model_type, model_type) == 0) return &archs[i];
  return NULL;
}

const char *gguf_arch_name(const GgufArch *a) { return a->name; }
const char *gguf_arch_model_type(const GgufArch *a) { return a->model_type; }

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
  *suffix = strrchr(s, '.');
  if (!*suffix || (strcmp(*suffix, ".weight") != 0 && strcmp(*suffix, ".bias") != 0)) return NULL;
  for (; p->hf; p++) {
    const char *name = hf ? p->hf : p->gguf;
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
  *change = p->change;
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
